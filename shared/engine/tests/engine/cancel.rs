//! Cancellation: wherever the run stands, and racing its end both ways.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use stepwell::prelude::*;
use stepwell_core::decide::{Pause, Resolution, Resolve, Resume};
use stepwell_core::{Certificate, EffectRecord, Phase, RunId, Status};
use stepwell_engine::{Ack, CancelAnswer, ClientError};
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, T0, minute, one_step, secs};

const GO: Signal<()> = Signal::new("go");

/// What happens in the one step that matters.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Scene {
    /// Several quick steps.
    Steps,
    /// A wait for a signal.
    Wait,
    /// A failure, and an hour until the next attempt.
    Retry,
    /// A computation that asks now and then whether it is still wanted, then an effect.
    Long,
    /// An effect, then a while of computation.
    Effect,
    /// An effect that may have happened.
    Uncertain,
    /// A blob that is too large, again and again.
    Park,
}

#[derive(Clone, Default)]
struct Probe {
    began: Arc<AtomicU32>,
    called: Arc<AtomicU32>,
    asked_until: Arc<AtomicU32>,
}

struct Scenes(Probe);

#[derive(Serialize, Deserialize)]
enum At {
    First(Scene),
    Second(Scene),
}

impl Workflow for Scenes {
    const NAME: &'static str = "scenes";
    type Input = Scene;
    type State = Vec<u8>;
    type Step = At;
    type Output = ();

    fn begin(&self, scene: Scene) -> (At, Vec<u8>) {
        self.0.began.fetch_add(1, Ordering::Relaxed);
        (At::First(scene), Vec::new())
    }

    fn policy(&self, _: &At) -> StepPolicy {
        StepPolicy::default().retry(RetryPolicy::default().every(minutes(10))).timeout(minutes(5))
    }

    fn signals() -> Signals {
        Signals::none().and(GO)
    }

    async fn step(&self, at: At, state: &mut Vec<u8>, cx: &Cx) -> StepResult<Self> {
        let scene = match at {
            At::First(scene) => scene,
            At::Second(_) => return Ok(complete(())),
        };
        let call = async || {
            self.0.called.fetch_add(1, Ordering::Relaxed);
            Ok::<_, CallError>(())
        };
        match scene {
            Scene::Steps => {}
            Scene::Wait => return Ok(wait(At::Second(scene)).for_signal(GO).without_deadline()),
            Scene::Retry => return Err(StepError::retry("busy")),
            Scene::Long => {
                for second in 0..60 {
                    self.0.asked_until.store(second, Ordering::Relaxed);
                    if cx.is_cancelled() {
                        break;
                    }
                    tokio::time::sleep(secs(1)).await;
                }
                cx.effect("send").idempotent().call(async |_| call().await).await?;
            }
            Scene::Effect => {
                cx.effect("send").idempotent().call(async |_| call().await).await?;
                tokio::time::sleep(secs(5)).await;
            }
            Scene::Uncertain => {
                cx.effect("send").idempotent().call(async |_| call().await).await?;
                let lost = cx.effect("pay").idempotent();
                lost.call(async |_| Err::<(), _>(CallError::unknown("connection reset"))).await?;
            }
            Scene::Park => state.resize(9_000_000, 0),
        }
        Ok(goto(At::Second(scene)))
    }
}

struct Set {
    bed: Bed,
    run: RunId,
    probe: Probe,
}

impl Set {
    async fn of(scene: Scene) -> Self {
        let probe = Probe::default();
        let bed = Bed::new(Registry::new().with(Scenes(probe.clone())));
        let run = bed.start::<Scenes>(scene).await;
        Self { bed, run, probe }
    }

    async fn cancel(&self) -> CancelAnswer {
        self.bed.client().cancel(&self.run, "ann", Some("not wanted".into())).await.unwrap()
    }

    async fn certificate(&self) -> Certificate {
        match self.bed.checkpoint(&self.run).await.progress.status {
            Status::Cancelled { certificate, .. } => certificate,
            other => panic!("not cancelled: {other:?}"),
        }
    }

    fn called(&self) -> u32 {
        self.probe.called.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_not_begun_never_begins() {
    let set = Set::of(Scene::Steps).await;
    assert!(set.cancel().await.new);
    set.bed.settle().await;
    assert_eq!(set.certificate().await, Certificate { step: "begin".into(), ..Certificate::default() });
    assert_eq!(set.probe.began.load(Ordering::Relaxed), 0);
    let history = set.bed.history(&set.run).await;
    assert_eq!(history[0].entry.more.note.as_deref(), Some("by ann: not wanted"));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_run_ends_at_once() {
    let set = Set::of(Scene::Wait).await;
    set.bed.turn(&minute()).await;
    assert_eq!(set.bed.messages().await, []);
    let before = set.bed.now();
    set.cancel().await;
    assert_eq!(set.bed.turn(&minute()).await, Ack::Delete);
    assert_eq!(set.certificate().await.step, "Second");
    assert_eq!(set.bed.now(), before);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_to_be_retried_ends_at_once() {
    let set = Set::of(Scene::Retry).await;
    set.bed.turn(&minute()).await;
    assert_eq!(set.bed.phase(&set.run).await, Phase::Retrying);
    set.cancel().await;
    assert_eq!(set.bed.turn(&minute()).await, Ack::Delete);
    assert_eq!(set.bed.now(), T0);
    assert_eq!(set.bed.story(&set.run).await, "First:retried begin:cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_run_between_two_steps_makes_no_further_one() {
    let set = Set::of(Scene::Steps).await;
    set.bed.turn(&one_step()).await;
    set.cancel().await;
    set.bed.settle().await;
    assert_eq!(set.bed.story(&set.run).await, "First:stepped Second:cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_long_step_is_asked_and_dispatches_nothing_more() {
    let set = Set::of(Scene::Long).await;
    let budget = minute();
    let (ack, ()) = tokio::join!(set.bed.turn(&budget), async {
        tokio::time::sleep(secs(3)).await;
        assert_eq!(set.bed.checkpoint(&set.run).await.phase(set.bed.now()), Phase::Running);
        set.cancel().await;
        assert_eq!(set.bed.checkpoint(&set.run).await.phase(set.bed.now()), Phase::Cancelling);
    });
    assert_eq!(ack, Ack::Delete);
    assert_eq!(set.called(), 0);
    // It hears of it with the next renewal, a third of the lease after the acquire.
    let heard = set.probe.asked_until.load(Ordering::Relaxed);
    assert!((3..=11).contains(&heard), "{heard}");
    assert_eq!(set.certificate().await.step, "begin");
    assert_eq!(set.bed.messages().await, []);
}

#[tokio::test(start_paused = true)]
async fn what_a_step_did_before_it_heard_is_in_the_certificate() {
    let set = Set::of(Scene::Effect).await;
    let budget = minute();
    tokio::join!(set.bed.turn(&budget), async {
        tokio::time::sleep(secs(3)).await;
        set.cancel().await;
    });
    assert_eq!(set.called(), 1);
    let certificate = set.certificate().await;
    // The step ended, so the one that was never finished is the next.
    assert_eq!((certificate.confirmed, certificate.step.as_str()), (1, "Second"));
    assert_eq!(certificate.uncertain, []);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_happened_is_settled_first_or_signed_off_as_uncertain() {
    let set = Set::of(Scene::Uncertain).await;
    set.bed.turn(&minute()).await;
    set.cancel().await;
    set.bed.settle().await;
    assert_eq!(set.bed.parked(&set.run).await.code(), "unknown-outcome");
    let open = set.bed.checkpoint(&set.run).await.progress.journal.into_iter().find(EffectRecord::is_open).unwrap();
    let (by, why) = ("bob".to_owned(), "the bank does not know".to_owned());
    let act = Resolve { key: open.key.clone(), resolution: Resolution::SignOff, by, why };
    set.bed.client().resolve(&set.run, act).await.unwrap();
    set.bed.settle().await;
    let certificate = set.certificate().await;
    assert_eq!((certificate.confirmed, certificate.failed), (1, 0));
    let [pay] = &certificate.uncertain[..] else { panic!("{certificate:?}") };
    assert_eq!((pay.name.as_str(), pay.attempts, pay.until), ("pay", 1, open.until));
    assert_eq!((pay.key.as_ref(), pay.signed_off_by.as_deref()), (Some(&open.key), Some("bob")));
}

/// A commit that takes a second to reach the store, or to be answered, and a cancellation in that second.
async fn race(fate: Fate) -> (Set, Result<CancelAnswer, ClientError>) {
    let set = Set::of(Scene::Steps).await;
    set.bed.turn(&one_step()).await;
    let gate = Gate::planned(move |_, call| if call == PortCall::Commit { fate } else { Fate::Pass });
    let engine = set.bed.engine_behind(&gate, "w");
    let delivery = set.bed.receive(secs(1)).await.unwrap();
    let budget = minute();
    let (ack, answer) = tokio::join!(set.bed.work(&engine, &delivery, &budget), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        set.bed.client().cancel(&set.run, "ann", None).await
    });
    assert_eq!(ack, Ack::Delete);
    (set, answer)
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_comes_before_the_completion_wins() {
    let (set, answer) = race(Fate::SlowStart(secs(1))).await;
    assert!(answer.unwrap().new);
    assert_eq!(set.bed.story(&set.run).await, "First:stepped Second:cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_comes_before_the_cancellation_wins() {
    let (set, answer) = race(Fate::SlowAnswer(secs(1))).await;
    let refused = answer.unwrap_err();
    assert!(matches!(refused, ClientError::Ended { phase: Phase::Completed, .. }), "{refused}");
    assert_eq!(set.bed.phase(&set.run).await, Phase::Completed);
    assert!(set.bed.checkpoint(&set.run).await.cancel.is_none());
}

#[tokio::test(start_paused = true)]
async fn of_two_requests_the_first_stands() {
    let set = Set::of(Scene::Wait).await;
    set.bed.turn(&minute()).await;
    let first = set.cancel().await;
    tokio::time::advance(secs(1)).await;
    let second = set.bed.client().cancel(&set.run, "bob", Some("me too".into())).await.unwrap();
    assert!(first.new && !second.new);
    assert_eq!(first.request, second.request);
    set.bed.settle().await;
    assert_eq!(set.bed.checkpoint(&set.run).await.cancel.unwrap().by, "ann");
    assert_eq!(set.bed.story(&set.run).await, "First:waited Second:cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_ended_cannot_be_cancelled() {
    let set = Set::of(Scene::Steps).await;
    set.bed.settle().await;
    let refused = set.bed.client().cancel(&set.run, "ann", None).await.unwrap_err();
    assert!(matches!(refused, ClientError::Ended { phase: Phase::Completed, .. }), "{refused}");
    let missing = RunId::new("nobody").unwrap();
    let refused = set.bed.client().cancel(&missing, "ann", None).await.unwrap_err();
    assert!(matches!(refused, ClientError::NoSuchRun(_)), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_worker_is_dead_ends_when_the_lease_has_run_out() {
    let set = Set::of(Scene::Long).await;
    let dying = tokio::spawn({
        let bed = set.bed.clone();
        async move { bed.turn(&minute()).await }
    });
    tokio::time::sleep(secs(2)).await;
    dying.abort();
    set.cancel().await;
    set.bed.settle().await;
    assert_eq!(set.certificate().await.step, "begin");
    assert_eq!(set.called(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_parked_run_ends_when_it_is_cancelled() {
    let set = Set::of(Scene::Park).await;
    set.bed.settle().await;
    assert_eq!(set.bed.parked(&set.run).await.code(), "data");
    assert!(set.cancel().await.new);
    set.bed.settle().await;
    assert_eq!(set.certificate().await.step, "begin");
    let refused = set.bed.client().cancel(&set.run, "bob", None).await.unwrap_err();
    assert!(matches!(refused, ClientError::Ended { phase: Phase::Cancelled, .. }), "{refused}");
    assert_eq!(set.bed.story(&set.run).await, "First:parked begin:cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_parked_run_whose_canceller_died_half_way_ends_with_the_next_request() {
    let set = Set::of(Scene::Park).await;
    set.bed.settle().await;
    let gate = Gate::planned(|_, call| if call == PortCall::Amend { Fate::DieBefore } else { Fate::Pass });
    let client = set.bed.client_behind(&gate);
    assert!(gate.fuse().while_alive(client.cancel(&set.run, "ann", None)).await.is_none());
    assert_eq!(set.bed.phase(&set.run).await, Phase::Parked);
    assert!(!set.cancel().await.new);
    assert_eq!(set.bed.phase(&set.run).await, Phase::Cancelled);
}

/// Somebody who dies between its write and its message.
fn dying() -> Arc<Gate> {
    Gate::planned(|_, call| if call == PortCall::Send { Fate::DieBefore } else { Fate::Pass })
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_meets_somebodys_resumption_sends_the_message_that_they_did_not() {
    let set = Set::of(Scene::Park).await;
    set.bed.settle().await;
    let slow = Gate::planned(|_, call| if call == PortCall::Amend { Fate::SlowStart(secs(5)) } else { Fate::Pass });
    let (slow_one, other) = (set.bed.client_behind(&slow), dying());
    let (cancelled, ()) = tokio::join!(slow_one.cancel(&set.run, "ann", None), async {
        tokio::time::sleep(secs(1)).await;
        let client = set.bed.client_behind(&other);
        let act = Resume { by: "bob".into(), why: None };
        assert!(other.fuse().while_alive(client.resume(&set.run, &act)).await.is_none());
    });
    assert!(cancelled.unwrap().new);
    set.bed.settle().await;
    assert_eq!(set.bed.story(&set.run).await, "First:parked begin:resumed begin:cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_comes_between_a_cancellation_and_its_message_does_not_keep_the_run() {
    let set = Set::of(Scene::Wait).await;
    set.bed.settle().await;
    let slow = Gate::planned(|_, call| if call == PortCall::Amend { Fate::SlowStart(secs(5)) } else { Fate::Pass });
    let pausing = set.bed.client_behind(&slow);
    let pause = Pause { by: "bob".into(), why: None };
    let (paused, asked) = tokio::join!(pausing.pause(&set.run, &pause), async {
        tokio::time::sleep(secs(1)).await;
        set.cancel().await
    });
    assert!(paused.is_ok() && asked.new);
    set.bed.settle().await;
    assert_eq!(set.bed.phase(&set.run).await, Phase::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn who_resumes_or_resolves_again_sends_the_message_that_the_first_did_not() {
    let set = Set::of(Scene::Uncertain).await;
    set.bed.turn(&minute()).await;
    set.cancel().await;
    set.bed.settle().await;
    let open = set.bed.checkpoint(&set.run).await.progress.journal.into_iter().find(EffectRecord::is_open).unwrap();
    let (by, why) = ("bob".to_owned(), "the bank does not know".to_owned());
    let act = Resolve { key: open.key, resolution: Resolution::SignOff, by, why };
    let gate = dying();
    let client = set.bed.client_behind(&gate);
    assert!(gate.fuse().while_alive(client.resolve(&set.run, act.clone())).await.is_none());
    let again = set.bed.client().resolve(&set.run, act).await.unwrap_err();
    assert!(matches!(again, ClientError::NotOpen { .. }), "{again}");
    set.bed.settle().await;
    assert_eq!(set.certificate().await.uncertain.len(), 1);

    let set = Set::of(Scene::Park).await;
    set.bed.settle().await;
    let (gate, act) = (dying(), Resume { by: "bob".into(), why: None });
    let client = set.bed.client_behind(&gate);
    assert!(gate.fuse().while_alive(client.resume(&set.run, &act)).await.is_none());
    let again = set.bed.client().resume(&set.run, &act).await.unwrap_err();
    assert!(matches!(again, ClientError::NotParked { .. }), "{again}");
    set.bed.settle().await;
    assert_eq!(set.bed.story(&set.run).await, "First:parked begin:resumed First:parked", "it was tried once more");
}
