//! # The AWS backend on this machine
//!
//! **What lives here:** emulators as child processes ([`Emulators`]), tables, queues and buckets for tests, and a counter of
//! requests ([`Counter`]). DynamoDB is played by `dynoxide`, SQS and S3 by `MiniStack`.
//!
//! **What must not live here:** anything that a deployment uses.
//!
//! The programs are named by `STEPWELL_DYNOXIDE` and `STEPWELL_MINISTACK` (paths). Without them a test fails: it does not
//! skip itself. Everything listens on 127.0.0.1 and has made-up credentials.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of tests: its panic is the report"
)]

mod counter;
mod emulators;
mod resources;

pub use counter::{Counted, Counter};
pub use emulators::Emulators;
pub use resources::Resources;
