//! The checkpoint: the one item that decides who may do what with a run, and where it goes on.
//!
//! Its parts differ by who may write them:
//!
//! | part | written by | guarded by |
//! | --- | --- | --- |
//! | `run` … `input_digest` | the start | nothing there before |
//! | [`Hold`] | acquire, renew, commit | ticket and lease, then the fence |
//! | [`Progress`] | commit (and a person's amendment, when nobody holds the run) | fence and revision |
//! | [`Mailbox`] | anyone appends, a commit consumes | the signal's id |
//! | `cancel` | anyone, once | not ended |
//! | `due_at` | all of these | rides along |

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::approval::Approval;
use crate::budget::Spent;
use crate::effect::EffectRecord;
use crate::history::Segment;
use crate::ids::{Fence, Revision, RunId, Ticket, WorkerId, WorkflowName, WriteId};
use crate::json::{self, Digest, Json, Payload};
use crate::mailbox::Mailbox;
use crate::status::{Failure, Phase, Status};
use crate::stored;
use crate::time::Timestamp;
use crate::undo::{Undo, Undoing};

/// One run, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which run.
    pub run: RunId,
    /// Which workflow.
    pub workflow: WorkflowName,
    /// When it was started.
    pub started_at: Timestamp,
    /// Digest of the input, so that a second start with the same key can be compared.
    pub input_digest: Digest,
    /// Who may write.
    pub hold: Hold,
    /// Where it stands. Written by the holder alone.
    pub progress: Progress,
    /// Signals.
    pub mailbox: Mailbox,
    /// Somebody asked to end it.
    pub cancel: Option<CancelRequest>,
    /// The watchdog's mark: the sweeper looks at the run after this time. `None`: nothing can be due by itself.
    pub due_at: Option<Timestamp>,
}

/// Who may write to the run, and how often that was tried without success.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Raised at each acquire. Every write of a holder is conditional on it.
    #[serde(rename = "f")]
    pub fence: Fence,
    /// Who works on the run now.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// The last acquire, renewal or commit.
    #[serde(rename = "w")]
    pub write: WriteId,
    /// Acquires since the last commit.
    #[serde(rename = "a")]
    pub acquires: u32,
    /// When the current visit of the step may have run first, attempts whose effects are recorded left out. A holder
    /// that acquired the run later than this knows that an attempt before its own may have called the outside.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub tried_since: Option<Timestamp>,
}

/// Who works on a run, and until when nobody else tries. Clocks decide only that; safety rests on the fence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The worker.
    #[serde(rename = "o")]
    pub owner: WorkerId,
    /// Since when it holds the run without a break.
    #[serde(rename = "s")]
    pub since: Timestamp,
    /// Until when.
    #[serde(rename = "u")]
    pub until: Timestamp,
}

/// How many steps of the run have ended. Names the current visit of a step: a retry is the same visit,
/// a loop that comes back is another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Visit(pub u64);

/// What only the holder writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The message that counts.
    #[serde(rename = "k")]
    pub ticket: Ticket,
    /// Commits so far.
    #[serde(rename = "r")]
    pub revision: Revision,
    /// Steps that have ended.
    #[serde(rename = "n")]
    pub visit: Visit,
    /// Steps that may end before the run is parked.
    #[serde(rename = "m")]
    pub step_limit: u64,
    /// The workflow's version that wrote `place`.
    #[serde(rename = "v")]
    pub version: u32,
    /// Where the run stands in its life.
    #[serde(rename = "s")]
    pub status: Status,
    /// Where the run stands in its workflow.
    #[serde(rename = "p")]
    pub place: Place,
    /// Failed attempts of the current visit.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// Effects of the current visit, kept while it is tried again.
    #[serde(rename = "j", default, skip_serializing_if = "Vec::is_empty")]
    pub journal: Vec<EffectRecord>,
    /// Effects that belong to the run, newest last.
    #[serde(rename = "e", default, skip_serializing_if = "Vec::is_empty")]
    pub ledger: Vec<EffectRecord>,
    /// How often it was brought back after it had failed. What was true of it at an end is true of that life alone.
    #[serde(rename = "l", default, skip_serializing_if = "is_zero_u32")]
    pub lives: u32,
    /// Effects of the run that no longer fit the ledger and are items of their own.
    #[serde(rename = "z", default, skip_serializing_if = "is_zero")]
    pub spilled: u64,
    /// Approvals that were asked for, newest last.
    #[serde(rename = "q", default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Approval>,
    /// Effects to take back if the run fails or is cancelled, newest last.
    #[serde(rename = "b", default, skip_serializing_if = "Vec::is_empty")]
    pub undo: Vec<Undo>,
    /// The run has failed or was cancelled, and takes back what it has done.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub undoing: Option<Box<Undoing>>,
    /// What it has spent of its budget.
    #[serde(rename = "c", default, skip_serializing_if = "Spent::is_none")]
    pub spent: Spent,
    /// Logs the run has stored.
    #[serde(rename = "g", default, skip_serializing_if = "is_zero_u32")]
    pub logs: u32,
    /// The last history entries.
    #[serde(rename = "h")]
    pub tail: Segment,
    /// What the run has used.
    #[serde(rename = "u")]
    pub usage: Usage,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this signature")]
fn is_zero_u32(number: &u32) -> bool {
    *number == 0
}

/// Where the run stands in its workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// Not begun: the input.
    #[serde(rename = "i")]
    Fresh {
        /// The input.
        #[serde(rename = "i")]
        input: Payload,
        /// The step to run with the state that the input gives, where that is not the first: something is taken back.
        #[serde(rename = "c", default, deserialize_with = "json::given", skip_serializing_if = "Option::is_none")]
        at: Option<Json>,
    },
    /// The step that runs next, and what the run knows.
    #[serde(rename = "c")]
    At {
        /// The cursor.
        #[serde(rename = "c")]
        cursor: Json,
        /// The state.
        #[serde(rename = "s")]
        state: Payload,
    },
}

impl Place {
    /// Another step with the same state.
    #[must_use]
    pub fn with_step(&self, cursor: Json) -> Self {
        match self {
            Self::Fresh { input, at: _ } => Self::Fresh { input: input.clone(), at: Some(cursor) },
            Self::At { state, cursor: _ } => Self::At { cursor, state: state.clone() },
        }
    }

    /// The step's name: the cursor's variant, `begin` before the first step.
    pub fn step(&self) -> String {
        match self {
            Self::Fresh { at: None, .. } => "begin".to_string(),
            Self::Fresh { at: Some(cursor), .. } | Self::At { cursor, .. } => {
                cursor.variant().unwrap_or_else(|| cursor.text().chars().take(40).collect())
            }
        }
    }
}

/// Failed attempts of the current visit of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// How many.
    #[serde(rename = "a")]
    pub failed: u32,
    /// Tries by code that does not know the run's workflow, version or step. No attempts of the step, so counted apart.
    #[serde(rename = "i", default, skip_serializing_if = "is_zero_u32")]
    pub incompatible: u32,
    /// When the first failed.
    #[serde(rename = "t")]
    pub since: Timestamp,
    /// The last one.
    #[serde(rename = "f")]
    pub last: Failure,
}

/// What a run has used. Counted with each commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Conditional writes by holders: acquires, renewals and commits.
    #[serde(rename = "w")]
    pub writes: u64,
    /// Bytes handed to the store: checkpoints, log entries, history segments and blobs.
    #[serde(rename = "b")]
    pub bytes: u64,
    /// Effects that were called.
    #[serde(rename = "m", default, skip_serializing_if = "is_zero")]
    pub effects_made: u64,
    /// Effects that were answered from the record instead.
    #[serde(rename = "k", default, skip_serializing_if = "is_zero")]
    pub effects_skipped: u64,
    /// Effects that happened.
    #[serde(rename = "s", default, skip_serializing_if = "is_zero")]
    pub effects_confirmed: u64,
    /// Effects that the outside refused for good.
    #[serde(rename = "f", default, skip_serializing_if = "is_zero")]
    pub effects_failed: u64,
    /// Milliseconds spent in steps.
    #[serde(rename = "t")]
    pub step_ms: u64,
}

impl Usage {
    /// Both together.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            writes: self.writes.saturating_add(more.writes),
            bytes: self.bytes.saturating_add(more.bytes),
            effects_made: self.effects_made.saturating_add(more.effects_made),
            effects_skipped: self.effects_skipped.saturating_add(more.effects_skipped),
            effects_confirmed: self.effects_confirmed.saturating_add(more.effects_confirmed),
            effects_failed: self.effects_failed.saturating_add(more.effects_failed),
            step_ms: self.step_ms.saturating_add(more.step_ms),
        }
    }
}

/// Somebody asked to end the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequest {
    /// Who.
    #[serde(rename = "b")]
    pub by: String,
    /// Why.
    #[serde(rename = "y", default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When.
    #[serde(rename = "t")]
    pub at: Timestamp,
}

impl Checkpoint {
    /// Whether somebody holds the run at this time.
    pub fn is_leased(&self, now: Timestamp) -> bool {
        self.hold.lease.as_ref().is_some_and(|lease| lease.until > now)
    }

    /// When an attempt of this visit of the step may have called the outside without leaving a record: its worker died.
    /// `None` when the holder's own attempt is the only one that can have.
    pub fn crashed_since(&self) -> Option<Timestamp> {
        let held_since = self.hold.lease.as_ref()?.since;
        self.hold.tried_since.filter(|tried| *tried < held_since)
    }

    /// Whether somebody has asked for its end, and it has not begun to take back what it has done: nothing more is begun then.
    pub const fn is_to_end(&self) -> bool {
        self.cancel.is_some() && self.progress.undoing.is_none()
    }

    /// Whether it comes to an end that somebody has asked for, or takes back what it has done, or has: it is not paused, repaired or
    /// answered any more.
    pub const fn is_ending(&self) -> bool {
        self.cancel.is_some() || self.progress.undoing.is_some()
    }

    /// What a person sees: `running` while it is held, `cancelling` once that was asked for.
    pub fn phase(&self, now: Timestamp) -> Phase {
        let stored = self.progress.status.phase();
        match stored {
            Phase::Completed | Phase::Failed | Phase::Cancelled | Phase::Parked => stored,
            Phase::Created | Phase::Running | Phase::Waiting | Phase::Retrying | Phase::Cancelling => {
                if self.cancel.is_some() {
                    Phase::Cancelling
                } else if self.is_leased(now) {
                    Phase::Running
                } else {
                    stored
                }
            }
        }
    }

    /// Whether there is something to do: the acquire rule, without ticket and lease.
    pub fn is_due(&self, now: Timestamp) -> bool {
        match &self.progress.status {
            Status::Created | Status::Running => true,
            Status::Retrying { at } => *at <= now || self.cancel.is_some(),
            Status::Waiting(wait) => {
                wait.wakes_at().is_some_and(|at| at <= now) || self.mailbox.seq > wait.seen || self.cancel.is_some()
            }
            Status::Parked { .. } | Status::Completed { .. } | Status::Failed { .. } | Status::Cancelled { .. } => {
                false
            }
        }
    }

    /// The time at which the run becomes due by itself, if it is not due for another reason.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        match &self.progress.status {
            Status::Retrying { at } if self.cancel.is_none() => Some(*at),
            Status::Waiting(wait) if self.cancel.is_none() && self.mailbox.seq <= wait.seen => wait.wakes_at(),
            Status::Created
            | Status::Running
            | Status::Retrying { .. }
            | Status::Waiting(_)
            | Status::Parked { .. }
            | Status::Completed { .. }
            | Status::Failed { .. }
            | Status::Cancelled { .. } => None,
        }
    }

    /// Bytes that the checkpoint takes when stored, without attributes that this code does not know. The size budget is
    /// checked against this.
    pub fn weight(&self) -> usize {
        stored::encode(self, &stored::Unknown::new()).map_or(usize::MAX, |bytes| bytes.len())
    }
}

impl Progress {
    /// Bytes that this takes in a checkpoint.
    pub fn weight(&self) -> usize {
        json::weight(self)
    }
}
