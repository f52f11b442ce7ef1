//! Seeded schedules: three workers that die and come back, calls that fail in every way, clients that repeat themselves,
//! and three runs that have to end right all the same.

use std::env;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use stepwell::{Registry, Timestamp, Workflow};
use stepwell_core::decide::{Resolution, Resolve, Rules};
use stepwell_core::time::millis;
use stepwell_core::{EffectRecord, Phase, RunId, WorkflowName};
use stepwell_engine::{CancelAnswer, ClientError, StartRequest, WorkerSettings};
use stepwell_ports::Clock;
use stepwell_report::Report;
use stepwell_testkit::VirtualClock;
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, T0, letter, request, secs};
use crate::story::{ANSWER, Outside, Story, wrong, wrong_at_rest, wrong_cancelled};

const SEEDS: u64 = 500;

/// From this time on nothing goes wrong any more, so that every run can end.
const CALM: Timestamp = Timestamp(T0.0 + 8 * 60_000);

/// Decides what goes wrong. Clones draw from the same numbers.
#[derive(Clone)]
struct Chaos {
    rng: Arc<Mutex<Rng>>,
    clock: Arc<VirtualClock>,
}

impl Chaos {
    fn upto(&self, limit: u64) -> u64 {
        self.rng.lock().unwrap().u64(..limit)
    }

    fn millis(&self, limit: Duration) -> Duration {
        Duration::from_millis(self.upto(millis(limit)))
    }

    async fn pause(&self, limit: Duration) {
        tokio::time::sleep(self.millis(limit)).await;
    }

    fn gate(&self) -> Arc<Gate> {
        let chaos = self.clone();
        Gate::planned(move |_, call| if chaos.clock.now() < CALM { chaos.fate(call) } else { Fate::Pass })
    }

    fn fate(&self, call: PortCall) -> Fate {
        // An idle worker's calls are many and say little.
        let rare = matches!(call, PortCall::Receive | PortCall::Due | PortCall::Extend);
        match self.upto(if rare { 1_000 } else { 250 }) {
            0..5 => Fate::DieBefore,
            5..10 => Fate::DieAfter,
            10..15 => Fate::Throttled,
            15..20 => Fate::Unavailable,
            20..25 => Fate::LostBefore,
            25..30 => Fate::LostAfter,
            30..33 => Fate::Late(self.millis(secs(90))),
            33..36 => Fate::SlowAnswer(self.millis(secs(40))),
            36..40 => Fate::SlowStart(self.millis(secs(60))),
            _ => Fate::Pass,
        }
    }
}

struct World {
    bed: Bed,
    outside: Outside,
    chaos: Chaos,
}

impl World {
    fn new(seed: u64) -> Self {
        let outside = Outside::losing(seed);
        let mut bed = Bed::seeded(Registry::new().with(Story(outside.clone())), seed);
        // So many deaths in a row would else, and rightly, be taken for poison.
        bed.rules = Rules { acquires_max: 1_000, ..Rules::default() };
        let chaos = Chaos { rng: Arc::new(Mutex::new(Rng::with_seed(seed))), clock: bed.clock.clone() };
        Self { bed, outside, chaos }
    }

    /// A worker; when it dies, another comes after a while. For ever.
    async fn workers(&self, slot: u64) {
        for life in 0.. {
            let turn = if self.chaos.upto(2) == 0 { Duration::ZERO } else { secs(60) };
            let settings = WorkerSettings { turn, wait: secs(20), concurrency: 2, ..WorkerSettings::default() };
            let gate = self.chaos.gate();
            let worker = self.bed.worker_behind(&gate, &format!("w{slot}-{life}"), settings);
            gate.fuse().burnt().await;
            drop(worker);
            self.chaos.pause(secs(60)).await;
        }
    }

    /// Asks until there is an answer, with a new client whenever the last one has died.
    async fn ask<T>(
        &self,
        what: impl AsyncFn(stepwell_engine::Client) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        loop {
            let gate = self.chaos.gate();
            match gate.fuse().while_alive(what(self.bed.client_behind(&gate))).await {
                Some(Err(ClientError::Store(_) | ClientError::NotSent { .. } | ClientError::Blob(_))) | None => {
                    self.chaos.pause(secs(30)).await;
                }
                Some(answer) => return answer,
            }
        }
    }

    /// The life of one run, from outside.
    async fn run(&self, number: u64) -> Result<RunId, String> {
        self.chaos.pause(secs(60)).await;
        let start = StartRequest { key: Some(format!("k-{number}")), ..request::<Story>(()) };
        let run = RunId::for_key(&WorkflowName::new(Story::NAME).unwrap(), &format!("k-{number}"));
        self.ask(async |client| client.start(start.clone()).await).await.map_err(|error| error.to_string())?;
        let cancel_after = (number == 2).then(|| self.chaos.millis(secs(500)));
        let (signalled, cancelled) = tokio::join!(self.signal(&run), self.cancel(&run, cancel_after));
        let phase = self.end(&run).await?;
        match (signalled, cancelled, phase) {
            (Ok(()), None | Some(Err(ClientError::Ended { .. })), Phase::Completed)
            | (Ok(()) | Err(ClientError::Ended { .. }), Some(Ok(_)), Phase::Cancelled) => Ok(run),
            (signalled, cancelled, phase) => {
                Err(format!("{run} is {phase}; the signal was answered {signalled:?}, the cancellation {cancelled:?}"))
            }
        }
    }

    async fn signal(&self, run: &RunId) -> Result<(), ClientError> {
        self.chaos.pause(secs(300)).await;
        for _ in 0..=self.chaos.upto(3) {
            self.ask(async |client| client.signal(letter(run, ANSWER, "yes".into(), Some("s-1"))).await).await?;
            self.chaos.pause(secs(40)).await;
        }
        Ok(())
    }

    async fn cancel(&self, run: &RunId, after: Option<Duration>) -> Option<Result<CancelAnswer, ClientError>> {
        tokio::time::sleep(after?).await;
        let answer = self.ask(async |client| client.cancel(run, "ann", None).await).await;
        // Asked again, the answer may be that the run has ended: by this very request, whose first answer was lost.
        Some(match (answer, self.bed.checkpoint(run).await.cancel) {
            (Err(ClientError::Ended { phase: Phase::Cancelled, .. }), Some(request)) => {
                Ok(CancelAnswer { request, new: true })
            }
            (answer, _) => answer,
        })
    }

    async fn end(&self, run: &RunId) -> Result<Phase, String> {
        for _ in 0..7_200 {
            let phase = self.bed.phase(run).await;
            if phase.is_ended() {
                return Ok(phase);
            }
            if phase == Phase::Parked {
                self.sign_off(run).await;
            }
            tokio::time::sleep(secs(1)).await;
        }
        Err(format!("{run} never ends: {:?}", self.bed.checkpoint(run).await))
    }

    /// A cancelled run waits for a person where its booking may have happened. Nobody here will find out.
    async fn sign_off(&self, run: &RunId) {
        let progress = self.bed.checkpoint(run).await.progress;
        let open = progress.journal.into_iter().chain(progress.ledger).find(EffectRecord::is_open);
        let Some(EffectRecord { key, .. }) = open else { return };
        let (by, why) = ("ann".to_owned(), "nobody knows".to_owned());
        let act = Resolve { key, resolution: Resolution::SignOff, by, why };
        // Refused while the call may still land: then it is asked again.
        self.ask(async |client| client.resolve(run, act.clone()).await).await.ok();
    }

    /// What went wrong, and how long it took.
    async fn play(&self) -> (Vec<String>, Duration) {
        let lives = async { tokio::join!(self.run(0), self.run(1), self.run(2)) };
        let ((first, second, third), took) = tokio::select! {
            biased;
            ended = lives => (ended, self.bed.elapsed()),
            _ = async { tokio::join!(self.workers(0), self.workers(1), self.workers(2)) } => unreachable!("for ever"),
        };
        let mut found = Vec::new();
        for ended in [first, second, third] {
            match ended {
                Ok(run) if self.bed.phase(&run).await == Phase::Cancelled => {
                    found.extend(wrong_cancelled(&self.bed, &self.outside, &run).await);
                }
                Ok(run) => found.extend(wrong(&self.bed, &self.outside, &run).await),
                Err(what) => found.push(what),
            }
        }
        // What happens late has happened by now.
        tokio::time::sleep(secs(120)).await;
        found.extend(wrong_at_rest(&self.bed, 40).await);
        (found, took)
    }
}

fn play(seed: u64) -> (Vec<String>, Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { Box::pin(World::new(seed).play()).await })
}

/// As many seeds as the variable `SEEDS` says, or the one that `SEED` names.
#[test]
fn any_schedule_ends_right() {
    let number = |name| env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(SEEDS),
    };
    let mut report = Report::new("engine-schedules");
    let mut slowest = Duration::ZERO;
    for seed in seeds {
        let (wrong, took) = play(seed);
        slowest = slowest.max(took);
        report.check(&format!("SEED={seed}: {}", wrong.join("; ")), wrong.is_empty());
    }
    report.figure("slowest schedule", slowest.as_secs()).unit("s");
    assert!(report.finish().unwrap(), "see above; run one again with SEED=…");
}

#[test]
fn a_seed_gives_the_same_schedule_again() {
    for seed in [3, 4, 5] {
        assert_eq!(play(seed), play(seed), "seed {seed}");
    }
}
