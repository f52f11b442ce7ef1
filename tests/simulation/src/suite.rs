//! Many worlds, on every core.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stepwell_report::Report;

use crate::crew::KINDS;
use crate::tape::Counts;
use crate::{Played, Settings, Wrong, play};

/// So many worlds show all that can go wrong.
const SHOWS_ALL: u64 = 10_000;

/// What so many worlds must have shown: without it, what the crate's page says of it is not true.
const FLOORS: [&str; 25] = [
    "dead letters looked at",
    "deliveries again",
    "deploys",
    "index answers from before",
    "message delayed",
    "message doubled",
    "message exposed while it is worked on",
    "message overtaken",
    "messages given up",
    "outside: answer lost after it has acted",
    "outside: busy",
    "outside: connection broken before it has acted",
    "outside: does not say",
    "outside: refused",
    "outside: request swallowed",
    "outside: stalled beyond the deadline",
    "parked: paused",
    "parked: poison",
    "queue purged",
    "rollbacks to older code",
    "runs cancelled",
    "runs failed",
    "unknown outcomes settled by a person",
    "workers lost",
    "worlds with clocks that differ",
];

/// Which worlds to play.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// The first seed.
    pub from: u64,
    /// How many, at most.
    pub seeds: u64,
    /// Until when, at most.
    pub until: Option<Instant>,
    /// How.
    pub settings: Settings,
}

/// What many worlds came to.
#[derive(Debug, Default)]
pub struct Total {
    /// Worlds.
    pub seeds: u64,
    /// How often each thing happened.
    pub counts: Counts,
    /// In their own time, all together.
    pub virtual_time: Duration,
    /// The longest that one run took, and in which world.
    pub slowest: (Duration, u64),
    /// The most messages that one run had at once.
    pub most_messages: usize,
    /// What went wrong, by seed.
    pub wrong: Vec<(u64, Wrong)>,
    /// How long it took to play them.
    pub took: Duration,
}

impl Total {
    fn add(&mut self, seed: u64, played: Played) {
        self.seeds += 1;
        for (what, count) in played.counts {
            *self.counts.entry(what).or_default() += count;
        }
        self.virtual_time += played.took;
        self.most_messages = self.most_messages.max(played.most_messages);
        if played.slowest > self.slowest.0 {
            self.slowest = (played.slowest, seed);
        }
        self.wrong.extend(played.wrong.into_iter().map(|wrong| (seed, wrong)));
    }

    /// As a report: what happened how often, and each seed that went wrong.
    pub fn report(&self, suite: &'static str, again: &str) -> Report {
        let mut report = Report::new(suite);
        if self.seeds == 0 {
            report.fail("no world was played");
        }
        let seconds = self.took.as_secs_f64();
        report.figure("seeds", self.seeds);
        report.figure("seeds per second", rounded(self.seeds, seconds)).unit("/s");
        report.figure("time", seconds.round()).unit("s");
        report.figure("virtual time", self.virtual_time.as_secs() / 86_400).unit("days");
        report.figure("slowest run", self.slowest.0.as_secs()).unit("s");
        report.figure("slowest run is in seed", self.slowest.1);
        report.figure("messages of one run at once, at most", self.most_messages as u64);
        for (what, count) in &self.counts {
            report.figure(what, *count);
        }
        let mut failed: Vec<u64> = self.wrong.iter().map(|(seed, _)| *seed).collect();
        failed.dedup();
        report.pass(self.seeds - failed.len() as u64);
        for seed in failed {
            let of_seed: Vec<String> =
                self.wrong.iter().filter(|(of, _)| *of == seed).map(|(_, wrong)| wrong.to_string()).collect();
            report.fail(format!("SEED={seed}: {}\n  see it with: make sim SEED={seed}{again}", of_seed.join("\n  ")));
        }
        if self.seeds >= SHOWS_ALL {
            for never in
                FLOORS.iter().chain(&KINDS).filter(|what| self.counts.get(**what).is_none_or(|count| *count == 0))
            {
                report.fail(format!("{} worlds, and never: {never}", self.seeds));
            }
        }
        report
    }
}

#[allow(clippy::cast_precision_loss, reason = "a rate for people")]
fn rounded(count: u64, seconds: f64) -> f64 {
    (count as f64 / seconds.max(0.001)).round()
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.invariant {
            Some(number) => write!(f, "invariant {number}: {}", self.what),
            None => write!(f, "not one of the eleven: {}", self.what),
        }
    }
}

impl Suite {
    /// Plays them, on every core.
    pub fn play(&self) -> Total {
        let started = Instant::now();
        let (next, total) = (AtomicU64::new(0), Mutex::new(Total::default()));
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        std::thread::scope(|scope| {
            for _ in 0..cores {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= self.seeds || self.until.is_some_and(|until| Instant::now() >= until) {
                            return;
                        }
                        let seed = self.from + number;
                        let played = play(seed, &self.settings);
                        total.lock().unwrap_or_else(PoisonError::into_inner).add(seed, played);
                    }
                });
            }
        });
        let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
        total.wrong.sort();
        total.took = started.elapsed();
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_played_is_a_failure() {
        assert_eq!(Total::default().report("sim", "").summary(), "0 passed, 1 failed");
    }

    #[test]
    fn what_went_wrong_says_how_to_see_it_again() {
        let wrong = Wrong { invariant: Some(1), what: "a run stands still".into() };
        let total = Total { seeds: 1, wrong: vec![(7, wrong)], ..Total::default() };
        let mut told = Vec::new();
        total.report("sim", r#" ARGS="--broken lost-signal""#).print_to(&mut told).unwrap();
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains(r#"make sim SEED=7 ARGS="--broken lost-signal""#), "{told}");
    }
}
