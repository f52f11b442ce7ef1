//! Those who work: workers that die, stand still and are deployed anew; whoever looks at dead letters; and the weather.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use stepwell_engine::{LetterAck, Worker, WorkerSettings};
use stepwell_testkit::faults::{Fate, Gate, PortCall};
use tokio::sync::oneshot;

use crate::dice::{Deploy, Dice, Temper, secs};
use crate::tape::{Tape, Who};
use crate::world::{World, futures_join};

/// What goes wrong with port calls, in the order of [`Temper::ports`].
pub(crate) const KINDS: [&str; 8] = [
    "died before a call",
    "died after a call",
    "store or queue busy or away",
    "reply lost, nothing done",
    "reply lost, done",
    "call landed after its caller gave up",
    "slow call",
    "stood still beyond its lease",
];

const FROZEN: usize = 7;

/// Port calls of one world. A sound one makes some thousands; one that makes more goes round and round.
pub(crate) const CALLS_MAX: u64 = 60_000;

/// What becomes of each call.
struct Fates {
    tape: Arc<Tape>,
    dice: Dice,
    temper: Arc<Temper>,
    who: Who,
    /// In ten thousand calls, by kind.
    rates: [u64; 8],
}

impl Fates {
    fn of(&self, call: PortCall) -> Fate {
        if self.tape.count("port calls") > CALLS_MAX {
            // Nothing comes of them any more: the world ends, and says so.
            return Fate::DieBefore;
        }
        if self.tape.elapsed() >= self.temper.calm {
            return Fate::Pass;
        }
        // An idle worker's calls are many and say little.
        let rare = matches!(call, PortCall::Receive | PortCall::Due | PortCall::Extend);
        let mut drawn = self.dice.upto(if rare { 40_000 } else { 10_000 });
        for (kind, rate) in self.rates.iter().enumerate() {
            if drawn < *rate {
                self.tape.count(KINDS[kind]);
                self.tape.tell(&self.who, || format!("! {}: {call}", KINDS[kind]));
                return self.fate(kind);
            }
            drawn -= rate;
        }
        Fate::Pass
    }

    fn fate(&self, kind: usize) -> Fate {
        match kind {
            0 => Fate::DieBefore,
            1 => Fate::DieAfter,
            2 => self.dice.pick([Fate::Throttled, Fate::Unavailable]),
            3 => Fate::LostBefore,
            4 => Fate::LostAfter,
            5 => Fate::Late(self.dice.within(secs(90))),
            6 if self.dice.chance(500) => Fate::SlowAnswer(self.dice.within(secs(40))),
            6 => Fate::SlowStart(self.dice.within(secs(60))),
            // Just so long that another holds the run when it goes on, or longer.
            _ if self.dice.chance(500) => Fate::Freeze(self.dice.between(secs(28), secs(40))),
            _ => Fate::Freeze(self.dice.between(secs(20), secs(120))),
        }
    }
}

impl World {
    fn gate(&self, who: &Who, rates: [u64; 8]) -> Arc<Gate> {
        let (tape, dice, temper) = (Arc::clone(&self.tape), self.dice.clone(), Arc::clone(&self.temper));
        let fates = Fates { tape, dice, temper, who: Arc::clone(who), rates };
        Gate::planned(move |_, call| fates.of(call))
    }

    /// The gate of a client, or of whoever else is no worker: they do not stand still, and where no sweeper helps they do not die
    /// between a write and its message either, since nobody else may know of it.
    pub(crate) fn client_gate(&self, who: &Who, may_die: bool) -> Arc<Gate> {
        let mut rates = [self.temper.clients * 2; 8];
        rates[FROZEN] = 0;
        if !may_die && !self.temper.sweeps {
            rates = [0; 8];
        }
        self.gate(who, rates)
    }

    /// All workers, for ever.
    pub(crate) async fn crew(&self) {
        futures_join((0..self.temper.workers).map(|slot| self.slot(slot))).await;
    }

    /// A worker; when it dies or other code is deployed, another comes. For ever.
    async fn slot(&self, slot: u64) {
        for life in 0.. {
            let who: Who = format!("worker-{slot}-{life}").into();
            let gate = self.gate(&who, self.temper.ports);
            let mut deployed = self.deployed.subscribe();
            let deploy = *deployed.borrow_and_update();
            let Some(engine) = self.engine(&who, &gate, deploy) else { return pending().await };
            let settings = WorkerSettings {
                turn: self.temper.turn,
                wait: secs(20),
                concurrency: self.temper.concurrency,
                sweep_every: secs(60),
                grace: secs(20),
            };
            self.tape.tell(&who, || format!("begins, with code {deploy:?}"));
            let (worker, fuse) = (Worker::new(engine, settings), gate.fuse().clone());
            let (stop, stopped) = oneshot::channel::<()>();
            let running = tokio::spawn(async move {
                let stop = async {
                    // It fails when nobody can ask any more, and then the worker is gone, too.
                    let _ = stopped.await;
                };
                fuse.while_alive(worker.run(stop)).await
            });
            tokio::select! {
                biased;
                () = gate.fuse().burnt() => {
                    self.tape.count("workers lost");
                    self.tape.tell(&who, || "is dead".into());
                    running.abort();
                    self.dice.pause(secs(60)).await;
                }
                _ = deployed.changed() => {
                    if self.dice.chance(600) {
                        self.tape.tell(&who, || "is asked to stop".into());
                        let _ = stop.send(());
                        let _ = running.await;
                    } else {
                        running.abort();
                    }
                    gate.fuse().burn();
                    self.dice.pause(secs(10)).await;
                }
            }
        }
    }

    /// Looks at what the queue has given up, now and then. For ever.
    pub(crate) async fn bury_the_dead(&self) {
        for life in 0.. {
            tokio::time::sleep(secs(30)).await;
            let letters = self.queue.dead();
            if letters.is_empty() {
                continue;
            }
            let who: Who = format!("dead-letters-{life}").into();
            let gate = self.client_gate(&who, false);
            let Some(engine) = self.engine(&who, &gate, Deploy::Second) else { return pending().await };
            for letter in letters {
                self.tape.count("dead letters looked at");
                let ack = gate.fuse().while_alive(engine.dead_letter(&letter.message, letter.reason.as_deref())).await;
                match ack {
                    Some(LetterAck::Delete) => self.queue.forget(letter.number),
                    Some(LetterAck::Keep(why)) => {
                        self.queue.forget(letter.number);
                        self.tape.recorded().kept_letters.push(format!("{}: {why}", letter.message.run));
                    }
                    Some(LetterAck::Leave) | None => {}
                }
            }
        }
    }

    /// Deploys, and the queue that loses everything once. Then nothing, for ever.
    pub(crate) async fn weather(&self) {
        tokio::join!(self.deploys(), self.purge());
        pending::<()>().await;
    }

    async fn deploys(&self) {
        for (at, deploy) in &self.temper.deploys {
            self.deploy_at(*at, *deploy).await;
        }
        self.deploy_at(self.temper.calm, Deploy::Second).await;
    }

    async fn deploy_at(&self, at: Duration, deploy: Deploy) {
        tokio::time::sleep(at.saturating_sub(self.tape.elapsed())).await;
        if *self.deployed.borrow() != deploy {
            self.tape.count(if deploy == Deploy::Older { "rollbacks to older code" } else { "deploys" });
            self.tape.tell("world", || format!("deploys {deploy:?}"));
            self.deployed.send_replace(deploy);
        }
    }

    async fn purge(&self) {
        if let Some(at) = self.temper.purge {
            tokio::time::sleep(at).await;
            self.queue.purge();
        }
    }
}
