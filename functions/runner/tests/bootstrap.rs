//! The real binary, as Lambda starts it: against a small runtime API on loopback, and with an AWS that cannot be reached.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Where nobody listens.
const NOBODY: &str = "http://127.0.0.1:1";

#[derive(Clone)]
struct Lambda {
    event: Arc<Mutex<Option<Value>>>,
    answers: UnboundedSender<Value>,
}

/// The next event; after the only one there is, the process is frozen, as Lambda does it.
async fn next(State(lambda): State<Lambda>) -> impl IntoResponse {
    let Some(event) = lambda.event.lock().unwrap().take() else { return std::future::pending().await };
    let deadline = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_mins(1);
    let headers = [
        ("lambda-runtime-aws-request-id", "8476a536-e9f4-11e8-9739-2dfe598c3fcd".to_owned()),
        ("lambda-runtime-deadline-ms", deadline.as_millis().to_string()),
        ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:eu-central-1:123456789012:function:runner".to_owned()),
    ];
    (headers, event.to_string())
}

async fn answered(State(lambda): State<Lambda>, body: String) -> &'static str {
    lambda.answers.send(serde_json::from_str(&body).unwrap()).unwrap();
    "{}"
}

/// Starts it. It answers with one event, and tells what it is answered.
async fn lambda(event: Value) -> (String, UnboundedReceiver<Value>) {
    let (answers, answered_with) = unbounded_channel();
    let lambda = Lambda { event: Arc::new(Mutex::new(Some(event))), answers };
    let router = Router::new()
        .route("/2018-06-01/runtime/invocation/next", get(next))
        .route("/2018-06-01/runtime/invocation/{id}/response", post(answered))
        .route("/2018-06-01/runtime/invocation/{id}/error", post(answered))
        .with_state(lambda);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, answered_with)
}

/// The process, gone with the test.
struct Runner(Child);

impl Drop for Runner {
    fn drop(&mut self) {
        // An error says that it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn runner(runtime_api: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_runner"));
    command.env_clear().stdout(Stdio::piped()).stderr(Stdio::piped()).env("AWS_LAMBDA_RUNTIME_API", runtime_api).envs(
        [
            ("AWS_LAMBDA_FUNCTION_NAME", "runner"),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "256"),
            ("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST"),
            ("AWS_REGION", "eu-central-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_ENDPOINT_URL", NOBODY),
        ],
    );
    command
}

fn lines(stdout: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_takes_an_event_and_answers_for_each_message() {
    let record =
        |id: &str, body: &str| json!({ "messageId": id, "receiptHandle": "r", "body": body, "attributes": {} });
    let event = json!({ "Records": [record("m0", "a secret"), record("m1", r#"{"v":1,"run":"r1","ticket":1}"#)] });
    let (address, mut answers) = lambda(event).await;
    let mut command = runner(&address);
    command.envs([
        ("STEPWELL_TABLE", "table"),
        ("STEPWELL_QUEUE_URL", "http://127.0.0.1:1/queue"),
        ("STEPWELL_DEAD_LETTER_URL", "http://127.0.0.1:1/dead"),
        ("STEPWELL_BUCKET", "bucket"),
    ]);
    // The finest level that anybody can ask for.
    command.env("STEPWELL_LOG", "trace");
    let mut runner = Runner(command.spawn().unwrap());
    let answer = tokio::time::timeout(Duration::from_mins(1), answers.recv()).await.unwrap().unwrap();
    // Neither can be settled without AWS: both come again.
    assert_eq!(answer, json!({ "batchItemFailures": [{ "itemIdentifier": "m0" }, { "itemIdentifier": "m1" }] }));

    runner.0.kill().unwrap();
    let mut stdout = Vec::new();
    std::io::Read::read_to_end(runner.0.stdout.as_mut().unwrap(), &mut stdout).unwrap();
    assert!(!String::from_utf8_lossy(&stdout).contains("a secret"), "a payload is in the log");
    let told = lines(&stdout);
    let unreadable = told.iter().find(|line| line["fields"]["code"] == "unreadable-message").unwrap();
    assert_eq!((&unreadable["level"], &unreadable["fields"]["message_id"]), (&json!("ERROR"), &json!("m0")));
    assert_eq!(unreadable["span"]["requestId"], "8476a536-e9f4-11e8-9739-2dfe598c3fcd", "{unreadable}");
}

#[test]
fn without_settings_it_says_all_that_is_missing_and_ends() {
    let ended =
        runner("127.0.0.1:1").env("STEPWELL_LEASE_SECONDS", "soon").env("STEPWELL_MAIL_URL", "ftp://x").output();
    let ended = ended.unwrap();
    assert_eq!(ended.status.code(), Some(78));
    let told = lines(&ended.stdout);
    assert_eq!(told.len(), 1, "{told:?}");
    let error = told[0]["fields"]["error"].as_str().unwrap();
    for named in ["STEPWELL_TABLE", "STEPWELL_QUEUE_URL", "STEPWELL_LEASE_SECONDS", "ftp://x"] {
        assert!(error.contains(named), "{named}: {error}");
    }
    assert_eq!(told[0]["fields"]["code"], "setup");
}
