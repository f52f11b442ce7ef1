//! What effects are tried against: a real server that counts how often it acted, a workflow that calls it, and a clock that
//! can stand still.
//!
//! **What lives here:** [`Outside`], the server, and the trouble it makes on request; [`Act`], a workflow with one effect of
//! each class; [`SuspendableClock`], the time of a machine that is suspended.
//!
//! **What must not live here:** the tests; they are in `tests/`.

mod act;
mod clock;
mod outside;

pub use act::{Act, At, EFFECT, Known, ORDER, Output, Promise};
pub use clock::SuspendableClock;
pub use outside::{Caller, Held, Memory, Outside, Seen, Trouble, WINDOW};
