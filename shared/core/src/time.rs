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

/// As RFC 3339 in UTC.
///
/// ```
/// use stepwell_core::Timestamp;
/// assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
/// assert_eq!(Timestamp(1_709_210_096_789).to_string(), "2024-02-29T12:34:56.789Z");
/// ```
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // RFC 3339 in UTC. Days are counted from 1 March of year 0, so that leap days come last.
        let (days, ms) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let days = days + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
        let year = year + era * 400 + u64::from(month <= 2);
        let (hours, minutes, seconds) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1_000 % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{:03}Z", ms % 1_000)
    }
}

/// Whole milliseconds of a duration, at most `u64::MAX`.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
