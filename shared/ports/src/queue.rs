//! The queue of messages: at least once, in no particular order, each with its own delay.

use core::time::Duration;

use async_trait::async_trait;
use stepwell_core::Message;

/// An error of a [`RunQueue`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The queue is busy or cannot be reached. The message may have been sent; sending it again is harmless.
    #[error("the queue is not available: {0}; try again later")]
    Unavailable(String),
    /// It will never be taken like this.
    #[error("the queue refuses this: {0}")]
    Invalid(String),
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// What.
    pub message: Message,
    /// Not delivered before this much time has passed, at most [`stepwell_core::limits::MESSAGE_DELAY_MAX`].
    pub delay: Duration,
}

/// Names one delivery of a message, for deleting or extending it. Opaque. A later delivery has another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Receipt(pub String);

/// A message that was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// What.
    pub message: Message,
    /// This delivery.
    pub receipt: Receipt,
    /// How often it was delivered, this time included. For people; no decision rests on it.
    pub receives: u32,
}

/// A queue of messages. Each is delivered **at least once**, after its delay, in any order, until it is deleted.
#[async_trait]
pub trait RunQueue: Send + Sync {
    /// Sends messages. Durable once answered. On an error some or all of them may have been sent; duplicates are harmless.
    ///
    /// # Errors
    /// [`QueueError::Invalid`] for a delay over the limit; nothing was sent then.
    async fn send(&self, envelopes: &[Envelope]) -> Result<(), QueueError>;

    /// Takes up to `max` messages that are visible, and hides each for `visibility`; one that is not deleted by then is
    /// delivered again. Waits up to `wait` for the first one, then answers with what there is, maybe nothing.
    async fn receive(&self, max: usize, visibility: Duration, wait: Duration) -> Result<Vec<Delivery>, QueueError>;

    /// Deletes deliveries. One whose visibility has run out, or that is deleted already, is passed over: it is harmless
    /// either way, since the message is only a hint.
    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError>;

    /// Hides a delivery for this long from now. Zero makes it visible at once. One that is gone is passed over.
    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), QueueError>;

    /// Moves a delivery to the dead-letter queue, with the reason. Durable before it is gone from this queue.
    async fn bury(&self, delivery: &Delivery, reason: &str) -> Result<(), QueueError>;
}
