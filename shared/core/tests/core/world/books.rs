//! What the properties are checked against: written down by the world as things happen, never read from the checkpoint.

use core::time::Duration;
use std::collections::BTreeSet;

use stepwell_core::write::{Write, WriteRequest};
use stepwell_core::{
    Checkpoint, EffectRecord, Fence, Revision, SignalId, SignalName, Status, Timestamp, Visit, Wait, invariants,
};

/// A property that does not hold.
pub(super) type Wrong = String;

/// When the step of a visit may run: a time, or one of these letters.
struct Nap {
    visit: Visit,
    since: Revision,
    until: Option<Timestamp>,
    on: Vec<SignalName>,
    /// It is the pause before another attempt: a person may end it.
    of_retry: bool,
}

#[derive(Default)]
pub(super) struct Books {
    commits: BTreeSet<(Fence, Revision)>,
    ended_visits: BTreeSet<Visit>,
    accepted: BTreeSet<SignalId>,
    consumed: BTreeSet<SignalId>,
    nap: Option<Nap>,
    /// Attempts of a step whose end was not committed yet.
    unrecorded: Vec<(Visit, Fence, Timestamp)>,
    /// The last intent of an attempt whose end was not committed yet.
    intent: Option<(Visit, Revision)>,
    due_since: Option<(Revision, Timestamp)>,
    /// Messages that came from elsewhere than a worker's own hand-off: duplicates, redeliveries, senders, sweeps.
    pub(super) injected: usize,
}

fn wrong(holds: bool, what: impl Fn() -> String) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err(what()) }
}

impl Books {
    /// A write was carried out.
    pub(super) fn write(
        &mut self,
        before: &Checkpoint,
        request: &WriteRequest,
        after: &Checkpoint,
    ) -> Result<(), Wrong> {
        invariants::check(after).map_err(|broken| broken.to_string())?;
        let (was, is) = (&before.progress, &after.progress);
        let moved = matches!(request.write, Write::Commit(_) | Write::Amend(_));
        wrong(is.revision.0 == was.revision.0 + u64::from(moved), || {
            format!("revision {} after {}", is.revision, was.revision)
        })?;
        match &request.write {
            Write::Acquire(_) => wrong(after.hold.fence > before.hold.fence, || "a fence was given twice".into()),
            Write::Signal(letter) => {
                wrong(self.accepted.insert(letter.id.clone()), || format!("signal {} was accepted twice", letter.id))
            }
            Write::Commit(commit) => {
                let new = self.commits.insert((after.hold.fence, is.revision));
                wrong(new && commit.fence == before.hold.fence, || format!("two commits at revision {}", is.revision))?;
                for id in &commit.consumed {
                    wrong(self.consumed.insert(id.clone()), || format!("signal {id} was consumed twice"))?;
                }
                if is.visit != was.visit {
                    let once = is.visit.0 == was.visit.0 + 1 && self.ended_visits.insert(was.visit);
                    wrong(once, || format!("visit {} ended twice", was.visit.0))?;
                }
                if is.visit == was.visit && commit.lease.is_some() {
                    self.intent = Some((is.visit, is.revision));
                    return wrong(after.hold.acquires == before.hold.acquires, || {
                        "an intent counts as progress".into()
                    });
                }
                self.intent = None;
                self.unrecorded.retain(|(_, fence, _)| *fence != commit.fence);
                self.note_nap(is.visit != was.visit, after);
                Ok(())
            }
            Write::Amend(amend) => {
                self.unrecorded.clear();
                for id in &amend.consumed {
                    wrong(self.consumed.insert(id.clone()), || format!("signal {id} was consumed twice"))?;
                }
                if is.visit != was.visit {
                    let once = is.visit.0 == was.visit.0 + 1 && self.ended_visits.insert(was.visit);
                    wrong(once, || format!("visit {} was left twice", was.visit.0))?;
                }
                self.nap.take_if(|nap| nap.of_retry);
                let still = !was.status.is_live() && is.ticket == was.ticket;
                wrong(!still || !is.status.is_live(), || "a repaired run goes on by itself".into())
            }
            Write::Start(_) | Write::Renew(_) | Write::Cancel(_) => Ok(()),
        }
    }

    /// A run that goes on waiting, or is parked, has the nap that its step began with.
    fn note_nap(&mut self, step_ended: bool, after: &Checkpoint) {
        let (visit, since) = (after.progress.visit, after.progress.revision);
        match &after.progress.status {
            Status::Waiting(wait) if step_ended => {
                self.nap = Some(Nap { visit, since, until: wait.until, on: wait.on.clone(), of_retry: false });
            }
            Status::Parked { .. } if step_ended => {
                let wait = after.progress.spent.cut_wait.as_ref();
                let nap = |wait: &Wait| Nap { visit, since, until: wait.until, on: wait.on.clone(), of_retry: false };
                self.nap = wait.map(|wait| nap(wait));
            }
            Status::Retrying { at } => {
                self.nap = Some(Nap { visit, since, until: Some(*at), on: vec![], of_retry: true });
            }
            Status::Waiting(_)
            | Status::Created
            | Status::Running
            | Status::Parked { .. }
            | Status::Completed { .. }
            | Status::Failed { .. }
            | Status::Cancelled { .. } => {}
        }
    }

    /// A worker runs the step of a run that it holds, or held.
    pub(super) fn step(&mut self, held: &Checkpoint, now: Timestamp) -> Result<(), Wrong> {
        let visit = held.progress.visit;
        if let Some(nap) = self.nap.as_ref().filter(|nap| nap.visit == visit && nap.since <= held.progress.revision) {
            let may = nap.until.is_some_and(|until| until <= now) || held.mailbox.holds_any(&nap.on);
            wrong(may, || format!("visit {} ran before its time", visit.0))?;
        }
        // An attempt that left no record may have called the outside while its lease was live: who comes after it knows.
        let fence = held.hold.fence;
        for (_, _, at) in self.unrecorded.iter().filter(|(of, by, _)| *of == visit && *by < fence) {
            let known = held.crashed_since().is_some_and(|since| since <= *at);
            wrong(known, || format!("an attempt of visit {} at {at} is forgotten", visit.0))?;
        }
        let intent = self.intent.filter(|(of, at)| *of == visit && *at <= held.progress.revision);
        wrong(intent.is_none() || held.progress.journal.iter().any(EffectRecord::is_open), || {
            format!("an intent of visit {} is forgotten", visit.0)
        })?;
        if held.is_leased(now) {
            self.unrecorded.push((visit, fence, now));
        }
        Ok(())
    }

    /// A message makes at most one: how many there are is bounded by how many came from elsewhere. Each worker may have
    /// sent one and not yet deleted its own.
    pub(super) fn check_bound(&self, messages: usize, workers: usize) -> Result<(), Wrong> {
        wrong(messages <= workers + self.injected, || {
            format!("{messages} messages, {} came from elsewhere", self.injected)
        })
    }

    /// Nobody works on the run. It must not be due and free for long.
    pub(super) fn check_idle(&mut self, run: &Checkpoint, now: Timestamp, patience: Duration) -> Result<(), Wrong> {
        let revision = run.progress.revision;
        let since = match self.due_since {
            Some((then, since)) if then == revision => since,
            _ => now,
        };
        self.due_since = (run.is_due(now) && !run.is_leased(now)).then_some((revision, since));
        wrong(self.due_since.is_none() || now.since(since) <= patience, || {
            format!("stuck: due since {since}, it is {now}, {:?}", run.progress.status)
        })
    }

    /// The run has ended: every signal that was accepted is consumed or listed.
    pub(super) fn end(&self, run: &Checkpoint) -> Result<(), Wrong> {
        let listed: BTreeSet<_> = run.mailbox.letters.iter().map(|letter| letter.id.clone()).collect();
        wrong(listed.is_disjoint(&self.consumed), || "a consumed signal is still listed".into())?;
        let known: BTreeSet<_> = listed.union(&self.consumed).cloned().collect();
        wrong(known == self.accepted, || format!("accepted {:?}, known {known:?}", self.accepted))
    }
}
