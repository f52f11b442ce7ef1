//! The engine on the in-memory backend, in virtual time: what the protocol promises, subject by subject; then every
//! crash point of a whole run. Whole worlds from a seed are in `tests/simulation`.
// A surprise in a test should stop it, whether in its helpers or in the test itself.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod across;
mod approvals;
mod audit;
mod bed;
mod budgets;
mod cancel;
mod client;
mod crash_matrix;
mod data;
mod dead_letters;
mod edits;
mod effects;
mod errors;
mod flawed;
mod incompatible;
mod leases;
mod outside_crashes;
mod pause;
mod poison;
mod repair;
mod retries;
mod settling;
mod shop;
mod sizes;
mod states;
mod story;
mod sweep;
mod turns;
mod undo;
mod waits;
mod worker;
