//! Time as data: milliseconds since the Unix epoch. The core never asks for the time; it is told.

use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::WATCHDOG_MARK;

/// A point in time, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This much later. Stays at the end of time instead of wrapping.
    ///
    /// ```
    /// use core::time::Duration;
    /// use stepwell_core::Timestamp;
    /// assert_eq!(Timestamp(1_000).plus(Duration::from_secs(2)), Timestamp(3_000));
    /// ```
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(millis(by)))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The first watchdog mark after this time ([`WATCHDOG_MARK`]).
    #[must_use]
    pub fn next_mark(self) -> Self {
        let mark = millis(WATCHDOG_MARK);
        Self((self.0 / mark).saturating_add(1).saturating_mul(mark))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ms", self.0)
    }
}

/// Whole milliseconds of a duration, at most `u64::MAX`.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
