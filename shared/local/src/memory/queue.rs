use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use async_trait::async_trait;
use stepwell_core::limits::MESSAGE_DELAY_MAX;
use stepwell_core::{Message, Timestamp};
use stepwell_ports::{Delivery, Envelope, QueueError, Receipt, RunQueue};

use super::{DeadLetter, Memory};

/// Messages by number, in the order in which they were sent.
#[derive(Default)]
pub(super) struct Queue {
    sent: u64,
    messages: BTreeMap<u64, Held>,
    dead: Vec<DeadLetter>,
}

struct Held {
    message: Message,
    /// Hidden until then.
    visible_at: Timestamp,
    receives: u32,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.messages.len() + self.dead.len()
    }

    fn send(&mut self, envelope: &Envelope, now: Timestamp) {
        let held = Held { message: envelope.message.clone(), visible_at: now.plus(envelope.delay), receives: 0 };
        self.messages.insert(self.sent, held);
        self.sent += 1;
    }

    fn take(&mut self, max: usize, visibility: Duration, now: Timestamp) -> Vec<Delivery> {
        let visible = self.messages.iter_mut().filter(|(_, held)| held.visible_at <= now);
        let deliver = |(number, held): (&u64, &mut Held)| {
            held.visible_at = now.plus(visibility);
            held.receives = held.receives.saturating_add(1);
            let receipt = Receipt(format!("{number}/{}", held.receives));
            Delivery { message: held.message.clone(), receipt, receives: held.receives }
        };
        visible.take(max).map(deliver).collect()
    }

    /// The number of the message that this receipt still holds: not deleted, not visible again, not delivered again.
    fn holds(&self, receipt: &Receipt, now: Timestamp) -> Option<u64> {
        let (number, receives) = receipt.0.split_once('/')?;
        let (number, receives) = (number.parse().ok()?, receives.parse::<u32>().ok()?);
        let held = self.messages.get(&number)?;
        (held.receives == receives && held.visible_at > now).then_some(number)
    }

    fn delete(&mut self, receipt: &Receipt, now: Timestamp) {
        if let Some(number) = self.holds(receipt, now) {
            self.messages.remove(&number);
        }
    }

    /// When the next message becomes visible.
    fn next_visible(&self) -> Option<Timestamp> {
        self.messages.values().map(|held| held.visible_at).min()
    }
}

#[async_trait]
impl RunQueue for Memory {
    async fn send(&self, envelopes: &[Envelope]) -> Result<(), QueueError> {
        if let Some(late) = envelopes.iter().find(|envelope| envelope.delay > MESSAGE_DELAY_MAX) {
            let (run, delay) = (&late.message.run, late.delay);
            return Err(QueueError::Invalid(format!(
                "a delay of {delay:?} for run {run} is over the limit of {MESSAGE_DELAY_MAX:?}; nothing was sent"
            )));
        }
        let (mut state, now) = (self.state(), self.clock.now());
        self.check_messages(state.queue.len() + envelopes.len())?;
        for envelope in envelopes {
            state.queue.send(envelope, now);
        }
        drop(state);
        self.visible.notify_waiters();
        Ok(())
    }

    async fn receive(&self, max: usize, visibility: Duration, wait: Duration) -> Result<Vec<Delivery>, QueueError> {
        let end = self.clock.now().plus(wait);
        loop {
            // Registered before the look at the queue: a message that is sent in between is not missed.
            let mut changed = pin!(self.visible.notified());
            changed.as_mut().enable();
            let now = self.clock.now();
            let (taken, next) = {
                let mut state = self.state();
                (state.queue.take(max, visibility, now), state.queue.next_visible())
            };
            if !taken.is_empty() || now >= end {
                return Ok(taken);
            }
            let pause = next.map_or(end, |next| next.min(end)).since(now);
            tokio::select! {
                () = changed => {}
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError> {
        let (mut state, now) = (self.state(), self.clock.now());
        for receipt in receipts {
            state.queue.delete(receipt, now);
        }
        Ok(())
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), QueueError> {
        let (mut state, now) = (self.state(), self.clock.now());
        let held = state.queue.holds(receipt, now);
        if let Some(held) = held.and_then(|number| state.queue.messages.get_mut(&number)) {
            held.visible_at = now.plus(visibility);
        }
        drop(state);
        self.visible.notify_waiters();
        Ok(())
    }

    async fn bury(&self, delivery: &Delivery, reason: &str) -> Result<(), QueueError> {
        let (mut state, now) = (self.state(), self.clock.now());
        // One that is gone from the queue is buried all the same: a dead letter too many is better than one lost.
        let moved = usize::from(state.queue.holds(&delivery.receipt, now).is_some());
        self.check_messages(state.queue.len() + 1 - moved)?;
        state.queue.dead.push(DeadLetter { message: delivery.message.clone(), reason: reason.to_owned() });
        state.queue.delete(&delivery.receipt, now);
        Ok(())
    }
}

impl Memory {
    /// The dead letters, oldest first.
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        self.state().queue.dead.clone()
    }

    fn check_messages(&self, messages: usize) -> Result<(), QueueError> {
        let bound = self.bounds.messages;
        if messages > bound {
            return Err(QueueError::Unavailable(format!("the memory holds {bound} messages, which is its bound")));
        }
        Ok(())
    }
}
