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
///
/// # Panics
/// On one that is no number: a test that is to be repeated must not play another. Where `STEPWELL_CHAOS_BROKEN` names no broken
/// engine, too: otherwise all processes would say it again and again, and the test that nothing moves.
#[allow(clippy::panic, reason = "it is called by tests alone, at their begin")]
pub fn seed() -> u64 {
    if let Err(error) = story::home::broken() {
        panic!("{error}");
    }
    let Some(given) = env::var_os("STEPWELL_CHAOS_SEED") else { return fastrand::u64(..1_000_000) };
    number(&given.to_string_lossy()).unwrap_or_else(|error| panic!("{error}"))
}

fn number(given: &str) -> Result<u64, String> {
    given.parse().map_err(|_| format!("STEPWELL_CHAOS_SEED is {given:?}, and no number"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_seed_that_is_no_number_is_refused_by_name() {
        assert_eq!(super::number("7"), Ok(7));
        let error = super::number("abc").unwrap_err();
        assert!(error.contains("STEPWELL_CHAOS_SEED") && error.contains("abc"), "{error}");
    }
}
