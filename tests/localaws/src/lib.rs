//! # The AWS backend on this machine
//!
//! **What lives here:** emulators as child processes ([`Emulators`]), tables, queues and buckets for tests, and a
//! counter of requests ([`Counter`]). DynamoDB is played by `dynoxide`, the rest by `MiniStack` or by `LocalStack`
//! ([`Kind`]).
//!
//! **What must not live here:** anything that a deployment uses.
//!
//! The programs are named by `STEPWELL_DYNOXIDE`, `STEPWELL_MINISTACK` and `STEPWELL_LOCALSTACK` (paths). Without them a
//! test fails: it does not skip itself. Everything listens on 127.0.0.1, has made-up credentials, and ends with the
//! process that has started it. `LOCAL_AWS` chooses what [`Emulators::start`] starts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of tests: its panic is the report"
)]

mod counter;
mod emulator;
mod emulators;
mod kind;
mod resources;

pub use counter::{Counted, Counter};
pub use emulators::{Emulators, FunctionEndpoints, Setup, Urls};
pub use kind::Kind;
pub use resources::Resources;
