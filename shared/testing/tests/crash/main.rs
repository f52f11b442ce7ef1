//! Crash tests of workflows that keep what they declare, and of some that do not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a surprise in a test should stop it")]

mod edges;
mod liars;
mod odd;
mod right;
mod world;
