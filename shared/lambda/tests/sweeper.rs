//! The sweeper: each minute, whatever the event says.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Bed, T0, batch, failed, secs};
use serde::de::IgnoredAny;
use stepwell::Registry;
use stepwell::prelude::*;
use stepwell_core::{Phase, RunId};
use stepwell_engine::{Engine, Settings, SweepReport};
use stepwell_lambda::{Messages, sweep};
use stepwell_testkit::faults::{Fate, Gate, PortCall};

/// Sleeps for so many seconds, then ends with the time.
struct Sleeper;

#[derive(Serialize, Deserialize)]
enum At {
    Bed,
    Morning,
}

impl Workflow for Sleeper {
    const NAME: &'static str = "sleeper";
    type Input = u64;
    type State = u64;
    type Step = At;
    type Output = u64;

    fn begin(&self, seconds: u64) -> (At, u64) {
        (At::Bed, seconds)
    }

    async fn step(&self, at: At, seconds: &mut u64, cx: &Cx) -> StepResult<Self> {
        Ok(match at {
            At::Bed => wait(At::Morning).lasting(secs(*seconds)),
            At::Morning => complete(cx.now().0),
        })
    }
}

/// A run that sleeps for an hour, whose timer only a sweep can see.
async fn asleep() -> (Bed, RunId) {
    let bed = Bed::new(Registry::new().with(Sleeper));
    let run = bed.start("sleeper", 3_600).await;
    turns(&bed).await;
    assert_eq!(bed.checkpoint(&run).await.progress.status.phase(), Phase::Waiting);
    (bed, run)
}

/// What the runner does with all that is visible now.
async fn turns(bed: &Bed) -> usize {
    let engine = bed.engine(&Gate::open());
    let messages = Messages { engine, queue: bed.memory.clone(), clock: bed.clock.clone() };
    let deliveries = bed.receive().await;
    let response = messages.work(batch(&deliveries), T0.plus(Duration::from_hours(9))).await;
    assert_eq!(failed(&response), Vec::<String>::new());
    bed.acknowledge(&deliveries, &response).await;
    deliveries.len()
}

/// The sweeper has no workflows.
fn sweeper(bed: &Bed, gate: &Arc<Gate>) -> Engine {
    let settings = Settings { worker: "sweeper".parse().unwrap(), rules: stepwell_core::decide::Rules::default() };
    Engine::new(bed.ports(gate, bed.memory.clone()), Arc::new(Registry::new()), settings).unwrap()
}

#[test]
fn the_event_may_be_anything() {
    for event in [include_str!("fixtures/schedule.json"), "{}", "null", r#""now""#] {
        serde_json::from_str::<IgnoredAny>(event).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_is_seen_two_minutes_before_its_time_and_kept_to_the_second() {
    let (bed, run) = asleep().await;
    let engine = sweeper(&bed, &Gate::open());
    tokio::time::sleep(secs(3_600 - 121)).await;
    assert_eq!(sweep(&engine).await.unwrap().sent, 0);
    tokio::time::sleep(secs(1)).await;
    assert_eq!(sweep(&engine).await.unwrap(), SweepReport { seen: 1, sent: 1, reminded: 0 });
    tokio::time::sleep(secs(119)).await;
    assert_eq!(turns(&bed).await, 0, "too early");
    tokio::time::sleep(secs(1)).await;
    assert_eq!(turns(&bed).await, 1);
    assert_eq!(bed.checkpoint(&run).await.progress.status.phase(), Phase::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_fires_twice_is_harmless() {
    let (bed, run) = asleep().await;
    let engine = sweeper(&bed, &Gate::open());
    tokio::time::sleep(secs(3_550)).await;
    let (one, other) = tokio::join!(sweep(&engine), sweep(&engine));
    assert_eq!(
        (one.unwrap(), other.unwrap()),
        (SweepReport { seen: 1, sent: 1, reminded: 0 }, SweepReport { seen: 1, sent: 1, reminded: 0 })
    );
    tokio::time::sleep(secs(50)).await;
    assert_eq!(turns(&bed).await, 2, "both in one batch");
    tokio::time::sleep(secs(60)).await;
    turns(&bed).await;
    assert_eq!(bed.story(&run).await, "Bed:waited Morning:completed");
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_fails_says_so() {
    let (bed, _) = asleep().await;
    let gate = Gate::planned(|_, call| if call == PortCall::Due { Fate::Unavailable } else { Fate::Pass });
    assert!(sweep(&sweeper(&bed, &gate)).await.is_err());
}
