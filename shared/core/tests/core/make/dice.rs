//! Choices for worlds that anything may happen in: numbers that say, one after another, what does.

/// A number that all choices of one action are taken from.
#[derive(Clone, Copy)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn pick(&mut self, sides: u64) -> u64 {
        let side = self.0 % sides;
        self.0 /= sides;
        side
    }

    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.pick(len as u64)).unwrap()
    }
}

/// So many numbers that look random and are the same everywhere.
pub(crate) fn rolls(seed: u64, count: usize) -> Vec<u64> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    };
    core::iter::repeat_with(next).take(count).collect()
}
