//! Failures: how often and how far apart a step is tried again, and what its effects know of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use stepwell::prelude::*;
use stepwell_core::history::EntryKind;
use stepwell_core::{FailureKind, Phase, RunId};
use stepwell_engine::WorkerSettings;
use stepwell_testkit::faults::Gate;

use crate::bed::{Bed, T0, count, message, one_step, secs};

/// What one attempt does.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Do {
    Succeed,
    Fail,
    FailWith(String),
    RetryAfter(u64),
    Terminal,
    Panic,
    /// Takes this many seconds.
    Take(u64),
}

/// Does what its input says, attempt by attempt; after that it succeeds.
struct Flaky {
    policy: StepPolicy,
    tries: Arc<Mutex<Vec<Timestamp>>>,
}

#[derive(Serialize, Deserialize)]
enum At {
    Try,
}

impl Workflow for Flaky {
    const NAME: &'static str = "flaky";
    type Input = Vec<Do>;
    type State = Vec<Do>;
    type Step = At;
    type Output = u32;

    fn begin(&self, script: Vec<Do>) -> (At, Vec<Do>) {
        (At::Try, script)
    }

    fn policy(&self, _: &At) -> StepPolicy {
        self.policy.clone()
    }

    async fn step(&self, _: At, script: &mut Vec<Do>, cx: &Cx) -> StepResult<Self> {
        self.tries.lock().unwrap().push(cx.now());
        let attempt = cx.attempt() as usize;
        match script.get(attempt - 1).cloned().unwrap_or(Do::Succeed) {
            Do::Succeed => Ok(complete(cx.attempt())),
            Do::Fail => Err(StepError::retry("busy")),
            Do::FailWith(code) => Err(StepError::retry("busy").with_code(code)),
            Do::RetryAfter(seconds) => Err(StepError::retry_after(Duration::from_secs(seconds), "busy")),
            Do::Terminal => Err(StepError::terminal("the card was declined")),
            Do::Panic => panic!("index out of bounds"),
            Do::Take(seconds) => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok(complete(cx.attempt()))
            }
        }
    }
}

struct Tried {
    bed: Bed,
    run: RunId,
    tries: Vec<Timestamp>,
}

impl Tried {
    /// Seconds after the start at which each attempt began.
    fn at(&self) -> Vec<u64> {
        self.tries.iter().map(|at| at.since(T0).as_secs()).collect()
    }

    fn gaps(&self) -> Vec<Duration> {
        self.tries.windows(2).map(|pair| pair[1].since(pair[0])).collect()
    }
}

async fn tried(seed: u64, policy: StepPolicy, script: Vec<Do>) -> Tried {
    let tries = Arc::<Mutex<Vec<Timestamp>>>::default();
    let bed = Bed::seeded(Registry::new().with(Flaky { policy, tries: tries.clone() }), seed);
    let run = bed.start::<Flaky>(script).await;
    bed.settle().await;
    let tries = tries.lock().unwrap().clone();
    Tried { bed, run, tries }
}

fn retry(policy: RetryPolicy) -> StepPolicy {
    StepPolicy::default().retry(policy)
}

fn every_second(attempts: u32) -> StepPolicy {
    retry(RetryPolicy::default().max_attempts(attempts).every(secs(1)))
}

#[tokio::test(start_paused = true)]
async fn a_step_fails_for_good_when_its_attempts_are_used_up() {
    let tried = tried(1, every_second(3), vec![Do::Fail; 9]).await;
    assert_eq!(tried.at(), [0, 1, 2]);
    let failure = tried.bed.failure(&tried.run).await;
    assert_eq!(failure.kind, FailureKind::Error);
    assert_eq!(failure.message, "busy (attempt 3, no attempts left)");
    assert_eq!(tried.bed.story(&tried.run).await, "Try:retried Try:retried Try:failed");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_succeeds_in_the_end_says_how_often_it_failed() {
    let tried = tried(1, every_second(5), vec![Do::Fail; 2]).await;
    assert_eq!(tried.bed.output::<u32>(&tried.run).await, 3);
    let history = tried.bed.history(&tried.run).await;
    assert_eq!(history.last().unwrap().entry.more.failed_attempts, 2);
    assert_eq!(history[0].entry.more.note.as_deref(), Some("error: busy"));
    assert!(tried.bed.checkpoint(&tried.run).await.progress.trouble.is_none());
}

#[tokio::test(start_paused = true)]
async fn delays_double_up_to_the_longest() {
    let policy = RetryPolicy::default().without_jitter().first_delay(secs(1)).max_delay(secs(5));
    let tried = tried(1, retry(policy), vec![Do::Fail; 5]).await;
    assert_eq!(tried.at(), [0, 1, 3, 7, 12, 17]);
}

#[tokio::test(start_paused = true)]
async fn a_delay_longer_than_a_message_can_wait_is_the_sweepers() {
    let policy = RetryPolicy::default().every(hours(2));
    let tried = tried(1, retry(policy), vec![Do::Fail]).await;
    assert_eq!(tried.bed.phase(&tried.run).await, Phase::Retrying);
    assert_eq!(tried.bed.messages().await, []);
    tokio::time::advance(hours(2)).await;
    assert_eq!(tried.bed.engine().sweep(secs(30)).await.unwrap().sent, 1);
    tried.bed.settle().await;
    assert_eq!(tried.bed.output::<u32>(&tried.run).await, 2);
}

#[tokio::test(start_paused = true)]
async fn an_early_message_does_not_shorten_a_delay() {
    let tries = Arc::<Mutex<Vec<Timestamp>>>::default();
    let policy = retry(RetryPolicy::default().every(minutes(5)));
    let bed = Bed::new(Registry::new().with(Flaky { policy, tries: tries.clone() }));
    let run = bed.start::<Flaky>([Do::Fail]).await;
    bed.turn(&one_step()).await;
    tokio::time::advance(minutes(1)).await;
    let ticket = bed.checkpoint(&run).await.progress.ticket;
    bed.engine().turn(&message(&run, ticket.0), &one_step()).await;
    bed.settle().await;
    assert_eq!(*tries.lock().unwrap(), [T0, T0.plus(minutes(5))]);
}

#[tokio::test(start_paused = true)]
async fn jitter_spreads_each_delay_over_its_full_length() {
    let policy = RetryPolicy::default().first_delay(secs(8)).max_delay(secs(8)).max_attempts(8);
    let mut delays = Vec::new();
    for seed in 0..20 {
        delays.extend(tried(seed, retry(policy.clone()), vec![Do::Fail; 7]).await.gaps());
    }
    assert_eq!(delays.len(), 140);
    assert!(delays.iter().all(|delay| *delay <= secs(8)));
    let buckets = [0, 2, 4, 6].map(|from| delays.iter().filter(|d| (secs(from)..secs(from + 2)).contains(d)).count());
    assert!(buckets.iter().all(|count| *count > 15), "uneven: {buckets:?}");
}

#[tokio::test(start_paused = true)]
async fn no_attempt_starts_after_the_deadline() {
    let policy = RetryPolicy::default().every(secs(10)).max_attempts(100).deadline(secs(25));
    let tried = tried(1, retry(policy), vec![Do::Fail; 100]).await;
    assert_eq!(tried.at(), [0, 10, 20]);
    assert!(tried.bed.failure(&tried.run).await.message.contains("the retry deadline would pass"));
}

#[tokio::test(start_paused = true)]
async fn an_error_with_a_code_that_is_not_worth_it_is_not_tried_again() {
    let policy = RetryPolicy::default().every(secs(1)).never_on(["quota"]);
    let script = vec![Do::FailWith("busy".into()), Do::FailWith("quota".into())];
    let tried = tried(1, retry(policy), script).await;
    assert_eq!(tried.at(), [0, 1]);
    let failure = tried.bed.failure(&tried.run).await;
    assert_eq!(failure.code.as_deref(), Some("quota"));
    assert!(failure.message.contains("not worth a retry"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn the_outside_may_ask_for_a_longer_wait() {
    let tried = tried(1, every_second(5), vec![Do::RetryAfter(90), Do::Fail]).await;
    assert_eq!(tried.at(), [0, 90, 91]);
}

#[tokio::test(start_paused = true)]
async fn a_terminal_error_fails_the_run_with_its_own_message() {
    let tried = tried(1, every_second(5), vec![Do::Terminal]).await;
    let failure = tried.bed.failure(&tried.run).await;
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Terminal, "the card was declined"));
    assert_eq!(tried.at(), [0]);
    let note = tried.bed.history(&tried.run).await.pop().unwrap().entry.more.note;
    assert_eq!(note.as_deref(), Some("terminal: the card was declined"));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_takes_too_long_is_cut_and_tried_again() {
    let policy = every_second(2).timeout(secs(5));
    let cut = tried(1, policy.clone(), vec![Do::Take(60)]).await;
    assert_eq!(cut.at(), [0, 6]);
    assert_eq!(cut.bed.output::<u32>(&cut.run).await, 2);
    let failed = tried(1, policy, vec![Do::Take(60), Do::Take(60)]).await;
    let failure = failed.bed.failure(&failed.run).await;
    assert_eq!(failure.kind, FailureKind::Timeout);
    assert!(failure.message.contains("longer than 5s"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_step_is_tried_again_then_fails_with_what_it_said() {
    let again = tried(1, every_second(2), vec![Do::Panic]).await;
    assert_eq!(again.bed.output::<u32>(&again.run).await, 2);
    let failed = tried(1, every_second(2), vec![Do::Panic, Do::Panic]).await;
    let failure = failed.bed.failure(&failed.run).await;
    assert_eq!(failure.kind, FailureKind::Panic);
    assert!(failure.message.contains("index out of bounds"), "{failure}");
}

/// Panics where its input says.
struct Brittle;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Where {
    Begin,
    FirstPolicy,
    NextPolicy,
    Nowhere,
}

#[derive(Serialize, Deserialize)]
enum Leg {
    One(Where),
    Two(Where),
}

impl Workflow for Brittle {
    const NAME: &'static str = "brittle";
    type Input = Where;
    type State = Where;
    type Step = Leg;
    type Output = ();

    fn begin(&self, at: Where) -> (Leg, Where) {
        assert_ne!(at, Where::Begin, "the beginning breaks");
        (Leg::One(at), at)
    }

    fn policy(&self, at: &Leg) -> StepPolicy {
        match at {
            Leg::One(Where::FirstPolicy) | Leg::Two(Where::NextPolicy) => panic!("the policy breaks"),
            Leg::One(_) | Leg::Two(_) => every_second(2),
        }
    }

    async fn step(&self, at: Leg, state: &mut Where, cx: &Cx) -> StepResult<Self> {
        match at {
            Leg::One(_) => {
                cx.effect("look").read().call(async |_| Ok::<_, CallError>(())).await?;
                Ok(goto(Leg::Two(*state)))
            }
            Leg::Two(_) => Ok(complete(())),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_begin_or_policy_is_a_failed_attempt_too() {
    for (at, said) in [
        (Where::Begin, "the beginning breaks"),
        (Where::FirstPolicy, "the policy breaks"),
        (Where::NextPolicy, "the policy breaks"),
    ] {
        let bed = Bed::new(Registry::new().with(Brittle));
        let run = bed.start::<Brittle>(at).await;
        bed.settle().await;
        let failure = bed.failure(&run).await;
        assert_eq!(failure.kind, FailureKind::Panic, "{at:?}");
        assert!(failure.message.contains(said), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_one_run_does_not_hurt_the_others_of_its_worker() {
    let tries = Arc::<Mutex<Vec<Timestamp>>>::default();
    let flaky = Flaky { policy: every_second(3), tries };
    let bed = Bed::new(Registry::new().with(flaky).with(Brittle));
    let worker = bed.worker_behind(&Gate::open(), "w", WorkerSettings { concurrency: 4, ..WorkerSettings::default() });
    let long = bed.start::<Flaky>([Do::Take(30)]).await;
    let broken = [bed.start::<Flaky>(vec![Do::Panic; 9]).await, bed.start::<Brittle>(Where::Begin).await];
    let good = bed.start::<Brittle>(Where::Nowhere).await;
    bed.until_phase(&good, Phase::Completed).await;
    bed.until_phase(&long, Phase::Completed).await;
    for run in &broken {
        bed.until_phase(run, Phase::Failed).await;
    }
    worker.stop().await;
}

/// Makes two effects, then fails as often as its input says.
struct Orders {
    calls: Arc<Mutex<Vec<(String, String)>>>,
}

impl Orders {
    fn call(&self, what: &str, key: &str) -> String {
        self.calls.lock().unwrap().push((what.into(), key.into()));
        format!("{what} done")
    }

    fn made(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|(what, _)| what.clone()).collect()
    }
}

impl Workflow for Orders {
    const NAME: &'static str = "orders";
    type Input = u32;
    type State = u32;
    type Step = At;
    type Output = (String, String);

    fn begin(&self, failures: u32) -> (At, u32) {
        (At::Try, failures)
    }

    fn policy(&self, _: &At) -> StepPolicy {
        every_second(10)
    }

    async fn step(&self, _: At, failures: &mut u32, cx: &Cx) -> StepResult<Self> {
        let stock =
            cx.effect("stock").read().call(async |call| Ok::<_, CallError>(self.call("stock", call.key()))).await?;
        let pay =
            cx.effect("pay").idempotent().call(async |call| Ok::<_, CallError>(self.call("pay", call.key()))).await?;
        if cx.attempt() <= *failures {
            return Err(StepError::retry("the printer is out of paper"));
        }
        Ok(complete((stock, pay)))
    }
}

#[tokio::test(start_paused = true)]
async fn effects_that_are_recorded_are_not_called_again_by_a_retry() {
    let calls = Arc::default();
    let orders = Orders { calls: Arc::clone(&calls) };
    let bed = Bed::new(Registry::new().with(orders));
    let run = bed.start::<Orders>(2).await;
    bed.settle().await;
    let output: (String, String) = bed.output(&run).await;
    assert_eq!(output, ("stock done".into(), "pay done".into()));
    assert_eq!(Orders { calls }.made(), ["stock", "pay"]);
    let usage = bed.checkpoint(&run).await.progress.usage;
    assert_eq!((usage.effects_made, usage.effects_skipped, usage.effects_confirmed), (2, 4, 2));
    let history = bed.history(&run).await;
    assert_eq!(count(&history, EntryKind::Retried), 2);
    let last = &history.last().unwrap().entry.more;
    assert_eq!(
        last.effects.iter().map(|line| (line.name.as_str(), line.attempts)).collect::<Vec<_>>(),
        [("stock", 1), ("pay", 1)]
    );
}

/// What the outside answers, call by call; then it says yes.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Answer {
    Busy,
    Lost,
    No,
    Silence,
}

/// Asks the outside once a step.
struct Asker {
    calls: Arc<Mutex<Vec<(Timestamp, String, u32)>>>,
}

impl Workflow for Asker {
    const NAME: &'static str = "asker";
    type Input = Vec<Answer>;
    type State = Vec<Answer>;
    type Step = At;
    type Output = u32;

    fn begin(&self, answers: Vec<Answer>) -> (At, Vec<Answer>) {
        (At::Try, answers)
    }

    fn policy(&self, _: &At) -> StepPolicy {
        every_second(10)
    }

    async fn step(&self, _: At, answers: &mut Vec<Answer>, cx: &Cx) -> StepResult<Self> {
        let policy = RetryPolicy::default().every(secs(5)).max_attempts(3);
        let effect = cx.effect("ask").idempotent().deadline(secs(10)).retry(policy);
        let result = effect
            .call(async |call| {
                let number = {
                    let mut calls = self.calls.lock().unwrap();
                    calls.push((cx.now(), call.key().to_owned(), call.attempt()));
                    calls.len()
                };
                match answers.get(number - 1) {
                    None => Ok(7),
                    Some(Answer::Busy) => Err(CallError::retry("503")),
                    Some(Answer::Lost) => Err(CallError::unknown("connection reset")),
                    Some(Answer::No) => Err(CallError::refused("no such order")),
                    Some(Answer::Silence) => std::future::pending().await,
                }
            })
            .await;
        if cx.attempt() == 1 && matches!(answers[0], Answer::No) {
            // Another failure hides the refusal: the record must not forget it.
            return Err(StepError::retry("something else"));
        }
        Ok(complete(result?))
    }
}

struct Asked {
    bed: Bed,
    run: RunId,
    calls: Vec<(Timestamp, String, u32)>,
}

async fn asked(answers: Vec<Answer>) -> Asked {
    let calls = Arc::default();
    let bed = Bed::new(Registry::new().with(Asker { calls: Arc::clone(&calls) }));
    let run = bed.start::<Asker>(answers).await;
    bed.settle().await;
    let calls = calls.lock().unwrap().clone();
    Asked { bed, run, calls }
}

#[tokio::test(start_paused = true)]
async fn an_effect_may_have_a_retry_policy_of_its_own() {
    let asked = asked(vec![Answer::Busy; 8]).await;
    let at: Vec<u64> = asked.calls.iter().map(|(at, _, _)| at.since(T0).as_secs()).collect();
    // The step's own would be ten attempts, a second apart.
    assert_eq!(at, [0, 5, 10]);
    assert!(asked.bed.failure(&asked.run).await.message.contains("503"));
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_may_have_happened_is_asked_again_under_its_key() {
    let asked = asked(vec![Answer::Lost, Answer::Silence]).await;
    assert_eq!(asked.bed.output::<u32>(&asked.run).await, 7);
    let keys: Vec<&str> = asked.calls.iter().map(|(_, key, _)| key.as_str()).collect();
    assert_eq!(keys, [keys[0]; 3]);
    assert_eq!(asked.calls.iter().map(|(_, _, attempt)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
    let line = &asked.bed.history(&asked.run).await.pop().unwrap().entry.more.effects[0];
    assert_eq!((line.attempts, line.outcome.as_str()), (3, "succeeded"));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_recorded_and_not_asked_again() {
    let asked = asked(vec![Answer::No]).await;
    assert_eq!(asked.calls.len(), 1);
    let failure = asked.bed.failure(&asked.run).await;
    assert_eq!(failure.kind, FailureKind::Refused);
    assert!(failure.message.contains("no such order"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_crashed_is_not_counted_as_failed() {
    let tries = Arc::<Mutex<Vec<Timestamp>>>::default();
    let bed = Bed::new(Registry::new().with(Flaky { policy: every_second(1), tries: tries.clone() }));
    let run = bed.start::<Flaky>([Do::Take(20)]).await;
    let dying = tokio::spawn({
        let bed = bed.clone();
        async move { bed.turn(&one_step()).await }
    });
    tokio::time::sleep(secs(5)).await;
    dying.abort();
    bed.settle().await;
    assert_eq!(bed.output::<u32>(&run).await, 1);
    assert_eq!(tries.lock().unwrap().len(), 2);
}
