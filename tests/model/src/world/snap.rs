//! Checkpoints as the world keeps them: cleaned of what no decision reads, counted from where the run stands now, each distinct one
//! kept once.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use stepwell_core::budget::Spent;
use stepwell_core::history::Segment;
use stepwell_core::stored::{self, Unknown};
use stepwell_core::{
    Checkpoint, EffectRecord, Fence, Hold, Outcome, ParkReason, Revision, Status, Ticket, Timestamp, Usage, Wait,
    WriteId,
};

use super::parts::{NOW, RULES, UNIT, at};

/// The fence of the last acquire, whatever number it has.
pub(crate) const FENCE: Fence = Fence(2);
/// Any fence before it.
const LOST: Fence = Fence(1);
/// The run's ticket, whatever number it has.
pub(crate) const TICKET: Ticket = Ticket(3);
/// The run's revision at its first visit, whatever number it has. Leaves room for those before it.
const REVISION: u64 = 10;

/// A checkpoint, cleaned. Two equal ones have the same number.
#[derive(Clone, Debug)]
pub(crate) struct Snap(Rc<(u32, Checkpoint)>);

impl Snap {
    pub(crate) fn number(&self) -> u32 {
        self.0.0
    }
}

impl std::ops::Deref for Snap {
    type Target = Checkpoint;

    fn deref(&self) -> &Checkpoint {
        &self.0.1
    }
}

impl PartialEq for Snap {
    fn eq(&self, other: &Self) -> bool {
        self.number() == other.number()
    }
}

impl Eq for Snap {}

impl PartialOrd for Snap {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Snap {
    fn cmp(&self, other: &Self) -> Ordering {
        self.number().cmp(&other.number())
    }
}

impl Hash for Snap {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.number());
    }
}

/// Every distinct checkpoint of one search, and what becomes of it when time passes.
#[derive(Default)]
pub(crate) struct Snaps {
    known: RefCell<HashMap<Vec<u8>, Snap>>,
    later: RefCell<HashMap<u32, Snap>>,
}

impl Snaps {
    /// Keeps a checkpoint that counts as `run` does, the current one.
    pub(crate) fn keep(&self, mut checkpoint: Checkpoint, run: &Checkpoint) -> Snap {
        renumber(&mut checkpoint, run);
        clean(&mut checkpoint);
        self.kept(checkpoint)
    }

    /// The same checkpoint one unit of time later.
    pub(crate) fn later(&self, snap: &Snap) -> Snap {
        if let Some(later) = self.later.borrow().get(&snap.number()) {
            return later.clone();
        }
        let mut checkpoint = (**snap).clone();
        for time in times(&mut checkpoint) {
            *time = Timestamp(time.0 - u64::try_from(UNIT.as_millis()).unwrap_or(0));
        }
        clean(&mut checkpoint);
        let later = self.kept(checkpoint);
        self.later.borrow_mut().insert(snap.number(), later.clone());
        later
    }

    fn kept(&self, checkpoint: Checkpoint) -> Snap {
        // What cannot be written is no checkpoint; the core's own tests see to it that each can.
        let text = stored::encode(&checkpoint, &Unknown::new()).unwrap_or_default();
        let mut known = self.known.borrow_mut();
        let number = u32::try_from(known.len()).unwrap_or(u32::MAX);
        known.entry(text).or_insert_with(|| Snap(Rc::new((number, checkpoint)))).clone()
    }
}

/// Fence, ticket and revision are only ever compared, with each other and for being the next. So they can be counted from the run's
/// own, which stay the same numbers for ever.
fn renumber(checkpoint: &mut Checkpoint, run: &Checkpoint) {
    let is_lost = checkpoint.hold.fence != run.hold.fence;
    let from = |base: u64, mine: u64, theirs: u64| (base + mine).saturating_sub(theirs);
    let progress = &mut checkpoint.progress;
    progress.ticket = Ticket(from(TICKET.0, progress.ticket.0, run.progress.ticket.0).max(1));
    progress.revision = Revision(from(REVISION + run.progress.visit.0, progress.revision.0, run.progress.revision.0));
    // The number of a write is known to whoever waits for its answer.
    checkpoint.hold.write = WriteId(0);
    checkpoint.hold.fence = FENCE;
    if is_lost {
        // Every write of this holder is refused for its fence: nothing else of the hold, nor the numbers, can play a part, but for
        // what it decides to write.
        checkpoint.hold = Hold { fence: LOST, acquires: checkpoint.hold.acquires, ..Hold::default() };
        (checkpoint.progress.ticket, checkpoint.progress.revision) = (Ticket(1), Revision(REVISION));
    }
}

fn of_wait(wait: &mut Wait) -> impl Iterator<Item = &mut Timestamp> {
    wait.until.as_mut().into_iter().chain(wait.budget_ends.as_mut())
}

/// The times that some decision compares.
fn times(checkpoint: &mut Checkpoint) -> Vec<&mut Timestamp> {
    let progress = &mut checkpoint.progress;
    let mut times: Vec<&mut Timestamp> = Vec::new();
    match &mut progress.status {
        Status::Retrying { at } => times.push(at),
        Status::Waiting(wait) => times.extend(of_wait(wait)),
        Status::Created
        | Status::Running
        | Status::Parked { .. }
        | Status::Completed { .. }
        | Status::Failed { .. }
        | Status::Cancelled { .. } => {}
    }
    times.extend(progress.spent.cut_wait.iter_mut().flat_map(|wait| of_wait(wait)));
    times.extend(progress.journal.iter_mut().chain(&mut progress.ledger).filter_map(|record| record.until.as_mut()));
    times.extend(checkpoint.hold.lease.iter_mut().flat_map(|lease| [&mut lease.since, &mut lease.until]));
    times.extend(&mut checkpoint.hold.tried_since);
    times.extend(&mut checkpoint.due_at);
    times
}

/// Takes away what no decision reads, and what lies so far in the past that it makes no difference how far.
fn clean(checkpoint: &mut Checkpoint) {
    // A request that is under way may be one unit old, and compares with its own time.
    let past = |time: &mut Timestamp| *time = (*time).max(at(-1));
    let progress = &mut checkpoint.progress;
    match &mut progress.status {
        Status::Retrying { at } => past(at),
        Status::Waiting(wait) => of_wait(wait).for_each(past),
        Status::Parked { reason, at } => {
            *at = NOW;
            if let ParkReason::Poison { acquires } = reason {
                *acquires = RULES.acquires_max;
            }
        }
        Status::Completed { at, .. } | Status::Failed { at, .. } => *at = NOW,
        Status::Cancelled { at, certificate } => {
            *at = NOW;
            certificate.lost_attempt = certificate.lost_attempt.map(|_| NOW);
        }
        Status::Created | Status::Running => {}
    }
    let mut cut_wait = progress.spent.cut_wait.take();
    cut_wait.iter_mut().flat_map(|wait| of_wait(wait)).for_each(past);
    progress.spent = Spent { cut_wait, ..Spent::default() };
    progress.tail = Segment::default();
    progress.usage = Usage::default();
    progress.journal.iter_mut().chain(&mut progress.ledger).for_each(clean_record);
    if let Some(trouble) = &mut progress.trouble {
        trouble.since = NOW;
    }
    if let Some(undoing) = &mut progress.undoing {
        undoing.lost_attempt = undoing.lost_attempt.map(|_| NOW);
    }
    let hold = &mut checkpoint.hold;
    // Only ever compared with the limit.
    hold.acquires = hold.acquires.min(RULES.acquires_max + 1);
    // Of the time of the first try, only whether it lies before the lease's beginning is read; of either, whether it is past. A lease
    // that is taken by an old request begins after both.
    let before = |time: Timestamp, units: i8| if time < NOW { at(-units) } else { NOW };
    match &mut hold.lease {
        Some(lease) => {
            past(&mut lease.until);
            let is_earlier = hold.tried_since.is_some_and(|tried| tried < lease.since);
            lease.since = before(lease.since, 2);
            let since = lease.since;
            hold.tried_since = hold.tried_since.map(|_| if is_earlier { at(-3) } else { since });
        }
        None => hold.tried_since = hold.tried_since.map(|tried| before(tried, 3)),
    }
    checkpoint.due_at = checkpoint.due_at.map(|due| due.max(NOW));
    checkpoint.started_at = NOW;
}

fn clean_record(record: &mut EffectRecord) {
    record.until = record.until.map(|until| until.max(NOW));
    if let Outcome::Unknown { since, .. } = &mut record.outcome {
        *since = NOW;
    }
}
