//! What the tests stand on: one world (memory, clock, ids), programs that work in it, and a witness of every write.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;
use stepwell::{Registry, Signal, Workflow};
use stepwell_core::audit::Beside;
use stepwell_core::decide::{Resume, Rules};
use stepwell_core::history::{EntryKind, Segment};
use stepwell_core::write::{Write, WriteRequest};
use stepwell_core::{
    Checkpoint, EffectKey, EffectRecord, Failure, Json, LogId, Message, ParkReason, Phase, Revision, RunId, SignalId,
    SignalName, Status, Ticket, Timestamp, WorkerId, WorkflowName,
};
use stepwell_engine::{
    Ack, AuditPage, AuditQuery, Client, ClientError, Engine, Found, HistoryEntry, Ports, Settings, SignalAnswer,
    SignalRequest, StartRequest, TurnTime, Worker, WorkerReport, WorkerSettings,
};
use stepwell_local::memory::Memory;
use stepwell_ports::{
    CheckpointStore, Claim, Claimed, Clock, Delivery, DuePage, ListQuery, Page, RunQueue, RunSummary, StoreError,
    Written,
};
use stepwell_testkit::faults::Gate;
use stepwell_testkit::{SeededIds, VirtualClock};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The time at which every test starts: on a watchdog mark.
pub(crate) const T0: Timestamp = Timestamp(1_888_889 * 900_000);

pub(crate) const MARK: Duration = Duration::from_mins(15);

/// What the auditor allows the sweeper.
pub(crate) const GRACE: Duration = Duration::from_mins(30);

/// One world, and the program of one deployment in it.
#[derive(Clone)]
pub(crate) struct Bed {
    pub(crate) memory: Arc<Memory>,
    pub(crate) clock: Arc<VirtualClock>,
    pub(crate) ids: Arc<SeededIds>,
    pub(crate) witness: Arc<Witness>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) rules: Rules,
}

impl Bed {
    pub(crate) fn new(registry: Registry) -> Self {
        Self::seeded(registry, 1)
    }

    pub(crate) fn seeded(registry: Registry, seed: u64) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(T0));
        let memory = Arc::new(Memory::new(clock.clone()));
        let witness = Arc::new(Witness { inner: memory.clone(), seen: Mutex::default() });
        let ids = Arc::new(SeededIds::new(seed));
        Self { memory, clock, ids, witness, registry: Arc::new(registry), rules: Rules::default() }
    }

    /// Another program in the same world: a deployment.
    pub(crate) fn deployed(&self, registry: Registry) -> Self {
        Self { registry: Arc::new(registry), ..self.clone() }
    }

    pub(crate) fn ports_behind(&self, gate: &Arc<Gate>) -> Ports {
        Ports {
            store: gate.store(self.witness.clone()),
            queue: gate.queue(self.memory.clone()),
            blobs: gate.blobs(self.memory.clone()),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
        }
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine_behind(&Gate::open(), "w")
    }

    pub(crate) fn engine_behind(&self, gate: &Arc<Gate>, worker: &str) -> Engine {
        let settings = Settings { worker: WorkerId::new(worker).unwrap(), rules: self.rules };
        Engine::new(self.ports_behind(gate), self.registry.clone(), settings).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        self.client_behind(&Gate::open())
    }

    pub(crate) fn client_behind(&self, gate: &Arc<Gate>) -> Client {
        Client::new(self.ports_behind(gate), self.registry.clone())
    }

    /// A worker that goes on by itself.
    pub(crate) fn worker(&self, name: &str) -> Running {
        self.worker_behind(&Gate::open(), name, WorkerSettings::default())
    }

    pub(crate) fn worker_behind(&self, gate: &Arc<Gate>, name: &str, settings: WorkerSettings) -> Running {
        let worker = Worker::new(self.engine_behind(gate, name), settings);
        let (stop, stopped) = oneshot::channel();
        let fuse = gate.fuse().clone();
        let task = tokio::spawn(async move {
            let stop = async { stopped.await.unwrap() };
            fuse.while_alive(worker.run(stop)).await
        });
        Running { stop: Some(stop), task }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Time since the start of the test.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now().since(T0)
    }

    pub(crate) async fn start<W: Workflow>(&self, input: impl Serialize) -> RunId {
        self.client().start(request::<W>(input)).await.unwrap().run
    }

    pub(crate) async fn signal<T: Serialize>(&self, run: &RunId, signal: Signal<T>, value: T) -> SignalId {
        self.try_signal(run, signal, value, None).await.unwrap().id
    }

    pub(crate) async fn try_signal<T: Serialize>(
        &self,
        run: &RunId,
        signal: Signal<T>,
        value: T,
        id: Option<&str>,
    ) -> Result<SignalAnswer, ClientError> {
        self.client().signal(letter(run, signal, value, id)).await
    }

    pub(crate) async fn resume(&self, run: &RunId) {
        let act = Resume { by: "ann".into(), why: Some("mended".into()) };
        self.client().resume(run, &act).await.unwrap();
    }

    pub(crate) async fn checkpoint(&self, run: &RunId) -> Checkpoint {
        self.memory.load(run).await.unwrap().unwrap()
    }

    pub(crate) async fn phase(&self, run: &RunId) -> Phase {
        self.checkpoint(run).await.progress.status.phase()
    }

    pub(crate) async fn output<T: DeserializeOwned>(&self, run: &RunId) -> T {
        let checkpoint = self.checkpoint(run).await;
        let Status::Completed { output, .. } = &checkpoint.progress.status else {
            panic!("not completed: {:?}", checkpoint.progress.status)
        };
        self.client().value(output).await.unwrap().parse().unwrap()
    }

    pub(crate) async fn failure(&self, run: &RunId) -> Failure {
        match self.checkpoint(run).await.progress.status {
            Status::Failed { failure, .. } => failure,
            other => panic!("not failed: {other:?}"),
        }
    }

    pub(crate) async fn parked(&self, run: &RunId) -> ParkReason {
        match self.checkpoint(run).await.progress.status {
            Status::Parked { reason, .. } => reason,
            other => panic!("not parked: {other:?}"),
        }
    }

    pub(crate) async fn history(&self, run: &RunId) -> Vec<HistoryEntry> {
        self.client().history(run, Revision(0)).await.unwrap()
    }

    /// Steps and what became of them, as one line.
    pub(crate) async fn story(&self, run: &RunId) -> String {
        let entries = self.history(run).await;
        entries.iter().map(|e| format!("{}:{}", e.entry.step, e.entry.kind.as_str())).collect::<Vec<_>>().join(" ")
    }

    /// The next message, if one comes within this time.
    pub(crate) async fn receive(&self, wait: Duration) -> Option<Delivery> {
        self.memory.receive(1, self.rules.lease / 2, wait).await.unwrap().pop()
    }

    /// One turn on the next message.
    pub(crate) async fn turn(&self, budget: &TurnTime) -> Ack {
        let delivery = self.receive(Duration::from_hours(1)).await.expect("no message comes");
        self.work(&self.engine(), &delivery, budget).await
    }

    /// What a worker does with one message.
    pub(crate) async fn work(&self, engine: &Engine, delivery: &Delivery, budget: &TurnTime) -> Ack {
        let ack = engine.turn(&delivery.message, budget).await;
        match &ack {
            Ack::Delete => self.memory.delete(std::slice::from_ref(&delivery.receipt)).await.unwrap(),
            Ack::Bury(reason) => self.memory.bury(delivery, reason).await.unwrap(),
            Ack::Leave => {}
        }
        ack
    }

    /// Works until no message comes any more. Timers beyond the longest delay of a message are not waited for.
    pub(crate) async fn settle(&self) -> u32 {
        self.settle_with(&self.engine()).await
    }

    pub(crate) async fn settle_with(&self, engine: &Engine) -> u32 {
        let turns = self.work_off(engine).await;
        assert_eq!(self.audited().await, [], "the auditor has something to say");
        turns
    }

    /// Works until no message comes any more, in a world in which something was damaged on purpose: answers what the auditor says.
    pub(crate) async fn settle_damaged(&self) -> Vec<Found> {
        self.work_off(&self.engine()).await;
        self.audited().await
    }

    async fn work_off(&self, engine: &Engine) -> u32 {
        for turns in 0..10_000 {
            let Some(delivery) = self.receive(MARK + Duration::from_secs(1)).await else { return turns };
            self.work(engine, &delivery, &minute()).await;
        }
        panic!("the queue does not get empty")
    }

    /// Everything that the auditor finds, page by page.
    pub(crate) async fn audited(&self) -> Vec<Found> {
        self.audit(GRACE).await.findings
    }

    /// An audit of all runs.
    pub(crate) async fn audit(&self, grace: Duration) -> AuditPage {
        let mut query = AuditQuery { workflow: None, grace, limit: 2, after: None };
        let mut all = AuditPage::default();
        loop {
            all = all.plus(self.client().audit(&query).await.unwrap());
            query.after.clone_from(&all.next);
            if query.after.is_none() {
                return all;
            }
        }
    }

    /// Takes every message that lies in the queue now, delayed ones too, by waiting for them.
    pub(crate) async fn messages(&self) -> Vec<(Ticket, Duration)> {
        let mut found = Vec::new();
        let start = self.now();
        while let Some(delivery) = self.receive(MARK + Duration::from_secs(1)).await {
            found.push((delivery.message.ticket, self.now().since(start)));
            self.memory.delete(&[delivery.receipt]).await.unwrap();
        }
        found
    }

    /// Lets time pass until this holds of the run.
    pub(crate) async fn until(&self, run: &RunId, holds: impl Fn(&Checkpoint) -> bool) -> Checkpoint {
        for _ in 0..100_000 {
            let checkpoint = self.checkpoint(run).await;
            if holds(&checkpoint) {
                return checkpoint;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("it never came: {:?}", self.checkpoint(run).await)
    }

    pub(crate) async fn until_phase(&self, run: &RunId, phase: Phase) -> Checkpoint {
        self.until(run, |checkpoint| checkpoint.progress.status.phase() == phase).await
    }
}

/// A worker that goes on by itself, until this is dropped: then it is gone, at once and without a word.
pub(crate) struct Running {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Option<WorkerReport>>,
}

impl Running {
    /// Asks it to stop, and waits until it has.
    pub(crate) async fn stop(mut self) -> WorkerReport {
        self.stop.take().unwrap().send(()).unwrap();
        (&mut self.task).await.unwrap().expect("the worker has died")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn minute() -> TurnTime {
    TurnTime::of(Duration::from_mins(1))
}

/// One step a turn.
pub(crate) fn one_step() -> TurnTime {
    TurnTime::of(Duration::ZERO)
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn request<W: Workflow>(input: impl Serialize) -> StartRequest {
    StartRequest { workflow: WorkflowName::new(W::NAME).unwrap(), input: Json::of(&input).unwrap(), key: None }
}

pub(crate) fn letter<T: Serialize>(run: &RunId, signal: Signal<T>, value: T, id: Option<&str>) -> SignalRequest {
    SignalRequest {
        run: run.clone(),
        name: SignalName::new(signal.name()).unwrap(),
        payload: Json::of(&value).unwrap(),
        id: id.map(|id| SignalId::new(id).unwrap()),
    }
}

pub(crate) fn message(run: &RunId, ticket: u64) -> Message {
    Message { run: run.clone(), ticket: Ticket(ticket) }
}

pub(crate) fn count(history: &[HistoryEntry], kind: EntryKind) -> usize {
    history.iter().filter(|entry| entry.entry.kind == kind).count()
}

/// Stands directly before the memory, behind every gate: it sees each write that was applied, whoever sent it and
/// whether or not its sender heard of it.
pub(crate) struct Witness {
    inner: Arc<Memory>,
    seen: Mutex<Vec<Seen>>,
}

/// A write that was applied.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) request: WriteRequest,
    pub(crate) before: Option<Checkpoint>,
    pub(crate) after: Checkpoint,
}

impl Witness {
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// What no schedule may break, as far as one can see from the writes: commits of a run follow one another, each under
    /// the newest fence; a step ends once; counters never fall.
    pub(crate) fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for Seen { request, before, after } in self.seen() {
            let Some(before) = before else { continue };
            let run = &request.run;
            let (old, new) = (&before.progress, &after.progress);
            let mut must = |holds: bool, what: &str| {
                if !holds {
                    found.push(format!("{run} at {}: {what}", request.now));
                }
            };
            must(new.ticket >= old.ticket, "the ticket fell");
            must(after.hold.fence >= before.hold.fence, "the fence fell");
            must(after.mailbox.seq >= before.mailbox.seq, "the mailbox's number fell");
            must(before.cancel.is_none() || after.cancel == before.cancel, "a cancellation was changed");
            // A failed one is brought back by a person alone.
            let reopened = old.status.phase() == Phase::Failed && matches!(request.write, Write::Amend(_));
            must(!old.status.phase().is_ended() || reopened, "an ended run was written");
            if let Write::Commit(commit) = &request.write {
                must(commit.fence == before.hold.fence, "a commit under an old fence");
                must(new.revision == old.revision.next(), "a commit did not follow the one before it");
                must(new.visit.0 <= old.visit.0 + 1, "a commit ended two steps");
            }
            must(stepwell_core::invariants::check(&after).is_ok(), "an invariant is broken");
        }
        found
    }

    /// What the auditor says of each checkpoint that was written, at that moment.
    fn findings(&self) -> Vec<String> {
        let mut found = Vec::new();
        for Seen { request, after, .. } in self.seen() {
            let findings = stepwell_core::audit::audit(&after, &Beside::default(), request.now, GRACE);
            found
                .extend(findings.iter().map(|finding| format!("{} after {:?}: {finding}", request.run, request.write)));
        }
        found
    }
}

impl Drop for Witness {
    /// No run is ever written as the auditor would not have it, whatever the test is about.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.findings(), [""; 0], "the auditor has something to say");
        }
    }
}

#[async_trait]
impl CheckpointStore for Witness {
    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        // One write of the memory is one step of the runtime, so nothing comes in between these.
        let before = self.inner.load(&request.run).await?;
        let written = self.inner.write(request).await?;
        if let Written::Applied(after) = &written
            && before.as_ref() != Some(&**after)
        {
            let seen = Seen { request: request.clone(), before, after: (**after).clone() };
            self.seen.lock().unwrap().push(seen);
        }
        Ok(written)
    }

    async fn load(&self, run: &RunId) -> Result<Option<Checkpoint>, StoreError> {
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
