//! Effects whose worker died in the middle of the call, and the window in which the outside remembers their key.

use std::sync::{Arc, Mutex};

use stepwell::prelude::*;
use stepwell_core::{Phase, RunId};
use stepwell_testkit::crash::Fuse;
use stepwell_testkit::faults::Gate;

use crate::bed::{Bed, T0, minute, secs};

/// Pays once, to an outside that remembers a key for a while.
struct Pay {
    calls: Arc<Mutex<Vec<(u64, String)>>>,
    /// The worker that dies in its first call, if one does.
    victim: Option<Fuse>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Terms {
    /// Seconds that the outside remembers a key.
    window: u64,
    /// Seconds until the step is tried again after a failure.
    pause: u64,
}

#[derive(Serialize, Deserialize)]
enum At {
    Pay,
}

impl Workflow for Pay {
    const NAME: &'static str = "pay";
    type Input = Terms;
    type State = Terms;
    type Step = At;
    type Output = u32;

    fn begin(&self, terms: Terms) -> (At, Terms) {
        (At::Pay, terms)
    }

    async fn step(&self, _: At, terms: &mut Terms, cx: &Cx) -> StepResult<Self> {
        let retry = RetryPolicy::default().every(secs(terms.pause));
        let effect = cx.effect("pay").idempotent_for(secs(terms.window)).retry(retry);
        let paid = effect.call(async |call| {
            let number = {
                let mut calls = self.calls.lock().unwrap();
                calls.push((cx.now().since(T0).as_secs(), call.key().to_owned()));
                calls.len()
            };
            match (&self.victim, number) {
                (Some(fuse), 1) => {
                    fuse.burn();
                    std::future::pending().await
                }
                (None, 1) => Err(CallError::unknown("connection reset")),
                (_, _) => Ok(7),
            }
        });
        Ok(complete(paid.await?))
    }
}

struct Case {
    bed: Bed,
    run: RunId,
    calls: Arc<Mutex<Vec<(u64, String)>>>,
}

impl Case {
    /// The first call gets no answer: its worker dies in it, or the connection is lost.
    async fn of(terms: Terms, dies: bool) -> Self {
        let (calls, gate) = (Arc::default(), Gate::open());
        let victim = dies.then(|| gate.fuse().clone());
        let bed = Bed::new(Registry::new().with(Pay { calls: Arc::clone(&calls), victim }));
        let run = bed.start::<Pay>(terms).await;
        let delivery = bed.receive(secs(1)).await.unwrap();
        let (engine, budget) = (bed.engine_behind(&gate, "first"), minute());
        let turn = bed.work(&engine, &delivery, &budget);
        assert_eq!(gate.fuse().while_alive(turn).await.is_none(), dies);
        bed.settle().await;
        Self { bed, run, calls }
    }

    fn times(&self) -> Vec<u64> {
        let calls = self.calls.lock().unwrap();
        assert!(calls.iter().all(|(_, key)| *key == calls[0].1), "another key");
        calls.iter().map(|(at, _)| *at).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_worker_died_is_made_again_while_the_outside_remembers_its_key() {
    let case = Case::of(Terms { window: 60, pause: 1 }, true).await;
    assert_eq!(case.times(), [0, 30]);
    assert_eq!(case.bed.output::<u32>(&case.run).await, 7);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_worker_died_is_a_persons_once_the_outside_has_forgotten_its_key() {
    let case = Case::of(Terms { window: 20, pause: 1 }, true).await;
    assert_eq!(case.times(), [0], "it must not act twice");
    let reason = case.bed.parked(&case.run).await;
    assert_eq!(reason.code(), "unknown-outcome");
    assert!(reason.to_string().contains("effect pay"), "{reason}");
    // The person has found out that it did not happen.
    case.bed.resume(&case.run).await;
    case.bed.settle().await;
    assert_eq!(case.times().len(), 2);
    assert_eq!(case.bed.output::<u32>(&case.run).await, 7);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_is_made_again_only_within_the_window() {
    let case = Case::of(Terms { window: 20, pause: 15 }, false).await;
    let times = case.times();
    assert_eq!(times[1] - times[0], 15);
    assert_eq!(case.bed.phase(&case.run).await, Phase::Completed);
    let case = Case::of(Terms { window: 20, pause: 25 }, false).await;
    assert_eq!(case.times().len(), 1);
    assert_eq!(case.bed.parked(&case.run).await.code(), "unknown-outcome");
}

/// Sends a mail; in its first call the process stands still between looking up the address and sending.
struct Mail(Arc<Mutex<Vec<u128>>>);

impl Workflow for Mail {
    const NAME: &'static str = "mail";
    type Input = ();
    type State = ();
    type Step = At;
    type Output = ();

    fn begin(&self, (): ()) -> (At, ()) {
        (At::Pay, ())
    }

    async fn step(&self, _: At, (): &mut (), cx: &Cx) -> StepResult<Self> {
        let mail = cx.effect("mail").idempotent().deadline(secs(10));
        let sent = mail.call(async |_| {
            if cx.now() == T0 {
                tokio::time::advance(secs(20)).await;
            }
            self.0.lock().unwrap().push(cx.now().since(T0).as_millis());
            Ok::<_, CallError>(())
        });
        Ok(complete(sent.await?))
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stood_still_sends_nothing_after_its_deadline() {
    let sent = Arc::default();
    let bed = Bed::new(Registry::new().with(Mail(Arc::clone(&sent))));
    let run = bed.start::<Mail>(()).await;
    bed.settle().await;
    assert_eq!(bed.phase(&run).await, Phase::Completed);
    let sent = sent.lock().unwrap().clone();
    assert!(matches!(sent[..], [at] if at > 20_000), "only the one that tried again has sent: {sent:?}");
}
