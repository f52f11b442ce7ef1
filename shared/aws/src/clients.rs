//! The clients: built once, with time-outs and retries that are said.

use core::time::Duration;
use std::env;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_sdk_s3::config::ResponseChecksumValidation;

/// Attempts of one request, the first included. The engine repeats a write on top of it, under the same write id.
const ATTEMPTS_MAX: u32 = 3;

/// Until a connection stands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Until DynamoDB has answered one attempt: it does in some milliseconds, or not at all.
const TABLE_TIMEOUT: Duration = Duration::from_secs(3);

/// Until SQS has answered one attempt: a receive waits for up to 20 seconds.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(25);

/// Until S3 begins to answer one attempt.
const BLOB_TIMEOUT: Duration = Duration::from_secs(30);

/// The variable that points S3 alone to another endpoint. The SDK reads it; here it says how buckets are named.
const S3_ENDPOINT: &str = "AWS_ENDPOINT_URL_S3";

/// What all clients share: region, credentials and endpoints as the environment says.
pub(crate) async fn shared() -> SdkConfig {
    let retry = RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX);
    aws_config::defaults(BehaviorVersion::v2026_01_12()).retry_config(retry).load().await
}

pub(crate) fn dynamodb(shared: &SdkConfig) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::config::Builder::from(shared).timeout_config(timeouts(TABLE_TIMEOUT));
    aws_sdk_dynamodb::Client::from_conf(config.build())
}

pub(crate) fn sqs(shared: &SdkConfig) -> aws_sdk_sqs::Client {
    let config = aws_sdk_sqs::config::Builder::from(shared).timeout_config(timeouts(QUEUE_TIMEOUT));
    aws_sdk_sqs::Client::from_conf(config.build())
}

pub(crate) fn s3(shared: &SdkConfig) -> aws_sdk_s3::Client {
    // What stands in for S3 has no host name for each bucket.
    let stands_in = shared.endpoint_url().is_some() || env::var_os(S3_ENDPOINT).is_some();
    let config = aws_sdk_s3::config::Builder::from(shared)
        .timeout_config(timeouts(BLOB_TIMEOUT))
        .force_path_style(stands_in)
        // A blob is checked against its own digest, which also says what was altered.
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    aws_sdk_s3::Client::from_conf(config.build())
}

/// One attempt is bounded by its answer, not as a whole: a bounded whole would hide from the SDK's interceptors whether an
/// attempt was sent.
fn timeouts(answer: Duration) -> TimeoutConfig {
    TimeoutConfig::builder().connect_timeout(CONNECT_TIMEOUT).read_timeout(answer).build()
}

/// Waits before another round: 25 ms, then twice as long each time, half of it drawn by chance.
pub(crate) async fn pause(round: u32) {
    let longest = 25_u64 << round.min(6);
    tokio::time::sleep(Duration::from_millis(longest / 2 + fastrand::u64(..=longest / 2))).await;
}
