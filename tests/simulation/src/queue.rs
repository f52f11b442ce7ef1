//! The world's queue: at least once, in no order that can be relied on. It doubles, delays, exposes and loses as the world's temper
//! says, and gives a message up that was received too often.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stepwell_core::limits::MESSAGE_DELAY_MAX;
use stepwell_core::{Message, RunId, Timestamp};
use stepwell_ports::{Delivery, Envelope, QueueError, Receipt, RunQueue};
use tokio::sync::Notify;

use crate::dice::{Dice, Temper, secs};
use crate::tape::Tape;

/// A message that no worker could use.
#[derive(Clone, Debug)]
pub(crate) struct DeadLetter {
    pub(crate) number: u64,
    pub(crate) message: Message,
    /// Why a worker has buried it; `None`: it was received too often.
    pub(crate) reason: Option<String>,
}

/// Messages that are doubled in one world. What meets a lease is sent on, so a queue that doubles each time it is asked has no bound, and
/// no protocol gives it one.
const DOUBLED_MAX: u32 = 20;

struct Held {
    message: Message,
    /// Hidden until then.
    visible_at: Timestamp,
    receives: u32,
}

#[derive(Default)]
struct State {
    sent: u64,
    doubled: u32,
    messages: BTreeMap<u64, Held>,
    of_run: BTreeMap<RunId, usize>,
    dead: Vec<DeadLetter>,
}

/// The queue.
pub(crate) struct Queue {
    tape: Arc<Tape>,
    dice: Dice,
    temper: Arc<Temper>,
    state: Mutex<State>,
    visible: Notify,
}

impl Queue {
    pub(crate) fn new(tape: Arc<Tape>, dice: Dice, temper: Arc<Temper>) -> Self {
        Self { tape, dice, temper, state: Mutex::default(), visible: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn chance(&self, per_mille: u64) -> bool {
        self.tape.elapsed() < self.temper.calm && self.dice.chance(per_mille)
    }

    /// Loses every message.
    pub(crate) fn purge(&self) {
        let mut state = self.state();
        let lost = state.messages.len();
        state.messages.clear();
        state.of_run.clear();
        self.tape.fault("queue", "queue purged");
        self.tape.tell("queue", || format!("loses {lost} messages"));
    }

    /// The dead letters.
    pub(crate) fn dead(&self) -> Vec<DeadLetter> {
        self.state().dead.clone()
    }

    /// Takes a dead letter away.
    pub(crate) fn forget(&self, number: u64) {
        self.state().dead.retain(|letter| letter.number != number);
    }

    /// How many messages there are.
    pub(crate) fn len(&self) -> usize {
        self.state().messages.len()
    }

    fn put(&self, state: &mut State, message: &Message, delay: Duration) {
        let (number, visible_at) = (state.sent, self.tape.now().plus(delay));
        state.sent += 1;
        state.messages.insert(number, Held { message: message.clone(), visible_at, receives: 0 });
        let of_run = state.of_run.entry(message.run.clone()).or_default();
        *of_run += 1;
        let mut recorded = self.tape.recorded();
        if *of_run > recorded.most_messages.0 {
            recorded.most_messages = (*of_run, Some(message.run.clone()));
        }
    }

    fn take(&self, max: usize, visibility: Duration) -> Vec<Delivery> {
        let (mut state, now) = (self.state(), self.tape.now());
        let visible = state.messages.iter().filter(|(_, held)| held.visible_at <= now).map(|(number, _)| *number);
        let numbers: Vec<u64> = visible.take(max.saturating_mul(2)).collect();
        let mut found = Vec::new();
        for number in numbers {
            if found.len() >= max {
                break;
            }
            // It may stand behind another that was sent later.
            if self.chance(self.temper.delayed / 2) {
                self.tape.fault("queue", "message overtaken");
                if let Some(held) = state.messages.get_mut(&number) {
                    held.visible_at = now.plus(self.dice.within(secs(3)));
                }
                continue;
            }
            let Some(held) = state.messages.get_mut(&number) else { continue };
            held.receives += 1;
            if held.receives > self.temper.receives {
                let message = held.message.clone();
                self.tape.count("messages given up");
                state.dead.push(DeadLetter { number, message, reason: None });
                state.remove(number);
                continue;
            }
            let exposed = self.chance(self.temper.exposed);
            held.visible_at = now.plus(if exposed { self.dice.within(secs(10)) } else { visibility });
            let receipt = Receipt(format!("{number}/{}", held.receives));
            found.push(Delivery { message: held.message.clone(), receipt, receives: held.receives });
            if held.receives > 1 {
                self.tape.count("deliveries again");
            }
            if exposed {
                self.tape.fault("queue", "message exposed while it is worked on");
            }
        }
        found
    }
}

impl State {
    /// The number of the message that this receipt still holds.
    fn holds(&self, receipt: &Receipt, now: Timestamp) -> Option<u64> {
        let (number, receives) = receipt.0.split_once('/')?;
        let (number, receives) = (number.parse().ok()?, receives.parse::<u32>().ok()?);
        let held = self.messages.get(&number)?;
        (held.receives == receives && held.visible_at > now).then_some(number)
    }

    fn remove(&mut self, number: u64) {
        if let Some(held) = self.messages.remove(&number)
            && let Some(count) = self.of_run.get_mut(&held.message.run)
        {
            *count = count.saturating_sub(1);
        }
    }
}

#[async_trait]
impl RunQueue for Queue {
    async fn send(&self, envelopes: &[Envelope]) -> Result<(), QueueError> {
        if let Some(late) = envelopes.iter().find(|envelope| envelope.delay > MESSAGE_DELAY_MAX) {
            return Err(QueueError::Invalid(format!("a delay of {:?}; nothing was sent", late.delay)));
        }
        let mut state = self.state();
        for Envelope { message, delay } in envelopes {
            let delayed = self.chance(self.temper.delayed);
            let more = if delayed { self.dice.within(secs(30)) } else { Duration::ZERO };
            self.put(&mut state, message, *delay + more);
            if delayed {
                self.tape.fault("queue", "message delayed");
            }
            if state.doubled < DOUBLED_MAX && self.chance(self.temper.doubled) {
                state.doubled += 1;
                self.tape.fault("queue", "message doubled");
                self.put(&mut state, message, *delay + self.dice.within(secs(60)));
            }
        }
        drop(state);
        self.visible.notify_waiters();
        Ok(())
    }

    async fn receive(&self, max: usize, visibility: Duration, wait: Duration) -> Result<Vec<Delivery>, QueueError> {
        let end = self.tape.now().plus(wait);
        loop {
            // Registered before the look at the queue: a message that is sent in between is not missed.
            let mut changed = pin!(self.visible.notified());
            changed.as_mut().enable();
            let now = self.tape.now();
            let taken = self.take(max, visibility);
            if !taken.is_empty() || now >= end {
                return Ok(taken);
            }
            let next = self.state().messages.values().map(|held| held.visible_at).filter(|at| *at > now).min();
            // At least a little: what was passed over just now is visible still.
            let pause = next.map_or(end, |next| next.min(end)).since(now).max(Duration::from_millis(1));
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError> {
        let (mut state, now) = (self.state(), self.tape.now());
        for receipt in receipts {
            if let Some(number) = state.holds(receipt, now) {
                state.remove(number);
            }
        }
        Ok(())
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), QueueError> {
        let (mut state, now) = (self.state(), self.tape.now());
        let number = state.holds(receipt, now);
        if let Some(held) = number.and_then(|number| state.messages.get_mut(&number)) {
            held.visible_at = now.plus(visibility);
        }
        drop(state);
        self.visible.notify_waiters();
        Ok(())
    }

    async fn bury(&self, delivery: &Delivery, reason: &str) -> Result<(), QueueError> {
        let (mut state, now) = (self.state(), self.tape.now());
        let number = state.sent;
        state.sent += 1;
        state.dead.push(DeadLetter { number, message: delivery.message.clone(), reason: Some(reason.to_owned()) });
        if let Some(held) = state.holds(&delivery.receipt, now) {
            state.remove(held);
        }
        self.tape.count("messages buried");
        Ok(())
    }
}
