//! The audit: what is wrong with a run as it is stored, held against the invariants of the protocol. It looks, and changes nothing.
//!
//! [`audit`] is told what lies in one checkpoint and, as far as somebody has read it, beside it ([`Beside`]); whoever reads is
//! elsewhere. A run that is well has no finding in any phase, at any time, while it is worked on too: whatever can be seen of a
//! sound run in between two of its writes is no finding. So what is read beside the checkpoint has to be read after it.
//!
//! What cannot be seen from there is not audited: messages in the queue, calls to the outside, effects that were spilled from the
//! ledger (they are found by key alone), and whose a key is that several runs share. Nor are blobs of earlier states, which no run
//! needs to go on, and what blobs refer to that lie in a blob.

mod finding;
mod wake;

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

pub use finding::{Counter, Finding, Referrer};
pub use wake::{WakeSource, wake_source};

use crate::checkpoint::{Checkpoint, Place, Progress};
use crate::decide::commit::open_effects;
use crate::effect::{EffectRecord, Outcome};
use crate::history::{EntryKind, Segment};
use crate::ids::{LogId, Revision};
use crate::invariants;
use crate::json::{BlobRef, Json, Payload};
use crate::mailbox::{EVIDENCE, PAUSE};
use crate::status::Status;
use crate::time::Timestamp;
use crate::undo::Cause;

/// What was found beside a checkpoint, read after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Its history's segments. `None`: they were not read.
    pub history: Option<Recorded>,
    /// Blobs that are not as they were stored.
    pub blobs: Vec<BadBlob>,
    /// Its logs, as far as they were read.
    pub logs: Vec<LogFound>,
}

/// A blob that is not as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadBlob {
    /// Which.
    pub blob: BlobRef,
    /// What refers to it.
    pub of: Referrer,
    /// What was found. `None`: nothing.
    pub found: Option<String>,
}

/// A log as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFound {
    /// Which.
    pub log: LogId,
    /// How many of its entries count.
    pub counted: u64,
    /// How many are there, in a row from the first, of those that count.
    pub found: u64,
}

/// A run's history segments, taken in one after the other: it grows with what is missing, never with what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The revision that comes next.
    next: Revision,
    gaps: Vec<(Revision, Revision)>,
    visits: Visits,
}

/// How many steps have ended, as far as entries say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Visits {
    least: u64,
    most: u64,
}

impl Default for Recorded {
    fn default() -> Self {
        Self { next: FIRST, gaps: Vec::new(), visits: Visits::default() }
    }
}

/// The revision that the first commit makes.
const FIRST: Revision = Revision(1);

impl Recorded {
    /// Takes in the next segment, of a run whose tail begins at `tail`. A commit that was never made may have left the tail behind as a
    /// segment, and one that was made since: what is not before the tail is none of this.
    pub fn add(&mut self, segment: &Segment, tail: Revision) {
        if segment.from >= tail {
            return;
        }
        if segment.from > self.next {
            self.gaps.push((self.next, segment.from));
        }
        let entries = segment.entries.iter().zip(segment.from.0..);
        for (entry, _) in entries.filter(|(_, revision)| (self.next.0..tail.0).contains(revision)) {
            self.visits.add(entry.kind);
        }
        self.next = self.next.max(segment.end());
    }

    /// Where the next segment begins.
    pub const fn next(&self) -> Revision {
        self.next
    }
}

impl Visits {
    fn add(&mut self, kind: EntryKind) {
        let (least, most) = match kind {
            EntryKind::Stepped
            | EntryKind::Waited
            | EntryKind::Undone
            | EntryKind::LetStand
            | EntryKind::Moved
            | EntryKind::Completed
            | EntryKind::Undoing => (1, 1),
            // A step may have ended with it, or not.
            EntryKind::Parked | EntryKind::Cancelled => (0, 1),
            EntryKind::LookedUp
            | EntryKind::Intended
            | EntryKind::Retried
            | EntryKind::Resumed
            | EntryKind::Resolved
            | EntryKind::Answered
            | EntryKind::Edited
            | EntryKind::Reopened
            | EntryKind::Failed => (0, 0),
        };
        (self.least, self.most) = (self.least + least, self.most + most);
    }
}

/// Everything that is wrong with a run, as it was read at `now`. `grace`: for how long after a sweep should have found it a run may have
/// something to do and nobody working on it. A sweep reminds once in a quarter of an hour at least, so less than that is too little.
pub fn audit(checkpoint: &Checkpoint, beside: &Beside, now: Timestamp, grace: Duration) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Err(broken) = invariants::check(checkpoint) {
        found.push(Finding::Contradiction { rule: broken.number, what: broken.what });
    }
    waking(checkpoint, now, grace, &mut found);
    mailbox(checkpoint, now, grace, &mut found);
    effects(checkpoint, now, grace, &mut found);
    ending(checkpoint, &mut found);
    counters(checkpoint, &mut found);
    if let Some(recorded) = &beside.history {
        history(checkpoint, recorded, &mut found);
    }
    found.extend(beside.blobs.iter().map(|BadBlob { blob, of, found }| match found {
        None => Finding::MissingBlob { key: blob.key.clone(), of: *of },
        Some(found) => Finding::AlteredBlob { key: blob.key.clone(), of: *of, found: found.clone() },
    }));
    let short = beside.logs.iter().filter(|log| log.found < log.counted);
    found.extend(short.map(|LogFound { log, counted, found }| Finding::ShortLog {
        log: *log,
        counted: *counted,
        found: *found,
    }));
    found
}

/// Effects that may have happened, and that nobody has settled or signed off.
pub fn open(checkpoint: &Checkpoint) -> impl Iterator<Item = &EffectRecord> {
    open_effects(&checkpoint.progress.ledger, &checkpoint.progress.journal)
}

/// Invariants 1 and 10.
fn waking(checkpoint: &Checkpoint, now: Timestamp, grace: Duration, found: &mut Vec<Finding>) {
    let phase = checkpoint.progress.status.phase();
    if phase.is_ended() {
        return;
    }
    let Some((source, _)) = wake_source(checkpoint, now) else {
        found.push(Finding::NoWakeSource { phase });
        return;
    };
    if let Some(since) = wake::forgotten_since(checkpoint, now).filter(|since| since.plus(grace) < now) {
        found.push(Finding::Forgotten { source, since });
    }
    // Whoever has set it may have another clock.
    let latest = wake::latest_mark(checkpoint, now).map(|latest| latest.plus(grace));
    if let (Some(mark), Some(latest)) = (checkpoint.due_at, latest)
        && mark > latest
    {
        found.push(Finding::LateMark { mark });
    }
}

/// Invariant 6.
fn mailbox(checkpoint: &Checkpoint, now: Timestamp, grace: Duration, found: &mut Vec<Finding>) {
    let mailbox = &checkpoint.mailbox;
    let twice = mailbox.letters.iter().filter(|letter| mailbox.seen.contains(&letter.id));
    found.extend(twice.map(|letter| Finding::SignalTwice { id: letter.id.clone() }));
    if let Status::Waiting(wait) = &checkpoint.progress.status
        && !checkpoint.is_leased(now)
        // What came since it was looked at is a matter of waking it.
        && mailbox.seq <= wait.seen
    {
        // Who is about to end is not paused any more.
        let is_for =
            |name: &str| wait.on.iter().any(|on| on.as_str() == name) || (name == PAUSE && !checkpoint.is_ending());
        let unread =
            mailbox.letters.iter().filter(|letter| is_for(letter.name.as_str()) && letter.at.plus(grace) < now);
        found.extend(unread.map(|letter| Finding::UnreadSignal { id: letter.id.clone(), name: letter.name.clone() }));
    }
    let mut seen = mailbox.seen.clone();
    seen.sort();
    seen.dedup();
    let least = (mailbox.letters.len() + seen.len()) as u64;
    bounded(Counter::Mailbox, mailbox.seq.0, (least, u64::MAX), found);
}

/// Invariants 3 and 4.
fn effects(checkpoint: &Checkpoint, now: Timestamp, grace: Duration, found: &mut Vec<Finding>) {
    let Progress { journal, ledger, undo, status, .. } = &checkpoint.progress;
    for records in [journal, ledger] {
        for (place, record) in records.iter().enumerate() {
            if records[..place].iter().any(|earlier| earlier.key == record.key) {
                found.push(Finding::EffectTwice { key: record.key.clone(), name: record.name.clone() });
            }
        }
    }
    for record in journal {
        let differs = |earlier: &&EffectRecord| {
            earlier.key == record.key
                && matches!((earlier.parameters, record.parameters), (Some(then), Some(now)) if then != now)
        };
        if ledger.iter().any(|earlier| differs(&earlier)) {
            found.push(Finding::EffectTwice { key: record.key.clone(), name: record.name.clone() });
        }
    }
    // What the journal knows of an effect is newer, and comes to the stack when the visit ends.
    let is_newer_known = |record: &EffectRecord| journal.iter().any(|newer| newer.key == record.key);
    for record in ledger.iter().filter(|record| !record.may_have_happened() && !is_newer_known(record)) {
        if undo.iter().any(|undo| undo.key == record.key) {
            found.push(Finding::GroundlessUndo { key: record.key.clone(), name: record.name.clone() });
        }
    }
    if let Status::Waiting(_) = status {
        for record in journal.iter().filter(|record| record.is_open()) {
            let Outcome::Unknown { since, .. } = &record.outcome else { continue };
            let quiet = record.until.unwrap_or(*since);
            if !checkpoint.is_leased(now) && quiet.plus(grace) < now {
                let (key, name) = (record.key.clone(), record.name.clone());
                found.push(Finding::UnaskedEffect { key, name, since: *since });
            }
        }
    }
}

/// Invariant 4: nothing ends while something is open, and nothing that is to be taken back is left.
fn ending(checkpoint: &Checkpoint, found: &mut Vec<Finding>) {
    let Progress { status, undo, undoing, usage, .. } = &checkpoint.progress;
    let mut wrong = |is_wrong: bool, what: &'static str| {
        if is_wrong {
            found.push(Finding::WrongEnd { what });
        }
    };
    match status {
        Status::Completed { .. } => {
            wrong(undoing.is_some(), "it has completed while it took back what it had done");
        }
        Status::Failed { .. } => {
            let takes_back = undoing.as_deref().is_some_and(|undoing| matches!(undoing.cause, Cause::Failed(_)));
            wrong(takes_back && !undo.is_empty(), "it has failed before everything was taken back");
        }
        Status::Cancelled { certificate, .. } => {
            wrong(checkpoint.cancel.is_none(), "it was cancelled, and nobody has asked for that");
            wrong(!undo.is_empty(), "it was cancelled before everything was taken back");
            let counted = (certificate.confirmed, certificate.failed);
            wrong(counted != (usage.effects_confirmed, usage.effects_failed), "its certificate counts other effects");
            let unsigned = certificate.uncertain.iter().any(|effect| effect.signed_off_by.is_none());
            wrong(unsigned, "its certificate lists as uncertain what nobody has signed off");
        }
        Status::Created | Status::Running | Status::Waiting(_) | Status::Retrying { .. } | Status::Parked { .. } => {
            return;
        }
    }
    let open = open(checkpoint);
    found.extend(open.map(|record| Finding::OpenAtEnd { key: record.key.clone(), name: record.name.clone() }));
}

/// Counters of the checkpoint, against each other.
fn counters(checkpoint: &Checkpoint, found: &mut Vec<Finding>) {
    let Checkpoint { hold, progress, .. } = checkpoint;
    let revision = progress.revision.0;
    // A commit raises it once at most.
    bounded(Counter::Ticket, progress.ticket.0, (1, revision.saturating_add(1)), found);
    bounded(Counter::Acquires, u64::from(hold.acquires), (0, hold.fence.0), found);
    bounded(Counter::Fence, hold.fence.0, (u64::from(hold.lease.is_some()), u64::MAX), found);
}

/// Invariants 2 and 5: each commit has made one entry.
fn history(checkpoint: &Checkpoint, recorded: &Recorded, found: &mut Vec<Finding>) {
    let Progress { revision, tail, visit, .. } = &checkpoint.progress;
    let begins = if tail.entries.is_empty() { revision.next() } else { tail.from };
    let last = if tail.entries.is_empty() { recorded.next } else { tail.end() };
    bounded(Counter::History, last.0.saturating_sub(1), (revision.0, revision.0), found);
    let gaps = recorded.gaps.iter().copied();
    let gaps = gaps.chain((recorded.next < begins).then_some((recorded.next, begins)));
    let missing = found.len();
    found.extend(gaps.map(|(from, to)| Finding::HistoryGap { from, to }));
    if found.len() == missing {
        let mut visits = recorded.visits;
        tail.entries.iter().for_each(|entry| visits.add(entry.kind));
        bounded(Counter::Visits, visit.0, (visits.least, visits.most), found);
    }
}

fn bounded(counter: Counter, value: u64, allowed: (u64, u64), found: &mut Vec<Finding>) {
    if !(allowed.0..=allowed.1).contains(&value) {
        found.push(Finding::Counter { counter, found: value, allowed });
    }
}

/// A value that a checkpoint holds or refers to, and may refer to blobs and logs in turn.
#[derive(Clone, Copy, Debug)]
pub enum Holds<'a> {
    /// A value that has to be there, wherever it lies.
    Value(&'a Payload),
    /// A text in the checkpoint.
    Text(&'a Json),
}

/// Every value of a checkpoint that the run may come to read. A state that lies in a blob refers to more, once it is read.
pub fn holds(checkpoint: &Checkpoint) -> Vec<(Referrer, Holds<'_>)> {
    let Progress { status, place, journal, ledger, approvals, undo, .. } = &checkpoint.progress;
    let mut held = Vec::new();
    match place {
        Place::Fresh { input, at } => {
            held.push((Referrer::Input, Holds::Value(input)));
            held.extend(at.iter().map(|cursor| (Referrer::State, Holds::Text(cursor))));
        }
        Place::At { cursor, state } => {
            held.extend([(Referrer::State, Holds::Text(cursor)), (Referrer::State, Holds::Value(state))]);
        }
    }
    if let Status::Completed { output, .. } = status {
        held.push((Referrer::Output, Holds::Value(output)));
    }
    for record in journal.iter().chain(ledger) {
        if let Outcome::Succeeded(result) = &record.outcome {
            held.push((Referrer::Effect, Holds::Value(result)));
        }
        held.extend(record.undo.iter().map(|step| (Referrer::Undo, Holds::Text(step))));
    }
    held.extend(approvals.iter().map(|approval| (Referrer::Approval, Holds::Value(&approval.parameters))));
    for letter in &checkpoint.mailbox.letters {
        held.push(match &letter.payload {
            // It is a record of the engine's own.
            Payload::Inline(record) if letter.name.as_str() == EVIDENCE => (Referrer::Effect, Holds::Text(record)),
            Payload::Inline(_) | Payload::Blob(_) => (Referrer::Signal, Holds::Value(&letter.payload)),
        });
    }
    held.extend(undo.iter().map(|undo| (Referrer::Undo, Holds::Text(&undo.step))));
    held
}
