//! Effects have an honest outcome: against a real server, on the embedded backend, in real time, with workers that are really
//! gone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops where something is not as it has to be"
)]

mod bed;
mod crashes;
mod person;
mod stalls;
