//! Whoever sits before a run: sends it signals, gives approvals, says how unknown effects have ended.

use std::time::{Duration, Instant};

use serde_json::Value;
use stepwell_core::approval::Reviewer;
use stepwell_core::audit::open;
use stepwell_core::decide::{Approve, Resolution, Resolve};
use stepwell_core::{
    Checkpoint, EffectKey, EffectRecord, Failure, Json, ParkReason, Revision, RunId, SignalId, SignalName, Status,
    Timestamp, Wait,
};
use stepwell_engine::{Client, ClientError, SignalRequest};
use stepwell_ports::Clock;

use crate::bed::Bed;

/// How long a run that nobody moves has to stand before it counts as at rest: a worker that is slow may still come back.
const REST: Duration = Duration::from_mins(10);

/// The longest between two looks.
const LOOK: Duration = Duration::from_mins(1);

/// The longest, in real time, that one run may take: a loop in virtual time has no other end.
const REAL_TIME_MAX: Duration = Duration::from_mins(1);

/// Where a run has come to rest.
#[derive(Clone, Debug, PartialEq)]
pub enum Rest {
    /// It has its result.
    Completed(Value),
    /// It has failed.
    Failed(Failure),
    /// It was cancelled.
    Cancelled,
    /// A person has to look.
    Parked(ParkReason),
    /// It waits at this step, and nobody answers.
    Waits {
        /// At which step.
        step: String,
        /// For what.
        waits_for: String,
    },
    /// It had not come to rest when there was no more time for it.
    Restless(String),
    /// It had not come to rest after a minute of real time: this machine, or the outside, is too slow to tell. A run that loops
    /// ends so, too.
    TooSlow(String),
}

/// An effect of which nobody knows whether it has happened.
#[derive(Clone, Debug)]
pub struct Unknown {
    /// Its name.
    pub name: String,
    /// Its key.
    pub key: EffectKey,
    /// How often its closure was really called in this world.
    pub calls: u64,
    /// How many of these calls ended by themselves. The others were cut off on their way, or are still under way: they may or may
    /// not have acted.
    pub ended: u64,
}

/// What a person says of an unknown effect. `None`: they do not know either.
pub(crate) type Says<'a> = &'a dyn Fn(&EffectRecord) -> Option<Resolution>;

/// What somebody does for a run, and what they have done.
pub(crate) struct Person<'a> {
    pub(crate) bed: &'a Bed,
    pub(crate) client: Client,
    pub(crate) run: RunId,
    pub(crate) signals: &'a [(SignalName, Json)],
    pub(crate) sent: Vec<bool>,
    /// The wait that was answered last: it is not answered twice.
    pub(crate) answered: Option<Revision>,
    pub(crate) approves: bool,
    pub(crate) says: Says<'a>,
    /// What they have said of unknown effects.
    pub(crate) said: Vec<(EffectKey, Resolution)>,
    /// Until when the run has to have come to rest.
    pub(crate) until: Timestamp,
}

impl Person<'_> {
    /// Does what there is to do until the run has come to rest.
    pub(crate) async fn sit(&mut self) -> Result<Rest, ClientError> {
        let begun = Instant::now();
        let mut stands_since: Option<(Revision, Timestamp)> = None;
        loop {
            let run = self.client.get(&self.run).await?;
            let now = self.bed.clock.now();
            let revision = run.progress.revision;
            let since = match stands_since {
                Some((stood, since)) if stood == revision => since,
                _ => now,
            };
            stands_since = Some((revision, since));
            let rests = now.since(since) >= REST;
            if let Some(rest) = self.look(&run, rests).await? {
                return Ok(rest);
            }
            let step = run.progress.place.step();
            if now >= self.until || begun.elapsed() > REAL_TIME_MAX {
                let (phase, after) = (run.phase(now), self.bed.elapsed());
                let real = begun.elapsed().as_secs();
                let why = format!("is still {phase} at step {step} after {after:?} of its time, {real} s of ours");
                return Ok(if now >= self.until { Rest::Restless(why) } else { Rest::TooSlow(why) });
            }
            // It is looked at whenever a worker has done something, so that what waits for a moment only is not missed.
            tokio::select! {
                () = self.bed.moved.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    /// One look. `rests`: nothing has changed for a while.
    async fn look(&mut self, run: &Checkpoint, rests: bool) -> Result<Option<Rest>, ClientError> {
        match &run.progress.status {
            Status::Created | Status::Running | Status::Retrying { .. } => Ok(None),
            Status::Waiting(wait) => self.answer(run, wait, rests).await,
            Status::Parked { reason, .. } => {
                let settled = self.settle(run).await;
                // A worker that was slow may know more, and its word lets the run go on.
                let waits_for_word = matches!(reason, ParkReason::UnknownOutcome { .. }) && !rests;
                Ok((!settled && !waits_for_word).then(|| Rest::Parked(reason.clone())))
            }
            Status::Completed { output, .. } => {
                let output = self.client.value(output).await?.parse();
                Ok(Some(Rest::Completed(output.map_err(|error| ClientError::Value(error.to_string()))?)))
            }
            Status::Failed { failure, .. } => Ok(Some(Rest::Failed(failure.clone()))),
            Status::Cancelled { .. } => Ok(Some(Rest::Cancelled)),
        }
    }

    async fn answer(&mut self, run: &Checkpoint, wait: &Wait, rests: bool) -> Result<Option<Rest>, ClientError> {
        let next = (0..self.signals.len()).find(|&at| !self.sent[at] && wait.on.contains(&self.signals[at].0));
        let revision = run.progress.revision;
        if let Some(at) = next.filter(|_| self.answered != Some(revision)) {
            let (name, payload) = self.signals[at].clone();
            let id = SignalId::new(format!("signal-{}", at + 1)).map_err(ClientError::from)?;
            self.client.signal(SignalRequest { run: self.run.clone(), name, payload, id: Some(id) }).await?;
            self.sent[at] = true;
            self.answered = Some(revision);
        } else if self.approves && wait.approval.is_some() {
            self.approve(run, wait).await;
        } else if rests && wait.wakes_at().is_none() {
            let signals = wait.on.iter().map(|name| format!("signal {name}"));
            let approval = wait.approval.as_ref().map(|id| format!("an answer to approval {id}"));
            let waits_for = signals.chain(approval).collect::<Vec<_>>().join(" or ");
            return Ok(Some(Rest::Waits { step: run.progress.place.step(), waits_for }));
        }
        Ok(None)
    }

    /// Gives one of the answers that an approval needs. One that is refused leaves the run waiting, which is told in the end.
    async fn approve(&self, run: &Checkpoint, wait: &Wait) {
        let asked = run.progress.approvals.iter().find(|approval| wait.approval.as_ref() == Some(&approval.id));
        let Some(asked) = asked else { return };
        let number = asked.answers.len();
        let roles: Vec<String> = asked.by.iter().filter_map(role_of).collect();
        let persons = asked.by.iter().filter_map(|authority| match authority {
            stepwell::Authority::Person(name) => Some(name.clone()),
            stepwell::Authority::Role(_) => None,
        });
        let name = if roles.is_empty() { persons.clone().nth(number) } else { None };
        let reviewer = Reviewer { name: name.unwrap_or_else(|| format!("reviewer-{}", number + 1)), roles };
        let act = Approve { approval: asked.id.clone(), reviewer, allows: true, why: None };
        if self.client.approve(&self.run, &act).await.is_ok() {
            self.bed.moved.notify_one();
        }
    }

    /// Says what is known of unknown effects. Whether something was said, or will be.
    async fn settle(&mut self, run: &Checkpoint) -> bool {
        let mut on_its_way = false;
        for record in open(run) {
            let Some(resolution) = (self.says)(record) else { continue };
            let (by, why) = ("crash test".to_owned(), "looked at the outside".to_owned());
            let act = Resolve { key: record.key.clone(), resolution: resolution.clone(), by, why };
            match self.client.resolve(&self.run, act).await {
                Ok(()) => {
                    self.said.push((record.key.clone(), resolution));
                    self.bed.moved.notify_one();
                    return true;
                }
                // The call may still land: then it is said again.
                Err(ClientError::OnItsWay { .. }) => on_its_way = true,
                // The run has gone on meanwhile, or does not take this word: it stays as it is.
                Err(_) => {}
            }
        }
        on_its_way
    }
}

fn role_of(authority: &stepwell::Authority) -> Option<String> {
    match authority {
        stepwell::Authority::Role(role) => Some(role.clone()),
        stepwell::Authority::Person(_) => None,
    }
}
