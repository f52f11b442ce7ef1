//! Intents of calls that are about to be made beside each other, gathered into one write.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_core::{Checkpoint, EffectRecord, Timestamp};

/// Intents of one turn.
pub(crate) struct Intents {
    /// What was asked for last. Its journal has all that earlier ones had.
    asked: Mutex<Asked>,
    /// The number of the last one that is written. One write at a time: whoever waits for its turn finds its intent written by
    /// the one before, or writes those of all who wait.
    written: tokio::sync::Mutex<u64>,
    held: Mutex<Held>,
}

/// What has to be written.
#[derive(Clone, Default)]
pub(crate) struct Asked {
    pub(crate) number: u64,
    pub(crate) journal: Vec<EffectRecord>,
    /// When the last of the calls gives up waiting.
    pub(crate) until: Timestamp,
}

struct Held {
    checkpoint: Arc<Checkpoint>,
    /// Whether an intent has made it, of which the turn does not know yet.
    is_news: bool,
}

impl Intents {
    pub(crate) fn new(held: Arc<Checkpoint>) -> Self {
        let held = Held { checkpoint: held, is_news: false };
        Self { asked: Mutex::default(), written: tokio::sync::Mutex::default(), held: held.into() }
    }

    /// Takes over what an acquire or a commit has answered.
    pub(crate) fn learn(&self, held: Arc<Checkpoint>) {
        *lock(&self.held) = Held { checkpoint: held, is_news: false };
        lock(&self.asked).until = Timestamp::default();
    }

    /// Asks for an intent to be written. Answers its number.
    pub(crate) fn ask(&self, journal: Vec<EffectRecord>, until: Timestamp) -> u64 {
        let mut asked = lock(&self.asked);
        *asked = Asked { number: asked.number + 1, journal, until: until.max(asked.until) };
        asked.number
    }

    /// Waits for the right to write. Answers the last number that is written; who writes has to raise it.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, u64> {
        self.written.lock().await
    }

    /// The checkpoint that the next intent is written on.
    pub(crate) fn held(&self) -> Arc<Checkpoint> {
        Arc::clone(&lock(&self.held).checkpoint)
    }

    /// What has to be written, and on what.
    pub(crate) fn to_write(&self) -> (Asked, Arc<Checkpoint>) {
        (lock(&self.asked).clone(), self.held())
    }

    /// It is written, and this is the checkpoint now.
    pub(crate) fn stands(&self, checkpoint: Arc<Checkpoint>) {
        *lock(&self.held) = Held { checkpoint, is_news: true };
    }

    /// The checkpoint as the last intent has left it, if there was one since the last call.
    pub(crate) fn take_news(&self) -> Option<Arc<Checkpoint>> {
        let mut held = lock(&self.held);
        std::mem::take(&mut held.is_news).then(|| Arc::clone(&held.checkpoint))
    }
}

/// Each of the short sections leaves what it guards consistent, whatever panics elsewhere.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
