//! What the sweeper sends: forgotten runs at once, near timers with their exact delay, nothing for a run that is held.

use core::time::Duration;

use crate::make::{self, MARK, T0, acquire, at, failure, standing, waiting, with_cancel, with_letter};
use stepwell_core::decide::sweep::{DueRun, horizon, sweep};
use stepwell_core::{Checkpoint, ParkReason, Status, Ticket, Timestamp};

const MIN: u64 = 60_000;
const AHEAD: Duration = Duration::from_mins(5);

/// The delay of the message that the sweeper sends at this time, if it finds the run in the index and sends one.
fn swept(run: &Checkpoint, now: Timestamp) -> Option<Duration> {
    let found = DueRun::of(run).filter(|found| found.due_at <= horizon(now, AHEAD))?;
    let send = sweep(&found, now, AHEAD)?;
    assert_eq!(send.ticket, Ticket(5));
    Some(send.delay)
}

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

#[test]
fn a_run_past_its_mark_that_nobody_holds_was_forgotten() {
    let run = standing(Status::Running);
    assert_eq!((swept(&run, Timestamp(MARK.0 - 1)), swept(&run, MARK)), (None, AT_ONCE));
    let created = standing(Status::Created);
    assert_eq!(swept(&created, MARK), AT_ONCE);
    let held = acquire(&run, Timestamp(MARK.0 - 1)).unwrap();
    let expiry = Timestamp(MARK.0 - 1).plus(make::RULES.lease);
    assert_eq!((swept(&held, MARK), swept(&held, expiry)), (None, AT_ONCE));
}

#[test]
fn a_timer_is_sent_ahead_with_its_exact_delay() {
    for run in [standing(waiting(&["go"], Some(at(90 * MIN)))), standing(Status::Retrying { at: at(90 * MIN) })] {
        assert_eq!(swept(&run, at(85 * MIN - 1)), None);
        assert_eq!(swept(&run, at(85 * MIN)), Some(AHEAD));
        assert_eq!(swept(&run, at(90 * MIN - 7)), Some(Duration::from_millis(7)));
        // Its own message is under way. Only past the mark it counts as forgotten.
        assert_eq!(swept(&run, at(90 * MIN)), None);
        assert_eq!(swept(&run, at(90 * MIN).next_mark()), AT_ONCE);
    }
}

#[test]
fn no_message_is_delayed_for_longer_than_a_message_can_be() {
    let found = DueRun::of(&standing(waiting(&[], Some(at(20 * MIN))))).unwrap();
    assert_eq!(sweep(&found, T0, Duration::from_hours(1)), None);
    let send = sweep(&found, at(5 * MIN), Duration::from_hours(1)).unwrap();
    assert_eq!(send.delay, Duration::from_mins(15));
}

/// The sender of the signal died before its send. The run must not sleep on until its own timer.
#[test]
fn a_signal_or_a_cancellation_that_nobody_woke_the_run_for_is_found_at_the_next_mark() {
    let month = at(30 * 24 * 60 * MIN);
    let run = standing(waiting(&["go"], Some(month)));
    assert_eq!(swept(&run, MARK), None);
    for forgotten in [with_letter(&run, "s1", "go"), with_letter(&run, "s1", "other"), with_cancel(&run)] {
        assert_eq!((swept(&forgotten, Timestamp(MARK.0 - 1)), swept(&forgotten, MARK)), (None, AT_ONCE));
    }
    let retry = standing(Status::Retrying { at: month });
    assert_eq!(swept(&with_cancel(&retry), MARK), AT_ONCE);
    assert_eq!(swept(&with_letter(&retry, "s1", "go"), MARK), None, "a signal does not hurry a retry");
    let unbounded = standing(waiting(&["go"], None));
    assert_eq!(DueRun::of(&unbounded), None);
    assert_eq!(swept(&with_letter(&unbounded, "s1", "go"), MARK), AT_ONCE);
}

#[test]
fn a_run_that_is_not_live_is_not_in_the_index() {
    let parked = standing(Status::Parked { reason: ParkReason::Poison { acquires: 5 }, at: T0 });
    let failed = standing(Status::Failed { failure: failure("no"), at: T0 });
    for run in [with_letter(&parked, "s1", "go"), with_cancel(&parked), parked, failed] {
        assert_eq!(DueRun::of(&run), None);
    }
}

/// Whatever the time of a timer: the mark at which the index shows it is within the horizon of a sweep that is due to
/// send its message.
#[test]
fn the_horizon_shows_each_timer_in_time() {
    for seconds in 0..7_200 {
        let until = at(seconds * 1_000 + seconds % 3);
        let run = standing(waiting(&[], Some(until)));
        for now in [Timestamp(until.0 - 1), Timestamp(until.0 - 299_999), Timestamp(until.0 - 300_000)] {
            assert_eq!(swept(&run, now), Some(until.since(now)), "{until} at {now}");
        }
    }
}

#[test]
fn a_run_that_stays_overdue_is_reminded_of_in_growing_gaps() {
    let (every, ahead) = (15_000, Duration::from_secs(30));
    let found = DueRun::of(&standing(Status::Running)).unwrap();
    let sent_within = |from: u64, to: u64| {
        (from..to).step_by(usize::try_from(every).unwrap()).filter(|after| {
            let now = found.due_at.plus(Duration::from_millis(*after));
            sweep(&found, now, ahead).is_some()
        })
    };
    let minute = 60_000;
    assert_eq!(sent_within(0, minute).count(), 4, "at first with every sweep");
    let seconds: Vec<u64> = sent_within(minute, 15 * minute).map(|after| after / 1_000).collect();
    assert_eq!(seconds, [60, 75, 120, 135, 240, 255, 480, 495], "then in gaps that double");
    for quarter in 1..96 {
        let sent = sent_within(quarter * 15 * minute, (quarter + 1) * 15 * minute).count();
        assert_eq!(sent, 2, "quarter {quarter}: never forgotten, never a flood");
    }
}
