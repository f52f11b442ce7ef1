//! What the seed decides: every draw comes from one stream of numbers, and each world has a temper of its own.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use stepwell_core::time::millis;

/// Numbers that the seed decides. Clones draw from the same ones.
#[derive(Clone)]
pub(crate) struct Dice(Arc<Mutex<Rng>>);

impl Dice {
    pub(crate) fn of(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Rng::with_seed(seed))))
    }

    /// A number under this one.
    pub(crate) fn upto(&self, limit: u64) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).u64(..limit.max(1))
    }

    /// True so often in a thousand.
    pub(crate) fn chance(&self, per_mille: u64) -> bool {
        per_mille > 0 && self.upto(1_000) < per_mille
    }

    pub(crate) fn pick<T: Copy, const N: usize>(&self, of: [T; N]) -> T {
        of[usize::try_from(self.upto(N as u64)).unwrap_or(0) % N]
    }

    /// A duration under this one.
    pub(crate) fn within(&self, limit: Duration) -> Duration {
        Duration::from_millis(self.upto(millis(limit)))
    }

    /// A duration from here to there.
    pub(crate) fn between(&self, from: Duration, to: Duration) -> Duration {
        from + self.within(to.saturating_sub(from))
    }

    pub(crate) async fn pause(&self, limit: Duration) {
        tokio::time::sleep(self.within(limit)).await;
    }
}

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A worker's clock is wrong by at most this much, either way. The engine's promises about time hold within a bound on that: an
/// outside is asked only when the first request can no longer land, which is a settle delay (ten seconds) after its deadline by the
/// asker's clock. Two clocks differ by up to twice this, and requests land up to [`LANDS_LATE`] after their deadline: with seven of
/// ten seconds there is a margin, and machines that keep time by NTP are a hundred times better.
pub(crate) const SKEW: Duration = secs(2);

/// A request lands at most this long after its caller has given up.
pub(crate) const LANDS_LATE: Duration = secs(3);

/// How a world is tempered: which faults it has, and how often. Some worlds have few kinds and much of each: a fault that is seldom
/// beside all others is often alone.
#[derive(Clone, Debug)]
pub(crate) struct Temper {
    /// Faults in ten thousand port calls, by kind: those of [`crate::crew::KINDS`].
    pub(crate) ports: [u64; 8],
    pub(crate) skew: bool,
    /// Messages in a thousand that are sent twice, come later than they should, come again while they are worked on.
    pub(crate) doubled: u64,
    pub(crate) delayed: u64,
    pub(crate) exposed: u64,
    /// A message that was received so often is given up.
    pub(crate) receives: u32,
    /// Answers of an index in a thousand that are old.
    pub(crate) stale: u64,
    /// When the queue loses all that it has.
    pub(crate) purge: Option<Duration>,
    /// When other code is deployed.
    pub(crate) deploys: Vec<(Duration, Deploy)>,
    /// Calls to the outside in a thousand that meet trouble.
    pub(crate) outside: u64,
    /// Clients that die, in a thousand of their port calls.
    pub(crate) clients: u64,
    pub(crate) sweeps: bool,
    pub(crate) workers: u64,
    pub(crate) turn: Duration,
    pub(crate) concurrency: usize,
    pub(crate) runs: u64,
    /// From then on nothing goes wrong any more, so that every run can end.
    pub(crate) calm: Duration,
}

/// Which code the workers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deploy {
    /// Version 1: all steps.
    First,
    /// Version 1 of long ago: it does not know the newest step.
    Older,
    /// Version 2: the same steps.
    Second,
}

impl Temper {
    /// `own` decides what was added after seeds had come to be known by what they show.
    pub(crate) fn of(dice: &Dice, own: &Dice) -> Self {
        let often = dice.pick([20, 60, 150]);
        let sweeps = !dice.chance(300);
        let calm = dice.between(secs(240), secs(480));
        let count = if dice.chance(400) { 1 + dice.upto(4) } else { 0 };
        let deploy = || (dice.within(calm), dice.pick([Deploy::First, Deploy::Older, Deploy::Second]));
        let mut deploys: Vec<_> = (0..count).map(|_| deploy()).collect();
        deploys.sort_by_key(|(at, _)| *at);
        Self {
            ports: [(); 8].map(|()| if dice.chance(500) { often } else { 0 }),
            skew: dice.chance(400),
            doubled: dice.pick([0, 50, 200]),
            delayed: dice.pick([0, 100, 300]),
            exposed: dice.pick([0, 50, 200]),
            receives: own.pick([2, 3, 10, 10]),
            stale: dice.pick([0, 300, 700]),
            purge: (sweeps && dice.chance(250)).then(|| dice.within(calm)),
            deploys,
            outside: dice.pick([0, 100, 300]),
            clients: dice.pick([0, 50, 150]),
            sweeps,
            workers: 1 + dice.upto(3),
            turn: dice.pick([Duration::ZERO, secs(60)]),
            concurrency: dice.pick([1, 4]),
            runs: 3 + dice.upto(3),
            calm,
        }
    }
}
