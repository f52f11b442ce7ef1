//! One world: memory, time that jumps, and the programs that work in it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stepwell::Registry;
use stepwell_core::decide::Rules;
use stepwell_core::{Timestamp, WorkerId};
use stepwell_engine::{Client, ClientError, Engine, Ports, Settings, Worker, WorkerSettings};
use stepwell_local::memory::Memory;
use stepwell_ports::{Clock, Delivery, Envelope, QueueError, Receipt, RunQueue};
use stepwell_testkit::faults::{Fate, Gate, PortCall};
use stepwell_testkit::{SeededIds, VirtualClock};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::WorldError;

/// When every world begins.
const BEGINNING: Timestamp = Timestamp(1_767_225_600_000);

/// How often overdue runs are looked for, and how long a worker waits for a message: what a quiet day costs is little.
const ROUND: Duration = Duration::from_mins(5);

/// One world, and the program of one deployment in it.
pub(crate) struct Bed {
    memory: Arc<Memory>,
    pub(crate) clock: Arc<VirtualClock>,
    ids: Arc<SeededIds>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) post: Arc<Post>,
    /// Somebody has called a port: the run may stand otherwise now.
    pub(crate) moved: Arc<Notify>,
}

impl Bed {
    /// An empty world. Belongs on a runtime with paused time.
    pub(crate) fn new(registry: Registry, clock: Arc<VirtualClock>, twice: Option<u64>) -> Self {
        let memory = Arc::new(Memory::new(clock.clone()));
        let post = Arc::new(Post { twice, ..Post::default() });
        let (ids, moved) = (Arc::new(SeededIds::new(1)), Arc::new(Notify::new()));
        Self { memory, clock, ids, registry: Arc::new(registry), post, moved }
    }

    /// A clock that shows when every world begins.
    pub(crate) fn clock() -> Arc<VirtualClock> {
        Arc::new(VirtualClock::starting_at(BEGINNING))
    }

    /// Time since the beginning.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.now().since(BEGINNING)
    }

    /// A gate that asks this plan about each call of a worker. Its sweeps find nothing: another program sweeps.
    pub(crate) fn gate(&self, mut plan: impl FnMut(u64, PortCall) -> Fate + Send + 'static) -> Arc<Gate> {
        let moved = Arc::clone(&self.moved);
        Gate::planned(move |number, call| {
            moved.notify_one();
            if call == PortCall::Due { Fate::Unavailable } else { plan(number, call) }
        })
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.ports(&Gate::open()), Arc::clone(&self.registry))
    }

    /// A worker, until this is dropped: then it is gone, at once and without a word.
    pub(crate) fn worker(&self, gate: &Arc<Gate>, name: &str) -> Result<Working, WorldError> {
        let settings = WorkerSettings { wait: ROUND, sweep_every: ROUND, ..WorkerSettings::default() };
        let worker = Worker::new(self.engine(gate, name)?, settings);
        let fuse = gate.fuse().clone();
        Ok(Working(tokio::spawn(async move {
            fuse.while_alive(worker.run(std::future::pending())).await;
        })))
    }

    /// Finds what no message remembers, and timers beyond the longest delay of a message.
    pub(crate) fn sweeper(&self) -> Result<Working, WorldError> {
        let (engine, clock) = (self.engine(&Gate::open(), "sweeper")?, Arc::clone(&self.clock));
        Ok(Working(tokio::spawn(async move {
            loop {
                // One that fails is followed by another.
                let _ = engine.sweep(ROUND * 2).await;
                clock.sleep(ROUND).await;
            }
        })))
    }

    fn engine(&self, gate: &Arc<Gate>, name: &str) -> Result<Engine, WorldError> {
        let worker = WorkerId::new(name).map_err(ClientError::from)?;
        let settings = Settings { worker, rules: Rules::default() };
        Ok(Engine::new(self.ports(gate), Arc::clone(&self.registry), settings)?)
    }

    fn ports(&self, gate: &Arc<Gate>) -> Ports {
        let queue = Postbox { memory: Arc::clone(&self.memory), post: Arc::clone(&self.post), gate: Arc::clone(gate) };
        Ports {
            store: gate.store(self.memory.clone()),
            queue: gate.queue(Arc::new(queue)),
            blobs: gate.blobs(self.memory.clone()),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
        }
    }
}

/// A program that goes on by itself.
pub(crate) struct Working(JoinHandle<()>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// All messages of a world.
#[derive(Default)]
pub(crate) struct Post {
    sent: AtomicU64,
    /// This one, counted from 1, is delivered twice.
    twice: Option<u64>,
    /// Calls of workers, by number, that have waited for a message in vain.
    in_vain: Mutex<Vec<u64>>,
}

impl Post {
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn in_vain(&self) -> Vec<u64> {
        lock(&self.in_vain).clone()
    }
}

/// The queue, as one program reaches it.
struct Postbox {
    memory: Arc<Memory>,
    post: Arc<Post>,
    gate: Arc<Gate>,
}

#[async_trait]
impl RunQueue for Postbox {
    async fn send(&self, envelopes: &[Envelope]) -> Result<(), QueueError> {
        for envelope in envelopes {
            let number = self.post.sent.fetch_add(1, Ordering::Relaxed) + 1;
            let times = if self.post.twice == Some(number) { 2 } else { 1 };
            self.memory.send(&vec![envelope.clone(); times]).await?;
        }
        Ok(())
    }

    async fn receive(&self, max: usize, visibility: Duration, wait: Duration) -> Result<Vec<Delivery>, QueueError> {
        // The gate has just counted this very call.
        let number = self.gate.total();
        let received = self.memory.receive(max, visibility, wait).await?;
        if received.is_empty() {
            lock(&self.post.in_vain).push(number);
        }
        Ok(received)
    }

    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError> {
        self.memory.delete(receipts).await
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), QueueError> {
        self.memory.extend(receipt, visibility).await
    }

    async fn bury(&self, delivery: &Delivery, reason: &str) -> Result<(), QueueError> {
        self.memory.bury(delivery, reason).await
    }
}

/// What each of these guards is whole after each of its short critical sections.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
