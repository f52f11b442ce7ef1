//! The AWS backend keeps what the ports promise.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use stepwell_core::{BlobRef, Message};
use stepwell_localaws::{Emulators, Resources};
use stepwell_report::Report;
use stepwell_testkit::ManualClock;
use stepwell_testkit::conformance::{self, Backend, Caps, Factory, Verdict};
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

#[tokio::test(flavor = "multi_thread")]
async fn aws_conforms() {
    let factory = OnEmulators { emulators: Emulators::start(), last: Mutex::default() };
    let outcome = conformance::run(&factory).await;
    let mut report = Report::new("conformance-aws");
    for (name, verdict, _) in &outcome.results {
        match verdict {
            Verdict::Skipped(why) => {
                report.figure(name, format!("skipped: {why}"));
            }
            Verdict::Ok | Verdict::Failed(_) => report.check(name, *verdict == Verdict::Ok),
        }
    }
    assert!(report.finish().unwrap(), "{:?}", outcome.failed());
    let queue_time = |name: &&str| !name.starts_with("queue::");
    assert_eq!(outcome.skipped().into_iter().find(queue_time), None, "only the queue's own time cannot be turned");
}
