//! What becomes of a message that the queue has given up on, row by row.

use core::time::Duration;

use crate::make::{
    T0, acquire, at, committed, failure, inline, lease, run, standing, succeeded, turned, waiting, with_cancel,
    with_letter, write,
};
use serde_json::json;
use stepwell_core::decide::{DeadLetter, Resume, Send, dead_letter, resume};
use stepwell_core::history::EntryKind;
use stepwell_core::write::Write;
use stepwell_core::{Certificate, Checkpoint, Message, ParkReason, Status, Ticket, Timestamp, invariants};

const MIN: u64 = 60_000;
const REASON: &str = "stored data cannot be used";

/// The run, the message's ticket, and what is done without a reason and with one.
struct Row(&'static str, Checkpoint, u64, Done, Done);

/// [`DeadLetter`], as far as a table says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Keep,
    Delete,
    /// With this ticket, after so many milliseconds.
    Send(u64, u64),
    Park,
}

fn decided(current: Option<&Checkpoint>, ticket: u64, reason: Option<&str>, random: u64) -> DeadLetter {
    dead_letter(current, &Message { run: run(), ticket: Ticket(ticket) }, reason, T0, random).unwrap()
}

fn done(letter: &DeadLetter) -> Done {
    match letter {
        DeadLetter::Keep { .. } => Done::Keep,
        DeadLetter::Delete => Done::Delete,
        DeadLetter::Send(Send { ticket, delay }) => Done::Send(ticket.0, u64::try_from(delay.as_millis()).unwrap()),
        DeadLetter::Park(_) => Done::Park,
    }
}

fn check(rows: Vec<Row>) {
    for Row(name, current, ticket, without, with) in rows {
        assert_eq!(done(&decided(Some(&current), ticket, None, 0)), without, "{name}, ticket {ticket}, no reason");
        assert_eq!(done(&decided(Some(&current), ticket, Some(REASON), 0)), with, "{name}, ticket {ticket}, reason");
    }
}

fn leased(status: Status, until: Timestamp) -> Checkpoint {
    let mut current = standing(status);
    current.hold.lease = Some(lease(T0, until));
    current
}

fn over() -> Vec<Status> {
    let certificate = Certificate { step: "Draft".into(), ..Certificate::default() };
    vec![
        Status::Completed { output: inline(&json!(1)), at: T0 },
        Status::Failed { failure: failure("no"), at: T0 },
        Status::Cancelled { certificate, at: T0 },
        Status::Parked { reason: ParkReason::Poison { acquires: 5 }, at: T0 },
    ]
}

fn parked(current: &Checkpoint, now: Timestamp) -> Checkpoint {
    let message = Message { run: run(), ticket: current.progress.ticket };
    let letter = dead_letter(Some(current), &message, Some(REASON), now, 0).unwrap();
    let DeadLetter::Park(amend) = letter else { panic!("not parked: {letter:?}") };
    let after = write(current, now, Write::Amend(amend)).unwrap();
    invariants::check(&after).unwrap();
    after
}

#[test]
fn what_nobody_knows_is_kept_for_a_person() {
    for reason in [None, Some(REASON)] {
        let DeadLetter::Keep { why } = decided(None, 5, reason, 0) else { panic!("not kept") };
        assert!(why.contains("no such run"), "{why}");
        // A ticket that was never given out.
        let DeadLetter::Keep { why } = decided(Some(&standing(Status::Running)), 6, reason, 0) else {
            panic!("not kept")
        };
        assert!(why.contains("ticket 6"), "{why}");
    }
}

#[test]
fn a_run_that_is_over_or_parked_or_has_moved_on_needs_no_message() {
    let delete = |name, current, ticket| Row(name, current, ticket, Done::Delete, Done::Delete);
    let mut rows: Vec<Row> = over().into_iter().map(|status| delete("over", standing(status), 5)).collect();
    rows.extend([
        delete("stale", standing(Status::Running), 3),
        delete("stale, held", leased(Status::Running, at(9)), 3),
        delete("stale, retrying", standing(Status::Retrying { at: T0 }), 3),
    ]);
    check(rows);
}

#[test]
fn a_run_that_somebody_holds_gets_its_message_after_the_lease() {
    let send = |name, until, millis| {
        Row(name, leased(Status::Running, until), 5, Done::Send(5, millis), Done::Send(5, millis))
    };
    check(vec![
        send("held", at(9_000), 9_000),
        send("its last millisecond", at(1), 1),
        send("very long", at(60 * MIN), 15 * MIN),
        Row("expired", leased(Status::Running, T0), 5, Done::Send(5, 0), Done::Park),
    ]);
    let late = decided(Some(&leased(Status::Running, at(9_000))), 5, Some(REASON), 249);
    assert_eq!(done(&late), Done::Send(5, 9_249), "many do not come at once");
}

#[test]
fn the_current_message_is_sent_again_unless_it_was_buried_for_a_reason() {
    let row = |name, status| Row(name, standing(status), 5, Done::Send(5, 0), Done::Park);
    check(vec![
        row("new", Status::Created),
        row("running", Status::Running),
        row("a retry that is due", Status::Retrying { at: T0 }),
        row("a wait that is over", waiting(&["go"], Some(T0))),
        Row(
            "what it waits for has come",
            with_letter(&standing(waiting(&["go"], None)), "s1", "go"),
            5,
            Done::Send(5, 0),
            Done::Park,
        ),
        Row("a retry in 7 ms", standing(Status::Retrying { at: at(7) }), 5, Done::Send(5, 7), Done::Park),
        Row(
            "a retry that the sweeper wakes",
            standing(Status::Retrying { at: at(20 * MIN) }),
            5,
            Done::Delete,
            Done::Park,
        ),
    ]);
}

#[test]
fn the_message_before_the_current_one_says_nothing_of_the_run_as_it_stands() {
    let row = |name, status, millis| {
        let sent = Done::Send(5, millis);
        Row(name, standing(status), 4, sent, sent)
    };
    check(vec![
        row("running", Status::Running, 0),
        row("a retry in 7 ms", Status::Retrying { at: at(7) }, 7),
        row("a timer in 7 ms", waiting(&[], Some(at(7))), 7),
        Row("waits for a signal", standing(waiting(&["go"], None)), 4, Done::Delete, Done::Delete),
    ]);
}

#[test]
fn a_run_that_waits_on_or_is_to_end_is_not_parked() {
    let pause = Done::Send(5, MIN);
    let forever = || standing(waiting(&["go"], None));
    check(vec![
        Row("waits for a signal", forever(), 5, Done::Delete, Done::Delete),
        Row("a timer in 7 ms", standing(waiting(&["go"], Some(at(7)))), 5, Done::Send(5, 7), Done::Send(5, 7)),
        Row("another signal came", with_letter(&forever(), "s1", "other"), 5, Done::Send(5, 0), pause),
        Row("cancelled", with_cancel(&standing(Status::Running)), 5, Done::Send(5, 0), pause),
        Row("waits, cancelled", with_cancel(&forever()), 5, Done::Send(5, 0), pause),
    ]);
}

#[test]
fn parking_keeps_everything_and_says_why() {
    let mut current = standing(Status::Running);
    current.progress.journal = vec![succeeded("mail")];
    let before = acquire(&current, T0).unwrap();
    let after = parked(&before, at(30_000));

    let Status::Parked { reason: ParkReason::Data { what }, at: when } = &after.progress.status else {
        panic!("{:?}", after.progress.status)
    };
    assert_eq!((what.as_str(), *when), ("its message was given up: stored data cannot be used", at(30_000)));
    assert_eq!(after.progress.journal, before.progress.journal);
    assert_eq!(after.progress.place, before.progress.place);
    assert_eq!((after.due_at, after.hold.lease.as_ref()), (None, None));
    assert_eq!(after.hold.tried_since, Some(T0), "the attempt that crashed may have called the outside");
    let entry = after.progress.tail.entries.last().unwrap();
    assert_eq!((entry.kind, entry.step.as_str()), (EntryKind::Parked, "Draft"));
    assert!(entry.more.note.as_ref().unwrap().contains(REASON), "{entry:?}");

    // A person may let it go on, and then it is as it was.
    let (amend, send) = resume(&after, &Resume { by: "ann".into(), why: None }, at(MIN)).unwrap();
    let resumed = write(&after, at(MIN), Write::Amend(Box::new(amend))).unwrap();
    assert_eq!((send.ticket, send.delay), (Ticket(6), Duration::ZERO));
    assert_eq!(resumed.progress.place, before.progress.place);
}

#[test]
fn a_parked_run_that_is_then_cancelled_ends() {
    let after = parked(&standing(Status::Running), T0);
    let (amend, _) = stepwell_core::decide::cancel_parked(&with_cancel(&after), T0).unwrap().unwrap();
    let ended = write(&with_cancel(&after), T0, Write::Amend(Box::new(amend))).unwrap();
    assert!(matches!(ended.progress.status, Status::Cancelled { .. }), "{:?}", ended.progress.status);
}

#[test]
fn the_park_is_refused_once_somebody_has_taken_the_run() {
    let current = standing(Status::Running);
    let DeadLetter::Park(amend) = decided(Some(&current), 5, Some(REASON), 0) else { panic!("not parked") };
    let taken = acquire(&current, T0).unwrap();
    assert!(write(&taken, T0, Write::Amend(amend.clone())).is_err(), "held");
    let commit = turned(&with_cancel(&taken), T0).commit;
    let moved = committed(&with_cancel(&taken), T0, commit);
    assert!(write(&moved, at(MIN), Write::Amend(amend)).is_err(), "moved on");
}

#[test]
fn a_reason_of_any_length_is_kept_short() {
    let current = standing(Status::Running);
    let long = "ü".repeat(100_000);
    let DeadLetter::Park(amend) = decided(Some(&current), 5, Some(&long), 0) else { panic!("not parked") };
    assert!(amend.progress.weight() < 10_000, "{}", amend.progress.weight());
}
