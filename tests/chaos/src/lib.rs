//! # stepwell-chaos: real processes, really killed
//!
//! **What lives here:** what the tests in `tests/` and the processes that they kill (`src/bin/chaos-process.rs`) share: the
//! workflows ([`flows`]), the outside that they ask and that remembers every word ([`outside`]), the folder they work on
//! ([`place`]), and the processes themselves ([`process`], [`crew`]). The long [`story`] of workers, sweeper, API and clients is here
//! as a whole, since it is told on two backends.
//!
//! **What must not live here:** the tests. Each of them kills with SIGKILL, at moments that a seed decides
//! (`STEPWELL_CHAOS_SEED` repeats it; the processes' own timing stays theirs). `STEPWELL_CHAOS_RUNS` and `STEPWELL_CHAOS_FAULTS` say how
//! long the story is; with `STEPWELL_CHAOS_BROKEN` its processes run on an engine that is broken on purpose, and it has to fail.

pub mod crew;
pub mod flows;
pub mod outside;
pub mod place;
pub mod process;
pub mod story;

use std::env;

/// The seed of a test: from `STEPWELL_CHAOS_SEED`, or a fresh one.
pub fn seed() -> u64 {
    let given = env::var("STEPWELL_CHAOS_SEED").ok().and_then(|seed| seed.parse().ok());
    given.unwrap_or_else(|| fastrand::u64(..1_000_000))
}
