//! The bounded in-memory twin: store, queue and blobs of one process, gone with it.
//!
//! **What lives here:** [`Memory`], the reference implementation of the three ports, as plain as possible:
//! [`stepwell_core::write::apply`] under one mutex. Tests and simulations run on it; other backends are measured against
//! the same conformance suite.
//!
//! **What must not live here:** anything that outlives the process, and any decision about a run.

mod blobs;
mod queue;
mod store;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_core::history::Segment;
use stepwell_core::{Checkpoint, EffectKey, EffectRecord, Json, LogId, Message, Revision, RunId};
use stepwell_ports::{Claimant, Clock};
use tokio::sync::Notify;

/// How much a [`Memory`] holds. What does not fit is refused as unavailable, as on a full disk; nothing is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Runs.
    pub runs: usize,
    /// Log entries, history segments, spilled effects and claims of all runs together.
    pub items: usize,
    /// Messages, dead letters included.
    pub messages: usize,
    /// Bytes of all blobs together.
    pub blob_bytes: usize,
}

impl Default for Bounds {
    /// 10 000 runs, a million items beside them, 100 000 messages, 256 MiB of blobs.
    fn default() -> Self {
        Self { runs: 10_000, items: 1_000_000, messages: 100_000, blob_bytes: 256 * 1024 * 1024 }
    }
}

/// A message that no worker could use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// What.
    pub message: Message,
    /// Why it was buried.
    pub reason: String,
}

/// Store, queue and blobs in memory.
///
/// Nothing survives the process: what the ports call durable is here only as durable as that.
pub struct Memory {
    clock: Arc<dyn Clock>,
    bounds: Bounds,
    state: Mutex<State>,
    /// Wakes whoever waits for a message.
    visible: Notify,
}

/// All of it, under one mutex: each call sees and leaves a whole.
#[derive(Default)]
struct State {
    runs: BTreeMap<RunId, Checkpoint>,
    entries: BTreeMap<(RunId, LogId, u64), Json>,
    segments: BTreeMap<(RunId, Revision), Segment>,
    effects: BTreeMap<(RunId, EffectKey), EffectRecord>,
    /// Who owns a key.
    claims: BTreeMap<EffectKey, Claimant>,
    queue: queue::Queue,
    blobs: BTreeMap<String, Vec<u8>>,
}

impl Memory {
    /// An empty one of the default size. Its queue goes by this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::bounded(clock, Bounds::default())
    }

    /// An empty one of this size.
    pub fn bounded(clock: Arc<dyn Clock>, bounds: Bounds) -> Self {
        Self { clock, bounds, state: Mutex::default(), visible: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic between two changes cannot happen: each call checks first, then changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Memory")
            .field("bounds", &self.bounds)
            .field("runs", &state.runs.len())
            .field("messages", &state.queue.len())
            .field("blobs", &state.blobs.len())
            .finish_non_exhaustive()
    }
}
