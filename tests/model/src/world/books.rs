//! What the invariants are checked against: written down by the world as things happen, never read from the checkpoint.

use stepwell_core::history::EntryKind;
use stepwell_core::write::{Write, WriteRequest};
use stepwell_core::{Checkpoint, EffectRecord, Outcome, Status, Wait, invariants};

use super::parts::{NOW, Parts, at, units};
use super::steps::{Ending, How};
use super::{Breach, By, breach};

/// What has become of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    Unheard,
    Accepted,
    Consumed,
}

/// When the step of the current visit may run: a time, or one of these signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Nap {
    until: Option<i8>,
    on: u8,
    /// It is the pause before another attempt: a person may end it.
    is_of_retry: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Books {
    /// Steps that have ended.
    ended: u8,
    signals: [Fate; 2],
    nap: Option<Nap>,
    /// Calls that the outside has had.
    calls: u8,
    /// The current holder has run the step of this visit, and nothing tells of it.
    is_tried: bool,
    /// One before it has.
    was_tried: bool,
    /// How many more messages there may be, before more come from somewhere.
    slack: u8,
    slack_max: u8,
}

fn right(holds: bool, invariant: u8, what: &str) -> Result<(), Breach> {
    if holds { Ok(()) } else { Err(breach(invariant, what)) }
}

impl Books {
    /// A message makes at most one: each worker may have sent one and not yet deleted its own, and no other comes but from elsewhere.
    /// What is counted is how many more there may be. It is not counted above what all workers together can still use up of it:
    /// they delete, or have deleted for them, at most two each before they begin anew.
    pub(super) fn new(workers: u8) -> Self {
        Self {
            ended: 0,
            signals: [Fate::Unheard; 2],
            nap: None,
            calls: 0,
            is_tried: false,
            was_tried: false,
            slack: workers,
            slack_max: 2 * workers,
        }
    }

    pub(super) fn has_happened(&self) -> bool {
        self.calls > 0
    }

    /// Something from elsewhere may make one more message: a duplicate, a second delivery, a crash.
    pub(super) fn inject(&mut self) {
        self.slack = (self.slack + 1).min(self.slack_max);
    }

    /// A worker has deleted a message.
    pub(super) fn one_less(&mut self) {
        self.inject();
    }

    /// A worker has sent a message.
    pub(super) fn one_more(&mut self, messages: usize) -> Result<(), Breach> {
        let slack = self.slack.checked_sub(1);
        self.slack =
            slack.ok_or_else(|| breach(7, format!("there are {messages} messages, more than came from anywhere")))?;
        Ok(())
    }

    /// Time passes.
    pub(super) fn pass(&mut self) {
        if let Some(until) = self.nap.as_mut().and_then(|nap| nap.until.as_mut()) {
            *until = (*until - 1).max(0);
        }
    }

    /// The outside is called.
    pub(super) fn call(&mut self) -> Result<(), Breach> {
        self.calls += 1;
        right(self.calls == 1, 3, "the outside is called a second time")
    }

    /// A worker runs the step of a run that it holds, or held.
    pub(super) fn step(&mut self, held: &Checkpoint, is_holder: bool) -> Result<(), Breach> {
        if !is_holder {
            return Ok(());
        }
        let visit = held.progress.visit.0;
        right(visit >= u64::from(self.ended), 5, "a step runs again whose end is recorded")?;
        if let Some(nap) = &self.nap {
            let has_come = |bit: usize| nap.on >> bit & 1 == 1 && self.signals[bit] != Fate::Unheard;
            let may = nap.until == Some(0) || has_come(0) || has_come(1);
            right(may, 8, "a step runs before its time, and no signal has come")?;
        }
        let is_known = !self.was_tried || held.crashed_since().is_some();
        right(is_known, 4, "an attempt that may have called the outside is forgotten")?;
        self.is_tried |= held.is_leased(NOW);
        Ok(())
    }

    /// A write was carried out.
    pub(super) fn write(
        &mut self,
        parts: &Parts,
        by: &By<'_>,
        before: &Checkpoint,
        request: &WriteRequest,
        after: &Checkpoint,
    ) -> Result<(), Breach> {
        let is_move = matches!(request.write, Write::Commit(_) | Write::Amend(_));
        let revisions = after.progress.revision.0.checked_sub(before.progress.revision.0);
        let is_next = revisions == Some(u64::from(is_move));
        match &request.write {
            Write::Acquire(_) => {
                right(after.hold.fence > before.hold.fence, 2, "a fence is given twice")?;
                self.was_tried |= self.is_tried;
                self.is_tried = false;
            }
            Write::Commit(_) => {
                let is_holder = by.fence == Some(before.hold.fence) && before.hold.lease.is_some();
                right(is_holder, 2, "a worker commits that another has taken the run from")?;
                right(is_next, 2, "a commit does not follow the one before it")?;
                self.commit(by.ended, before, after, units(request.now))?;
            }
            Write::Amend(amend) => {
                right(is_next, 2, "a person's act does not follow the last commit")?;
                if amend.tried_since.is_none() {
                    (self.is_tried, self.was_tried) = (false, false);
                }
                self.was_tried |= std::mem::take(&mut self.is_tried);
                self.nap.take_if(|nap| nap.is_of_retry);
                let is_resumed = !before.progress.status.is_live() && after.progress.status.is_live();
                let kind = after.progress.tail.entries.last().map(|entry| entry.kind);
                let is_told = matches!(kind, Some(EntryKind::Resumed | EntryKind::Resolved));
                right(!is_resumed || is_told, 9, "a run is resumed, and its history does not say so")?;
            }
            Write::Signal(letter) => {
                let signal = parts.signals.iter().position(|(id, _)| *id == letter.id);
                if let Some(fate) = signal.map(|signal| &mut self.signals[signal]) {
                    right(*fate == Fate::Unheard, 6, "a signal is accepted twice")?;
                    *fate = Fate::Accepted;
                }
            }
            Write::Start(_) | Write::Renew(_) | Write::Cancel(_) => {}
        }
        right(is_next, 2, "a write that is no commit changes the revision")?;
        self.parked(before, after)
    }

    /// `at`: when it was decided, in units from now.
    fn commit(
        &mut self,
        ended: Option<&Ending>,
        before: &Checkpoint,
        after: &Checkpoint,
        at: i8,
    ) -> Result<(), Breach> {
        let (was, is) = (before.progress.visit.0, after.progress.visit.0);
        let is_let_go = after.hold.lease.is_none();
        if is == was {
            // An intent is in the middle of an attempt; whoever gives the run back in its step has told of its own.
            self.is_tried &= !is_let_go;
            if matches!(after.progress.status, Status::Retrying { .. }) {
                // Each pause is one unit long.
                self.nap = Some(Nap { until: Some(at + 1), on: 0, is_of_retry: true });
            }
            return Ok(());
        }
        right(is == was + 1 && was == u64::from(self.ended), 5, "a step ends twice")?;
        self.ended += 1;
        (self.is_tried, self.was_tried, self.nap) = (false, false, None);
        let Some(ending) = ended else { return Ok(()) };
        for bit in (0..2).filter(|bit| ending.took >> bit & 1 == 1) {
            right(self.signals[bit] == Fate::Accepted, 6, "a signal is consumed that is not there, or was before")?;
            self.signals[bit] = Fate::Consumed;
        }
        if let (How::Wait { on }, Status::Waiting(_) | Status::Parked { .. }) = (ending.how, &after.progress.status) {
            self.nap = Some(Nap { until: ending.until.map(|until| until.max(0)), on, is_of_retry: false });
        }
        Ok(())
    }

    /// Parking keeps what resuming needs.
    fn parked(&self, before: &Checkpoint, after: &Checkpoint) -> Result<(), Breach> {
        if !matches!(after.progress.status, Status::Parked { .. }) {
            return Ok(());
        }
        let is_kept = |(signal, fate): (usize, &Fate)| {
            let name = ["s1", "s2"][signal];
            *fate != Fate::Accepted || after.mailbox.letters.iter().any(|letter| letter.id.as_str() == name)
        };
        right(self.signals.iter().enumerate().all(is_kept), 9, "a parked run has lost a letter")?;
        let is_same_step = before.progress.visit == after.progress.visit;
        right(!is_same_step || before.progress.place == after.progress.place, 9, "a parked run has lost its place")?;
        let known = |run: &Checkpoint| run.progress.journal.len() + run.progress.ledger.len();
        // A person may say of one that is forgotten that it did not happen.
        let was_parked = matches!(before.progress.status, Status::Parked { .. });
        right(was_parked || known(after) >= known(before), 9, "a parked run has lost an effect")?;
        let is_open = self.nap.filter(|nap| {
            let has_come = |bit: usize| nap.on >> bit & 1 == 1 && self.signals[bit] != Fate::Unheard;
            !nap.is_of_retry && nap.until != Some(0) && !has_come(0) && !has_come(1)
        });
        let is_kept = is_open.is_none_or(|nap| {
            let ends = |wait: &Wait| wait.until == nap.until.map(at);
            after.progress.spent.cut_wait.as_deref().is_some_and(ends)
        });
        right(is_kept, 9, "a parked run has lost its wait")
    }

    /// The run as it stands, whatever has happened.
    pub(super) fn look(&self, parts: &Parts, run: &Checkpoint) -> Result<(), Breach> {
        let progress = &run.progress;
        for (fate, (id, _)) in self.signals.iter().zip(&parts.signals) {
            let is_listed = run.mailbox.letters.iter().any(|letter| letter.id == *id);
            right(*fate != Fate::Consumed || !is_listed, 6, "a signal that was consumed is still there")?;
            right(*fate != Fate::Accepted || is_listed, 6, "a signal that was accepted is neither there nor consumed")?;
        }
        invariants::check(run).map_err(|broken| breach(10, broken.what))?;
        let sleeps = matches!(&progress.status, Status::Waiting(wait) if wait.wakes_at().is_none());
        let has_source = run.due_at.is_some() || (sleeps && !run.is_due(NOW));
        right(!progress.status.is_live() || has_source, 10, "a run that is live has nothing that wakes it")?;
        let records = progress.journal.iter().chain(&progress.ledger);
        for record in records.clone() {
            let is_failed = matches!(record.outcome, Outcome::Failed(_));
            right(!is_failed || self.calls == 0, 4, "a call that has happened is recorded as failed")?;
            let is_done = matches!(record.outcome, Outcome::Succeeded(_));
            right(!is_done || self.calls > 0, 4, "a call is recorded as done that never was")?;
        }
        let is_told = |record: &EffectRecord| record.may_have_happened() && !record.is_open();
        let is_over = progress.status.phase().is_ended();
        let is_open = records.clone().any(EffectRecord::is_open);
        right(!is_over || !is_open, 4, "a run has ended, and nobody knows whether its effect has happened")?;
        right(
            !is_over || self.calls == 0 || records.clone().any(is_told),
            4,
            "a run has ended, and nothing tells of a call that has happened",
        )
    }
}
