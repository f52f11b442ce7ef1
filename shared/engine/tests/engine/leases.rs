//! Leases: renewed while a step runs, lost to another worker, and longer than any effect that is in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use stepwell::prelude::*;
use stepwell_core::checkpoint::Lease;
use stepwell_core::mailbox::EVIDENCE;
use stepwell_core::write::{Acquire, Write, WriteRequest};
use stepwell_core::{EffectRecord, FailureKind, Fence, Payload, Phase, RunId, WorkerId, WriteId};
use stepwell_engine::{Ack, Engine};
use stepwell_ports::{CheckpointStore, Clock, Written};
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, T0, message, minute, secs};

/// Counts what was done, in whichever worker.
#[derive(Clone, Default)]
struct Marks {
    begun: Arc<AtomicU32>,
    reached: Arc<AtomicU32>,
    called: Arc<AtomicU32>,
}

struct Slow(Marks);

#[derive(Clone, Serialize, Deserialize)]
struct Plan {
    /// Seconds before the effect.
    before: u64,
    /// Seconds that the effect may take, and takes.
    effect: Option<(u64, u64)>,
    /// Seconds after it.
    after: u64,
}

#[derive(Serialize, Deserialize)]
enum At {
    Work,
}

impl Workflow for Slow {
    const NAME: &'static str = "slow";
    type Input = Plan;
    type State = Plan;
    type Step = At;
    type Output = ();

    fn begin(&self, plan: Plan) -> (At, Plan) {
        (At::Work, plan)
    }

    fn policy(&self, _: &At) -> StepPolicy {
        StepPolicy::default().timeout(minutes(20)).retry(RetryPolicy::default().every(secs(1)))
    }

    async fn step(&self, _: At, plan: &mut Plan, cx: &Cx) -> StepResult<Self> {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(secs(plan.before)).await;
        if let Some((deadline, takes)) = plan.effect {
            let effect = cx.effect("call").idempotent().deadline(secs(deadline));
            effect
                .call(async |_| {
                    self.0.called.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(secs(takes)).await;
                    Ok::<_, CallError>(())
                })
                .await?;
        }
        tokio::time::sleep(secs(plan.after)).await;
        self.0.reached.fetch_add(1, Ordering::Relaxed);
        Ok(complete(()))
    }
}

struct Case {
    bed: Bed,
    run: RunId,
    marks: Marks,
}

fn plan(before: u64) -> Plan {
    Plan { before, effect: None, after: 0 }
}

impl Case {
    async fn of(plan: Plan) -> Self {
        let marks = Marks::default();
        let bed = Bed::new(Registry::new().with(Slow(marks.clone())));
        let run = bed.start::<Slow>(plan).await;
        Self { bed, run, marks }
    }

    /// A turn on the first message by a worker of its own.
    fn turn(&self, engine: Engine) -> tokio::task::JoinHandle<(Ack, Duration)> {
        let (bed, run) = (self.bed.clone(), self.run.clone());
        tokio::spawn(async move {
            let ack = engine.turn(&message(&run, 1), &minute()).await;
            (ack, bed.elapsed())
        })
    }

    fn counts(&self) -> [u32; 3] {
        let Marks { begun, reached, called } = &self.marks;
        [begun, reached, called].map(|count| count.load(Ordering::Relaxed))
    }

    async fn fence(&self) -> Fence {
        self.bed.checkpoint(&self.run).await.hold.fence
    }
}

/// Fails every renewal before this time.
fn renewals_from(case: &Case, from: Duration) -> Arc<Gate> {
    let clock = case.bed.clock.clone();
    Gate::planned(move |_, call| match call {
        PortCall::Renew if clock.now() < T0.plus(from) => Fate::Unavailable,
        _ => Fate::Pass,
    })
}

#[tokio::test(start_paused = true)]
async fn a_long_step_renews_its_lease_and_nobody_else_gets_in() {
    let case = Case::of(plan(300)).await;
    let gate = Gate::open();
    let turn = case.turn(case.bed.engine_behind(&gate, "a"));
    // Somebody else tries again and again, whenever a message says so.
    for _ in 0..29 {
        tokio::time::sleep(secs(10)).await;
        assert_eq!(
            case.bed.engine_behind(&Gate::open(), "b").turn(&message(&case.run, 1), &minute()).await,
            Ack::Delete
        );
    }
    assert_eq!(turn.await.unwrap(), (Ack::Delete, secs(300)));
    assert_eq!(case.counts(), [1, 1, 0]);
    assert_eq!(case.fence().await, Fence(1));
    // One every third of the lease.
    assert_eq!(gate.count(PortCall::Renew), 29);
    assert_eq!(case.bed.checkpoint(&case.run).await.progress.usage.writes, 31);
}

#[tokio::test(start_paused = true)]
async fn a_fenced_worker_stops_and_writes_nothing_more() {
    // The first worker cannot renew: after thirty seconds another may have the run.
    let case = Case::of(plan(40)).await;
    let gate = renewals_from(&case, minutes(10));
    let first = case.turn(case.bed.engine_behind(&gate, "a"));
    tokio::time::sleep(secs(31)).await;
    let second = case.turn(case.bed.engine_behind(&Gate::open(), "b"));
    // Its message may be the very one that the other works on, so it is left.
    assert_eq!(first.await.unwrap().0, Ack::Leave);
    assert_eq!(gate.count(PortCall::Send), 0);
    assert_eq!(second.await.unwrap(), (Ack::Delete, secs(71)));
    assert_eq!(case.counts(), [2, 2, 0]);
    let commits: Vec<Fence> = (case.bed.witness.seen().iter())
        .filter_map(|seen| if let Write::Commit(commit) = &seen.request.write { Some(commit.fence) } else { None })
        .collect();
    assert_eq!(commits, [Fence(2)]);
    assert_eq!(case.bed.phase(&case.run).await, Phase::Completed);
    assert_eq!(case.bed.witness.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_learns_of_its_loss_drops_the_step_where_it_stands() {
    let case = Case::of(plan(100)).await;
    // Renewals fail until the other worker has the run.
    let gate = renewals_from(&case, secs(35));
    let first = case.turn(case.bed.engine_behind(&gate, "a"));
    tokio::time::sleep(secs(31)).await;
    let second = case.turn(case.bed.engine_behind(&Gate::open(), "b"));
    let (ack, at) = first.await.unwrap();
    assert_eq!(ack, Ack::Leave);
    assert!(at < secs(40), "{at:?}");
    second.await.unwrap();
    assert_eq!(case.counts(), [2, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_dead_workers_step_runs_once_more_and_no_more_often() {
    let case = Case::of(plan(20)).await;
    let first = case.bed.worker("a");
    tokio::time::sleep(secs(5)).await;
    drop(first);
    let second = case.bed.worker("b");
    case.bed.until_phase(&case.run, Phase::Completed).await;
    assert_eq!(case.counts(), [2, 1, 0]);
    // The lease of the dead runs until second 30, then the step takes 20.
    assert!((secs(50)..secs(51)).contains(&case.bed.elapsed()), "{:?}", case.bed.elapsed());
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_may_take_longer_than_the_lease_extends_it_first() {
    let case = Case::of(Plan { before: 0, effect: Some((300, 250)), after: 0 }).await;
    // No renewal but the first gets through: that one has to be enough.
    let gate = Gate::planned({
        let mut renewals = 0;
        move |_, call| {
            renewals += u32::from(call == PortCall::Renew);
            if call == PortCall::Renew && renewals > 1 { Fate::Unavailable } else { Fate::Pass }
        }
    });
    let turn = case.turn(case.bed.engine_behind(&gate, "a"));
    tokio::time::sleep(Duration::from_millis(1)).await;
    let lease = case.bed.checkpoint(&case.run).await.hold.lease.unwrap();
    assert!(lease.until >= T0.plus(secs(300)));
    assert_eq!(case.counts(), [1, 0, 1]);
    tokio::time::sleep(secs(240)).await;
    assert_eq!(case.bed.engine_behind(&Gate::open(), "b").turn(&message(&case.run, 1), &minute()).await, Ack::Delete);
    assert_eq!(turn.await.unwrap(), (Ack::Delete, secs(250)));
    assert_eq!(case.counts(), [1, 1, 1]);
    assert_eq!(case.fence().await, Fence(1));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_has_lost_the_run_dispatches_nothing_more() {
    let case = Case::of(Plan { before: 35, effect: Some((10, 1)), after: 0 }).await;
    // It has not heard of its loss when it comes to the effect: its renewals fail, the next is not yet due.
    let gate = renewals_from(&case, Duration::from_millis(34_900));
    let first = case.turn(case.bed.engine_behind(&gate, "a"));
    tokio::time::sleep(secs(31)).await;
    let second = case.turn(case.bed.engine_behind(&Gate::open(), "b"));
    let (ack, at) = first.await.unwrap();
    assert_eq!((ack, at), (Ack::Leave, secs(35)));
    assert_eq!(case.counts(), [2, 0, 0]);
    assert_eq!(second.await.unwrap().0, Ack::Delete);
    assert_eq!(case.counts(), [2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_call_never_outlasts_the_lease_however_slow_the_store_is() {
    let case = Case::of(Plan { before: 0, effect: Some((100, 1_000)), after: 0 }).await;
    let gate = Gate::planned(|_, call| match call {
        PortCall::Renew => Fate::SlowAnswer(secs(25)),
        _ => Fate::Pass,
    });
    case.turn(case.bed.engine_behind(&gate, "a"));
    tokio::time::sleep(secs(30)).await;
    assert_eq!(case.counts(), [1, 0, 1]);
    // The lease was asked for until second 100. The call began 25 seconds late, and is cut at that very time.
    let cut = case.bed.until_phase(&case.run, Phase::Retrying).await.progress.trouble.unwrap();
    assert_eq!(cut.since, T0.plus(secs(100)));
    assert!(cut.last.message.contains("no answer within 75s"), "{}", cut.last);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_extended_too_late_is_not_used() {
    let case = Case::of(Plan { before: 0, effect: Some((40, 1)), after: 0 }).await;
    let gate = Gate::planned(|_, call| match call {
        PortCall::Renew => Fate::SlowAnswer(secs(40)),
        _ => Fate::Pass,
    });
    case.turn(case.bed.engine_behind(&gate, "a")).await.unwrap();
    assert_eq!(case.counts(), [1, 0, 0]);
    case.bed.settle().await;
    assert_eq!(case.bed.story(&case.run).await, "Work:retried Work:completed");
    assert_eq!(case.counts(), [2, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_extended_beyond_the_time_that_the_step_may_take() {
    // The effect may take a day, the step twenty minutes.
    let case = Case::of(Plan { before: 0, effect: Some((86_400, 80_000)), after: 0 }).await;
    case.turn(case.bed.engine_behind(&Gate::open(), "a"));
    tokio::time::sleep(secs(1)).await;
    assert_eq!(case.counts(), [1, 0, 1]);
    assert_eq!(case.bed.checkpoint(&case.run).await.hold.lease.unwrap().until, T0.plus(minutes(20)));
    let cut = case.bed.until_phase(&case.run, Phase::Retrying).await.progress.trouble.unwrap();
    assert_eq!((cut.since, cut.last.kind), (T0.plus(minutes(20)), FailureKind::Timeout));
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_was_heard_is_not_forgotten_for_an_older_answer() {
    struct Two(Arc<AtomicU32>);
    impl Workflow for Two {
        const NAME: &'static str = "two-effects";
        type Input = ();
        type State = ();
        type Step = ();
        type Output = ();
        fn begin(&self, (): ()) -> ((), ()) {
            ((), ())
        }
        async fn step(&self, (): (), (): &mut (), cx: &Cx) -> StepResult<Self> {
            let call = async || {
                self.0.fetch_add(1, Ordering::Relaxed);
                Ok::<_, CallError>(())
            };
            tokio::time::sleep(secs(15)).await;
            // Asks for a longer lease, and so hears of the cancellation.
            let first = cx.effect("first").idempotent().deadline(secs(40)).call(async |_| call().await).await;
            assert!(first.is_err());
            tokio::time::sleep(secs(5)).await;
            cx.effect("second").idempotent().deadline(secs(2)).call(async |_| call().await).await?;
            Ok(complete(()))
        }
    }
    let called = Arc::new(AtomicU32::new(0));
    let bed = Bed::new(Registry::new().with(Two(called.clone())));
    let run = bed.start::<Two>(()).await;
    // The renewal at second 10 is written at once, before the cancellation, and answered at second 18, after the effect.
    let mut renewals = 0;
    let gate = Gate::planned(move |_, call| {
        renewals += u32::from(call == PortCall::Renew);
        if call == PortCall::Renew && renewals == 1 { Fate::SlowAnswer(secs(8)) } else { Fate::Pass }
    });
    let delivery = bed.receive(secs(1)).await.unwrap();
    let (engine, budget) = (bed.engine_behind(&gate, "w"), minute());
    tokio::join!(bed.work(&engine, &delivery, &budget), async {
        tokio::time::sleep(secs(12)).await;
        bed.client().cancel(&run, "ann", None).await.unwrap();
    });
    assert_eq!(called.load(Ordering::Relaxed), 0);
    assert_eq!(bed.phase(&run).await, Phase::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_busy_store_does_not_cost_an_attempt_when_an_effect_needs_a_longer_lease() {
    let case = Case::of(Plan { before: 0, effect: Some((300, 1)), after: 0 }).await;
    let mut throttled = false;
    let gate = Gate::planned(move |_, call| {
        if call == PortCall::Renew && !std::mem::replace(&mut throttled, true) { Fate::Throttled } else { Fate::Pass }
    });
    case.turn(case.bed.engine_behind(&gate, "a")).await.unwrap();
    assert_eq!(case.bed.story(&case.run).await, "Work:completed");
    assert_eq!(case.counts(), [1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_renewal_does_not_hold_up_the_step() {
    let case = Case::of(plan(15)).await;
    let gate = Gate::planned(|_, call| if call == PortCall::Renew { Fate::SlowAnswer(secs(60)) } else { Fate::Pass });
    let turn = case.turn(case.bed.engine_behind(&gate, "a"));
    assert_eq!(turn.await.unwrap(), (Ack::Delete, secs(15)));
    assert_eq!(case.bed.phase(&case.run).await, Phase::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_lands_late_does_not_make_a_worker_forget_its_run() {
    // A renewal seems lost and is sent again; its first try lands after the step's commit, whose own reply was lost, and
    // before that is sent again. The commit is there, though its write id is not the last any more.
    struct Two;
    impl Workflow for Two {
        const NAME: &'static str = "two";
        type Input = ();
        type State = ();
        type Step = u32;
        type Output = ();
        fn begin(&self, (): ()) -> (u32, ()) {
            (0, ())
        }
        async fn step(&self, at: u32, (): &mut (), _cx: &Cx) -> StepResult<Self> {
            tokio::time::sleep(secs(15)).await;
            Ok(if at == 0 { goto(1) } else { complete(()) })
        }
    }
    let bed = Bed::new(Registry::new().with(Two));
    let run = bed.start::<Two>(()).await;
    let (mut renewals, mut commits) = (0, 0);
    let gate = Gate::planned(move |_, call| {
        renewals += u32::from(call == PortCall::Renew);
        commits += u32::from(call == PortCall::Commit);
        match call {
            PortCall::Renew if renewals == 1 => Fate::Late(Duration::from_millis(5_010)),
            PortCall::Commit if commits == 1 => Fate::LostAfter,
            _ => Fate::Pass,
        }
    });
    let delivery = bed.receive(secs(1)).await.unwrap();
    let engine = bed.engine_behind(&gate, "a");
    assert_eq!(bed.work(&engine, &delivery, &minute()).await, Ack::Leave);
    assert_eq!(bed.checkpoint(&run).await.progress.visit.0, 1);
    bed.settle().await;
    assert_eq!(bed.phase(&run).await, Phase::Completed);
    assert_eq!(bed.history(&run).await.len(), 2);
    assert_eq!(bed.witness.violations(), Vec::<String>::new());
}

/// Knows one effect from its first attempt; in its second it reads, calls without an answer, and calls for long.
struct Told;

impl Workflow for Told {
    const NAME: &'static str = "told";
    type Input = ();
    type State = ();
    type Step = ();
    type Output = ();

    fn begin(&self, (): ()) -> ((), ()) {
        ((), ())
    }

    fn policy(&self, (): &()) -> StepPolicy {
        StepPolicy::default().timeout(minutes(20)).retry(RetryPolicy::default().every(secs(1)))
    }

    async fn step(&self, (): (), (): &mut (), cx: &Cx) -> StepResult<Self> {
        let answers = async |_: stepwell::Call<'_>| Ok::<_, CallError>(());
        cx.effect("known").idempotent().call(answers).await?;
        if cx.attempt() == 1 {
            return Err(StepError::retry("not yet"));
        }
        cx.effect("look").read().call(answers).await?;
        let lost = async |_: stepwell::Call<'_>| Err::<(), _>(CallError::unknown("no answer"));
        assert!(cx.effect("lost").idempotent().call(lost).await.is_err());
        let slow = async |_: stepwell::Call<'_>| {
            tokio::time::sleep(secs(25)).await;
            Ok::<_, CallError>(())
        };
        cx.effect("slow").idempotent().deadline(secs(40)).call(slow).await?;
        // It needs no longer lease than was asked for, and still is no matter of who has lost the run.
        cx.effect("more").idempotent().deadline(secs(1)).call(answers).await?;
        tokio::time::sleep(minutes(15)).await;
        Ok(complete(()))
    }
}

/// What a worker hears that has lost its run is waited for and told, if asking again could act again and nobody knows it yet.
#[tokio::test(start_paused = true)]
async fn a_worker_that_has_lost_its_run_still_tells_what_its_call_has_answered() {
    let bed = Bed::new(Registry::new().with(Told));
    let run = bed.start::<Told>(()).await;
    bed.turn(&minute()).await;
    let delivery = bed.receive(secs(10)).await.unwrap();
    let began = bed.elapsed();
    let (engine, time) = (bed.engine_behind(&Gate::open(), "a"), minute());
    let (ack, ()) = tokio::join!(engine.turn(&delivery.message, &time), async {
        tokio::time::sleep(secs(5)).await;
        // Another worker, whose clock is an hour ahead, takes the lease for over.
        let now = bed.now().plus(minutes(60));
        let lease = Lease { owner: WorkerId::new("b").unwrap(), since: now, until: now.plus(minutes(1)) };
        let acquire = Write::Acquire(Acquire { ticket: delivery.message.ticket, lease });
        let request = WriteRequest { run: run.clone(), id: WriteId(99), now, write: acquire };
        assert!(matches!(bed.memory.write(&request).await, Ok(Written::Applied(_))));
    });
    assert_eq!(ack, Ack::Leave);
    // It learns of its loss when it renews, at second 20; the call is over at second 25, and nothing else is waited for.
    let took = bed.elapsed().saturating_sub(began);
    assert!((secs(25)..secs(26)).contains(&took), "{took:?}");
    let letters = bed.checkpoint(&run).await.mailbox.letters;
    let told = letters.iter().map(|letter| match &letter.payload {
        Payload::Inline(told) if letter.name.as_str() == EVIDENCE => told.parse::<EffectRecord>().unwrap(),
        other => panic!("{other:?}"),
    });
    let told: Vec<_> = told.map(|record| (record.name.clone(), record.outcome.as_str())).collect();
    assert_eq!(told, [("slow".to_owned(), "succeeded")]);
}

/// Wires money once, which takes long.
struct Wire;

impl Workflow for Wire {
    const NAME: &'static str = "wire";
    type Input = ();
    type State = ();
    type Step = ();
    type Output = String;

    fn begin(&self, (): ()) -> ((), ()) {
        ((), ())
    }

    async fn step(&self, (): (), (): &mut (), cx: &Cx) -> StepResult<Self> {
        let slow = async |_: stepwell::Call<'_>| {
            tokio::time::sleep(secs(25)).await;
            Ok::<_, CallError>("wired".to_owned())
        };
        Ok(complete(cx.effect("wire").key("order-7").once().deadline(secs(40)).call(slow).await?))
    }
}

/// Who took the run over did not know what came of the call, and a person would have had to find out.
#[tokio::test(start_paused = true)]
async fn late_evidence_brings_back_a_run_that_is_parked_for_want_of_it() {
    let bed = Bed::new(Registry::new().with(Wire));
    let run = bed.start::<Wire>(()).await;
    let delivery = bed.receive(secs(10)).await.unwrap();
    let (engine, other, time) =
        (bed.engine_behind(&Gate::open(), "a"), bed.engine_behind(&Gate::open(), "b"), minute());
    let (ack, ()) = tokio::join!(engine.turn(&delivery.message, &time), async {
        tokio::time::sleep(secs(5)).await;
        // Another worker, whose clock is an hour ahead, takes the lease for over, and dies at once.
        let lease = Lease { owner: WorkerId::new("c").unwrap(), since: bed.now(), until: bed.now() };
        let acquire = Write::Acquire(Acquire { ticket: delivery.message.ticket, lease });
        let request =
            WriteRequest { run: run.clone(), id: WriteId(99), now: bed.now().plus(minutes(60)), write: acquire };
        assert!(matches!(bed.memory.write(&request).await, Ok(Written::Applied(_))));
        tokio::time::sleep(secs(1)).await;
        other.turn(&delivery.message, &time).await;
        assert_eq!(bed.parked(&run).await.code(), "unknown-outcome");
    });
    assert_eq!(ack, Ack::Leave);
    bed.settle().await;
    assert_eq!(bed.output::<String>(&run).await, "wired");
}
