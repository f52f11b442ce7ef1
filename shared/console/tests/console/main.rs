//! The console before the API, on a backend in memory: who sees what, what is shown, and what is not to be found.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bed;
#[path = "../../src/check.rs"]
mod check;
mod contents;
mod pages;
mod refusals;
mod run;
mod visit;
