//! The emulators on fixed ports, with a table, two queues and a bucket, until the process is asked to end.
//!
//! `make aws-up` starts it in the background, `make aws-down` ends it. What it prints is for a shell.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of tests: its panic is the report")]

use std::fmt::Write as _;
use std::io::{self, Write as _};

use stepwell_aws::{AwsSettings, BUCKET_VARIABLE, DEAD_LETTER_VARIABLE, QUEUE_VARIABLE, TABLE_VARIABLE};
use stepwell_localaws::{Emulators, Kind, Resources, Setup};
use tokio::signal::unix::{SignalKind, signal};

const DYNAMODB_PORT: u16 = 8000;
const OTHERS_PORT: u16 = 4566;

#[tokio::main]
async fn main() {
    let (mut end, mut interrupt) = (signal(SignalKind::terminate()).unwrap(), signal(SignalKind::interrupt()).unwrap());
    let kind = Kind::from_env();
    assert!(kind != Kind::Endpoint, "there is nothing to start: AWS_ENDPOINT_URL says where AWS is played already");
    let setup = Setup { dynamodb_port: DYNAMODB_PORT, others_port: OTHERS_PORT, ..Setup::of(kind) };
    let emulators = setup.start();
    let settings = Resources::make(&emulators).await.settings;
    // In one piece: whoever waits for it sees all or nothing.
    io::stdout().write_all(in_words(&emulators, &settings).as_bytes()).unwrap();
    tokio::select! {
        _ = end.recv() => {}
        _ = interrupt.recv() => {}
    }
}

fn in_words(emulators: &Emulators, settings: &AwsSettings) -> String {
    let mut words = format!("# played by {}\n", emulators.kind());
    for (name, value) in emulators.environment() {
        writeln!(words, "export {name}={value}").unwrap();
    }
    let AwsSettings { table, queue_url, dead_letter_url, bucket, kms_key: _ } = settings;
    let made = [
        (TABLE_VARIABLE, table),
        (QUEUE_VARIABLE, queue_url),
        (DEAD_LETTER_VARIABLE, dead_letter_url),
        (BUCKET_VARIABLE, bucket),
    ];
    for (name, value) in made {
        writeln!(words, "export {name}={value}").unwrap();
    }
    words
}
