//! The durable backend keeps what the ports promise.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::sync::{Arc, Mutex};

use stepwell_core::{BlobRef, Message};
use stepwell_local::{Local, Options};
use stepwell_report::Report;
use stepwell_testkit::ManualClock;
use stepwell_testkit::conformance::{self, Backend, Caps, Factory, Verdict};
use tempfile::TempDir;

/// Each backend in a folder of its own, which lives as long as the last one made.
#[derive(Default)]
struct InFolders {
    last: Mutex<Option<(TempDir, Local)>>,
}

#[async_trait::async_trait]
impl Factory for InFolders {
    fn name(&self) -> &'static str {
        "local"
    }

    async fn fresh(&self, clock: Arc<ManualClock>) -> Backend {
        let dir = tempfile::tempdir().unwrap();
        let local = Local::open(dir.path(), clock.clone(), Options::default()).unwrap();
        let backend = Backend { store: local.store(), queue: local.queue(), blobs: local.blobs(), clock };
        *self.last.lock().unwrap() = Some((dir, local));
        backend
    }

    fn caps(&self) -> Caps {
        Caps { tampering: true, dead_letters: true, ..Caps::default() }
    }

    async fn tamper(&self, blob: &BlobRef, with: Option<&[u8]>) {
        let last = self.last.lock().unwrap();
        let file = last.as_ref().unwrap().0.path().join("blobs").join(&blob.key);
        match with {
            Some(bytes) => fs::write(file, bytes).unwrap(),
            None => fs::remove_file(file).unwrap(),
        }
    }

    async fn dead_letters(&self) -> Vec<(Message, String)> {
        let local = self.last.lock().unwrap().as_ref().unwrap().1.clone();
        let letters = local.dead_letters(100).unwrap();
        letters.into_iter().map(|letter| (Message::parse(&letter.body).unwrap(), letter.reason)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn local_conforms() {
    let outcome = conformance::run(&InFolders::default()).await;
    let mut report = Report::new("conformance-local");
    for (name, verdict, _) in &outcome.results {
        report.check(name, *verdict == Verdict::Ok);
    }
    assert!(report.finish().unwrap(), "{:?}", outcome.failed());
    assert_eq!(outcome.passed().len(), conformance::cases().len(), "nothing is skipped");
}
