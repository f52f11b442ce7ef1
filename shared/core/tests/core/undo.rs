//! What a run has done is taken back when it fails or is cancelled: in reverse order, each once, and what cannot be is said.

use crate::make::steps::{done, goto, lost, stack, undoable, undone};
use crate::make::{
    self, RULES, T0, acquire, amended, at, at_work, certificate, committed, end, failure, inline, keyed, moment, place,
    standing, taken_up, unknown, waiting, with_cancel,
};
use serde_json::json;
use stepwell_core::decide::{
    LetStand, LetStandRefused, Resolution, Resume, StepEnd, StepOutcome, Then, Turn, cancel_parked, commit, let_stand,
    resume, turn,
};
use stepwell_core::history::EntryKind;
use stepwell_core::write::{Refusal, Write};
use stepwell_core::{
    Budget, Cause, CertifiedEffect, Checkpoint, Class, EffectRecord, Failure, FailureKind, Json, Outcome, ParkReason,
    Phase, Place, RetryPolicy, Status,
};

fn fail() -> StepOutcome {
    StepOutcome::Fail { failure: Failure::new(FailureKind::Terminal, "sold out") }
}

/// The run after this end of its step; it is taken up by a worker first if nobody holds it.
fn then(run: &Checkpoint, outcome: StepOutcome, effects: Vec<EffectRecord>) -> Checkpoint {
    let held = if run.hold.lease.is_some() { run.clone() } else { acquire(run, at(9)).unwrap() };
    let now = held.hold.lease.as_ref().unwrap().since.max(at(9));
    assert_eq!(turn(&held, &Budget::none(), RULES, now).unwrap(), Turn::Step, "{:?}", held.progress.status);
    let step = held.progress.place.step();
    let end = StepEnd { effects, step, ..end(outcome) };
    let decision = commit(&held, end, RULES, moment(now), true).unwrap();
    committed(&held, now, decision.commit)
}

fn names(effects: &[CertifiedEffect]) -> Vec<&str> {
    effects.iter().map(|effect| effect.name.as_str()).collect()
}

fn was_undone(run: &Checkpoint) -> Vec<&str> {
    run.progress.undoing.as_ref().map_or_else(Vec::new, |undoing| names(&undoing.undone))
}

fn last_kind(run: &Checkpoint) -> EntryKind {
    run.progress.tail.entries.last().unwrap().kind
}

/// Takes back one after the other, until the run has ended. Answers the steps that ran.
fn take_back(mut run: Checkpoint) -> (Checkpoint, Vec<String>) {
    let mut steps = Vec::new();
    while !run.progress.status.phase().is_ended() {
        steps.push(run.progress.place.step());
        let (Place::At { cursor, .. } | Place::Fresh { at: Some(cursor), .. }) = &run.progress.place else { panic!() };
        assert_eq!(*cursor, run.progress.undo.last().unwrap().step, "the newest on the stack");
        run = then(&run, undone(), vec![]);
    }
    (run, steps)
}

/// Of two steps, the second of which has made two effects beside each other.
fn three() -> Checkpoint {
    let run = then(&at_work(), goto(), vec![undoable("reserve", done())]);
    then(&run, goto(), vec![undoable("charge", done()), undoable("label", done())])
}

#[test]
fn what_was_done_is_taken_back_in_reverse_order_across_visits_and_within_one() {
    assert_eq!(stack(&three()), ["reserve", "charge", "label"]);
    // The failing step's own effects come first.
    let failing = then(&three(), fail(), vec![undoable("notify", done())]);
    assert_eq!((failing.progress.status.phase(), stack(&failing).len()), (Phase::Running, 4));
    let entry = failing.progress.tail.entries.last().unwrap();
    assert_eq!((entry.kind, entry.more.note.as_deref()), (EntryKind::Undoing, Some("terminal: sold out")));
    let (ended, steps) = take_back(failing);
    assert_eq!(was_undone(&ended), ["notify", "label", "charge", "reserve"]);
    assert_eq!(steps, ["Undo", "Undo", "Undo", "Undo"]);
    let Status::Failed { failure, .. } = &ended.progress.status else { panic!("{ended:?}") };
    assert_eq!(failure.message, "sold out");
    assert!(stack(&ended).is_empty());
    let undoing = ended.progress.undoing.as_ref().unwrap();
    assert_eq!((&undoing.cause, undoing.step.as_str()), (&Cause::Failed(failure.clone()), "Ship"));
    assert_eq!(last_kind(&ended), EntryKind::Undone, "{:?}", ended.progress.tail);
    let note = ended.progress.tail.entries.last().unwrap().more.note.clone().unwrap();
    assert!(note.starts_with("reserve (key ") && note.ends_with(") is taken back"), "{note}");
}

#[test]
fn only_what_has_happened_or_may_have_is_on_the_stack() {
    let refused = Outcome::Failed(failure("no"));
    let run = then(
        &at_work(),
        goto(),
        vec![
            undoable("reserve", done()),
            undoable("refused", refused.clone()),
            undoable("lost", lost()),
            keyed("mail", "m", done()),
        ],
    );
    assert_eq!(stack(&run), ["reserve", "lost"]);
    // A later visit has found out.
    let told = then(&run, goto(), vec![undoable("lost", refused)]);
    assert_eq!(stack(&told), ["reserve"]);
    let told = then(&run, goto(), vec![undoable("lost", done()), undoable("reserve", done())]);
    assert_eq!(stack(&told), ["reserve", "lost"], "each once, in the order in which they were made");
}

#[test]
fn a_persons_word_that_it_did_not_happen_takes_it_off_the_stack() {
    let run = then(
        &then(&at_work(), goto(), vec![undoable("reserve", done())]),
        goto(),
        vec![EffectRecord { class: Class::Once, ..undoable("fax", lost()) }],
    );
    let run = Checkpoint { hold: stepwell_core::Hold { lease: None, ..run.hold.clone() }, ..run };
    let ok = || Resolution::Succeeded(inline(&json!("ok")));
    for (resolution, left) in [
        (Resolution::Failed("never left".into()), vec!["reserve"]),
        (Resolution::TryAgain, vec!["reserve"]),
        (ok(), vec!["reserve", "fax"]),
        (Resolution::SignOff, vec!["reserve", "fax"]),
    ] {
        let word = resolution.as_str();
        assert_eq!(stack(&make::told(&run, "fax", resolution, at(10)).0), left, "{word}");
    }
}

#[test]
fn behind_a_point_of_no_return_nothing_is_taken_back() {
    let sent = |outcome| EffectRecord { no_return: true, ..keyed("send", "s", outcome) };
    let refused = Outcome::Failed(failure("no"));
    for (name, outcome, left) in
        [("it happened", done(), vec!["label"]), ("it did not", refused, vec!["reserve", "charge", "label"])]
    {
        let run = then(&at_work(), goto(), vec![undoable("reserve", done())]);
        let effects = vec![undoable("charge", done()), sent(outcome.clone()), undoable("label", done())];
        assert_eq!(stack(&then(&run, goto(), effects.clone())), left, "{name}");
        // In the very step that fails.
        let (ended, _) = take_back(then(&run, fail(), effects));
        assert_eq!(was_undone(&ended), left.iter().rev().copied().collect::<Vec<_>>(), "{name}");
    }
    // Nothing at all is left: the run ends at once, whichever way.
    let run = then(&at_work(), goto(), vec![undoable("reserve", done())]);
    let failed = then(&run, fail(), vec![sent(done())]);
    assert_eq!((failed.progress.status.phase(), stack(&failed).len()), (Phase::Failed, 0));
    for outcome in [fail(), goto()] {
        let held = with_cancel(&run);
        let end = StepEnd { effects: vec![sent(done())], ..end(outcome) };
        let cancelled = committed(&held, at(9), commit(&held, end, RULES, moment(at(9)), true).unwrap().commit);
        let certificate = certificate(&cancelled);
        assert_eq!((certificate.confirmed, certificate.undone.len(), stack(&cancelled).len()), (2, 0, 0));
        assert_eq!(last_kind(&cancelled), EntryKind::Cancelled);
    }
    // One that can be taken back itself.
    let both = EffectRecord { no_return: true, ..undoable("send", done()) };
    assert_eq!(stack(&then(&run, goto(), vec![both])), ["send"]);
}

#[test]
fn a_point_of_no_return_that_may_have_been_passed_counts_once_that_is_known() {
    let sent = EffectRecord { no_return: true, ..keyed("send", "s", lost()) };
    let run = then(&at_work(), goto(), vec![undoable("reserve", done()), sent.clone()]);
    let run = then(&run, goto(), vec![undoable("label", done())]);
    assert_eq!(stack(&run), ["reserve", "label"], "nothing is known yet");
    // By a person, while the run waits.
    let wait = StepOutcome::Wait { place: place("Ask"), on: vec![], until: Some(at(60_000)), ask: None };
    let resting = then(&run, wait, vec![]);
    let said = [
        (Resolution::Succeeded(inline(&json!("sent"))), vec!["label"]),
        (Resolution::SignOff, vec!["label"]),
        (Resolution::Failed("it never left".into()), vec!["reserve", "label"]),
    ];
    for (resolution, left) in said {
        let (settled, _) = make::told(&resting, "send", resolution.clone(), at(10));
        assert_eq!(stack(&settled), left, "{resolution:?}");
        assert!(settled.progress.undo.iter().all(|undo| undo.behind.is_empty()), "{resolution:?}");
    }
    // By the effect itself, in a later step.
    for (outcome, left) in [(done(), vec!["label"]), (Outcome::Failed(failure("no")), vec!["reserve", "label"])] {
        let settled = then(&run, goto(), vec![EffectRecord { outcome: outcome.clone(), ..sent.clone() }]);
        assert_eq!(stack(&settled), left, "{outcome:?}");
    }
}

#[test]
fn what_is_open_is_settled_before_anything_is_taken_back() {
    let parked = then(&three(), fail(), vec![EffectRecord { class: Class::Once, ..undoable("fax", lost()) }]);
    assert!(make::parked_for(&parked).contains("effect fax"));
    assert!(parked.progress.undoing.is_none());
    let (settled, woken) = make::told(&parked, "fax", Resolution::SignOff, at(10));
    assert!(woken);
    // The step runs again, and fails again; what may have happened is taken back with the rest.
    let journal = settled.progress.journal.clone();
    let (ended, _) = take_back(then(&settled, fail(), journal));
    assert_eq!(was_undone(&ended), ["fax", "label", "charge", "reserve"]);
}

/// The run of three effects, parked since the newest cannot be taken back.
fn stuck() -> Checkpoint {
    let undoing = then(&three(), fail(), vec![]);
    then(&undoing, StepOutcome::Fail { failure: failure("no such label") }, vec![])
}

#[test]
fn what_cannot_be_taken_back_parks_the_run_and_is_said() {
    let key = &three().progress.undo[2].key.clone();
    let gives_up = StepOutcome::Retry { failure: failure("busy"), policy: RetryPolicy::none(), at_least: None };
    let complete = StepOutcome::Complete { output: inline(&json!(1)) };
    for (outcome, why) in [
        (StepOutcome::Fail { failure: failure("no such label") }, "error: no such label"),
        (gives_up, "error: busy (attempt 1, no attempts left)"),
        (complete, "the step that takes it back completed the run"),
    ] {
        let run = then(&then(&three(), fail(), vec![]), outcome, vec![]);
        let Status::Parked { reason: reason @ ParkReason::Undo { what }, .. } = &run.progress.status else {
            panic!("{run:?}")
        };
        let said = format!(
            "effect label (key {key}) stands (and before it: charge, reserve): it could not be taken back: {why}"
        );
        assert_eq!(*what, said);
        assert!(reason.to_string().ends_with("or take it back by hand and say so with `let-stand`"), "{reason}");
        assert_eq!(stack(&run).len(), 3);
    }
    // One that is tried again is tried again.
    let policy = RetryPolicy::default();
    let retry = StepOutcome::Retry { failure: failure("busy"), policy, at_least: None };
    let run = then(&then(&three(), fail(), vec![]), retry, vec![]);
    assert_eq!(run.progress.status.phase(), Phase::Retrying);
}

#[test]
fn resuming_takes_it_back_once_more_and_goes_on() {
    let (amend, send) = resume(&stuck(), &Resume { by: "ann".into(), why: None }, at(10)).unwrap();
    let run = amended(&stuck(), at(10), amend);
    assert_eq!((send.ticket, run.progress.trouble.clone()), (run.progress.ticket, None));
    let (ended, steps) = take_back(run);
    assert_eq!((was_undone(&ended).len(), steps.len()), (3, 3));
}

#[test]
fn what_a_person_lets_stand_is_passed_over_with_who_and_why() {
    let act = LetStand { by: "ann".into(), why: "torn up by hand".into() };
    let (amend, send) = let_stand(&stuck(), &act, at(10)).unwrap();
    let run = amended(&stuck(), at(10), amend);
    assert_eq!((send.map(|send| send.ticket), stack(&run)), (Some(run.progress.ticket), vec!["reserve", "charge"]));
    let entry = run.progress.tail.entries.last().unwrap();
    assert_eq!(entry.kind, EntryKind::LetStand);
    assert!(entry.more.note.as_ref().unwrap().ends_with("stands, by ann: torn up by hand"), "{entry:?}");
    let (ended, _) = take_back(run);
    let undoing = ended.progress.undoing.unwrap();
    assert_eq!((names(&undoing.stands), names(&undoing.undone)), (vec!["label"], vec!["charge", "reserve"]));
    assert_eq!(undoing.stands[0].note.as_deref(), Some("by ann: torn up by hand"));

    // The last one: the run ends with that word.
    let one = then(&then(&at_work(), goto(), vec![undoable("reserve", done())]), fail(), vec![]);
    let stuck = then(&one, fail(), vec![]);
    let (amend, send) = let_stand(&stuck, &act, at(10)).unwrap();
    let ended = amended(&stuck, at(10), amend);
    assert_eq!((send, ended.progress.status.phase()), (None, Phase::Failed));
    assert_eq!(names(&ended.progress.undoing.unwrap().stands), ["reserve"]);
}

#[test]
fn only_a_run_that_is_parked_while_it_takes_back_lets_something_stand() {
    let act = LetStand { by: "ann".into(), why: "-".into() };
    let undoing = then(&three(), fail(), vec![]);
    let over = ParkReason::Poison { acquires: 5 };
    for run in [
        undoing.clone(),
        three(),
        standing(Status::Created),
        standing(waiting(&["go"], None)),
        standing(Status::Parked { reason: over.clone(), at: T0 }),
        standing(Status::Failed { failure: failure("no"), at: T0 }),
    ] {
        let phase = run.progress.status.phase();
        assert_eq!(let_stand(&run, &act, at(10)).unwrap_err(), LetStandRefused::NotUndoing(phase));
    }
    // For whatever it is parked.
    let mut poisoned = stuck();
    poisoned.progress.status = Status::Parked { reason: over, at: T0 };
    let_stand(&poisoned, &act, at(10)).unwrap();
    // But not over what may have happened: nothing ends while that is open.
    let parked = then(&undoing, undone(), vec![EffectRecord { class: Class::Once, ..keyed("fax", "f", lost()) }]);
    assert!(make::parked_for(&parked).contains("effect fax"));
    let_stand(&parked, &act, at(10)).unwrap_err();
    let (settled, woken) = make::told(&parked, "fax", Resolution::Failed("never left".into()), at(10));
    assert!(woken && settled.progress.undoing.is_some());
    // Whoever was first.
    let (amend, _) = let_stand(&stuck(), &act, at(10)).unwrap();
    let after = amended(&stuck(), at(10), amend.clone());
    assert_eq!(make::write(&after, at(10), Write::Amend(Box::new(amend))), Err(Refusal::Revision));
}

#[test]
fn a_crash_in_the_middle_loses_no_place() {
    let mut run = then(&then(&three(), fail(), vec![]), undone(), vec![]);
    for crash in 1..=3_u64 {
        let next = acquire(&run, at(crash * 60_000)).unwrap();
        assert_eq!(next.progress, run.progress);
        assert_eq!(turn(&next, &Budget::none(), RULES, at(crash * 60_000)).unwrap(), Turn::Step);
        run = next;
    }
    let (ended, _) = take_back(run);
    assert_eq!(was_undone(&ended), ["label", "charge", "reserve"]);
}

/// A step that takes back may make effects, wait, and go on to others of its own.
#[test]
fn taking_back_is_ordinary_work_and_is_not_taken_back_itself() {
    let run = then(&three(), fail(), vec![]);
    let refund = |name: &str| EffectRecord { no_return: true, ..undoable(name, done()) };
    let run = then(&run, goto(), vec![refund("refund")]);
    assert_eq!((run.progress.place.step().as_str(), stack(&run).len()), ("Ship", 3));
    let wait = StepOutcome::Wait { place: place("Ask"), on: vec![], until: Some(at(60_000)), ask: None };
    let run = then(&run, wait, vec![]);
    let run = acquire(&run, at(60_000)).unwrap();
    let run = then(&run, undone(), vec![refund("again")]);
    assert_eq!((stack(&run), was_undone(&run)), (vec!["reserve", "charge"], vec!["label"]));
    let (ended, _) = take_back(run);
    assert_eq!((ended.progress.usage.effects_confirmed, was_undone(&ended).len()), (5, 3));
}

#[test]
fn a_cancellation_changes_nothing_of_what_a_failure_has_begun() {
    let undoing = with_cancel(&then(&three(), fail(), vec![]));
    assert_eq!(undoing.phase(at(9)), Phase::Cancelling);
    let (ended, _) = take_back(undoing.clone());
    let Status::Failed { failure, .. } = &ended.progress.status else { panic!("{ended:?}") };
    assert_eq!((failure.message.as_str(), was_undone(&ended).len()), ("sold out", 3));
    // Nor is a parked one ended by it.
    assert_eq!(cancel_parked(&with_cancel(&stuck()), at(9)).unwrap(), None);
}

#[test]
fn a_cancelled_run_takes_back_and_certifies_it() {
    let not_sent = Outcome::Failed(Failure::new(FailureKind::NotSent, "cancelled first"));
    let of_step = vec![undoable("notify", done()), EffectRecord { attempts: 0, ..keyed("mail", "m", not_sent) }];
    let retry = StepOutcome::Retry { failure: failure("cancelled"), policy: RetryPolicy::default(), at_least: None };
    for (name, outcome, step) in [("cut short", retry, "Ship"), ("ended", goto(), "Ship")] {
        let held = with_cancel(&three());
        let end = StepEnd { effects: of_step.clone(), step: "Ship".into(), ..end(outcome) };
        let decision = commit(&held, end, RULES, moment(at(9)), true).unwrap();
        assert!(matches!(decision.then, Then::HandOff(Some(_))), "{name}: {:?}", decision.then);
        let undoing = committed(&held, at(9), decision.commit);
        assert_eq!(last_kind(&undoing), EntryKind::Undoing, "{name}");
        let (ended, _) = take_back(undoing);
        let certificate = certificate(&ended);
        assert_eq!(names(&certificate.undone), ["notify", "label", "charge", "reserve"], "{name}");
        assert_eq!(names(&certificate.never_sent), ["mail"], "{name}");
        assert_eq!((certificate.confirmed, certificate.failed, certificate.uncertain.len()), (4, 0, 0), "{name}");
        assert_eq!((certificate.step.as_str(), certificate.lost_attempt), (step, None), "{name}");
        let first = &certificate.undone[3];
        assert_eq!((first.key.as_ref(), first.attempts), (Some(&three().progress.undo[0].key), 1), "{name}");
        assert!(certificate.stands.is_empty() && first.note.is_none(), "{name}");
    }
}

/// Nothing of it has begun but its first step: the state to take back with is what the input gives.
#[test]
fn the_first_step_of_a_run_is_taken_back_too() {
    let held = acquire(&make::started(), T0).unwrap();
    let end = StepEnd { effects: vec![undoable("reserve", done())], ..end(fail()) };
    let undoing = committed(&held, T0, commit(&held, end, RULES, moment(T0), true).unwrap().commit);
    let Place::Fresh { input: before, at: None } = &held.progress.place else { panic!("{held:?}") };
    let cursor = Json::of(&json!({"Undo": "reserve"})).unwrap();
    assert_eq!(undoing.progress.place, Place::Fresh { input: before.clone(), at: Some(cursor) });
    assert_eq!(undoing.progress.place.step(), "Undo");
    let (ended, _) = take_back(undoing);
    assert_eq!((ended.progress.status.phase(), was_undone(&ended)), (Phase::Failed, vec!["reserve"]));
}

#[test]
fn a_run_that_completes_takes_nothing_back() {
    let run = then(&three(), StepOutcome::Complete { output: inline(&json!(1)) }, vec![]);
    assert_eq!((run.progress.status.phase(), run.progress.undoing), (Phase::Completed, None));
}

/// What may have happened and was signed off stands in the certificate, taken back or not, with a key or without.
#[test]
fn what_was_signed_off_is_certified_after_all_is_taken_back() {
    let open = vec![unknown("fax", Class::Once), undoable("wire", lost())];
    let held = with_cancel(&three());
    let end = StepEnd { effects: open, ..end(fail()) };
    let parked = committed(&held, at(9), commit(&held, end, RULES, moment(at(9)), true).unwrap().commit);
    let undoing = taken_up(&make::signed_off(&parked, at(9)), at(9));
    let (ended, _) = take_back(undoing);
    let certificate = certificate(&ended);
    assert_eq!(names(&certificate.uncertain), ["fax", "wire"]);
    assert!(certificate.uncertain.iter().all(|effect| effect.signed_off_by.as_deref() == Some("bob")));
    assert_eq!(names(&certificate.undone), ["wire", "label", "charge", "reserve"]);
}
