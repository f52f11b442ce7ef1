//! One world, and the API before it. Making the API takes long, so it is made once; what lies behind it is new for each input.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use stepwell_core::decide::Rules;
use stepwell_core::history::Segment;
use stepwell_core::link::LinkKeys;
use stepwell_core::write::WriteRequest;
use stepwell_core::{
    BlobRef, Checkpoint, Digest, EffectKey, EffectRecord, Json, LogId, Revision, RunId, SignalId, Timestamp, WorkerId,
    WriteId,
};
use stepwell_engine::{Ack, Client, Engine, Ports, Settings, TurnTime};
use stepwell_http::{Access, Actor, Api, Limits, Site};
use stepwell_local::memory::Memory;
use stepwell_ports::{
    BlobError, BlobStore, CheckpointStore, Claim, Claimed, Clock, Delivery, DuePage, Envelope, Ids, ListQuery, Page,
    QueueError, Receipt, RunQueue, RunSummary, StoreError, Written,
};
use stepwell_testkit::{SeededIds, VirtualClock};
use tokio::runtime::{Builder, Runtime};

use crate::sample::registry;

/// Where this machine's own requests go.
pub(crate) const PORT: u16 = 8_080;

/// Opens the API to look at it.
pub(crate) const VIEWER_KEY: &str = "a key of somebody who looks";

/// What signs links, besides the API itself.
pub(crate) const SIGNING: &str = "k1=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// Ahead of the machine's clock, by which the API tells whether a lease is over.
const START: Timestamp = Timestamp(4_444_444 * 900_000);

/// A world with its API, for whoever it serves.
pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) behind: Arc<Behind>,
    pub(crate) client: Client,
    engine: Engine,
    local: Router,
    keyed: Router,
}

/// The ports.
pub(crate) struct Behind {
    now: Mutex<Now>,
}

struct Now {
    memory: Arc<Memory>,
    clock: Arc<VirtualClock>,
    ids: Arc<SeededIds>,
    /// The last list that was asked for.
    asked: Option<ListQuery>,
}

impl World {
    pub(crate) fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let entered = runtime.enter();
        let behind = Arc::new(Behind { now: Mutex::new(Now::new()) });
        let ports = Ports {
            store: behind.clone(),
            queue: behind.clone(),
            blobs: behind.clone(),
            clock: behind.clone(),
            ids: behind.clone(),
        };
        let settings = Settings { worker: WorkerId::new("w").unwrap(), rules: Rules::default() };
        let engine = Engine::new(ports.clone(), registry(), settings).unwrap();
        let client = Client::new(ports, registry());
        let digest = Digest::of(VIEWER_KEY.as_bytes());
        let site = Site { streams: false, base_url: None, local: false };
        let of = |access: Access, site: Site| {
            let access = access.with_clock(behind.clone()).with_link_keys(LinkKeys::from_text(SIGNING).unwrap());
            stepwell_http::router(Api { client: client.clone(), access: access.with_limits(Limits::none()), site })
        };
        let actor = Actor::named("you").with_role("admin").with_role("finance");
        let local = of(Access::local(actor, PORT), Site { local: true, ..site.clone() });
        let keyed = of(Access::from_text(&format!("val:viewer={digest}")).unwrap(), site);
        drop(entered);
        Self { runtime, behind, client, engine, local, keyed }
    }

    /// An empty world, at the beginning of time.
    pub(crate) fn renew(&self) {
        let _entered = self.runtime.enter();
        *self.behind.now.lock().unwrap_or_else(PoisonError::into_inner) = Now::new();
    }

    /// The API, as this machine's own or for those who have a key.
    pub(crate) fn app(&self, is_local: bool) -> Router {
        if is_local { self.local.clone() } else { self.keyed.clone() }
    }

    /// Works until no message is there, or for so many turns.
    pub(crate) async fn work(&self, turns: usize) {
        let memory = self.behind.memory();
        for _ in 0..turns {
            let Some(delivery) = memory.receive(1, Duration::from_mins(1), Duration::ZERO).await.unwrap().pop() else {
                return;
            };
            match self.engine.turn(&delivery.message, &TurnTime::of(Duration::from_mins(1))).await {
                Ack::Delete => memory.delete(&[delivery.receipt]).await.unwrap(),
                Ack::Bury(reason) => panic!("{} is buried: {reason}", delivery.message.run),
                Ack::Leave => {}
            }
        }
    }

    /// Everything that is stored: each checkpoint, and how many messages and blobs there are.
    pub(crate) async fn all(&self) -> (String, Vec<Checkpoint>) {
        let memory = self.behind.memory();
        let page = memory.list(&ListQuery { limit: 1_000, ..ListQuery::default() }).await.unwrap();
        let mut runs = Vec::new();
        for summary in page.items {
            runs.push(memory.load(&summary.run).await.unwrap().unwrap());
        }
        (format!("{memory:?}"), runs)
    }
}

impl Behind {
    pub(crate) fn memory(&self) -> Arc<Memory> {
        self.get(|now| Arc::clone(&now.memory))
    }

    /// What list the API has asked for last.
    pub(crate) fn asked(&self) -> Option<ListQuery> {
        self.get(|now| now.asked.take())
    }

    fn get<T>(&self, what: impl FnOnce(&mut Now) -> T) -> T {
        what(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Now {
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::starting_at(START));
        Self { memory: Arc::new(Memory::new(clock.clone())), clock, ids: Arc::new(SeededIds::new(1)), asked: None }
    }
}

/// Text as it stands in a query, every byte of it escaped.
pub(crate) fn escaped(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut escaped, byte| {
        write!(escaped, "%{byte:02X}").unwrap();
        escaped
    })
}

#[async_trait]
impl CheckpointStore for Behind {
    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        self.memory().write(request).await
    }

    async fn load(&self, run: &RunId) -> Result<Option<Checkpoint>, StoreError> {
        self.memory().load(run).await
    }

    async fn log(&self, run: &RunId, log: LogId, first: u64, limit: usize) -> Result<Vec<Json>, StoreError> {
        self.memory().log(run, log, first, limit).await
    }

    async fn effect(&self, run: &RunId, key: &EffectKey) -> Result<Option<EffectRecord>, StoreError> {
        self.memory().effect(run, key).await
    }

    async fn history(&self, run: &RunId, from: Revision, limit: usize) -> Result<Vec<Segment>, StoreError> {
        self.memory().history(run, from, limit).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        self.memory().claim(claim).await
    }

    async fn due(&self, until: Timestamp, limit: usize, after: Option<String>) -> Result<DuePage, StoreError> {
        self.memory().due(until, limit, after).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<RunSummary>, StoreError> {
        self.get(|now| now.asked = Some(query.clone()));
        self.memory().list(query).await
    }
}

#[async_trait]
impl RunQueue for Behind {
    async fn send(&self, envelopes: &[Envelope]) -> Result<(), QueueError> {
        self.memory().send(envelopes).await
    }

    async fn receive(&self, max: usize, visibility: Duration, wait: Duration) -> Result<Vec<Delivery>, QueueError> {
        self.memory().receive(max, visibility, wait).await
    }

    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError> {
        self.memory().delete(receipts).await
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), QueueError> {
        self.memory().extend(receipt, visibility).await
    }

    async fn bury(&self, delivery: &Delivery, reason: &str) -> Result<(), QueueError> {
        self.memory().bury(delivery, reason).await
    }
}

#[async_trait]
impl BlobStore for Behind {
    async fn put(&self, run: &RunId, bytes: &[u8]) -> Result<BlobRef, BlobError> {
        self.memory().put(run, bytes).await
    }

    async fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, BlobError> {
        self.memory().get(blob).await
    }

    async fn delete_run(&self, run: &RunId) -> Result<(), BlobError> {
        self.memory().delete_run(run).await
    }
}

#[async_trait]
impl Clock for Behind {
    fn now(&self) -> Timestamp {
        self.get(|now| now.clock.now())
    }

    async fn sleep(&self, duration: Duration) {
        let clock = self.get(|now| Arc::clone(&now.clock));
        clock.sleep(duration).await;
    }
}

impl Ids for Behind {
    fn run_id(&self) -> RunId {
        self.get(|now| now.ids.run_id())
    }

    fn signal_id(&self) -> SignalId {
        self.get(|now| now.ids.signal_id())
    }

    fn write_id(&self) -> WriteId {
        self.get(|now| now.ids.write_id())
    }

    fn random(&self) -> u64 {
        self.get(|now| now.ids.random())
    }
}
