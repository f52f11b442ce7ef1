//! The program on a stack: every command, and a worker that polls its queue.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod program;

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use program::{PATIENCE, Ran, Worker, run, variables};
use serde_json::{Value, json};
use stepwell_localaws::{Emulators, Resources};

const ADA: &str = r#"{"name": "Ada"}"#;
const BRIEF: &str = r#"{"goal": "choose", "vendors": [], "to": "board"}"#;

/// The longest that a worker may take to stop when it has nothing to do: it must not wait for its poll of 20 seconds.
const STOP_MAX: Duration = Duration::from_secs(8);

struct Stack {
    emulators: Emulators,
    resources: Resources,
}

impl Stack {
    async fn start() -> Self {
        let emulators = Emulators::start();
        let resources = Resources::make(&emulators).await;
        Self { emulators, resources }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = program::command(&self.emulators, args);
        command.envs(variables(&self.resources.settings));
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        run(self.command(args))
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let ran = run(self.command(&[args, &["--json"]].concat()));
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.json()
    }

    fn start_run(&self, args: &[&str]) -> String {
        self.json(&[&["start"], args].concat())["run"].as_str().unwrap().to_owned()
    }

    fn wait_for(&self, run: &str, status: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let shown = self.json(&["show", run, "--history"]);
            if shown["status"] == status {
                return shown;
            }
            assert!(Instant::now() < end, "run {run} is not {status}: {shown}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_works_runs_off_the_queue_and_stops_at_once_when_told() {
    let stack = Stack::start().await;
    let before = stack.start_run(&["hello", "--input", ADA]);
    let chain = stack.start_run(&["countdown", "--input", r#"{"from": 20}"#]);
    let worker = Worker::start(stack.command(&["worker"]));
    let shown = stack.wait_for(&before, "completed");
    assert_eq!(shown["detail"]["completed"]["output"], json!(["Hello, Ada.", "Goodbye, Ada."]));
    assert_eq!(shown["steps"], json!(2));
    let shown = stack.wait_for(&chain, "completed");
    assert_eq!((&shown["steps"], &shown["detail"]["completed"]["output"]), (&json!(20), &json!(20)));
    // Now it waits in a long poll, which a message ends.
    let waited = stack.run(&["start", "hello", "--input", ADA, "--wait"]);
    assert_eq!(waited.code, Some(0), "{waited:?}");
    assert_eq!(waited.stdout.trim(), r#"["Hello, Ada.","Goodbye, Ada."]"#);

    // And again: it has to be told in the middle of one.
    thread::sleep(Duration::from_secs(1));
    let told = Instant::now();
    worker.signal("TERM");
    let ended = worker.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(told.elapsed() < STOP_MAX, "it took {:?}: {ended:?}", told.elapsed());
    assert!(ended.stdout.contains("has worked on") && ended.stdout.contains("0 given up, 0 cut off"), "{ended:?}");
    assert!(ended.stderr.contains(&format!("works on table {}", stack.resources.settings.table)), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_works_on_a_stack() {
    let stack = Stack::start().await;
    assert_eq!(stack.json(&["list"])["runs"], json!([]));
    let run = stack.start_run(&["competitive-brief", "--input", BRIEF, "--key", "k"]);
    let again = stack.run(&["start", "competitive-brief", "--input", BRIEF, "--key", "k"]);
    assert!(again.stdout.trim() == run && again.stderr.contains("`stepwell show --aws` tells"), "{again:?}");
    let decision = r#"{"approved": true, "by": "ada"}"#;
    let sent = stack.json(&["signal", &run, "approval", decision, "--id", "s1"]);
    assert_eq!(sent, json!({"run": run, "signal": "approval", "id": "s1", "new": true}));
    assert_eq!(stack.json(&["show", &run, "--state"])["signals"][0]["id"], json!("s1"));
    stack.run(&["resume", &run]).failed(3, &["error[not-parked]"]);
    assert_eq!(stack.json(&["cancel", &run, "--why", "enough"])["by"], json!("ada"));
    assert_eq!(stack.json(&["list", "--workflow", "competitive-brief"])["runs"][0]["run"], json!(run));
    assert_eq!(stack.json(&["workflows"])[0]["name"], json!("competitive-brief"));

    let letters = &stack.resources.settings.dead_letter_url;
    stack.run(&["dead-letters"]).failed(3, &["error[no-letters]", letters, "stepwell doctor --aws"]);
    for command in ["demo", "outside"] {
        stack.run(&[command]).failed(3, &["error[only-here]", command]);
    }
    stack.run(&["list", "--data", "x"]).failed(2, &["--aws and --data name two places"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_that_are_missing_are_named_all_at_once() {
    let emulators = Emulators::start();
    let mut list = program::command(&emulators, &["list"]);
    list.env("STEPWELL_TABLE", "t").env("STEPWELL_BUCKET", "");
    let missing = "STEPWELL_QUEUE_URL, STEPWELL_DEAD_LETTER_URL, STEPWELL_BUCKET";
    run(list).failed(3, &["error[no-settings]", missing, "the stack's outputs"]);
}
