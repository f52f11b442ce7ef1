//! How a run ends that does not complete: it fails or is cancelled, what it has done is taken back, and what is known of its
//! effects is certified.
//!
//! ```text
//!   failed ─────────────┐                              ┌─► failed
//!                       ├─► settle ─► take back, ──────┤
//!   cancel asked for ───┘   unknowns  newest first     └─► cancelled, with its certificate
//! ```
//!
//! Nothing is taken back, and nothing ends, while an effect is open: it is asked about, or a person says how it ended, or signs it
//! off as uncertain.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::commit::{Ended, StepEnd, StepOutcome, count_settled, known_effects, open_effects, spill};
use super::{Decision, Draft, Illegal, Rules, Send, Then};
use crate::checkpoint::{Checkpoint, Place, Progress, Usage, Visit};
use crate::effect::{Class, EffectRecord, Outcome};
use crate::history::{EntryKind, More};
use crate::ids::SignalId;
use crate::limits::LEDGER_RECORDS_MAX;
use crate::mailbox::{EVIDENCE, Letter, take_evidence};
use crate::status::{Certificate, Failure, FailureKind, ParkReason, Phase, Status};
use crate::time::Timestamp;
use crate::undo::{Cause, CertifiedEffect, Undo, Undoing, stacked};
use crate::write::{Amend, Commit};

/// Whether a cancelled run's step has to run once more, only to ask about what may have happened: it calls nothing else.
pub(super) fn can_ask(held: &Checkpoint) -> bool {
    let is_asked = |record: &EffectRecord| record.is_open() && record.class == Class::Reconcilable;
    held.progress.journal.iter().any(is_asked)
}

/// What a cancelled run comes to, of which no step of this turn knows anything new.
pub(super) fn cancelled(held: &Checkpoint, now: Timestamp) -> Result<Decision, Illegal> {
    let outcome = StepOutcome::Park { reason: ParkReason::UnknownOutcome { what: String::new() } };
    let ended = at_rest(held, outcome, now);
    let read = ended.end.consumed.clone();
    ended.cancelled(0).map(|decision| having_read(decision, read))
}

/// A run fails before its step has run: its budget is spent.
pub(super) fn failed(held: &Checkpoint, failure: Failure, now: Timestamp) -> Result<Decision, Illegal> {
    let ended = at_rest(held, StepOutcome::Fail { failure: failure.clone() }, now);
    let read = ended.end.consumed.clone();
    let decision = if ended.open().next().is_some() { ended.park_open() } else { ended.fail(failure) };
    decision.map(|decision| having_read(decision, read))
}

/// What these letters say is in the journal now.
fn having_read(mut decision: Decision, read: Vec<SignalId>) -> Decision {
    decision.commit.consumed = read;
    decision
}

fn at_rest(held: &Checkpoint, outcome: StepOutcome, now: Timestamp) -> Ended<'_> {
    let step = held.progress.place.step();
    let (effects, consumed) = with_evidence(held, &held.progress.journal);
    let (version, logs) = (held.progress.version, held.progress.logs);
    let appends = Vec::new();
    let (used, took, note, back) = (Usage::default(), Duration::ZERO, None, None);
    let end = StepEnd { step, version, outcome, effects, consumed, appends, logs, used, took, note, back };
    Ended { held, end, now }
}

/// The effects with what late evidence says of them, and the letters that say it: no step runs that would read them.
pub(super) fn with_evidence(held: &Checkpoint, effects: &[EffectRecord]) -> (Vec<EffectRecord>, Vec<SignalId>) {
    let mut effects = effects.to_vec();
    let Progress { ledger, spilled, visit, .. } = &held.progress;
    let is_of_visit = |told: &EffectRecord| told.is_of(&held.run, &held.workflow, *visit, *spilled > 0);
    let read = take_evidence(&held.mailbox.letters, &mut effects, ledger, is_of_visit);
    (effects, read)
}

impl Ended<'_> {
    /// No retry helps: what was done is taken back, then the run fails. What takes an effect back has to be mended by a person.
    pub(super) fn fail(self, failure: Failure) -> Result<Decision, Illegal> {
        if self.held.progress.undoing.is_some() {
            return self.cannot_undo(&failure.to_string());
        }
        let mut draft = self.draft();
        let note = Some(failure.to_string());
        let stack = stacked(&draft.progress.undo, &self.end.effects);
        if stack.is_empty() {
            draft.progress.undo = stack;
            draft.become_status(Status::Failed { failure, at: self.now }, &self.end.step)?;
            self.attempt_over(&mut draft, EntryKind::Failed, note);
            count_settled(&mut draft.progress, &self.end.effects);
            return Ok(draft.end());
        }
        self.over(&mut draft, EntryKind::Undoing, note);
        draft.progress.spent.cut_wait = None;
        let undoing = Undoing {
            cause: Cause::Failed(failure),
            step: self.end.step.clone(),
            undone: Vec::new(),
            stands: Vec::new(),
            never_sent: Vec::new(),
            lost_attempt: None,
        };
        draft.progress.undoing = Some(Box::new(undoing));
        let decision = go_on_undoing(draft, &self.end.step, None)?;
        Ok(self.having_read_evidence(decision))
    }

    /// The cancellation came first: what the step has done is recorded, and nothing more is begun.
    pub(super) fn cancelled(self, random: u64) -> Result<Decision, Illegal> {
        if let StepOutcome::Retry { failure, policy, at_least } = self.end.outcome.clone()
            && self.open().any(|record| record.class == Class::Reconcilable)
        {
            // Whatever it was that failed: asking tells nothing before that call can no longer land.
            let lands = self.open().filter_map(|record| record.until).max();
            let quiet = lands.map(|until| until.since(self.now)).filter(|quiet| !quiet.is_zero());
            return self.retry(failure, &policy, at_least.max(quiet), random);
        }
        let (place, step_is_over) = match &self.end.outcome {
            StepOutcome::Goto { place } | StepOutcome::Wait { place, .. } | StepOutcome::Undone { place } => {
                (Some(place.clone()), true)
            }
            StepOutcome::Complete { .. } => (None, true),
            StepOutcome::Fail { .. } | StepOutcome::Retry { .. } | StepOutcome::Park { .. } => (None, false),
        };
        if self.open().next().is_some() {
            // The ledger has room for so many.
            let fits = step_is_over && self.open().count() <= LEDGER_RECORDS_MAX;
            return if fits { self.park_after_step(place) } else { self.park_open() };
        }
        let mut draft = self.draft();
        let note = self.held.cancel.as_ref().map(|cancel| super::by(&cancel.by, cancel.why.as_deref()));
        let step = place.as_ref().map_or_else(|| draft.progress.place.step(), Place::step);
        let known = known_effects(&draft.progress.ledger, &self.end.effects);
        let never_sent = known.filter(|record| is_never_sent(record)).map(CertifiedEffect::from).collect();
        let lost_attempt = match (step_is_over, &self.held.hold.lease) {
            (true, _) => None,
            (false, Some(_)) => self.held.crashed_since(),
            // A parked run has no holder: whatever was tried since then is unheard of.
            (false, None) => self.held.hold.tried_since,
        };
        let (undone, stands) = (Vec::new(), Vec::new());
        let undoing = Undoing { cause: Cause::Cancelled, step, undone, stands, never_sent, lost_attempt };
        let stack = stacked(&draft.progress.undo, &self.end.effects);
        let takes_back = !stack.is_empty();
        let kind = if takes_back { EntryKind::Undoing } else { EntryKind::Cancelled };
        draft.progress.spent.cut_wait = None;
        if step_is_over {
            self.step_over(&mut draft, place, kind, note);
        } else if takes_back {
            self.over(&mut draft, kind, note);
        } else {
            draft.progress.undo = stack;
            self.attempt_over(&mut draft, kind, note);
            count_settled(&mut draft.progress, &self.end.effects);
        }
        draft.progress.undoing = Some(Box::new(undoing));
        let decision = go_on_undoing(draft, &self.end.step, None)?;
        Ok(if step_is_over { self.with_step(decision) } else { self.having_read_evidence(decision) })
    }

    /// The step has ended, but the run cannot: something that may have happened has to be settled first.
    fn park_after_step(self, place: Option<Place>) -> Result<Decision, Illegal> {
        let mut draft = self.draft();
        if self.has_unread_evidence() {
            draft.become_status(Status::Running, &self.end.step)?;
            self.step_over(&mut draft, place, EntryKind::Stepped, None);
            return Ok(self.with_step(draft.hand_off(None)));
        }
        let reason = ParkReason::UnknownOutcome { what: self.open_in_words() };
        let note = Some(reason.to_string());
        draft.become_status(Status::Parked { reason, at: self.now }, &self.end.step)?;
        self.step_over(&mut draft, place, EntryKind::Parked, note);
        let commit = draft.into_commit(None, Some(self.held.mailbox.seq));
        Ok(self.with_step(Decision { commit, then: Then::Ended }))
    }

    /// The visit is over without the step having ended: its effects are folded, its state is as before.
    fn over(&self, draft: &mut Draft<'_>, kind: EntryKind, note: Option<String>) {
        let logs = draft.progress.logs;
        self.step_over(draft, None, kind, note);
        draft.progress.logs = logs;
    }

    /// What the evidence says is folded: it must not be counted again.
    fn having_read_evidence(&self, mut decision: Decision) -> Decision {
        let is_evidence = |letter: &&Letter| letter.name.as_str() == EVIDENCE && self.end.consumed.contains(&letter.id);
        let read = self.held.mailbox.letters.iter().filter(is_evidence).map(|letter| letter.id.clone());
        decision.commit.consumed = read.collect();
        decision
    }

    /// The newest effect is taken back; on to the next, or to the end.
    pub(super) fn undone(self, place: &Place, rules: Rules, go_on: bool) -> Result<Decision, Illegal> {
        let mut draft = self.draft();
        let taken = draft.progress.undo.pop();
        let note = taken.as_ref().map(|undo| alloc::format!("{} (key {}) is taken back", undo.name, undo.key));
        self.step_over(&mut draft, Some(place.clone()), EntryKind::Undone, note);
        let certified = taken.map(|undo| certified(self.held, &undo, None));
        if let Some(undoing) = &mut draft.progress.undoing {
            undoing.undone.extend(certified);
        }
        let decision = go_on_undoing(draft, &self.end.step, go_on.then_some(rules))?;
        Ok(self.with_step(decision))
    }

    /// A person has to help: it stands, and what came before it, too.
    pub(super) fn cannot_undo(self, why: &str) -> Result<Decision, Illegal> {
        let stack = &self.held.progress.undo;
        let what = stack.last().map_or_else(
            || alloc::format!("nothing is left to be taken back, but {why}"),
            |undo| {
                let earlier: Vec<&str> = stack.iter().rev().skip(1).map(|undo| undo.name.as_str()).collect();
                let stand = if earlier.is_empty() {
                    String::new()
                } else {
                    alloc::format!(" (and before it: {})", earlier.join(", "))
                };
                alloc::format!(
                    "effect {} (key {}) stands{stand}: it could not be taken back: {why}",
                    undo.name,
                    undo.key
                )
            },
        );
        self.park(ParkReason::Undo { what })
    }
}

/// On to the step that takes back the newest effect on the stack, or to the end of the run. In the same turn only if there is time
/// for it: how long it takes is not known when a run fails.
fn go_on_undoing(mut draft: Draft<'_>, step: &str, in_this_turn: Option<Rules>) -> Result<Decision, Illegal> {
    if let Some(next) = draft.progress.undo.last() {
        draft.progress.place = draft.progress.place.with_step(next.step.clone());
        draft.become_status(Status::Running, step)?;
        let mut decision = match in_this_turn {
            Some(rules) => draft.carry_on(rules),
            None => draft.hand_off(None),
        };
        spill(&mut decision.commit);
        return Ok(decision);
    }
    let at = draft.now;
    let status = match draft.progress.undoing.as_deref() {
        Some(Undoing { cause: Cause::Failed(failure), .. }) => Status::Failed { failure: failure.clone(), at },
        Some(undoing @ Undoing { cause: Cause::Cancelled, .. }) => {
            Status::Cancelled { certificate: certificate(&draft.progress, undoing), at }
        }
        None => {
            return Err(Illegal { from: draft.before.progress.status.phase(), to: Phase::Failed, step: step.into() });
        }
    };
    draft.become_status(status, step)?;
    // What was taken back stays to be seen; a run with nothing to take back has nothing to show.
    let is_told = |undoing: &Undoing| !undoing.undone.is_empty() || !undoing.stands.is_empty();
    if !draft.progress.undoing.as_deref().is_some_and(is_told) {
        draft.progress.undoing = None;
    }
    let mut decision = draft.end();
    spill(&mut decision.commit);
    Ok(decision)
}

/// An effect that was taken back, or stands, with what is known of it.
fn certified(current: &Checkpoint, undo: &Undo, note: Option<String>) -> CertifiedEffect {
    let record = current.progress.ledger.iter().find(|record| record.key == undo.key);
    let known = record.map_or_else(|| CertifiedEffect::from(undo), CertifiedEffect::from);
    CertifiedEffect { note, ..known }
}

fn is_never_sent(record: &EffectRecord) -> bool {
    matches!(&record.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::NotSent)
}

/// What is known of a run's effects at its end.
fn certificate(progress: &Progress, undoing: &Undoing) -> Certificate {
    let known = known_effects(&progress.ledger, &progress.journal);
    let uncertain = known.filter(|record| record.is_unknown() && record.class.acts());
    Certificate {
        confirmed: progress.usage.effects_confirmed,
        failed: progress.usage.effects_failed,
        uncertain: uncertain.map(CertifiedEffect::from).collect(),
        never_sent: undoing.never_sent.clone(),
        undone: undoing.undone.clone(),
        stands: undoing.stands.clone(),
        step: undoing.step.clone(),
        lost_attempt: undoing.lost_attempt,
    }
}

/// Ends a parked run whose cancellation was asked for: no worker will take it up by itself. `None` when it is not parked, nobody has
/// asked, or something has to be settled by a person first.
pub fn cancel_parked(current: &Checkpoint, now: Timestamp) -> Result<Option<(Amend, Option<Send>)>, Illegal> {
    let Progress { status, journal, ledger, .. } = &current.progress;
    if !matches!(status, Status::Parked { .. }) || !current.is_to_end() {
        return Ok(None);
    }
    let (effects, _) = with_evidence(current, journal);
    if open_effects(ledger, &effects).next().is_some() {
        return Ok(None);
    }
    let mut draft = Draft::new(current, now);
    if stacked(&draft.progress.undo, &effects).is_empty() {
        return cancelled(current, now).map(|decision| Some((amended(decision), None)));
    }
    // A turn takes it back: what the ledger cannot hold then has a place to go.
    let step = current.progress.place.step();
    let note = current.cancel.as_ref().map(|cancel| super::by(&cancel.by, cancel.why.as_deref()));
    draft.become_status(Status::Running, &step)?;
    draft.record(step, EntryKind::Resumed, Duration::ZERO, More { note, ..More::default() });
    draft.progress.trouble = None;
    draft.progress.spent.cut_wait = None;
    let send = draft.next_message();
    Ok(Some((draft.into_amend(), Some(send))))
}

/// A person lets the effect stand that could not be taken back. Recorded with who and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetStand {
    /// Who.
    pub by: String,
    /// Why, and what was done instead.
    pub why: String,
}

/// Why nothing can be let stand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LetStandRefused {
    /// The run is not parked while it takes something back, or what may have happened has to be resolved first.
    #[error(
        "the run is {0}: it is not parked while it takes something back, or an effect is open and has to be resolved first; \
         nothing is let stand"
    )]
    NotUndoing(Phase),
    /// See [`Illegal`].
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

/// Decides on a person's word that an effect stands, or was taken back by hand: the run goes on with the one before it.
pub fn let_stand(
    current: &Checkpoint,
    act: &LetStand,
    now: Timestamp,
) -> Result<(Amend, Option<Send>), LetStandRefused> {
    let Progress { status, undoing, undo, journal, ledger, .. } = &current.progress;
    let (Status::Parked { .. }, Some(_), Some(top)) = (status, undoing, undo.last()) else {
        return Err(LetStandRefused::NotUndoing(status.phase()));
    };
    if open_effects(ledger, journal).next().is_some() {
        return Err(LetStandRefused::NotUndoing(status.phase()));
    }
    let step = current.progress.place.step();
    let note = super::by(&act.by, Some(&act.why));
    let mut draft = Draft::new(current, now);
    // The visit is over, but not folded: the ledger has no room to be made here. Its effects are when the next one ends.
    draft.progress.visit = Visit(draft.progress.visit.0.saturating_add(1));
    draft.progress.trouble = None;
    draft.progress.undo.pop();
    let certified = certified(current, top, Some(note.clone()));
    if let Some(undoing) = &mut draft.progress.undoing {
        undoing.stands.push(certified);
    }
    let note = Some(alloc::format!("{} (key {}) stands, {note}", top.name, top.key));
    draft.record(step.clone(), EntryKind::LetStand, Duration::ZERO, More { note, ..More::default() });
    if draft.progress.undo.is_empty() {
        count_settled(&mut draft.progress, journal);
    }
    let decision = go_on_undoing(draft, &step, None)?;
    let send = match decision.then {
        Then::HandOff(send) => send,
        Then::Continue | Then::Ended => None,
    };
    Ok((amended(decision), send))
}

/// The same for a run that nobody holds. It brings nothing that would lie beside the checkpoint.
fn amended(decision: Decision) -> Amend {
    let Commit { after, progress, due_at, segment, consumed, .. } = decision.commit;
    Amend { after, progress, tried_since: None, due_at, segment, consumed }
}
