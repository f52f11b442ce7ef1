//! What the sweeper does with a run that the due index shows. It only ever sends messages: it never fails a run.

use core::time::Duration;

use super::Send;
use crate::checkpoint::Checkpoint;
use crate::ids::{RunId, Ticket};
use crate::limits::{MESSAGE_DELAY_MAX, WATCHDOG_MARK};
use crate::time::{Timestamp, millis};

/// A run as the due index shows it. The index may be stale: the message it leads to is only a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueRun {
    /// Which run.
    pub run: RunId,
    /// Its ticket.
    pub ticket: Ticket,
    /// Its mark.
    pub due_at: Timestamp,
    /// When it wakes by itself; `None` when it may run at once.
    pub wakes_at: Option<Timestamp>,
    /// Until when somebody holds it.
    pub leased_until: Option<Timestamp>,
}

impl DueRun {
    /// The index entry of a checkpoint; `None` when it is in no need of one.
    pub fn of(checkpoint: &Checkpoint) -> Option<Self> {
        if !checkpoint.progress.status.is_live() {
            return None;
        }
        Some(Self {
            run: checkpoint.run.clone(),
            ticket: checkpoint.progress.ticket,
            due_at: checkpoint.due_at?,
            wakes_at: checkpoint.wakes_at(),
            leased_until: checkpoint.hold.lease.as_ref().map(|lease| lease.until),
        })
    }
}

/// The latest mark that the sweeper has to read when it looks this far ahead.
pub fn horizon(now: Timestamp, ahead: Duration) -> Timestamp {
    now.plus(ahead).next_mark()
}

/// Decides on one run. A timer that comes within `ahead` is sent with its exact remaining delay; a run past its mark
/// which nobody holds is sent at once (it was forgotten: its message was lost, or never sent).
pub fn sweep(found: &DueRun, now: Timestamp, ahead: Duration) -> Option<Send> {
    if found.leased_until.is_some_and(|until| until > now) {
        return None;
    }
    let ticket = found.ticket;
    match found.wakes_at {
        Some(at) if at > now => {
            let delay = at.since(now);
            (delay <= ahead.min(MESSAGE_DELAY_MAX)).then_some(Send { ticket, delay })
        }
        _ => (found.due_at <= now && may_remind(now.since(found.due_at), ahead))
            .then_some(Send { ticket, delay: Duration::ZERO }),
    }
}

/// Whether a run that is this long past its mark gets a message now: at first with every sweep, then in gaps that double, up
/// to one a quarter of an hour. A queue that is hours behind must not be filled by the sweeper.
fn may_remind(overdue: Duration, ahead: Duration) -> bool {
    let (overdue, ahead, mark) = (millis(overdue), millis(ahead).max(1), millis(WATCHDOG_MARK));
    let into_gap = if overdue >= mark {
        overdue % mark
    } else {
        (overdue / ahead).checked_ilog2().map_or(0, |doublings| overdue - (ahead << doublings))
    };
    into_gap < ahead
}
