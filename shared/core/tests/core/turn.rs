//! What a worker does with a run that it has just acquired, and how a parked run goes on.

use core::time::Duration;

use crate::make::{
    self, MARK, RULES, T0, acquire, at, at_work, committed, end, failure, held, inline, last_kind, moment, place,
    signal, standing, succeeded, turned, unknown, waiting, with_cancel, with_letter,
};
use serde_json::json;
use stepwell_core::checkpoint::Trouble;
use stepwell_core::decide::{Resume, ResumeRefused, Send, StepOutcome, Then, Turn, commit, resume, turn};
use stepwell_core::history::EntryKind;
use stepwell_core::write::{Refusal, Write};
use stepwell_core::{Budget, Checkpoint, Class, MailboxSeq, ParkReason, Phase, Status, Ticket, Timestamp, Visit, Wait};

const MIN: u64 = 60_000;

fn send(delay_ms: u64) -> Then {
    Then::HandOff(Some(Send { ticket: Ticket(6), delay: Duration::from_millis(delay_ms) }))
}

#[test]
fn a_held_run_that_may_step_steps() {
    let over = waiting(&["go"], Some(T0));
    let cases = [
        ("created", held(Status::Created)),
        ("running", held(Status::Running)),
        ("retrying", held(Status::Retrying { at: T0 })),
        ("its time has come", held(over)),
        ("its letter is there", with_letter(&held(waiting(&["go"], None)), "s1", "go")),
        ("its last attempt", Checkpoint { hold: hold_with(5), ..held(Status::Running) }),
    ];
    for (name, run) in cases {
        assert_eq!(turn(&run, &Budget::none(), RULES, T0), Ok(Turn::Step), "{name}");
    }
}

fn hold_with(acquires: u32) -> stepwell_core::Hold {
    stepwell_core::Hold { acquires, ..held(Status::Running).hold }
}

#[test]
fn a_wait_that_nothing_has_ended_goes_on() {
    for (until, then) in [
        (None, Then::HandOff(None)),
        (Some(at(MIN)), send(MIN)),
        (Some(at(15 * MIN)), send(15 * MIN)),
        (Some(at(15 * MIN + 1)), Then::HandOff(None)),
    ] {
        let run = with_letter(&held(waiting(&["go"], until)), "s1", "other");
        let decision = turned(&run, T0);
        assert_eq!((decision.then, last_kind(&decision)), (then, EntryKind::LookedUp));
        assert_eq!(decision.commit.mailbox_seen, Some(MailboxSeq(1)));
        let after = committed(&run, T0, decision.commit);
        let expected = Wait { on: vec![signal("go")], approval: None, until, budget_ends: None, seen: MailboxSeq(1) };
        assert_eq!(after.progress.status, Status::Waiting(expected));
        assert_eq!((after.progress.visit, after.mailbox.letters.len()), (Visit(1), 1));
        assert_eq!((after.is_due(T0), after.hold.tried_since), (false, None), "nothing was tried");
    }
}

#[test]
fn a_wait_outlives_poison_and_the_step_limit() {
    let mut run = with_letter(&held(waiting(&["go"], Some(at(MIN)))), "s1", "other");
    run.hold.acquires = 50;
    run.progress.step_limit = 1;
    assert_eq!(turned(&run, T0).commit.progress.status.phase(), Phase::Waiting);
    // Once it is over, they park it; and since it is over, resuming may run the step.
    assert_eq!(turned(&run, at(MIN)).commit.progress.status.phase(), Phase::Parked);
}

#[test]
fn a_run_that_kills_its_workers_is_parked_and_keeps_all() {
    let mut run = at_work();
    (run.hold.acquires, run.hold.tried_since) = (6, Some(Timestamp(T0.0 - 5_000)));
    run.progress.journal = vec![succeeded("mail")];
    let decision = turned(&run, T0);
    assert_eq!((decision.then, last_kind(&decision)), (Then::Ended, EntryKind::Parked));
    let after = committed(&run, T0, decision.commit);
    assert_eq!(after.progress.status, Status::Parked { reason: ParkReason::Poison { acquires: 5 }, at: T0 });
    assert_eq!((&after.progress.place, &after.progress.journal), (&run.progress.place, &run.progress.journal));
    assert_eq!((after.mailbox, after.progress.visit, after.due_at), (run.mailbox.clone(), Visit(1), None));
    assert_eq!(after.hold.tried_since, run.hold.tried_since, "the dead may have called the outside");

    run.progress.trouble = Some(Trouble { failed: 1, incompatible: 0, since: T0, last: failure("out of memory") });
    let note = turned(&run, T0).commit.progress.tail.entries[0].more.note.clone().unwrap();
    assert!(note.starts_with("acquired 5 times without one commit"), "{note}");
    assert!(note.ends_with("; last error: error: out of memory"), "{note}");
}

fn act() -> Resume {
    Resume { by: "ann".into(), why: Some("mended".into()) }
}

/// Resumes a parked run at [`T0`].
fn resumed(parked: &Checkpoint) -> Checkpoint {
    let (amend, send) = resume(parked, &act(), T0).unwrap();
    assert_eq!(send, Send { ticket: parked.progress.ticket.next(), delay: Duration::ZERO });
    let after = make::write(parked, T0, Write::Amend(Box::new(amend))).unwrap();
    stepwell_core::invariants::check(&after).unwrap();
    after
}

#[test]
fn a_used_up_step_limit_parks_the_run_and_resuming_allows_as_many_again() {
    let mut run = at_work();
    (run.progress.step_limit, run.progress.visit, run.progress.revision.0) = (10, Visit(9), 9);
    assert_eq!(turn(&run, &Budget::none(), RULES, T0), Ok(Turn::Step));
    let goto = end(StepOutcome::Goto { place: place("Send") });
    run = committed(&run, T0, commit(&run, goto, RULES, moment(T0), true).unwrap().commit);
    let parked = committed(&run, T0, turned(&run, T0).commit);
    assert_eq!(parked.progress.status, Status::Parked { reason: ParkReason::StepLimit { limit: 10 }, at: T0 });
    let after = resumed(&parked);
    assert_eq!((after.progress.step_limit, after.progress.status), (20, Status::Running));
}

#[test]
fn resuming_goes_on_where_the_run_stands_and_is_recorded() {
    let mut parked = standing(Status::Parked { reason: ParkReason::Data { what: "-".into() }, at: T0 });
    parked.progress.journal = vec![succeeded("mail"), unknown("post", Class::Idempotent(None))];
    parked.progress.trouble = Some(Trouble { failed: 3, incompatible: 0, since: T0, last: failure("busy") });
    let after = resumed(&with_letter(&parked, "s1", "go"));
    assert_eq!((&after.progress.place, after.progress.visit), (&parked.progress.place, parked.progress.visit));
    assert_eq!((&after.progress.journal, &after.progress.trouble), (&parked.progress.journal, &None));
    assert_eq!((after.progress.ticket, after.progress.revision.0), (Ticket(6), 5));
    assert_eq!((after.due_at, after.mailbox.letters.len()), (Some(MARK), 1));
    let entry = after.progress.tail.entries.last().unwrap();
    assert_eq!((entry.kind, entry.more.note.as_deref()), (EntryKind::Resumed, Some("by ann: mended")));
    assert_eq!(turn(&acquire(&after, T0).unwrap(), &Budget::none(), RULES, T0), Ok(Turn::Step));
}

#[test]
fn only_a_parked_run_that_nobody_changed_is_resumed() {
    let certificate = stepwell_core::Certificate::default();
    for status in [
        Status::Created,
        Status::Running,
        waiting(&["go"], None),
        Status::Retrying { at: T0 },
        Status::Completed { output: inline(&json!(1)), at: T0 },
        Status::Failed { failure: failure("no"), at: T0 },
        Status::Cancelled { certificate, at: T0 },
    ] {
        let phase = status.phase();
        let error = resume(&standing(status), &act(), T0).unwrap_err();
        assert_eq!(error, ResumeRefused::NotParked(phase));
        assert_eq!(error.to_string(), format!("the run is {phase}, not parked: there is nothing to resume"));
    }
    let parked = standing(Status::Parked { reason: ParkReason::Data { what: "-".into() }, at: T0 });
    let (amend, _) = resume(&parked, &act(), T0).unwrap();
    let other = make::write(&resumed(&parked), T0, Write::Amend(Box::new(amend)));
    assert_eq!(other.unwrap_err(), Refusal::Revision);
}

#[test]
fn a_cancelled_run_ends_before_anything_else_is_decided() {
    let mut poisoned = with_cancel(&at_work());
    (poisoned.hold.acquires, poisoned.progress.step_limit) = (50, 0);
    for run in [
        poisoned,
        with_cancel(&held(Status::Created)),
        with_cancel(&held(waiting(&["go"], None))),
        with_cancel(&held(Status::Retrying { at: at(MIN) })),
    ] {
        let decision = turned(&run, T0);
        assert_eq!((decision.then, last_kind(&decision)), (Then::Ended, EntryKind::Cancelled));
        let after = committed(&run, T0, decision.commit);
        let Status::Cancelled { certificate, at } = &after.progress.status else { panic!("not cancelled") };
        assert_eq!((certificate.step.as_str(), *at), ("Draft", T0));
        assert_eq!((after.progress.visit, after.due_at, &after.mailbox), (Visit(1), None, &run.mailbox));
    }
}
