//! # stepwell-testkit: what tests of Stepwell stand on
//!
//! **What lives here:** time that a test controls ([`ManualClock`], [`VirtualClock`]), ids that a seed decides
//! ([`SeededIds`]), ports that fail as told ([`faults`]) and workers that die ([`crash`]), and the suite that holds every
//! backend to what the ports promise ([`conformance`]).
//!
//! **What must not live here:** a backend, and anything that a program in use would link.

mod clocks;
pub mod conformance;
pub mod crash;
pub mod faults;
mod ids;

pub use clocks::{ManualClock, VirtualClock};
pub use ids::SeededIds;
