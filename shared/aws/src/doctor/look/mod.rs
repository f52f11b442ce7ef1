//! Asks AWS, and writes down what it says.

mod attempts;
mod bucket;
mod clock;
mod functions;
mod queues;
mod table;

use std::error::Error;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::ProvideCredentials as _;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use futures_util::future::join;

use super::facts::{Gap, Part, Stack};
use crate::fault::{Fault, is_bad_credentials};
use crate::{Aws, AwsSettings};

/// Until Lambda has answered, tries and all.
const LAMBDA_TIMEOUT: Duration = Duration::from_secs(15);

/// Whether there are credentials; if not, why.
pub(super) async fn credentials(shared: &SdkConfig) -> Result<(), String> {
    let Some(provider) = shared.credentials_provider() else { return Err("nothing provides any".into()) };
    let found = provider.provide_credentials().await;
    found.map(|_| ()).map_err(|error| match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    })
}

pub(super) fn lambda(shared: &SdkConfig) -> aws_sdk_lambda::Client {
    let timeouts = TimeoutConfig::builder().operation_timeout(LAMBDA_TIMEOUT).build();
    let config = aws_sdk_lambda::config::Builder::from(shared).timeout_config(timeouts);
    aws_sdk_lambda::Client::from_conf(config.build())
}

/// Looks at everything. The services are asked side by side, each one thing after the other.
pub(super) async fn stack(aws: &Aws, lambda: &aws_sdk_lambda::Client, settings: AwsSettings) -> Stack {
    let tables = async {
        let (table, clock) = table::look(aws).await;
        (table, clock, table::expiry(aws).await, table::backups(aws).await)
    };
    let queues = async {
        let queue = queues::look(aws, &settings.queue_url).await;
        let dead_letters = queues::look(aws, &settings.dead_letter_url).await;
        let mappings = match &queue {
            Ok(queue) => functions::mappings(lambda, &queue.arn).await,
            Err(gap) => Err(gap.clone()),
        };
        let runner = mappings.iter().flatten().find_map(|mapping| mapping.function.strip_suffix(Part::Runner.suffix()));
        let (functions, loops) = match runner {
            Some(stack) => (functions::all(lambda, stack).await, functions::loops(lambda, stack).await),
            None => (Vec::new(), Vec::new()),
        };
        (queue, dead_letters, mappings, functions, loops)
    };
    let buckets = async {
        let bucket = bucket::look(aws).await;
        (bucket, bucket::closed(aws).await, bucket::encryption(aws).await)
    };
    let tries = async { (attempts::all(aws, &settings).await, attempts::stored(aws).await) };
    let (seen, (buckets, tries)) =
        join(join(Box::pin(tables), Box::pin(queues)), join(Box::pin(buckets), Box::pin(tries))).await;
    let ((table, clock, expiry, backups), (queue, dead_letters, mappings, functions, loops)) = seen;
    let ((bucket, closed, encryption), (attempts, stored)) = (buckets, tries);
    Stack {
        settings,
        clock,
        table,
        expiry,
        backups,
        queue,
        dead_letters,
        bucket,
        closed,
        encryption,
        mappings,
        functions,
        loops,
        attempts,
        stored,
    }
}

/// What an error of `operation` on `what` says about what was looked for.
fn gap<E>(error: &SdkError<E, HttpResponse>, operation: &str, what: &str) -> Gap
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let status = match error {
        SdkError::ServiceError(service) => Some(service.raw().status().as_u16()),
        // Answered, in a form that the SDK cannot read: whoever answers does not know the call.
        SdkError::ResponseError(response) => Some(response.raw().status().as_u16()),
        _ => None,
    };
    let code = error.as_service_error().and_then(|error| error.code()).unwrap_or_default();
    classify(status, code)(Fault::of(error, operation, what).words)
}

/// The table. A status alone is all that an answer to `HEAD` has.
fn classify(status: Option<u16>, code: &str) -> fn(String) -> Gap {
    let Some(status) = status else { return Gap::NoAnswer };
    match code.rsplit('#').next().unwrap_or(code) {
        "ResourceNotFoundException"
        | "TableNotFoundException"
        | "QueueDoesNotExist"
        | "AWS.SimpleQueueService.NonExistentQueue"
        | "NoSuchBucket"
        | "NotFound" => Gap::NotThere,
        code if is_bad_credentials(code) => Gap::BadCredentials,
        code if code.contains("AccessDenied") || matches!(code, "UnauthorizedOperation" | "Forbidden") => {
            Gap::NotPermitted
        }
        _ => match status {
            403 => Gap::NotPermitted,
            500 | 502..=599 => Gap::NoAnswer,
            _ => Gap::NotSupported,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_could_not_be_seen_and_why() {
        type Row = (Option<u16>, &'static str, fn(String) -> Gap);
        let rows: [Row; 16] = [
            (None, "", Gap::NoAnswer),
            (Some(400), "ResourceNotFoundException", Gap::NotThere),
            (Some(400), "AWS.SimpleQueueService.NonExistentQueue", Gap::NotThere),
            (Some(404), "NoSuchBucket", Gap::NotThere),
            (Some(404), "NotFound", Gap::NotThere),
            (Some(400), "AccessDeniedException", Gap::NotPermitted),
            (Some(400), "com.amazonaws.dynamodb#AccessDeniedException", Gap::NotPermitted),
            (Some(400), "KMS.AccessDeniedException", Gap::NotPermitted),
            (Some(403), "", Gap::NotPermitted),
            (Some(403), "SignatureDoesNotMatch", Gap::BadCredentials),
            (Some(400), "ExpiredTokenException", Gap::BadCredentials),
            (Some(400), "UnknownOperationException", Gap::NotSupported),
            (Some(404), "", Gap::NotSupported),
            (Some(501), "NotImplemented", Gap::NotSupported),
            (Some(503), "ServiceUnavailable", Gap::NoAnswer),
            (Some(500), "", Gap::NoAnswer),
        ];
        for (status, code, expected) in rows {
            let words = || "w".to_owned();
            assert_eq!(classify(status, code)(words()), expected(words()), "{status:?} {code}");
        }
    }
}
