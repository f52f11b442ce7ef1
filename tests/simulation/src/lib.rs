//! The real engine in a world that fails in every way, in virtual time, from one seed.
//!
//! **What lives here:** [`play`], which lets one world go by: workers, clients, a sweeper, dead letters and a person on the product's own
//! code, over ports and an outside that fail as the seed says, and then looks for what no world may show; and the program, which plays
//! many seeds. The same seed plays the same world again.
//!
//! **What must not live here:** any rule of the product. The checkers (`src/check`) say what must hold, by the invariants of the protocol
//! (numbers 1 to 11), over what was recorded: every write that was applied, the outside's own book, every answer to a client.
//!
//! # What goes wrong here
//! - **Port calls** of workers and clients: the process dies before or after one; it is busy or away; its reply is lost, done or not; it
//!   lands up to 90 seconds after its caller gave up; it is slow.
//! - **Workers** die and are replaced, stand still for up to two minutes (beyond their lease) and go on, have clocks that are wrong by up to
//!   two seconds either way, are stopped and deployed anew: version 2, back to version 1, or to old code that does not know a step.
//! - **Messages** come twice, late, in another order, again while they are worked on; are given up after two, three or ten receives; are all lost, once.
//! - **The index** of what is due answers from before.
//! - **The outside** loses answers, before or after it has acted, stalls beyond the deadline, acts after its caller has given up, is busy,
//!   refuses, does not say what has happened, forgets keys after their window, and acts as often as it is asked where it promises nothing.
//! - **People** start a run several times at once under one key, repeat signals, cancel, pause, try failed runs again.
//!
//! # What does not
//! - A worker that stops between its last look at the clock and the send of its request, and sends it after its lease. No protocol closes
//!   that without help from the outside; only an outside that looks at a deadline or a fence of its own could.
//! - Clocks that are wrong by more than a settle delay allows, a store that loses or alters what it has answered as written, blobs that
//!   vanish. The last two belong to the backends' suites, and `shared/local/tests/damage.rs`.
//! - Hard deadlines of a host that ends a worker in the middle, as Lambda's: a worker that dies at a port call stands for them.
//! - Real threads, processes, disks and networks: `tests/chaos`, `tests/localaws`.
//! - Budgets, edits, moves, effects across runs: each has tests of its own in `shared/engine/tests` and `shared/core/tests`.

mod check;
mod client;
mod crew;
mod customers;
mod dice;
mod flows;
mod log;
mod outside;
mod person;
mod queue;
mod settle;
mod store;
mod story;
mod suite;
mod tape;
mod world;

use std::sync::Arc;
use std::time::Duration;

use stepwell_testkit::broken::Broken;
use tracing::Dispatch;

pub use suite::{Suite, Total};
pub use tape::{Counts, Event};

/// How a world is played.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// On this broken engine; `None`: on the sound one.
    pub broken: Option<Broken>,
    /// Keep the story: every event, for a person to read.
    pub traced: bool,
}

/// A world that has gone by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// What no world may show. Empty: it went well.
    pub wrong: Vec<Wrong>,
    /// How often each thing happened.
    pub counts: Counts,
    /// How long it took, in its own time.
    pub took: Duration,
    /// The longest that one run took.
    pub slowest: Duration,
    /// The most messages that one run had at once.
    pub most_messages: usize,
    /// The story, where it was asked for.
    pub events: Vec<Event>,
}

/// What no world may show.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wrong {
    /// Which invariant is broken, as numbered in `shared/PROOF.md`. `None`: not one of those, an answer that is not true, say.
    pub invariant: Option<u8>,
    /// What was seen.
    pub what: String,
}

/// Plays the world of this seed.
pub fn play(seed: u64, settings: &Settings) -> Played {
    let broken = |what: String| Played { wrong: vec![Wrong { invariant: None, what }], ..Played::default() };
    if !flows::cover() {
        return broken("the secret is none".into());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let Ok(runtime) = runtime else { return broken("no runtime can be made".into()) };
    let _inside = runtime.enter();
    let world = world::World::new(seed, settings.broken, settings.traced);
    let log = Dispatch::new(log::Listener(Arc::clone(&world.tape)));
    tracing::dispatcher::with_default(&log, || {
        runtime.block_on(async {
            Box::pin(world.go_by()).await;
            settle::played(&world).await
        })
    })
}
