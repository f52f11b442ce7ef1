//! The worlds that are searched, and the rules that can be left out of them.

use core::time::Duration;

/// One way in which a step of a world may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// It goes on to the next step.
    Goto,
    /// It waits: for a signal, for a time, or for whichever comes first.
    Wait {
        /// Signals that end the wait: bit 0 is the first signal, bit 1 the second.
        on: u8,
        /// The time that ends it, in units of a quarter of an hour.
        timer: Option<i8>,
    },
    /// It makes a `once` effect and goes on to the next step. One of which nobody knows how it ended parks the run.
    Once,
    /// The same, but it goes on even then, as a workflow does that takes an unknown for an error like any other.
    OnceAndOn,
    /// The run completes.
    Complete,
}

/// A world: how long its run is, and how often each thing may happen that is no part of an ordinary life.
///
/// The counts are what keeps a world finite. Time has no bound: it passes for ever, and so sweeps and persons' acts never end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its name.
    pub name: &'static str,
    /// What is looked at in it.
    pub focus: &'static str,
    /// What the step of each visit may do; one of these each time. The last visit has to complete the run.
    pub flow: &'static [&'static [Step]],
    /// Workers, at most 3.
    pub workers: u8,
    /// Workers that die in the middle of something. Their messages come again.
    pub crashes: u8,
    /// Messages that are delivered twice, or again while their worker still works on them.
    pub copies: u8,
    /// Writes whose answer is lost, or which reach the table late: their worker sends them again under the same id.
    pub lost: u8,
    /// Attempts of a step that fail and are tried again.
    pub retries: u8,
    /// Signals that are sent, at most 2.
    pub signals: u8,
    /// How often each signal is sent again under the same id.
    pub repeats: u8,
    /// Requests to pause.
    pub pauses: u8,
    /// Whether somebody may ask for the end of the run, at any time.
    pub cancel: bool,
    /// Whether workers renew leases.
    pub renew: bool,
    /// Whether there is a sweeper. If so, whoever starts, signals, cancels or resumes may die before it sends its message.
    pub sweeper: bool,
    /// The rule that is left out, if any.
    pub left_out: Option<LeftOut>,
    /// The search stops at this many states, and is then not complete.
    pub states_max: u64,
    /// The search stops after this long, and is then not complete.
    pub time_max: Option<Duration>,
}

const WAIT: &[Step] = &[Step::Wait { on: 1, timer: None }];
const SIGNAL_OR_TIMER: &[Step] = &[Step::Wait { on: 1, timer: Some(1) }];
const GOTO: &[Step] = &[Step::Goto];
const END: &[Step] = &[Step::Complete];

impl Settings {
    /// Two workers, two steps, and nothing goes wrong.
    pub const TINY: Self = Self {
        name: "tiny",
        focus: "an ordinary life",
        flow: &[GOTO, END],
        workers: 2,
        crashes: 0,
        copies: 0,
        lost: 0,
        retries: 0,
        signals: 0,
        repeats: 0,
        pauses: 0,
        cancel: false,
        renew: false,
        sweeper: false,
        left_out: None,
        states_max: 20_000_000,
        time_max: None,
    };

    /// The worlds, each with its own focus.
    pub const ALL: [Self; 11] = [
        Self {
            name: "hand-off",
            focus: "crashes between commit, send and delete",
            flow: &[GOTO, &[Step::Goto, Step::Complete], END],
            crashes: 1,
            copies: 1,
            lost: 1,
            ..Self::TINY
        },
        Self {
            name: "lease",
            focus: "leases that expire under living workers, and renewals",
            flow: &[GOTO, END],
            renew: true,
            copies: 1,
            lost: 1,
            retries: 1,
            ..Self::TINY
        },
        Self {
            name: "three workers",
            focus: "one message in three hands",
            flow: &[GOTO, END],
            workers: 3,
            crashes: 1,
            copies: 1,
            ..Self::TINY
        },
        Self {
            name: "signal",
            focus: "a signal that comes while the run goes to sleep",
            flow: &[WAIT, END],
            signals: 1,
            crashes: 1,
            lost: 1,
            ..Self::TINY
        },
        Self {
            name: "two signals",
            focus: "one signal that is waited for, and another one",
            flow: &[&[Step::Wait { on: 1, timer: None }, Step::Goto], &[Step::Wait { on: 2, timer: None }], END],
            signals: 2,
            crashes: 1,
            ..Self::TINY
        },
        Self {
            name: "signal or timer",
            focus: "a wait that either may end, and a pause between attempts",
            flow: &[SIGNAL_OR_TIMER, END],
            signals: 1,
            crashes: 1,
            retries: 1,
            ..Self::TINY
        },
        Self {
            name: "sweeper",
            focus: "senders that die, and a timer that only the sweeper knows",
            flow: &[&[Step::Wait { on: 1, timer: Some(2) }], END],
            crashes: 1,
            signals: 1,
            repeats: 1,
            sweeper: true,
            ..Self::TINY
        },
        Self {
            name: "cancel",
            focus: "a cancellation that races with everything",
            flow: &[&[Step::Goto, Step::Wait { on: 1, timer: Some(1) }], END],
            signals: 1,
            cancel: true,
            crashes: 1,
            ..Self::TINY
        },
        Self {
            name: "once",
            focus: "a call that cannot be repeated, its intent, and a person's word",
            flow: &[&[Step::Once], END],
            cancel: true,
            crashes: 1,
            ..Self::TINY
        },
        Self {
            name: "unknown",
            focus: "a workflow that goes on with an effect whose outcome nobody knows, up to its end",
            flow: &[&[Step::OnceAndOn], END],
            cancel: true,
            crashes: 1,
            ..Self::TINY
        },
        Self {
            name: "pause",
            focus: "a pause that is asked for at any time, and is resumed",
            flow: &[SIGNAL_OR_TIMER, END],
            crashes: 1,
            signals: 1,
            pauses: 1,
            ..Self::TINY
        },
    ];

    /// Larger worlds, for a search of some minutes.
    pub const LONG: [Self; 5] = [
        Self { name: "hand-off, two crashes", crashes: 2, ..Self::ALL[0] },
        Self { name: "lease, a crash", crashes: 1, lost: 0, copies: 2, ..Self::ALL[1] },
        Self { name: "three workers, two copies", copies: 2, ..Self::ALL[2] },
        Self { name: "signal, sent again", repeats: 1, ..Self::ALL[3] },
        Self { name: "once, a copy", copies: 1, ..Self::ALL[8] },
    ];
}

/// A rule of the protocol that the world does not keep, to see that the search finds what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeftOut {
    /// The message from before a crashed hand-off sends the current one.
    HandOff,
    /// A message that meets a live lease comes again.
    LiveLease,
    /// A hand-off into waiting is conditional on the mailbox.
    MailboxSeen,
    /// A fenced worker leaves its message.
    FencedLeaves,
    /// A commit is conditional on fence and revision.
    Fence,
    /// The intent stands before the call.
    Intent,
    /// An open intent may have happened.
    OpenIntent,
    /// No run ends while an effect is open.
    OpenEnd,
    /// An acquire answers with the current checkpoint.
    CurrentCheckpoint,
    /// A commit takes away the letters that its step has consumed.
    Consume,
    /// A message sends at most one.
    SendOnce,
    /// A timer is looked at with its time.
    TimerTime,
    /// Parking keeps the mailbox.
    ParkKeeps,
    /// A commit sets the watchdog's mark.
    DueMark,
}

impl LeftOut {
    /// All of them, by the invariant that each is for.
    pub const ALL: [Self; 14] = [
        Self::HandOff,
        Self::LiveLease,
        Self::MailboxSeen,
        Self::FencedLeaves,
        Self::Fence,
        Self::Intent,
        Self::OpenIntent,
        Self::OpenEnd,
        Self::CurrentCheckpoint,
        Self::Consume,
        Self::SendOnce,
        Self::TimerTime,
        Self::ParkKeeps,
        Self::DueMark,
    ];

    /// A short name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HandOff => "crashed hand-off",
            Self::LiveLease => "live lease",
            Self::MailboxSeen => "mailbox seen",
            Self::FencedLeaves => "fenced leaves",
            Self::Fence => "fence",
            Self::Intent => "intent",
            Self::OpenIntent => "open intent",
            Self::OpenEnd => "open end",
            Self::CurrentCheckpoint => "current checkpoint",
            Self::Consume => "consume",
            Self::SendOnce => "send once",
            Self::TimerTime => "timer's time",
            Self::ParkKeeps => "parking keeps",
            Self::DueMark => "due mark",
        }
    }

    /// The invariant of the protocol that it is for.
    pub const fn invariant(self) -> u8 {
        match self {
            Self::HandOff | Self::LiveLease | Self::MailboxSeen | Self::FencedLeaves => 1,
            Self::Fence => 2,
            Self::Intent => 3,
            Self::OpenIntent | Self::OpenEnd => 4,
            Self::CurrentCheckpoint => 5,
            Self::Consume => 6,
            Self::SendOnce => 7,
            Self::TimerTime => 8,
            Self::ParkKeeps => 9,
            Self::DueMark => 10,
        }
    }

    /// What the world does without it.
    pub const fn what(self) -> &'static str {
        match self {
            Self::HandOff => "a message with the ticket before the current one is deleted, and nothing is sent",
            Self::LiveLease => "a message that meets a live lease is deleted, and nothing is sent",
            Self::MailboxSeen => "a run goes to sleep whether a signal came meanwhile or not",
            Self::FencedLeaves => "a worker that has lost its run deletes its message",
            Self::Fence => "a commit is written whoever holds the run, wherever it stands",
            Self::Intent => "a once effect is called without its intent having been written",
            Self::OpenIntent => "an intent without an outcome is taken as a call that has failed",
            Self::OpenEnd => "a run completes though nobody knows whether its effect has happened",
            Self::CurrentCheckpoint => "an acquire answers with the checkpoint before the last commit",
            Self::Consume => "a commit leaves the letters in the mailbox that its step has consumed",
            Self::SendOnce => "a message that meets a live lease is sent twice",
            Self::TimerTime => "a message wakes a run whose timer's time has not come",
            Self::ParkKeeps => "a run that is parked loses its mailbox",
            Self::DueMark => "a commit leaves the run without a mark for the watchdog",
        }
    }

    /// The world in which it is missed first: no larger than it has to be.
    pub const fn world(self) -> Settings {
        let mut world = Settings { left_out: Some(self), ..Settings::TINY };
        match self {
            Self::HandOff | Self::LiveLease => world.crashes = 1,
            Self::MailboxSeen => (world.flow, world.signals) = (&[WAIT, END], 1),
            Self::FencedLeaves => (world.crashes, world.copies) = (1, 1),
            Self::Fence | Self::SendOnce => world.copies = 1,
            Self::Intent | Self::OpenIntent => (world.flow, world.crashes) = (&[&[Step::Once], END], 1),
            Self::OpenEnd => world.flow = &[&[Step::OnceAndOn], END],
            Self::CurrentCheckpoint | Self::DueMark => {}
            Self::Consume => (world.flow, world.signals) = (&[WAIT, GOTO, END], 1),
            Self::TimerTime => (world.flow, world.signals) = (&[&[Step::Wait { on: 0, timer: Some(1) }], END], 1),
            Self::ParkKeeps => (world.flow, world.signals, world.pauses) = (&[WAIT, END], 1, 1),
        }
        (world.name, world.focus) = (self.name(), self.what());
        world
    }
}
