//! Every state that a small world around the protocol can reach, searched.
//!
//! **What lives here:** the search ([`search`]), the worlds ([`Settings::ALL`]) and the rules that can be left out of them
//! ([`LeftOut`]). A world has one run, two or three workers, a queue and people. The workers do what the functions of
//! `stepwell-core` say (`decide::*`, `write::apply`): every decision and every write is theirs. What a step does with an effect and what a
//! worker does with a refused write is the shell's, and written down here a second time.
//!
//! **What must not live here:** decisions, I/O, clocks of its own, random numbers. The same world gives the same numbers and traces
//! everywhere. The program of this crate prints them.
//!
//! ```
//! use stepwell_model::{LeftOut, Settings, search};
//! let found = search(&Settings::TINY);
//! assert!(found.complete && found.wrong.is_none());
//! let wrong = search(&LeftOut::HandOff.world()).wrong.unwrap();
//! assert_eq!(wrong.invariant, 1);
//! ```
//!
//! # What may happen
//!
//! A worker receives a message, acquires, runs its step, writes an intent, calls, commits, sends, deletes. Each is one action, and
//! between any two of them anything else may happen: the worker dies, and its message comes again; time passes, and its lease runs
//! out while it lives; others act. A message is delivered in any order, twice, or while another worker still works on it. A write is
//! carried out and its answer is lost, or it comes late; it is then sent again under its write id. Signals come at any time, and again.
//! Somebody cancels, asks for a pause, resumes, says how an effect ended. Where there is a sweeper, whoever sends a message after a
//! write may die in between.
//!
//! # What is checked
//!
//! The invariants of the protocol, by number, as things happen and in every state:
//!
//! | invariant | how |
//! | --- | --- |
//! | 1 progress | from every state an end is reachable: the run has ended, the queue is empty, nobody works. The way there may count on no fault and no favour: no crash, copy, renewal, cancellation or pause, and on no signal that the run does not wait for. Without a sweeper senders live; with one they may die |
//! | 2 one holder | a commit is its holder's, follows the one before it, and is refused for nothing else than its fence; a fence is given once |
//! | 3 `once` | the outside counts its calls: there is at most one |
//! | 4 honest outcomes | what the outside has had is nowhere recorded as failed, and an ended run tells of it; no run ends with an effect open; a holder knows of an attempt before its own that left no record |
//! | 5 recorded results | each visit ends once; no holder runs a step whose end is recorded |
//! | 6 signals | accepted once; in the mailbox until consumed, and never after |
//! | 7 messages | no more than workers and what came from elsewhere can explain |
//! | 8 timers | a step after a wait runs when its time has passed or its signal has come; each wait ends once |
//! | 9 parking | keeps letters, place, effects and a wait that nothing has ended; resuming is in the history |
//! | 10 wake sources | `invariants::check`, and: a live run has a mark for the watchdog, unless it waits for a signal alone and none has come |
//!
//! Invariant 11 (secrets) says nothing about states and is not checked here.
//!
//! # Why this is finite, and why that is sound
//!
//! States that differ only in what nothing reads are one:
//!
//! - **Numbers.** Fence, ticket and revision are only compared, with each other and for being the next. They are counted from the run's
//!   own, which is given the same number in every state. A holder that has lost the run keeps no numbers: its fence refuses it.
//! - **Write ids.** One is read only by whoever waits for its answer, so a worker knows whether its write is the last one, and that is
//!   all that is kept.
//! - **Time.** It passes in units of a watchdog's mark; leases, timers, deadlines and pauses last whole units. All times are counted
//!   from now. A past one keeps no more than its place before or after the other past times that it is compared with: a write that is
//!   late is at most one unit old, then its worker gives up. What happens within one unit happens in any order.
//! - **What is only told.** History, usage, reasons and dates of ends are cleared: no decision reads them.
//! - **Order.** The queue is a bag, and workers are alike: both are sorted.
//! - **Counts up to a limit.** Acquires without a commit count no further than one above the limit. The room for more messages counts
//!   no further than what all workers can use up of it.
//!
//! Everything else is bounded by [`Settings`]: faults, signals and steps by counts. Time, sweeps and persons' acts have no bound.
//! A sweep, and a person's act, adds no message while two are there or about to be sent: whatever it asks for, those ask for it, too.
//! For an act that is a bound all the same: one that meets two stale messages is not searched.
//!
//! # What is not in it
//!
//! One run only: no children, no budget, no approvals, nothing is taken back. Effects are `once`; the other classes are the
//! simulator's. Late evidence, a due index that lags, full mailboxes and clocks that differ are not in it, either. States are told
//! apart by a fingerprint of 128 bits.
//!
//! # Memory and time
//!
//! About 100 bytes a state, and some hundred more for one that is found and not looked at yet. A million states take less than 0.2 GB, and
//! the bound of [`Settings::states_max`], 20 million, keeps a search below 4 GB. An optimised build tries half a million actions a
//! second on one core.

mod explore;
mod settings;
mod world;

pub use settings::{LeftOut, Settings, Step};

/// What a search has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// Distinct states.
    pub states: u64,
    /// Actions tried, over all states.
    pub transitions: u64,
    /// Actions on the shortest way to the state that is furthest away.
    pub depth: u32,
    /// Every state was looked at. If not, nothing is proved.
    pub complete: bool,
    /// The breach of an invariant with the shortest way to it.
    pub wrong: Option<Wrong>,
}

/// A breach of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Which, as numbered in the protocol.
    pub invariant: u8,
    /// What has happened.
    pub what: String,
    /// The way to it, one action after the other. For a run that is stuck, on to where nothing moves any more.
    pub trace: Vec<String>,
}

/// Searches a world: breadth first, so that what is found has the shortest way to it. It stops at the first breach, or at the bound.
pub fn search(settings: &Settings) -> Searched {
    let bound = explore::Bound { states: settings.states_max, time: settings.time_max };
    let explore::Explored { states, transitions, depth, complete, wrong } =
        explore::explore(&world::World::new(*settings), bound);
    let wrong = wrong.map(|(breach, trace)| Wrong { invariant: breach.invariant, what: breach.what, trace });
    Searched { states, transitions, depth, complete, wrong }
}
