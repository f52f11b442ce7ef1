//! The world: one run, its messages, its workers, and whoever speaks to it from outside. It decides nothing itself: it does what the
//! functions of the core say, one action at a time.

mod books;
mod outside;
mod parts;
mod snap;
mod steps;
mod tell;
mod worker;

use std::hash::{Hash, Hasher};

use stepwell_core::decide::Send;
use stepwell_core::write::{Refusal, Write, WriteRequest, apply, is_applied};
use stepwell_core::{Checkpoint, Fence, Ticket, Timestamp, WriteId};

use crate::explore::{Breach, Model};
use crate::settings::{LeftOut, Settings};
use books::Books;
use outside::Person;
use parts::Parts;
use snap::{Snap, Snaps};
use steps::Ending;

/// A message in the queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Entry {
    /// How far its ticket lies behind the run's: 2 and more are the same.
    age: u8,
    /// Units until it may be delivered.
    delay: u8,
    /// Who has received it: one bit a worker.
    holders: u8,
}

/// What a worker does next. It may crash before that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Doing {
    /// Receives a message.
    Idle,
    /// Acquires the run.
    Acquire,
    /// Runs the step, if it has not ended yet, and commits.
    Commit { held: Snap, ended: Option<Ending> },
    /// Calls the outside, the intent being written.
    Call { held: Snap },
    /// Writes again what it does not know the answer to.
    Again(Doubt),
    /// Sends, and so often.
    Send { age: u8, delay: u8, times: u8 },
    /// Deletes its message.
    Delete,
}

/// A write without an answer. It is decided again in the same way, so it is the same request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Doubt {
    what: Doubted,
    /// It was decided before time has passed.
    is_old: bool,
    /// It is the last one that was written.
    is_last: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Doubted {
    Acquire,
    Intend { held: Snap },
    Commit { held: Snap, ended: Option<Ending>, go_on: bool },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Worker {
    /// The age of the ticket of the message that it has received.
    message: Option<u8>,
    doing: Doing,
}

/// What may still go wrong, or happen.
#[derive(Clone, Debug, Hash)]
struct Left {
    crashes: u8,
    copies: u8,
    lost: u8,
    retries: u8,
    pauses: u8,
    cancels: u8,
    signals: [u8; 2],
}

/// One state of the world.
#[derive(Clone, Debug)]
pub(crate) struct State {
    run: Snap,
    /// The checkpoint before the last commit, where a rule is left out that needs it.
    older: Option<Snap>,
    queue: Vec<Entry>,
    workers: Vec<Worker>,
    /// Messages that somebody outside is about to send, by the age of their tickets.
    errands: Vec<u8>,
    left: Left,
    books: Books,
    /// The workers' names, for people: they play no part.
    names: Vec<char>,
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { run, older, queue, workers, errands, left, books, names: _ } = self;
        (run, older, queue, workers, errands).hash(state);
        (left, books).hash(state);
    }
}

/// Whether a write's answer is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Heard,
    /// The write is carried out, its answer is lost.
    Lost,
    /// The write itself is late: it is sent again.
    Late,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Receive {
        worker: usize,
        entry: usize,
    },
    Acquire {
        worker: usize,
        reply: Reply,
    },
    /// `ended`: how the step ends. `None`: it has ended already, or does not run.
    Commit {
        worker: usize,
        ended: Option<Ending>,
        go_on: bool,
        reply: Reply,
    },
    Intend {
        worker: usize,
        reply: Reply,
    },
    Call {
        worker: usize,
        is_heard: bool,
    },
    Again {
        worker: usize,
    },
    Renew {
        worker: usize,
    },
    Send {
        worker: usize,
    },
    Delete {
        worker: usize,
    },
    Crash {
        worker: usize,
    },
    Errand {
        errand: usize,
    },
    SenderDies {
        errand: usize,
    },
    Time,
    Copy {
        entry: usize,
    },
    Signal {
        signal: usize,
    },
    Cancel,
    Pause,
    Person(Person),
    Sweep,
}

/// The world of these settings.
pub(crate) struct World {
    settings: Settings,
    parts: Parts,
    snaps: Snaps,
}

/// A breach of this invariant.
fn breach(invariant: u8, what: impl Into<String>) -> Breach {
    Breach { invariant, what: what.into() }
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, parts: Parts::new(), snaps: Snaps::default() }
    }

    fn leaves_out(&self, rule: LeftOut) -> bool {
        self.settings.left_out == Some(rule)
    }

    /// Carries out a write decided at `decided_at`. `by`: the worker that writes; `ended`: the step's end that it writes. Answers the
    /// ticket that the sends of this decision are counted from.
    fn write(&self, state: &mut State, by: By<'_>, write: Write, decided_at: Timestamp) -> Result<Answer, Breach> {
        let before = &state.run;
        let is_last = by
            .worker
            .is_some_and(|worker| matches!(&state.workers[worker].doing, Doing::Again(doubt) if doubt.is_last));
        let mut current = (**before).clone();
        current.hold.write = WriteId(u64::from(is_last));
        let request = WriteRequest { run: self.parts.run.clone(), id: WriteId(1), now: decided_at, write };
        let is_repeated = is_applied(&current, &request);
        let mut after = match apply(Some(&current), &request) {
            Ok(after) => after,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if is_repeated {
            return Ok(Ok(after.progress.ticket));
        }
        if self.leaves_out(LeftOut::ParkKeeps) && matches!(after.progress.status, stepwell_core::Status::Parked { .. })
        {
            after.mailbox.letters.clear();
        }
        state.books.write(&self.parts, &by, before, &request, &after)?;
        if self.leaves_out(LeftOut::CurrentCheckpoint) && matches!(request.write, Write::Commit(_)) {
            state.older = Some(state.run.clone());
        }
        let is_of_hold = !matches!(request.write, Write::Signal(_) | Write::Cancel(_));
        self.settle(state, &after, is_of_hold);
        Ok(Ok(after.progress.ticket))
    }

    /// The run is this now. All else is counted from it.
    fn settle(&self, state: &mut State, after: &Checkpoint, is_of_hold: bool) {
        let by = u8::try_from(after.progress.ticket.0.saturating_sub(state.run.progress.ticket.0)).unwrap_or(2);
        let age = |age: &mut u8| *age = age.saturating_add(by).min(2);
        state.queue.iter_mut().for_each(|entry| age(&mut entry.age));
        state.errands.iter_mut().for_each(age);
        for worker in &mut state.workers {
            worker.message.iter_mut().for_each(age);
            let keep = |held: &mut Snap| *held = self.snaps.keep((**held).clone(), after);
            match &mut worker.doing {
                Doing::Commit { held, .. } | Doing::Call { held } => keep(held),
                Doing::Again(doubt) => {
                    doubt.is_last &= !is_of_hold;
                    match &mut doubt.what {
                        Doubted::Intend { held } | Doubted::Commit { held, .. } => keep(held),
                        Doubted::Acquire => {}
                    }
                }
                Doing::Send { age: of, .. } => age(of),
                Doing::Idle | Doing::Acquire | Doing::Delete => {}
            }
        }
        state.run = self.snaps.keep(after.clone(), after);
    }

    /// How old a ticket is that a decision sends.
    fn age(ticket: Ticket, now: Ticket) -> Result<u8, Breach> {
        let age =
            now.0.checked_sub(ticket.0).ok_or_else(|| breach(1, "a message is sent with a ticket of the future"))?;
        Ok(u8::try_from(age).unwrap_or(2).min(2))
    }

    /// Somebody outside sends this, in its own time.
    fn send_later(state: &mut State, send: Option<Send>, now: Ticket) -> Result<(), Breach> {
        if let Some(send) = send {
            state.errands.push(Self::age(send.ticket, now)?);
        }
        Ok(())
    }

    /// Time passes, by one unit.
    fn pass(&self, state: &mut State) {
        let later = |snap: &mut Snap| *snap = self.snaps.later(snap);
        later(&mut state.run);
        state.older.iter_mut().for_each(later);
        for entry in &mut state.queue {
            entry.delay = entry.delay.saturating_sub(1);
        }
        for worker in 0..state.workers.len() {
            match &mut state.workers[worker].doing {
                Doing::Commit { held, ended } => {
                    later(held);
                    ended.iter_mut().for_each(Ending::pass);
                }
                Doing::Call { held } => later(held),
                // A write that gets no answer for so long is given up, and with it the turn.
                Doing::Again(doubt) if doubt.is_old => worker::leave(state, worker),
                Doing::Again(doubt) => {
                    doubt.is_old = true;
                    match &mut doubt.what {
                        Doubted::Commit { held, ended, .. } => {
                            later(held);
                            ended.iter_mut().for_each(Ending::pass);
                        }
                        Doubted::Intend { held } => later(held),
                        Doubted::Acquire => {}
                    }
                }
                Doing::Idle | Doing::Acquire | Doing::Send { .. } | Doing::Delete => {}
            }
        }
        state.books.pass();
    }
}

/// Who writes.
#[derive(Clone, Copy, Default)]
struct By<'a> {
    worker: Option<usize>,
    /// The fence that it holds the run under.
    fence: Option<Fence>,
    /// The end of the step that it writes.
    ended: Option<&'a Ending>,
}

/// The run's ticket after a write, or why it was refused.
type Answer = Result<Ticket, Refusal>;

/// The same world, in the one order that stands for all others.
fn in_order(mut state: State) -> State {
    let place = |worker: &usize| {
        let entry = state.queue.iter().find(|entry| entry.holders & 1 << worker != 0);
        entry.map(|entry| (entry.age, entry.delay, entry.holders.count_ones()))
    };
    let mut order: Vec<usize> = (0..state.workers.len()).collect();
    order.sort_by(|one, other| {
        let (left, right) = (&state.workers[*one], &state.workers[*other]);
        left.cmp(right).then_with(|| place(one).cmp(&place(other)))
    });
    if !order.is_sorted() {
        state.workers = order.iter().map(|worker| state.workers[*worker].clone()).collect();
        state.names = order.iter().map(|worker| state.names[*worker]).collect();
        for entry in &mut state.queue {
            let bit = |(new, old): (usize, &usize)| (entry.holders >> old & 1) << new;
            entry.holders = order.iter().enumerate().map(bit).sum();
        }
    }
    state.queue.sort_unstable();
    state.errands.sort_unstable();
    state
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init(&self) -> State {
        let settings = &self.settings;
        let run = self.parts.started();
        let run = self.snaps.keep(run.clone(), &run);
        let sends = |signal: u8| if signal < settings.signals { 1 + settings.repeats } else { 0 };
        State {
            run,
            older: None,
            queue: Vec::new(),
            workers: vec![Worker { message: None, doing: Doing::Idle }; usize::from(settings.workers)],
            errands: vec![0],
            left: Left {
                crashes: settings.crashes,
                copies: settings.copies,
                lost: settings.lost,
                retries: settings.retries,
                pauses: settings.pauses,
                cancels: u8::from(settings.cancel),
                signals: [sends(0), sends(1)],
            },
            books: Books::new(settings.workers),
            names: ('A'..).take(usize::from(settings.workers)).collect(),
        }
    }

    fn actions(&self, state: &State, into: &mut Vec<Action>) {
        self.of_workers(state, into);
        self.of_outside(state, into);
        into.push(Action::Time);
    }

    fn next(&self, state: &State, action: &Action) -> Result<State, Breach> {
        let mut next = state.clone();
        match *action {
            Action::Time => self.pass(&mut next),
            Action::Receive { .. }
            | Action::Acquire { .. }
            | Action::Commit { .. }
            | Action::Intend { .. }
            | Action::Call { .. }
            | Action::Again { .. }
            | Action::Renew { .. }
            | Action::Send { .. }
            | Action::Delete { .. }
            | Action::Crash { .. } => self.work(&mut next, *action)?,
            Action::Errand { .. }
            | Action::SenderDies { .. }
            | Action::Copy { .. }
            | Action::Signal { .. }
            | Action::Cancel
            | Action::Pause
            | Action::Person(_)
            | Action::Sweep => self.speak(&mut next, *action)?,
        }
        match next.books.look(&self.parts, &next.run) {
            // Without this rule a mark is missing, too: what it comes to is that nobody wakes the run.
            Err(breach) if breach.invariant == 10 && self.leaves_out(LeftOut::MailboxSeen) => {}
            looked => looked?,
        }
        Ok(in_order(next))
    }

    fn is_end(&self, state: &State) -> bool {
        let is_idle = |worker: &Worker| matches!(worker.doing, Doing::Idle);
        state.run.progress.status.phase().is_ended()
            && state.queue.is_empty()
            && state.errands.is_empty()
            && state.workers.iter().all(is_idle)
    }

    fn helps(&self, state: &State, action: &Action) -> bool {
        match action {
            Action::Acquire { reply, .. } | Action::Commit { reply, .. } | Action::Intend { reply, .. } => {
                *reply == Reply::Heard
            }
            Action::Receive { entry, .. } => state.queue[*entry].holders == 0,
            Action::Call { .. }
            | Action::Again { .. }
            | Action::Send { .. }
            | Action::Delete { .. }
            | Action::Errand { .. }
            | Action::Time
            | Action::Person(_)
            | Action::Sweep => true,
            // Only one that the run waits for, and has not had.
            Action::Signal { signal } => self.is_awaited(state, *signal),
            Action::Renew { .. }
            | Action::Crash { .. }
            | Action::SenderDies { .. }
            | Action::Copy { .. }
            | Action::Cancel
            | Action::Pause => false,
        }
    }

    fn tell(&self, state: &State, action: &Action) -> String {
        tell::action(state, action)
    }

    fn tell_stuck(&self, state: &State) -> String {
        tell::stuck(state)
    }
}
