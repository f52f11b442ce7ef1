//! The runner: a batch of messages, each worked on at once and settled by itself.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod common;
#[path = "common/work.rs"]
mod work;

use std::sync::Arc;
use std::time::Duration;

use common::{Bed, MESSAGES, Newer, T0, batch, bodies, failed, id, records, secs, text};
use stepwell::Registry;
use stepwell_core::{Phase, RunId, Ticket, Timestamp};
use stepwell_lambda::{Messages, warm};
use stepwell_ports::RunQueue;
use stepwell_testkit::faults::{Fate, Gate, PortCall};
use tokio::sync::Barrier;
use work::{Do, Plan, Work, plan};

fn bed() -> Bed {
    Bed::new(Registry::new().with(Work(Arc::new(Barrier::new(10)))))
}

fn runner(bed: &Bed, gate: &Arc<Gate>) -> Messages {
    Messages { engine: bed.engine(gate), queue: gate.queue(bed.memory.clone()), clock: bed.clock.clone() }
}

/// Lambda kills the process so long after the start of the test.
fn deadline(after: u64) -> Timestamp {
    T0.plus(secs(after))
}

async fn start(bed: &Bed, plans: impl IntoIterator<Item = Plan>) -> Vec<RunId> {
    let mut runs = Vec::new();
    for plan in plans {
        runs.push(bed.start("work", plan).await);
    }
    runs
}

fn quick() -> Plan {
    plan(Do::Take(1), 10, 1)
}

async fn phases(bed: &Bed, runs: &[RunId]) -> Vec<Phase> {
    let mut phases = Vec::new();
    for run in runs {
        phases.push(bed.checkpoint(run).await.progress.status.phase());
    }
    phases
}

#[tokio::test(start_paused = true)]
async fn ten_runs_are_worked_on_at_once() {
    let bed = bed();
    // None of them ends before the last has come.
    let runs = start(&bed, vec![plan(Do::Meet, 30, 1); 10]).await;
    let deliveries = bed.receive().await;
    let response = runner(&bed, &Gate::open()).work(batch(&deliveries), deadline(60)).await;
    assert_eq!(failed(&response), Vec::<String>::new());
    assert_eq!(phases(&bed, &runs).await, [Phase::Completed; 10]);
    assert_eq!(bed.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_batch_as_lambda_sends_it_is_read() {
    let bed = bed();
    // Nobody knows its runs: every message is buried, and with that done.
    let event = serde_json::from_str(MESSAGES).unwrap();
    let response = runner(&bed, &Gate::open()).work(event, deadline(60)).await;
    assert_eq!(serde_json::to_value(&response).unwrap(), serde_json::json!({ "batchItemFailures": [] }));
    let dead: Vec<(String, Ticket)> =
        bed.memory.dead_letters().into_iter().map(|dead| (dead.message.run.to_string(), dead.message.ticket)).collect();
    let expected = [("run-1", 1), ("run-2", 7), ("run-3", 12)].map(|(run, ticket)| (run.to_owned(), Ticket(ticket)));
    assert_eq!(dead, expected);
    assert!(bed.memory.dead_letters()[0].reason.contains("no such run"));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_message_of_ours_comes_again_soon_and_harms_nobody() {
    let bed = bed();
    let runs = start(&bed, [quick()]).await;
    let good = text(&runs[0], 1);
    let gate = Gate::open();
    let event = bodies(["", "{", r#"{"v":2,"run":"r","ticket":1}"#, &good, r#"{"v":1,"run":"no name","ticket":1}"#]);
    let response = runner(&bed, &gate).work(event, deadline(60)).await;
    assert_eq!(failed(&response), [id(0), id(1), id(2), id(4)]);
    assert_eq!(phases(&bed, &runs).await, [Phase::Completed]);
    assert_eq!(gate.count(PortCall::Extend), 4, "put off for a second, not for the batch's visibility");
    // And where that fails they come again all the same.
    let gate = Gate::planned(|_, call| if call == PortCall::Extend { Fate::Unavailable } else { Fate::Pass });
    assert_eq!(failed(&runner(&bed, &gate).work(bodies(["x"]), deadline(60)).await), [id(0)]);
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_body_is_no_good_is_visible_after_a_second() {
    let bed = bed();
    start(&bed, [quick()]).await;
    let delivery = bed.receive().await.pop().unwrap();
    let event = records(MESSAGES, [(delivery.receipt.0.as_str(), "not ours".to_owned())]);
    runner(&bed, &Gate::open()).work(event, deadline(60)).await;
    assert_eq!(bed.memory.receive(1, secs(9), secs(60)).await.unwrap()[0].receives, 2);
    assert_eq!(bed.elapsed(), secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_buried_comes_again() {
    let bed = bed();
    let gate = Gate::planned(|_, call| if call == PortCall::Bury { Fate::Unavailable } else { Fate::Pass });
    let nobody = text(&RunId::new("nobody").unwrap(), 1);
    assert_eq!(failed(&runner(&bed, &gate).work(bodies([&nobody]), deadline(60)).await), [id(0)]);
    assert_eq!(bed.memory.dead_letters(), []);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_newer_code_has_written_is_buried_with_the_reason() {
    let bed = bed();
    let runs = start(&bed, [quick(), quick()]).await;
    let deliveries = bed.receive().await;
    let store = Arc::new(Newer { inner: bed.memory.clone(), run: runs[0].clone() });
    let engine = bed.engine_on(&Gate::open(), store);
    let messages = Messages { engine, queue: bed.memory.clone(), clock: bed.clock.clone() };
    let response = messages.work(batch(&deliveries), deadline(60)).await;
    assert_eq!(failed(&response), Vec::<String>::new());
    let dead = bed.memory.dead_letters();
    assert_eq!(dead.len(), 1);
    assert!(dead[0].reason.contains("format 2"), "{}", dead[0].reason);
    assert_eq!(phases(&bed, &runs).await, [Phase::Created, Phase::Completed]);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_panics_is_a_matter_of_its_run() {
    let bed = bed();
    let runs = start(&bed, [plan(Do::Panic, 10, 1), quick()]).await;
    let deliveries = bed.receive().await;
    let response = runner(&bed, &Gate::open()).work(batch(&deliveries), deadline(60)).await;
    assert_eq!(failed(&response), Vec::<String>::new());
    assert_eq!(phases(&bed, &runs).await, [Phase::Retrying, Phase::Completed]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_one_turn_leaves_its_message_only() {
    let bed = bed();
    let runs = start(&bed, [quick(), quick(), quick()]).await;
    let deliveries = bed.receive().await;
    let mut acquires = 0;
    let gate = Gate::planned(move |_, call| {
        acquires += u32::from(call == PortCall::Acquire);
        assert!(call != PortCall::Acquire || acquires != 2, "the turn panics");
        Fate::Pass
    });
    let response = runner(&bed, &gate).work(batch(&deliveries), deadline(60)).await;
    assert_eq!(failed(&response), [id(1)]);
    assert_eq!(phases(&bed, &runs).await, [Phase::Completed, Phase::Created, Phase::Completed]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_hangs_is_given_up_before_the_deadline() {
    let bed = bed();
    let runs = start(&bed, [quick(), quick(), quick()]).await;
    let deliveries = bed.receive().await;
    let mut acquires = 0;
    let gate = Gate::planned(move |_, call| {
        acquires += u32::from(call == PortCall::Acquire);
        let hangs = call == PortCall::Acquire && acquires == 2;
        if hangs { Fate::SlowAnswer(secs(3_600)) } else { Fate::Pass }
    });
    let response = runner(&bed, &gate).work(batch(&deliveries), deadline(60)).await;
    assert_eq!(bed.elapsed(), Duration::from_millis(59_250));
    assert_eq!(failed(&response), [id(1)]);
    assert_eq!(phases(&bed, &runs).await, [Phase::Completed, Phase::Created, Phase::Completed]);
    // It is over: nothing of it goes on in the next invocation.
    let calls = gate.total();
    tokio::time::sleep(secs(7_200)).await;
    assert_eq!(gate.total(), calls);
}

/// What blocks its thread cannot be cut; the others are answered for all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_blocks_its_thread_does_not_hold_up_the_answer() {
    let bed = bed();
    let runs = start(&bed, [plan(Do::Take(0), 10, 1), plan(Do::Take(0), 10, 1)]).await;
    let deliveries = bed.receive().await;
    let (let_go, blocked) = std::sync::mpsc::channel::<()>();
    let mut commits = 0;
    let gate = Gate::planned(move |_, call| {
        commits += u32::from(call == PortCall::Commit);
        if call == PortCall::Commit && commits == 2 {
            // It blocks until the test is over, which an error says.
            let _ = blocked.recv();
        }
        Fate::Pass
    });
    let messages = runner(&bed, &gate);
    let by = stepwell_ports::Clock::now(&*bed.clock).plus(Duration::from_millis(1_750));
    let working = tokio::spawn(async move { messages.work(batch(&deliveries), by).await });
    let response = tokio::time::timeout(secs(30), working).await.unwrap().unwrap();
    assert_eq!(failed(&response).len(), 1);
    let completed = phases(&bed, &runs).await.iter().filter(|phase| **phase == Phase::Completed).count();
    assert_eq!(completed, 1);
    drop(let_go);
}

#[tokio::test(start_paused = true)]
async fn a_step_longer_than_the_function_is_cut_in_time_and_says_what_to_do() {
    let bed = bed();
    let runs = start(&bed, [plan(Do::Take(300), 600, 1)]).await;
    let deliveries = bed.receive().await;
    let response = runner(&bed, &Gate::open()).work(batch(&deliveries), deadline(60)).await;
    assert_eq!(failed(&response), Vec::<String>::new());
    assert_eq!(bed.elapsed(), secs(57));
    let checkpoint = bed.checkpoint(&runs[0]).await;
    assert_eq!((checkpoint.progress.status.phase(), checkpoint.hold.lease), (Phase::Retrying, None));
    let failure = checkpoint.progress.trouble.unwrap().last;
    assert!(failure.message.contains("longer time-out"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn near_the_deadline_a_run_is_handed_off_and_no_further_step_begins() {
    let bed = bed();
    // Ten seconds each, at most thirty: after the first one another fits, after the second none.
    let runs = start(&bed, [plan(Do::Take(10), 30, 9)]).await;
    let deliveries = bed.receive().await;
    let response = runner(&bed, &Gate::open()).work(batch(&deliveries), deadline(45)).await;
    bed.acknowledge(&deliveries, &response).await;
    assert_eq!(bed.elapsed(), secs(20));
    let checkpoint = bed.checkpoint(&runs[0]).await;
    assert_eq!((checkpoint.progress.visit.0, checkpoint.hold.lease), (2, None));
    let next = bed.receive().await;
    assert_eq!(next.iter().map(|delivery| delivery.message.ticket).collect::<Vec<_>>(), [Ticket(2)]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_does_not_keep_a_batch_for_longer_than_a_minute() {
    let bed = bed();
    let runs = start(&bed, [plan(Do::Take(10), 30, 90)]).await;
    let deliveries = bed.receive().await;
    runner(&bed, &Gate::open()).work(batch(&deliveries), deadline(900)).await;
    assert_eq!((bed.elapsed(), bed.checkpoint(&runs[0]).await.progress.visit.0), (secs(60), 6));
}

#[tokio::test(start_paused = true)]
async fn what_is_left_comes_again_and_the_rest_is_deleted() {
    let bed = bed();
    let runs = start(&bed, [quick(), quick(), quick()]).await;
    let deliveries = bed.receive().await;
    // The second run's hand-over to the store fails, each time that it is tried.
    let mut acquires = 0;
    let gate = Gate::planned(move |_, call| {
        acquires += u32::from(call == PortCall::Acquire);
        let away = call == PortCall::Acquire && (acquires == 2 || acquires > 3);
        if away { Fate::Unavailable } else { Fate::Pass }
    });
    let response = runner(&bed, &gate).work(batch(&deliveries), deadline(60)).await;
    assert_eq!(failed(&response), [id(1)]);
    bed.acknowledge(&deliveries, &response).await;
    tokio::time::sleep(secs(360)).await;
    let again = bed.receive().await;
    assert_eq!((again.len(), &again[0].message.run, again[0].receives), (1, &runs[1], 2));
    let response = runner(&bed, &Gate::open()).work(batch(&again), deadline(420)).await;
    assert_eq!(failed(&response), Vec::<String>::new());
    assert_eq!(phases(&bed, &runs).await, [Phase::Completed; 3]);
}

#[tokio::test(start_paused = true)]
async fn two_messages_of_one_run_in_a_batch_are_harmless() {
    let bed = bed();
    let runs = start(&bed, [plan(Do::Take(5), 10, 2)]).await;
    let same = text(&runs[0], 1);
    let response = runner(&bed, &Gate::open()).work(bodies([&same, &same, &same]), deadline(60)).await;
    assert_eq!(failed(&response), Vec::<String>::new());
    assert_eq!(bed.story(&runs[0]).await, "Work:stepped Work:completed");
}

#[tokio::test(start_paused = true)]
async fn an_empty_batch_and_one_without_ids_are_answered() {
    let bed = bed();
    let runner = runner(&bed, &Gate::open());
    let empty = serde_json::from_str(r#"{"Records":[]}"#).unwrap();
    assert_eq!(failed(&runner.work(empty, deadline(60)).await), Vec::<String>::new());
    // Nothing names it, so the whole batch has to come again: that is what an empty id says.
    let bare = serde_json::from_str(r#"{"Records":[{"eventSource":"aws:sqs"}]}"#).unwrap();
    assert_eq!(failed(&runner.work(bare, deadline(60)).await), [""]);
}

#[tokio::test(start_paused = true)]
async fn warming_takes_a_moment_at_most_and_never_fails() {
    let bed = bed();
    for fate in [Fate::Pass, Fate::Unavailable, Fate::SlowStart(secs(60))] {
        let gate = Gate::planned(move |_, _| fate);
        let ports = bed.ports(&gate, bed.memory.clone());
        let begun = bed.elapsed();
        warm(&*ports.store, Some(&*ports.queue)).await;
        assert!(bed.elapsed().saturating_sub(begun) <= Duration::from_millis(300), "{fate:?}");
        assert_eq!((gate.count(PortCall::Load), gate.count(PortCall::Extend)), (1, 1));
    }
}
