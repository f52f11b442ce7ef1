//! Waits: signals before, during and after them, timers short and long, and both together.

use std::time::Duration;

use stepwell::prelude::*;
use stepwell_core::limits::MAILBOX_LETTERS_MAX;
use stepwell_core::time::millis;
use stepwell_core::{Phase, RunId, Status};
use stepwell_engine::{Ack, ClientError, WorkerSettings};
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, MARK, T0, minute, one_step, secs};

const YES: Signal<String> = Signal::new("yes");
const NO: Signal<String> = Signal::new("no");
const NOISE: Signal<String> = Signal::new("noise");

/// Waits once, as its input says, then takes what there is.
struct Waiter;

#[derive(Clone, Serialize, Deserialize)]
struct Plan {
    /// Seconds that the step before the wait takes.
    before: u64,
    /// Seconds until the wait ends by itself.
    within: Option<u64>,
    signals: bool,
    /// Attempts of the step after the wait that fail after taking.
    failures: u32,
}

const FOR_SIGNALS: Plan = Plan { before: 0, within: None, signals: true, failures: 0 };
const FOR_TEN_MINUTES: Plan = Plan { before: 0, within: Some(600), signals: false, failures: 0 };

#[derive(Serialize, Deserialize)]
enum At {
    Prepare,
    Decide,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Taken {
    yes: Option<String>,
    no: Option<String>,
    /// Milliseconds after the start of the test.
    at: u64,
}

impl Workflow for Waiter {
    const NAME: &'static str = "waiter";
    type Input = Plan;
    type State = Plan;
    type Step = At;
    type Output = Taken;

    fn begin(&self, plan: Plan) -> (At, Plan) {
        (At::Prepare, plan)
    }

    fn policy(&self, _: &At) -> StepPolicy {
        StepPolicy::default().retry(RetryPolicy::default().every(secs(1)))
    }

    fn signals() -> Signals {
        Signals::none().and(YES).and(NO).and(NOISE)
    }

    async fn step(&self, at: At, plan: &mut Plan, cx: &Cx) -> StepResult<Self> {
        match at {
            At::Prepare => {
                tokio::time::sleep(secs(plan.before)).await;
                Ok(match (plan.signals, plan.within) {
                    (true, None) => wait(At::Decide).for_signal(YES).or(NO).without_deadline(),
                    (true, Some(within)) => wait(At::Decide).for_signal(YES).or(NO).within(secs(within)),
                    (false, Some(lasting)) => wait(At::Decide).lasting(secs(lasting)),
                    (false, None) => goto(At::Decide),
                })
            }
            At::Decide => {
                let (yes, no) = (cx.take(YES).await?, cx.take(NO).await?);
                if cx.attempt() <= plan.failures {
                    return Err(StepError::retry("not now"));
                }
                Ok(complete(Taken { yes, no, at: millis(cx.now().since(T0)) }))
            }
        }
    }
}

fn bed() -> Bed {
    Bed::new(Registry::new().with(Waiter))
}

fn text(text: &str) -> String {
    text.into()
}

/// A run that waits.
async fn waiting(plan: Plan) -> (Bed, RunId) {
    let bed = bed();
    let run = bed.start::<Waiter>(plan).await;
    assert_eq!(bed.turn(&minute()).await, Ack::Delete);
    assert_eq!(bed.phase(&run).await, Phase::Waiting);
    (bed, run)
}

#[tokio::test(start_paused = true)]
async fn a_signal_before_the_wait_counts() {
    let bed = bed();
    let run = bed.start::<Waiter>(FOR_SIGNALS).await;
    bed.signal(&run, YES, text("early")).await;
    bed.settle().await;
    assert_eq!(bed.output::<Taken>(&run).await.yes.as_deref(), Some("early"));
    assert_eq!(bed.story(&run).await, "Prepare:stepped Decide:completed");
}

#[tokio::test(start_paused = true)]
async fn a_signal_during_the_step_before_the_wait_counts() {
    let bed = bed();
    let run = bed.start::<Waiter>(Plan { before: 10, ..FOR_SIGNALS }).await;
    let budget = minute();
    tokio::join!(bed.turn(&budget), async {
        tokio::time::sleep(secs(5)).await;
        bed.signal(&run, YES, text("meanwhile")).await;
    });
    // The holder found it by itself: the sender saw a live lease and sent no message.
    let taken: Taken = bed.output(&run).await;
    assert_eq!(taken.yes.as_deref(), Some("meanwhile"));
    assert_eq!(bed.story(&run).await, "Prepare:stepped Decide:completed");
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_overtakes_the_commit_into_the_wait_is_not_lost() {
    let bed = bed();
    let run = bed.start::<Waiter>(FOR_SIGNALS).await;
    let gate = Gate::planned(|_, call| match call {
        PortCall::Commit => Fate::SlowStart(secs(1)),
        _ => Fate::Pass,
    });
    let delivery = bed.receive(secs(1)).await.unwrap();
    let engine = bed.engine_behind(&gate, "w");
    let budget = minute();
    let (ack, id) = tokio::join!(bed.work(&engine, &delivery, &budget), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        bed.signal(&run, YES, text("just now")).await
    });
    assert_eq!(ack, Ack::Delete);
    assert_eq!(bed.output::<Taken>(&run).await.yes.as_deref(), Some("just now"));
    // Refused, then decided again; then the last step.
    assert_eq!(gate.count(PortCall::Commit), 3);
    assert!(bed.checkpoint(&run).await.mailbox.seen.contains(&id));
}

#[tokio::test(start_paused = true)]
async fn a_signal_after_the_wait_began_wakes_the_run_at_once() {
    let (bed, run) = waiting(FOR_SIGNALS).await;
    tokio::time::advance(hours(50)).await;
    bed.signal(&run, NO, text("never")).await;
    bed.settle().await;
    let taken: Taken = bed.output(&run).await;
    assert_eq!((taken.yes, taken.no.as_deref()), (None, Some("never")));
    assert_eq!(taken.at, 50 * 3_600_000);
    assert_eq!(bed.story(&run).await, "Prepare:waited Decide:completed");
}

#[tokio::test(start_paused = true)]
async fn two_signals_of_one_wait_are_both_there() {
    let (bed, run) = waiting(FOR_SIGNALS).await;
    bed.signal(&run, YES, text("a")).await;
    bed.signal(&run, NO, text("b")).await;
    bed.settle().await;
    let taken: Taken = bed.output(&run).await;
    assert_eq!((taken.yes.as_deref(), taken.no.as_deref()), (Some("a"), Some("b")));
}

#[tokio::test(start_paused = true)]
async fn of_two_equal_signals_the_older_is_taken_and_the_other_listed_at_the_end() {
    let (bed, run) = waiting(FOR_SIGNALS).await;
    bed.signal(&run, YES, text("first")).await;
    let second = bed.signal(&run, YES, text("second")).await;
    bed.settle().await;
    assert_eq!(bed.output::<Taken>(&run).await.yes.as_deref(), Some("first"));
    let left = bed.checkpoint(&run).await.mailbox.letters;
    assert_eq!(left.iter().map(|letter| &letter.id).collect::<Vec<_>>(), [&second]);
}

#[tokio::test(start_paused = true)]
async fn an_unrelated_signal_does_not_run_the_step() {
    let (bed, run) = waiting(FOR_SIGNALS).await;
    bed.signal(&run, NOISE, text("hum")).await;
    bed.settle().await;
    assert_eq!(bed.phase(&run).await, Phase::Waiting);
    assert_eq!(bed.story(&run).await, "Prepare:waited Decide:looked-up");
    bed.signal(&run, YES, text("ok")).await;
    bed.settle().await;
    assert_eq!(bed.output::<Taken>(&run).await.yes.as_deref(), Some("ok"));
    assert_eq!(bed.story(&run).await, "Prepare:waited Decide:looked-up Decide:completed");
}

#[tokio::test(start_paused = true)]
async fn a_look_that_the_right_signal_overtakes_runs_the_step_at_once() {
    let (bed, run) = waiting(FOR_SIGNALS).await;
    let before = bed.checkpoint(&run).await.progress.usage.writes;
    bed.signal(&run, NOISE, text("hum")).await;
    let mut commits = 0;
    let gate = Gate::planned(move |_, call| {
        commits += u32::from(call == PortCall::Commit);
        if call == PortCall::Commit && commits == 1 { Fate::SlowStart(secs(1)) } else { Fate::Pass }
    });
    let delivery = bed.receive(secs(1)).await.unwrap();
    let (engine, budget) = (bed.engine_behind(&gate, "w"), minute());
    tokio::join!(bed.work(&engine, &delivery, &budget), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        bed.signal(&run, YES, text("ok")).await;
    });
    assert_eq!(bed.story(&run).await, "Prepare:waited Decide:completed");
    // The acquire is counted with the commit that came through.
    assert_eq!(bed.checkpoint(&run).await.progress.usage.writes, before + 2);
}

#[tokio::test(start_paused = true)]
async fn an_unrelated_signal_does_not_move_the_deadline() {
    let (bed, run) = waiting(Plan { within: Some(600), ..FOR_SIGNALS }).await;
    for _ in 0..3 {
        tokio::time::advance(secs(100)).await;
        bed.signal(&run, NOISE, text("hum")).await;
        bed.turn(&minute()).await;
    }
    bed.settle().await;
    let taken: Taken = bed.output(&run).await;
    assert_eq!((taken.yes, taken.no, taken.at), (None, None, 600_000));
}

#[tokio::test(start_paused = true)]
async fn a_timer_of_minutes_is_a_delayed_message() {
    let (bed, run) = waiting(FOR_TEN_MINUTES).await;
    let gate = Gate::open();
    bed.settle_with(&bed.engine_behind(&gate, "w")).await;
    assert_eq!(bed.output::<Taken>(&run).await.at, 600_000);
    assert_eq!(gate.count(PortCall::Due), 0);
    // One message, one acquire: it came neither early nor twice.
    assert_eq!(gate.count(PortCall::Acquire), 1);
}

#[tokio::test(start_paused = true)]
async fn a_timer_of_thirty_days_fires_within_a_second_of_its_time() {
    let month = days(30);
    let (bed, run) = waiting(Plan { within: Some(month.as_secs() + 7), ..FOR_TEN_MINUTES }).await;
    assert_eq!(bed.messages().await, [], "a message cannot wait that long");
    tokio::time::advance(T0.plus(month).since(bed.now()).saturating_sub(minutes(2))).await;
    let worker = bed.worker("w");
    bed.until_phase(&run, Phase::Completed).await;
    worker.stop().await;
    let at = bed.output::<Taken>(&run).await.at;
    let due = millis(month) + 7_000;
    assert!((due..due + 1_000).contains(&at), "{at}, due {due}");
}

#[tokio::test(start_paused = true)]
async fn two_workers_that_both_sweep_fire_a_timer_once() {
    let (bed, run) = waiting(Plan { within: Some(3_600), ..FOR_TEN_MINUTES }).await;
    tokio::time::advance(minutes(59)).await;
    let workers = [bed.worker("a"), bed.worker("b")];
    bed.until_phase(&run, Phase::Completed).await;
    for worker in workers {
        worker.stop().await;
    }
    assert_eq!(bed.story(&run).await, "Prepare:waited Decide:completed");
    assert_eq!(bed.output::<Taken>(&run).await.at, 3_600_000);
}

#[tokio::test(start_paused = true)]
async fn a_timer_does_not_fire_early_for_an_early_message() {
    let (bed, run) = waiting(FOR_TEN_MINUTES).await;
    let early = bed.receive(Duration::ZERO).await;
    assert!(early.is_none());
    tokio::time::advance(secs(300)).await;
    let before = bed.checkpoint(&run).await;
    let early = crate::bed::message(&run, before.progress.ticket.0);
    assert_eq!(bed.engine().turn(&early, &minute()).await, Ack::Delete);
    assert_eq!(bed.checkpoint(&run).await, before, "it is sent again, and nothing is written");
    bed.settle().await;
    assert_eq!(bed.output::<Taken>(&run).await.at, 600_000);
}

#[tokio::test(start_paused = true)]
async fn a_wait_with_a_deadline_ends_without_a_signal() {
    let (bed, run) = waiting(Plan { within: Some(60), ..FOR_SIGNALS }).await;
    bed.settle().await;
    assert_eq!(bed.output::<Taken>(&run).await, Taken { yes: None, no: None, at: 60_000 });
}

#[tokio::test(start_paused = true)]
async fn a_signal_and_the_deadline_together_run_the_step_once_with_the_signal() {
    let (bed, run) = waiting(Plan { within: Some(60), ..FOR_SIGNALS }).await;
    tokio::time::advance(secs(60)).await;
    // The timer's message is visible now, and so is the signal's.
    bed.signal(&run, YES, text("at the last moment")).await;
    bed.settle().await;
    assert_eq!(bed.output::<Taken>(&run).await.yes.as_deref(), Some("at the last moment"));
    assert_eq!(bed.story(&run).await, "Prepare:waited Decide:completed");
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_no_time_is_none() {
    let bed = bed();
    let run = bed.start::<Waiter>(Plan { within: Some(0), ..FOR_TEN_MINUTES }).await;
    assert_eq!(bed.turn(&minute()).await, Ack::Delete);
    assert_eq!(bed.story(&run).await, "Prepare:stepped Decide:completed");
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_a_deadline_has_no_mark_until_a_signal_sets_one() {
    let (bed, run) = waiting(FOR_SIGNALS).await;
    assert_eq!(bed.checkpoint(&run).await.due_at, None);
    tokio::time::advance(hours(100)).await;
    assert_eq!(bed.engine().sweep(minutes(1)).await.unwrap().seen, 0);
    bed.signal(&run, YES, text("ok")).await;
    let mark = T0.plus(hours(100)).plus(MARK);
    assert_eq!(bed.checkpoint(&run).await.due_at, Some(mark));
    // Its message gets lost: the watchdog finds the run.
    assert_eq!(bed.messages().await.len(), 1);
    assert_eq!(bed.engine().sweep(minutes(1)).await.unwrap().sent, 1);
    bed.settle().await;
    assert_eq!(bed.output::<Taken>(&run).await.yes.as_deref(), Some("ok"));
}

#[tokio::test(start_paused = true)]
async fn a_signal_that_is_sent_twice_counts_once() {
    let (bed, run) = waiting(FOR_SIGNALS).await;
    let send = || bed.try_signal(&run, YES, text("once"), Some("s-1"));
    assert!(send().await.unwrap().new);
    assert!(!send().await.unwrap().new);
    assert_eq!(bed.checkpoint(&run).await.mailbox.letters.len(), 1);
    bed.settle().await;
    assert_eq!(bed.phase(&run).await, Phase::Completed);
    // Even after it was consumed, and after the end: its sender may not have heard the first answer.
    assert!(!send().await.unwrap().new);
    assert_eq!(bed.checkpoint(&run).await.mailbox.letters, []);
}

#[tokio::test(start_paused = true)]
async fn a_signal_after_the_end_is_refused() {
    let (bed, run) = waiting(FOR_TEN_MINUTES).await;
    bed.settle().await;
    let refused = bed.try_signal(&run, YES, text("late"), None).await.unwrap_err();
    assert!(matches!(&refused, ClientError::Ended { phase: Phase::Completed, .. }), "{refused}");
    assert_eq!(bed.checkpoint(&run).await.mailbox.letters, []);
}

#[tokio::test(start_paused = true)]
async fn a_full_mailbox_refuses_and_keeps_what_it_has() {
    let (bed, run) = waiting(Plan { within: Some(60), ..FOR_TEN_MINUTES }).await;
    for number in 0..MAILBOX_LETTERS_MAX {
        bed.signal(&run, YES, number.to_string()).await;
    }
    let refused = bed.try_signal(&run, YES, text("one more"), None).await.unwrap_err();
    assert!(matches!(refused, ClientError::MailboxFull(_)), "{refused}");
    bed.settle().await;
    assert_eq!(bed.output::<Taken>(&run).await.yes.as_deref(), Some("0"));
    assert_eq!(bed.checkpoint(&run).await.mailbox.letters.len(), MAILBOX_LETTERS_MAX - 1);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_has_consumed_nothing() {
    let bed = bed();
    let run = bed.start::<Waiter>(Plan { failures: 2, ..FOR_SIGNALS }).await;
    bed.signal(&run, YES, text("kept")).await;
    bed.settle().await;
    assert_eq!(bed.output::<Taken>(&run).await.yes.as_deref(), Some("kept"));
    assert_eq!(bed.story(&run).await, "Prepare:stepped Decide:retried Decide:retried Decide:completed");
}

#[tokio::test(start_paused = true)]
async fn a_large_signal_goes_through_a_blob() {
    let (bed, run) = waiting(FOR_SIGNALS).await;
    let large = "x".repeat(200_000);
    bed.signal(&run, YES, large.clone()).await;
    assert!(bed.checkpoint(&run).await.weight() < 4_000);
    bed.settle().await;
    assert_eq!(bed.output::<Taken>(&run).await.yes, Some(large));
}

#[tokio::test(start_paused = true)]
async fn a_signal_to_a_run_between_two_steps_leaves_it_to_its_own_pace() {
    let bed = bed();
    let run = bed.start::<Waiter>(Plan { within: None, signals: false, ..FOR_SIGNALS }).await;
    bed.turn(&one_step()).await;
    bed.signal(&run, YES, text("between")).await;
    bed.settle().await;
    assert_eq!(bed.output::<Taken>(&run).await.yes.as_deref(), Some("between"));
}

/// Waits again and again, a letter each.
struct Collector;

#[derive(Serialize, Deserialize)]
enum Collect {
    Next,
}

impl Workflow for Collector {
    const NAME: &'static str = "collector";
    type Input = usize;
    type State = (usize, Vec<String>);
    type Step = Collect;
    type Output = Vec<String>;

    fn begin(&self, wanted: usize) -> (Collect, Self::State) {
        (Collect::Next, (wanted, Vec::new()))
    }

    fn signals() -> Signals {
        Signals::none().and(YES)
    }

    async fn step(&self, _: Collect, (wanted, got): &mut Self::State, cx: &Cx) -> StepResult<Self> {
        while let Some(letter) = cx.take(YES).await? {
            got.push(letter);
        }
        Ok(if got.len() >= *wanted {
            complete(got.clone())
        } else {
            wait(Collect::Next).for_signal(YES).without_deadline()
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_signals_under_two_workers_are_each_consumed_once_and_in_order() {
    let bed = Bed::new(Registry::new().with(Collector));
    let run = bed.start::<Collector>(100).await;
    let settings = WorkerSettings { concurrency: 2, ..WorkerSettings::default() };
    let workers = ["a", "b"].map(|name| bed.worker_behind(&Gate::open(), name, settings.clone()));
    for number in 0..100_u64 {
        tokio::time::sleep(Duration::from_millis(number * 7 % 40)).await;
        bed.signal(&run, YES, number.to_string()).await;
    }
    bed.until_phase(&run, Phase::Completed).await;
    for worker in workers {
        worker.stop().await;
    }
    let got: Vec<String> = bed.output(&run).await;
    assert_eq!(got, (0..100).map(|number| number.to_string()).collect::<Vec<_>>());
    let checkpoint = bed.checkpoint(&run).await;
    assert_eq!((checkpoint.mailbox.letters.len(), checkpoint.mailbox.seq.0), (0, 100));
    assert!(matches!(checkpoint.progress.status, Status::Completed { .. }));
    assert_eq!(bed.witness.violations(), Vec::<String>::new());
}
