//! What an emulator does with a function: what it tells it, and what becomes of one that is late or killed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};

use serde_json::Value;
use stepwell_aws::sdk::lambda::types::{Environment, FunctionCode, FunctionResponseType, Runtime};
use stepwell_aws::sdk::sqs::types::QueueAttributeName;
use stepwell_aws::sdk::{lambda, sqs};
use stepwell_localaws::{Emulators, Kind, Setup};
use tempfile::TempDir;

/// Seconds.
const TIMEOUT: i32 = 2;
const VISIBILITY: &str = "3";

/// The function of `functions/bootstrap.py`, on an emulator of its own.
struct Function {
    lambda: lambda::Client,
    sqs: sqs::Client,
    dir: TempDir,
    _emulators: Emulators,
}

impl Function {
    /// Emulators that this test starts itself, one after the other.
    fn on_each() -> impl Iterator<Item = Setup> {
        Kind::under_test().into_iter().filter(|kind| *kind != Kind::Endpoint).map(Setup::of)
    }

    async fn deploy(setup: Setup) -> Self {
        let emulators = setup.start();
        let others = emulators.others().await;
        let dir = tempfile::tempdir().unwrap();
        let bootstrap = dir.path().join("bootstrap");
        fs::write(&bootstrap, include_str!("functions/bootstrap.py")).unwrap();
        fs::set_permissions(&bootstrap, fs::Permissions::from_mode(0o755)).unwrap();
        let zip = ["-m", "zipfile", "-c", "code.zip", "bootstrap"];
        assert!(Command::new("python3").args(zip).current_dir(&dir).status().unwrap().success());
        let code = fs::read(dir.path().join("code.zip")).unwrap();
        let function =
            Self { lambda: lambda::Client::new(&others), sqs: sqs::Client::new(&others), dir, _emulators: emulators };
        let seen = function.dir.path().join("seen").display().to_string();
        let create = function.lambda.create_function().function_name("try").handler("bootstrap").timeout(TIMEOUT);
        let create = create.runtime(Runtime::from("provided.al2023")).role("arn:aws:iam::000000000000:role/try");
        let create = create.environment(Environment::builder().variables("SEEN", seen).build());
        create.code(FunctionCode::builder().zip_file(code.into()).build()).send().await.unwrap();
        let active = || async {
            let about = function.lambda.get_function_configuration().function_name("try").send().await.unwrap();
            about.state.is_none_or(|state| state.as_str() == "Active")
        };
        while !active().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        function
    }

    /// What the function answers, and whether it has failed.
    async fn invoke(&self, word: &str) -> (Value, bool) {
        let event = serde_json::to_vec(word).unwrap();
        let answer = self.lambda.invoke().function_name("try").payload(event.into()).send().await.unwrap();
        (serde_json::from_slice(answer.payload.unwrap().as_ref()).unwrap(), answer.function_error.is_some())
    }

    /// Sends each of them through a queue with an event source, as a batch of one.
    async fn send(&self, bodies: &[&str]) {
        let visibility = (QueueAttributeName::VisibilityTimeout, VISIBILITY);
        let create = self.sqs.create_queue().queue_name("try").attributes(visibility.0, visibility.1);
        let url = create.send().await.unwrap().queue_url.unwrap();
        let about = self.sqs.get_queue_attributes().queue_url(&url).attribute_names(QueueAttributeName::QueueArn);
        let arn = about.send().await.unwrap().attributes.unwrap().remove(&QueueAttributeName::QueueArn).unwrap();
        let source = self.lambda.create_event_source_mapping().function_name("try").event_source_arn(arn).batch_size(1);
        source.function_response_types(FunctionResponseType::ReportBatchItemFailures).send().await.unwrap();
        for body in bodies {
            self.sqs.send_message().queue_url(&url).message_body(*body).send().await.unwrap();
        }
    }

    /// The messages that the function has seen, with the times they were received, in order of the words.
    async fn seen(&self, count: usize) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let seen = fs::read_to_string(self.dir.path().join("seen")).unwrap_or_default();
            let mut seen: Vec<String> = seen.lines().map(str::to_owned).collect();
            if seen.len() >= count || begun.elapsed() > Duration::from_secs(40) {
                seen.sort();
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_is_told_of_its_endpoints_and_of_nothing_of_ours() {
    for mut setup in Function::on_each() {
        let kind = setup.kind;
        setup.functions.dynamodb = Some("http://127.0.0.1:1".into());
        setup.functions.others = Some("http://127.0.0.1:2".into());
        let (answer, failed) = Function::deploy(setup).await.invoke("answer").await;
        assert!(!failed, "{kind}: {answer}");
        let told = |name: &str| answer["environment"][name].as_str().map(str::to_owned);
        assert_eq!(told("AWS_ENDPOINT_URL_DYNAMODB").as_deref(), Some("http://127.0.0.1:1"), "{kind}");
        assert_eq!(told("AWS_ENDPOINT_URL").as_deref(), Some("http://127.0.0.1:2"), "{kind}");
        assert_eq!(told("AWS_LAMBDA_FUNCTION_NAME").as_deref(), Some("try"), "{kind}");
        assert!(env::var_os("CARGO_MANIFEST_DIR").is_some() && told("CARGO_MANIFEST_DIR").is_none(), "{kind}");
        // MiniStack passes its own environment on, which is a clean one.
        assert!(kind == Kind::MiniStack || told("HOME").is_none(), "{kind}");
        let seconds = answer["seconds"].as_f64().unwrap();
        assert!(seconds > 0.0 && seconds <= f64::from(TIMEOUT), "{kind}: a deadline in {seconds} s");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_stays_and_one_that_is_late_or_ends_is_replaced() {
    for setup in Function::on_each() {
        let kind = setup.kind;
        let function = Function::deploy(setup).await;
        let mut process = function.invoke("answer").await.0["process"].clone();
        assert!(process.is_number(), "{kind}: {process}");
        assert_eq!(function.invoke("answer").await.0["process"], process, "{kind}");
        for word in ["sleep", "die"] {
            let (answer, failed) = function.invoke(word).await;
            assert!(failed, "{kind}: {word}: {answer}");
            let timed_out = answer["errorType"] == "Sandbox.Timedout";
            assert_eq!(timed_out, word == "sleep", "{kind}: {word}: {answer}");
            let (answer, failed) = function.invoke("answer").await;
            assert!(!failed && answer["process"] != process, "{kind}: after {word}: {answer}");
            process = answer["process"].clone();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_function_fails_comes_again() {
    for setup in Function::on_each() {
        let kind = setup.kind;
        let function = Function::deploy(setup).await;
        function.send(&["die", "fail", "sleep", "well"]).await;
        let seen = function.seen(7).await;
        assert_eq!(seen, ["die 1", "die 2", "fail 1", "fail 2", "sleep 1", "sleep 2", "well 1"], "{kind}");
    }
}
