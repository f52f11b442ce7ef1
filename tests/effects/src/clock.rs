//! The time of a machine that can be suspended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use stepwell_core::Timestamp;
use stepwell_ports::Clock;
use stepwell_ports::system::SystemClock;
use tokio::sync::watch;

/// A clock that stands still while its machine is suspended, and is late by that much afterwards. Whoever sleeps by it sleeps
/// longer: that is how a worker comes to wait for a reply after its lease has run out for everybody else.
#[derive(Debug)]
pub struct SuspendableClock {
    pace: watch::Sender<Pace>,
    sleeps: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
enum Pace {
    LateBy(Duration),
    StandsAt(Timestamp),
}

impl Default for SuspendableClock {
    fn default() -> Self {
        Self { pace: watch::Sender::new(Pace::LateBy(Duration::ZERO)), sleeps: AtomicU64::new(0) }
    }
}

impl SuspendableClock {
    /// How often somebody lay down to sleep by it: a sign that its worker has come further.
    pub fn sleeps(&self) -> u64 {
        self.sleeps.load(Ordering::Relaxed)
    }

    /// Time stands still from now on.
    pub fn suspend(&self) {
        self.pace.send_replace(Pace::StandsAt(self.now()));
    }

    /// Time goes on from where it stood.
    pub fn resume(&self) {
        self.pace.send_replace(Pace::LateBy(SystemClock.now().since(self.now())));
    }
}

#[async_trait]
impl Clock for SuspendableClock {
    fn now(&self) -> Timestamp {
        match *self.pace.borrow() {
            Pace::StandsAt(stood) => stood,
            Pace::LateBy(late) => {
                let late = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
                Timestamp(SystemClock.now().0.saturating_sub(late))
            }
        }
    }

    async fn sleep(&self, duration: Duration) {
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        let until = self.now().plus(duration);
        let mut pace = self.pace.subscribe();
        loop {
            let left = until.since(self.now());
            if left.is_zero() {
                return;
            }
            let stands = matches!(*pace.borrow_and_update(), Pace::StandsAt(_));
            tokio::select! {
                // It fails when the clock is gone, which `self` rules out.
                _ = pace.changed() => {}
                () = tokio::time::sleep(left), if !stands => {}
            }
        }
    }
}
