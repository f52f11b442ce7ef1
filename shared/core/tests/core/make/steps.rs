//! Steps that end in one way or another, one after the other, until what was done is taken back.

use serde_json::json;
use stepwell_core::decide::{Decision, StepEnd, StepOutcome, Turn, commit, turn};
use stepwell_core::{Budget, Checkpoint, EffectRecord, Json, Outcome, ParkReason, RetryPolicy};

use super::{RULES, T0, acquire, at, committed, end, failure, inline, keyed, moment, place};

pub(crate) fn done() -> Outcome {
    Outcome::Succeeded(inline(&json!("ok")))
}

pub(crate) fn lost() -> Outcome {
    Outcome::Unknown { since: T0, evidence: "no answer".into() }
}

/// An effect that a step takes back.
pub(crate) fn undoable(name: &str, outcome: Outcome) -> EffectRecord {
    EffectRecord { undo: Some(Json::of(&json!({"Undo": name})).unwrap()), ..keyed(name, "order-7", outcome) }
}

pub(crate) fn goto() -> StepOutcome {
    StepOutcome::Goto { place: place("Ship") }
}

pub(crate) fn fail() -> StepOutcome {
    StepOutcome::Fail { failure: failure("sold out") }
}

pub(crate) fn undone() -> StepOutcome {
    StepOutcome::Undone { place: place("Ship") }
}

pub(crate) fn parks() -> StepOutcome {
    StepOutcome::Park { reason: ParkReason::Data { what: "blob k is missing".into() } }
}

pub(crate) fn retry(policy: RetryPolicy) -> StepOutcome {
    StepOutcome::Retry { failure: failure("busy"), policy, at_least: None }
}

/// The run held by a worker, since nobody does yet or already.
pub(crate) fn in_hand(run: &Checkpoint) -> Checkpoint {
    if run.hold.lease.is_some() { run.clone() } else { acquire(run, at(9)).unwrap() }
}

/// What this end of its step comes to, whoever asked for the run's end.
pub(crate) fn decided(held: &Checkpoint, outcome: StepOutcome, effects: Vec<EffectRecord>) -> Decision {
    let step = held.progress.place.step();
    commit(held, StepEnd { effects, step, ..end(outcome) }, RULES, moment(at(9)), true).unwrap()
}

/// The run after this end of its step.
pub(crate) fn then(run: &Checkpoint, outcome: StepOutcome, effects: Vec<EffectRecord>) -> Checkpoint {
    let held = in_hand(run);
    let decision = decided(&held, outcome, effects);
    committed(&held, at(9), decision.commit)
}

/// Takes back one after the other, until the run has ended.
pub(crate) fn take_back(mut run: Checkpoint) -> Checkpoint {
    while !run.progress.status.phase().is_ended() {
        let held = in_hand(&run);
        assert_eq!(turn(&held, &Budget::none(), RULES, at(9)).unwrap(), Turn::Step, "{:?}", held.progress.status);
        run = then(&held, undone(), held.progress.journal.clone());
    }
    run
}

pub(crate) fn named(records: &[EffectRecord]) -> Vec<&str> {
    records.iter().map(|record| record.name.as_str()).collect()
}

pub(crate) fn stack(run: &Checkpoint) -> Vec<&str> {
    run.progress.undo.iter().map(|undo| undo.name.as_str()).collect()
}
