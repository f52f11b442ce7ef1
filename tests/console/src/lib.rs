//! # The console in a real browser
//!
//! **What lives here:** a program as a child of a suite, gone with it ([`Served`]); API and console in a suite's own process,
//! for callers with keys ([`Keyed`]); and the suite that drives the console: a program that starts `stepwell dev` and has Node
//! drive Chromium over its pages.
//!
//! **What must not live here:** what a test of one crate can show: how a page is made, what a route answers.
#![allow(clippy::expect_used, clippy::panic, reason = "a helper of suites: its panic is the report")]

mod keyed;
mod served;

pub use keyed::{Keyed, Working, digest, signing_keys, work};
pub use served::{GUARD, Served, free_port, program};
