//! What a worker does with a run that it has just acquired.

use alloc::boxed::Box;
use alloc::string::ToString;
use core::time::Duration;

use super::{Decision, Draft, Illegal, Rules};
use crate::checkpoint::Checkpoint;
use crate::history::{EntryKind, More};
use crate::status::{ParkReason, Status, Wait};
use crate::time::Timestamp;

/// What a worker does with a run that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Run the step at the cursor.
    Step,
    /// No user code runs: write this.
    Write(Box<Decision>),
}

/// Decides, in this order: a cancellation ends the run; a wait that nothing has ended goes on; poison and a used-up step
/// limit park it; else the step runs.
pub fn turn(held: &Checkpoint, rules: Rules, now: Timestamp) -> Result<Turn, Illegal> {
    let write = |decision: Decision| Ok(Turn::Write(Box::new(decision)));
    let progress = &held.progress;
    if held.cancel.is_some() {
        return write(super::commit::cancelled(held, now)?);
    }
    // Before anything parks it: a parked run no longer knows of its wait, and resuming it would run the step too early.
    if let Status::Waiting(wait) = &progress.status
        && !wait.is_over(now)
        && !held.mailbox.holds_any(&wait.on)
    {
        return write(wait_on(held, wait, now)?);
    }
    if held.hold.acquires > rules.acquires_max {
        return write(park(held, ParkReason::Poison { acquires: held.hold.acquires - 1 }, now)?);
    }
    if progress.visit.0 >= progress.step_limit {
        return write(park(held, ParkReason::StepLimit { limit: progress.step_limit }, now)?);
    }
    Ok(Turn::Step)
}

/// Parks the run. Place, journal and mailbox stay as they are: resuming needs them.
fn park(held: &Checkpoint, reason: ParkReason, now: Timestamp) -> Result<Decision, Illegal> {
    let step = held.progress.place.step();
    let last = held.progress.trouble.as_ref().map(|trouble| alloc::format!("{reason}; last error: {}", trouble.last));
    let note = last.unwrap_or_else(|| reason.to_string());
    let mut draft = Draft::new(held, now);
    draft.become_status(Status::Parked { reason, at: now }, &step)?;
    draft.record(step, EntryKind::Parked, Duration::ZERO, More { note: Some(note), ..More::default() });
    Ok(draft.end())
}

/// Goes on waiting, having looked at the signals that are there.
fn wait_on(held: &Checkpoint, wait: &Wait, now: Timestamp) -> Result<Decision, Illegal> {
    let step = held.progress.place.step();
    let seen = held.mailbox.seq;
    let mut draft = Draft::new(held, now);
    draft.become_status(Status::Waiting(Wait { seen, ..wait.clone() }), &step)?;
    draft.record(step, EntryKind::LookedUp, Duration::ZERO, More::default());
    Ok(draft.hand_off(Some(seen)))
}
