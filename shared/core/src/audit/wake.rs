//! What wakes a run next, and by when: the one place that names it.

use core::fmt;

use crate::checkpoint::Checkpoint;
use crate::status::{ParkReason, Status, Wait};
use crate::time::Timestamp;

/// What wakes a run next. The protocol demands of every run that has not ended that it has one (invariant 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WakeSource {
    /// A worker holds it. When the lease runs out, the message that met it, or the watchdog, brings the next one.
    Lease,
    /// It may run now: a message is on its way, and if that is lost, the sweeper sends one after the watchdog's mark.
    Message,
    /// A time: a wait's end, the next try of a step, the end of a budget.
    Timer,
    /// Somebody sends a signal; a wait that ends by itself has a time beside it.
    Signal,
    /// A person: answers an approval, resumes, resolves, mends.
    Person,
    /// Code that knows the run is deployed, and somebody resumes it.
    Deploy,
}

impl WakeSource {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Lease, Self::Message, Self::Timer, Self::Signal, Self::Person, Self::Deploy];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Message => "message",
            Self::Timer => "timer",
            Self::Signal => "signal",
            Self::Person => "person",
            Self::Deploy => "deploy",
        }
    }
}

impl fmt::Display for WakeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What wakes a run next, and by when at the latest. `None`: it has ended, or it has not and nothing wakes it, which breaks
/// invariant 10.
///
/// | it stands so | source | by |
/// | --- | --- | --- |
/// | held by a worker | lease | the lease's end |
/// | may run now, was sent a signal or its end | message | the watchdog's mark |
/// | waits for an approval | person | the wait's end |
/// | waits for a signal | signal | the wait's end, if it has one |
/// | waits for a time, or is tried again later | timer | that time |
/// | parked as incompatible | deploy | nobody knows |
/// | parked for another reason | person | nobody knows |
///
/// A time counts only with a mark of the watchdog's beside it: without one, no sweep finds the run.
pub fn wake_source(checkpoint: &Checkpoint, now: Timestamp) -> Option<(WakeSource, Option<Timestamp>)> {
    if let Some(lease) = checkpoint.hold.lease.as_ref().filter(|_| checkpoint.is_leased(now)) {
        return Some((WakeSource::Lease, Some(lease.until)));
    }
    // Only a run with a mark is ever found by a sweep.
    let marked = |source, by| checkpoint.due_at.map(|_| (source, Some(by)));
    if is_due(checkpoint, now) {
        return checkpoint.due_at.map(|mark| (WakeSource::Message, Some(mark)));
    }
    match &checkpoint.progress.status {
        Status::Parked { reason: ParkReason::Incompatible { .. }, .. } => Some((WakeSource::Deploy, None)),
        Status::Parked { .. } => Some((WakeSource::Person, None)),
        // The two that are live have something to do, so they are above.
        Status::Created
        | Status::Running
        | Status::Completed { .. }
        | Status::Failed { .. }
        | Status::Cancelled { .. } => None,
        Status::Retrying { at } => marked(WakeSource::Timer, *at),
        Status::Waiting(wait) => {
            let source = waits_for(wait)?;
            match wait.wakes_at() {
                Some(at) => marked(source, at),
                None => Some((source, None)),
            }
        }
    }
}

/// What ends a wait, besides its time. `None`: nothing does.
fn waits_for(wait: &Wait) -> Option<WakeSource> {
    if wait.approval.is_some() {
        Some(WakeSource::Person)
    } else if !wait.on.is_empty() {
        Some(WakeSource::Signal)
    } else {
        wait.wakes_at().map(|_| WakeSource::Timer)
    }
}

/// Whether a worker that takes it up now has something to do. Unlike [`Checkpoint::is_due`], a cancelled run that waits while it takes
/// something back is not: nothing comes of looking at it before its time.
fn is_due(checkpoint: &Checkpoint, now: Timestamp) -> bool {
    match &checkpoint.progress.status {
        Status::Created | Status::Running => true,
        Status::Retrying { at } => *at <= now || checkpoint.is_to_end(),
        Status::Waiting(wait) => is_sent_something(checkpoint, wait) || wait.wakes_at().is_some_and(|at| at <= now),
        Status::Parked { .. } | Status::Completed { .. } | Status::Failed { .. } | Status::Cancelled { .. } => false,
    }
}

/// Whether somebody has sent a waiting run something that no worker has looked at.
fn is_sent_something(checkpoint: &Checkpoint, wait: &Wait) -> bool {
    checkpoint.mailbox.seq > wait.seen || checkpoint.is_to_end()
}

/// Since when a sweep should have brought a worker to a run that has something to do and is held by nobody. `None`: it is held, or has
/// nothing to do yet, or no mark.
pub(super) fn forgotten_since(checkpoint: &Checkpoint, now: Timestamp) -> Option<Timestamp> {
    // No worker touches a parked run: whoever asks for its end writes that, too, unless a person has something to settle first.
    if let (Status::Parked { .. }, Some(cancel)) = (&checkpoint.progress.status, &checkpoint.cancel)
        && checkpoint.is_to_end()
    {
        return super::open(checkpoint).next().is_none().then_some(cancel.at);
    }
    if checkpoint.is_leased(now) || !is_due(checkpoint, now) {
        return None;
    }
    // A mark that was set before, by a signal that did not wake it, says nothing of the time that has come since.
    let by_itself = match &checkpoint.progress.status {
        Status::Retrying { at } if !checkpoint.is_to_end() => Some(at.next_mark()),
        Status::Waiting(wait) if !is_sent_something(checkpoint, wait) => wait.wakes_at().map(Timestamp::next_mark),
        Status::Created
        | Status::Running
        | Status::Retrying { .. }
        | Status::Waiting(_)
        | Status::Parked { .. }
        | Status::Completed { .. }
        | Status::Failed { .. }
        | Status::Cancelled { .. } => None,
    };
    let lease_end = checkpoint.hold.lease.as_ref().map(|lease| lease.until);
    checkpoint.due_at.map(|mark| by_itself.into_iter().chain(lease_end).fold(mark, Timestamp::max))
}

/// The latest mark that a run may have that stands so. `None`: it needs none.
pub(super) fn latest_mark(checkpoint: &Checkpoint, now: Timestamp) -> Option<Timestamp> {
    let at = match &checkpoint.progress.status {
        Status::Created | Status::Running => now,
        // One that is to end may be tried again only later, too: to ask about what may have happened.
        Status::Retrying { at } => *at,
        Status::Waiting(wait) if is_sent_something(checkpoint, wait) => now,
        Status::Waiting(wait) => wait.wakes_at()?,
        Status::Parked { .. } | Status::Completed { .. } | Status::Failed { .. } | Status::Cancelled { .. } => {
            return None;
        }
    };
    let lease_end = checkpoint.hold.lease.as_ref().map(|lease| lease.until);
    Some(lease_end.into_iter().fold(at.max(now), Timestamp::max).next_mark())
}
