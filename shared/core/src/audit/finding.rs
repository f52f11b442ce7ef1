//! What an audit can find wrong with a run, and what to do about it.

use alloc::string::{String, ToString};
use core::fmt;

use super::wake::WakeSource;
use crate::effect::EffectKey;
use crate::ids::{LogId, Revision, SignalId, SignalName};
use crate::status::Phase;
use crate::time::Timestamp;

/// Something that breaks an invariant of the protocol. Says what happened, where, and what to do; never a value of the run's.
///
/// Nothing in it depends on the time of the audit, so the same thing found twice is equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It cannot be read at all.
    Unreadable {
        /// What the store says.
        what: String,
    },
    /// The checkpoint contradicts itself.
    Contradiction {
        /// Which rule, as numbered in [`crate::invariants::check`].
        rule: u8,
        /// What it says.
        what: &'static str,
    },
    /// It has not ended, and nothing wakes it.
    NoWakeSource {
        /// How it stands.
        phase: Phase,
    },
    /// It has something to do, and neither a message nor a sweep has brought a worker.
    Forgotten {
        /// What should have.
        source: WakeSource,
        /// Since when a sweep should have found it.
        since: Timestamp,
    },
    /// The watchdog looks at it too late.
    LateMark {
        /// When that is.
        mark: Timestamp,
    },
    /// It waits on, though what it waits for lies in its mailbox.
    UnreadSignal {
        /// The signal's id.
        id: SignalId,
        /// Its name.
        name: SignalName,
    },
    /// A signal that was consumed lies in the mailbox again.
    SignalTwice {
        /// The signal's id.
        id: SignalId,
    },
    /// It waits for something else while its step has called the outside and does not know what came of it.
    UnaskedEffect {
        /// The effect.
        key: EffectKey,
        /// Its name.
        name: String,
        /// When it may have happened.
        since: Timestamp,
    },
    /// It has ended with an effect that may have happened, and nobody has signed that off.
    OpenAtEnd {
        /// The effect.
        key: EffectKey,
        /// Its name.
        name: String,
    },
    /// It has ended too early, or says of its end what is not so.
    WrongEnd {
        /// What is wrong.
        what: &'static str,
    },
    /// One effect has two records, or was asked for under one key with two sets of parameters.
    EffectTwice {
        /// The effect.
        key: EffectKey,
        /// Its name.
        name: String,
    },
    /// It would take back what has not happened.
    GroundlessUndo {
        /// The effect.
        key: EffectKey,
        /// Its name.
        name: String,
    },
    /// A counter is out of its bounds.
    Counter {
        /// Which.
        counter: Counter,
        /// How it stands.
        found: u64,
        /// The least and the most that the rest of the run allows.
        allowed: (u64, u64),
    },
    /// Entries are missing in its history.
    HistoryGap {
        /// The first revision without an entry.
        from: Revision,
        /// The first one after it that has an entry again.
        to: Revision,
    },
    /// A blob that it refers to is not there.
    MissingBlob {
        /// Its key.
        key: String,
        /// What refers to it.
        of: Referrer,
    },
    /// A blob that it refers to is another than was stored.
    AlteredBlob {
        /// Its key.
        key: String,
        /// What refers to it.
        of: Referrer,
        /// What was found.
        found: String,
    },
    /// A log has fewer entries than count.
    ShortLog {
        /// Which.
        log: LogId,
        /// How many count.
        counted: u64,
        /// How many are there without a gap.
        found: u64,
    },
}

/// A counter of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// The ticket: it is raised by commits alone.
    Ticket,
    /// Acquires since the last commit: each raises the fence.
    Acquires,
    /// The fence of a lease that somebody has.
    Fence,
    /// The number of signals that were accepted.
    Mailbox,
    /// The revision that the history ends with.
    History,
    /// Steps that have ended, beside what the history says.
    Visits,
}

impl Counter {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ticket => "ticket",
            Self::Acquires => "acquires since the last commit",
            Self::Fence => "fence",
            Self::Mailbox => "number of signals accepted",
            Self::History => "last revision in the history",
            Self::Visits => "number of steps ended",
        }
    }

    const fn invariant(self) -> u8 {
        match self {
            Self::Ticket | Self::Acquires => 1,
            Self::Fence | Self::History => 2,
            Self::Visits => 5,
            Self::Mailbox => 6,
        }
    }
}

/// What refers to a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Referrer {
    /// The input of a run that has not begun.
    Input,
    /// The state, or the step that runs next.
    State,
    /// The result of the run.
    Output,
    /// The recorded result of an effect.
    Effect,
    /// The parameters of an approval.
    Approval,
    /// A signal in the mailbox.
    Signal,
    /// A step that takes an effect back.
    Undo,
    /// An entry of a log.
    Log,
}

impl Referrer {
    /// The words for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Input => "its input",
            Self::State => "its state",
            Self::Output => "its result",
            Self::Effect => "an effect's result",
            Self::Approval => "an approval's parameters",
            Self::Signal => "a signal",
            Self::Undo => "a step that takes an effect back",
            Self::Log => "a log",
        }
    }

    /// Whether the run has written it. What others have written refers to nothing, whatever it looks like.
    pub const fn is_of_run(self) -> bool {
        match self {
            Self::Input | Self::Signal => false,
            Self::State | Self::Output | Self::Effect | Self::Approval | Self::Undo | Self::Log => true,
        }
    }
}

impl Finding {
    /// Which invariant it breaks, as numbered in `shared/PROOF.md`.
    pub const fn invariant(&self) -> u8 {
        match self {
            Self::Unreadable { .. } | Self::MissingBlob { .. } | Self::AlteredBlob { .. } | Self::ShortLog { .. } => 9,
            Self::Contradiction { rule, .. } => match rule {
                2 => 1,
                1 | 3 => 2,
                5 | 7 => 6,
                4 | 6 => 10,
                _ => 9,
            },
            Self::NoWakeSource { .. } | Self::LateMark { .. } => 10,
            Self::Forgotten { .. } => 1,
            Self::UnreadSignal { .. } | Self::SignalTwice { .. } => 6,
            Self::UnaskedEffect { .. }
            | Self::OpenAtEnd { .. }
            | Self::WrongEnd { .. }
            | Self::GroundlessUndo { .. } => 4,
            Self::EffectTwice { .. } => 3,
            Self::Counter { counter, .. } => counter.invariant(),
            Self::HistoryGap { .. } => 2,
        }
    }

    /// A short code for scripts and docs.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "unreadable",
            Self::Contradiction { .. } => "contradiction",
            Self::NoWakeSource { .. } => "no-wake-source",
            Self::Forgotten { .. } => "forgotten",
            Self::LateMark { .. } => "late-mark",
            Self::UnreadSignal { .. } => "unread-signal",
            Self::SignalTwice { .. } => "signal-twice",
            Self::UnaskedEffect { .. } => "unasked-effect",
            Self::OpenAtEnd { .. } => "open-at-end",
            Self::WrongEnd { .. } => "wrong-end",
            Self::EffectTwice { .. } => "effect-twice",
            Self::GroundlessUndo { .. } => "groundless-undo",
            Self::Counter { .. } => "counter",
            Self::HistoryGap { .. } => "history-gap",
            Self::MissingBlob { .. } => "missing-blob",
            Self::AlteredBlob { .. } => "altered-blob",
            Self::ShortLog { .. } => "short-log",
        }
    }

    /// What to do about it.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Forgotten { source: WakeSource::Person | WakeSource::Deploy, .. } => {
                "ask for its end again with `cancel`: whoever did has not come to write it"
            }
            Self::Forgotten { .. } => {
                "see that a worker and the sweeper run, and whether the queue is behind; a sweep wakes it within a quarter of an hour"
            }
            Self::NoWakeSource { .. } | Self::LateMark { .. } | Self::UnreadSignal { .. } => {
                "pause the run and resume it, which wakes it; then report this as a defect"
            }
            Self::UnaskedEffect { .. } => "find out whether it happened, and say so with `resolve`",
            Self::OpenAtEnd { .. } | Self::WrongEnd { .. } => {
                "find out by hand what has happened outside; then report this as a defect"
            }
            Self::GroundlessUndo { .. } => {
                "pause the run before it fails or is cancelled; then report this as a defect"
            }
            Self::EffectTwice { .. } => "find out by hand how often it has happened; then report this as a defect",
            Self::Contradiction { .. } | Self::SignalTwice { .. } | Self::Counter { .. } => {
                "pause the run and look at it; was the store restored or edited by hand? If not, report this as a defect"
            }
            Self::Unreadable { .. } => {
                "if a newer release has written it, deploy that; else it was altered or damaged from outside: restore it from a backup"
            }
            Self::HistoryGap { .. } | Self::MissingBlob { .. } | Self::AlteredBlob { .. } | Self::ShortLog { .. } => {
                "it was deleted, altered or damaged from outside: restore it from a backup"
            }
        }
    }
}

/// What is wrong, without what to do.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { what } => write!(f, "it cannot be read: {what}"),
            Self::Contradiction { rule, what } => write!(f, "its checkpoint breaks rule {rule}: {what}"),
            Self::NoWakeSource { phase } => write!(f, "it is {phase}, and nothing wakes it"),
            Self::Forgotten { source: WakeSource::Person | WakeSource::Deploy, since } => {
                write!(
                    f,
                    "it is parked, and its end was asked for at {since}; nothing is in the way of that, and it has not ended"
                )
            }
            Self::Forgotten { source, since } => {
                write!(f, "it has something to do since {since}, and no {source} has brought a worker")
            }
            Self::LateMark { mark } => write!(f, "the watchdog looks at it only at {mark}"),
            Self::UnreadSignal { id, name } => write!(f, "it waits for signal {name}, and has not looked at {id}"),
            Self::SignalTwice { id } => write!(f, "signal {id} was consumed and lies in its mailbox again"),
            Self::UnaskedEffect { key, name, since } => {
                write!(
                    f,
                    "effect {name} (key {key}) may have happened since {since}, and the run waits for something else"
                )
            }
            Self::OpenAtEnd { key, name } => {
                write!(f, "it has ended, but effect {name} (key {key}) may have happened and nobody has signed it off")
            }
            Self::WrongEnd { what } => write!(f, "its end is wrong: {what}"),
            Self::EffectTwice { key, name } => write!(f, "effect {name} (key {key}) has two records that do not agree"),
            Self::GroundlessUndo { key, name } => {
                write!(f, "effect {name} (key {key}) has not happened and is to be taken back")
            }
            Self::Counter { counter, found, allowed: (least, most) } => {
                let allowed = if least == most { most.to_string() } else { alloc::format!("{least} to {most}") };
                write!(f, "its {} is {found}: {allowed} would fit the rest", counter.as_str())
            }
            Self::HistoryGap { from, to } => {
                write!(f, "its history has no entries of revisions {from} to {}", last(*to))
            }
            Self::MissingBlob { key, of } => write!(f, "blob {key} of {} is missing", of.as_str()),
            Self::AlteredBlob { key, of, found } => write!(f, "blob {key} of {} was altered: {found}", of.as_str()),
            Self::ShortLog { log, counted, found } => {
                write!(f, "log {log} has {found} entries in a row, and {counted} count")
            }
        }
    }
}

fn last(to: Revision) -> u64 {
    to.0.saturating_sub(1)
}
