//! A worker: what an engine does with a message, one action at a time. It may crash between any two.

use stepwell_core::decide::{Decision, Moment, Send, Then, Turn, Verdict, commit, intend, refused, turn};
use stepwell_core::write::{Acquire, Commit, Refusal, Renew, Write};
use stepwell_core::{Budget, Checkpoint, Message, Outcome, Status, Ticket, Timestamp};

use super::parts::{NOW, RULES, UNIT, at, units, unknown};
use super::snap::{FENCE, Snap, TICKET};
use super::steps::{self, Effect, Ending, FAILED, How, Next};
use super::{Action, Answer, Breach, By, Doing, Doubt, Doubted, Entry, LeftOut, Reply, State, World, breach};

/// Whether the outside could still be called in time.
fn is_in_time(held: &Checkpoint) -> bool {
    held.progress.journal.first().and_then(|record| record.until).is_none_or(|until| until > NOW)
}

fn is_lost(held: &Checkpoint) -> bool {
    held.hold.fence != FENCE
}

/// When it was decided.
fn decided_at(doubt: &Doubt) -> Timestamp {
    at(if doubt.is_old { -1 } else { 0 })
}

impl World {
    /// What the workers can do.
    pub(super) fn of_workers(&self, state: &State, into: &mut Vec<Action>) {
        let first_idle = state.workers.iter().position(|worker| matches!(worker.doing, Doing::Idle));
        for (worker, is) in state.workers.iter().enumerate() {
            let replies =
                if state.left.lost > 0 { &[Reply::Heard, Reply::Lost, Reply::Late][..] } else { &[Reply::Heard] };
            match &is.doing {
                Doing::Idle if first_idle == Some(worker) => receive(state, worker, into),
                // One that is idle is like any other.
                Doing::Idle => {}
                Doing::Acquire => into.extend(replies.iter().map(|reply| Action::Acquire { worker, reply: *reply })),
                Doing::Commit { held, ended: None } => {
                    self.of_turn(state, worker, held, replies, into);
                    if self.settings.renew
                        && (is_lost(held) || state.run.hold.lease.as_ref().is_some_and(|l| l.until <= NOW))
                    {
                        into.push(Action::Renew { worker });
                    }
                }
                Doing::Commit { ended: Some(ending), .. } => commits(worker, None, *ending, replies, into),
                Doing::Call { held } => {
                    into.push(Action::Call { worker, is_heard: false });
                    if is_in_time(held) {
                        into.push(Action::Call { worker, is_heard: true });
                    }
                }
                Doing::Again(_) => into.push(Action::Again { worker }),
                Doing::Send { .. } => into.push(Action::Send { worker }),
                Doing::Delete => into.push(Action::Delete { worker }),
            }
            if state.left.crashes > 0 && !matches!(is.doing, Doing::Idle) {
                into.push(Action::Crash { worker });
            }
        }
    }

    /// What a worker can do with a run that it has acquired.
    fn of_turn(&self, state: &State, worker: usize, held: &Checkpoint, replies: &[Reply], into: &mut Vec<Action>) {
        let decided = |reply: &Reply| Action::Commit { worker, ended: None, go_on: false, reply: *reply };
        if !matches!(turn(held, &Budget::none(), RULES, NOW), Ok(Turn::Step)) {
            into.extend(replies.iter().map(decided));
            return;
        }
        for next in steps::next(&self.parts, self.settings.flow, held, self.leaves_out(LeftOut::OpenIntent)) {
            match next {
                Next::End(ending) => commits(worker, Some(ending), ending, replies, into),
                Next::Intend => into.extend(replies.iter().map(|reply| Action::Intend { worker, reply: *reply })),
            }
        }
        if state.left.retries > 0 {
            commits(worker, Some(FAILED), FAILED, replies, into);
        }
    }

    /// A worker does something.
    pub(super) fn work(&self, state: &mut State, action: Action) -> Result<(), Breach> {
        match action {
            Action::Receive { worker, entry } => {
                let entry = &mut state.queue[entry];
                if entry.holders != 0 {
                    state.left.copies -= 1;
                    state.books.inject();
                }
                entry.holders |= 1 << worker;
                state.workers[worker].message = Some(entry.age);
                state.workers[worker].doing = Doing::Acquire;
                Ok(())
            }
            Action::Acquire { worker, reply } => self.acquire(state, worker, NOW, reply),
            Action::Commit { worker, ended, go_on, reply } => {
                let Doing::Commit { held, ended: before } = state.workers[worker].doing.clone() else { return Ok(()) };
                if let Some(ending) = &ended {
                    state.books.step(&held, !is_lost(&held))?;
                    state.left.retries -= u8::from(ending.how == How::Retry);
                }
                self.commit(state, worker, Writing { held, decided_at: NOW, reply }, ended.or(before), go_on)
            }
            Action::Intend { worker, reply } => {
                let Doing::Commit { held, .. } = state.workers[worker].doing.clone() else { return Ok(()) };
                state.books.step(&held, !is_lost(&held))?;
                if self.leaves_out(LeftOut::Intent) {
                    state.workers[worker].doing = Doing::Call { held };
                    return Ok(());
                }
                self.intend(state, worker, Writing { held, decided_at: NOW, reply })
            }
            Action::Call { worker, is_heard } => self.call(state, worker, is_heard),
            Action::Again { worker } => self.again(state, worker),
            Action::Renew { worker } => self.renew(state, worker),
            Action::Send { worker } => send(state, worker),
            Action::Delete { worker } => {
                delete(state, worker);
                Ok(())
            }
            Action::Crash { worker } => {
                state.left.crashes -= 1;
                state.books.inject();
                leave(state, worker);
                Ok(())
            }
            Action::Errand { .. }
            | Action::SenderDies { .. }
            | Action::Time
            | Action::Copy { .. }
            | Action::Signal { .. }
            | Action::Cancel
            | Action::Pause
            | Action::Person(_)
            | Action::Sweep => Ok(()),
        }
    }

    fn again(&self, state: &mut State, worker: usize) -> Result<(), Breach> {
        let Doing::Again(doubt) = state.workers[worker].doing.clone() else { return Ok(()) };
        let decided_at = decided_at(&doubt);
        let writing = |held| Writing { held, decided_at, reply: Reply::Heard };
        match doubt.what {
            Doubted::Acquire => self.acquire(state, worker, decided_at, Reply::Heard),
            Doubted::Intend { held } => self.intend(state, worker, writing(held)),
            Doubted::Commit { held, ended, go_on } => self.commit(state, worker, writing(held), ended, go_on),
        }
    }

    fn acquire(&self, state: &mut State, worker: usize, decided_at: Timestamp, reply: Reply) -> Result<(), Breach> {
        let age = state.workers[worker].message.unwrap_or(0);
        let ticket = Ticket(TICKET.0 - u64::from(age));
        if doubted(state, worker, reply, Doubted::Acquire) {
            return Ok(());
        }
        self.wake_early(state);
        let write = Write::Acquire(Acquire { ticket, lease: self.parts.lease(decided_at) });
        let answer = self.write(state, By { worker: Some(worker), ..By::default() }, write, decided_at)?;
        if reply == Reply::Lost {
            unheard(state, worker, answer);
            return Ok(());
        }
        state.workers[worker].doing = match answer {
            Ok(_) => Doing::Commit { held: self.answered(state), ended: None },
            Err(_) => self.refused(state, ticket)?,
        };
        Ok(())
    }

    /// What an acquire answers.
    fn answered(&self, state: &State) -> Snap {
        match &state.older {
            Some(older) => {
                let held = Checkpoint { hold: state.run.hold.clone(), ..(**older).clone() };
                self.snaps.keep(held, &state.run)
            }
            None => state.run.clone(),
        }
    }

    /// The timer is looked at as if its time had come, where that rule is left out.
    fn wake_early(&self, state: &mut State) {
        if !self.leaves_out(LeftOut::TimerTime) {
            return;
        }
        let mut run = (*state.run).clone();
        if let Status::Waiting(wait) = &mut run.progress.status {
            wait.until = wait.until.map(|_| NOW);
            state.run = self.snaps.keep(run, &state.run);
        }
    }

    /// What the table says about a message whose acquire was refused.
    fn refused(&self, state: &State, ticket: Ticket) -> Result<Doing, Breach> {
        let is_leased = state.run.is_leased(NOW);
        let is_left_out = (self.leaves_out(LeftOut::HandOff) && ticket.next() == TICKET)
            || (self.leaves_out(LeftOut::LiveLease) && ticket == TICKET && is_leased);
        if is_left_out {
            return Ok(Doing::Delete);
        }
        let message = Message { run: self.parts.run.clone(), ticket };
        match refused(Some(&state.run), &message, NOW, 0) {
            Verdict::Delete => Ok(Doing::Delete),
            Verdict::SendThenDelete(send) => {
                let times = if is_leased && self.leaves_out(LeftOut::SendOnce) { 2 } else { 1 };
                sends(send, TICKET, times)
            }
            Verdict::TryAgain => Ok(Doing::Acquire),
            Verdict::Bury(why) => Err(breach(1, format!("the message of a run that is there is buried: {why}"))),
            Verdict::Violation(what) => Err(breach(1, what)),
        }
    }

    fn intend(&self, state: &mut State, worker: usize, writing: Writing) -> Result<(), Breach> {
        let Writing { held, decided_at, reply } = writing;
        if doubted(state, worker, reply, Doubted::Intend { held: held.clone() }) {
            return Ok(());
        }
        let until = decided_at.plus(UNIT);
        let journal = vec![self.parts.effect(unknown(), Some(until))];
        let commit =
            intend(&held, journal, until, RULES, decided_at).map_err(|illegal| breach(2, illegal.to_string()))?;
        let by = By { worker: Some(worker), fence: Some(held.hold.fence), ended: None };
        let answer = self.write(state, by, Write::Commit(Box::new(commit)), decided_at)?;
        if reply == Reply::Lost {
            unheard(state, worker, answer);
            return Ok(());
        }
        match answer {
            Ok(_) => state.workers[worker].doing = Doing::Call { held: state.run.clone() },
            Err(Refusal::Cancelled) => {
                let ended = Some(Ending { effect: Effect::NotSent, ..FAILED });
                state.workers[worker].doing = Doing::Commit { held: state.run.clone(), ended };
            }
            Err(refusal) => self.stop(state, worker, refusal)?,
        }
        Ok(())
    }

    fn commit(
        &self,
        state: &mut State,
        worker: usize,
        writing: Writing,
        ended: Option<Ending>,
        go_on: bool,
    ) -> Result<(), Breach> {
        let Writing { held, decided_at, reply } = writing;
        if doubted(state, worker, reply, Doubted::Commit { held: held.clone(), ended, go_on }) {
            return Ok(());
        }
        let Decision { mut commit, then } = self.decide(&held, ended.as_ref(), go_on, decided_at)?;
        self.leave_out(&mut commit, &state.run, ended.as_ref());
        let by = By { worker: Some(worker), fence: Some(held.hold.fence), ended: ended.as_ref() };
        let answer = self.write(state, by, Write::Commit(Box::new(commit)), decided_at)?;
        if reply == Reply::Lost {
            unheard(state, worker, answer);
            return Ok(());
        }
        match answer {
            Ok(ticket) => {
                state.workers[worker].doing = match then {
                    Then::Continue => Doing::Commit { held: state.run.clone(), ended: None },
                    Then::HandOff(Some(send)) => sends(send, ticket, 1)?,
                    Then::HandOff(None) | Then::Ended => Doing::Delete,
                };
            }
            Err(Refusal::MailboxMoved | Refusal::Cancelled) => {
                state.workers[worker].doing = Doing::Commit { held: state.run.clone(), ended };
            }
            Err(refusal) => self.stop(state, worker, refusal)?,
        }
        Ok(())
    }

    fn decide(
        &self,
        held: &Checkpoint,
        ended: Option<&Ending>,
        go_on: bool,
        now: Timestamp,
    ) -> Result<Decision, Breach> {
        let illegal = |illegal: stepwell_core::decide::Illegal| breach(2, illegal.to_string());
        match ended {
            Some(ending) => {
                let end = ending.tell(&self.parts, held);
                commit(held, end, RULES, Moment { now, random: 0 }, go_on).map_err(illegal)
            }
            None => match turn(held, &Budget::none(), RULES, now).map_err(illegal)? {
                Turn::Write(decision) => Ok(*decision),
                Turn::Step => Err(breach(2, "what was decided once is decided otherwise the second time")),
            },
        }
    }

    /// The rules about commits that may be left out.
    fn leave_out(&self, commit: &mut Commit, run: &Checkpoint, ended: Option<&Ending>) {
        let Some(rule) = self.settings.left_out else { return };
        match rule {
            LeftOut::MailboxSeen => commit.mailbox_seen = None,
            LeftOut::Fence => (commit.fence, commit.after) = (run.hold.fence, run.progress.revision),
            LeftOut::Consume => commit.consumed.clear(),
            LeftOut::DueMark => commit.due_at = None,
            LeftOut::OpenEnd => {
                if ended.is_some_and(|ending| ending.how == How::Complete) {
                    commit.progress.status = Status::Completed { output: self.parts.value(), at: NOW };
                }
            }
            LeftOut::HandOff
            | LeftOut::LiveLease
            | LeftOut::FencedLeaves
            | LeftOut::Intent
            | LeftOut::OpenIntent
            | LeftOut::CurrentCheckpoint
            | LeftOut::SendOnce
            | LeftOut::TimerTime
            | LeftOut::ParkKeeps => {}
        }
    }

    fn renew(&self, state: &mut State, worker: usize) -> Result<(), Breach> {
        let Doing::Commit { held, .. } = &state.workers[worker].doing else { return Ok(()) };
        let renew = Renew { fence: held.hold.fence, until: NOW.plus(RULES.lease) };
        let by = By { worker: Some(worker), fence: Some(renew.fence), ended: None };
        match self.write(state, by, Write::Renew(renew), NOW)? {
            Ok(_) => Ok(()),
            Err(refusal) => self.stop(state, worker, refusal),
        }
    }

    /// The worker has lost the run. Its message comes again, and is then judged like any other.
    fn stop(&self, state: &mut State, worker: usize, refusal: Refusal) -> Result<(), Breach> {
        if !matches!(refusal, Refusal::Fenced | Refusal::Released) {
            return Err(breach(2, format!("a holder's write is refused, but not for its fence: {refusal}")));
        }
        if self.leaves_out(LeftOut::FencedLeaves) {
            state.workers[worker].doing = Doing::Delete;
        } else {
            leave(state, worker);
        }
        Ok(())
    }

    fn call(&self, state: &mut State, worker: usize, is_heard: bool) -> Result<(), Breach> {
        let Doing::Call { held } = state.workers[worker].doing.clone() else { return Ok(()) };
        let was_failed = held.progress.journal.iter().any(|record| matches!(record.outcome, Outcome::Failed(_)));
        if was_failed {
            return Err(breach(4, "what has failed is called"));
        }
        if is_in_time(&held) {
            state.books.call()?;
        }
        let (how, effect) =
            if is_heard { (How::Goto, Effect::Succeeded) } else { (self.unheard(&held), Effect::Unknown) };
        let ended = Some(Ending { how, until: None, took: 0, effect });
        state.workers[worker].doing = Doing::Commit { held, ended };
        Ok(())
    }

    /// How the step that has made a call ends that it has had no answer to.
    fn unheard(&self, held: &Checkpoint) -> How {
        let visit = usize::try_from(held.progress.visit.0).unwrap_or(usize::MAX);
        self.settings.flow.get(visit).and_then(|steps| steps.first()).map_or(How::Park, |step| steps::unheard(*step))
    }
}

/// A write about to be made.
struct Writing {
    held: Snap,
    decided_at: Timestamp,
    reply: Reply,
}

/// Every way to write a step's end.
fn commits(worker: usize, ended: Option<Ending>, ending: Ending, replies: &[Reply], into: &mut Vec<Action>) {
    let may_go_on = match ending.how {
        How::Goto | How::Wait { .. } => true,
        How::Complete | How::Retry | How::Park => false,
    };
    for reply in replies.iter().copied() {
        into.push(Action::Commit { worker, ended, go_on: false, reply });
        if may_go_on {
            into.push(Action::Commit { worker, ended, go_on: true, reply });
        }
    }
}

fn receive(state: &State, worker: usize, into: &mut Vec<Action>) {
    for (entry, is) in state.queue.iter().enumerate() {
        let is_first = entry == 0 || state.queue[entry - 1] != *is;
        if is_first && is.delay == 0 && (is.holders == 0 || state.left.copies > 0) {
            into.push(Action::Receive { worker, entry });
        }
    }
}

/// A worker that will not hear the answer of this write is in doubt from now on. Whether the write comes only later.
fn doubted(state: &mut State, worker: usize, reply: Reply, what: Doubted) -> bool {
    if reply == Reply::Heard {
        return false;
    }
    state.left.lost -= 1;
    state.workers[worker].doing = Doing::Again(Doubt { what, is_old: false, is_last: false });
    reply == Reply::Late
}

/// It does not know that its write is the last one.
fn unheard(state: &mut State, worker: usize, answer: Answer) {
    if let Doing::Again(doubt) = &mut state.workers[worker].doing {
        doubt.is_last = answer.is_ok();
    }
}

fn sends(send: Send, ticket: Ticket, times: u8) -> Result<Doing, Breach> {
    let delay = u8::try_from(units(NOW.plus(send.delay))).unwrap_or(0);
    Ok(Doing::Send { age: World::age(send.ticket, ticket)?, delay, times })
}

fn send(state: &mut State, worker: usize) -> Result<(), Breach> {
    let Doing::Send { age, delay, times } = state.workers[worker].doing else { return Ok(()) };
    state.queue.push(Entry { age, delay, holders: 0 });
    state.workers[worker].doing = if times > 1 { Doing::Send { age, delay, times: times - 1 } } else { Doing::Delete };
    state.books.one_more(state.queue.len())
}

/// A queue may well delete a message that somebody else has received meanwhile.
fn delete(state: &mut State, worker: usize) {
    let before = state.queue.len();
    state.queue.retain(|entry| entry.holders & 1 << worker == 0);
    if state.queue.len() < before {
        state.books.one_less();
    }
    leave(state, worker);
}

/// The message comes again, if it is still there.
pub(super) fn leave(state: &mut State, worker: usize) {
    state.queue.iter_mut().for_each(|entry| entry.holders &= !(1 << worker));
    state.workers[worker].message = None;
    state.workers[worker].doing = Doing::Idle;
}
