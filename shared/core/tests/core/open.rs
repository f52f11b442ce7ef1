//! Effects that may have happened: a run does not end, and does not forget, before they are settled.

use crate::make::{
    self, RULES, T0, acquire, at, at_work, committed, end, failure, inline, keyed, moment, parked_for, place,
    succeeded, unknown, with_cancel,
};
use serde_json::json;
use stepwell_core::decide::{Resume, StepEnd, StepOutcome, Then, cancel_parked, commit, resume};
use stepwell_core::limits::LEDGER_RECORDS_MAX;
use stepwell_core::{Checkpoint, Class, EffectRecord, Outcome, ParkReason, Phase, RetryPolicy, Status};

const IDEMPOTENT: Class = Class::Idempotent(None);
/// Every class that acts.
const ACTING: [Class; 4] = [IDEMPOTENT, Class::Idempotent(Some(60_000)), Class::Reconcilable, Class::Once];

fn ending(outcome: StepOutcome, effects: Vec<EffectRecord>) -> Checkpoint {
    let held = at_work();
    let decision = commit(&held, StepEnd { effects, ..end(outcome) }, RULES, moment(T0), false).unwrap();
    committed(&held, T0, decision.commit)
}

fn ways_to_end() -> [(&'static str, StepOutcome); 3] {
    let retry = StepOutcome::Retry { failure: failure("busy"), policy: RetryPolicy::none(), at_least: None };
    [
        ("complete", StepOutcome::Complete { output: inline(&json!("done")) }),
        ("fail", StepOutcome::Fail { failure: failure("no") }),
        ("no attempts left", retry),
    ]
}

#[test]
fn a_run_with_an_open_effect_is_parked_instead_of_ended() {
    for (class, (name, outcome)) in ACTING.into_iter().flat_map(|class| ways_to_end().map(|way| (class, way))) {
        let run = ending(outcome, vec![succeeded("fetch"), unknown("mail", class)]);
        let (name, what) = (format!("{name}, {class:?}"), parked_for(&run));
        assert!(what.contains("effect mail") && what.contains("no answer"), "{name}: {what}");
        assert_eq!(run.progress.journal, [succeeded("fetch"), unknown("mail", class)], "{name}: what is known is kept");
    }
}

#[test]
fn a_read_that_may_have_happened_holds_nothing_up() {
    for (name, outcome) in ways_to_end() {
        let run = ending(outcome, vec![unknown("fetch", Class::Read)]);
        assert!(run.progress.status.phase().is_ended(), "{name}: {:?}", run.progress.status);
    }
}

#[test]
fn an_open_effect_stays_with_the_run_and_holds_up_its_end() {
    for class in ACTING {
        let goto = StepOutcome::Goto { place: place("Send") };
        let run = ending(goto, vec![unknown("mail", class), succeeded("fetch")]);
        assert_eq!(run.progress.ledger, [unknown("mail", class)]);

        let held = acquire(&run, at(1)).unwrap();
        let complete = StepOutcome::Complete { output: inline(&json!("done")) };
        let decision = commit(&held, end(complete.clone()), RULES, moment(at(1)), false).unwrap();
        assert_eq!(decision.then, Then::Ended);
        assert!(parked_for(&committed(&held, at(1), decision.commit)).contains("effect mail"), "{class:?}");

        // Once a later visit has settled it, nothing is in the way.
        let end = StepEnd { effects: vec![settled("mail", class)], ..end(complete) };
        let decision = commit(&held, end, RULES, moment(at(1)), false).unwrap();
        let phase = committed(&held, at(1), decision.commit).progress.status.phase();
        assert_eq!(phase, Phase::Completed, "{class:?}");
    }
}

fn settled(name: &str, class: Class) -> EffectRecord {
    EffectRecord { outcome: Outcome::Succeeded(inline(&json!(1))), ..unknown(name, class) }
}

/// Late evidence comes to a later visit than the one that left the effect open.
#[test]
fn what_is_settled_leaves_the_ledger_unless_it_belongs_to_the_run() {
    for class in ACTING {
        let goto = || StepOutcome::Goto { place: place("Send") };
        let run_wide = |record| EffectRecord { of_run: true, ..record };
        let open = vec![unknown("mail", class), run_wide(unknown("book", class))];
        let run = ending(goto(), open.clone());
        assert_eq!(run.progress.ledger, open, "{class:?}");

        let held = acquire(&run, at(1)).unwrap();
        let effects = vec![settled("mail", class), run_wide(settled("book", class))];
        let decision = commit(&held, StepEnd { effects: effects.clone(), ..end(goto()) }, RULES, moment(at(1)), false);
        let after = committed(&held, at(1), decision.unwrap().commit);
        assert_eq!(after.progress.ledger, effects[1..], "{class:?}");
        assert_eq!(after.progress.usage.effects_confirmed, 2, "{class:?}");
        let lines: Vec<_> = after.progress.tail.entries.last().unwrap().more.effects.iter().collect();
        assert_eq!(lines.len(), 2, "{class:?}: the history says so");
    }
}

#[test]
fn a_ledger_that_is_full_keeps_what_may_have_happened() {
    let lost = || Outcome::Unknown { since: T0, evidence: "no answer".into() };
    let signed_off = EffectRecord { signed_off: Some("bob".into()), ..keyed("fax", "first", lost()) };
    let mut effects = vec![keyed("mail", "first", lost()), signed_off];
    let done = || Outcome::Succeeded(inline(&json!("ok")));
    effects.extend((0..LEDGER_RECORDS_MAX + 2).map(|n| keyed("book", &n.to_string(), done())));
    let held = at_work();
    let goto = StepOutcome::Goto { place: place("Send") };
    let decision = commit(&held, StepEnd { effects, ..end(goto) }, RULES, moment(T0), false).unwrap();
    assert_eq!(decision.commit.spill.len(), 4);
    assert!(decision.commit.spill.iter().all(|record| !record.is_unknown()));
    let kept: Vec<_> = decision.commit.progress.ledger.iter().map(|record| record.name.as_str()).take(2).collect();
    assert_eq!(kept, ["mail", "fax"]);
}

#[test]
fn resuming_is_a_persons_word_on_the_open_effects_and_only_then() {
    let act = Resume { by: "ann".into(), why: None };
    let complete = StepOutcome::Complete { output: inline(&json!("done")) };
    let mut parked = ending(complete, vec![unknown("mail", IDEMPOTENT)]);
    parked.hold.tried_since = Some(T0);
    let (amend, _) = resume(&parked, &act, at(9)).unwrap();
    // It is asked again under its key, its window begins now, and until it answers it stays open.
    let Outcome::Unknown { since, evidence } = &amend.progress.journal[0].outcome else { panic!("{amend:?}") };
    assert_eq!((*since, evidence.as_str(), amend.tried_since), (at(9), "resumed by ann", None));

    parked.progress.status = Status::Parked { reason: ParkReason::Poison { acquires: 5 }, at: T0 };
    let (amend, _) = resume(&parked, &act, at(9)).unwrap();
    assert_eq!(amend.progress.journal, parked.progress.journal, "nobody has spoken of the effect");
    assert_eq!(amend.tried_since, Some(T0), "what crashed attempts may have done stays open");
}

#[test]
fn resuming_says_nothing_of_what_cannot_be_called_again_unasked() {
    let act = Resume { by: "ann".into(), why: None };
    let complete = StepOutcome::Complete { output: inline(&json!("done")) };
    let open = vec![unknown("fax", Class::Once), unknown("pay", Class::Reconcilable), unknown("mail", IDEMPOTENT)];
    let mut parked = ending(complete, open.clone());
    parked.progress.ledger = vec![unknown("wire", Class::Once), unknown("post", IDEMPOTENT)];
    let (amend, _) = resume(&parked, &act, at(9)).unwrap();
    assert_eq!(amend.progress.journal[..2], open[..2], "since when, and what was seen");
    assert_eq!(amend.progress.ledger[0], parked.progress.ledger[0]);
    for record in [&amend.progress.journal[2], &amend.progress.ledger[1]] {
        assert!(matches!(&record.outcome, Outcome::Unknown { since, .. } if *since == at(9)), "{record:?}");
    }
    assert_eq!(amend.progress.status, Status::Running, "it goes on, and finds the question again");
}

#[test]
fn a_certificate_lists_every_class_that_may_have_acted_and_who_has_signed_it_off() {
    let mut held = with_cancel(&at_work());
    held.progress.ledger = vec![unknown("old", Class::Once), unknown("told", Class::Reconcilable)];
    let mut effects =
        vec![unknown("mail", IDEMPOTENT), unknown("pay", Class::Reconcilable), unknown("fax", Class::Once)];
    effects.extend([unknown("look", Class::Read), settled("told", Class::Reconcilable)]);
    let goto = StepOutcome::Goto { place: place("Send") };
    let fail = StepOutcome::Fail { failure: failure("no") };
    for outcome in [goto, fail] {
        let end = StepEnd { effects: effects.clone(), ..end(outcome) };
        let decision = commit(&held, end, RULES, moment(T0), false).unwrap();
        let parked = committed(&held, T0, decision.commit);
        assert!(parked_for(&parked).contains("effect mail"), "{:?}", parked.progress.status);
        let ended = make::taken_up(&make::signed_off(&parked, T0), T0);

        let certificate = make::certificate(&ended);
        let mut names: Vec<_> = certificate.uncertain.iter().map(|line| (line.name.as_str(), line.class)).collect();
        names.sort_by_key(|(name, _)| *name);
        let expected = [("fax", Class::Once), ("mail", IDEMPOTENT), ("old", Class::Once), ("pay", Class::Reconcilable)];
        assert_eq!((names, certificate.confirmed), (expected.to_vec(), 1));
        assert!(certificate.uncertain.iter().all(|line| line.signed_off_by.as_deref() == Some("bob")));
    }
}

#[test]
fn a_parked_run_is_cancelled_without_a_worker_once_nothing_is_open() {
    let complete = StepOutcome::Complete { output: inline(&json!("done")) };
    let parked = ending(complete, vec![succeeded("fetch"), unknown("mail", IDEMPOTENT)]);
    assert_eq!(cancel_parked(&parked, T0).unwrap(), None, "nobody has asked");
    let cancelled = with_cancel(&parked);
    assert_eq!(cancel_parked(&cancelled, at(5)).unwrap(), None, "mail may have happened");

    let mut signed = cancelled.clone();
    signed.progress.journal[1].signed_off = Some("bob".into());
    let (amend, send) = cancel_parked(&signed, at(5)).unwrap().unwrap();
    assert_eq!(send, None, "it has ended");
    let certificate = make::certificate(&make::amended(&signed, at(5), amend));
    assert_eq!((certificate.confirmed, certificate.failed), (1, 0));
    assert_eq!(certificate.uncertain.iter().map(|line| line.name.as_str()).collect::<Vec<_>>(), ["mail"]);

    assert_eq!(cancel_parked(&with_cancel(&at_work()), T0).unwrap(), None, "a live run is its worker's to end");
}

#[test]
fn a_certificate_tells_of_an_attempt_whose_worker_died() {
    let certified = |run: &Checkpoint| {
        let held = acquire(&with_cancel(run), at(60_000)).unwrap();
        let decision = make::turned(&held, at(60_000));
        let ended = committed(&held, at(60_000), decision.commit);
        let Status::Cancelled { certificate, .. } = ended.progress.status else { panic!("{ended:?}") };
        certificate.lost_attempt
    };
    let crashed = at_work();
    assert_eq!(certified(&crashed), Some(T0), "its worker was never heard of again");
    let goto = StepOutcome::Goto { place: place("Send") };
    assert_eq!(certified(&ending(goto, Vec::new())), None, "nobody has tried the next step");
}

fn letters(count: usize) -> Vec<EffectRecord> {
    (0..count).map(|number| unknown(&format!("letter-{number}"), Class::Once)).collect()
}

/// What is open is never spilled: it stays where a certificate and a person look.
#[test]
fn a_step_with_more_open_effects_than_a_checkpoint_holds_does_not_go_on() {
    let wait = StepOutcome::Wait { place: place("Send"), on: vec![make::signal("go")], until: None, ask: None };
    for outcome in [StepOutcome::Goto { place: place("Send") }, wait] {
        let run = ending(outcome.clone(), letters(LEDGER_RECORDS_MAX));
        assert_eq!((run.progress.ledger.len(), run.progress.spilled), (LEDGER_RECORDS_MAX, 0), "{outcome:?}");
        assert_ne!(run.progress.status.phase(), Phase::Parked, "{outcome:?}");
        for more in [1, 2] {
            let run = ending(outcome.clone(), letters(LEDGER_RECORDS_MAX + more));
            assert!(parked_for(&run).contains("effect letter-0"), "{outcome:?}");
            assert_eq!((run.progress.journal.len(), run.progress.spilled), (LEDGER_RECORDS_MAX + more, 0));
        }
    }
}

#[test]
fn a_ledger_that_is_full_of_what_may_have_happened_lets_go_of_what_is_signed_off() {
    let lost = Outcome::Unknown { since: T0, evidence: "no answer".into() };
    let mut effects = letters(LEDGER_RECORDS_MAX);
    effects.push(EffectRecord { signed_off: Some("bob".into()), ..keyed("fax", "first", lost) });
    let goto = StepOutcome::Goto { place: place("Send") };
    let decision = commit(&at_work(), StepEnd { effects, ..end(goto) }, RULES, moment(T0), false).unwrap();
    assert_eq!(make::steps::named(&decision.commit.spill), ["fax"]);
    assert_eq!(decision.commit.progress.ledger, letters(LEDGER_RECORDS_MAX));
}
