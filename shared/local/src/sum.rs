//! Numbers and checksums as they are stored.

use stepwell_core::Timestamp;

/// SQLite's integers have a sign, the counters have none. The bits are kept, and with them the order of every number
/// below 2^63 (times of the next 292 million years).
pub(crate) const fn int(number: u64) -> i64 {
    number.cast_signed()
}

/// See [`int`].
pub(crate) const fn count(stored: i64) -> u64 {
    stored.cast_unsigned()
}

/// See [`int`].
pub(crate) fn time(at: Option<Timestamp>) -> Option<i64> {
    at.map(|at| int(at.0))
}

/// See [`int`].
pub(crate) fn timestamp(stored: Option<i64>) -> Option<Timestamp> {
    stored.map(|at| Timestamp(count(at)))
}

/// A CRC-32 over values, each told apart from the next by its length.
pub(crate) struct Sum(crc32fast::Hasher);

impl Sum {
    /// Begins with the run's name, so that what got into another run's row does not fit there.
    pub(crate) fn of(run: &str) -> Self {
        Self(crc32fast::Hasher::new()).text(run)
    }

    pub(crate) fn int(mut self, number: i64) -> Self {
        self.0.update(&number.to_le_bytes());
        self
    }

    pub(crate) fn ints<const N: usize>(self, numbers: [i64; N]) -> Self {
        numbers.into_iter().fold(self, Self::int)
    }

    pub(crate) fn maybe_ints<const N: usize>(self, numbers: [Option<i64>; N]) -> Self {
        numbers.into_iter().fold(self, |sum, number| match number {
            Some(number) => sum.int(1).int(number),
            None => sum.int(0),
        })
    }

    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Self {
        self = self.int(int(bytes.len() as u64));
        self.0.update(bytes);
        self
    }

    pub(crate) fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub(crate) fn maybe_bytes(self, bytes: Option<&[u8]>) -> Self {
        match bytes {
            Some(bytes) => self.int(1).bytes(bytes),
            None => self.int(0),
        }
    }

    pub(crate) fn end(self) -> i64 {
        i64::from(self.0.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::{Sum, count, int};

    #[test]
    fn every_number_survives_and_small_ones_keep_their_order() {
        for number in [0, 1, 1 << 62, (1 << 63) - 1, 1 << 63, u64::MAX] {
            assert_eq!(count(int(number)), number);
        }
        assert!(int(5) < int(6) && int(6) < int((1 << 63) - 1));
    }

    #[test]
    fn values_are_told_apart_by_their_edges() {
        assert_ne!(Sum::of("r").text("ab").text("c").end(), Sum::of("r").text("a").text("bc").end());
        assert_ne!(Sum::of("r").maybe_ints([None]).end(), Sum::of("r").maybe_ints([Some(0)]).end());
        assert_ne!(Sum::of("r1").text("x").end(), Sum::of("r2").text("x").end());
    }
}
