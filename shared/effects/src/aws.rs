//! What an error of the AWS SDK says about the outside: one table. Each call is one attempt, so there is no earlier one that
//! the last answer says nothing of.

use std::error::Error;
use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use stepwell::{CallError, error_chain};

/// What the SDK is told of each call.
pub(crate) fn one_attempt(deadline: Duration) -> (RetryConfig, TimeoutConfig) {
    (RetryConfig::disabled(), TimeoutConfig::builder().operation_timeout(deadline).build())
}

/// What an error of `operation` on `what` (a queue, a bucket) says.
pub(crate) fn call_error<E>(error: &SdkError<E, HttpResponse>, operation: &str, what: &str) -> CallError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let words = format!("{operation} on {what}: {}", error_chain(error));
    match error {
        SdkError::ConstructionFailure(_) => CallError::refused(words).with_code("aws-request"),
        SdkError::DispatchFailure(failure) => {
            let unsent = failure.as_connector_error().is_none_or(|error| error.is_user() || is_unsent(error));
            if unsent {
                CallError::retry(words).with_code("aws-connect")
            } else {
                CallError::unknown(words).with_code("aws-lost")
            }
        }
        // One with the status of a success is an answer that cannot be read.
        SdkError::ServiceError(service) if !service.raw().status().is_success() => {
            let (status, code) = (service.raw().status().as_u16(), service.err().code().unwrap_or_default());
            let name = if code.is_empty() { format!("http-{status}") } else { format!("aws-{code}") };
            of_service(status, code, words).with_code(name)
        }
        // Time-outs, answers that cannot be read, and what the SDK may add.
        _ => CallError::unknown(words).with_code("aws-lost"),
    }
}

/// The table.
fn of_service(status: u16, code: &str, words: String) -> CallError {
    match code {
        // The service is too busy, or busy with another request for the same, and has not begun. Or it does not take these
        // credentials yet: they are renewed, and clocks are set.
        "ThrottlingException"
        | "Throttling"
        | "RequestThrottled"
        | "RequestLimitExceeded"
        | "TooManyRequestsException"
        | "KMSThrottlingException"
        | "KmsThrottled"
        | "OverLimit"
        | "SlowDown"
        | "OperationAborted"
        | "ConditionalRequestConflict"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "RequestTimeTooSkewed" => CallError::retry(words),
        // Of a body that came too slowly: in part, or in whole.
        "RequestTimeout" => CallError::unknown(words),
        _ if status == 429 => CallError::retry(words),
        _ if (400..500).contains(&status) => CallError::refused(words),
        _ => CallError::unknown(words),
    }
}

/// Whether a request failed before anything was sent: no connection, or no credentials. The SDK's types do not tell; its
/// words do, and a test holds them to it.
fn is_unsent(error: &(dyn Error + 'static)) -> bool {
    let words = error_chain(error);
    ["(Connect)", "HTTP connect timeout", "credential", "identity"].iter().any(|sign| words.contains(sign))
}
