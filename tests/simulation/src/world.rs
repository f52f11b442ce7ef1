//! One world: its parts, how they hang together, and how it goes by.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stepwell_core::decide::Rules;
use stepwell_core::{Checkpoint, RunId, Timestamp, WorkerId};
use stepwell_engine::{Client, Engine, Ports, Settings as EngineSettings};
use stepwell_local::memory::Memory;
use stepwell_ports::{BlobStore, CheckpointStore, Clock, RunQueue};
use stepwell_testkit::broken::Broken;
use stepwell_testkit::faults::Gate;
use stepwell_testkit::{SeededIds, VirtualClock};
use tokio::sync::watch;

use crate::customers::Customer;
use crate::dice::{Deploy, Dice, SKEW, Temper, secs};
use crate::flows;
use crate::outside::{Caller, Outside};
use crate::queue::Queue;
use crate::store::Store;
use crate::tape::{Tape, Who};

/// The time at which every world begins: on a watchdog mark.
pub(crate) const T0: Timestamp = Timestamp(1_888_889 * 900_000);

/// Once nothing goes wrong any more, every run ends within this time: the longest timer of a workflow, a watchdog's mark for what no
/// message remembers, and what a deploy's parked runs and a person's rounds take.
pub(crate) const ENDS_WITHIN: Duration = secs(75 * 60);

/// What happens late has happened by then.
const REST: Duration = secs(100);

/// And the last message was delivered by then: the longest delay of one, and what the queue adds to it.
const EMPTY_WITHIN: Duration = secs(18 * 60);

/// The world.
pub(crate) struct World {
    pub(crate) tape: Arc<Tape>,
    pub(crate) dice: Dice,
    pub(crate) temper: Arc<Temper>,
    clock: VirtualClock,
    pub(crate) memory: Arc<Memory>,
    store: Arc<Store>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) outside: Arc<Outside>,
    pub(crate) deployed: watch::Sender<Deploy>,
    ids: Arc<SeededIds>,
    /// What every process of the world has of them: as they are, or as a broken engine uses them.
    used: Used,
    pub(crate) customers: Vec<Customer>,
}

struct Used {
    store: Arc<dyn CheckpointStore>,
    queue: Arc<dyn RunQueue>,
    blobs: Arc<dyn BlobStore>,
}

impl World {
    pub(crate) fn new(seed: u64, broken: Option<Broken>, traced: bool) -> Self {
        let clock = VirtualClock::starting_at(T0);
        let dice = Dice::of(seed);
        let temper = Arc::new(Temper::of(&dice, &Dice::of(seed.rotate_left(32))));
        let tape = Arc::new(Tape::new(clock, traced));
        let memory = Arc::new(Memory::new(Arc::new(clock)));
        let store = Arc::new(Store::new(Arc::clone(&memory), Arc::clone(&tape), dice.clone(), Arc::clone(&temper)));
        let queue = Arc::new(Queue::new(Arc::clone(&tape), dice.clone(), Arc::clone(&temper)));
        let outside = Arc::new(Outside::new(Arc::clone(&tape), dice.clone(), Arc::clone(&temper)));
        let (as_store, as_queue): (Arc<dyn CheckpointStore>, Arc<dyn RunQueue>) = (store.clone(), queue.clone());
        let used = match broken {
            None => Used { store: as_store, queue: as_queue, blobs: memory.clone() },
            Some(broken) => Used {
                store: broken.store(as_store),
                queue: broken.queue(as_queue),
                blobs: broken.blobs(memory.clone()),
            },
        };
        let customers = (0..temper.runs).map(|number| Customer::draw(number, &dice, &temper)).collect();
        let (deployed, ids) = (watch::Sender::new(Deploy::First), Arc::new(SeededIds::new(seed)));
        Self { tape, dice, temper, clock, memory, store, queue, outside, deployed, ids, used, customers }
    }

    /// Whether things still go wrong.
    pub(crate) fn is_rough(&self) -> bool {
        self.tape.elapsed() < self.temper.calm
    }

    /// The ports of one process, behind its gate. Its clock may be wrong.
    fn ports(&self, who: &Who, gate: &Arc<Gate>) -> Ports {
        let skew = if self.temper.skew { self.dice.within(SKEW * 2) } else { SKEW };
        let clock = Skewed { clock: self.clock, ahead: skew };
        Ports {
            store: gate.store(self.store.signed(Arc::clone(who), Arc::clone(&self.used.store))),
            queue: gate.queue(Arc::clone(&self.used.queue)),
            blobs: gate.blobs(Arc::clone(&self.used.blobs)),
            clock: gate.clock(Arc::new(clock)),
            ids: self.ids.clone(),
        }
    }

    fn caller(&self, who: &Who, gate: &Arc<Gate>) -> Caller {
        Caller { outside: Arc::clone(&self.outside), who: Arc::clone(who), gate: Arc::clone(gate) }
    }

    pub(crate) fn client(&self, who: &Who, gate: &Arc<Gate>) -> Client {
        let registry = flows::registry(*self.deployed.borrow(), &self.caller(who, gate));
        Client::new(self.ports(who, gate), registry)
    }

    /// An engine with the code of this deployment. `None`: its registry is wrong, a defect of the simulator.
    pub(crate) fn engine(&self, who: &Who, gate: &Arc<Gate>, deploy: Deploy) -> Option<Engine> {
        let settings = EngineSettings { worker: WorkerId::new(&**who).ok()?, rules: Rules::default() };
        Engine::new(self.ports(who, gate), flows::registry(deploy, &self.caller(who, gate)), settings).ok()
    }

    /// The run as it stands, whoever may know of it.
    pub(crate) async fn checkpoint(&self, run: &RunId) -> Option<Checkpoint> {
        self.memory.load(run).await.ok().flatten()
    }

    /// Lets the world go by until every run has ended, or should have.
    pub(crate) async fn go_by(&self) {
        let lives = async {
            futures_join(self.customers.iter().map(|customer| self.serve(customer))).await;
        };
        let limit = tokio::time::sleep(self.temper.calm + ENDS_WITHIN);
        let others = async {
            tokio::join!(self.crew(), self.bury_the_dead(), self.weather(), self.look_after_all());
        };
        tokio::select! {
            biased;
            () = async {
                tokio::select! {
                    biased;
                    () = lives => {}
                    () = limit => {}
                }
                self.tape.tell("world", || "every run has ended, or should have".into());
                // What happens late happens now, with workers about.
                tokio::time::sleep(REST).await;
                for _ in 0..EMPTY_WITHIN.as_secs() / REST.as_secs() {
                    if self.queue.len() > 0 {
                        tokio::time::sleep(REST).await;
                    }
                }
            } => {}
            () = others => {}
        }
    }
}

/// All of them, at once.
pub(crate) async fn futures_join<F: Future<Output = ()>>(futures: impl Iterator<Item = F>) {
    let mut running: Vec<_> = futures.map(Box::pin).map(Some).collect();
    std::future::poll_fn(|context| {
        let mut open = false;
        for slot in &mut running {
            if let Some(future) = slot {
                if future.as_mut().poll(context).is_ready() {
                    *slot = None;
                } else {
                    open = true;
                }
            }
        }
        if open { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
}

/// A clock that is wrong.
struct Skewed {
    clock: VirtualClock,
    /// By this much less [`SKEW`]: both signs.
    ahead: Duration,
}

#[async_trait]
impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        Timestamp(self.clock.now().plus(self.ahead).0 - stepwell_core::time::millis(SKEW))
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
