//! What an error of the SDK means for the caller: one table.
//!
//! The SDK retries inside itself. When its last attempt was throttled, the one before it may still have been carried out;
//! so a write brings a [`Witness`], which has seen every attempt.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::FinalizerInterceptorContextRef;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use stepwell_ports::{BlobError, QueueError, StoreError};

/// What the caller can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Refused for now: back off.
    Busy,
    /// It may have been carried out.
    Maybe,
    /// It will never be taken like this.
    Wrong,
    /// It cannot be reached, or refuses us: a person may have to put something right, then it goes on.
    Away,
}

/// An error, as the table sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) words: String,
}

/// Where a request has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came<'a> {
    /// Never sent.
    Unsent,
    /// Sent, without an answer that can be read.
    Unanswered,
    /// Answered with this status and code.
    Answered(u16, &'a str),
}

impl Fault {
    /// What an error of `operation` means, on `what` (a table, a queue, a bucket).
    pub(crate) fn of<E>(error: &SdkError<E, HttpResponse>, operation: &str, what: &str) -> Self
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let (kind, advice) = table(came(error), error.as_service_error().and_then(|error| error.message()));
        let mut words = format!("{operation} on {what}: {}", chain(error));
        if !advice.is_empty() {
            words = format!("{words}; {}", advice.replace("{operation}", operation).replace("{what}", what));
        }
        Self { kind, words }
    }

    /// The same for a write whose attempts were watched.
    pub(crate) fn seen_by(mut self, witness: &Witness) -> Self {
        if witness.may_have_landed() && self.kind != Kind::Wrong {
            self.kind = Kind::Maybe;
        }
        self
    }

    /// For reads: nothing was changed, so what may have happened does not matter.
    pub(crate) fn of_read(mut self) -> Self {
        if self.kind == Kind::Maybe {
            self.kind = Kind::Away;
        }
        self
    }
}

/// The table.
fn table(came: Came<'_>, message: Option<&str>) -> (Kind, &'static str) {
    let (status, code) = match came {
        Came::Unsent => return (Kind::Away, "check the network, the region, the endpoint and the credentials"),
        Came::Unanswered => return (Kind::Maybe, ""),
        Came::Answered(status, code) => (status, code),
    };
    match code {
        "ProvisionedThroughputExceededException"
        | "ThrottlingException"
        | "Throttling"
        | "RequestLimitExceeded"
        | "TransactionConflictException"
        | "TransactionInProgressException"
        | "RequestThrottled"
        | "TooManyRequestsException"
        | "KMSThrottlingException"
        | "KmsThrottled"
        | "OverLimit"
        | "SlowDown" => (Kind::Busy, ""),
        "ValidationException" if message.is_some_and(|message| message.to_lowercase().contains("item size")) => {
            (Kind::Wrong, "an item takes at most 400 KB: keep large values in a blob")
        }
        "ResourceNotFoundException"
        | "QueueDoesNotExist"
        | "AWS.SimpleQueueService.NonExistentQueue"
        | "NoSuchBucket" => (Kind::Away, "check the name and the region of {what}, and that it was deployed"),
        "AccessDeniedException"
        | "AccessDenied"
        | "AccessDeniedForDependency"
        | "KmsAccessDenied"
        | "KMSAccessDeniedException" => {
            (Kind::Away, "check that the role may {operation} on {what}, and use its key where it has one")
        }
        code if is_bad_credentials(code) => (Kind::Away, "check the credentials and the machine's clock"),
        _ if status >= 500 => (Kind::Maybe, ""),
        _ if status == 429 => (Kind::Busy, ""),
        _ => (Kind::Wrong, ""),
    }
}

/// Codes of credentials, or of a clock, that the service does not take.
pub(crate) fn is_bad_credentials(code: &str) -> bool {
    matches!(
        code,
        "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "SignatureDoesNotMatch"
            | "InvalidAccessKeyId"
            | "InvalidClientTokenId"
            | "IncompleteSignature"
            | "MissingAuthenticationTokenException"
            | "ExpiredTokenException"
            | "ExpiredToken"
            | "RequestTimeTooSkewed"
    )
}

fn came<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Came<'_> {
    match error {
        SdkError::ConstructionFailure(_) => Came::Unsent,
        SdkError::DispatchFailure(failure) => {
            let unsent = failure.as_connector_error().is_none_or(|error| is_unsent(error)) || failure.is_user();
            if unsent { Came::Unsent } else { Came::Unanswered }
        }
        SdkError::ServiceError(service) => {
            Came::Answered(service.raw().status().as_u16(), service.err().code().unwrap_or(""))
        }
        // Time-outs, answers that cannot be read, and what the SDK may add.
        _ => Came::Unanswered,
    }
}

/// Whether a request failed before anything was sent: no connection, or no credentials. The SDK's types do not tell; its
/// words do, and a test holds them to it.
fn is_unsent(error: &(dyn Error + 'static)) -> bool {
    let words = chain(error);
    ["(Connect)", "HTTP connect timeout", "credential", "identity"].iter().any(|sign| words.contains(sign))
}

/// An error and what it was caused by, in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |error| (*error).source());
    causes.fold(error.to_string(), |words, cause| {
        let cause = cause.to_string();
        if words.contains(&cause) { words } else { format!("{words}: {cause}") }
    })
}

/// Watches the attempts of one write: did one of them come far enough that it may have been carried out?
#[derive(Clone, Debug, Default)]
pub(crate) struct Witness(Arc<AtomicBool>);

impl Witness {
    fn may_have_landed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[dyn_dispatch_hint]
impl Intercept for Witness {
    fn name(&self) -> &'static str {
        "Witness"
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(Err(error)) = context.output_or_error() else { return Ok(()) };
        let status = context.response().map_or(u16::MAX, |response| response.status().as_u16());
        let may_have_landed = match error.as_connector_error() {
            Some(connector) => !is_unsent(connector) && !connector.is_user(),
            None if error.is_operation_error() => status >= 500,
            // Anything else is found out before sending: no credentials, no endpoint.
            None => error.is_timeout_error() || error.is_response_error(),
        };
        if may_have_landed {
            self.0.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault.kind {
            Kind::Busy => Self::Throttled(fault.words),
            Kind::Maybe => Self::Unknown(fault.words),
            Kind::Wrong => Self::Invalid(fault.words),
            Kind::Away => Self::Unavailable(fault.words),
        }
    }
}

impl From<Fault> for QueueError {
    fn from(fault: Fault) -> Self {
        match fault.kind {
            Kind::Busy | Kind::Maybe | Kind::Away => Self::Unavailable(fault.words),
            Kind::Wrong => Self::Invalid(fault.words),
        }
    }
}

impl From<Fault> for BlobError {
    /// The port has no word for "never": what is wrong about a blob is found before it is sent.
    fn from(fault: Fault) -> Self {
        Self::Unavailable(fault.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_the_caller_can_do() {
        let rows = [
            (Came::Unsent, Kind::Away),
            (Came::Unanswered, Kind::Maybe),
            (Came::Answered(400, "ProvisionedThroughputExceededException"), Kind::Busy),
            (Came::Answered(400, "ThrottlingException"), Kind::Busy),
            (Came::Answered(400, "TransactionConflictException"), Kind::Busy),
            (Came::Answered(503, "SlowDown"), Kind::Busy),
            (Came::Answered(429, ""), Kind::Busy),
            (Came::Answered(500, "InternalServerError"), Kind::Maybe),
            (Came::Answered(503, "ServiceUnavailable"), Kind::Maybe),
            (Came::Answered(400, "AccessDeniedException"), Kind::Away),
            (Came::Answered(400, "ResourceNotFoundException"), Kind::Away),
            (Came::Answered(400, "QueueDoesNotExist"), Kind::Away),
            (Came::Answered(404, "NoSuchBucket"), Kind::Away),
            (Came::Answered(400, "ExpiredTokenException"), Kind::Away),
            (Came::Answered(400, "ValidationException"), Kind::Wrong),
            (Came::Answered(400, "InvalidMessageContents"), Kind::Wrong),
        ];
        for (came, expected) in rows {
            assert_eq!(table(came, None).0, expected, "{came:?}");
        }
    }

    #[test]
    fn an_item_that_is_too_large_is_said_to_be() {
        let message = "Item size to update has exceeded the maximum allowed size";
        let (kind, advice) = table(Came::Answered(400, "ValidationException"), Some(message));
        assert_eq!(kind, Kind::Wrong);
        assert!(advice.contains("400 KB"), "{advice}");
    }

    #[test]
    fn what_may_have_landed_is_not_said_to_have_not() {
        let fault = |kind| Fault { kind, words: String::new() };
        let witness = Witness::default();
        assert_eq!(fault(Kind::Busy).seen_by(&witness).kind, Kind::Busy);
        witness.0.store(true, Ordering::Relaxed);
        assert_eq!(fault(Kind::Busy).seen_by(&witness).kind, Kind::Maybe);
        assert_eq!(fault(Kind::Away).seen_by(&witness).kind, Kind::Maybe);
        assert_eq!(fault(Kind::Maybe).of_read().kind, Kind::Away);
    }
}
