//! Many runs at once: none lost, no step doubled, and what a step costs in requests.

use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use stepwell_core::{Checkpoint, Json, Phase, Revision, RunId, WorkflowName};
use stepwell_engine::StartRequest;
use stepwell_report::Report;

use crate::demo;
use crate::stack::Stack;

const RUNS: usize = 1_000;
const STEPS: usize = 20;

/// Requests of this program in flight.
const AT_ONCE: usize = 16;

pub(crate) async fn check(stack: &Stack, report: &mut Report, on: &str, most: Duration) {
    stack.wire.take_counts();
    let begun = Instant::now();
    let runs: Vec<RunId> = stream::iter(0..RUNS).map(|n| start(stack, n)).buffer_unordered(AT_ONCE).collect().await;
    let ended = stream::iter(&runs).map(|run| async move {
        let left = most.saturating_sub(begun.elapsed());
        stack.until(run, left, demo::is_over).await
    });
    let ended: Vec<Option<Checkpoint>> = ended.buffered(AT_ONCE).collect().await;
    let took = begun.elapsed();
    let counts = stack.wire.take_counts();
    let completed = ended.iter().flatten().filter(|end| end.progress.status.phase() == Phase::Completed).count();
    report.check(&format!("{on}: {completed} of {RUNS} runs have completed after {took:?}"), completed == RUNS);

    let exact = stream::iter(&runs).map(|run| steps(stack, run)).buffer_unordered(AT_ONCE);
    let exact = exact.filter(|steps| core::future::ready(*steps == STEPS)).count().await;
    report.check(&format!("{on}: {exact} of {RUNS} runs have exactly {STEPS} steps in their history"), exact == RUNS);

    let steps = (RUNS * STEPS) as f64;
    let per_step = |operation: &str| *counts.get(operation).unwrap_or(&0) as f64 / steps;
    let requests: u64 = counts.values().sum();
    println!("{on}: requests of the functions for {RUNS} runs of {STEPS} steps: {counts:?}");
    report.figure(&format!("{on}: requests a step"), requests as f64 / steps);
    report.figure(&format!("{on}: conditional writes a step"), per_step("UpdateItem")).at_most(1.2);
    report.figure(&format!("{on}: messages a step"), per_step("SendMessageBatch"));
    report.figure(&format!("{on}: steps a second"), steps / took.as_secs_f64()).unit("/s");
}

async fn start(stack: &Stack, number: usize) -> RunId {
    let workflow = WorkflowName::new("countdown").expect("a name");
    let input = Json::of(&serde_json::json!({"from": STEPS})).expect("an input");
    let request = StartRequest { workflow, input, key: Some(format!("many-{number}")) };
    stack.client.start(request).await.expect("a start").run
}

/// Steps in a run's history.
async fn steps(stack: &Stack, run: &RunId) -> usize {
    let history = stack.client.history(run, Revision(0)).await.expect("its history");
    history.iter().filter(|entry| entry.entry.step.starts_with("Count")).count()
}
