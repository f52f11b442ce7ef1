//! Everybody but the workers: who starts, signals, cancels, pauses, resumes, and the sweeper.

use stepwell_core::decide::sweep::{DueRun, horizon, sweep};
use stepwell_core::decide::{Resolution, Resolve, Resume, cancel_parked, pause, resolve, resume, wake};
use stepwell_core::write::{Amend, Refusal, Write};
use stepwell_core::{EffectRecord, Letter, ParkReason, Status};

use super::parts::{NOW, Parts, UNIT, cancel, units};
use super::snap::TICKET;
use super::{Action, Breach, By, Entry, State, World, breach};
/// What a person does to a parked run. They say the truth: what has happened has, what has not may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Person {
    Resume,
    SaysSucceeded,
    SaysFailed,
    SaysTryAgain,
    SignsOff,
}

/// Neither a sweep nor a person adds a message while so many are there, or about to be sent. Both may act for ever, and their messages
/// only ask to look at the run, as those do that are there.
const MESSAGES_MAX: usize = 2;

impl World {
    /// What they can do.
    pub(super) fn of_outside(&self, state: &State, into: &mut Vec<Action>) {
        for (errand, age) in state.errands.iter().enumerate() {
            if errand == 0 || state.errands[errand - 1] != *age {
                into.push(Action::Errand { errand });
                if self.settings.sweeper {
                    into.push(Action::SenderDies { errand });
                }
            }
        }
        if state.left.copies > 0 {
            let is_first = |entry: &usize| *entry == 0 || state.queue[entry - 1] != state.queue[*entry];
            into.extend((0..state.queue.len()).filter(is_first).map(|entry| Action::Copy { entry }));
        }
        let has_room = state.queue.len() + state.errands.len() < MESSAGES_MAX;
        if self.settings.sweeper && has_room && swept(state).is_some() {
            into.push(Action::Sweep);
        }
        let status = &state.run.progress.status;
        if status.phase().is_ended() {
            return;
        }
        into.extend((0..2).filter(|signal| state.left.signals[*signal] > 0).map(|signal| Action::Signal { signal }));
        if state.left.cancels > 0 {
            into.push(Action::Cancel);
        }
        if state.left.pauses > 0 && status.is_live() {
            into.push(Action::Pause);
        }
        if let Status::Parked { reason, .. } = status
            && has_room
        {
            persons(state, reason, into);
        }
    }

    /// Whether the run waits for this signal, and nobody has sent it yet.
    pub(super) fn is_awaited(&self, state: &State, signal: usize) -> bool {
        let is_first = state.left.signals[signal] == 1 + self.settings.repeats;
        let name = &self.parts.signals[signal].1;
        is_first && matches!(&state.run.progress.status, Status::Waiting(wait) if wait.on.contains(name))
    }

    /// Somebody outside does something.
    pub(super) fn speak(&self, state: &mut State, action: Action) -> Result<(), Breach> {
        match action {
            Action::Errand { errand } => {
                let age = state.errands.remove(errand);
                state.queue.push(Entry { age, delay: 0, holders: 0 });
                Ok(())
            }
            Action::SenderDies { errand } => {
                state.errands.remove(errand);
                Ok(())
            }
            Action::Copy { entry } => {
                state.left.copies -= 1;
                let copy = Entry { holders: 0, ..state.queue[entry].clone() };
                state.queue.push(copy);
                Ok(())
            }
            Action::Signal { signal } => {
                state.left.signals[signal] -= 1;
                self.put(state, self.parts.letter(signal))
            }
            Action::Cancel => self.cancel(state),
            Action::Pause => self.pause(state),
            Action::Person(person) => self.help(state, person),
            Action::Sweep => {
                state.queue.extend(swept(state));
                Ok(())
            }
            Action::Receive { .. }
            | Action::Acquire { .. }
            | Action::Commit { .. }
            | Action::Intend { .. }
            | Action::Call { .. }
            | Action::Again { .. }
            | Action::Renew { .. }
            | Action::Send { .. }
            | Action::Delete { .. }
            | Action::Crash { .. }
            | Action::Time => Ok(()),
        }
    }

    /// A letter, and what wakes the run for it. One that was accepted before is answered like the first.
    fn put(&self, state: &mut State, letter: Letter) -> Result<(), Breach> {
        match self.write(state, By::default(), Write::Signal(Box::new(letter)), NOW)? {
            Ok(_) | Err(Refusal::Duplicate) => Self::send_later(state, wake(&state.run, NOW), TICKET),
            Err(Refusal::MailboxFull | Refusal::Ended) => Ok(()),
            Err(refusal) => Err(breach(6, format!("a signal is refused: {refusal}"))),
        }
    }

    fn cancel(&self, state: &mut State) -> Result<(), Breach> {
        state.left.cancels -= 1;
        if self.write(state, By::default(), Write::Cancel(cancel()), NOW)?.is_err() {
            return Ok(());
        }
        // No worker touches a parked run: whoever cancels it ends it, if nothing is open.
        match cancel_parked(&state.run, NOW).map_err(|illegal| breach(2, illegal.to_string()))? {
            Some((amend, send)) => self.amend(state, amend, send),
            None => Self::send_later(state, wake(&state.run, NOW), TICKET),
        }
    }

    /// The request, and what parks a run that nobody holds.
    fn pause(&self, state: &mut State) -> Result<(), Breach> {
        state.left.pauses -= 1;
        let letter = Write::Signal(Box::new(Parts::pause()));
        if self.write(state, By::default(), letter, NOW)?.is_err() {
            return Ok(());
        }
        match pause(&state.run, NOW).map_err(|refused| breach(2, refused.to_string()))? {
            Some(amend) => self.amend(state, amend, None),
            None => Self::send_later(state, wake(&state.run, NOW), TICKET),
        }
    }

    fn help(&self, state: &mut State, person: Person) -> Result<(), Breach> {
        let resolution = match person {
            Person::Resume => {
                let act = Resume { by: "ann".into(), why: None };
                return match resume(&state.run, &act, NOW) {
                    Ok((amend, send)) => self.amend(state, amend, Some(send)),
                    Err(refused) => Err(breach(9, format!("a parked run cannot be resumed: {refused}"))),
                };
            }
            Person::SaysSucceeded => Resolution::Succeeded(self.parts.value()),
            Person::SaysFailed => Resolution::Failed("it did not happen".into()),
            Person::SaysTryAgain => Resolution::TryAgain,
            Person::SignsOff => Resolution::SignOff,
        };
        let Some(key) = open(state).map(|record| record.key.clone()) else { return Ok(()) };
        let act = Resolve { key, resolution, by: "ann".into(), why: "so it is".into() };
        match resolve(&state.run, &act, NOW) {
            Ok((amend, send)) => self.amend(state, amend, send),
            Err(refused) => Err(breach(9, format!("a person cannot say how an effect ended: {refused}"))),
        }
    }

    fn amend(&self, state: &mut State, amend: Amend, send: Option<stepwell_core::decide::Send>) -> Result<(), Breach> {
        match self.write(state, By::default(), Write::Amend(Box::new(amend)), NOW)? {
            Ok(ticket) => Self::send_later(state, send, ticket),
            Err(refusal) => Err(breach(9, format!("a person's act on a run that nobody holds is refused: {refusal}"))),
        }
    }
}

fn open(state: &State) -> Option<&EffectRecord> {
    let progress = &state.run.progress;
    progress.journal.iter().chain(&progress.ledger).find(|record| record.is_open())
}

/// What persons can do for a run that is parked for this.
fn persons(state: &State, reason: &ParkReason, into: &mut Vec<Action>) {
    let Some(record) = open(state) else {
        into.push(Action::Person(Person::Resume));
        return;
    };
    if !matches!(reason, ParkReason::UnknownOutcome { .. }) {
        into.push(Action::Person(Person::Resume));
    }
    // Before that, whoever made the call may still be about to send it.
    if record.until.is_some_and(|until| until > NOW) {
        return;
    }
    into.push(Action::Person(Person::SignsOff));
    let words = if state.books.has_happened() {
        &[Person::SaysSucceeded][..]
    } else {
        &[Person::SaysFailed, Person::SaysTryAgain]
    };
    into.extend(words.iter().map(|word| Action::Person(*word)));
}

/// What a sweep sends now.
fn swept(state: &State) -> Option<Entry> {
    let found = DueRun::of(&state.run).filter(|found| found.due_at <= horizon(NOW, UNIT))?;
    let send = sweep(&found, NOW, UNIT)?;
    let age = u8::try_from(TICKET.0.saturating_sub(send.ticket.0)).unwrap_or(2);
    Some(Entry { age, delay: u8::try_from(units(NOW.plus(send.delay))).unwrap_or(0), holders: 0 })
}
