use std::sync::{Mutex, MutexGuard, PoisonError};

use fastrand::Rng;
use stepwell_core::{RunId, SignalId, WriteId};
use stepwell_ports::Ids;

/// Ids and numbers that a seed decides: the same seed and the same order of calls give the same ones.
///
/// ```
/// use stepwell_ports::Ids;
/// use stepwell_testkit::SeededIds;
/// assert_eq!(SeededIds::new(7).run_id(), SeededIds::new(7).run_id());
/// assert_ne!(SeededIds::new(7).random(), SeededIds::new(8).random());
/// ```
#[derive(Debug)]
pub struct SeededIds {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rng: Rng,
    /// Ids given so far: what makes each another one.
    given: u64,
}

impl SeededIds {
    /// Ids for this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: Mutex::new(State { rng: Rng::with_seed(seed), given: 0 }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next number, and a random part that tells apart the ids of two seeds.
    fn next(&self) -> (u64, u32) {
        let mut state = self.state();
        state.given += 1;
        (state.given, state.rng.u32(..))
    }
}

impl Ids for SeededIds {
    #[allow(clippy::expect_used, reason = "the name is made of letters and digits")]
    fn run_id(&self) -> RunId {
        let (number, random) = self.next();
        RunId::new(format!("run-{number:08}-{random:08x}")).expect("a run id")
    }

    #[allow(clippy::expect_used, reason = "the name is made of letters and digits")]
    fn signal_id(&self) -> SignalId {
        let (number, random) = self.next();
        SignalId::new(format!("signal-{number:08}-{random:08x}")).expect("a signal id")
    }

    fn write_id(&self) -> WriteId {
        let (number, random) = self.next();
        WriteId(number << 32 | u64::from(random))
    }

    fn random(&self) -> u64 {
        self.state().rng.u64(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_are_all_different_and_run_ids_sort_by_time() {
        let ids = SeededIds::new(1);
        let runs: Vec<RunId> = (0..1_000).map(|_| ids.run_id()).collect();
        assert!(runs.is_sorted());
        let writes: BTreeSet<WriteId> = (0..1_000).map(|_| ids.write_id()).collect();
        assert_eq!(writes.len(), 1_000);
        assert!(!writes.contains(&WriteId(0)));
    }
}
