//! Medians and ratios.

use std::time::Duration;

/// Durations in order.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn new(times: impl IntoIterator<Item = Duration>) -> Self {
        let mut times: Vec<Duration> = times.into_iter().collect();
        times.sort_unstable();
        Self(times)
    }

    /// The time that this share of them (in percent) does not exceed, in microseconds. 0 when there are none.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * percent / 100).map_or(0.0, |time| micros(*time))
    }

    /// All of them together.
    pub(crate) fn total(&self) -> Duration {
        self.0.iter().sum()
    }

    /// The middle one, in microseconds.
    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// The longest, in microseconds.
    pub(crate) fn max(&self) -> f64 {
        self.percentile(100)
    }
}

/// Counts are far below 2^52: they have no more digits than an `f64` holds.
#[allow(clippy::cast_precision_loss, reason = "see above")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// How much comes to one of `count`.
pub(crate) fn per(amount: u64, count: u64) -> f64 {
    float(amount) / float(count)
}

/// The middle one of some numbers.
pub(crate) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_take_what_is_there() {
        let times = Times::new((1..=100).rev().map(Duration::from_micros));
        assert!((times.median() - 50.0).abs() < 1e-9);
        assert!((times.percentile(99) - 99.0).abs() < 1e-9);
        assert!((times.max() - 100.0).abs() < 1e-9);
        assert!(Times::new([]).max().abs() < 1e-9);
    }
}
