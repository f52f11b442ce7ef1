//! The sweep: it wakes what every message has forgotten, and does nothing else.

use stepwell::prelude::*;
use stepwell_core::limits::PAGE_MAX;
use stepwell_core::{Phase, RunId};
use stepwell_engine::{ClientError, Engine, Ports, Remedy, SweepReport};
use stepwell_ports::StoreError;
use stepwell_testkit::Capture;
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, MARK, minute, one_step, secs};
use crate::flawed::{Flaw, Flawed};

const GO: Signal<()> = Signal::new("go");

/// What a run's second step is preceded by.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Kind {
    Step,
    Signal,
    /// A timer of so many seconds.
    Timer(u64),
    Retry,
}

struct Walk;

#[derive(Serialize, Deserialize)]
enum At {
    First,
    Second,
}

impl Workflow for Walk {
    const NAME: &'static str = "walk";
    type Input = Kind;
    type State = Kind;
    type Step = At;
    type Output = u64;

    fn begin(&self, kind: Kind) -> (At, Kind) {
        (At::First, kind)
    }

    fn signals() -> Signals {
        Signals::none().and(GO)
    }

    fn policy(&self, _: &At) -> StepPolicy {
        StepPolicy::default().retry(RetryPolicy::default().every(minutes(2)))
    }

    async fn step(&self, at: At, kind: &mut Kind, cx: &Cx) -> StepResult<Self> {
        Ok(match (at, *kind) {
            (At::First, Kind::Signal) => wait(At::Second).for_signal(GO).without_deadline(),
            (At::First, Kind::Timer(seconds)) => wait(At::Second).lasting(secs(seconds)),
            (At::First, Kind::Retry) if cx.attempt() == 1 => return Err(StepError::retry("busy")),
            (At::First, Kind::Step | Kind::Retry) => goto(At::Second),
            (At::Second, _) => complete(cx.now().0),
        })
    }
}

fn bed() -> Bed {
    Bed::new(Registry::new().with(Walk))
}

async fn sweep(bed: &Bed) -> SweepReport {
    bed.engine().sweep(secs(30)).await.unwrap()
}

/// Deletes every message that is in the queue, delayed ones too. Time goes on meanwhile.
async fn purge(bed: &Bed) {
    bed.messages().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_first_message_was_lost_is_found_after_its_mark() {
    let bed = bed();
    tokio::time::advance(secs(40)).await;
    let run = bed.start::<Walk>(Kind::Step).await;
    let message = bed.receive(secs(0)).await.unwrap();
    stepwell_ports::RunQueue::delete(&*bed.memory, &[message.receipt]).await.unwrap();
    tokio::time::advance(MARK.saturating_sub(secs(41))).await;
    assert_eq!(sweep(&bed).await.sent, 0, "it may just be that the queue is slow");
    tokio::time::advance(secs(1)).await;
    assert_eq!(sweep(&bed).await.sent, 1);
    bed.settle().await;
    assert_eq!(bed.phase(&run).await, Phase::Completed);
}

/// A worker sweeps every few seconds: a line for each would hide all others.
#[tokio::test(start_paused = true)]
async fn a_worker_tells_of_a_sweep_that_has_sent_something_and_of_no_other() {
    let bed = bed();
    let log = Capture::default();
    let _told = tracing::subscriber::set_default(log.clone());
    let run = bed.start::<Walk>(Kind::Step).await;
    purge(&bed).await;
    let worker = bed.worker("w");
    tokio::time::sleep(MARK * 3).await;
    worker.stop().await;
    assert_eq!(bed.phase(&run).await, Phase::Completed);
    let swept = log.text().lines().filter(|line| *line == "message=swept").count();
    assert_eq!(swept, 1, "{}", log.text());
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_message_was_lost_between_two_steps_is_found() {
    let bed = bed();
    let run = bed.start::<Walk>(Kind::Step).await;
    bed.turn(&one_step()).await;
    purge(&bed).await;
    assert_eq!(sweep(&bed).await.sent, 1);
    bed.settle().await;
    assert_eq!(bed.story(&run).await, "First:stepped Second:completed");
}

#[tokio::test(start_paused = true)]
async fn a_purged_queue_strands_nobody() {
    let bed = bed();
    let mut runs: Vec<RunId> = Vec::new();
    for number in 0..60 {
        let kind = match number % 5 {
            0 => Kind::Step,
            1 => Kind::Signal,
            2 => Kind::Timer(number * 60),
            3 => Kind::Retry,
            _ => Kind::Timer(number * 10),
        };
        runs.push(bed.start::<Walk>(kind).await);
    }
    // Two thirds have had a turn, some more than one.
    for _ in 0..40 {
        bed.turn(&one_step()).await;
    }
    for run in &runs {
        if bed.checkpoint(run).await.due_at.is_none() {
            bed.signal(run, GO, ()).await;
        }
    }
    purge(&bed).await;
    let worker = bed.worker("w");
    for run in &runs {
        bed.until(run, |checkpoint| {
            let waits =
                matches!(&checkpoint.progress.status, stepwell_core::Status::Waiting(wait) if wait.until.is_none());
            waits || checkpoint.progress.status.phase() == Phase::Completed
        })
        .await;
    }
    worker.stop().await;
    assert_eq!(bed.witness.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn sweeping_twice_is_harmless() {
    let bed = bed();
    let run = bed.start::<Walk>(Kind::Timer(600)).await;
    bed.turn(&minute()).await;
    tokio::time::advance(secs(590)).await;
    for _ in 0..3 {
        assert_eq!(sweep(&bed).await, SweepReport { seen: 1, sent: 1, reminded: 0 });
    }
    // The timer's own message and three more: the run moves once.
    assert_eq!(bed.settle().await, 4);
    assert_eq!(bed.story(&run).await, "First:waited Second:completed");
    assert_eq!(bed.output::<u64>(&run).await, crate::bed::T0.0 + 600_000);
    assert_eq!(sweep(&bed).await, SweepReport { seen: 0, sent: 0, reminded: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_run_that_somebody_holds_is_let_alone() {
    let bed = bed();
    let run = bed.start::<Walk>(Kind::Step).await;
    tokio::time::advance(MARK * 2).await;
    let gate = Gate::planned(|_, call| if call == PortCall::Commit { Fate::SlowStart(secs(10)) } else { Fate::Pass });
    let delivery = bed.receive(secs(1)).await.unwrap();
    let engine = bed.engine_behind(&gate, "w");
    let budget = minute();
    tokio::join!(bed.work(&engine, &delivery, &budget), async {
        tokio::time::sleep(secs(1)).await;
        assert_eq!(sweep(&bed).await, SweepReport { seen: 1, sent: 0, reminded: 0 });
    });
    assert_eq!(bed.phase(&run).await, Phase::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_goes_over_all_pages() {
    let bed = bed();
    let mut runs = Vec::new();
    for _ in 0..PAGE_MAX + 50 {
        runs.push(bed.start::<Walk>(Kind::Step).await);
    }
    while let Some(delivery) = bed.receive(secs(0)).await {
        stepwell_ports::RunQueue::delete(&*bed.memory, &[delivery.receipt]).await.unwrap();
    }
    tokio::time::advance(MARK).await;
    let sent = runs.len() as u64;
    assert_eq!(sweep(&bed).await, SweepReport { seen: sent, sent, reminded: sent });
    assert_eq!(u64::from(bed.settle().await), sent);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_run_keeps_no_other_from_being_woken_and_is_named() {
    let bed = bed();
    for _ in 0..PAGE_MAX + 3 {
        bed.start::<Walk>(Kind::Step).await;
    }
    while let Some(delivery) = bed.receive(secs(0)).await {
        stepwell_ports::RunQueue::delete(&*bed.memory, &[delivery.receipt]).await.unwrap();
    }
    tokio::time::advance(MARK).await;
    let store = Flawed::new(&bed, Flaw::DamagedEntry);
    let engine = Engine::new(
        Ports { store, ..bed.ports_behind(&Gate::open()) },
        bed.registry.clone(),
        bed.engine().settings().clone(),
    );
    let error = engine.unwrap().sweep(secs(30)).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::CallAPerson);
    let ClientError::Store(StoreError::Damaged(what)) = error else { panic!("{error:?}") };
    assert!(what.contains("its phase is unknown") && what.ends_with("(and 1 more like this)"), "{what}");
    // One of each page.
    assert_eq!(bed.messages().await.len(), PAGE_MAX + 1);
}

#[tokio::test(start_paused = true)]
async fn parked_and_ended_runs_are_not_seen() {
    let bed = bed();
    let done = bed.start::<Walk>(Kind::Step).await;
    bed.settle().await;
    let parked = bed.start::<Walk>(Kind::Step).await;
    bed.deployed(Registry::new()).settle().await;
    assert_eq!((bed.phase(&done).await, bed.phase(&parked).await), (Phase::Completed, Phase::Parked));
    // A signal to a parked run is kept for later, and wakes nobody.
    bed.signal(&parked, GO, ()).await;
    tokio::time::advance(MARK * 3).await;
    assert_eq!(sweep(&bed).await, SweepReport { seen: 0, sent: 0, reminded: 0 });
    assert_eq!(bed.messages().await, []);
}

#[tokio::test(start_paused = true)]
async fn what_a_failing_sweep_did_not_send_the_next_one_does() {
    let bed = bed();
    let run = bed.start::<Walk>(Kind::Timer(3_600)).await;
    bed.turn(&minute()).await;
    tokio::time::advance(secs(3_590)).await;
    let mut failures = 2;
    let gate = Gate::planned(move |_, call| match call {
        PortCall::Due | PortCall::Send if failures > 0 => {
            failures -= 1;
            Fate::Unavailable
        }
        _ => Fate::Pass,
    });
    let engine = bed.engine_behind(&gate, "w");
    assert!(engine.sweep(secs(30)).await.is_err());
    assert!(engine.sweep(secs(30)).await.is_err());
    assert_eq!(engine.sweep(secs(30)).await.unwrap().sent, 1);
    bed.settle().await;
    assert_eq!(bed.phase(&run).await, Phase::Completed);
}
