//! # stepwell-testkit: what tests of Stepwell stand on
//!
//! **What lives here:** time that a test controls ([`ManualClock`], [`VirtualClock`]), ids that a seed decides
//! ([`SeededIds`]), ports that fail as told ([`faults`]) and workers that die ([`crash`]), engines that are broken on purpose
//! ([`broken`]), stores that change one thing and pass on the rest ([`StoreDouble`]), the log as text ([`Capture`]), and the suite that holds every backend to what
//! the ports promise ([`conformance`]).
//!
//! **What must not live here:** a backend, and anything that a run in use would need: of the programs only `stepwell crash-test` stands on it.

pub mod broken;
mod capture;
mod clocks;
pub mod conformance;
pub mod crash;
mod double;
pub mod faults;
mod ids;

pub use capture::Capture;
pub use clocks::{ManualClock, VirtualClock};
pub use double::{Double, StoreDouble};
pub use ids::SeededIds;
