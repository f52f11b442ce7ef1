//! Writes: each is one conditional write on one checkpoint. [`apply`] is the definition of every one of them.
//!
//! A backend translates [`Write`] into its own conditional write (an `UpdateItem` with a condition expression, an
//! `UPDATE … WHERE`), or runs [`apply`] inside a transaction. Both must give the same answer; the conformance suite
//! compares them write by write.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::budget::Spent;
use crate::checkpoint::{CancelRequest, Checkpoint, Hold, Lease, Place, Progress, Usage, Visit};
use crate::effect::EffectRecord;
use crate::history::Segment;
use crate::ids::{Fence, LogId, MailboxSeq, Revision, RunId, SignalId, Ticket, WorkflowName, WriteId};
use crate::json::{Digest, Json, Payload};
use crate::mailbox::{Letter, Mailbox};
use crate::status::{Phase, Status};
use crate::time::Timestamp;

/// One conditional write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteRequest {
    /// On which run.
    pub run: RunId,
    /// Identifies this request. A retry under the same id which meets its own first try is a success.
    pub id: WriteId,
    /// The writer's time. Conditions on leases and timers compare with it.
    pub now: Timestamp,
    /// What.
    pub write: Write,
}

/// What to write, under which condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Create the run. Condition: there is none of this id.
    Start(Box<Start>),
    /// Take the lease. Condition: live, this ticket, no live lease, due.
    Acquire(Acquire),
    /// Extend the lease. Condition: this fence, lease not given back.
    Renew(Renew),
    /// Write the progress of a step. Condition: this fence, this revision, the same answer to "is it cancelled?", and
    /// where asked the same mailbox.
    Commit(Box<Commit>),
    /// Put a signal into the mailbox. Condition: not ended, id not seen, room for it.
    Signal(Box<Letter>),
    /// Ask for the end of the run. Condition: not ended. The first request stands.
    Cancel(CancelRequest),
    /// Change the progress by hand. Condition: this revision, no live lease, not ended; or failed, and not ended afterwards.
    Amend(Box<Amend>),
}

impl Write {
    /// Whether it brings values of the workflow along, and so can make the checkpoint too large. Only such a write is ever
    /// refused for size: a run at the limit must still be taken up, and ended.
    pub const fn brings_values(&self) -> bool {
        match self {
            Self::Start(_) | Self::Commit(_) | Self::Signal(_) | Self::Amend(_) => true,
            Self::Acquire(_) | Self::Renew(_) | Self::Cancel(_) => false,
        }
    }
}

/// What a new run is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The workflow.
    pub workflow: WorkflowName,
    /// Its version.
    pub version: u32,
    /// The input.
    pub input: Payload,
    /// Digest of the input in canonical form.
    pub input_digest: Digest,
    /// Steps that may end before the run is parked.
    pub step_limit: u64,
}

/// See [`Write::Acquire`]. The answer is the checkpoint: acquiring is loading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acquire {
    /// The ticket of the message at hand.
    pub ticket: Ticket,
    /// The lease to take.
    pub lease: Lease,
}

/// See [`Write::Renew`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renew {
    /// The holder's fence.
    pub fence: Fence,
    /// The new end of the lease; an earlier one than it has changes nothing.
    pub until: Timestamp,
}

/// See [`Write::Commit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The holder's fence.
    pub fence: Fence,
    /// The revision this follows.
    pub after: Revision,
    /// Whether the holder knows of a cancellation.
    pub cancel_seen: bool,
    /// Where set, no signal may have arrived since this one.
    pub mailbox_seen: Option<MailboxSeq>,
    /// The new progress.
    pub progress: Progress,
    /// The lease afterwards: kept and extended, or given back.
    pub lease: Option<Lease>,
    /// The watchdog's mark afterwards.
    pub due_at: Option<Timestamp>,
    /// Signals that the step consumed.
    pub consumed: Vec<SignalId>,
    /// Entries appended to logs. They count only once the state that is written here says so.
    pub appends: Vec<LogAppend>,
    /// History that no longer fits the checkpoint.
    pub segment: Option<Segment>,
    /// Effects of the run that no longer fit the ledger.
    pub spill: Vec<EffectRecord>,
}

/// Entries for one log. Written over what a crashed step may have left in their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogAppend {
    /// Which log.
    pub log: LogId,
    /// Position of the first entry.
    pub first: u64,
    /// The entries.
    pub entries: Vec<Json>,
}

/// See [`Write::Amend`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amend {
    /// The revision that was looked at.
    pub after: Revision,
    /// The new progress.
    pub progress: Progress,
    /// Since when crashed attempts may have called the outside, afterwards ([`Hold::tried_since`]). Only a person's word on
    /// their effects clears it.
    pub tried_since: Option<Timestamp>,
    /// The watchdog's mark afterwards.
    pub due_at: Option<Timestamp>,
    /// History that no longer fits the checkpoint.
    pub segment: Option<Segment>,
    /// Letters that it has read.
    pub consumed: Vec<SignalId>,
}

/// Why a write's condition does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such run.
    #[error("there is no such run")]
    NoSuchRun,
    /// A run of this id is there already.
    #[error("a run of this id is there already")]
    Exists,
    /// The run has ended.
    #[error("the run has ended")]
    Ended,
    /// The run is parked.
    #[error("the run is parked")]
    Parked,
    /// The ticket is not the current one.
    #[error("the ticket is not the current one")]
    Ticket,
    /// Somebody holds the run.
    #[error("somebody holds the run")]
    Leased,
    /// There is nothing to do yet.
    #[error("the run is not due")]
    NotDue,
    /// Another worker has acquired the run since.
    #[error("fenced: another worker has acquired the run since")]
    Fenced,
    /// The lease was given back.
    #[error("the lease was given back")]
    Released,
    /// Something was committed since.
    #[error("the run has moved on since it was looked at")]
    Revision,
    /// Somebody asked for the end of the run meanwhile.
    #[error("the run was cancelled meanwhile")]
    Cancelled,
    /// A signal arrived meanwhile.
    #[error("a signal arrived meanwhile")]
    MailboxMoved,
    /// This signal was accepted before.
    #[error("this signal was accepted before")]
    Duplicate,
    /// No room for another signal.
    #[error("the mailbox is full")]
    MailboxFull,
}

/// Whether the condition of a write holds.
pub fn check(current: Option<&Checkpoint>, request: &WriteRequest) -> Result<(), Refusal> {
    let current = match (&request.write, current) {
        (Write::Start(_), None) => return Ok(()),
        (Write::Start(_), Some(_)) => return Err(Refusal::Exists),
        (_, None) => return Err(Refusal::NoSuchRun),
        (_, Some(current)) => current,
    };
    let (progress, now) = (&current.progress, request.now);
    let when = |holds: bool, refusal: Refusal| if holds { Ok(()) } else { Err(refusal) };
    let phase = progress.status.phase();
    match &request.write {
        Write::Start(_) => Err(Refusal::Exists),
        Write::Acquire(acquire) => {
            when(!phase.is_ended(), Refusal::Ended)?;
            when(progress.status.is_live(), Refusal::Parked)?;
            when(progress.ticket == acquire.ticket, Refusal::Ticket)?;
            when(!current.is_leased(now), Refusal::Leased)?;
            when(current.is_due(now), Refusal::NotDue)
        }
        Write::Renew(renew) => {
            when(current.hold.fence == renew.fence, Refusal::Fenced)?;
            when(current.hold.lease.is_some(), Refusal::Released)
        }
        Write::Commit(commit) => {
            when(current.hold.fence == commit.fence, Refusal::Fenced)?;
            when(current.hold.lease.is_some(), Refusal::Released)?;
            when(progress.revision == commit.after, Refusal::Revision)?;
            when(current.cancel.is_some() == commit.cancel_seen, Refusal::Cancelled)?;
            when(commit.mailbox_seen.is_none_or(|seen| current.mailbox.seq == seen), Refusal::MailboxMoved)
        }
        Write::Signal(letter) => {
            when(!current.mailbox.knows(&letter.id), Refusal::Duplicate)?;
            when(!phase.is_ended(), Refusal::Ended)?;
            when(current.mailbox.has_room_for(&letter.payload), Refusal::MailboxFull)
        }
        Write::Cancel(_) => when(!phase.is_ended(), Refusal::Ended),
        Write::Amend(amend) => {
            let reopened = phase == Phase::Failed && !amend.progress.status.phase().is_ended();
            when(!phase.is_ended() || reopened, Refusal::Ended)?;
            when(!current.is_leased(now), Refusal::Leased)?;
            when(progress.revision == amend.after, Refusal::Revision)
        }
    }
}

/// Whether this very request was applied already: a retry that meets its own first try.
pub fn is_applied(current: &Checkpoint, request: &WriteRequest) -> bool {
    match &request.write {
        Write::Start(_) | Write::Acquire(_) | Write::Renew(_) | Write::Commit(_) | Write::Amend(_) => {
            current.hold.write == request.id
        }
        // These carry their own identity: a repeated signal is a duplicate, a repeated cancellation changes nothing.
        Write::Signal(_) | Write::Cancel(_) => false,
    }
}

/// What a write does: the checkpoint after it, or why it is refused. A request that was applied already is answered
/// with the checkpoint as it stands.
pub fn apply(current: Option<&Checkpoint>, request: &WriteRequest) -> Result<Checkpoint, Refusal> {
    if let Some(current) = current.filter(|current| is_applied(current, request)) {
        return Ok(current.clone());
    }
    check(current, request)?;
    let (run, id, now) = (&request.run, request.id, request.now);
    if let Write::Start(start) = &request.write {
        return Ok(started(run, id, now, start));
    }
    let mut next = current.cloned().ok_or(Refusal::NoSuchRun)?;
    match &request.write {
        Write::Start(_) => return Err(Refusal::Exists),
        Write::Acquire(acquire) => {
            next.hold = Hold {
                fence: next.hold.fence.next(),
                lease: Some(acquire.lease.clone()),
                write: id,
                acquires: next.hold.acquires.saturating_add(1),
                tried_since: next.hold.tried_since.or(Some(now)),
            };
        }
        Write::Renew(renew) => {
            next.hold.write = id;
            if let Some(lease) = &mut next.hold.lease {
                lease.until = lease.until.max(renew.until);
            }
        }
        Write::Commit(commit) => {
            next.hold = hold_after(&next, commit, id, now);
            next.progress = commit.progress.clone();
            next.due_at = commit.due_at;
            next.mailbox.consume(&commit.consumed);
        }
        Write::Signal(letter) => {
            next.mailbox.accept((**letter).clone());
            next.due_at = Some(now.next_mark());
        }
        Write::Cancel(cancel) => {
            if next.cancel.is_none() {
                next.cancel = Some(cancel.clone());
                next.due_at = Some(now.next_mark());
            }
        }
        Write::Amend(amend) => {
            let fence = next.hold.fence;
            next.hold = Hold { fence, lease: None, write: id, acquires: 0, tried_since: amend.tried_since };
            next.progress = amend.progress.clone();
            next.due_at = amend.due_at;
            next.mailbox.consume(&amend.consumed);
        }
    }
    Ok(next)
}

/// The hold after a commit on `before`.
///
/// A new visit may have run from now on, if its lease is kept. The same visit, given back (a retry), has its holder's own
/// attempt on record now; what an attempt that crashed before may have done stays open. The same visit, held on to (an
/// intent), is in the middle of an attempt: it is no progress, and nothing is settled by it.
pub fn hold_after(before: &Checkpoint, commit: &Commit, id: WriteId, now: Timestamp) -> Hold {
    let same_visit = commit.progress.visit == before.progress.visit;
    let hold = commit.hold_of_new_visit(id, now);
    match (same_visit, &hold.lease) {
        (false, _) => hold,
        (true, None) => Hold { tried_since: before.crashed_since(), ..hold },
        (true, Some(_)) => Hold { tried_since: before.hold.tried_since, acquires: before.hold.acquires, ..hold },
    }
}

impl Commit {
    /// The hold after a commit that ends a visit. It does not depend on the hold before it, so a backend can prepare it.
    pub fn hold_of_new_visit(&self, id: WriteId, now: Timestamp) -> Hold {
        let tried_since = self.lease.as_ref().map(|_| now);
        Hold { fence: self.fence, lease: self.lease.clone(), write: id, acquires: 0, tried_since }
    }
}

fn started(run: &RunId, id: WriteId, now: Timestamp, start: &Start) -> Checkpoint {
    let progress = Progress {
        ticket: Ticket(1),
        revision: Revision(0),
        visit: Visit(0),
        step_limit: start.step_limit,
        version: start.version,
        status: Status::Created,
        place: Place::Fresh { input: start.input.clone(), at: None },
        trouble: None,
        journal: Vec::new(),
        ledger: Vec::new(),
        lives: 0,
        spilled: 0,
        approvals: Vec::new(),
        undo: Vec::new(),
        undoing: None,
        spent: Spent::default(),
        logs: 0,
        tail: Segment::default(),
        usage: Usage::default(),
    };
    Checkpoint {
        run: run.clone(),
        workflow: start.workflow.clone(),
        started_at: now,
        input_digest: start.input_digest,
        hold: Hold { write: id, ..Hold::default() },
        progress,
        mailbox: Mailbox::default(),
        cancel: None,
        due_at: Some(now.next_mark()),
    }
}
