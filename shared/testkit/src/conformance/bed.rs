//! What every case stands on: a fresh backend, requests in few words, and answers compared with the definition.

use std::sync::Arc;
use std::time::Duration;

use stepwell_core::decide::{self, DueRun};
use stepwell_core::write::{Acquire, Amend, Commit, Refusal, Renew, Start, Write, WriteRequest, apply, check};
use stepwell_core::{
    CancelRequest, Checkpoint, Digest, Fence, Json, Lease, Letter, MailboxSeq, ParkReason, Payload, Place, RunId,
    SignalId, SignalName, Status, Ticket, Timestamp, Visit, Wait, WorkerId, WorkflowName,
};
use stepwell_ports::{CheckpointStore, Clock as _, Ids as _, ListQuery, Page, RunSummary, Written};

use super::{BEGIN, Backend, Factory};
use crate::{ManualClock, SeededIds};

/// How long leases last here.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// The least that time moves by.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// The end of time: where adding to a time stops.
pub(super) const END: Timestamp = Timestamp(u64::MAX);

/// A fresh backend, and how to speak to it.
pub(super) struct Bed<'a> {
    pub(super) factory: &'a dyn Factory,
    pub(super) backend: Backend,
    pub(super) store: Arc<dyn CheckpointStore>,
    pub(super) clock: Arc<ManualClock>,
    ids: SeededIds,
}

impl<'a> Bed<'a> {
    pub(super) async fn fresh(factory: &'a dyn Factory) -> Self {
        let clock = Arc::new(ManualClock::starting_at(BEGIN));
        let backend = factory.fresh(clock.clone()).await;
        Self { factory, store: backend.store.clone(), backend, clock, ids: SeededIds::new(1) }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// A request with an id of its own, made now.
    pub(super) fn request(&self, run: &RunId, write: Write) -> WriteRequest {
        WriteRequest { run: run.clone(), id: self.ids.write_id(), now: self.now(), write }
    }

    pub(super) async fn load(&self, run: &RunId) -> Option<Checkpoint> {
        self.store.load(run).await.unwrap_or_else(|error| panic!("load of {run}: {error}"))
    }

    pub(super) async fn send(&self, request: &WriteRequest) -> Written {
        self.store.write(request).await.unwrap_or_else(|error| panic!("{request:?}: {error}"))
    }

    /// Sends a request which the definition accepts. Answer and stored checkpoint are as defined.
    pub(super) async fn applies(&self, request: &WriteRequest) -> Checkpoint {
        let before = self.load(&request.run).await;
        let expected = apply(before.as_ref(), request).expect("this case is wrong: the definition refuses the write");
        let answer = self.send(request).await;
        same(&answer, &Written::Applied(Box::new(expected.clone())), || format!("the answer to {request:?}"));
        same(&self.load(&request.run).await.as_ref(), &Some(&expected), || format!("stored after {request:?}"));
        expected
    }

    /// Writes what the definition accepts, see [`Self::applies`].
    pub(super) async fn applied(&self, run: &RunId, write: Write) -> Checkpoint {
        self.applies(&self.request(run, write)).await
    }

    /// Sends a request which the definition refuses for this reason. The answer is the checkpoint that refused it, which
    /// stays as it is.
    pub(super) async fn refuses(&self, request: &WriteRequest, reason: Refusal) {
        let before = self.load(&request.run).await;
        assert_eq!(check(before.as_ref(), request), Err(reason), "this case is wrong: the definition says otherwise");
        let (answer, expected) = (self.send(request).await, Written::Refused(before.clone().map(Box::new)));
        same(&answer, &expected, || format!("the answer, to be refused for {reason:?}, to {request:?}"));
        same(&self.load(&request.run).await, &before, || format!("stored after the refused {request:?}"));
    }

    /// Writes what the definition refuses for this reason, see [`Self::refuses`].
    pub(super) async fn refused(&self, run: &RunId, write: Write, reason: Refusal) {
        self.refuses(&self.request(run, write), reason).await;
    }

    /// A run that was just started.
    pub(super) async fn started(&self, name: &str) -> Checkpoint {
        self.applied(&run(name), start("brief")).await
    }

    /// Acquires the run as it stands, for [`LEASE`].
    pub(super) async fn acquired(&self, checkpoint: &Checkpoint) -> Checkpoint {
        self.applied(&checkpoint.run, self.acquire(checkpoint.progress.ticket)).await
    }

    /// A run that was started and acquired.
    pub(super) async fn held(&self, name: &str) -> Checkpoint {
        let started = self.started(name).await;
        self.acquired(&started).await
    }

    /// Hands a held run off into this status.
    pub(super) async fn handed_off(&self, held: &Checkpoint, status: Status) -> Checkpoint {
        self.applied(&held.run, boxed(self.hand_off(held, status))).await
    }

    /// A run that was handed off into this status by its first step.
    pub(super) async fn standing(&self, name: &str, status: Status) -> Checkpoint {
        let held = self.held(name).await;
        self.handed_off(&held, status).await
    }

    pub(super) fn lease(&self, owner: &str) -> Lease {
        Lease { owner: WorkerId::new(owner).unwrap(), since: self.now(), until: self.now().plus(LEASE) }
    }

    pub(super) fn acquire(&self, ticket: Ticket) -> Write {
        Write::Acquire(Acquire { ticket, lease: self.lease("worker-1") })
    }

    /// A commit that ends a step and gives the lease back, with the ticket raised.
    pub(super) fn hand_off(&self, held: &Checkpoint, status: Status) -> Commit {
        let due_at = decide::due_at(&status, self.now());
        let mut progress = held.progress.clone();
        progress.ticket = progress.ticket.next();
        progress.revision = progress.revision.next();
        progress.visit = Visit(progress.visit.0 + 1);
        progress.status = status;
        Commit {
            fence: held.hold.fence,
            after: held.progress.revision,
            cancel_seen: held.cancel.is_some(),
            mailbox_seen: None,
            progress,
            lease: None,
            due_at,
            consumed: Vec::new(),
            appends: Vec::new(),
            segment: None,
            spill: Vec::new(),
        }
    }

    /// A commit that ends a step and keeps the lease, and with it the ticket.
    pub(super) fn carry_on(&self, held: &Checkpoint) -> Commit {
        let mut commit = self.hand_off(held, Status::Running);
        commit.progress.ticket = held.progress.ticket;
        commit.lease = Some(Lease { until: self.now().plus(LEASE), ..held.hold.lease.clone().expect("a held run") });
        commit
    }

    /// An amendment that lets a run go on.
    pub(super) fn amend(&self, seen: &Checkpoint) -> Amend {
        let commit = self.hand_off(seen, Status::Running);
        Amend {
            after: commit.after,
            progress: commit.progress,
            tried_since: Some(Timestamp(7)),
            due_at: commit.due_at,
            segment: None,
            consumed: Vec::new(),
        }
    }

    pub(super) fn cancel(&self, by: &str) -> Write {
        Write::Cancel(CancelRequest { by: by.into(), why: Some("no \"longer\" needed – ✂".into()), at: self.now() })
    }

    /// A signal with a small payload.
    pub(super) fn signal(&self, id: &str, name: &str) -> Write {
        self.signal_of(id, name, Payload::Inline(json(r#"{"yes":true}"#)))
    }

    pub(super) fn signal_of(&self, id: &str, name: &str, payload: Payload) -> Write {
        let (id, name) = (signal_id(id), signal_name(name));
        Write::Signal(Box::new(Letter { id, name, payload, at: self.now() }))
    }

    pub(super) fn completed(&self) -> Status {
        Status::Completed { output: Payload::Inline(json("\"done\"")), at: self.now() }
    }

    pub(super) fn parked(&self) -> Status {
        Status::Parked { reason: ParkReason::Data { what: "blob r/1 is missing".into() }, at: self.now() }
    }

    /// All due runs up to `until`, read in pages of `limit`.
    pub(super) async fn due(&self, until: Timestamp, limit: usize) -> Vec<DueRun> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.due(until, limit, after).await.unwrap_or_else(|error| panic!("due: {error}"));
            after = extend(&mut found, page, limit);
            if after.is_none() {
                return found;
            }
        }
    }

    /// All runs that the query lists, read in pages.
    pub(super) async fn list(&self, query: &ListQuery) -> Vec<RunSummary> {
        let (mut found, mut query) = (Vec::new(), query.clone());
        loop {
            let page = self.store.list(&query).await.unwrap_or_else(|error| panic!("list: {error}"));
            query.after = extend(&mut found, page, query.limit);
            if query.after.is_none() {
                return found;
            }
        }
    }

    /// Reads an index until it shows what is expected, for as long as it may lag.
    pub(super) async fn shows<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        expected: &T,
        read: impl AsyncFn() -> T,
    ) {
        let begun = std::time::Instant::now();
        loop {
            let found = read().await;
            if found == *expected {
                return;
            }
            let lag = self.factory.caps().index_lag;
            if begun.elapsed() >= lag {
                same(&found, expected, || what.to_owned());
            }
            tokio::time::sleep(lag / 20).await;
        }
    }
}

/// Panics where the two differ, and shows just the first place where they do: a checkpoint may have 400 KB.
pub(super) fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T, what: impl Fn() -> String) {
    if found == expected {
        return;
    }
    let texts = [format!("{found:?}"), format!("{expected:?}")];
    let alike = texts[0].chars().zip(texts[1].chars()).take_while(|(found, expected)| found == expected).count();
    let around = |text: &str| text.chars().skip(alike.saturating_sub(80)).take(240).collect::<String>();
    let what: String = what().chars().take(1_000).collect();
    panic!("{what}:\n    found    …{}…\n    expected …{}…", around(&texts[0]), around(&texts[1]));
}

/// Takes a page in; the answer is where the next begins.
fn extend<T>(found: &mut Vec<T>, page: Page<T>, limit: usize) -> Option<String> {
    assert!(page.items.len() <= limit, "a page of at most {limit} has {} items", page.items.len());
    found.extend(page.items);
    assert!(found.len() < 10_000, "the pages do not end");
    page.next
}

pub(super) fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

pub(super) fn signal_id(id: &str) -> SignalId {
    SignalId::new(id).unwrap()
}

pub(super) fn signal_name(name: &str) -> SignalName {
    SignalName::new(name).unwrap()
}

pub(super) fn json(text: &str) -> Json {
    Json::from_text(text.to_owned()).unwrap()
}

/// A JSON string that takes this many bytes.
pub(super) fn json_of(bytes: usize) -> Json {
    json(&format!("\"{}\"", "x".repeat(bytes - 2)))
}

pub(super) fn start(workflow: &str) -> Write {
    start_with(workflow, json(r#"{"goal":"büro \"7\"","n":[1,2.50,1e3]}"#))
}

pub(super) fn start_with(workflow: &str, input: Json) -> Write {
    let workflow = WorkflowName::new(workflow).unwrap();
    let input_digest = Digest::of(input.text().as_bytes());
    Write::Start(Box::new(Start {
        workflow,
        version: 3,
        input: Payload::Inline(input),
        input_digest,
        step_limit: 1_000,
    }))
}

pub(super) fn at(cursor: &str, state: Json) -> Place {
    Place::At { cursor: json(cursor), state: Payload::Inline(state) }
}

pub(super) fn boxed(commit: Commit) -> Write {
    Write::Commit(Box::new(commit))
}

pub(super) fn renew(fence: Fence, until: Timestamp) -> Write {
    Write::Renew(Renew { fence, until })
}

pub(super) fn amended(amend: Amend) -> Write {
    Write::Amend(Box::new(amend))
}

/// A wait for one signal that has seen all signals up to `seen`.
pub(super) fn waiting(on: &str, until: Option<Timestamp>, seen: MailboxSeq) -> Status {
    Status::Waiting(Wait { on: vec![signal_name(on)], approval: None, until, budget_ends: None, seen })
}
