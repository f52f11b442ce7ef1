//! What becomes of a run when one attempt of a step has ended.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::{Decision, Draft, Illegal, Moment, Rules, Then};
use crate::checkpoint::{Checkpoint, Place, Progress, Trouble, Usage, Visit};
use crate::effect::{EffectRecord, Outcome};
use crate::history::{EffectLine, EntryKind, More};
use crate::ids::{SignalId, SignalName};
use crate::json::Payload;
use crate::limits::LEDGER_RECORDS_MAX;
use crate::mailbox::EVIDENCE;
use crate::policy::{GiveUp, Retry, RetryPolicy};
use crate::status::{Certificate, Failure, FailureKind, ParkReason, Status, Wait};
use crate::time::{Timestamp, millis};
use crate::write::LogAppend;

/// One attempt of a step, as its worker saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepEnd {
    /// The step's name.
    pub step: String,
    /// The version of the code that ran it.
    pub version: u32,
    /// How it ended.
    pub outcome: StepOutcome,
    /// Every effect of this visit, those of earlier attempts included.
    pub effects: Vec<EffectRecord>,
    /// Signals that it took.
    pub consumed: Vec<SignalId>,
    /// What it appended to logs.
    pub appends: Vec<LogAppend>,
    /// Logs the run has, those of this step included.
    pub logs: u32,
    /// What it used.
    pub used: Usage,
    /// How long it ran.
    pub took: Duration,
    /// A migration, or another fact for the history.
    pub note: Option<String>,
}

/// How an attempt of a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// On to another step.
    Goto {
        /// Which, with which state.
        place: Place,
    },
    /// On to another step, once a signal or a time has come. One of both is given.
    Wait {
        /// Which, with which state.
        place: Place,
        /// Any of these.
        on: Vec<SignalName>,
        /// Or this.
        until: Option<Timestamp>,
    },
    /// The run has its result.
    Complete {
        /// The result.
        output: Payload,
    },
    /// The run ends without one; no retry helps.
    Fail {
        /// Why.
        failure: Failure,
    },
    /// The attempt failed; the policy says whether there is another.
    Retry {
        /// Why.
        failure: Failure,
        /// The step's policy.
        policy: RetryPolicy,
        /// Not before this much time has passed (a `Retry-After`).
        at_least: Option<Duration>,
    },
    /// Only a person or a deploy can help.
    Park {
        /// Why.
        reason: ParkReason,
    },
}

/// Decides what an attempt's end means for the run. `go_on` says whether there is time for another step in this turn.
///
/// When the write is refused because a signal or a cancellation arrived meanwhile, decide again with the checkpoint that
/// refused it: the attempt's end stays the same.
pub fn commit(held: &Checkpoint, end: StepEnd, rules: Rules, moment: Moment, go_on: bool) -> Result<Decision, Illegal> {
    let ended = Ended { held, end, now: moment.now };
    if held.cancel.is_some() {
        return ended.cancelled();
    }
    match ended.end.outcome.clone() {
        // What is open stays with the run, in its checkpoint, and that has room for so many.
        StepOutcome::Goto { .. } | StepOutcome::Wait { .. } if ended.open().count() > LEDGER_RECORDS_MAX => {
            ended.park_open()
        }
        StepOutcome::Goto { place } => ended.go_to(place, rules, go_on),
        StepOutcome::Wait { place, on, until } => ended.wait(place, on, until, rules, go_on),
        StepOutcome::Complete { .. } | StepOutcome::Fail { .. } if ended.open().next().is_some() => ended.park_open(),
        StepOutcome::Complete { output } => ended.complete(output),
        StepOutcome::Fail { failure } => ended.fail(failure),
        StepOutcome::Retry { failure, policy, at_least } => ended.retry(failure, &policy, at_least, moment.random),
        StepOutcome::Park { reason } => ended.park(reason),
    }
}

/// Ends a cancelled run that no step of this turn has touched.
pub(super) fn cancelled(held: &Checkpoint, now: Timestamp) -> Result<Decision, Illegal> {
    let step = held.progress.place.step();
    let effects = held.progress.journal.clone();
    let outcome = StepOutcome::Goto { place: held.progress.place.clone() };
    let (version, logs) = (held.progress.version, held.progress.logs);
    let (consumed, appends) = (Vec::new(), Vec::new());
    let (used, took, note) = (Usage::default(), Duration::ZERO, None);
    Ended { held, end: StepEnd { step, version, outcome, effects, consumed, appends, logs, used, took, note }, now }
        .cancel_at_rest()
}

struct Ended<'a> {
    held: &'a Checkpoint,
    end: StepEnd,
    now: Timestamp,
}

impl<'a> Ended<'a> {
    fn go_to(self, place: Place, rules: Rules, go_on: bool) -> Result<Decision, Illegal> {
        let mut draft = self.draft();
        draft.become_status(Status::Running, &self.end.step)?;
        self.step_over(&mut draft, Some(place), EntryKind::Stepped, None);
        let decision = if go_on { draft.carry_on(rules) } else { draft.hand_off(None) };
        Ok(self.with_step(decision))
    }

    fn wait(
        self,
        place: Place,
        on: Vec<SignalName>,
        until: Option<Timestamp>,
        rules: Rules,
        go_on: bool,
    ) -> Result<Decision, Illegal> {
        let consumed = &self.end.consumed;
        let arrived = |letter: &&crate::Letter| on.contains(&letter.name) && !consumed.contains(&letter.id);
        let over = until.is_some_and(|until| until <= self.now);
        // What it waits for is there already: no wait at all.
        if over || self.held.mailbox.letters.iter().any(|letter| arrived(&letter)) {
            return self.go_to(place, rules, go_on);
        }
        let seen = self.held.mailbox.seq;
        let mut draft = self.draft();
        draft.become_status(Status::Waiting(Wait { on, until, seen }), &self.end.step)?;
        self.step_over(&mut draft, Some(place), EntryKind::Waited, None);
        Ok(self.with_step(draft.hand_off(Some(seen))))
    }

    fn complete(self, output: Payload) -> Result<Decision, Illegal> {
        let mut draft = self.draft();
        draft.become_status(Status::Completed { output, at: self.now }, &self.end.step)?;
        self.step_over(&mut draft, None, EntryKind::Completed, None);
        Ok(self.with_step(draft.end()))
    }

    fn fail(self, failure: Failure) -> Result<Decision, Illegal> {
        let note = Some(failure.to_string());
        let mut draft = self.draft();
        draft.become_status(Status::Failed { failure, at: self.now }, &self.end.step)?;
        self.attempt_over(&mut draft, EntryKind::Failed, note);
        count_settled(&mut draft.progress, &self.end.effects);
        Ok(draft.end())
    }

    fn retry(
        self,
        failure: Failure,
        policy: &RetryPolicy,
        at_least: Option<Duration>,
        random: u64,
    ) -> Result<Decision, Illegal> {
        let before = self.held.progress.trouble.as_ref();
        let (mut failed, mut incompatible) = before.map_or((0, 0), |trouble| (trouble.failed, trouble.incompatible));
        // A rolling deploy must not use up the step's own attempts, nor these its patience: each has a count of its own.
        let count = if failure.kind == FailureKind::Incompatible { &mut incompatible } else { &mut failed };
        *count = count.saturating_add(1);
        let (count, first_failure) = (*count, failed == 1 && failure.kind != FailureKind::Incompatible);
        let since = before.filter(|_| !first_failure).map_or(self.now, |trouble| trouble.since);
        let delay = match policy.after(count, self.now.since(since), failure.code.as_deref(), at_least, random) {
            Retry::After(delay) => delay,
            Retry::GiveUp(why) => return self.give_up(failure, count, why),
        };
        let note = Some(failure.to_string());
        let mut draft = self.draft();
        draft.become_status(Status::Retrying { at: self.now.plus(delay) }, &self.end.step)?;
        draft.progress.trouble = Some(Trouble { failed, incompatible, since, last: failure });
        self.attempt_over(&mut draft, EntryKind::Retried, note);
        Ok(draft.hand_off(None))
    }

    fn give_up(self, failure: Failure, failed: u32, why: GiveUp) -> Result<Decision, Illegal> {
        if failure.kind == FailureKind::Incompatible {
            return self.park(ParkReason::Incompatible { missing: failure.message });
        }
        let why = match why {
            GiveUp::Attempts => "no attempts left",
            GiveUp::Deadline => "the retry deadline would pass",
            GiveUp::Code => "not worth a retry",
        };
        if self.open().next().is_some() {
            return self.park_open();
        }
        let message = alloc::format!("{} (attempt {failed}, {why})", failure.message);
        self.fail(Failure { code: failure.code, ..Failure::new(failure.kind, message) })
    }

    /// Effects of the run that may have happened. The run does not end before they are settled.
    fn open(&self) -> impl Iterator<Item = &EffectRecord> {
        open_effects(&self.held.progress.ledger, &self.end.effects)
    }

    fn park_open(self) -> Result<Decision, Illegal> {
        let ending = match &self.end.outcome {
            StepOutcome::Fail { failure } | StepOutcome::Retry { failure, .. } => alloc::format!("failed ({failure})"),
            StepOutcome::Goto { .. } | StepOutcome::Wait { .. } => {
                alloc::format!("gone on with more than {LEDGER_RECORDS_MAX} effects open")
            }
            StepOutcome::Complete { .. } | StepOutcome::Park { .. } => "ended".to_string(),
        };
        let what = self.open().next().map_or_else(String::new, |record| {
            let evidence = match &record.outcome {
                Outcome::Unknown { evidence, .. } => evidence.as_str(),
                Outcome::Succeeded(_) | Outcome::Failed(_) => "",
            };
            let (name, key) = (&record.name, &record.key);
            alloc::format!("the run would have {ending}, but effect {name} (key {key}) may have happened: {evidence}")
        });
        self.park(ParkReason::UnknownOutcome { what })
    }

    fn park(self, reason: ParkReason) -> Result<Decision, Illegal> {
        let for_an_answer = matches!(reason, ParkReason::UnknownOutcome { .. });
        if for_an_answer && self.has_unread_evidence() {
            return self.look_again();
        }
        let note = Some(reason.to_string());
        let mut draft = self.draft();
        draft.become_status(Status::Parked { reason, at: self.now }, &self.end.step)?;
        self.attempt_over(&mut draft, EntryKind::Parked, note);
        // The answer may be on its way: it must not slip in between, unread, into a run that nobody wakes.
        let mailbox_seen = for_an_answer.then_some(self.held.mailbox.seq);
        Ok(Decision { commit: draft.into_commit(None, mailbox_seen), then: Then::Ended })
    }

    /// Whether late evidence has come that this attempt does not know of.
    fn has_unread_evidence(&self) -> bool {
        let unread =
            |letter: &crate::Letter| letter.name.as_str() == EVIDENCE && !self.end.consumed.contains(&letter.id);
        self.held.mailbox.letters.iter().any(unread)
    }

    /// Instead of parking: the answer may be there. It counts as no failed attempt.
    fn look_again(self) -> Result<Decision, Illegal> {
        let mut draft = self.draft();
        draft.become_status(Status::Retrying { at: self.now }, &self.end.step)?;
        self.attempt_over(&mut draft, EntryKind::Retried, Some("late evidence has come".into()));
        Ok(draft.hand_off(None))
    }

    /// The cancellation came first: what the step has done is recorded, and the run ends here.
    fn cancelled(self) -> Result<Decision, Illegal> {
        let place = match &self.end.outcome {
            StepOutcome::Goto { place } | StepOutcome::Wait { place, .. } => Some(place.clone()),
            StepOutcome::Complete { .. } => None,
            StepOutcome::Fail { .. } | StepOutcome::Retry { .. } | StepOutcome::Park { .. } => {
                return self.cancel_at_rest();
            }
        };
        let mut draft = self.draft();
        draft.become_status(Status::Running, &self.end.step)?;
        self.step_over(&mut draft, place, EntryKind::Cancelled, self.cancel_note());
        let certificate = certificate(&draft.progress, &self.end.effects, None);
        draft.become_status(Status::Cancelled { certificate, at: self.now }, &self.end.step)?;
        Ok(self.with_step(draft.end()))
    }

    /// The step never ended: its attempts' effects are in the certificate, its state is as before.
    fn cancel_at_rest(self) -> Result<Decision, Illegal> {
        let mut draft = self.draft();
        self.attempt_over(&mut draft, EntryKind::Cancelled, self.cancel_note());
        count_settled(&mut draft.progress, &self.end.effects);
        // A parked run has no holder: whatever was tried since then is unheard of.
        let lost = if self.held.hold.lease.is_some() { self.held.crashed_since() } else { self.held.hold.tried_since };
        let certificate = certificate(&draft.progress, &self.end.effects, lost);
        draft.become_status(Status::Cancelled { certificate, at: self.now }, &self.end.step)?;
        Ok(draft.end())
    }

    fn cancel_note(&self) -> Option<String> {
        let cancel = self.held.cancel.as_ref()?;
        Some(super::by(&cancel.by, cancel.why.as_deref()))
    }

    fn draft(&self) -> Draft<'a> {
        let mut draft = Draft::new(self.held, self.now);
        let used = Usage { step_ms: millis(self.end.took), ..self.end.used };
        draft.progress.usage = draft.progress.usage.plus(used);
        draft
    }

    /// The step has ended: its effects are folded into the history, those of the run into the ledger.
    fn step_over(&self, draft: &mut Draft<'_>, place: Option<Place>, kind: EntryKind, note: Option<String>) {
        let failed_attempts = draft.progress.trouble.take().map_or(0, |trouble| trouble.failed);
        let progress = &mut draft.progress;
        progress.visit = Visit(progress.visit.0.saturating_add(1));
        progress.logs = self.end.logs;
        progress.journal.clear();
        if let Some(place) = place {
            (progress.place, progress.version) = (place, self.end.version);
        }
        count_settled(progress, &self.end.effects);
        // What is open stays with the run, key or not, until it is settled.
        for record in &self.end.effects {
            progress.ledger.retain(|old| old.key != record.key);
            if record.of_run || record.is_open() {
                progress.ledger.push(record.clone());
            }
        }
        let effects = self.end.effects.iter().map(EffectLine::from).collect();
        let note = note.or_else(|| self.end.note.clone());
        draft.record(self.end.step.clone(), kind, self.end.took, More { failed_attempts, effects, note });
    }

    /// The attempt has ended, the step has not: its effects stay in the journal, what it took and appended does not count.
    fn attempt_over(&self, draft: &mut Draft<'_>, kind: EntryKind, note: Option<String>) {
        draft.progress.journal.clone_from(&self.end.effects);
        let failed_attempts = draft.progress.trouble.as_ref().map_or(0, |trouble| trouble.failed);
        let more = More { failed_attempts, effects: Vec::new(), note };
        draft.record(self.end.step.clone(), kind, self.end.took, more);
    }

    /// What only a step that has ended brings along. The ledger's surplus goes to items of its own.
    fn with_step(self, mut decision: Decision) -> Decision {
        let commit = &mut decision.commit;
        commit.consumed = self.end.consumed;
        commit.appends = self.end.appends;
        while commit.progress.ledger.len() > LEDGER_RECORDS_MAX {
            let settled = commit.progress.ledger.iter().position(|record| !record.is_open());
            commit.spill.push(commit.progress.ledger.remove(settled.unwrap_or(0)));
        }
        commit.progress.spilled += commit.spill.len() as u64;
        decision
    }
}

/// Adds the effects that happened, and those that were refused for good, to what the run has used.
fn count_settled(progress: &mut Progress, effects: &[EffectRecord]) {
    for record in effects {
        match record.outcome {
            Outcome::Succeeded(_) => progress.usage.effects_confirmed += 1,
            Outcome::Failed(_) => progress.usage.effects_failed += 1,
            Outcome::Unknown { .. } => {}
        }
    }
}

/// Effects that may have happened. What the last visit knows of one is newer than what the ledger says.
pub(super) fn open_effects<'a>(
    ledger: &'a [EffectRecord],
    last: &'a [EffectRecord],
) -> impl Iterator<Item = &'a EffectRecord> {
    let earlier = ledger.iter().filter(|old| last.iter().all(|new| new.key != old.key));
    last.iter().chain(earlier).filter(|record| record.is_open())
}

/// What is known of a run's effects at its end, `last` being those of the last visit, `lost_attempt` the time since when a
/// worker that died may have made others.
fn certificate(progress: &Progress, last: &[EffectRecord], lost_attempt: Option<Timestamp>) -> Certificate {
    Certificate {
        lost_attempt,
        confirmed: progress.usage.effects_confirmed,
        failed: progress.usage.effects_failed,
        uncertain: open_effects(&progress.ledger, last).map(EffectLine::from).collect(),
        step: progress.place.step(),
    }
}
