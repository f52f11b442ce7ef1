//! Randomness: ids and jitter.

use stepwell_core::{RunId, SignalId, WriteId};

/// Fresh ids and evenly drawn numbers. Tests put a seeded one here.
pub trait Ids: Send + Sync {
    /// A run id that nobody has; sorts by time.
    fn run_id(&self) -> RunId;
    /// A signal id that nobody has.
    fn signal_id(&self) -> SignalId;
    /// A write id that no other request has; never 0.
    fn write_id(&self) -> WriteId;
    /// An evenly drawn number.
    fn random(&self) -> u64;
}
