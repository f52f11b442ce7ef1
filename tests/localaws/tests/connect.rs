//! A process that is told of the emulators by its environment alone, as a deployed one is told of AWS.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::env;
use std::process::Command;
use std::time::Duration;

use stepwell_aws::{Aws, AwsSettings};
use stepwell_core::{Message, RunId, Ticket};
use stepwell_localaws::{Emulators, Resources};
use stepwell_ports::Envelope;

/// Set for the process that connects: table and bucket, queue, dead-letter queue.
const TOLD: &str = "STEPWELL_TEST_CONNECT";

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_found_through_the_environment() {
    if let Ok(told) = env::var(TOLD) {
        return use_each_port(&told).await;
    }
    let emulators = Emulators::start();
    let settings = Resources::make(&emulators).await.settings;
    let told = [settings.table, settings.queue_url, settings.dead_letter_url].join(" ");
    let mut again = Command::new(env::current_exe().unwrap());
    again.arg("everything_is_found_through_the_environment").env_clear().env(TOLD, told);
    let output = again.envs(emulators.environment()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

async fn use_each_port(told: &str) {
    let mut told = told.split(' ').map(str::to_owned);
    let mut next = || told.next().unwrap();
    let (table, queue_url, dead_letter_url) = (next(), next(), next());
    let bucket = table.clone();
    let aws = Aws::connect(AwsSettings { table, queue_url, dead_letter_url, bucket, kms_key: None }).await;
    let run = RunId::new("r").unwrap();
    assert_eq!(aws.store().load(&run).await, Ok(None));
    let envelope = Envelope { message: Message { run: run.clone(), ticket: Ticket(1) }, delay: Duration::ZERO };
    aws.queue().send(&[envelope]).await.unwrap();
    let (visibility, wait) = (Duration::from_mins(1), Duration::from_secs(5));
    let got = aws.queue().receive(10, visibility, wait).await.unwrap();
    aws.queue().bury(&got[0], "no such run").await.unwrap();
    let blob = aws.blobs().put(&run, b"report").await.unwrap();
    assert_eq!(aws.blobs().get(&blob).await.unwrap(), b"report");
}
