//! What the tests stand on: an engine over memory in virtual time, and events in the form in which Lambda delivers them.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use serde_json::{Value, json};
use stepwell::Registry;
use stepwell_core::decide::Rules;
use stepwell_core::history::Segment;
use stepwell_core::write::WriteRequest;
use stepwell_core::{
    Checkpoint, EffectKey, EffectRecord, Json, LogId, Message, Revision, RunId, Timestamp, WorkerId, WorkflowName,
};
use stepwell_engine::{Client, Engine, Ports, Settings, StartRequest};
use stepwell_local::memory::Memory;
use stepwell_ports::{
    CheckpointStore, Claim, Claimed, Clock, Delivery, DuePage, ListQuery, Page, RunQueue, RunSummary, StoreError,
    Written,
};
use stepwell_testkit::faults::Gate;
use stepwell_testkit::{SeededIds, VirtualClock};

pub(crate) const T0: Timestamp = Timestamp(1_888_889 * 900_000);

pub(crate) const MESSAGES: &str = include_str!("../fixtures/messages.json");
pub(crate) const DEAD_LETTERS: &str = include_str!("../fixtures/dead-letters.json");

/// One world: memory, a clock that a test turns, and one program's workflows.
pub(crate) struct Bed {
    pub(crate) memory: Arc<Memory>,
    pub(crate) clock: Arc<VirtualClock>,
    ids: Arc<SeededIds>,
    registry: Arc<Registry>,
}

impl Bed {
    pub(crate) fn new(registry: Registry) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(T0));
        let memory = Arc::new(Memory::new(clock.clone()));
        Self { memory, clock, ids: Arc::new(SeededIds::new(1)), registry: Arc::new(registry) }
    }

    pub(crate) fn ports(&self, gate: &Arc<Gate>, store: Arc<dyn CheckpointStore>) -> Ports {
        Ports {
            store: gate.store(store),
            queue: gate.queue(self.memory.clone()),
            blobs: gate.blobs(self.memory.clone()),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
        }
    }

    pub(crate) fn engine(&self, gate: &Arc<Gate>) -> Engine {
        self.engine_on(gate, self.memory.clone())
    }

    pub(crate) fn engine_on(&self, gate: &Arc<Gate>, store: Arc<dyn CheckpointStore>) -> Engine {
        let settings = Settings { worker: WorkerId::new("lambda-1").unwrap(), rules: Rules::default() };
        Engine::new(self.ports(gate, store), self.registry.clone(), settings).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.ports(&Gate::open(), self.memory.clone()), self.registry.clone())
    }

    pub(crate) async fn start(&self, workflow: &str, input: impl serde::Serialize) -> RunId {
        let (workflow, input) = (WorkflowName::new(workflow).unwrap(), Json::of(&input).unwrap());
        self.client().start(StartRequest { workflow, input, key: None }).await.unwrap().run
    }

    /// Takes what is visible now, as Lambda does: at most ten, hidden for six minutes.
    pub(crate) async fn receive(&self) -> Vec<Delivery> {
        self.memory.receive(10, Duration::from_mins(6), Duration::ZERO).await.unwrap()
    }

    /// What Lambda does with the answer: it deletes what is not named.
    pub(crate) async fn acknowledge(&self, deliveries: &[Delivery], response: &SqsBatchResponse) {
        for (number, delivery) in deliveries.iter().enumerate() {
            if !failed(response).contains(&id(number)) {
                self.memory.delete(std::slice::from_ref(&delivery.receipt)).await.unwrap();
            }
        }
    }

    pub(crate) async fn checkpoint(&self, run: &RunId) -> Checkpoint {
        self.memory.load(run).await.unwrap().unwrap()
    }

    pub(crate) async fn story(&self, run: &RunId) -> String {
        let entries = self.client().history(run, Revision(0)).await.unwrap();
        entries.iter().map(|e| format!("{}:{}", e.entry.step, e.entry.kind.as_str())).collect::<Vec<_>>().join(" ")
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.now().since(T0)
    }
}

/// A record's id, by its place in the batch.
pub(crate) fn id(number: usize) -> String {
    format!("m{number}")
}

/// The first record of a fixture, as often as there are bodies, with their receipts.
pub(crate) fn records<'a>(fixture: &str, bodies: impl IntoIterator<Item = (&'a str, String)>) -> SqsEvent {
    let fixture: Value = serde_json::from_str(fixture).unwrap();
    let bodies = bodies.into_iter().enumerate();
    let records: Vec<Value> = bodies
        .map(|(number, (receipt, body))| {
            let mut record = fixture["Records"][0].clone();
            (record["messageId"], record["receiptHandle"]) = (json!(id(number)), json!(receipt));
            record["body"] = json!(body);
            record
        })
        .collect();
    serde_json::from_value(json!({ "Records": records })).unwrap()
}

/// The batch that Lambda makes of these.
pub(crate) fn batch(deliveries: &[Delivery]) -> SqsEvent {
    records(MESSAGES, deliveries.iter().map(|delivery| (delivery.receipt.0.as_str(), delivery.message.to_text())))
}

/// A batch of bodies that lie in no queue.
pub(crate) fn bodies<const N: usize>(bodies: [&str; N]) -> SqsEvent {
    records(MESSAGES, bodies.map(|body| ("gone", body.to_owned())))
}

pub(crate) fn text(run: &RunId, ticket: u64) -> String {
    Message { run: run.clone(), ticket: stepwell_core::Ticket(ticket) }.to_text()
}

/// The ids that a response names.
pub(crate) fn failed(response: &SqsBatchResponse) -> Vec<String> {
    response.batch_item_failures.iter().map(|failure| failure.item_identifier.clone()).collect()
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A store in which one run was written by newer code.
pub(crate) struct Newer {
    pub(crate) inner: Arc<Memory>,
    pub(crate) run: RunId,
}

impl Newer {
    fn check(&self, run: &RunId) -> Result<(), StoreError> {
        if *run == self.run {
            return Err(StoreError::Damaged(format!("run {run}: the checkpoint has format 2")));
        }
        Ok(())
    }
}

#[async_trait]
impl CheckpointStore for Newer {
    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        self.check(&request.run)?;
        self.inner.write(request).await
    }

    async fn load(&self, run: &RunId) -> Result<Option<Checkpoint>, StoreError> {
        self.check(run)?;
        self.inner.load(run).await
    }

    async fn log(&self, run: &RunId, log: LogId, first: u64, limit: usize) -> Result<Vec<Json>, StoreError> {
        self.inner.log(run, log, first, limit).await
    }

    async fn effect(&self, run: &RunId, key: &EffectKey) -> Result<Option<EffectRecord>, StoreError> {
        self.inner.effect(run, key).await
    }

    async fn history(&self, run: &RunId, from: Revision, limit: usize) -> Result<Vec<Segment>, StoreError> {
        self.inner.history(run, from, limit).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        self.inner.claim(claim).await
    }

    async fn due(&self, until: Timestamp, limit: usize, after: Option<String>) -> Result<DuePage, StoreError> {
        self.inner.due(until, limit, after).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<RunSummary>, StoreError> {
        self.inner.list(query).await
    }
}
