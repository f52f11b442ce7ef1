//! # stepwell-ports: what the engine needs from the world
//!
//! **What lives here:** five small traits — [`CheckpointStore`], [`RunQueue`], [`BlobStore`], [`Clock`], [`Ids`] — with the
//! exact guarantee of each method, and the errors, cut by what the caller can do; and the machine's own clock and randomness
//! ([`system`]), which every backend shares.
//!
//! **What must not live here:** any other implementation, and any decision about a run (that is `stepwell-core`).
//!
//! Ports are used as `Arc<dyn …>`, so that tracing, counting and fault injection can be wrapped around any of them.
//! `stepwell_testkit::conformance` holds every implementation to what is written here.

mod blobs;
mod clock;
mod error;
mod ids;
mod queue;
mod store;
pub mod system;

pub use blobs::{BlobError, BlobStore};
pub use clock::Clock;
pub use error::StoreError;
pub use ids::Ids;
pub use queue::{Delivery, Envelope, QueueError, Receipt, RunQueue};
pub use store::{
    CheckpointStore, Claim, Claimant, Claimed, Damaged, DuePage, ListQuery, Page, RunSummary, Written, check_limit,
};
