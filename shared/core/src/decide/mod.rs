//! Decisions: from a checkpoint and what happened to the write that follows, and what to do after it.
//!
//! | what happened | decision | where |
//! | --- | --- | --- |
//! | a message was refused by the acquire | [`refused`]: delete, send again, bury | [`mod@message`] |
//! | a run was acquired | [`turn()`]: run the step, or end the turn with a commit | [`mod@turn`] |
//! | a step ended | [`commit()`]: continue, hand off, wait, retry, park, end | [`mod@commit`] |
//! | a step is about to call what cannot be asked twice | [`intend()`]: the write that has to stand first | [`mod@intend`] |
//! | a signal or a cancellation was accepted | [`wake`]: send a message or not | [`mod@message`] |
//! | the sweeper found a run | [`sweep()`]: send a message or not | [`mod@sweep`] |
//! | the queue gave up on a message | [`dead_letter()`]: keep it for a person, delete it, send it again, park its run | [`mod@dead_letter`] |
//! | a person asks for a pause | [`pause()`]: at once, or when the step that runs has ended | [`mod@pause`] |
//! | a person resumes a parked run | [`resume()`] | [`mod@resume`] |
//! | a person repairs a parked or failed run | [`edit()`], [`move_to()`], [`discard()`], [`retry()`] | [`mod@repair`] |
//! | a person says how an effect ended | [`resolve()`] | [`mod@resolve`] |
//! | an effect is about to be dispatched under an approval, or costs something | [`admit()`]: yes, or why not | [`mod@admit`] |
//! | a person answers an approval | [`approve()`] | [`mod@approve`] |
//! | a run fails or is cancelled | what it has done is taken back, then it ends; [`cancel_parked`], [`let_stand`] | [`mod@ending`] |
//!
//! A message is sent only after the write that it speaks of, and the own message is deleted only after that.

pub mod admit;
pub mod approve;
pub mod commit;
pub mod dead_letter;
pub mod ending;
pub mod intend;
pub mod message;
pub mod pause;
pub mod repair;
pub mod resolve;
pub mod resume;
pub mod sweep;
pub mod turn;

use alloc::string::String;
use core::time::Duration;

pub use admit::{NotAdmitted, NotApproved, admit};
pub use approve::{Approve, ApproveRefused, Approved, approve};
pub use commit::{StepEnd, StepOutcome, commit};
pub use dead_letter::{DeadLetter, dead_letter};
pub use ending::{LetStand, LetStandRefused, cancel_parked, let_stand};
pub use intend::intend;
pub use message::{Bury, Verdict, refused, wake};
pub use pause::{Pause, PauseRefused, pause};
pub use repair::{Repair, RepairRefused, discard, edit, move_to, retry};
pub use resolve::{Resolution, Resolve, ResolveRefused, resolve};
pub use resume::{Resume, ResumeRefused, resume, resume_for_evidence};
pub use sweep::{DueRun, sweep};
pub use turn::{Turn, turn};

use crate::checkpoint::{Checkpoint, Lease, Progress};
use crate::history::{Entry, EntryKind, More, Segment};
use crate::ids::{MailboxSeq, SignalId, Ticket};
use crate::limits::{ATTEMPTS_SINCE_PROGRESS_MAX, MESSAGE_DELAY_MAX};
use crate::status::{Phase, Status};
use crate::time::{Timestamp, millis};
use crate::write::{Amend, Commit};

/// What a decision may be told about the moment it is made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time.
    pub now: Timestamp,
    /// An evenly drawn number, for jitter.
    pub random: u64,
}

/// Settings that decisions depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long a lease lasts after an acquire or a commit.
    pub lease: Duration,
    /// Acquires without a commit before the run is parked as poison.
    pub acquires_max: u32,
    /// When the run is as old as its budget allows.
    pub run_ends: Option<Timestamp>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30), acquires_max: ATTEMPTS_SINCE_PROGRESS_MAX, run_ends: None }
    }
}

/// A message to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    /// With this ticket.
    pub ticket: Ticket,
    /// Not to be delivered before this much time has passed; at most [`MESSAGE_DELAY_MAX`].
    pub delay: Duration,
}

/// A commit, and what to do once it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The write.
    pub commit: Commit,
    /// What then.
    pub then: Then,
}

/// What a holder does after its commit was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It still holds the run and goes on with the next step.
    Continue,
    /// It has let go: send this message if there is one, then delete its own.
    HandOff(Option<Send>),
    /// The run is parked or ended: delete its own message.
    Ended,
}

/// A transition that the table does not allow ([`crate::status::may_become`]). Returned, never written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("illegal transition from {from} to {to} at step {step}: this is a defect, please report it")]
pub struct Illegal {
    /// From here.
    pub from: Phase,
    /// To there.
    pub to: Phase,
    /// At this step.
    pub step: String,
}

/// The watchdog's mark for a run that stands so.
///
/// A run that may run now is looked at after the next mark, a sleeping one after the mark that follows its time. A wait
/// for a signal without a deadline has no mark: the signal's own write sets one.
pub fn due_at(status: &Status, now: Timestamp) -> Option<Timestamp> {
    match status {
        Status::Created | Status::Running => Some(now.next_mark()),
        Status::Retrying { at } => Some((*at).max(now).next_mark()),
        Status::Waiting(wait) => wait.wakes_at().map(|at| at.max(now).next_mark()),
        Status::Parked { .. } | Status::Completed { .. } | Status::Failed { .. } | Status::Cancelled { .. } => None,
    }
}

/// The message that wakes a run standing so, unless only the sweeper can (further than [`MESSAGE_DELAY_MAX`]) or only
/// a signal.
fn wake_up(status: &Status, ticket: Ticket, now: Timestamp) -> Option<Send> {
    let at = match status {
        Status::Created | Status::Running => now,
        Status::Retrying { at } => *at,
        Status::Waiting(wait) => wait.wakes_at()?,
        Status::Parked { .. } | Status::Completed { .. } | Status::Failed { .. } | Status::Cancelled { .. } => {
            return None;
        }
    };
    let delay = at.since(now);
    (delay <= MESSAGE_DELAY_MAX).then_some(Send { ticket, delay })
}

/// Who did something and why, as the history notes it.
fn by(who: &str, why: Option<&str>) -> String {
    why.map_or_else(|| alloc::format!("by {who}"), |why| alloc::format!("by {who}: {why}"))
}

/// A commit in the making: the parts that every decision fills in the same way.
struct Draft<'a> {
    before: &'a Checkpoint,
    progress: Progress,
    segment: Option<Segment>,
    now: Timestamp,
}

impl<'a> Draft<'a> {
    fn new(before: &'a Checkpoint, now: Timestamp) -> Self {
        let mut progress = before.progress.clone();
        progress.revision = progress.revision.next();
        Self { before, progress, segment: None, now }
    }

    fn record(&mut self, step: String, kind: EntryKind, took: Duration, more: More) {
        let entry = Entry { step, kind, at: 0, took: millis(took), more };
        self.segment = self.progress.tail.push(self.progress.revision, self.now, entry);
    }

    fn become_status(&mut self, status: Status, step: &str) -> Result<(), Illegal> {
        let from = &self.before.progress.status;
        if !from.may_become(&status) {
            return Err(Illegal { from: from.phase(), to: status.phase(), step: step.into() });
        }
        self.progress.status = status;
        Ok(())
    }

    /// The lease is kept and the next step runs in the same turn.
    fn carry_on(mut self, rules: Rules) -> Decision {
        self.progress.spent.attempts = self.progress.spent.attempts.saturating_add(1);
        let lease = self.before.hold.lease.as_ref();
        let lease = lease.map(|held| Lease { until: self.now.plus(rules.lease), ..held.clone() });
        Decision { commit: self.into_commit(lease, None), then: Then::Continue }
    }

    /// The lease is given back and the ticket raised. `mailbox_seen` makes sure that no signal slips in between.
    fn hand_off(mut self, mailbox_seen: Option<MailboxSeq>) -> Decision {
        self.progress.ticket = self.progress.ticket.next();
        let send = wake_up(&self.progress.status, self.progress.ticket, self.now);
        Decision { commit: self.into_commit(None, mailbox_seen), then: Then::HandOff(send) }
    }

    /// The lease is given back for good.
    fn end(self) -> Decision {
        Decision { commit: self.into_commit(None, None), then: Then::Ended }
    }

    /// Raises the ticket: the message that lets the run go on now.
    fn next_message(&mut self) -> Send {
        self.progress.ticket = self.progress.ticket.next();
        Send { ticket: self.progress.ticket, delay: Duration::ZERO }
    }

    /// For a run that nobody holds. What a crashed attempt may have done stays open.
    fn into_amend(mut self) -> Amend {
        self.progress.spent.attempts = self.before.attempts();
        // What has come meanwhile, a signal or a cancellation, has set its own mark: whoever sent it may have died since.
        let mark = due_at(&self.progress.status, self.now);
        let after = Checkpoint { progress: self.progress.clone(), ..self.before.clone() };
        let due = after.is_due(self.now).then(|| self.now.next_mark());
        Amend {
            after: self.before.progress.revision,
            due_at: mark.into_iter().chain(due).min(),
            progress: self.progress,
            tried_since: self.before.hold.tried_since,
            segment: self.segment,
            consumed: alloc::vec::Vec::new(),
        }
    }

    fn into_commit(self, lease: Option<Lease>, mailbox_seen: Option<MailboxSeq>) -> Commit {
        Commit {
            fence: self.before.hold.fence,
            after: self.before.progress.revision,
            cancel_seen: self.before.cancel.is_some(),
            mailbox_seen,
            due_at: due_at(&self.progress.status, self.now),
            progress: self.progress,
            lease,
            consumed: alloc::vec::Vec::<SignalId>::new(),
            appends: alloc::vec::Vec::new(),
            segment: self.segment,
            spill: alloc::vec::Vec::new(),
        }
    }
}
