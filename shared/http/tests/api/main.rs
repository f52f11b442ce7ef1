//! The API in this process, on the in-memory backend, in virtual time: what each route does, what it refuses, and to whom.
// A surprise in a test should stop it, whether in its helpers or in the test itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod approvals;
mod bed;
mod cashier;
mod described;
mod faults;
mod links;
mod permissions;
mod refusals;
mod repairing;
mod runs;
mod sessions;
mod tokens;
mod undoing;
mod unknowns;
mod watching;
