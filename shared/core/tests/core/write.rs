//! The writes that are not a worker's turn: start, renew, signal, cancel, amend. Conditions, edges, and retries that meet
//! their own first try.

use crate::make::{
    self, MARK, RULES, T0, acquire, at, committed, end, failure, held, inline, lease, letter, moment, place, run,
    standing, started, waiting,
};
use serde_json::json;
use stepwell_core::decide::{Resume, StepEnd, StepOutcome, commit, due_at, resume};
use stepwell_core::limits::{MAILBOX_BYTES_MAX, MAILBOX_LETTERS_MAX, SIGNALS_SEEN_MAX};
use stepwell_core::write::{Acquire, Amend, Refusal, Renew, Start, Write, WriteRequest, apply, check, hold_after};
use stepwell_core::{
    CancelRequest, Checkpoint, Digest, Fence, Hold, Letter, MailboxSeq, ParkReason, Revision, Status, Ticket,
    Timestamp, WorkflowName, WriteId,
};

fn request(id: u64, write: Write) -> WriteRequest {
    WriteRequest { run: run(), id: WriteId(id), now: T0, write }
}

fn start() -> Write {
    Write::Start(Box::new(Start {
        workflow: WorkflowName::new("brief").unwrap(),
        version: 3,
        input: inline(&json!({"goal": "win"})),
        input_digest: Digest::of(b"input"),
        step_limit: 9,
    }))
}

fn signal(letter: Letter) -> Write {
    Write::Signal(Box::new(letter))
}

fn renew(fence: u64, until: Timestamp) -> Write {
    Write::Renew(Renew { fence: Fence(fence), until })
}

fn ended() -> Checkpoint {
    standing(Status::Failed { failure: failure("no"), at: T0 })
}

fn parked() -> Checkpoint {
    standing(Status::Parked { reason: ParkReason::Poison { acquires: 5 }, at: T0 })
}

fn write(current: &Checkpoint, write: Write) -> Result<Checkpoint, Refusal> {
    make::write(current, T0, write)
}

#[test]
fn a_run_is_started_once() {
    let first = apply(None, &request(7, start())).unwrap();
    assert_eq!((first.progress.status.clone(), first.due_at), (Status::Created, Some(MARK)));
    assert_eq!((first.progress.ticket.0, first.progress.step_limit, first.progress.version), (1, 9, 3));
    assert_eq!(apply(Some(&first), &request(7, start())), Ok(first.clone()), "its own retry");
    assert_eq!(apply(Some(&first), &request(8, start())), Err(Refusal::Exists));
}

#[test]
fn nothing_but_a_start_goes_to_a_run_that_is_not_there() {
    let amend = Amend {
        after: Revision(0),
        progress: started().progress,
        tried_since: None,
        due_at: None,
        segment: None,
        consumed: Vec::new(),
    };
    for write in
        [renew(1, T0), signal(letter("s1", "go")), Write::Cancel(make::cancel()), Write::Amend(Box::new(amend))]
    {
        assert_eq!(check(None, &request(1, write)), Err(Refusal::NoSuchRun));
    }
}

#[test]
fn a_lease_is_renewed_by_its_fence_and_never_shortened() {
    let run = held(Status::Running);
    let until = |run: &Checkpoint| run.hold.lease.as_ref().unwrap().until;
    let longer = write(&run, renew(3, at(90_000))).unwrap();
    assert_eq!(until(&longer), at(90_000));
    assert_eq!(until(&write(&longer, renew(3, at(40_000))).unwrap()), at(90_000));
    assert_eq!((&longer.progress, longer.hold.acquires, longer.due_at), (&run.progress, 1, run.due_at));
    assert_eq!(write(&run, renew(2, at(90_000))), Err(Refusal::Fenced));
    assert_eq!(write(&run, renew(4, at(90_000))), Err(Refusal::Fenced));
    let released = Checkpoint { hold: Hold { lease: None, ..run.hold.clone() }, ..run.clone() };
    assert_eq!(write(&released, renew(3, at(90_000))), Err(Refusal::Released));
    // Late, but nobody else has come: the clock alone takes nothing away.
    let late = make::write(&run, at(3_600_000), renew(3, at(3_700_000))).unwrap();
    assert_eq!(until(&late), at(3_700_000));
}

#[test]
fn a_signal_is_accepted_once_by_every_run_that_has_not_ended() {
    for run in [started(), held(Status::Running), standing(waiting(&["go"], None)), parked()] {
        let after = write(&run, signal(letter("s1", "go"))).unwrap();
        assert_eq!((after.mailbox.seq, after.due_at), (MailboxSeq(1), Some(MARK)));
        assert_eq!(after.mailbox.letters, [letter("s1", "go")]);
        assert_eq!((&after.progress, &after.hold), (&run.progress, &run.hold), "it touches nothing of the holder's");
        assert_eq!(write(&after, signal(letter("s1", "other"))), Err(Refusal::Duplicate));
    }
    assert_eq!(write(&ended(), signal(letter("s1", "go"))), Err(Refusal::Ended));
    // A sender who repeats himself is told so even after the end: his signal was accepted.
    let mut late = ended();
    late.mailbox.letters.push(letter("s1", "go"));
    assert_eq!(write(&late, signal(letter("s1", "go"))), Err(Refusal::Duplicate));
}

#[test]
fn a_mailbox_is_bounded_in_letters_and_bytes() {
    let mut run = started();
    for number in 0..MAILBOX_LETTERS_MAX {
        run = write(&run, signal(letter(&format!("s{number}"), "go"))).unwrap();
    }
    assert_eq!(write(&run, signal(letter("one-more", "go"))), Err(Refusal::MailboxFull));
    assert_eq!(write(&run, signal(letter("s0", "go"))), Err(Refusal::Duplicate), "a repetition needs no room");

    let of = |id: &str, bytes: usize| {
        let payload = inline(&json!("x".repeat(bytes - 2)));
        Write::Signal(Box::new(Letter { payload, ..letter(id, "go") }))
    };
    let nearly = write(&started(), of("s1", MAILBOX_BYTES_MAX - 10)).unwrap();
    assert_eq!(write(&nearly, of("s2", 11)), Err(Refusal::MailboxFull));
    assert!(write(&nearly, of("s2", 10)).is_ok());
}

#[test]
fn consumed_signals_are_remembered_up_to_a_bound() {
    let mut run = held(Status::Running);
    let id = |number: usize| format!("s{number}");
    for number in 0..=SIGNALS_SEEN_MAX {
        run = write(&run, signal(letter(&id(number), "go"))).unwrap();
        let end = StepEnd {
            consumed: vec![make::signal_id(&id(number))],
            ..end(StepOutcome::Goto { place: place("Draft") })
        };
        let decision = commit(&run, end, make::RULES, moment(T0), true).unwrap();
        run = committed(&run, T0, decision.commit);
    }
    assert!(run.mailbox.letters.is_empty());
    for number in 1..=SIGNALS_SEEN_MAX {
        assert_eq!(write(&run, signal(letter(&id(number), "go"))), Err(Refusal::Duplicate), "{number}");
    }
    assert!(write(&run, signal(letter(&id(0), "go"))).is_ok(), "the oldest is forgotten");
}

#[test]
fn the_first_cancellation_stands() {
    for run in [started(), held(Status::Running), standing(waiting(&["go"], None)), parked()] {
        let first = write(&run, Write::Cancel(make::cancel())).unwrap();
        assert_eq!((&first.cancel, first.due_at), (&Some(make::cancel()), Some(MARK)));
        let second = CancelRequest { by: "bob".into(), why: None, at: at(1) };
        assert_eq!(make::write(&first, at(3_600_000), Write::Cancel(second)), Ok(first));
    }
    assert_eq!(write(&ended(), Write::Cancel(make::cancel())), Err(Refusal::Ended));
}

#[test]
fn an_amendment_needs_the_revision_it_has_seen_and_that_nobody_works_on_the_run() {
    let parked = parked();
    let mut progress = parked.progress.clone();
    progress.revision = progress.revision.next();
    progress.status = Status::Running;
    let amendment = |after: u64| {
        let (progress, due_at) = (progress.clone(), due_at(&Status::Running, T0));
        Amend { after: Revision(after), progress, tried_since: None, due_at, segment: None, consumed: Vec::new() }
    };
    let amend = |after: u64| Write::Amend(Box::new(amendment(after)));
    let after = write(&parked, amend(4)).unwrap();
    assert_eq!((&after.progress, after.due_at, after.hold.acquires), (&progress, Some(MARK), 0));
    assert_eq!(after.hold.fence, parked.hold.fence);
    for revision in [3, 5] {
        assert_eq!(write(&parked, amend(revision)), Err(Refusal::Revision));
    }
    assert_eq!(write(&held(Status::Running), amend(4)), Err(Refusal::Leased));
    // Only a failed run is brought back, and only to go on or stand still.
    let completed = standing(Status::Completed { output: make::inline(&serde_json::json!(1)), at: T0 });
    assert_eq!(write(&completed, amend(4)), Err(Refusal::Ended));
    let again = Write::Amend(Box::new(Amend { progress: ended().progress, ..amendment(4) }));
    assert_eq!(write(&ended(), again), Err(Refusal::Ended));
    assert_eq!(write(&ended(), amend(4)).unwrap().progress.status, Status::Running);

    // The lease that it finds has expired, and is taken away: its holder learns of it at its next write.
    let stale = held(Status::Running);
    let amended = make::write(&stale, at(30_000), amend(4)).unwrap();
    assert_eq!(write(&amended, renew(3, at(90_000))), Err(Refusal::Released));
}

#[test]
fn the_hold_after_a_commit_says_who_else_may_have_tried_this_visit() {
    let now = at(50_000);
    // Acquired when the commit's visit was first tried, or after an attempt that crashed.
    let first = held(Status::Running);
    let mut second = held(Status::Running);
    (second.hold.acquires, second.hold.lease) = (2, Some(make::lease(at(40_000), at(70_000))));
    let lease = make::lease(at(40_000), at(90_000));
    for (name, before, same_visit, lease, acquires, tried_since) in [
        ("an intent", &first, true, Some(&lease), 1, Some(T0)),
        ("an intent after a crash", &second, true, Some(&lease), 2, Some(T0)),
        ("a failed attempt", &first, true, None, 0, None),
        ("a failed attempt after a crash", &second, true, None, 0, Some(T0)),
        ("the next visit", &first, false, Some(&lease), 0, Some(now)),
        ("the next visit after a crash", &second, false, Some(&lease), 0, Some(now)),
        ("a hand-off", &first, false, None, 0, None),
        ("a hand-off after a crash", &second, false, None, 0, None),
    ] {
        let goto = end(StepOutcome::Goto { place: place("Send") });
        let mut commit = commit(before, goto, make::RULES, moment(now), true).unwrap().commit;
        commit.lease = lease.cloned();
        if same_visit {
            commit.progress.visit = before.progress.visit;
        }
        let hold = hold_after(before, &commit, WriteId(77), now);
        let expected = Hold { fence: Fence(3), lease: lease.cloned(), write: WriteId(77), acquires, tried_since };
        assert_eq!(hold, expected, "{name}");
    }
}

#[test]
fn a_write_that_meets_its_own_first_try_changes_nothing_more() {
    let run = held(Status::Running);
    let decision =
        commit(&run, end(StepOutcome::Goto { place: place("Send") }), make::RULES, moment(T0), false).unwrap();
    for write in [renew(3, at(90_000)), Write::Commit(Box::new(decision.commit))] {
        let request = request(50, write);
        let once = apply(Some(&run), &request).unwrap();
        assert_ne!(once, run);
        assert_eq!(apply(Some(&once), &request), Ok(once.clone()));
        // A signal meanwhile does not hide it.
        let signalled = make::write(&once, T0, signal(letter("s1", "go"))).unwrap();
        assert_eq!(apply(Some(&signalled), &request), Ok(signalled));
    }
}

/// A run at the limit of its size is taken up and ended all the same.
#[test]
fn only_what_brings_values_may_be_too_large() {
    let held = acquire(&started(), T0).unwrap();
    let goto = StepOutcome::Goto { place: place("Draft") };
    let decision = commit(&held, end(goto), RULES, moment(T0), false).unwrap();
    let act = Resume { by: "ann".into(), why: None };
    let (amend, _) = resume(&parked(), &act, T0).unwrap();
    let brings =
        [start(), Write::Commit(Box::new(decision.commit)), signal(letter("s", "go")), Write::Amend(Box::new(amend))];
    assert!(brings.iter().all(Write::brings_values));
    let until = lease(T0, at(30_000));
    let others = [
        Write::Acquire(Acquire { ticket: Ticket(1), lease: until }),
        renew(1, at(30_000)),
        Write::Cancel(make::cancel()),
    ];
    assert!(!others.iter().any(Write::brings_values));
}
