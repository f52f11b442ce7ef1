//! The AWS backend keeps what the ports promise.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::thread;

use stepwell_core::{BlobRef, Message};
use stepwell_localaws::{Emulators, Kind, Resources, Setup};
use stepwell_report::Report;
use stepwell_testkit::ManualClock;
use stepwell_testkit::conformance::{self, Backend, Caps, Factory, Outcome, Verdict};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;

/// Each backend on resources of its own.
struct OnEmulators {
    emulators: Emulators,
    last: Mutex<Option<Resources>>,
}

#[async_trait::async_trait]
impl Factory for OnEmulators {
    fn name(&self) -> &'static str {
        "aws"
    }

    async fn fresh(&self, clock: Arc<ManualClock>) -> Backend {
        let made = Resources::make(&self.emulators).await;
        let aws = made.aws.clone();
        *self.last.lock().await = Some(made);
        Backend { store: aws.store(), queue: aws.queue(), blobs: aws.blobs(), clock }
    }

    fn caps(&self) -> Caps {
        Caps { queue_time: false, tampering: true, dead_letters: true, ..Caps::default() }
    }

    async fn tamper(&self, blob: &BlobRef, with: Option<&[u8]>) {
        let last = self.last.lock().await;
        let (s3, bucket) = last.as_ref().map(|made| (&made.s3, &made.settings.bucket)).unwrap();
        let key = format!("runs/{}", blob.key);
        match with {
            Some(bytes) => {
                s3.put_object().bucket(bucket).key(key).body(bytes.to_vec().into()).send().await.unwrap();
            }
            None => {
                s3.delete_object().bucket(bucket).key(key).send().await.unwrap();
            }
        }
    }

    async fn dead_letters(&self) -> Vec<(Message, String)> {
        let last = self.last.lock().await;
        let (sqs, url) = last.as_ref().map(|made| (&made.sqs, &made.settings.dead_letter_url)).unwrap();
        let mut letters = Vec::new();
        loop {
            let receive = sqs.receive_message().queue_url(url).message_attribute_names("All");
            let found = receive.max_number_of_messages(10).send().await.unwrap().messages.unwrap_or_default();
            if found.is_empty() {
                return letters;
            }
            for letter in found {
                let reason = letter.message_attributes.as_ref().unwrap()[stepwell_aws::REASON_ATTRIBUTE].clone();
                letters.push((Message::parse(&letter.body.unwrap()).unwrap(), reason.string_value.unwrap()));
            }
        }
    }
}

fn on(kind: Kind) -> Outcome {
    let factory = OnEmulators { emulators: Setup::of(kind).start(), last: Mutex::default() };
    Runtime::new().unwrap().block_on(conformance::run(&factory))
}

#[test]
fn aws_conforms() {
    let mut report = Report::new("conformance-aws");
    let mut other_skips = Vec::new();
    // Side by side: much of the suite waits.
    let running: Vec<_> = Kind::under_test().into_iter().map(|kind| (kind, thread::spawn(move || on(kind)))).collect();
    for (kind, outcome) in running {
        for (name, verdict, _) in &outcome.join().unwrap().results {
            let check = format!("{kind}: {name}");
            match verdict {
                Verdict::Ok => report.check(&check, true),
                Verdict::Failed(why) => report.fail(format!("{check}: {why}")),
                Verdict::Skipped(why) => {
                    report.figure(&check, format!("skipped: {why}"));
                    // Its own time cannot be turned. Nothing else may be left out.
                    other_skips.extend((!name.starts_with("queue::")).then_some(check));
                }
            }
        }
    }
    assert!(report.finish().unwrap(), "what has failed is in the report above");
    assert_eq!(other_skips, Vec::<String>::new());
}
