//! Where a run stands in its life, and which changes of that are legal.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::approval::ApprovalId;
use crate::budget::OverBudget;
use crate::ids::{MailboxSeq, SignalName};
use crate::json::Payload;
use crate::limits::FAILURE_MESSAGE_BYTES_MAX;
use crate::time::Timestamp;
use crate::undo::CertifiedEffect;

/// Where a run stands. Each state owns the data that only it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// Stored, no step has ended yet.
    #[serde(rename = "new")]
    Created,
    /// The next step may run: a message with the current ticket is in the queue, or a worker holds the lease.
    #[serde(rename = "run")]
    Running,
    /// The next step runs when a signal arrives or a time comes.
    #[serde(rename = "wait")]
    Waiting(Wait),
    /// The step failed and is tried again.
    #[serde(rename = "retry")]
    Retrying {
        /// Not before this time.
        at: Timestamp,
    },
    /// The engine does not touch the run until a person or a deploy says so.
    #[serde(rename = "park")]
    Parked {
        /// Why.
        reason: ParkReason,
        /// Since when.
        at: Timestamp,
    },
    /// Ended with a result.
    #[serde(rename = "done")]
    Completed {
        /// The result.
        output: Payload,
        /// When.
        at: Timestamp,
    },
    /// Ended without one.
    #[serde(rename = "fail")]
    Failed {
        /// What went wrong.
        failure: Failure,
        /// When.
        at: Timestamp,
    },
    /// Ended because somebody asked for it.
    #[serde(rename = "cancel")]
    Cancelled {
        /// What is known of the run's effects.
        certificate: Certificate,
        /// When.
        at: Timestamp,
    },
}

/// What a waiting run waits for: any of some signals, a time, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// Any of these signals ends the wait.
    #[serde(rename = "on", default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<SignalName>,
    /// An answer to this approval ends the wait, once it is decided.
    #[serde(rename = "ap", default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// The wait ends by itself at this time. `None` was written on purpose by the author.
    #[serde(rename = "by", default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The run is looked at by then, since it may not become older: its budget ends. That does not end the wait.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub budget_ends: Option<Timestamp>,
    /// Signals up to this one were looked at and did not end the wait.
    #[serde(rename = "s")]
    pub seen: MailboxSeq,
}

impl Wait {
    /// Whether its time has come.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// When it has to be looked at, if nothing comes before.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        self.until.into_iter().chain(self.budget_ends).min()
    }
}

/// [`Status`] without its data: what lists and people see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Stored, nothing has run.
    Created,
    /// The next step may run, or runs.
    Running,
    /// Waits for a signal or a time.
    Waiting,
    /// A failed step is tried again later.
    Retrying,
    /// Left alone until a person or a deploy says so.
    Parked,
    /// A cancellation was asked for and is not done yet.
    Cancelling,
    /// Ended with a result.
    Completed,
    /// Ended without one.
    Failed,
    /// Ended on request.
    Cancelled,
}

impl Phase {
    /// All of them, in the order of a run's life.
    pub const ALL: [Self; 9] = [
        Self::Created,
        Self::Running,
        Self::Waiting,
        Self::Retrying,
        Self::Parked,
        Self::Cancelling,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The word for it, as in CLI, API and index.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Retrying => "retrying",
            Self::Parked => "parked",
            Self::Cancelling => "cancelling",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The phase of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == name)
    }

    /// Whether the run has ended: nothing will change any more.
    pub const fn is_ended(self) -> bool {
        match self {
            Self::Completed | Self::Failed | Self::Cancelled => true,
            Self::Created | Self::Running | Self::Waiting | Self::Retrying | Self::Parked | Self::Cancelling => false,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Status {
    /// Without the data.
    pub const fn phase(&self) -> Phase {
        match self {
            Self::Created => Phase::Created,
            Self::Running => Phase::Running,
            Self::Waiting(_) => Phase::Waiting,
            Self::Retrying { .. } => Phase::Retrying,
            Self::Parked { .. } => Phase::Parked,
            Self::Completed { .. } => Phase::Completed,
            Self::Failed { .. } => Phase::Failed,
            Self::Cancelled { .. } => Phase::Cancelled,
        }
    }

    /// Whether a worker may take the run up at some time: neither ended nor parked.
    pub const fn is_live(&self) -> bool {
        match self {
            Self::Created | Self::Running | Self::Waiting(_) | Self::Retrying { .. } => true,
            Self::Parked { .. } | Self::Completed { .. } | Self::Failed { .. } | Self::Cancelled { .. } => false,
        }
    }

    /// The table of legal transitions. A live run may go anywhere but back to `created`; a parked one is only
    /// resumed, or ended by hand; an ended one stays as it is. The one exception is a person's: a failed run that is repaired
    /// ([`mod@crate::decide::repair`]) may run again, or is parked.
    ///
    /// ```
    /// use stepwell_core::Phase;
    /// use stepwell_core::status::may_become;
    /// assert!(may_become(Phase::Waiting, Phase::Running));
    /// assert!(!may_become(Phase::Completed, Phase::Cancelled));
    /// ```
    pub const fn may_become(&self, next: &Self) -> bool {
        may_become(self.phase(), next.phase())
    }
}

/// The table of legal transitions, see [`Status::may_become`].
pub const fn may_become(from: Phase, to: Phase) -> bool {
    match from {
        Phase::Created | Phase::Running | Phase::Waiting | Phase::Retrying | Phase::Cancelling => {
            !matches!(to, Phase::Created)
        }
        Phase::Parked => matches!(to, Phase::Running | Phase::Waiting | Phase::Failed | Phase::Cancelled),
        Phase::Completed | Phase::Failed | Phase::Cancelled => false,
    }
}

/// Why a run was parked. Parking keeps everything that resuming needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParkReason {
    /// It was acquired again and again without one commit: its step kills the worker.
    #[serde(rename = "poison")]
    Poison {
        /// Acquires since the last commit.
        #[serde(rename = "a")]
        acquires: u32,
    },
    /// The code that runs does not know this run's workflow, version or step.
    #[serde(rename = "incompatible")]
    Incompatible {
        /// What is missing.
        #[serde(rename = "w")]
        missing: String,
    },
    /// It has made as many steps as it may.
    #[serde(rename = "steps")]
    StepLimit {
        /// How many that is.
        #[serde(rename = "l")]
        limit: u64,
    },
    /// Something it refers to is missing or altered, or what it produced cannot be stored.
    #[serde(rename = "data")]
    Data {
        /// What, and where.
        #[serde(rename = "w")]
        what: String,
    },
    /// An effect may have happened, and asking again is not safe any more.
    #[serde(rename = "unknown")]
    UnknownOutcome {
        /// Which effect, and what is known.
        #[serde(rename = "w")]
        what: String,
    },
    /// It has spent its budget.
    #[serde(rename = "budget")]
    Budget(OverBudget),
    /// Something that it did cannot be taken back.
    #[serde(rename = "undo")]
    Undo {
        /// What, why, and what stands before it.
        #[serde(rename = "w")]
        what: String,
    },
    /// A person has asked for it.
    #[serde(rename = "pause")]
    Paused {
        /// Who, and why.
        #[serde(rename = "w")]
        what: String,
    },
}

impl ParkReason {
    /// The code for it, as in CLI and docs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Poison { .. } => "poison",
            Self::Incompatible { .. } => "incompatible",
            Self::StepLimit { .. } => "step-limit",
            Self::Data { .. } => "data",
            Self::UnknownOutcome { .. } => "unknown-outcome",
            Self::Budget(_) => "budget",
            Self::Undo { .. } => "undo",
            Self::Paused { .. } => "paused",
        }
    }
}

impl fmt::Display for ParkReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poison { acquires } => write!(
                f,
                "acquired {acquires} times without one commit: the step kills its worker; mend the code or the input, then resume"
            ),
            Self::Incompatible { missing } => {
                write!(f, "{missing}; deploy code that knows it or register a migration, then resume")
            }
            Self::StepLimit { limit } => {
                write!(f, "reached its limit of {limit} steps; if that is right, resume to allow as many again")
            }
            Self::Data { what } => write!(f, "{what}; once that is mended, resume"),
            Self::UnknownOutcome { what } => {
                write!(f, "{what}; find out whether it happened, and say so with `resolve`")
            }
            Self::Budget(over) => {
                let more = over.more();
                write!(f, "{over}; if that is right, resume, which allows {more} more; if not, edit it or cancel it")
            }
            Self::Undo { what } => {
                write!(f, "{what}; mend that and resume, or take it back by hand and say so with `let-stand`")
            }
            Self::Paused { what } => write!(f, "paused {what}; resume when it may go on"),
        }
    }
}

/// What went wrong, in words a person can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of thing.
    #[serde(rename = "k")]
    pub kind: FailureKind,
    /// The author's code for it, where one was given.
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What happened, at most [`FAILURE_MESSAGE_BYTES_MAX`] bytes.
    #[serde(rename = "m")]
    pub message: String,
}

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The step returned an error.
    Error,
    /// The step said that no retry helps.
    Terminal,
    /// The step panicked.
    Panic,
    /// The step took longer than it may.
    Timeout,
    /// The outside refused an effect for good.
    Refused,
    /// The input does not fit the workflow.
    Input,
    /// The running code does not know the run's workflow, version or step.
    Incompatible,
    /// Its budget does not allow it.
    Budget,
    /// The effect was never sent: the run was cancelled first, or the outside has said that it knows of no such call.
    NotSent,
    /// A person has given the run up.
    Discarded,
}

impl FailureKind {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Terminal => "terminal",
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Input => "input",
            Self::Incompatible => "incompatible",
            Self::Budget => "budget",
            Self::NotSent => "not-sent",
            Self::Discarded => "discarded",
        }
    }
}

impl Failure {
    /// A failure without a code. A longer message is cut, at a character's edge.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if message.len() > FAILURE_MESSAGE_BYTES_MAX {
            let edge = (0..=FAILURE_MESSAGE_BYTES_MAX - 3).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
            message.truncate(edge);
            message.push('…');
        }
        Self { kind, code: None, message }
    }

    /// With the author's code.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{}: {} [{code}]", self.kind.as_str(), self.message),
            None => write!(f, "{}: {}", self.kind.as_str(), self.message),
        }
    }
}

/// The end of a cancelled run: what is known of its effects. What may have happened is listed, not guessed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// Effects that happened, in all steps.
    #[serde(rename = "s")]
    pub confirmed: u64,
    /// Effects that the outside refused for good, in all steps.
    #[serde(rename = "f")]
    pub failed: u64,
    /// Effects that may have happened. A person has signed each of them off.
    #[serde(rename = "u", default, skip_serializing_if = "Vec::is_empty")]
    pub uncertain: Vec<CertifiedEffect>,
    /// Calls that the cancellation came before: they were never sent.
    #[serde(rename = "n", default, skip_serializing_if = "Vec::is_empty")]
    pub never_sent: Vec<CertifiedEffect>,
    /// Effects that happened and were taken back, in that order.
    #[serde(rename = "b", default, skip_serializing_if = "Vec::is_empty")]
    pub undone: Vec<CertifiedEffect>,
    /// Effects that could not be taken back, and that a person has let stand.
    #[serde(rename = "y", default, skip_serializing_if = "Vec::is_empty")]
    pub stands: Vec<CertifiedEffect>,
    /// The step that was never finished.
    #[serde(rename = "at")]
    pub step: String,
    /// Since when an attempt of that step, whose worker died, may have called the outside without leaving a record.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub lost_attempt: Option<Timestamp>,
}
