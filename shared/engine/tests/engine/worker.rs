//! The long-running worker: how much at once, its heartbeat, its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use stepwell::prelude::*;
use stepwell_core::{Fence, Phase, RunId};
use stepwell_engine::{WorkerReport, WorkerSettings};
use stepwell_ports::{Envelope, RunQueue};
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, message, secs};

/// Steps of some length; counts how many are busy at once.
#[derive(Clone, Default)]
struct Busy {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

#[derive(Serialize, Deserialize)]
enum At {
    Work,
}

impl Workflow for Busy {
    const NAME: &'static str = "busy";
    /// Steps, and seconds that each takes.
    type Input = (u32, u64);
    type State = (u32, u64);
    type Step = At;
    type Output = ();

    fn begin(&self, input: (u32, u64)) -> (At, (u32, u64)) {
        (At::Work, input)
    }

    fn policy(&self, _: &At) -> StepPolicy {
        StepPolicy::default().timeout(minutes(10))
    }

    async fn step(&self, _: At, (left, each): &mut (u32, u64), _cx: &Cx) -> StepResult<Self> {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        tokio::time::sleep(secs(*each)).await;
        self.now.fetch_sub(1, Ordering::Relaxed);
        *left -= 1;
        Ok(if *left == 0 { complete(()) } else { goto(At::Work) })
    }
}

fn bed() -> (Bed, Busy) {
    let busy = Busy::default();
    (Bed::new(Registry::new().with(busy.clone())), busy)
}

async fn start(bed: &Bed, runs: usize, input: (u32, u64)) -> Vec<RunId> {
    let mut started = Vec::new();
    for _ in 0..runs {
        started.push(bed.start::<Busy>(input).await);
    }
    started
}

async fn until_done(bed: &Bed, runs: &[RunId]) {
    for run in runs {
        bed.until_phase(run, Phase::Completed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_runs_are_worked_at_once_than_it_is_told() {
    let (bed, busy) = bed();
    let runs = start(&bed, 10, (1, 10)).await;
    let worker = bed.worker_behind(&Gate::open(), "w", WorkerSettings { concurrency: 3, ..WorkerSettings::default() });
    until_done(&bed, &runs).await;
    assert_eq!(busy.most.load(Ordering::Relaxed), 3);
    assert!((secs(40)..secs(41)).contains(&bed.elapsed()), "{:?}", bed.elapsed());
    assert_eq!(worker.stop().await, WorkerReport { turns: 10, buried: 0, abandoned: 0 });
}

/// Each request to the queue costs.
#[tokio::test(start_paused = true)]
async fn messages_are_taken_as_many_at_once_as_there_is_room_for() {
    let (bed, busy) = bed();
    start(&bed, 12, (1, 60)).await;
    let gate = Gate::open();
    let worker = bed.worker_behind(&gate, "w", WorkerSettings { concurrency: 20, ..WorkerSettings::default() });
    tokio::time::sleep(secs(1)).await;
    assert_eq!(busy.now.load(Ordering::Relaxed), 12);
    assert_eq!(gate.count(PortCall::Receive), 2, "all twelve, and one that waits for more");
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_runs_go_side_by_side() {
    let (bed, busy) = bed();
    let runs = start(&bed, 300, (2, 10)).await;
    let worker = bed.worker("w");
    until_done(&bed, &runs).await;
    assert_eq!(busy.most.load(Ordering::Relaxed), 256);
    worker.stop().await;
    assert_eq!(bed.messages().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_each_run_hand_off_after_its_step() {
    let (bed, busy) = bed();
    let runs = start(&bed, 3, (20, 5)).await;
    let worker = bed.worker("w");
    tokio::time::sleep(secs(7)).await;
    assert_eq!(worker.stop().await, WorkerReport { turns: 3, buried: 0, abandoned: 0 });
    // At second 10, when the second step of each has ended.
    assert_eq!(bed.elapsed(), secs(10));
    for run in &runs {
        let checkpoint = bed.checkpoint(run).await;
        assert_eq!((checkpoint.progress.visit.0, checkpoint.hold.lease), (2, None));
    }
    // Another goes on at once: no lease has to run out.
    let next = bed.worker("x");
    tokio::time::sleep(secs(1)).await;
    assert_eq!(busy.now.load(Ordering::Relaxed), 3);
    until_done(&bed, &runs).await;
    next.stop().await;
    for run in &runs {
        assert_eq!(bed.history(run).await.len(), 20);
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_outlasts_the_grace_is_abandoned_and_runs_again_elsewhere() {
    let (bed, busy) = bed();
    let runs = start(&bed, 1, (1, 60)).await;
    let worker = bed.worker("w");
    tokio::time::sleep(secs(7)).await;
    assert_eq!(worker.stop().await, WorkerReport { turns: 0, buried: 0, abandoned: 1 });
    assert_eq!(bed.elapsed(), secs(27));
    assert_eq!(bed.checkpoint(&runs[0]).await.progress.visit.0, 0);
    let next = bed.worker("x");
    until_done(&bed, &runs).await;
    next.stop().await;
    assert_eq!(busy.most.load(Ordering::Relaxed), 2, "the abandoned one never counted itself out");
    assert_eq!(bed.checkpoint(&runs[0]).await.hold.fence, Fence(2));
}

#[tokio::test(start_paused = true)]
async fn a_message_stays_hidden_while_its_run_is_worked() {
    let (bed, _) = bed();
    let runs = start(&bed, 1, (1, 300)).await;
    let gates = [Gate::open(), Gate::open()];
    let workers = [("a", &gates[0]), ("b", &gates[1])]
        .map(|(name, gate)| bed.worker_behind(gate, name, WorkerSettings::default()));
    until_done(&bed, &runs).await;
    for worker in workers {
        worker.stop().await;
    }
    let acquires: usize = gates.iter().map(|gate| gate.count(PortCall::Acquire)).sum();
    assert_eq!(acquires, 1, "the message came again");
    // Every five seconds, since it is hidden for fifteen.
    let extended: usize = gates.iter().map(|gate| gate.count(PortCall::Extend)).sum();
    assert!((58..=60).contains(&extended), "{extended}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_heartbeat_only_costs_a_look() {
    let (bed, busy) = bed();
    let runs = start(&bed, 1, (1, 100)).await;
    let gate = Gate::planned(|_, call| if call == PortCall::Extend { Fate::Unavailable } else { Fate::Pass });
    let workers = [bed.worker_behind(&gate, "a", WorkerSettings::default()), bed.worker("b")];
    until_done(&bed, &runs).await;
    for worker in workers {
        worker.stop().await;
    }
    assert_eq!(busy.most.load(Ordering::Relaxed), 1);
    assert_eq!(bed.checkpoint(&runs[0]).await.hold.fence, Fence(1));
    // What is left is one message at most, and it has nothing to say.
    assert!(bed.settle().await <= 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_run_goes_to_the_dead_letters_with_its_reason() {
    let (bed, _) = bed();
    let lost = message(&RunId::new("nobody").unwrap(), 3);
    bed.memory.send(&[Envelope { message: lost.clone(), delay: Duration::ZERO }]).await.unwrap();
    let worker = bed.worker("w");
    tokio::time::sleep(secs(1)).await;
    assert_eq!(worker.stop().await, WorkerReport { turns: 1, buried: 1, abandoned: 0 });
    let dead = bed.memory.dead_letters();
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].message, lost);
    assert!(dead[0].reason.contains("there is no such run"), "{}", dead[0].reason);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_away_for_a_while_only_delays_the_runs() {
    let (bed, _) = bed();
    let runs = start(&bed, 5, (3, 1)).await;
    let mut calls = 0;
    let gate = Gate::planned(move |_, call| match call {
        PortCall::Receive | PortCall::Send | PortCall::Delete | PortCall::Extend => {
            calls += 1;
            if calls % 3 == 0 || calls < 20 { Fate::Unavailable } else { Fate::Pass }
        }
        _ => Fate::Pass,
    });
    let settings = WorkerSettings { turn: Duration::ZERO, ..WorkerSettings::default() };
    let worker = bed.worker_behind(&gate, "w", settings);
    until_done(&bed, &runs).await;
    worker.stop().await;
    for run in &runs {
        assert_eq!(bed.history(run).await.len(), 3);
    }
    assert_eq!(bed.witness.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_a_while_only_delays_the_runs() {
    let (bed, _) = bed();
    let runs = start(&bed, 5, (3, 1)).await;
    let clock = bed.clock.clone();
    let gate = Gate::planned(move |_, call| {
        let away = (secs(1)..secs(50)).contains(&stepwell_ports::Clock::now(&*clock).since(crate::bed::T0));
        match call {
            PortCall::Acquire | PortCall::Renew | PortCall::Commit | PortCall::Due if away => Fate::Unavailable,
            _ => Fate::Pass,
        }
    });
    let worker = bed.worker_behind(&gate, "w", WorkerSettings::default());
    until_done(&bed, &runs).await;
    assert!(bed.elapsed() < secs(120), "{:?}", bed.elapsed());
    worker.stop().await;
    assert_eq!(bed.messages().await, []);
    assert_eq!(bed.memory.dead_letters(), []);
}
