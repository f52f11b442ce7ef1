//! A worker of the tiny world: what an engine does with a message, one action at a time.

use core::time::Duration;
use std::mem::take;

use stepwell_core::decide::{Decision, Moment, Send, StepEnd, StepOutcome, Then, Turn, Verdict};
use stepwell_core::decide::{commit, intend, refused, turn};
use stepwell_core::write::{Acquire, Refusal, Renew, Write, WriteRequest};
use stepwell_core::{Budget, Checkpoint, Class, Message, ParkReason, RetryPolicy, Ticket};

use super::{InFlight, LeftOut, RULES, STEPS_MOST, VISIBILITY, World, Wrong};
use crate::make;
use crate::make::dice::Dice;

/// What a worker is about to do with the message it has received. Each is one action; it may crash between any two.
#[derive(Default)]
pub(super) enum Doing {
    #[default]
    Nothing,
    Acquire(WriteRequest),
    Decide(Box<Checkpoint>),
    /// The write before a call, and how the attempt ends that makes it.
    Intend(Box<(WriteRequest, StepEnd)>),
    Commit(Box<(WriteRequest, Then, Option<StepEnd>)>),
    Send(Send),
    Delete,
}

#[derive(Default)]
pub(super) struct Worker {
    message: Option<InFlight>,
    doing: Doing,
}

impl World {
    /// The next action of a worker; `answer_lost`: its write is carried out, and it has to ask again. False when it has
    /// nothing to do.
    pub(super) fn work(&mut self, worker: usize, mut dice: Dice, answer_lost: bool) -> Result<bool, Wrong> {
        let doing = take(&mut self.workers[worker].doing);
        let next = match doing {
            Doing::Nothing => match self.receive(worker, &mut dice) {
                Some(ticket) => self.acquire(ticket),
                None => return Ok(false),
            },
            Doing::Acquire(request) => match (self.write(&request)?, answer_lost) {
                (_, true) => Doing::Acquire(request),
                (Ok(held), false) => Doing::Decide(Box::new(held)),
                (Err(_), false) => self.refused(worker, dice)?,
            },
            Doing::Decide(held) => self.decide(&held, dice)?,
            Doing::Intend(intent) => match (self.write(&intent.0)?, answer_lost) {
                (_, true) => Doing::Intend(intent),
                (Ok(held), false) => self.commit(&held, intent.1, dice)?,
                // Nothing is called; the attempt has ended all the same.
                (Err(Refusal::Cancelled), false) => self.commit(&self.run.clone(), intent.1, dice)?,
                (Err(Refusal::Fenced | Refusal::Released), false) => self.stop(worker),
                (Err(refusal), false) => return Err(format!("an intent was refused: {refusal}")),
            },
            Doing::Commit(commit) => match (self.write(&commit.0)?, answer_lost) {
                (_, true) => Doing::Commit(commit),
                (Ok(after), false) => match commit.1 {
                    Then::Continue => Doing::Decide(Box::new(after)),
                    Then::HandOff(Some(send)) => Doing::Send(send),
                    Then::HandOff(None) | Then::Ended => Doing::Delete,
                },
                (Err(Refusal::MailboxMoved | Refusal::Cancelled), false) => match commit.2 {
                    Some(end) => self.commit(&self.run.clone(), end, dice)?,
                    None => Doing::Decide(Box::new(self.run.clone())),
                },
                (Err(Refusal::Fenced | Refusal::Released), false) => self.stop(worker),
                (Err(refusal), false) => return Err(format!("a commit was refused: {refusal}")),
            },
            Doing::Send(send) => {
                self.send(send);
                Doing::Delete
            }
            Doing::Delete => self.delete(worker),
        };
        self.workers[worker].doing = next;
        Ok(true)
    }

    fn receive(&mut self, worker: usize, dice: &mut Dice) -> Option<Ticket> {
        let visible: Vec<_> = self.queue.iter_mut().filter(|message| message.visible <= self.now).collect();
        let index = dice.index(visible.len().max(1));
        let message = visible.into_iter().nth(index)?;
        // A second delivery of one message is as good as a second message.
        self.books.injected += usize::from(message.received);
        (message.visible, message.received) = (self.now.plus(VISIBILITY), true);
        self.workers[worker].message = Some(message.clone());
        Some(message.ticket)
    }

    /// A queue may well delete a message that somebody else has received meanwhile.
    fn delete(&mut self, worker: usize) -> Doing {
        let done = self.workers[worker].message.take();
        self.queue.retain(|message| done.as_ref().is_none_or(|done| done.id != message.id));
        Doing::Nothing
    }

    /// The worker has lost the run. Its message comes again, and is then judged like any other.
    fn stop(&mut self, worker: usize) -> Doing {
        if self.settings.left_out == LeftOut::Fenced {
            return Doing::Delete;
        }
        self.workers[worker].message = None;
        Doing::Nothing
    }

    fn acquire(&mut self, ticket: Ticket) -> Doing {
        let lease = make::lease(self.now, self.now.plus(RULES.lease));
        Doing::Acquire(self.request(Write::Acquire(Acquire { ticket, lease })))
    }

    fn refused(&mut self, worker: usize, mut dice: Dice) -> Result<Doing, Wrong> {
        let ticket = self.workers[worker].message.as_ref().unwrap().ticket;
        let message = Message { run: self.run.run.clone(), ticket };
        let left_out = match self.settings.left_out {
            LeftOut::HandOff => ticket.next() == self.run.progress.ticket,
            LeftOut::Lease => ticket == self.run.progress.ticket && self.run.is_leased(self.now),
            LeftOut::Mailbox | LeftOut::Fenced | LeftOut::Nothing => false,
        };
        if left_out {
            return Ok(Doing::Delete);
        }
        match refused(Some(&self.run), &message, self.now, dice.pick(1_000)) {
            Verdict::Delete => Ok(Doing::Delete),
            Verdict::SendThenDelete(send) => Ok(Doing::Send(send)),
            Verdict::TryAgain => Ok(self.acquire(ticket)),
            Verdict::Bury(why) => Err(why.to_string()),
            Verdict::Violation(what) => Err(what),
        }
    }

    fn decide(&mut self, held: &Checkpoint, mut dice: Dice) -> Result<Doing, Wrong> {
        match turn(held, &Budget::none(), RULES, self.now).map_err(|illegal| illegal.to_string())? {
            Turn::Write(decision) => Ok(self.committing(*decision, None)),
            Turn::Step => {
                self.books.step(held, self.now)?;
                let end = self.step(held, &mut dice);
                if dice.pick(3) == 0 { self.intend(held, end) } else { self.commit(held, end, dice) }
            }
        }
    }

    /// An attempt that ends in any way knows how its call ended; one that crashes leaves it open.
    fn intend(&mut self, held: &Checkpoint, end: StepEnd) -> Result<Doing, Wrong> {
        let journal = vec![make::unknown("letter", Class::Once)];
        let until = self.now.plus(Duration::from_secs(10));
        let commit = intend(held, journal, until, RULES, self.now).map_err(|illegal| illegal.to_string())?;
        Ok(Doing::Intend(Box::new((self.request(Write::Commit(Box::new(commit))), end))))
    }

    fn commit(&mut self, held: &Checkpoint, end: StepEnd, mut dice: Dice) -> Result<Doing, Wrong> {
        let (go_on, moment) = (dice.pick(2) == 0, Moment { now: self.now, random: dice.0 });
        let decision = commit(held, end.clone(), RULES, moment, go_on).map_err(|illegal| illegal.to_string())?;
        Ok(self.committing(decision, Some(end)))
    }

    fn committing(&mut self, mut decision: Decision, end: Option<StepEnd>) -> Doing {
        if self.settings.left_out == LeftOut::Mailbox {
            decision.commit.mailbox_seen = None;
        }
        let request = self.request(Write::Commit(Box::new(decision.commit)));
        Doing::Commit(Box::new((request, decision.then, end)))
    }

    /// One attempt of a step: takes some of the letters, and ends in any way. After enough steps the run ends.
    fn step(&mut self, held: &Checkpoint, dice: &mut Dice) -> StepEnd {
        let place = make::place(&format!("Step{}", held.progress.visit.0 + 1));
        let minutes = |minutes| Some(self.now.plus(Duration::from_mins(minutes)));
        let on = |dice: &mut Dice| vec![make::signal(["a", "b"][dice.index(2)])];
        let complete = || StepOutcome::Complete { output: make::inline(&serde_json::json!(1)) };
        let outcome = match dice.pick(24) {
            _ if held.progress.visit.0 >= STEPS_MOST => complete(),
            0..=3 => StepOutcome::Goto { place },
            4..=10 => StepOutcome::Wait { place, on: on(dice), until: None, ask: None },
            11..=13 => StepOutcome::Wait { place, on: on(dice), until: minutes(dice.pick(15)), ask: None },
            14 | 15 => StepOutcome::Wait { place, on: vec![], until: minutes(dice.pick(15)), ask: None },
            16 if self.settings.sweeper => {
                StepOutcome::Wait { place, on: on(dice), until: minutes(15 + dice.pick(120)), ask: None }
            }
            16..=20 => {
                let policy = RetryPolicy::default().max_attempts(4);
                StepOutcome::Retry { failure: make::failure("busy"), policy, at_least: None }
            }
            21 => StepOutcome::Park { reason: ParkReason::Data { what: "a blob is missing".into() } },
            22 => StepOutcome::Fail { failure: make::failure("no") },
            _ => complete(),
        };
        let taken = held.mailbox.letters.iter().filter(|_| dice.pick(2) == 0).map(|letter| letter.id.clone());
        StepEnd { consumed: taken.collect(), ..make::end(outcome) }
    }

    /// Never while the worker is in doubt about another write: the answer to that one would be lost for good.
    pub(super) fn renew(&mut self, worker: usize) -> Result<(), Wrong> {
        let Doing::Decide(held) = &self.workers[worker].doing else { return Ok(()) };
        let renew = Renew { fence: held.hold.fence, until: self.now.plus(RULES.lease * 2) };
        let request = self.request(Write::Renew(renew));
        if self.write(&request)?.is_err() {
            self.workers[worker].doing = self.stop(worker);
        }
        Ok(())
    }
}
