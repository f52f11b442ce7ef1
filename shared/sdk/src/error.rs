//! What can go wrong in a step, and what each error means for the run.

use core::fmt;
use core::time::Duration;

use stepwell_core::budget::{OverBudget, Reached};
use stepwell_core::{Failure, FailureKind, ParkReason, RetryPolicy, RunId};

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
/// | an effect that its approval does not allow ([`EffectError::NotApproved`]) | the run fails, unless the step handles it |
/// | an effect that the budget does not allow ([`EffectError::OverBudget`]) | the run is parked, or fails, as the budget says |
/// | an effect of another run ([`EffectError::Taken`]) | the step is retried |
/// | an effect that a person has signed off as uncertain ([`EffectError::SignedOff`]) | the run fails, unless the step handles it |
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

    /// The same, and it is not asked again before this much time has passed (the outside has named a time).
    pub fn unknown_after(delay: Duration, message: impl fmt::Display) -> Self {
        Self { at_least: Some(delay), ..Self::unknown(message) }
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
    /// Its approval does not allow it: not given, expired, used, or given for something else. Nothing was called. The run fails, unless
    /// the step handles it, say by asking anew.
    #[error("effect {name} was not dispatched: approval {approval} does not allow it: {why}")]
    NotApproved {
        /// Which effect.
        name: String,
        /// Which approval.
        approval: String,
        /// Why not.
        why: String,
    },
    /// The budget does not allow it. Nothing was called. The run is parked or fails, as the budget says.
    #[error("effect {name} was not dispatched: {over}")]
    OverBudget {
        /// Which effect.
        name: String,
        /// Which limit.
        over: OverBudget,
        /// What becomes of the run.
        reached: Reached,
    },
    /// Another run has the key, which is unique across runs, and has not made the effect for sure. Nothing was called; the step is tried
    /// again, and gets that run's result once there is one.
    #[error("effect {name} is run {run}'s, which {how}")]
    Taken {
        /// Which effect.
        name: String,
        /// Whose it is.
        run: RunId,
        /// How it stands there.
        how: String,
        /// The effect's own retry policy.
        policy: Option<Box<RetryPolicy>>,
    },
    /// It may have happened, and a person has signed it off: nobody will know. The run fails, unless the step handles it.
    #[error("effect {name} may have happened, and {by} has signed it off as uncertain")]
    SignedOff {
        /// Which effect.
        name: String,
        /// Who has.
        by: String,
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
            Self::NotApproved { .. } => StepError::terminal(message).with_code("not-approved"),
            Self::SignedOff { .. } => StepError::terminal(message).with_code("signed-off"),
            Self::OverBudget { over, reached: Reached::Park, .. } => StepError::park(ParkReason::Budget(over)),
            Self::OverBudget { reached: Reached::Fail, .. } => {
                StepError { failure: Failure::new(FailureKind::Budget, message), then: Then::Fail }
            }
            Self::Taken { policy, .. } => {
                let failure = Failure::new(FailureKind::Error, message).with_code("taken");
                StepError { failure, then: Then::Retry { policy, at_least: None } }
            }
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
