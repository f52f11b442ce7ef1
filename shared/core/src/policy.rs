//! When a step that failed is tried again. Pure: the random part of the delay is handed in.

use alloc::borrow::Cow;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::time::millis;

/// How often and how far apart a step is tried again.
///
/// Delays grow exponentially from [`first_delay`](Self::first_delay) by [`factor`](Self::factor) up to
/// [`max_delay`](Self::max_delay); with [`full_jitter`](Self::full_jitter) each is drawn evenly from zero to that, which keeps many runs
/// that failed together from coming back together.
///
/// ```
/// use std::time::Duration;
/// use stepwell_core::RetryPolicy;
/// let policy = RetryPolicy::default().max_attempts(3).without_jitter();
/// assert_eq!(policy.delay(1, 0), Duration::from_secs(1));
/// assert_eq!(policy.delay(2, 0), Duration::from_secs(2));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in all, the first one included.
    pub max_attempts: NonZeroU32,
    /// Delay before the second attempt.
    pub first_delay: Duration,
    /// What each further delay is multiplied by.
    pub factor: u32,
    /// No delay is longer.
    pub max_delay: Duration,
    /// Draw each delay evenly from zero to its full length.
    pub full_jitter: bool,
    /// No attempt starts later than this after the first failure.
    pub deadline: Option<Duration>,
    /// Error codes that are not worth another attempt.
    pub never_on: Cow<'static, [Cow<'static, str>]>,
}

impl Default for RetryPolicy {
    /// Ten attempts, from one second, doubling, to five minutes, full jitter, no deadline.
    fn default() -> Self {
        Self {
            max_attempts: NonZeroU32::new(10).unwrap_or(NonZeroU32::MIN),
            first_delay: Duration::from_secs(1),
            factor: 2,
            max_delay: Duration::from_mins(5),
            full_jitter: true,
            deadline: None,
            never_on: Cow::Borrowed(&[]),
        }
    }
}

/// What a policy says after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Try again after this long.
    After(Duration),
    /// No more: why.
    GiveUp(GiveUp),
}

/// Why a policy gave up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// The attempts are used up.
    Attempts,
    /// The next attempt would start after the deadline.
    Deadline,
    /// The error's code is one that no retry helps.
    Code,
}

impl RetryPolicy {
    /// One attempt, no retry.
    #[must_use]
    pub fn none() -> Self {
        Self::default().max_attempts(1)
    }

    /// Sets the attempts in all; 0 is taken as 1.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = NonZeroU32::new(attempts).unwrap_or(NonZeroU32::MIN);
        self
    }

    /// Sets the first delay, and raises the longest delay to it where it was shorter.
    #[must_use]
    pub fn first_delay(mut self, delay: Duration) -> Self {
        self.first_delay = delay;
        self.max_delay = self.max_delay.max(delay);
        self
    }

    /// Sets the longest delay.
    #[must_use]
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.max_delay = delay;
        self
    }

    /// Sets a fixed delay between attempts.
    #[must_use]
    pub fn every(mut self, delay: Duration) -> Self {
        (self.first_delay, self.max_delay, self.factor, self.full_jitter) = (delay, delay, 1, false);
        self
    }

    /// Each delay at its full length.
    #[must_use]
    pub fn without_jitter(mut self) -> Self {
        self.full_jitter = false;
        self
    }

    /// No attempt starts later than this after the first failure.
    #[must_use]
    pub fn deadline(mut self, after: Duration) -> Self {
        self.deadline = Some(after);
        self
    }

    /// Errors with one of these codes are not tried again.
    #[must_use]
    pub fn never_on(mut self, codes: impl IntoIterator<Item = &'static str>) -> Self {
        self.never_on = codes.into_iter().map(Cow::Borrowed).collect();
        self
    }

    /// The delay after this many failed attempts (1 is the first). `random` is any number, evenly drawn.
    pub fn delay(&self, failed: u32, random: u64) -> Duration {
        let growth = u64::from(self.factor.max(1)).saturating_pow(failed.saturating_sub(1));
        let full = millis(self.first_delay).saturating_mul(growth).min(millis(self.max_delay));
        let drawn = if self.full_jitter { random % full.saturating_add(1).max(1) } else { full };
        Duration::from_millis(drawn)
    }

    /// What to do after `failed` attempts, the first of which failed `elapsed` ago, with an error of this code.
    /// `at_least` is the wait that the failure itself asks for (a `Retry-After`).
    pub fn after(
        &self,
        failed: u32,
        elapsed: Duration,
        code: Option<&str>,
        at_least: Option<Duration>,
        random: u64,
    ) -> Retry {
        if code.is_some_and(|code| self.never_on.iter().any(|never| never == code)) {
            return Retry::GiveUp(GiveUp::Code);
        }
        if failed >= self.max_attempts.get() {
            return Retry::GiveUp(GiveUp::Attempts);
        }
        let delay = at_least.unwrap_or_else(|| self.delay(failed, random));
        match self.deadline {
            Some(deadline) if elapsed.saturating_add(delay) > deadline => Retry::GiveUp(GiveUp::Deadline),
            _ => Retry::After(delay),
        }
    }
}
