//! A tiny world around the protocol's functions: one run, its messages, a few workers, and what may go wrong with each.
//! It decides nothing itself: workers do what the functions of the core tell them, and the books see whether that was
//! right. All that happens follows from a list of numbers, so a failure is a short list that can be tried again.

mod books;
mod person;
mod worker;

use core::time::Duration;

use books::{Books, Wrong};
use stepwell_core::decide::sweep::{DueRun, horizon, sweep};
use stepwell_core::decide::{Resolution, Resolve, Resume, Rules, Send, resolve, resume, wake};
use stepwell_core::limits::WATCHDOG_MARK;
use stepwell_core::write::{Amend, Refusal, Write, WriteRequest, apply, is_applied};
use stepwell_core::{Checkpoint, Status, Ticket, Timestamp, WriteId};

use worker::Worker;

use crate::make;
use crate::make::dice::Dice;

const RULES: Rules = Rules { lease: Duration::from_secs(30), acquires_max: 2, run_ends: None };
/// A message that was received comes again after this long, unless it was deleted. Shorter than a lease: both happen.
const VISIBILITY: Duration = Duration::from_secs(20);
const SWEEP_EVERY: Duration = Duration::from_mins(1);
const SWEEP_AHEAD: Duration = Duration::from_mins(5);
const STEPS_FIRST: u64 = 4;
const STEPS_MOST: u64 = 14;

/// A rule of the protocol that is left out, to see the search find what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftOut {
    Nothing,
    /// The message from before a crashed hand-off sends the current one.
    HandOff,
    /// A message that meets a live lease comes again.
    Lease,
    /// A hand-off into waiting is conditional on the mailbox.
    Mailbox,
    /// A fenced worker leaves its message, which may be the one that its successor came by.
    Fenced,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) workers: usize,
    /// There is a sweeper; therefore senders may die before their send, and timers may be far.
    pub(crate) sweeper: bool,
    pub(crate) left_out: LeftOut,
}

#[derive(Clone, Debug)]
struct InFlight {
    id: u64,
    ticket: Ticket,
    visible: Timestamp,
    received: bool,
}

pub(crate) struct World {
    settings: Settings,
    now: Timestamp,
    run: Checkpoint,
    queue: Vec<InFlight>,
    workers: Vec<Worker>,
    /// What the index shows the sweeper. It lags behind.
    index: Option<DueRun>,
    /// What somebody who asked for a pause is about to write.
    parks: Option<Amend>,
    ids: u64,
    books: Books,
}

impl World {
    pub(crate) fn new(settings: Settings, mut dice: Dice) -> Self {
        let mut run = make::started();
        run.progress.step_limit = STEPS_FIRST;
        let workers = (0..settings.workers).map(|_| Worker::default()).collect();
        let (now, books) = (make::T0, Books::default());
        let mut world = Self { settings, now, run, queue: vec![], workers, index: None, parks: None, ids: 100, books };
        world.send_from_outside(Some(Send { ticket: Ticket(1), delay: Duration::ZERO }), &mut dice);
        world
    }

    /// Lets one thing happen.
    pub(crate) fn act(&mut self, mut dice: Dice) -> Result<(), Wrong> {
        let action = dice.pick(26);
        let worker = dice.index(self.workers.len());
        match action {
            0..=12 => {
                if !self.work(worker, dice, action == 12)? {
                    self.pass(dice);
                }
            }
            13 | 14 => {
                self.books.injected += 1;
                self.workers[worker] = Worker::default();
            }
            15..=17 => self.pass(dice),
            18 | 19 => {
                let (id, name) = (format!("s{}", dice.pick(8)), ["a", "b"][dice.index(2)]);
                self.signal(&id, name, &mut dice)?;
            }
            20 => self.duplicate(dice),
            21 => self.renew(worker)?,
            22 if dice.pick(6) == 0 => self.cancel(dice)?,
            22 => self.resume(&mut dice)?,
            24 => self.pause(&mut dice)?,
            25 => self.repair(&mut dice)?,
            _ if dice.pick(2) == 0 => self.index = DueRun::of(&self.run),
            _ => self.sweep(),
        }
        self.books.check_bound(self.queue.len(), self.workers.len())
    }

    fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    fn request(&mut self, write: Write) -> WriteRequest {
        WriteRequest { run: self.run.run.clone(), id: WriteId(self.id()), now: self.now, write }
    }

    fn write(&mut self, request: &WriteRequest) -> Result<Result<Checkpoint, Refusal>, Wrong> {
        let repeated = is_applied(&self.run, request);
        let answer = apply(Some(&self.run), request);
        if let Ok(after) = &answer
            && !repeated
        {
            self.books.write(&self.run, request, after)?;
            self.run = after.clone();
        }
        Ok(answer)
    }

    fn send(&mut self, send: Send) {
        let (id, visible) = (self.id(), self.now.plus(send.delay));
        self.queue.push(InFlight { id, ticket: send.ticket, visible, received: false });
    }

    /// Somebody who is no worker sends, or dies before that.
    fn send_from_outside(&mut self, send: Option<Send>, dice: &mut Dice) {
        let Some(send) = send else { return };
        if self.settings.sweeper && dice.pick(3) == 0 {
            return;
        }
        self.books.injected += 1;
        self.send(send);
    }

    fn pass(&mut self, mut dice: Dice) {
        let later = |seconds| Some(self.now.plus(Duration::from_secs(seconds)));
        let next = match dice.pick(6) {
            0 => later(1),
            1 => later(19),
            2 => later(31),
            3 => later(200),
            _ => self.queue.iter().map(|message| message.visible).min(),
        };
        self.now = next.unwrap_or(self.now).max(self.now);
    }

    /// A signal that was accepted before is answered like the first one: its sender may have died before waking the run.
    fn signal(&mut self, id: &str, name: &str, dice: &mut Dice) -> Result<(), Wrong> {
        let request = self.request(Write::Signal(Box::new(make::letter(id, name))));
        match self.write(&request)? {
            Ok(_) | Err(Refusal::Duplicate) => self.send_from_outside(wake(&self.run, self.now), dice),
            Err(_) => {}
        }
        Ok(())
    }

    fn duplicate(&mut self, mut dice: Dice) {
        if let Some(message) = self.queue.get(dice.index(self.queue.len().max(1))).cloned() {
            self.books.injected += 1;
            let id = self.id();
            self.queue.push(InFlight { id, ..message });
        }
    }

    fn cancel(&mut self, mut dice: Dice) -> Result<(), Wrong> {
        let request = self.request(Write::Cancel(make::cancel()));
        if self.write(&request)?.is_ok() {
            self.send_from_outside(wake(&self.run, self.now), &mut dice);
        }
        Ok(())
    }

    /// Lets a parked run go on. One that is to end, and cannot for want of an answer, is given that.
    fn resume(&mut self, dice: &mut Dice) -> Result<(), Wrong> {
        let open = self.run.progress.journal.iter().chain(&self.run.progress.ledger).find(|record| record.is_open());
        let decided = if let Some(record) = open.filter(|_| self.run.cancel.is_some()).cloned() {
            let (resolution, by, why) = (Resolution::SignOff, "ann".into(), "nobody knows".into());
            resolve(&self.run, &Resolve { key: record.key, resolution, by, why }, self.now).ok()
        } else {
            let act = Resume { by: "ann".into(), why: None };
            resume(&self.run, &act, self.now).ok().map(|(amend, send)| (amend, Some(send)))
        };
        let Some((amend, send)) = decided else { return Ok(()) };
        let request = self.request(Write::Amend(Box::new(amend)));
        if self.write(&request)?.is_ok() {
            self.send_from_outside(send, dice);
        }
        Ok(())
    }

    fn sweep(&mut self) {
        let found = self.index.as_ref().filter(|found| found.due_at <= horizon(self.now, SWEEP_AHEAD));
        let send = found.and_then(|found| sweep(found, self.now, SWEEP_AHEAD));
        if let Some(send) = send.filter(|_| self.settings.sweeper) {
            self.books.injected += 1;
            self.send(send);
        }
    }

    /// The faults stop: no more crashes, duplicates and deaths. What the run still waits for is sent to it, a parked run
    /// is resumed. The run has to end, its last messages have to go, and nothing may lie idle for long.
    pub(crate) fn settle(&mut self, seed: u64) -> Result<(), Wrong> {
        let mut dice = (0..).map(|n: u64| Dice((seed ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)));
        let mut next_sweep = self.now;
        self.park(&mut Dice(1))?;
        for _ in 0..10_000 {
            let mut busy = false;
            for worker in 0..self.workers.len() {
                busy |= self.work(worker, dice.next().unwrap(), false)?;
                self.books.check_bound(self.queue.len(), self.workers.len())?;
            }
            if busy {
                continue;
            }
            let wakes = self.run.wakes_at().is_some() || self.run.is_due(self.now);
            match self.run.progress.status.clone() {
                status if status.phase().is_ended() && self.queue.is_empty() => return self.books.end(&self.run),
                Status::Parked { .. } => self.resume(&mut Dice(1))?,
                Status::Waiting(wait) if !wakes && self.queue.is_empty() => {
                    let (id, name) = (self.id(), wait.on[0].clone());
                    self.signal(&format!("late-{id}"), name.as_str(), &mut Dice(1))?;
                }
                _ => self.wait_for_something(&mut next_sweep)?,
            }
        }
        Err("the run does not come to its end".into())
    }

    /// Nothing can be done now: time passes to the next message or the next sweep.
    fn wait_for_something(&mut self, next_sweep: &mut Timestamp) -> Result<(), Wrong> {
        let patience = WATCHDOG_MARK + 2 * SWEEP_EVERY;
        self.books.check_idle(&self.run, self.now, if self.settings.sweeper { patience } else { RULES.lease * 3 })?;
        let message = self.queue.iter().map(|message| message.visible).min();
        if !self.settings.sweeper {
            self.now = message.ok_or_else(|| format!("stuck: no message, {:?}", self.run.progress.status))?;
            return Ok(());
        }
        *next_sweep = (*next_sweep).max(self.now);
        self.now = message.map_or(*next_sweep, |message| message.min(*next_sweep));
        if self.now >= *next_sweep {
            self.index = DueRun::of(&self.run);
            self.sweep();
            *next_sweep = self.now.plus(SWEEP_EVERY);
        }
        Ok(())
    }
}
