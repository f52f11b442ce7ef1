//! A person says how an effect ended that nobody knows of: what is written down, and whether the run goes on.

use core::time::Duration;

use crate::make::{
    self, MARK, T0, acquire, at, failure, held, inline, standing, succeeded, unknown, waiting, with_cancel,
    with_letter, write,
};
use serde_json::json;
use stepwell_core::checkpoint::Trouble;
use stepwell_core::decide::{Resolution, Resolve, ResolveRefused, Send, due_at, resolve, resume_for_evidence};
use stepwell_core::history::{Entry, EntryKind, LineOutcome};
use stepwell_core::write::{Amend, Refusal, Write};
use stepwell_core::{
    Certificate, Checkpoint, Class, EffectKey, EffectRecord, Failure, FailureKind, Outcome, ParkReason, Phase, Status,
    Ticket, Timestamp, invariants,
};

/// When the person speaks.
const NOW: Timestamp = Timestamp(T0.0 + 60_000);
const WINDOW: Class = Class::Idempotent(Some(60_000));
const CLASSES: [Class; 4] = [Class::Once, Class::Reconcilable, Class::Idempotent(None), WINDOW];

fn act(record: &EffectRecord, resolution: Resolution) -> Resolve {
    Resolve { key: record.key.clone(), resolution, by: "ann".into(), why: "seen in the bank's list".into() }
}

fn resolutions() -> [Resolution; 3] {
    [Resolution::Succeeded(inline(&json!("r-7"))), Resolution::Failed("never left".into()), Resolution::TryAgain]
}

fn question() -> ParkReason {
    ParkReason::UnknownOutcome { what: "effect pay may have happened".into() }
}

fn parked(reason: ParkReason) -> Status {
    Status::Parked { reason, at: T0 }
}

/// A run that stands so, has failed twice, and knows this of its effects.
fn run_with(status: Status, journal: Vec<EffectRecord>, ledger: Vec<EffectRecord>) -> Checkpoint {
    let mut run = standing(status);
    run.hold.tried_since = Some(T0);
    run.progress.trouble = Some(Trouble { failed: 2, incompatible: 0, since: T0, last: failure("busy") });
    (run.progress.journal, run.progress.ledger) = (journal, ledger);
    run
}

/// The run after the amendment, which has to be accepted.
fn amended(run: &Checkpoint, amend: Amend) -> Checkpoint {
    let after = write(run, NOW, Write::Amend(Box::new(amend))).unwrap();
    invariants::check(&after).unwrap();
    after
}

fn resolved(run: &Checkpoint, record: &EffectRecord, resolution: Resolution) -> (Checkpoint, Option<Send>) {
    let (amend, send) = resolve(run, &act(record, resolution), NOW).unwrap();
    (amended(run, amend), send)
}

fn refused(run: &Checkpoint, key: &EffectKey, now: Timestamp) -> ResolveRefused {
    let act = Resolve { key: key.clone(), ..act(&unknown("pay", Class::Once), Resolution::TryAgain) };
    resolve(run, &act, now).unwrap_err()
}

fn last_entry(run: &Checkpoint) -> Entry {
    run.progress.tail.entries.last().unwrap().clone()
}

#[test]
fn a_run_goes_on_where_it_stands_for_want_of_the_answer_and_nowhere_else() {
    let missing = "no step Draft".to_string();
    let statuses = [
        (parked(question()), true),
        (Status::Retrying { at: at(3_600_000) }, true),
        (parked(ParkReason::Poison { acquires: 5 }), false),
        (parked(ParkReason::StepLimit { limit: 9 }), false),
        (parked(ParkReason::Incompatible { missing }), false),
        (parked(ParkReason::Data { what: "blob k is missing".into() }), false),
        (Status::Created, false),
        (Status::Running, false),
        (waiting(&["go"], Some(at(3_600_000))), false),
        (waiting(&["go"], None), false),
    ];
    let pay = unknown("pay", Class::Once);
    for ((status, goes_on), resolution) in
        statuses.iter().flat_map(|status| resolutions().map(|resolution| (status, resolution)))
    {
        let name = format!("{status:?}, {}", resolution.as_str());
        let before = run_with(status.clone(), vec![pay.clone()], vec![]);
        let (after, send) = resolved(&before, &pay, resolution);
        if *goes_on {
            assert_eq!(send, Some(Send { ticket: Ticket(6), delay: Duration::ZERO }), "{name}");
            assert_eq!((after.progress.status.clone(), after.progress.ticket), (Status::Running, Ticket(6)), "{name}");
            assert_eq!((after.progress.trouble.clone(), after.due_at), (None, Some(MARK)), "{name}");
            acquire(&after, NOW).unwrap();
        } else {
            assert_eq!((send, after.progress.ticket), (None, Ticket(5)), "{name}");
            assert_eq!((&after.progress.status, &after.progress.trouble), (status, &before.progress.trouble), "{name}");
            assert_eq!(after.due_at, due_at(status, NOW), "{name}");
        }
        assert_eq!(after.progress.revision, before.progress.revision.next(), "{name}");
        assert_eq!(
            (after.progress.visit, &after.progress.place),
            (before.progress.visit, &before.progress.place),
            "{name}"
        );
        assert_eq!(after.hold.tried_since, Some(T0), "{name}: of what has no record nothing was said");
        assert!(!after.progress.journal.iter().any(EffectRecord::is_open), "{name}");
    }
}

#[test]
fn what_a_person_says_is_what_the_step_finds() {
    for (class, in_ledger) in CLASSES.into_iter().flat_map(|class| [(class, false), (class, true)]) {
        let pay = EffectRecord { attempts: 3, until: Some(at(20_000)), of_run: true, ..unknown("pay", class) };
        let (journal, ledger) = if in_ledger { (vec![], vec![pay.clone()]) } else { (vec![pay.clone()], vec![]) };
        let before = run_with(parked(question()), journal, ledger);
        let found = |resolution| {
            let after = resolved(&before, &pay, resolution).0.progress;
            let (kept, empty) = if in_ledger { (after.ledger, after.journal) } else { (after.journal, after.ledger) };
            assert_eq!(empty, [], "{class:?}");
            kept
        };
        let with = |outcome| vec![EffectRecord { outcome, ..pay.clone() }];
        let [done, refused, again] = resolutions();
        assert_eq!(found(done), with(Outcome::Succeeded(inline(&json!("r-7")))), "{class:?}");
        let failure = Failure::new(FailureKind::Refused, "never left");
        assert_eq!(found(refused), with(Outcome::Failed(failure)), "{class:?}");
        let forgotten = class.needs_intent();
        let window = Outcome::Unknown { since: NOW, evidence: "to be called again, by ann".into() };
        assert_eq!(found(again), if forgotten { vec![] } else { with(window) }, "{class:?}");
    }
}

#[test]
fn a_word_on_one_effect_leaves_all_others_as_they_are() {
    let (pay, post) = (unknown("pay", Class::Once), unknown("post", Class::Reconcilable));
    let (mail, look) = (succeeded("mail"), unknown("look", Class::Read));
    let before = run_with(parked(question()), vec![mail.clone(), pay.clone(), look.clone()], vec![post.clone()]);
    for resolution in resolutions() {
        let after = resolved(&before, &pay, resolution).0.progress;
        let others: Vec<_> = after.journal.iter().filter(|record| record.key != pay.key).cloned().collect();
        assert_eq!((others, after.ledger), (vec![mail.clone(), look.clone()], vec![post.clone()]));
    }
}

#[test]
fn a_run_stays_parked_until_the_last_open_effect_is_settled() {
    let (pay, post) = (unknown("pay", Class::Once), unknown("post", Class::Reconcilable));
    for (journal, ledger) in [
        (vec![pay.clone(), post.clone()], vec![]),
        (vec![pay.clone()], vec![post.clone()]),
        (vec![], vec![pay.clone(), post.clone()]),
    ] {
        for status in [parked(question()), Status::Retrying { at: at(3_600_000) }] {
            let before = run_with(status.clone(), journal.clone(), ledger.clone());
            let (half, send) = resolved(&before, &pay, Resolution::TryAgain);
            assert_eq!((send, &half.progress.status), (None, &status), "{status:?}");
            let (whole, send) = resolved(&half, &post, Resolution::Failed("no".into()));
            assert_eq!(send.map(|send| send.ticket), Some(Ticket(6)), "{status:?}");
            assert_eq!(whole.progress.status, Status::Running, "{status:?}");
        }
    }
    // A read that may have happened is in nobody's way.
    let before = run_with(parked(question()), vec![pay.clone(), unknown("look", Class::Read)], vec![]);
    assert!(resolved(&before, &pay, Resolution::TryAgain).1.is_some());
}

/// A letter of late evidence has told the step, which was parked for want of another. The journal knows more than the ledger.
#[test]
fn what_the_journal_has_settled_is_not_open_whatever_the_ledger_says() {
    let (pay, post) = (unknown("pay", Class::Once), unknown("post", Class::Once));
    let told = EffectRecord { outcome: Outcome::Succeeded(inline(&json!("p-1"))), ..post.clone() };
    let before = run_with(parked(question()), vec![pay.clone(), told.clone()], vec![post.clone()]);
    assert_eq!(refused(&before, &post.key, NOW), ResolveRefused::NotOpen(post.key.clone()));
    let (after, send) = resolved(&before, &pay, Resolution::TryAgain);
    assert!(send.is_some(), "nothing else is open: {:?}", after.progress.status);
    assert_eq!(after.progress.journal, [told]);
}

#[test]
fn what_is_not_open_is_not_resolved() {
    let done = EffectRecord { class: Class::Once, ..succeeded("mail") };
    let said = make::effect("book", Class::Once, Outcome::Failed(failure("sold out")));
    let look = unknown("look", Class::Read);
    let run = run_with(parked(question()), vec![done.clone(), look.clone()], vec![said.clone()]);
    for record in [done, look, said, unknown("never", Class::Once)] {
        assert_eq!(refused(&run, &record.key, NOW), ResolveRefused::NotOpen(record.key.clone()), "{}", record.name);
    }
}

#[test]
fn the_certificate_of_a_run_that_has_ended_stands() {
    let pay = unknown("pay", Class::Once);
    for status in [
        Status::Completed { output: inline(&json!(1)), at: T0 },
        Status::Failed { failure: failure("no"), at: T0 },
        Status::Cancelled { certificate: Certificate::default(), at: T0 },
    ] {
        let phase = status.phase();
        let run = run_with(status, vec![pay.clone()], vec![]);
        assert_eq!(refused(&run, &pay.key, NOW), ResolveRefused::Ended(phase));
    }
    assert_eq!(
        ResolveRefused::Ended(Phase::Cancelled).to_string(),
        "the run has cancelled: what is uncertain stands in its certificate"
    );
}

#[test]
fn a_call_that_may_still_be_on_its_way_is_waited_for() {
    for class in CLASSES {
        let until = at(20_000);
        let pay = EffectRecord { until: Some(until), ..unknown("pay", class) };
        let run = run_with(parked(question()), vec![pay.clone()], vec![]);
        for now in [T0, at(19_999)] {
            let expected = ResolveRefused::OnItsWay { key: pay.key.clone(), until };
            assert_eq!(refused(&run, &pay.key, now), expected, "{class:?} at {now}");
        }
        resolve(&run, &act(&pay, Resolution::TryAgain), until).unwrap();
    }
}

#[test]
fn who_and_why_and_which_effect_are_in_the_history() {
    for class in CLASSES {
        let pay = EffectRecord { attempts: 2, ..unknown("pay", class) };
        let run = run_with(parked(question()), vec![pay.clone()], vec![]);
        let words = [
            ("succeeded", LineOutcome::Succeeded),
            ("failed", LineOutcome::Failed),
            ("try-again", LineOutcome::Unknown),
        ];
        for ((word, outcome), resolution) in words.into_iter().zip(resolutions()) {
            let entry = last_entry(&resolved(&run, &pay, resolution).0);
            assert_eq!((entry.kind, entry.step.as_str(), entry.took), (EntryKind::Resolved, "Draft", 0), "{class:?}");
            assert_eq!(entry.more.note.unwrap(), format!("{word} by ann: seen in the bank's list"), "{class:?}");
            let named: Vec<_> = entry.more.effects.iter().map(|line| (line.name.as_str(), line.outcome)).collect();
            assert_eq!(named, [("pay", outcome)], "{class:?}, {word}");
        }
    }
}

#[test]
fn a_run_that_somebody_works_on_or_has_moved_on_is_not_amended() {
    let pay = unknown("pay", Class::Once);
    let mut run = held(Status::Running);
    run.progress.journal = vec![pay.clone()];
    let amend_of = |run: &Checkpoint| {
        let (amend, _) = resolve(run, &act(&pay, Resolution::TryAgain), NOW).unwrap();
        Write::Amend(Box::new(amend))
    };
    assert_eq!(write(&run, at(29_999), amend_of(&run)), Err(Refusal::Leased));
    // Its worker has died. Who comes after it knows that the attempt may have called what has no record.
    let after = write(&run, NOW, amend_of(&run)).unwrap();
    assert_eq!((after.hold.lease.as_ref(), after.hold.tried_since), (None, Some(T0)));
    assert_eq!(acquire(&after, NOW).unwrap().crashed_since(), Some(T0));
    assert_eq!(write(&after, NOW, amend_of(&run)), Err(Refusal::Revision));
}

#[test]
fn letters_and_a_cancellation_stay_as_they_are() {
    let pay = unknown("pay", Class::Once);
    let run = with_cancel(&with_letter(&run_with(parked(question()), vec![pay.clone()], vec![]), "s1", "go"));
    let (after, send) = resolved(&run, &pay, Resolution::TryAgain);
    assert_eq!((&after.mailbox, &after.cancel), (&run.mailbox, &run.cancel));
    assert!(send.is_some(), "its next turn ends it");
    let Outcome::Failed(failure) = &after.progress.journal[0].outcome else { panic!("{:?}", after.progress.journal) };
    assert_eq!(failure.kind, FailureKind::NotSent, "nobody will call again");
    assert_eq!(failure.message, "it did not happen, by ann, and the run is cancelled");
}

/// What the journal knows of is counted when the visit ends; of an earlier visit's, this is the end.
#[test]
fn what_a_person_says_is_counted_once() {
    let (pay, mail) = (&[unknown("pay", Class::Once)][..], &[succeeded("mail")][..]);
    let counted = |journal: &[EffectRecord], ledger: &[EffectRecord], resolution| {
        let run = run_with(parked(question()), journal.to_vec(), ledger.to_vec());
        let usage = resolved(&run, &pay[0], resolution).0.progress.usage;
        (usage.effects_confirmed, usage.effects_failed)
    };
    let [done, failed, again] = resolutions();
    assert_eq!(counted(mail, pay, done.clone()), (1, 0));
    assert_eq!(counted(&[], pay, failed.clone()), (0, 1));
    assert_eq!(counted(mail, pay, again), (0, 0));
    assert_eq!(counted(pay, &[], done), (0, 0));
    assert_eq!(counted(pay, pay, failed), (0, 0));
}

#[test]
fn late_evidence_wakes_a_run_that_is_parked_for_want_of_it_and_no_other() {
    let pay = unknown("pay", Class::Once);
    let run = run_with(parked(question()), vec![pay.clone()], vec![]);
    let (amend, send) = resume_for_evidence(&run, NOW).unwrap().unwrap();
    let after = amended(&run, amend);
    assert_eq!(send, Send { ticket: Ticket(6), delay: Duration::ZERO });
    assert_eq!((&after.progress.status, &after.progress.journal), (&Status::Running, &vec![pay]));
    assert_eq!(last_entry(&after).more.note.as_deref(), Some("by late evidence"));
    for status in [
        parked(ParkReason::Paused { what: "by bob".into() }),
        Status::Running,
        waiting(&["go"], None),
        Status::Retrying { at: at(9) },
        Status::Failed { failure: failure("no"), at: T0 },
    ] {
        assert_eq!(resume_for_evidence(&run_with(status.clone(), vec![], vec![]), NOW), Ok(None), "{status:?}");
    }
}
