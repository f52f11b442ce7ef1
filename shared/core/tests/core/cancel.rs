//! A cancelled run ends when nothing is open any more: its last step asks, late evidence tells, or a person says how it was.

use core::time::Duration;

use crate::make::{
    self, RULES, T0, acquire, amended, at, at_work, certificate, committed, end, failure, inline, keyed, moment,
    parked_for, place, standing, succeeded, taken_up, unknown, with_cancel, write,
};
use serde_json::json;
use stepwell_core::budget::Span;
use stepwell_core::decide::{
    Decision, Resolution, Resume, StepEnd, StepOutcome, Then, Turn, cancel_parked, commit, resume, turn,
};
use stepwell_core::limits::LEDGER_RECORDS_MAX;
use stepwell_core::mailbox::EVIDENCE;
use stepwell_core::write::{Refusal, Write};
use stepwell_core::{
    Budget, CertifiedEffect, Checkpoint, Class, EffectRecord, Failure, FailureKind, Json, Letter, MailboxSeq, Outcome,
    OverBudget, ParkReason, Payload, Phase, RetryPolicy, Status,
};

const IDEMPOTENT: Class = Class::Idempotent(None);

/// A run whose step was cut off by a crash with these effects in its journal, cancelled, and taken up by the next worker.
fn crashed(journal: Vec<EffectRecord>) -> Checkpoint {
    let mut run = with_cancel(&at_work());
    run.progress.journal = journal;
    acquire(&run, at(60_000)).unwrap()
}

fn done() -> Outcome {
    Outcome::Succeeded(inline(&json!("ok")))
}

fn retry(policy: RetryPolicy) -> StepOutcome {
    let failure = Failure::new(FailureKind::Error, "the run is cancelled");
    StepOutcome::Retry { failure, policy, at_least: None }
}

fn goto() -> StepOutcome {
    StepOutcome::Goto { place: place("Send") }
}

fn ended(held: &Checkpoint, outcome: StepOutcome, effects: Vec<EffectRecord>) -> Decision {
    commit(held, StepEnd { effects, ..end(outcome) }, RULES, moment(at(60_010)), true).unwrap()
}

fn after(held: &Checkpoint, outcome: StepOutcome, effects: Vec<EffectRecord>) -> Checkpoint {
    committed(held, at(60_010), ended(held, outcome, effects).commit)
}

fn names(effects: &[CertifiedEffect]) -> Vec<&str> {
    effects.iter().map(|effect| effect.name.as_str()).collect()
}

#[test]
fn a_step_runs_once_more_to_ask_and_for_nothing_else() {
    let asks = |run: &Checkpoint| turn(run, &Budget::none(), RULES, at(60_000)).unwrap() == Turn::Step;
    let pay = unknown("pay", Class::Reconcilable);
    let signed_off = EffectRecord { signed_off: Some("bob".into()), ..pay.clone() };
    for (name, journal, expected) in [
        ("nothing was called", vec![], false),
        ("it can be asked about", vec![succeeded("mail"), pay.clone()], true),
        ("it can not", vec![unknown("fax", Class::Once), unknown("post", IDEMPOTENT)], false),
        ("one of two", vec![unknown("fax", Class::Once), pay.clone()], true),
        ("it is settled", vec![EffectRecord { outcome: done(), ..pay.clone() }], false),
        ("it was signed off", vec![signed_off], false),
    ] {
        assert_eq!(asks(&crashed(journal)), expected, "{name}");
    }
    // An earlier step's is nothing that this one could ask about.
    let mut earlier = crashed(vec![]);
    earlier.progress.ledger = vec![pay.clone()];
    assert!(!asks(&earlier));
    // A step that kills its worker does not run again, to ask or for whatever.
    let mut poison = crashed(vec![pay]);
    poison.hold.acquires = RULES.acquires_max + 1;
    assert!(!asks(&poison));
    assert!(
        parked_for(&committed(&poison, at(60_000), make::turned(&poison, at(60_000)).commit)).contains("effect pay")
    );
}

#[test]
fn what_it_finds_out_ends_the_run() {
    let held = crashed(vec![unknown("pay", Class::Reconcilable)]);
    let found = |outcome| vec![EffectRecord { outcome, ..unknown("pay", Class::Reconcilable) }];
    let absent = Outcome::Failed(Failure::new(FailureKind::NotSent, "the outside knows of none"));
    for (name, effects, confirmed, never_sent) in
        [("it happened", found(done()), 1, vec![]), ("it did not", found(absent), 0, vec!["pay"])]
    {
        for outcome in [retry(RetryPolicy::default()), goto()] {
            let certificate = certificate(&after(&held, outcome, effects.clone()));
            assert_eq!(
                (certificate.confirmed, names(&certificate.never_sent)),
                (confirmed, never_sent.clone()),
                "{name}"
            );
            assert_eq!((certificate.failed, certificate.uncertain.len()), (0, 0), "{name}");
        }
    }
}

#[test]
fn it_asks_again_for_as_long_as_its_policy_says_and_then_a_person() {
    let pay = || vec![unknown("pay", Class::Reconcilable)];
    let policy = RetryPolicy::default().every(Duration::from_secs(5)).max_attempts(2);
    let first = ended(&crashed(pay()), retry(policy.clone()), pay());
    assert_eq!(first.commit.progress.status, Status::Retrying { at: at(65_010) });
    let again = committed(&crashed(pay()), at(60_010), first.commit);
    // A cancellation does not wait for the delay.
    let held = acquire(&again, at(60_020)).unwrap();
    assert_eq!(turn(&held, &Budget::none(), RULES, at(60_020)).unwrap(), Turn::Step);

    let parked = after(&held, retry(policy), pay());
    assert!(parked_for(&parked).contains("effect pay"));
    assert_eq!((parked.progress.journal.clone(), parked.phase(at(60_020))), (pay(), Phase::Parked));
    // Nothing that no asking settles is asked about.
    let fax = vec![unknown("fax", Class::Once)];
    parked_for(&after(&crashed(fax.clone()), retry(RetryPolicy::default()), fax));
}

/// The letter of a worker that has lost the run and still heard how this ended.
fn evidence(record: &EffectRecord) -> Letter {
    let payload = Payload::Inline(Json::of(record).unwrap());
    Letter { payload, ..make::letter(&format!("evidence-{}", record.name), EVIDENCE) }
}

fn told(run: &Checkpoint, record: &EffectRecord) -> Checkpoint {
    write(run, at(60_005), Write::Signal(Box::new(evidence(record)))).unwrap()
}

#[test]
fn late_evidence_that_its_step_has_not_read_is_looked_at_before_anybody_is_asked() {
    let fax = unknown("fax", Class::Once);
    let known = EffectRecord { outcome: done(), ..fax.clone() };
    for outcome in [StepOutcome::Fail { failure: failure("no") }, retry(RetryPolicy::none()), goto()] {
        let held = told(&crashed(vec![fax.clone()]), &known);
        let decision = ended(&held, outcome.clone(), vec![fax.clone()]);
        assert!(matches!(decision.then, Then::HandOff(Some(_))), "{outcome:?}: {:?}", decision.then);
        let run = committed(&held, at(60_010), decision.commit);
        let over = taken_up(&run, at(60_011));
        let certificate = certificate(&over);
        assert_eq!((certificate.confirmed, certificate.uncertain.len()), (1, 0), "{outcome:?}");
        assert!(over.mailbox.letters.iter().all(|letter| letter.name.as_str() != EVIDENCE), "it was read");
    }
    // It comes between the decision and the write.
    let held = crashed(vec![fax.clone()]);
    let decision = ended(&held, goto(), vec![fax.clone()]);
    assert_eq!(decision.commit.mailbox_seen, Some(MailboxSeq(1)));
    let write = write(&told(&held, &known), at(60_010), Write::Commit(Box::new(decision.commit)));
    assert_eq!(write, Err(Refusal::MailboxMoved));
}

#[test]
fn a_run_that_no_step_runs_for_reads_late_evidence_all_the_same() {
    let open = [unknown("fax", Class::Once), keyed("post", "p", Outcome::Unknown { since: T0, evidence: "-".into() })];
    for in_ledger in [false, true] {
        let mut held = crashed(open.to_vec());
        if in_ledger {
            held.progress.ledger = std::mem::take(&mut held.progress.journal);
        }
        let first = told(&held, &EffectRecord { outcome: done(), ..open[0].clone() });
        // One is still open: a person is asked about that one, and what is known is kept.
        let parked = committed(&first, at(60_010), make::turned(&first, at(60_010)).commit);
        assert!(parked_for(&parked).contains("effect post"), "in the ledger {in_ledger}");
        let both = told(&first, &EffectRecord { outcome: Outcome::Failed(failure("no")), ..open[1].clone() });
        let over = committed(&both, at(60_010), make::turned(&both, at(60_010)).commit);
        let certificate = certificate(&over);
        assert_eq!((certificate.confirmed, certificate.failed), (1, 1), "in the ledger {in_ledger}");
        // What says nothing new is no reason to look again and again.
        let word = told(&crashed(vec![open[0].clone()]), &EffectRecord { outcome: done(), ..open[1].clone() });
        parked_for(&committed(&word, at(60_010), make::turned(&word, at(60_010)).commit));
        let noise = Letter { payload: inline(&json!("?")), ..evidence(&open[0]) };
        let noise = write(&crashed(vec![open[0].clone()]), at(60_005), Write::Signal(Box::new(noise))).unwrap();
        parked_for(&committed(&noise, at(60_010), make::turned(&noise, at(60_010)).commit));
    }
}

#[test]
fn each_word_of_a_person_lets_the_run_end_with_it() {
    let ok = || Resolution::Succeeded(inline(&json!("ok")));
    let cases = [
        (ok(), 1, 0, vec![]),
        (Resolution::Failed("never left".into()), 0, 1, vec![]),
        (Resolution::TryAgain, 0, 0, vec![]),
        (Resolution::SignOff, 0, 0, vec!["fax"]),
    ];
    for (resolution, confirmed, failed, uncertain) in cases {
        // The step had not ended; it had, and the effect is in the ledger by now; so it was before.
        let fax = || vec![unknown("fax", Class::Once)];
        let mut earlier = crashed(vec![]);
        earlier.progress.ledger = fax();
        for (place, parked) in [
            ("not ended", after(&crashed(fax()), StepOutcome::Fail { failure: failure("no") }, fax())),
            ("ended", after(&crashed(fax()), goto(), fax())),
            ("before", after(&earlier, goto(), vec![])),
        ] {
            let name = format!("{}, {place}", resolution.as_str());
            assert!(parked_for(&parked).contains("effect fax"), "{name}");
            assert_eq!(cancel_parked(&parked, at(60_011)).unwrap(), None, "{name}: it is open");
            let (settled, woken) = make::told(&parked, "fax", resolution.clone(), at(60_011));
            assert!(woken, "{name}");
            let certificate = certificate(&taken_up(&settled, at(60_012)));
            assert_eq!((certificate.confirmed, certificate.failed), (confirmed, failed), "{name}");
            assert_eq!(names(&certificate.uncertain), uncertain, "{name}");
            let by = certificate.uncertain.iter().map(|effect| effect.signed_off_by.as_deref());
            assert!(by.into_iter().all(|by| by == Some("bob")), "{name}");
        }
    }
}

#[test]
fn what_stands_in_the_certificate_says_what_a_person_needs_to_look_it_up() {
    let fax = EffectRecord { attempts: 3, until: Some(at(20_000)), ..unknown("fax", Class::Once) };
    let parked = after(&crashed(vec![fax.clone()]), goto(), vec![fax.clone()]);
    let certificate = certificate(&taken_up(&make::signed_off(&parked, at(60_011)), at(60_012)));
    let expected = CertifiedEffect { signed_off_by: Some("bob".into()), ..CertifiedEffect::from(&fax) };
    assert_eq!(certificate.uncertain, std::slice::from_ref(&expected));
    assert_eq!((expected.key, expected.until, expected.attempts), (Some(fax.key), fax.until, 3));
    assert_eq!(certificate.lost_attempt, None, "the step has ended");
}

fn reasons() -> [ParkReason; 7] {
    let over = OverBudget { span: Span::Run, counter: "cents".into(), limit: 1, spent: 2 };
    [
        ParkReason::Poison { acquires: 5 },
        ParkReason::Incompatible { missing: "no step Draft".into() },
        ParkReason::StepLimit { limit: 9 },
        ParkReason::Data { what: "blob k is missing".into() },
        ParkReason::UnknownOutcome { what: "effect pay".into() },
        ParkReason::Budget(over),
        ParkReason::Undo { what: "effect pay stands".into() },
    ]
}

#[test]
fn a_parked_run_that_is_cancelled_ends_for_whatever_it_was_parked() {
    for reason in reasons() {
        let name = reason.code();
        let parked = |journal: Vec<EffectRecord>| {
            let mut run = standing(Status::Parked { reason: reason.clone(), at: T0 });
            run.progress.journal = journal;
            with_cancel(&run)
        };
        // With nothing open or to take back it ends at once.
        let (amend, send) = cancel_parked(&parked(vec![succeeded("mail")]), at(5)).unwrap().unwrap();
        let over = amended(&parked(vec![succeeded("mail")]), at(5), amend);
        assert_eq!((send, certificate(&over).confirmed), (None, 1), "{name}");

        // With something to take back it goes on to that.
        let undo = Some(Json::of("Undo").unwrap());
        let reserve = EffectRecord { undo, ..keyed("reserve", "r", done()) };
        let before = parked(vec![reserve]);
        let (amend, send) = cancel_parked(&before, at(5)).unwrap().unwrap();
        let undoing = amended(&before, at(5), amend);
        assert_eq!(send.map(|send| send.ticket), Some(undoing.progress.ticket), "{name}");
        // A turn takes it back: an amendment has nowhere to put what the ledger cannot hold.
        assert_eq!((undoing.progress.place.step().as_str(), undoing.progress.undo.len()), ("Draft", 0), "{name}");
        let undoing = taken_up(&undoing, at(5));
        assert_eq!((undoing.progress.place.step().as_str(), undoing.progress.undo.len()), ("Undo", 1), "{name}");
        let held = acquire(&undoing, at(6)).unwrap();
        assert_eq!(turn(&held, &Budget::none(), RULES, at(6)).unwrap(), Turn::Step, "{name}");
        let over = after(&held, StepOutcome::Undone { place: place("Draft") }, vec![]);
        assert_eq!(names(&certificate(&over).undone), ["reserve"], "{name}");

        // With something open a person is needed first, and their word lets it go on.
        let before = parked(vec![unknown("fax", Class::Once)]);
        assert_eq!(cancel_parked(&before, at(5)).unwrap(), None, "{name}");
        let (settled, woken) = make::told(&before, "fax", Resolution::SignOff, at(5));
        assert!(woken, "{name}");
        assert_eq!(names(&certificate(&taken_up(&settled, at(6))).uncertain), ["fax"], "{name}");
        // Resuming it says nothing of the effect: it comes back to the question.
        let (amend, _) = resume(&before, &Resume { by: "ann".into(), why: None }, at(5)).unwrap();
        parked_for(&taken_up(&amended(&before, at(5), amend), at(6)));
    }
}

/// The checkpoint has room for so many. What does not fit it stays in the journal, and is settled there.
#[test]
fn more_open_effects_than_the_ledger_holds_are_all_kept() {
    let many: Vec<_> =
        (0..LEDGER_RECORDS_MAX + 2).map(|number| unknown(&format!("fax-{number}"), Class::Once)).collect();
    let decision = ended(&crashed(vec![]), goto(), many.clone());
    assert!(decision.commit.spill.is_empty());
    let parked = committed(&crashed(vec![]), at(60_010), decision.commit);
    assert_eq!(parked.progress.journal, many);
    assert_eq!(certificate(&taken_up(&make::signed_off(&parked, at(60_011)), at(60_012))).uncertain.len(), many.len());
}
