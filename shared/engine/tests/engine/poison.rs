//! Steps that kill their worker, where no error handler can help.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use stepwell::prelude::*;
use stepwell_core::{ParkReason, Phase, RunId};
use stepwell_testkit::crash::Fuse;
use stepwell_testkit::faults::Gate;

use crate::bed::{Bed, minute, secs};

/// Kills its worker as often as it is told to.
struct Killer {
    kills: Arc<AtomicU32>,
    /// The worker that runs it now.
    victim: Arc<std::sync::Mutex<Fuse>>,
}

#[derive(Serialize, Deserialize)]
enum At {
    Warn,
    Kill,
    Last,
}

impl Workflow for Killer {
    const NAME: &'static str = "killer";
    type Input = bool;
    type State = bool;
    type Step = At;
    type Output = u32;

    fn begin(&self, warn: bool) -> (At, bool) {
        (if warn { At::Warn } else { At::Kill }, warn)
    }

    fn policy(&self, _: &At) -> StepPolicy {
        StepPolicy::default().retry(RetryPolicy::default().every(secs(1)))
    }

    async fn step(&self, at: At, _: &mut bool, cx: &Cx) -> StepResult<Self> {
        match at {
            // Fails once before it begins to kill.
            At::Warn if cx.attempt() == 1 => return Err(StepError::retry("memory is getting short")),
            At::Warn | At::Kill => {}
            At::Last => {
                let paid = cx.effect("pay").idempotent().call(async |_| Ok::<_, CallError>(7)).await?;
                return Ok(complete(paid));
            }
        }
        if self.kills.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            self.victim.lock().unwrap().burn();
            std::future::pending::<()>().await;
        }
        Ok(goto(At::Last))
    }
}

struct Case {
    bed: Bed,
    run: RunId,
    kills: Arc<AtomicU32>,
    victim: Arc<std::sync::Mutex<Fuse>>,
}

impl Case {
    async fn of(kills: u32, warn: bool) -> Self {
        let kills = Arc::new(AtomicU32::new(kills));
        let victim = Arc::default();
        let bed = Bed::new(Registry::new().with(Killer { kills: kills.clone(), victim: Arc::clone(&victim) }));
        let run = bed.start::<Killer>(warn).await;
        Self { bed, run, kills, victim }
    }

    /// Works with a new worker whenever the old one has died, until no message comes. Returns how many died.
    async fn settle(&self) -> u32 {
        let mut died = 0;
        while let Some(delivery) = self.bed.receive(minutes(16)).await {
            let gate = Gate::open();
            *self.victim.lock().unwrap() = gate.fuse().clone();
            let engine = self.bed.engine_behind(&gate, "w");
            let budget = minute();
            let turn = self.bed.work(&engine, &delivery, &budget);
            died += u32::from(gate.fuse().while_alive(turn).await.is_none());
        }
        died
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_kills_five_workers_is_parked_and_no_sixth_runs_it() {
    let case = Case::of(99, false).await;
    assert_eq!(case.settle().await, 5);
    assert_eq!(case.bed.parked(&case.run).await, ParkReason::Poison { acquires: 5 });
    assert_eq!(case.kills.load(Ordering::Relaxed), 94);
    let entry = case.bed.history(&case.run).await.pop().unwrap().entry;
    assert!(entry.more.note.unwrap().contains("acquired 5 times without one commit"));
    // Each death costs a lease, no more.
    assert!(
        (secs(150)..secs(160)).contains(&case.bed.checkpoint(&case.run).await.progress.tail.at.since(crate::bed::T0))
    );
}

#[tokio::test(start_paused = true)]
async fn the_reason_names_the_last_error_before_the_deaths() {
    let case = Case::of(99, true).await;
    case.settle().await;
    let entry = case.bed.history(&case.run).await.pop().unwrap().entry;
    let note = entry.more.note.unwrap();
    assert!(note.contains("last error: error: memory is getting short"), "{note}");
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_run_goes_on_where_it_stood_once_it_is_mended_and_resumed() {
    let case = Case::of(99, false).await;
    case.settle().await;
    case.kills.store(0, Ordering::Relaxed);
    assert_eq!(case.settle().await, 0, "nothing touches a parked run");
    assert_eq!(case.bed.phase(&case.run).await, Phase::Parked);
    case.bed.resume(&case.run).await;
    case.settle().await;
    assert_eq!(case.bed.output::<u32>(&case.run).await, 7);
    assert_eq!(case.bed.story(&case.run).await, "begin:parked begin:resumed Kill:stepped Last:completed");
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_run_that_is_resumed_unmended_gets_as_many_tries_again() {
    let case = Case::of(99, false).await;
    case.settle().await;
    case.bed.resume(&case.run).await;
    assert_eq!(case.settle().await, 5);
    assert_eq!(case.bed.parked(&case.run).await.code(), "poison");
}

#[tokio::test(start_paused = true)]
async fn deaths_with_a_commit_in_between_do_not_add_up() {
    // The failed first attempt of the warning step is a commit: four deaths after it, and it goes on.
    let case = Case::of(4, true).await;
    assert_eq!(case.settle().await, 4);
    assert_eq!(case.bed.phase(&case.run).await, Phase::Completed);
    let case = Case::of(5, true).await;
    assert_eq!(case.settle().await, 5);
    assert_eq!(case.bed.phase(&case.run).await, Phase::Parked);
}
