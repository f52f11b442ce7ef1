//! Writes for tests: a run, its lease, its steps.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use stepwell_core::write::{Acquire, Commit, LogAppend, Start, Write, WriteRequest};
use stepwell_core::{
    Checkpoint, Digest, Json, Lease, Letter, LogId, Payload, Place, RunId, SignalId, SignalName, Status, Timestamp,
    WorkerId, WorkflowName, WriteId,
};
use stepwell_local::{Local, Options};
use stepwell_ports::system::SystemClock;
use stepwell_ports::{CheckpointStore, StoreError, Written};

/// When every write of a test happens.
pub(crate) const NOW: Timestamp = Timestamp(1_700_000_000_123);

pub(crate) fn open(dir: &Path) -> Local {
    Local::open(dir, Arc::new(SystemClock), Options::default()).unwrap()
}

/// The database itself, behind the backend's back.
pub(crate) fn database(dir: &Path) -> Connection {
    Connection::open(dir.join("stepwell.db")).unwrap()
}

pub(crate) fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

pub(crate) fn request(run: &RunId, write: Write) -> WriteRequest {
    WriteRequest { run: run.clone(), id: WriteId(fastrand::u64(1..)), now: NOW, write }
}

pub(crate) async fn write(local: &Local, run: &RunId, write: Write) -> Result<Written, StoreError> {
    local.write(&request(run, write)).await
}

pub(crate) async fn applied(local: &Local, run: &RunId, what: Write) -> Checkpoint {
    match write(local, run, what).await.unwrap() {
        Written::Applied(checkpoint) => *checkpoint,
        Written::Refused(by) => panic!("refused by {by:?}"),
    }
}

/// A start with an input of about this many bytes.
pub(crate) fn start(input: usize) -> Write {
    Write::Start(Box::new(Start {
        workflow: WorkflowName::new("brief").unwrap(),
        version: 1,
        input: Payload::Inline(Json::of(&"x".repeat(input)).unwrap()),
        input_digest: Digest::of(b"input"),
        step_limit: 1_000_000,
    }))
}

pub(crate) fn acquire(before: &Checkpoint) -> Write {
    let owner = WorkerId::new("worker-1").unwrap();
    let lease = Lease { owner, since: NOW, until: NOW.plus(Duration::from_mins(1)) };
    Write::Acquire(Acquire { ticket: before.progress.ticket, lease })
}

/// A run that was started and is held.
pub(crate) async fn held(local: &Local, name: &str) -> Checkpoint {
    let run = run(name);
    let started = applied(local, &run, start(100)).await;
    applied(local, &run, acquire(&started)).await
}

/// The commit of one more step, which is kept, and appends one entry to its log.
pub(crate) fn step(held: &Checkpoint) -> Commit {
    let mut progress = held.progress.clone();
    progress.revision = progress.revision.next();
    progress.visit.0 += 1;
    progress.status = Status::Running;
    let (Place::Fresh { input: state, .. } | Place::At { state, .. }) = progress.place;
    progress.place = Place::At { cursor: Json::of(&format!("Step{}", progress.visit.0)).unwrap(), state };
    let entry = Json::of(&progress.revision.0).unwrap();
    Commit {
        fence: held.hold.fence,
        after: held.progress.revision,
        cancel_seen: held.cancel.is_some(),
        mailbox_seen: None,
        appends: vec![LogAppend { log: LogId(0), first: held.progress.revision.0, entries: vec![entry] }],
        progress,
        lease: held.hold.lease.clone(),
        due_at: Some(NOW.next_mark()),
        consumed: Vec::new(),
        segment: None,
        spill: Vec::new(),
    }
}

pub(crate) fn commit(commit: Commit) -> Write {
    Write::Commit(Box::new(commit))
}

pub(crate) fn signal(id: &str) -> Write {
    let name = SignalName::new("chat").unwrap();
    let payload = Payload::Inline(Json::of("hello").unwrap());
    Write::Signal(Box::new(Letter { id: SignalId::new(id).unwrap(), name, payload, at: NOW }))
}
