//! What a worker does with a run that it has just acquired.

use alloc::boxed::Box;
use alloc::string::ToString;
use core::time::Duration;

use super::{Decision, Draft, Illegal, Rules};
use crate::budget::{Budget, Reached};
use crate::checkpoint::Checkpoint;
use crate::history::{EntryKind, More};
use crate::status::{Failure, FailureKind, ParkReason, Status, Wait};
use crate::time::Timestamp;

/// What a worker does with a run that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Run the step at the cursor.
    Step,
    /// No user code runs: write this.
    Write(Box<Decision>),
}

/// Decides, in this order: a cancellation ends the run, once what may have happened is asked about; a pause that was asked for parks
/// it; a spent budget parks or ends it; a wait that nothing has ended goes on; poison and a used-up step limit park it; else the step runs. What takes effects
/// back is not held up by a cancellation, a budget or a step limit.
pub fn turn(held: &Checkpoint, budget: &Budget, rules: Rules, now: Timestamp) -> Result<Turn, Illegal> {
    let write = |decision: Decision| Ok(Turn::Write(Box::new(decision)));
    let progress = &held.progress;
    let undoing = progress.undoing.is_some();
    let is_poison = held.hold.acquires > rules.acquires_max;
    if held.is_to_end() {
        if is_poison || !super::ending::can_ask(held) {
            return write(super::ending::cancelled(held, now)?);
        }
        return Ok(Turn::Step);
    }
    let wait = match &progress.status {
        Status::Waiting(wait) if !wait.is_over(now) && !held.mailbox.holds_any(&wait.on) => Some(wait),
        Status::Created
        | Status::Running
        | Status::Waiting(_)
        | Status::Retrying { .. }
        | Status::Parked { .. }
        | Status::Completed { .. }
        | Status::Failed { .. }
        | Status::Cancelled { .. } => None,
    };
    // Before its budget, or a step limit: whoever asked for it knows why.
    if let Some(pause) = super::pause::asked(held) {
        let mut decision = park(held, pause.reason(), wait, now)?;
        decision.commit.consumed = pause.letters();
        return write(decision);
    }
    // A run that waits on makes no attempt, but it grows older.
    let allowed = if wait.is_some() { budget.allows_age(held, now) } else { budget.allows_attempt(held, now) };
    if !undoing && let Err(over) = allowed {
        return write(match budget.reached {
            Reached::Park => park(held, ParkReason::Budget(over), wait, now)?,
            Reached::Fail => {
                let failure = Failure::new(FailureKind::Budget, over.to_string());
                let mut decision = super::ending::failed(held, failure, now)?;
                // Should somebody let it go on after all, it waits on.
                let progress = &mut decision.commit.progress;
                if progress.undoing.is_none() {
                    progress.spent.cut_wait = wait.cloned().map(Box::new);
                }
                decision
            }
        });
    }
    // Before poison or the step limit parks it: resuming it would run the step too early.
    if let Some(wait) = wait {
        return write(wait_on(held, wait, rules, now)?);
    }
    if is_poison {
        return write(park(held, ParkReason::Poison { acquires: held.hold.acquires - 1 }, None, now)?);
    }
    if progress.visit.0 >= progress.step_limit && !undoing {
        return write(park(held, ParkReason::StepLimit { limit: progress.step_limit }, None, now)?);
    }
    Ok(Turn::Step)
}

/// Parks the run. Place, journal and mailbox stay as they are, and so does a wait that nothing has ended: resuming needs them.
fn park(held: &Checkpoint, reason: ParkReason, wait: Option<&Wait>, now: Timestamp) -> Result<Decision, Illegal> {
    let step = held.progress.place.step();
    let last = held.progress.trouble.as_ref().map(|trouble| alloc::format!("{reason}; last error: {}", trouble.last));
    let note = last.unwrap_or_else(|| reason.to_string());
    let mut draft = Draft::new(held, now);
    // The attempts that crashed are made; this one is not.
    draft.progress.spent.attempts = held.attempts().saturating_sub(1);
    draft.progress.spent.cut_wait = wait.cloned().map(Box::new);
    draft.become_status(Status::Parked { reason, at: now }, &step)?;
    draft.record(step, EntryKind::Parked, Duration::ZERO, More { note: Some(note), ..More::default() });
    Ok(draft.end())
}

/// Goes on waiting, having looked at the signals that are there.
fn wait_on(held: &Checkpoint, wait: &Wait, rules: Rules, now: Timestamp) -> Result<Decision, Illegal> {
    let step = held.progress.place.step();
    let seen = held.mailbox.seq;
    let mut draft = Draft::new(held, now);
    // Code that does not know the workflow knows of no budget either.
    let known = rules.run_ends.or(wait.budget_ends.filter(|ends| *ends > now));
    let budget_ends = known.filter(|_| held.progress.undoing.is_none());
    draft.become_status(Status::Waiting(Wait { budget_ends, seen, ..wait.clone() }), &step)?;
    draft.record(step, EntryKind::LookedUp, Duration::ZERO, More::default());
    Ok(draft.hand_off(Some(seen)))
}
