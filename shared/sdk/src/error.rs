//! What can go wrong in a step, and what each error means for the run.

use core::fmt;
use core::time::Duration;

use stepwell_core::{Failure, FailureKind, ParkReason, RetryPolicy};

use crate::redact;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// An error with the errors behind it, in one line.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

/// Why a step did not end. Any error converts into one with `?`:
///
/// | error | what becomes of the run |
/// | --- | --- |
/// | any `std` error | the step is retried under its policy |
/// | [`StepError::retry`] | the same |
/// | [`StepError::retry_after`] | the same, not before the time given |
/// | [`StepError::terminal`] | the run fails |
/// | an effect that was not done ([`EffectError::NotDone`]) | the step is retried, under the effect's policy if it has one |
/// | an effect that was refused ([`EffectError::Refused`]) | the run fails, unless the step handles it |
/// | an effect that may have happened ([`EffectError::Unknown`]) | the step is retried, and the outside asked again under the same key |
/// | the same, where asking again is not safe or no use ([`EffectError::Unsettled`]) | the run is parked with the question |
/// | an effect that the step is wrong about ([`EffectError::Misused`]) | the run fails |
/// | a blob or log entry that is missing, or does not fit | the run is parked |
#[derive(Debug)]
pub struct StepError {
    pub(crate) failure: Failure,
    pub(crate) then: Then,
}

/// What becomes of the run after a step's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Retry {
        policy: Option<Box<RetryPolicy>>,
        at_least: Option<Duration>,
    },
    Fail,
    Park(ParkReason),
    /// The run was cancelled while the step ran: it dispatches nothing more.
    Cancelled,
    /// Another worker holds the run: write nothing.
    Lost,
}

impl StepError {
    /// An error that no retry helps: the run fails with this message.
    pub fn terminal(message: impl fmt::Display) -> Self {
        Self { failure: Failure::new(FailureKind::Terminal, redact(message.to_string())), then: Then::Fail }
    }

    /// An error after which the step is tried again under its policy.
    pub fn retry(message: impl fmt::Display) -> Self {
        let failure = Failure::new(FailureKind::Error, redact(message.to_string()));
        Self { failure, then: Then::Retry { policy: None, at_least: None } }
    }

    /// An error after which the step is tried again, not before this much time has passed.
    pub fn retry_after(delay: Duration, message: impl fmt::Display) -> Self {
        let failure = Failure::new(FailureKind::Error, redact(message.to_string()));
        Self { failure, then: Then::Retry { policy: None, at_least: Some(delay) } }
    }

    /// With a code, for `RetryPolicy::never_on` and for people.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.failure = self.failure.with_code(redact(code));
        self
    }

    pub(crate) fn park(reason: ParkReason) -> Self {
        Self { failure: Failure::new(FailureKind::Error, reason.to_string()), then: Then::Park(reason) }
    }
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for StepError {
    fn from(error: E) -> Self {
        let error: Source = Box::new(error);
        match error.downcast::<EffectError>() {
            Ok(effect) => effect.into_step_error(),
            Err(error) => Self::retry(error_chain(&*error)),
        }
    }
}

/// What a call that failed says about the outside. An error that says nothing counts as [`CallError::unknown`]: it may
/// have happened. That is the safe default.
#[derive(Debug)]
pub struct CallError {
    pub(crate) kind: CallErrorKind,
    pub(crate) message: String,
    pub(crate) code: Option<String>,
    pub(crate) at_least: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallErrorKind {
    Retry,
    Refused,
    Unknown,
}

impl CallError {
    fn new(kind: CallErrorKind, message: &dyn fmt::Display) -> Self {
        Self { kind, message: redact(message.to_string()), code: None, at_least: None }
    }

    /// It did not happen, and it may help to call again (the connection was refused, say).
    pub fn retry(message: impl fmt::Display) -> Self {
        Self::new(CallErrorKind::Retry, &message)
    }

    /// The same, not before this much time has passed.
    pub fn retry_after(delay: Duration, message: impl fmt::Display) -> Self {
        Self { at_least: Some(delay), ..Self::retry(message) }
    }

    /// It did not happen and will not (the outside says that the request is wrong).
    pub fn refused(message: impl fmt::Display) -> Self {
        Self::new(CallErrorKind::Refused, &message)
    }

    /// It may have happened (a time-out or a lost connection after the request was sent).
    pub fn unknown(message: impl fmt::Display) -> Self {
        Self::new(CallErrorKind::Unknown, &message)
    }

    /// With a code, for `RetryPolicy::never_on` and for people.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(redact(code));
        self
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for CallError {
    fn from(error: E) -> Self {
        Self::unknown(error_chain(&error))
    }
}

/// Why an effect has no result. With `?` it becomes a [`StepError`], see the table there; or handle it.
#[derive(Debug, thiserror::Error)]
pub enum EffectError {
    /// It did not happen; calling again may help.
    #[error("effect {name} was not done: {message}")]
    NotDone {
        /// Which effect.
        name: String,
        /// What was said.
        message: String,
        /// The author's code.
        code: Option<String>,
        /// Not before this much time has passed.
        at_least: Option<Duration>,
        /// The effect's own retry policy.
        policy: Option<Box<RetryPolicy>>,
    },
    /// It did not happen and will not. Recorded: asking again gives this answer without a call.
    #[error("effect {name} was refused: {message}")]
    Refused {
        /// Which effect.
        name: String,
        /// What was said.
        message: String,
        /// The author's code.
        code: Option<String>,
    },
    /// It may have happened. It is asked again under the same key when the step is retried.
    #[error("effect {name} may have happened: {evidence}")]
    Unknown {
        /// Which effect.
        name: String,
        /// What was seen.
        evidence: String,
        /// The author's code.
        code: Option<String>,
        /// Not before this much time has passed.
        at_least: Option<Duration>,
        /// The effect's own retry policy.
        policy: Option<Box<RetryPolicy>>,
    },
    /// It may have happened, and asking again is not safe any more, or no use: a later call was refused.
    #[error("{0}")]
    Unsettled(ParkReason),
    /// The step is wrong about this effect: the key was used with other parameters, or the recorded result is of another
    /// type. No retry helps.
    #[error("effect {name}: {problem}")]
    Misused {
        /// Which effect.
        name: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Somebody asked to end the run: nothing more is dispatched. Return it.
    #[error("effect {name} was not dispatched: the run is being cancelled")]
    Cancelled {
        /// Which effect.
        name: String,
    },
    /// The engine could not do its part. Return it.
    #[error(transparent)]
    Host(#[from] crate::host::HostError),
}

impl EffectError {
    fn into_step_error(self) -> StepError {
        use crate::host::HostError;
        let message = redact(self.to_string());
        match self {
            Self::NotDone { code, at_least, policy, .. } | Self::Unknown { code, at_least, policy, .. } => {
                let failure = Failure { code, ..Failure::new(FailureKind::Error, message) };
                StepError { failure, then: Then::Retry { policy, at_least } }
            }
            Self::Refused { code, .. } => {
                StepError { failure: Failure { code, ..Failure::new(FailureKind::Refused, message) }, then: Then::Fail }
            }
            Self::Misused { .. } => StepError::terminal(message),
            Self::Unsettled(reason) => StepError::park(reason),
            Self::Cancelled { .. } => {
                StepError { failure: Failure::new(FailureKind::Error, message), then: Then::Cancelled }
            }
            Self::Host(HostError::Lost) => {
                StepError { failure: Failure::new(FailureKind::Error, message), then: Then::Lost }
            }
            Self::Host(HostError::Passing(_)) => StepError::retry(message),
            Self::Host(HostError::Data(what)) => StepError::park(ParkReason::Data { what }),
        }
    }
}
