//! The tape: all that happens in a world, as it happens. The checkers read it afterwards; nobody in the world does.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stepwell_core::write::WriteRequest;
use stepwell_core::{Checkpoint, EffectKey, Phase, Revision, RunId, SignalId, Timestamp};
use stepwell_ports::Clock;
use stepwell_testkit::VirtualClock;

/// Somebody in the world: a worker in one of its lives, a client, a person.
pub(crate) type Who = Arc<str>;

/// How often each thing happened, by its name.
pub type Counts = BTreeMap<&'static str, u64>;

/// A write that was applied, whether or not its writer heard of it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// By the world's own clock; the request has its writer's.
    pub(crate) at: Timestamp,
    pub(crate) by: Who,
    pub(crate) request: WriteRequest,
    pub(crate) before: Option<Arc<Checkpoint>>,
    pub(crate) after: Arc<Checkpoint>,
}

/// What a call to the outside is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    Read,
    Idempotent,
    Reconcilable,
    Once,
}

/// One call to the outside, as the outside's own book has it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) at: Timestamp,
    pub(crate) by: Who,
    pub(crate) run: RunId,
    pub(crate) name: &'static str,
    pub(crate) key: String,
    pub(crate) keyed: bool,
    pub(crate) promise: Promise,
    pub(crate) parameters: String,
    /// When it acted, if it did: a key that is deduped acts once.
    pub(crate) acted: Option<Timestamp>,
    /// Its caller was told that nothing was done.
    pub(crate) declined: bool,
    /// And that it never will be.
    pub(crate) refused: bool,
}

/// What somebody asked of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Start,
    Signal(SignalId),
    Cancel,
    Resolve(EffectKey, &'static str),
    Resume,
    Pause,
    Retry,
    Approve,
    Get,
}

/// What the client has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is done, by this very request.
    New,
    /// It was done before.
    Again,
    /// It is done.
    Done,
    /// How the run stood.
    Stands(Revision, Phase),
    /// It is not done, and this is the code of why.
    Refused(&'static str),
    /// It may be done: there was no answer, or one that says so.
    Unknown,
}

/// One request to the client, from its begin to its end.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) by: Who,
    pub(crate) run: RunId,
    pub(crate) asked: Asked,
    pub(crate) at: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) answer: Answer,
}

/// What happened, for a person who reads the story of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Since the begin of the world.
    pub at: Duration,
    /// Who did it.
    pub who: String,
    /// What.
    pub what: String,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, who, what } = self;
        write!(f, "{:>4}:{:02}.{:03}  {who:<14} {what}", at.as_secs() / 60, at.as_secs() % 60, at.subsec_millis())
    }
}

/// What was recorded.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) writes: Vec<Seen>,
    pub(crate) calls: Vec<Call>,
    pub(crate) ops: Vec<Op>,
    /// The most messages that one run had at once, and which.
    pub(crate) most_messages: (usize, Option<RunId>),
    /// Dead letters that stay for a person.
    pub(crate) kept_letters: Vec<String>,
    /// Texts that hold the secret, and where they were.
    pub(crate) leaks: Vec<String>,
    pub(crate) counts: Counts,
    pub(crate) events: Vec<Event>,
}

/// Where it is recorded.
pub(crate) struct Tape {
    clock: VirtualClock,
    start: Timestamp,
    traced: bool,
    recorded: Mutex<Recorded>,
}

impl Tape {
    pub(crate) fn new(clock: VirtualClock, traced: bool) -> Self {
        Self { clock, start: clock.now(), traced, recorded: Mutex::default() }
    }

    /// The world's own time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Time since the begin of the world.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now().since(self.start)
    }

    pub(crate) fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all of it.
    pub(crate) fn take(&self) -> Recorded {
        std::mem::take(&mut self.recorded())
    }

    /// Answers how often it has happened by now.
    pub(crate) fn count(&self, what: &'static str) -> u64 {
        let mut recorded = self.recorded();
        let count = recorded.counts.entry(what).or_default();
        *count += 1;
        *count
    }

    /// Tells the reader, if there is one.
    pub(crate) fn tell(&self, who: &str, what: impl FnOnce() -> String) {
        if self.traced {
            let event = Event { at: self.elapsed(), who: who.to_owned(), what: what() };
            self.recorded().events.push(event);
        }
    }

    /// Something went wrong on purpose.
    pub(crate) fn fault(&self, who: &str, kind: &'static str) {
        self.count(kind);
        self.tell(who, || format!("! {kind}"));
    }
}
