//! # stepwell-engine: the shell around the protocol
//!
//! **What lives here:** the one loop that moves a run ([`Engine::turn`]): acquire, run steps, commit, hand off; what
//! surrounds it: the [`Worker`] that takes messages off a queue, the sweep, the look at dead letters, and the [`Client`]
//! through which runs are started, watched, spoken to and audited.
//!
//! **What must not live here:** decisions about a run (they are `stepwell_core::decide`, pure), and anything that knows which
//! store, queue or cloud is behind the ports.
//!
//! ## The way of one message
//!
//! ```text
//! Worker::run ── receive ──► Engine::turn ── Write::Acquire ──► refused? decide::refused ──► send / delete / bury
//!                                │ acquired
//!                                ▼
//!                         decide::turn ──► Attempt::run (the author's step, under time-out, renewal and panic guard)
//!                                │                 │
//!                                └──► decide::commit ──► Write::Commit ──► Continue: next step, same turn
//!                                                                     └──► HandOff: send, then delete the own message
//! ```

mod acts;
mod attempt;
mod audit;
mod client;
mod commit;
mod dead_letter;
mod engine;
mod error;
mod evidence;
mod history;
mod host;
mod intents;
mod payload;
mod repair;
mod states;
mod sweep;
mod worker;

pub use acts::ApproveAnswer;
pub use audit::{AuditPage, AuditQuery, Found};
pub use client::{CancelAnswer, Client, SignalAnswer, SignalRequest, StartRequest, Started};
pub use dead_letter::LetterAck;
pub use engine::{Ack, Engine, Settings, StopFlag, TurnTime};
pub use error::{ClientError, EngineError, Remedy};
pub use history::{HistoryEntry, HistoryPage};
pub use repair::{Edit, Edited, MoveTo, PauseAnswer};
pub use states::StateAt;
pub use sweep::SweepReport;
pub use worker::{Worker, WorkerReport, WorkerSettings};

use std::sync::Arc;

use stepwell_core::decide::Send;
use stepwell_core::{Message, RunId};
use stepwell_ports::{BlobStore, CheckpointStore, Clock, Envelope, Ids, QueueError, RunQueue};

/// Everything that the engine needs from the world.
#[derive(Clone)]
pub struct Ports {
    /// Checkpoints.
    pub store: Arc<dyn CheckpointStore>,
    /// Messages.
    pub queue: Arc<dyn RunQueue>,
    /// Large values.
    pub blobs: Arc<dyn BlobStore>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub ids: Arc<dyn Ids>,
}

impl Ports {
    /// Sends a message to a run.
    async fn send(&self, run: &RunId, send: Send) -> Result<(), QueueError> {
        self.queue.send(&[envelope(run, send)]).await
    }
}

fn envelope(run: &RunId, send: Send) -> Envelope {
    Envelope { message: Message { run: run.clone(), ticket: send.ticket }, delay: send.delay }
}
