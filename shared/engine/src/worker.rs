//! A long-running worker: takes messages off the queue, works many runs at once, keeps its messages hidden meanwhile,
//! sweeps, and stops gracefully.

use core::future::Future;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_ports::Delivery;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::engine::{Ack, Engine, StopFlag, TurnTime};

/// How a worker works.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Runs worked at once.
    pub concurrency: usize,
    /// How long a turn goes on with further steps of its run.
    pub turn: Duration,
    /// How long one `receive` waits for a message.
    pub wait: Duration,
    /// How often it sweeps. It looks twice as far ahead.
    pub sweep_every: Duration,
    /// How long it waits for turns in progress when it is to stop.
    pub grace: Duration,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            concurrency: 256,
            turn: Duration::from_mins(1),
            wait: Duration::from_secs(1),
            sweep_every: Duration::from_secs(15),
            grace: Duration::from_secs(20),
        }
    }
}

/// What a worker has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerReport {
    /// Messages worked.
    pub turns: u64,
    /// Messages that went to the dead-letter queue.
    pub buried: u64,
    /// Turns that were still in progress when the grace was over. Their runs go on when their leases run out.
    pub abandoned: u64,
}

/// Messages of one `receive`, at most.
const BATCH_MAX: usize = 64;

/// A pause after the queue has failed.
const QUEUE_PAUSE: Duration = Duration::from_millis(500);

/// A long-running worker.
pub struct Worker {
    engine: Engine,
    settings: WorkerSettings,
    turns: AtomicU64,
    buried: AtomicU64,
}

impl Worker {
    /// A worker around this engine.
    pub fn new(engine: Engine, settings: WorkerSettings) -> Arc<Self> {
        Arc::new(Self { engine, settings, turns: AtomicU64::new(0), buried: AtomicU64::new(0) })
    }

    /// Works until `stop` resolves. Then it takes no more messages, lets each run hand off after its current step, and
    /// returns when they have, or when the grace is over.
    pub async fn run(self: Arc<Self>, stop: impl Future<Output = ()> + Send) -> WorkerReport {
        let stopping = StopFlag::default();
        let slots = Arc::new(Semaphore::new(self.settings.concurrency.max(1)));
        let mut turns = JoinSet::new();
        // Each of these asks in its order, so that a schedule in virtual time can be played again.
        tokio::select! {
            biased;
            () = stop => {}
            () = self.take(&slots, &stopping, &mut turns) => {}
            () = self.sweep_for_ever() => {}
        }
        stopping.set();
        let clock = &self.engine.ports.clock;
        tokio::select! {
            biased;
            () = async { while turns.join_next().await.is_some() {} } => {}
            () = clock.sleep(self.settings.grace) => {}
        }
        let abandoned = turns.len() as u64;
        turns.abort_all();
        WorkerReport {
            turns: self.turns.load(Ordering::Relaxed),
            buried: self.buried.load(Ordering::Relaxed),
            abandoned,
        }
    }

    async fn take(self: &Arc<Self>, slots: &Arc<Semaphore>, stopping: &StopFlag, turns: &mut JoinSet<()>) {
        loop {
            // One slot for sure, more if there are: a batch never holds messages that nobody works on.
            let Ok(first) = Arc::clone(slots).acquire_owned().await else { return };
            let mut permits = vec![first];
            while permits.len() < BATCH_MAX {
                let Ok(permit) = Arc::clone(slots).try_acquire_owned() else { break };
                permits.push(permit);
            }
            match self.engine.ports.queue.receive(permits.len(), self.visibility(), self.settings.wait).await {
                Ok(deliveries) => {
                    for (delivery, permit) in deliveries.into_iter().zip(permits) {
                        let (worker, stopping) = (Arc::clone(self), stopping.clone());
                        turns.spawn(async move { worker.work(delivery, stopping, permit).await });
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "no messages could be taken");
                    self.engine.ports.clock.sleep(QUEUE_PAUSE).await;
                }
            }
            while turns.try_join_next().is_some() {}
        }
    }

    async fn work(&self, delivery: Delivery, stop: StopFlag, _slot: OwnedSemaphorePermit) {
        let time = TurnTime { soft: self.settings.turn, hard: None, stop };
        let ack = {
            let turn = self.engine.turn(&delivery.message, &time);
            tokio::select! {
                biased;
                ack = turn => ack,
                () = self.keep_hidden(&delivery) => return,
            }
        };
        self.turns.fetch_add(1, Ordering::Relaxed);
        let queue = &self.engine.ports.queue;
        let done = match &ack {
            Ack::Delete => queue.delete(std::slice::from_ref(&delivery.receipt)).await,
            Ack::Bury(reason) => {
                self.buried.fetch_add(1, Ordering::Relaxed);
                tracing::error!(run = %delivery.message.run, reason, code = "buried", "a message goes to the dead letters");
                queue.bury(&delivery, reason).await
            }
            Ack::Leave => Ok(()),
        };
        if let Err(error) = done {
            tracing::warn!(run = %delivery.message.run, %error, "a message could not be settled; it comes again");
        }
    }

    /// Half a lease: should this process die, its messages come again before its leases run out, and each is then sent on
    /// to the very moment at which its run may be acquired.
    fn visibility(&self) -> Duration {
        self.engine.settings().rules.lease / 2
    }

    async fn keep_hidden(&self, delivery: &Delivery) {
        loop {
            self.engine.ports.clock.sleep(self.visibility() / 3).await;
            if let Err(error) = self.engine.ports.queue.extend(&delivery.receipt, self.visibility()).await {
                tracing::warn!(run = %delivery.message.run, %error, "a message may come again while it is worked on");
            }
        }
    }

    async fn sweep_for_ever(&self) {
        loop {
            match self.engine.sweep(self.settings.sweep_every * 2).await {
                Ok(report) if report.sent > 0 => {
                    tracing::info!(seen = report.seen, sent = report.sent, reminded = report.reminded, "swept");
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "the sweep failed; the next one follows"),
            }
            self.engine.ports.clock.sleep(self.settings.sweep_every).await;
        }
    }
}
