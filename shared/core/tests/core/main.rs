//! The centre as tables and properties: each decision, the stored forms, and worlds with a rule taken away.
// A surprise in a test should stop it, whether in its helpers or in the test itself.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod acquire;
mod admit;
mod approve;
mod audit;
mod back;
mod budget;
mod cancel;
mod commit;
mod dead_letter;
mod effect;
mod evidence;
mod findings;
mod golden;
mod history;
mod intend;
mod invariants;
mod link;
mod make;
mod message;
mod names;
mod open;
mod pause;
mod policy;
mod repair;
mod resolve;
mod settled;
mod spending;
mod status;
mod stored;
mod sweep;
mod time;
mod turn;
mod undo;
mod values;
mod world;
mod write;
