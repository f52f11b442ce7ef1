use std::time::Duration;

use async_trait::async_trait;
use stepwell_core::Timestamp;
use stepwell_ports::Clock;
use tokio::sync::watch;
use tokio::time::Instant;

/// A clock that stands still until the test moves it.
///
/// The right one where a backend works on threads of its own: nothing moves while they do.
///
/// ```
/// use std::time::Duration;
/// use stepwell_core::Timestamp;
/// use stepwell_ports::Clock;
/// use stepwell_testkit::ManualClock;
/// let clock = ManualClock::starting_at(Timestamp(1_000));
/// clock.advance(Duration::from_secs(2));
/// assert_eq!(clock.now(), Timestamp(3_000));
/// ```
#[derive(Debug)]
pub struct ManualClock {
    now: watch::Sender<Timestamp>,
}

impl ManualClock {
    /// A clock that shows this time.
    pub fn starting_at(now: Timestamp) -> Self {
        Self { now: watch::Sender::new(now) }
    }

    /// Moves time on, and wakes whoever slept until then.
    pub fn advance(&self, by: Duration) {
        self.now.send_modify(|now| *now = now.plus(by));
    }

    /// How many sleep on this clock right now. One that is counted has decided when it wakes: moving time on cannot make it
    /// sleep longer.
    pub fn sleepers(&self) -> usize {
        self.now.receiver_count()
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.now().plus(duration);
        // It fails when the clock is gone, which `self` rules out.
        let _ = self.now.subscribe().wait_for(|now| *now >= until).await;
    }
}

/// A clock that goes by tokio's time: on a runtime with paused time, it jumps to the next sleeper when everybody waits.
///
/// The right one where everything runs on that runtime: a day of timers passes in an instant.
#[derive(Clone, Copy, Debug)]
pub struct VirtualClock {
    start: Timestamp,
    since: Instant,
}

impl VirtualClock {
    /// A clock that shows this time now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, since: Instant::now() }
    }
}

#[async_trait]
impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        self.start.plus(self.since.elapsed())
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const HOUR: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn a_manual_clock_wakes_a_sleeper_at_its_time_and_not_before() {
        let clock = Arc::new(ManualClock::starting_at(Timestamp(5)));
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock.sleep(HOUR).await;
                clock.now()
            }
        });
        while clock.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        clock.advance(HOUR.saturating_sub(Duration::from_millis(1)));
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_millis(1));
        assert_eq!(sleeper.await.unwrap(), Timestamp(5).plus(HOUR));
        assert_eq!(clock.sleepers(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_virtual_clock_jumps_to_the_next_sleeper() {
        let clock = VirtualClock::starting_at(Timestamp(5));
        let outside = std::time::Instant::now();
        clock.sleep(HOUR).await;
        assert_eq!(clock.now(), Timestamp(5).plus(HOUR));
        assert!(outside.elapsed() < Duration::from_mins(1));
    }
}
