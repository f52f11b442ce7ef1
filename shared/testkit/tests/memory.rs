//! The in-memory twin keeps what the ports promise, and its bounds.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use stepwell_core::write::{Acquire, Commit, LogAppend, Start, Write, WriteRequest};
use stepwell_core::{
    BlobRef, Digest, EffectKey, Json, Lease, LogId, Message, Payload, RunId, Scope, Ticket, Timestamp, WorkerId,
    WorkflowName, WriteId,
};
use stepwell_local::memory::{Bounds, Memory};
use stepwell_ports::{
    BlobError, BlobStore, CheckpointStore, Claim, Claimed, Envelope, QueueError, RunQueue, StoreError, Written,
};
use stepwell_report::Report;
use stepwell_testkit::ManualClock;
use stepwell_testkit::conformance::{self, Backend, Caps, Factory, Verdict};

#[derive(Default)]
struct InMemory {
    last: Mutex<Option<Arc<Memory>>>,
}

impl InMemory {
    fn last(&self) -> Arc<Memory> {
        self.last.lock().unwrap().clone().unwrap()
    }
}

#[async_trait::async_trait]
impl Factory for InMemory {
    fn name(&self) -> &'static str {
        "memory"
    }

    async fn fresh(&self, clock: Arc<ManualClock>) -> Backend {
        let memory = Arc::new(Memory::new(clock.clone()));
        *self.last.lock().unwrap() = Some(memory.clone());
        Backend { store: memory.clone(), queue: memory.clone(), blobs: memory, clock }
    }

    fn caps(&self) -> Caps {
        Caps { tampering: true, dead_letters: true, ..Caps::default() }
    }

    async fn tamper(&self, blob: &BlobRef, with: Option<&[u8]>) {
        self.last().damage(blob, with.map(<[u8]>::to_vec));
    }

    async fn dead_letters(&self) -> Vec<(Message, String)> {
        self.last().dead_letters().into_iter().map(|dead| (dead.message, dead.reason)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_conforms() {
    let outcome = conformance::run(&InMemory::default()).await;
    let mut report = Report::new("conformance-memory");
    for (name, verdict, _) in &outcome.results {
        report.check(name, *verdict == Verdict::Ok);
    }
    assert!(report.finish().unwrap(), "{:?}", outcome.failed());
    assert_eq!(outcome.passed().len(), conformance::cases().len(), "nothing is skipped");
}

/// As small as it gets: two of everything, ten bytes of blobs.
fn small() -> Memory {
    let bounds = Bounds { runs: 2, items: 2, messages: 2, blob_bytes: 10 };
    Memory::bounded(Arc::new(ManualClock::starting_at(Timestamp(1_000))), bounds)
}

fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

fn request(name: &str, id: u64, write: Write) -> WriteRequest {
    WriteRequest { run: run(name), id: WriteId(id), now: Timestamp(1_000), write }
}

fn start() -> Write {
    Write::Start(Box::new(Start {
        workflow: WorkflowName::new("brief").unwrap(),
        version: 1,
        input: Payload::Inline(Json::of(&1).unwrap()),
        input_digest: Digest::of(b"1"),
        step_limit: 10,
    }))
}

#[tokio::test]
async fn a_full_memory_takes_no_further_run_and_keeps_those_it_has() {
    let memory = small();
    for name in ["a", "b"] {
        assert!(matches!(memory.write(&request(name, 1, start())).await, Ok(Written::Applied(_))));
    }
    let error = memory.write(&request("c", 1, start())).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store is not available: the memory holds 2 runs, which is its bound; nothing was written"
    );
    assert_eq!(memory.load(&run("c")).await, Ok(None));
    let until = Timestamp(9_000);
    let lease = Lease { owner: WorkerId::new("worker-1").unwrap(), since: Timestamp(1_000), until };
    let acquire = Write::Acquire(Acquire { ticket: Ticket(1), lease });
    assert!(matches!(memory.write(&request("a", 2, acquire)).await, Ok(Written::Applied(_))));
}

#[tokio::test]
async fn a_full_memory_takes_no_further_log_entries() {
    let memory = small();
    memory.write(&request("a", 1, start())).await.unwrap();
    let until = Timestamp(9_000);
    let lease = Lease { owner: WorkerId::new("worker-1").unwrap(), since: Timestamp(1_000), until };
    let acquire = Write::Acquire(Acquire { ticket: Ticket(1), lease: lease.clone() });
    let Ok(Written::Applied(held)) = memory.write(&request("a", 2, acquire)).await else { panic!("not acquired") };
    let commit = |entries: usize| {
        let entries = vec![Json::of("entry").unwrap(); entries];
        Write::Commit(Box::new(Commit {
            fence: held.hold.fence,
            after: held.progress.revision,
            cancel_seen: false,
            mailbox_seen: None,
            progress: held.progress.clone(),
            lease: Some(lease.clone()),
            due_at: held.due_at,
            consumed: Vec::new(),
            appends: vec![LogAppend { log: LogId(0), first: 0, entries }],
            segment: None,
            spill: Vec::new(),
        }))
    };
    assert!(matches!(memory.write(&request("a", 3, commit(3))).await, Err(StoreError::Unavailable(_))));
    assert_eq!(memory.load(&run("a")).await, Ok(Some(*held.clone())), "nothing was written");
    assert_eq!(memory.log(&run("a"), LogId(0), 0, 9).await, Ok(Vec::new()));
    assert!(matches!(memory.write(&request("a", 4, commit(2))).await, Ok(Written::Applied(_))));
}

#[tokio::test]
async fn a_full_memory_takes_no_further_claim_and_keeps_those_it_has() {
    let memory = small();
    let workflow = WorkflowName::new("refund").unwrap();
    let key = |order| EffectKey::derive(&run("a"), &workflow, "refund", Scope::Business(order));
    let claim = |order, by, instead_of| Claim { key: key(order), by: run(by).into(), instead_of };
    for order in ["1", "2", "1"] {
        assert_eq!(memory.claim(&claim(order, "a", None)).await, Ok(Claimed::Mine));
    }
    assert!(matches!(memory.claim(&claim("3", "a", None)).await, Err(StoreError::Unavailable(_))));
    assert_eq!(memory.claim(&claim("1", "b", None)).await, Ok(Claimed::Of(run("a").into())));
    assert_eq!(memory.claim(&claim("1", "b", Some(run("a").into()))).await, Ok(Claimed::Mine), "it takes no room");
}

#[tokio::test]
async fn a_full_memory_takes_no_further_message() {
    let memory = small();
    let envelope = Envelope { message: Message { run: run("a"), ticket: Ticket(1) }, delay: Duration::ZERO };
    let batch = vec![envelope.clone(); 3];
    assert!(matches!(memory.send(&batch).await, Err(QueueError::Unavailable(_))));
    assert_eq!(memory.receive(9, Duration::ZERO, Duration::ZERO).await, Ok(Vec::new()), "nothing was sent");
    memory.send(&batch[..2]).await.unwrap();
    let delivery = memory.receive(1, Duration::from_secs(1), Duration::ZERO).await.unwrap().remove(0);
    // A dead letter takes the place of its message, and keeps it.
    memory.bury(&delivery, "no such run").await.unwrap();
    assert!(matches!(memory.send(&[envelope]).await, Err(QueueError::Unavailable(_))));
}

#[tokio::test]
async fn a_full_memory_takes_no_further_blob() {
    let memory = small();
    let blob = memory.put(&run("a"), b"12345678").await.unwrap();
    assert!(matches!(memory.put(&run("a"), b"123").await, Err(BlobError::Unavailable(_))));
    assert_eq!(memory.put(&run("a"), b"12345678").await, Ok(blob), "what is there already takes no room");
    memory.delete_run(&run("a")).await.unwrap();
    memory.put(&run("a"), b"123").await.unwrap();
}
