//! What a worker does with a message: the protocol's table, row by row, over the acquire's condition and the verdict on
//! a message that it refused.

use core::time::Duration;
use std::collections::BTreeSet;

use crate::make::{
    self, T0, acquire, at, failure, inline, lease, run, standing, started, waiting, with_cancel, with_letter, write,
};
use serde_json::json;
use stepwell_core::decide::{Bury, Send, Verdict, due_at, refused, wake};
use stepwell_core::limits::MESSAGE_DELAY_MAX;
use stepwell_core::write::{Acquire, Refusal, Write};
use stepwell_core::{Certificate, Checkpoint, Message, ParkReason, Status, Ticket, Timestamp};

const MIN: u64 = 60_000;
const JITTER_MAX: Duration = Duration::from_millis(250);

/// What the table says: the answer of the acquire, and of [`refused`] with a random part of zero.
struct Row(&'static str, Checkpoint, u64, Result<(), Refusal>, Verdict);

fn acquired(current: &Checkpoint, ticket: u64) -> Result<(), Refusal> {
    let acquire = Acquire { ticket: Ticket(ticket), lease: lease(T0, at(30_000)) };
    write(current, T0, Write::Acquire(acquire)).map(|_| ())
}

fn verdict(current: Option<&Checkpoint>, ticket: u64, random: u64) -> Verdict {
    refused(current, &Message { run: run(), ticket: Ticket(ticket) }, T0, random)
}

fn send(ticket: u64, delay_ms: u64) -> Verdict {
    Verdict::SendThenDelete(Send { ticket: Ticket(ticket), delay: Duration::from_millis(delay_ms) })
}

fn check(rows: Vec<Row>) {
    for Row(name, current, ticket, acquire, expected) in rows {
        assert_eq!(acquired(&current, ticket), acquire, "{name}, ticket {ticket}: the acquire");
        assert_eq!(verdict(Some(&current), ticket, 0), expected, "{name}, ticket {ticket}: the verdict");
    }
}

fn leased(status: Status, until: Timestamp) -> Checkpoint {
    let mut current = standing(status);
    current.hold.lease = Some(lease(T0, until));
    current
}

fn ended() -> Vec<Status> {
    let certificate = Certificate { step: "Draft".into(), ..Certificate::default() };
    vec![
        Status::Completed { output: inline(&json!(1)), at: T0 },
        Status::Failed { failure: failure("no"), at: T0 },
        Status::Cancelled { certificate, at: T0 },
    ]
}

fn parked() -> Status {
    Status::Parked { reason: ParkReason::Poison { acquires: 5 }, at: T0 }
}

#[test]
fn no_such_run_goes_to_the_dead_letter_queue() {
    let acquire = Acquire { ticket: Ticket(1), lease: lease(T0, at(1)) };
    let request = stepwell_core::write::WriteRequest {
        run: run(),
        id: stepwell_core::WriteId(1),
        now: T0,
        write: Write::Acquire(acquire),
    };
    assert_eq!(stepwell_core::write::check(None, &request), Err(Refusal::NoSuchRun));
    assert_eq!(verdict(None, 1, 0), Verdict::Bury(Bury::NoSuchRun));
}

#[test]
fn an_ended_or_parked_run_wants_no_message_whatever_its_ticket() {
    for ticket in 3..=6 {
        for status in ended() {
            check(vec![Row("ended", standing(status), ticket, Err(Refusal::Ended), Verdict::Delete)]);
        }
        check(vec![Row("parked", standing(parked()), ticket, Err(Refusal::Parked), Verdict::Delete)]);
    }
}

#[test]
fn a_stale_message_is_deleted_even_when_the_run_is_due() {
    let refusal = || Err(Refusal::Ticket);
    check(vec![
        Row("running", standing(Status::Running), 3, refusal(), Verdict::Delete),
        Row("running", standing(Status::Running), 0, refusal(), Verdict::Delete),
        Row("leased", leased(Status::Running, at(1)), 3, refusal(), Verdict::Delete),
        Row("retry due", standing(Status::Retrying { at: T0 }), 3, refusal(), Verdict::Delete),
        Row("timer soon", standing(waiting(&[], Some(at(MIN)))), 3, refusal(), Verdict::Delete),
    ]);
}

#[test]
fn the_message_before_a_crashed_hand_off_sends_the_current_one() {
    let refusal = || Err(Refusal::Ticket);
    let to_come = || standing(waiting(&["go"], None));
    check(vec![
        Row("created", standing(Status::Created), 4, refusal(), send(5, 0)),
        Row("running", standing(Status::Running), 4, refusal(), send(5, 0)),
        Row("retry due", standing(Status::Retrying { at: T0 }), 4, refusal(), send(5, 0)),
        Row("timer due", standing(waiting(&[], Some(T0))), 4, refusal(), send(5, 0)),
        Row("signal came", with_letter(&to_come(), "s1", "go"), 4, refusal(), send(5, 0)),
        Row("cancelled", with_cancel(&to_come()), 4, refusal(), send(5, 0)),
        // The hand-off's own message would have been delayed: so is the one that stands in for it.
        Row("timer soon", standing(waiting(&[], Some(at(MIN)))), 4, refusal(), send(5, MIN)),
        Row("retry soon", standing(Status::Retrying { at: at(7) }), 4, refusal(), send(5, 7)),
        Row("timer far", standing(waiting(&[], Some(at(15 * MIN + 1)))), 4, refusal(), Verdict::Delete),
        Row("nothing to come", to_come(), 4, refusal(), Verdict::Delete),
        Row("taken up already", leased(Status::Running, at(9_000)), 4, refusal(), send(5, 9_000)),
    ]);
}

#[test]
fn a_message_from_the_future_is_a_violation_and_stays() {
    for current in [standing(Status::Running), leased(Status::Running, at(1))] {
        assert_eq!(acquired(&current, 6), Err(Refusal::Ticket));
        let Verdict::Violation(what) = verdict(Some(&current), 6, 0) else { panic!("no violation") };
        assert_eq!(what, "run run-1: a message has ticket 6, the checkpoint only 5");
    }
}

#[test]
fn a_live_lease_sends_the_message_again_for_when_it_expires() {
    let refusal = || Err(Refusal::Leased);
    check(vec![
        Row("running", leased(Status::Running, at(9_000)), 5, refusal(), send(5, 9_000)),
        Row("waiting, looked at", leased(waiting(&["go"], None), at(9_000)), 5, refusal(), send(5, 9_000)),
        Row("its last millisecond", leased(Status::Running, at(1)), 5, refusal(), send(5, 1)),
        Row("expires now", leased(Status::Running, T0), 5, Ok(()), Verdict::TryAgain),
        Row("expired", leased(Status::Running, Timestamp(T0.0 - 1)), 5, Ok(()), Verdict::TryAgain),
        Row("very long", leased(Status::Running, at(60 * MIN)), 5, refusal(), send(5, 15 * MIN)),
    ]);
}

#[test]
fn jitter_spreads_the_message_after_the_lease_and_never_before_it() {
    let current = leased(Status::Running, at(9_000));
    let rest = Duration::from_secs(9);
    let mut delays = BTreeSet::new();
    for random in (0..1_000).chain([u64::MAX]) {
        let Verdict::SendThenDelete(send) = verdict(Some(&current), 5, random) else { panic!("not sent again") };
        assert!((rest..rest + JITTER_MAX).contains(&send.delay), "{random}: {:?}", send.delay);
        delays.insert(send.delay);
    }
    assert_eq!(delays.len(), 250);
}

#[test]
fn what_is_not_due_is_deleted_unless_a_timer_is_near() {
    let refusal = || Err(Refusal::NotDue);
    check(vec![
        Row("waits for a signal", standing(waiting(&["go"], None)), 5, refusal(), Verdict::Delete),
        Row("timer in 1 ms", standing(waiting(&["go"], Some(at(1)))), 5, refusal(), send(5, 1)),
        Row("timer in 15 min", standing(waiting(&[], Some(at(15 * MIN)))), 5, refusal(), send(5, 15 * MIN)),
        Row("timer is the sweeper's", standing(waiting(&[], Some(at(15 * MIN + 1)))), 5, refusal(), Verdict::Delete),
        Row("retry in 15 min", standing(Status::Retrying { at: at(15 * MIN) }), 5, refusal(), send(5, 15 * MIN)),
        Row("retry is the sweeper's", standing(Status::Retrying { at: at(20 * MIN) }), 5, refusal(), Verdict::Delete),
        // A signal does not hurry a retry, a cancellation does.
        Row(
            "retry, signal",
            with_letter(&standing(Status::Retrying { at: at(7) }), "s1", "go"),
            5,
            refusal(),
            send(5, 7),
        ),
    ]);
}

#[test]
fn the_current_message_of_a_due_run_acquires() {
    let far = || standing(waiting(&["go"], Some(at(60 * MIN))));
    check(vec![
        Row("created", standing(Status::Created), 5, Ok(()), Verdict::TryAgain),
        Row("running", standing(Status::Running), 5, Ok(()), Verdict::TryAgain),
        Row("retry due now", standing(Status::Retrying { at: T0 }), 5, Ok(()), Verdict::TryAgain),
        Row("timer due now", standing(waiting(&[], Some(T0))), 5, Ok(()), Verdict::TryAgain),
        Row("signal came", with_letter(&far(), "s1", "go"), 5, Ok(()), Verdict::TryAgain),
        Row("another signal came", with_letter(&far(), "s1", "other"), 5, Ok(()), Verdict::TryAgain),
        Row("cancelled", with_cancel(&far()), 5, Ok(()), Verdict::TryAgain),
        Row("retry, cancelled", with_cancel(&standing(Status::Retrying { at: at(MIN) })), 5, Ok(()), Verdict::TryAgain),
    ]);
}

#[test]
fn acquiring_raises_the_fence_takes_the_lease_and_counts() {
    let fresh = started();
    let first = acquire(&fresh, at(5)).unwrap();
    assert_eq!((first.hold.fence.0, first.hold.acquires, first.hold.tried_since), (1, 1, Some(at(5))));
    assert_eq!(first.hold.lease, Some(lease(at(5), at(30_005))));
    assert_eq!(first.progress, fresh.progress);
    assert_eq!(acquire(&first, at(30_004)), Err(Refusal::Leased));
    // The first holder has crashed: the next one knows since when the step may have run.
    let second = acquire(&first, at(30_005)).unwrap();
    assert_eq!((second.hold.fence.0, second.hold.acquires, second.hold.tried_since), (2, 2, Some(at(5))));
    assert_eq!((first.crashed_since(), second.crashed_since()), (None, Some(at(5))));
}

#[test]
fn an_acquire_that_meets_its_own_first_try_is_a_success() {
    let acquire = Acquire { ticket: Ticket(1), lease: lease(T0, at(30_000)) };
    let request = stepwell_core::write::WriteRequest {
        run: run(),
        id: stepwell_core::WriteId(77),
        now: T0,
        write: Write::Acquire(acquire),
    };
    let once = stepwell_core::write::apply(Some(&started()), &request).unwrap();
    assert_eq!(stepwell_core::write::apply(Some(&once), &request), Ok(once));
}

/// Every status with every ticket and lease: the acquire's condition and the verdict never contradict each other, and no
/// message that could be the last one to know of a run that goes on by itself within 15 minutes is deleted.
#[test]
fn condition_and_verdict_agree_everywhere() {
    let times = [T0, at(1), at(15 * MIN), at(15 * MIN + 1), at(90 * MIN)];
    let mut statuses = vec![Status::Created, Status::Running, parked(), waiting(&["go"], None)];
    statuses.extend(ended());
    statuses.extend(times.map(|at| Status::Retrying { at }));
    statuses.extend(times.map(|at| waiting(&["go"], Some(at))));
    for status in statuses {
        for until in [None, Some(Timestamp(T0.0 - 1)), Some(T0), Some(at(1)), Some(at(90 * MIN))] {
            let mut plain = standing(status.clone());
            plain.hold.lease = until.map(|until| lease(T0, until));
            let signalled =
                write(&plain, T0, Write::Signal(Box::new(make::letter("s1", "go")))).unwrap_or_else(|_| plain.clone());
            let cancelled = write(&plain, T0, Write::Cancel(make::cancel())).unwrap_or_else(|_| plain.clone());
            for current in [plain, signalled, cancelled] {
                for (ticket, random) in [(3, 0), (4, 7), (5, u64::MAX), (6, 1)] {
                    agree(&current, ticket, random);
                }
            }
        }
    }
}

fn agree(current: &Checkpoint, ticket: u64, random: u64) {
    let verdict = verdict(Some(current), ticket, random);
    let named = format!("{current:?}, ticket {ticket}: {verdict:?}");
    assert_eq!(acquired(current, ticket).is_ok(), verdict == Verdict::TryAgain, "{named}");
    if let Verdict::SendThenDelete(send) = verdict {
        assert_eq!(send.ticket, current.progress.ticket, "{named}");
        assert!(send.delay <= MESSAGE_DELAY_MAX, "{named}");
    }
    let status = &current.progress.status;
    let wakes = current.is_leased(T0)
        || current.is_due(T0)
        || current.wakes_at().is_some_and(|at| at.since(T0) <= MESSAGE_DELAY_MAX);
    if status.is_live() && (4..=5).contains(&ticket) && wakes {
        assert_ne!(verdict, Verdict::Delete, "{named}");
    }
    if !status.is_live() {
        assert_eq!(due_at(status, T0), None, "{named}");
    }
}

#[test]
fn who_writes_a_signal_or_a_cancellation_wakes_the_run_if_nobody_holds_it() {
    let to_come = standing(waiting(&["go"], None));
    let now = Some(Send { ticket: Ticket(5), delay: Duration::ZERO });
    let retry = standing(Status::Retrying { at: at(MIN) });
    let held = |run: &Checkpoint, until| Checkpoint {
        hold: stepwell_core::Hold { lease: Some(lease(T0, until)), ..run.hold.clone() },
        ..run.clone()
    };
    let signalled = with_letter(&to_come, "s1", "go");
    for (name, after, expected) in [
        ("a signal to a waiting run", signalled.clone(), now),
        ("one whose name it does not wait for", with_letter(&to_come, "s1", "other"), now),
        ("to a held run: the holder finds it", held(&signalled, at(1)), None),
        ("to a run whose lease has just expired", held(&signalled, T0), now),
        ("to a run that is to be tried again later", with_letter(&retry, "s1", "go"), None),
        ("a cancellation of that run", with_cancel(&retry), now),
        ("a cancellation of a held run", held(&with_cancel(&to_come), at(1)), None),
        ("to a runnable run", with_letter(&standing(Status::Running), "s1", "go"), now),
        ("to a parked run", with_letter(&standing(parked()), "s1", "go"), None),
        ("nothing at all", to_come, None),
    ] {
        assert_eq!(wake(&after, T0), expected, "{name}");
    }
}
