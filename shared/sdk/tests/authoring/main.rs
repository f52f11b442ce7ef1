//! What a workflow author may rely on, against a host in memory whose clock moves only when it is told to.
// A test may stop at the first surprise, its helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod across;
mod approvals;
mod costs;
mod effects;
mod errors;
mod evidence;
mod host;
mod outcomes;
mod registry;
mod secrets;
mod signals;
mod steps;
mod undoing;
mod unknowns;
mod values;
mod watch;
