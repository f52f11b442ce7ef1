//! A runner's process on its own, in front of a runtime API of ours: how soon it is ready, and how much memory it takes.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde_json::json;
use stepwell_core::Message;
use stepwell_report::Report;
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::Notify;

use crate::stack::Stack;

/// Process starts that are timed.
const STARTS: usize = 21;

/// Runs of one batch.
const BATCH: usize = 10;

/// How long a batch may take.
const MOST: Duration = Duration::from_secs(30);

/// The bootstraps' zipped size that is aimed at.
const ZIP_BYTES: u64 = 5_000_000;

/// What the runtime API hands out and gets back.
#[derive(Default)]
struct Runtime {
    events: Mutex<VecDeque<String>>,
    polled: Notify,
    answers: Mutex<Vec<String>>,
    answered: Notify,
}

pub(crate) async fn check(stack: &Stack, report: &mut Report) {
    let runtime = Arc::new(Runtime::default());
    let at = serve(Arc::clone(&runtime)).await;
    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let begun = Instant::now();
        let mut process = bootstrap(stack, &at);
        runtime.polled.notified().await;
        starts.push(begun.elapsed());
        process.kill().await.expect("its end");
    }
    starts.sort();
    let median = starts[STARTS / 2].as_secs_f64() * 1_000.0;
    report.figure("runner: from exec to the first poll, median", median).unit("ms").at_most(30.0);

    let mut process = bootstrap(stack, &at);
    runtime.polled.notified().await;
    let messages = stack.start_quietly(BATCH).await;
    runtime.events.lock().unwrap().push_back(batch(&messages));
    runtime.polled.notify_waiters();
    let answered = tokio::time::timeout(MOST, runtime.answered.notified()).await;
    let answers = std::mem::take(&mut *runtime.answers.lock().unwrap());
    let ok = answered.is_ok() && answers.len() == 1 && answers[0].contains(r#""batchItemFailures":[]"#);
    report.check(&format!("runner: a batch of {BATCH} runs is worked: {answers:?}"), ok);
    let peak = peak_memory(&process);
    report.figure(&format!("runner: peak memory of {BATCH} runs at once"), peak).unit("MB").at_most(64.0);
    process.kill().await.expect("its end");

    let zipped = zipped().await;
    report.figure("runner: bootstrap, zipped", zipped as f64 / 1e6).unit("MB").at_most(ZIP_BYTES as f64 / 1e6);
    report.check(&format!("runner: the zipped bootstrap has at most {ZIP_BYTES} bytes: {zipped}"), zipped <= ZIP_BYTES);
}

async fn serve(runtime: Arc<Runtime>) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let at = listener.local_addr().expect("its address").to_string();
    let app = Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next))
        .route("/2018-06-01/runtime/invocation/{id}/{what}", post(answer))
        .with_state(runtime);
    tokio::spawn(async move { axum::serve(listener, app).await });
    at
}

/// Waits for an event, as Lambda does.
async fn next(State(runtime): State<Arc<Runtime>>) -> Response {
    runtime.polled.notify_one();
    let event = loop {
        if let Some(event) = runtime.events.lock().unwrap().pop_front() {
            break event;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    let deadline = (now + MOST).as_millis().to_string();
    let headers = [
        ("lambda-runtime-aws-request-id", "1".to_owned()),
        ("lambda-runtime-deadline-ms", deadline),
        ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:us-east-1:000000000000:function:runner".to_owned()),
        ("lambda-runtime-trace-id", "Root=1-00000000-000000000000000000000000".to_owned()),
    ];
    (headers, event).into_response()
}

async fn answer(State(runtime): State<Arc<Runtime>>, body: String) -> StatusCode {
    runtime.answers.lock().unwrap().push(body);
    runtime.answered.notify_one();
    StatusCode::ACCEPTED
}

/// The event that SQS sends to Lambda.
fn batch(messages: &[Message]) -> String {
    let record = |(number, message): (usize, &Message)| {
        json!({
            "messageId": number.to_string(), "receiptHandle": "none", "body": message.to_text(),
            "attributes": {"ApproximateReceiveCount": "1"}, "messageAttributes": {}, "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:runs", "awsRegion": "us-east-1"
        })
    };
    json!({"Records": messages.iter().enumerate().map(record).collect::<Vec<_>>()}).to_string()
}

fn bootstrap(stack: &Stack, runtime: &str) -> Child {
    let lambda = [
        ("AWS_LAMBDA_RUNTIME_API", runtime),
        ("AWS_LAMBDA_FUNCTION_NAME", "cold-runner"),
        ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512"),
        ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
        ("AWS_LAMBDA_LOG_GROUP_NAME", "cold"),
        ("AWS_LAMBDA_LOG_STREAM_NAME", "cold"),
    ];
    let mut program = Command::new(built());
    program.env_clear().envs(stack.environment()).envs(lambda);
    program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
    program.spawn().expect("the bootstrap that `make build` has made")
}

/// Where `make build` puts it.
fn built() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("lambda/runner/bootstrap")
}

/// Its peak, in MB.
fn peak_memory(process: &Child) -> f64 {
    let pid = process.id().expect("it runs");
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes / 1e3
}

/// Its size as a zip holds it: deflated.
async fn zipped() -> u64 {
    let output = Command::new("gzip").arg("-9c").arg(built()).output().await.expect("gzip runs");
    output.stdout.len() as u64
}
