//! Timers and marks.

use stepwell_core::Status;
use stepwell_core::limits::WATCHDOG_MARK;
use stepwell_core::write::Write;

use super::{Evidence, Findings};
use crate::Wrong;
use crate::dice::SKEW;
use crate::tape::Seen;

/// Invariant 8: Nobody takes up a run that waits before its time, but for a signal or a cancellation. (That a wait ends once follows from the
/// visits, which [`super::writes`] counts.)
pub(super) fn never_early(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::of(8);
    for Seen { at, by, request, before, .. } in &evidence.recorded.writes {
        let (Write::Acquire(_), Some(before)) = (&request.write, before) else { continue };
        let until = match &before.progress.status {
            Status::Waiting(wait) if before.cancel.is_none() && before.mailbox.seq <= wait.seen => wait.wakes_at(),
            Status::Retrying { at } if before.cancel.is_none() => Some(*at),
            Status::Created
            | Status::Running
            | Status::Waiting(_)
            | Status::Retrying { .. }
            | Status::Parked { .. }
            | Status::Completed { .. }
            | Status::Failed { .. }
            | Status::Cancelled { .. } => continue,
        };
        found.must(until.is_some_and(|until| until <= at.plus(SKEW)), || {
            format!("{}: {by} takes it up at {at}; its time is {until:?}", request.run)
        });
    }
    found.found()
}

/// Invariant 10: Every live run has a mark at which the sweeper looks at it, not later than the one after its time; only one that waits for a
/// signal alone has none.
pub(super) fn names_what_wakes_it(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::of(10);
    for Seen { at, by, request, after, .. } in &evidence.recorded.writes {
        let status = &after.progress.status;
        let only_signals = matches!(status, Status::Waiting(wait) if wait.wakes_at().is_none()) && !after.is_due(*at);
        if !status.is_live() || only_signals {
            continue;
        }
        let latest = after.wakes_at().unwrap_or(*at).max(*at).plus(WATCHDOG_MARK + SKEW);
        found.must(after.due_at.is_some_and(|due| due <= latest), || {
            format!(
                "{}: after the write of {by} at {at} nothing is sure to wake it: due at {:?}",
                request.run, after.due_at
            )
        });
    }
    found.found()
}
