//! Errors of the engine and the client, cut by what the caller can do.

use stepwell::{EdgeError, RegistryProblem};
use stepwell_core::decide::{ApproveRefused, Illegal, RepairRefused};
use stepwell_core::{EffectKey, NameError, Phase, Revision, RunId, SignalId, Timestamp, WorkflowName};
use stepwell_ports::{BlobError, QueueError, StoreError};

/// An engine that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The registry is wrong. All its problems.
    #[error("the registry cannot be used: {}", list(.0))]
    Registry(Vec<RegistryProblem>),
}

fn list(problems: &[RegistryProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// What a request to the client can fail with. Unless it says otherwise, nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No such workflow here.
    #[error("there is no workflow {name}; this program knows: {known}")]
    UnknownWorkflow {
        /// What was asked for.
        name: WorkflowName,
        /// What there is.
        known: String,
    },
    /// A value from outside does not fit.
    #[error(transparent)]
    Misfit(#[from] EdgeError),
    /// A name or id that cannot be used.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The value cannot be taken.
    #[error("{0}")]
    Value(String),
    /// There is no such run.
    #[error("there is no run {0}: the id is wrong, or it lies elsewhere")]
    NoSuchRun(RunId),
    /// The key was used for another input.
    #[error("the key was used before, for run {run}, with another input; use a new key, or start with the same input")]
    KeyConflict {
        /// The run that has the key.
        run: RunId,
    },
    /// The run has ended.
    #[error("run {run} is {phase}: it takes no {what} any more")]
    Ended {
        /// Which run.
        run: RunId,
        /// How it ended.
        phase: Phase,
        /// What was asked of it.
        what: &'static str,
    },
    /// The id was used for another signal, which the run has not consumed yet.
    #[error("run {run} holds a signal {id} that says something else; give this one an id of its own")]
    SignalConflict {
        /// Which run.
        run: RunId,
        /// The id.
        id: SignalId,
    },
    /// Its mailbox is full.
    #[error("the mailbox of run {0} is full: it has not consumed what it was sent; try again later, nothing is lost")]
    MailboxFull(RunId),
    /// Only a parked run can be resumed.
    #[error("run {run} is {phase}, not parked: there is nothing to resume")]
    NotParked {
        /// Which run.
        run: RunId,
        /// How it stands.
        phase: Phase,
    },
    /// The effect is settled, or there is none.
    #[error(
        "run {run} has no effect of key {key} that is open: it was settled, or the key is wrong; look at the run again"
    )]
    NotOpen {
        /// Which run.
        run: RunId,
        /// Which key.
        key: EffectKey,
    },
    /// A call may still be on its way.
    #[error("run {run}: the call of effect {key} may still land until {until}; say how it ended after that")]
    OnItsWay {
        /// Which run.
        run: RunId,
        /// Which key.
        key: EffectKey,
        /// Until when.
        until: Timestamp,
    },
    /// The answer to an approval is not taken.
    #[error("run {run}: {why}")]
    NotTaken {
        /// Which run.
        run: RunId,
        /// Why not.
        why: Box<ApproveRefused>,
    },
    /// Only what a parked run could not take back can be let stand.
    #[error("run {run} is {phase}, and not parked while it takes something back: there is nothing to let stand")]
    NotUndoing {
        /// Which run.
        run: RunId,
        /// How it stands.
        phase: Phase,
    },
    /// The run is not repaired.
    #[error("run {run}: {why}")]
    NotRepaired {
        /// Which run.
        run: RunId,
        /// Why not.
        why: Box<RepairRefused>,
    },
    /// A patch that is none, cannot be applied, or leads to what the workflow cannot read.
    #[error("the patch is not taken: {0}")]
    BadPatch(String),
    /// A step that the workflow does not know.
    #[error("the run cannot be moved there: {0}")]
    BadStep(String),
    /// What the run knew then was not kept.
    #[error("run {run} is at revision {}: {}", newest.0, not_kept(*revision, *newest))]
    NotKept {
        /// Which run.
        run: RunId,
        /// Which revision was asked for.
        revision: Revision,
        /// The one that it is at.
        newest: Revision,
    },
    /// Somebody else was faster. Look at the run again.
    #[error("run {0} has moved on since it was looked at; look again, then decide")]
    MovedOn(RunId),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The blob store.
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// The change is written, but its message was not sent.
    #[error(
        "run {run}: the change is written, but no message was sent: {error}; the sweeper wakes the run within minutes"
    )]
    NotSent {
        /// Which run.
        run: RunId,
        /// What the queue said.
        error: QueueError,
    },
    /// The queue, while sweeping.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// A defect.
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

fn not_kept(revision: Revision, newest: Revision) -> String {
    if revision > newest {
        return format!("it has not come to revision {revision} yet");
    }
    format!(
        "what it knew at revision {revision} was not kept: its workflow keeps no states, or a step changed too much"
    )
}

impl ClientError {
    /// A short code for scripts and docs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnknownWorkflow { .. } => "unknown-workflow",
            Self::Misfit(EdgeError::NoSuchSignal { .. }) => "unknown-signal",
            Self::Misfit(EdgeError::Misfit { .. } | EdgeError::TooLarge { .. }) => "misfit",
            Self::SignalConflict { .. } => "signal-conflict",
            Self::Name(_) => "bad-name",
            Self::Value(_) => "bad-value",
            Self::NoSuchRun(_) => "no-such-run",
            Self::KeyConflict { .. } => "key-conflict",
            Self::Ended { .. } => "ended",
            Self::MailboxFull(_) => "mailbox-full",
            Self::NotParked { .. } => "not-parked",
            Self::NotOpen { .. } => "not-open",
            Self::OnItsWay { .. } => "on-its-way",
            Self::NotTaken { why, .. } => match **why {
                ApproveRefused::Ended(_) => "ended",
                ApproveRefused::NoSuch(_) => "no-such-approval",
                ApproveRefused::Replaced { .. } => "replaced",
                ApproveRefused::Expired { .. } => "expired",
                ApproveRefused::NoAuthority { .. } => "no-authority",
                ApproveRefused::Decided { .. } => "decided",
                ApproveRefused::Illegal(_) => "defect",
            },
            Self::NotUndoing { .. } => "not-undoing",
            Self::NotRepaired { why, .. } => match **why {
                RepairRefused::Phase(_) => "not-parked",
                RepairRefused::NotFailed(_) => "not-failed",
                RepairRefused::Stale { .. } => "stale",
                RepairRefused::Ending => "taken-back",
                RepairRefused::NotBegun => "not-begun",
                RepairRefused::Unsettled { .. } => "unsettled",
                RepairRefused::Illegal(_) => "defect",
            },
            Self::BadPatch(_) => "bad-patch",
            Self::BadStep(_) => "bad-step",
            Self::NotKept { .. } => "not-kept",
            Self::MovedOn(_) => "moved-on",
            Self::Store(StoreError::Throttled(_)) => "busy",
            Self::Store(StoreError::Unknown(_)) => "maybe-written",
            Self::Store(StoreError::Invalid(_)) => "refused",
            Self::Store(StoreError::Damaged(_)) | Self::Blob(BlobError::Missing { .. } | BlobError::Altered { .. }) => {
                "damaged"
            }
            Self::Store(StoreError::Unavailable(_)) | Self::Blob(BlobError::Unavailable(_)) | Self::Queue(_) => {
                "unavailable"
            }
            Self::Blob(BlobError::TooLarge { .. }) => "too-large",
            Self::NotSent { .. } => "not-sent",
            Self::Illegal(_) => "defect",
        }
    }

    /// What the caller can do about it.
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::UnknownWorkflow { .. }
            | Self::Misfit(_)
            | Self::Name(_)
            | Self::Value(_)
            | Self::NoSuchRun(_)
            | Self::KeyConflict { .. }
            | Self::SignalConflict { .. }
            | Self::Ended { .. }
            | Self::NotParked { .. }
            | Self::NotOpen { .. }
            | Self::NotTaken { .. }
            | Self::NotUndoing { .. }
            | Self::NotRepaired { .. }
            | Self::BadPatch(_)
            | Self::BadStep(_)
            | Self::NotKept { .. }
            | Self::MovedOn(_)
            | Self::Store(StoreError::Invalid(_))
            | Self::Blob(BlobError::TooLarge { .. }) => Remedy::FixTheInput,
            Self::MailboxFull(_)
            | Self::OnItsWay { .. }
            | Self::Store(StoreError::Throttled(_) | StoreError::Unknown(_) | StoreError::Unavailable(_))
            | Self::Blob(BlobError::Unavailable(_))
            | Self::NotSent { .. }
            | Self::Queue(_) => Remedy::Retry,
            Self::Store(StoreError::Damaged(_))
            | Self::Blob(BlobError::Missing { .. } | BlobError::Altered { .. })
            | Self::Illegal(_) => Remedy::CallAPerson,
        }
    }
}

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Ask again later, unchanged.
    Retry,
    /// Ask for something else.
    FixTheInput,
    /// Somebody has to look.
    CallAPerson,
}

impl Remedy {
    /// The word for it, as in CLI and API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::FixTheInput => "fix-the-input",
            Self::CallAPerson => "call-a-person",
        }
    }
}
