//! Runs in several states, so that not every request is for one that is not there.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stepwell_core::{Json, Phase, RunId, WorkflowName};
use stepwell_engine::{Client, StartRequest};

/// How long they may take to come to rest.
const SOON: Duration = Duration::from_mins(1);

/// Starts some, and waits until each is as it is to be.
pub(crate) async fn start(client: &Client) {
    let brief = json!({"goal": "which one to buy", "vendors": ["brindlepost"], "to": "reader@example.com"});
    let refund = |order: &str| json!({"order": order, "reason": "arrived broken"});
    let runs = [
        ("countdown", json!({"from": 3}), Phase::Completed),
        ("refund", refund("nothing"), Phase::Failed),
        ("refund", refund("sofa-90000"), Phase::Waiting),
        ("competitive-brief", brief, Phase::Waiting),
        ("parcel", json!({"order": "lamp-4500", "town": "Farhaven", "grams": 1200}), Phase::Parked),
        ("parcel", json!({"order": "vase-3000", "town": "Tarnwick", "grams": 120_000}), Phase::Parked),
    ];
    for (workflow, input, phase) in runs {
        let run = start_one(client, workflow, &input).await;
        until(client, &run, phase).await;
    }
}

async fn start_one(client: &Client, workflow: &str, input: &Value) -> RunId {
    let workflow = WorkflowName::new(workflow).expect("a name");
    let request = StartRequest { workflow, input: Json::of(input).expect("an input"), key: None };
    client.start(request).await.expect("a start").run
}

async fn until(client: &Client, run: &RunId, phase: Phase) {
    let begun = Instant::now();
    loop {
        let now = client.get(run).await.expect("the run").progress.status.phase();
        if now == phase {
            return;
        }
        assert!(begun.elapsed() < SOON, "run {run} is {now:?}, and was to be {phase:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
