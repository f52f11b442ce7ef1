//! The two ports that need nothing but the machine: its clock and its randomness.

mod clock;
mod ids;

pub use clock::SystemClock;
pub use ids::SystemIds;
