//! What becomes of a run when one attempt of a step has ended.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::{Decision, Draft, Illegal, Moment, Rules, Then};
use crate::approval::{AskApproval, Standing};
use crate::checkpoint::{Checkpoint, Place, Progress, Trouble, Usage, Visit};
use crate::effect::{EffectRecord, Outcome};
use crate::history::{EffectLine, EntryKind, More};
use crate::ids::{SignalId, SignalName};
use crate::json::{Json, Payload};
use crate::limits::LEDGER_RECORDS_MAX;
use crate::mailbox::EVIDENCE;
use crate::policy::{GiveUp, Retry, RetryPolicy};
use crate::status::{Failure, FailureKind, ParkReason, Status, Wait};
use crate::time::{Timestamp, millis};
use crate::undo::put_on;
use crate::write::{Commit, LogAppend};

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
    /// Where the workflow keeps states and the step has ended: what leads back from the state after it to the one before it
    /// ([`More::back`](crate::history::More::back)).
    pub back: Option<Json>,
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
        /// Or the answer to this approval, which is asked for with the step's commit. It ends the wait when it expires.
        ask: Option<Box<AskApproval>>,
    },
    /// The effect that this step takes back is taken back.
    Undone {
        /// What the run knows now.
        place: Place,
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
    let undoing = held.progress.undoing.is_some();
    if held.is_to_end() {
        return ended.cancelled(moment.random);
    }
    match ended.end.outcome.clone() {
        // What is open stays with the run, in its checkpoint, and that has room for so many.
        StepOutcome::Goto { .. } | StepOutcome::Wait { .. } if ended.open().count() > LEDGER_RECORDS_MAX => {
            ended.park_open()
        }
        StepOutcome::Goto { place } => ended.go_to(place, rules, go_on),
        StepOutcome::Wait { place, on, until, ask } => ended.wait(place, For { on, until, ask }, rules, go_on),
        StepOutcome::Undone { .. } | StepOutcome::Complete { .. } | StepOutcome::Fail { .. }
            if ended.open().next().is_some() =>
        {
            ended.park_open()
        }
        StepOutcome::Undone { place } => ended.undone(&place, rules, go_on),
        StepOutcome::Complete { .. } if undoing => ended.cannot_undo("the step that takes it back completed the run"),
        StepOutcome::Complete { output } => ended.complete(output),
        StepOutcome::Fail { failure } => ended.fail(failure),
        StepOutcome::Retry { failure, policy, at_least } => ended.retry(failure, &policy, at_least, moment.random),
        StepOutcome::Park { reason } => ended.park(reason),
    }
}

/// What a wait is for.
struct For {
    on: Vec<SignalName>,
    until: Option<Timestamp>,
    ask: Option<Box<AskApproval>>,
}

/// An attempt's end, and the run that it belongs to.
pub(super) struct Ended<'a> {
    pub(super) held: &'a Checkpoint,
    pub(super) end: StepEnd,
    pub(super) now: Timestamp,
}

impl<'a> Ended<'a> {
    fn go_to(self, place: Place, rules: Rules, go_on: bool) -> Result<Decision, Illegal> {
        let draft = self.draft();
        self.step_on(draft, place, rules, go_on)
    }

    fn step_on(self, mut draft: Draft<'a>, place: Place, rules: Rules, go_on: bool) -> Result<Decision, Illegal> {
        draft.become_status(Status::Running, &self.end.step)?;
        self.step_over(&mut draft, Some(place), EntryKind::Stepped, None);
        let decision = if go_on { draft.carry_on(rules) } else { draft.hand_off(None) };
        Ok(self.with_step(decision))
    }

    fn wait(self, place: Place, wait: For, rules: Rules, go_on: bool) -> Result<Decision, Illegal> {
        let For { on, mut until, ask } = wait;
        let consumed = &self.end.consumed;
        let arrived = |letter: &&crate::Letter| on.contains(&letter.name) && !consumed.contains(&letter.id);
        let has_come = self.held.mailbox.letters.iter().any(|letter| arrived(&letter));
        let mut draft = self.draft();
        let asked =
            ask.map(|ask| super::approve::ask(&mut draft.progress, &self.held.run, *ask, self.end.version, self.now));
        if let Some((approval, _)) = &asked {
            until = Some(until.map_or(approval.expires_at, |until| until.min(approval.expires_at)));
        }
        let is_decided = asked.as_ref().is_some_and(|(_, standing)| *standing != Standing::Open);
        // What it waits for is there already: no wait at all.
        if has_come || is_decided || until.is_some_and(|until| until <= self.now) {
            return self.step_on(draft, place, rules, go_on);
        }
        let seen = self.held.mailbox.seq;
        let note = asked.as_ref().map(|(approval, _)| {
            let (action, id, by) = (&approval.action, &approval.id, approval.deciders(self.now));
            alloc::format!("approval {id} of {action} is asked of {by}")
        });
        let approval = asked.map(|(approval, _)| approval.id);
        let budget_ends = rules.run_ends.filter(|_| self.held.progress.undoing.is_none());
        let wait = Wait { on, approval, until, budget_ends, seen };
        if let Some(pause) = super::pause::asked(self.held) {
            let (reason, read) = (pause.reason(), pause.letters());
            draft.become_status(Status::Parked { reason, at: self.now }, &self.end.step)?;
            draft.progress.spent.cut_wait = Some(Box::new(wait));
            self.step_over(&mut draft, Some(place), EntryKind::Waited, note);
            let mut decision = self.with_step(draft.end());
            decision.commit.consumed.extend(read);
            return Ok(decision);
        }
        draft.become_status(Status::Waiting(wait), &self.end.step)?;
        self.step_over(&mut draft, Some(place), EntryKind::Waited, note);
        Ok(self.with_step(draft.hand_off(Some(seen))))
    }

    fn complete(self, output: Payload) -> Result<Decision, Illegal> {
        let mut draft = self.draft();
        draft.become_status(Status::Completed { output, at: self.now }, &self.end.step)?;
        self.step_over(&mut draft, None, EntryKind::Completed, None);
        Ok(self.with_step(draft.end()))
    }

    pub(super) fn retry(
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
        let pause = super::pause::asked(self.held);
        let mut note = failure.to_string();
        let mut draft = self.draft();
        draft.progress.trouble = Some(Trouble { failed, incompatible, since, last: failure });
        if let Some(pause) = pause {
            let reason = pause.reason();
            note = alloc::format!("{reason}; last error: {note}");
            draft.become_status(Status::Parked { reason, at: self.now }, &self.end.step)?;
            self.attempt_over(&mut draft, EntryKind::Parked, Some(note));
            let mut decision = draft.end();
            decision.commit.consumed = pause.letters();
            return Ok(decision);
        }
        draft.become_status(Status::Retrying { at: self.now.plus(delay) }, &self.end.step)?;
        self.attempt_over(&mut draft, EntryKind::Retried, Some(note));
        // Until then nobody looks at the run: a request to pause must not slip in between, unread.
        Ok(draft.hand_off(Some(self.held.mailbox.seq)))
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
    pub(super) fn open(&self) -> impl Iterator<Item = &EffectRecord> {
        open_effects(&self.held.progress.ledger, &self.end.effects)
    }

    pub(super) fn park_open(self) -> Result<Decision, Illegal> {
        let what = self.open_in_words();
        self.park(ParkReason::UnknownOutcome { what })
    }

    /// What is open, and what the run would have done otherwise.
    pub(super) fn open_in_words(&self) -> String {
        let ending = match &self.end.outcome {
            StepOutcome::Fail { failure } | StepOutcome::Retry { failure, .. } => alloc::format!("failed ({failure})"),
            StepOutcome::Goto { .. } | StepOutcome::Wait { .. } => {
                alloc::format!("gone on with more than {LEDGER_RECORDS_MAX} effects open")
            }
            StepOutcome::Complete { .. } | StepOutcome::Undone { .. } | StepOutcome::Park { .. } => "ended".to_string(),
        };
        self.open().next().map_or_else(String::new, |record| {
            let evidence = match &record.outcome {
                Outcome::Unknown { evidence, .. } => evidence.as_str(),
                Outcome::Succeeded(_) | Outcome::Failed(_) => "",
            };
            let (name, key) = (&record.name, &record.key);
            alloc::format!("the run would have {ending}, but effect {name} (key {key}) may have happened: {evidence}")
        })
    }

    pub(super) fn park(self, reason: ParkReason) -> Result<Decision, Illegal> {
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
    pub(super) fn has_unread_evidence(&self) -> bool {
        let unread =
            |letter: &crate::Letter| letter.name.as_str() == EVIDENCE && !self.end.consumed.contains(&letter.id);
        self.held.mailbox.letters.iter().any(unread)
    }

    /// Instead of parking: the answer may be there. It is read here, since the step may not come to read it. It counts as no failed
    /// attempt.
    fn look_again(mut self) -> Result<Decision, Illegal> {
        let (effects, read) = super::ending::with_evidence(self.held, &self.end.effects);
        self.end.effects = effects;
        let mut draft = self.draft();
        draft.become_status(Status::Retrying { at: self.now }, &self.end.step)?;
        self.attempt_over(&mut draft, EntryKind::Retried, Some("late evidence has come".into()));
        let mut decision = draft.hand_off(None);
        decision.commit.consumed = read;
        Ok(decision)
    }

    pub(super) fn draft(&self) -> Draft<'a> {
        let mut draft = Draft::new(self.held, self.now);
        let used = Usage { step_ms: millis(self.end.took), ..self.end.used };
        draft.progress.usage = draft.progress.usage.plus(used);
        // Those before it that left no commit behind have crashed.
        draft.progress.spent.attempts = self.held.attempts();
        draft
    }

    /// The step has ended: its effects are folded into the history, those of the run into the ledger.
    pub(super) fn step_over(&self, draft: &mut Draft<'_>, place: Option<Place>, kind: EntryKind, note: Option<String>) {
        let failed_attempts = draft.progress.trouble.as_ref().map_or(0, |trouble| trouble.failed);
        let progress = &mut draft.progress;
        progress.logs = self.end.logs;
        let is_replaced = place.is_some();
        if let Some(place) = place {
            (progress.place, progress.version) = (place, self.end.version);
        }
        fold(progress, &self.end.effects);
        let effects = self.end.effects.iter().map(EffectLine::from).collect();
        let note = note.or_else(|| self.end.note.clone());
        let kept = self.end.back.clone().filter(|_| is_replaced);
        // Entries of most other kinds leave the state as it was; this one does not.
        let says_so = || Json::of(&()).ok().filter(|_| is_replaced && !kind.replaces());
        let back = kept.or_else(says_so);
        draft.record(self.end.step.clone(), kind, self.end.took, More { failed_attempts, effects, note, back });
    }

    /// The attempt has ended, the step has not: its effects stay in the journal, what it took and appended does not count.
    pub(super) fn attempt_over(&self, draft: &mut Draft<'_>, kind: EntryKind, note: Option<String>) {
        draft.progress.journal.clone_from(&self.end.effects);
        let failed_attempts = draft.progress.trouble.as_ref().map_or(0, |trouble| trouble.failed);
        let more = More { failed_attempts, note, ..More::default() };
        draft.record(self.end.step.clone(), kind, self.end.took, more);
    }

    /// What only a step that has ended brings along. The ledger's surplus goes to items of its own.
    pub(super) fn with_step(self, mut decision: Decision) -> Decision {
        let commit = &mut decision.commit;
        commit.consumed = self.end.consumed;
        commit.appends = self.end.appends;
        spill(commit);
        decision
    }
}

/// The visit is over: its effects are counted, those of the run go to the ledger, those that can be taken back to the stack.
pub(super) fn fold(progress: &mut Progress, effects: &[EffectRecord]) {
    progress.visit = Visit(progress.visit.0.saturating_add(1));
    progress.trouble = None;
    progress.journal.clear();
    progress.spent.ended = progress.spent_with(effects);
    progress.spent.more_for_step.clear();
    count_settled(progress, effects);
    // What takes effects back is not taken back itself.
    if progress.undoing.is_none() {
        put_on(&mut progress.undo, effects);
    }
    for record in effects {
        // What may have happened stays with the run, key or not: until it is settled, or listed as signed off. Of a read that may
        // have, nothing is left but what it may have cost, and that is counted above.
        progress.ledger.retain(|old| old.key != record.key);
        let stays = if record.is_unknown() { record.class.acts() } else { record.of_run };
        if stays {
            progress.ledger.push(record.clone());
        }
    }
}

/// Adds the effects that happened, and those that were refused for good, to what the run has used.
pub(super) fn count_settled(progress: &mut Progress, effects: &[EffectRecord]) {
    for record in effects {
        match &record.outcome {
            Outcome::Succeeded(_) => progress.usage.effects_confirmed += 1,
            Outcome::Failed(failure) if failure.kind == FailureKind::NotSent => {}
            Outcome::Failed(_) => progress.usage.effects_failed += 1,
            Outcome::Unknown { .. } => {}
        }
    }
}

/// The ledger's surplus goes to items of its own: what is known first, since a certificate lists what is not.
pub(super) fn spill(commit: &mut Commit) {
    while commit.progress.ledger.len() > LEDGER_RECORDS_MAX {
        let ledger = &mut commit.progress.ledger;
        let known = ledger.iter().position(|record| !record.is_unknown());
        let settled = known.or_else(|| ledger.iter().position(|record| !record.is_open()));
        commit.spill.push(ledger.remove(settled.unwrap_or(0)));
        commit.progress.spilled += 1;
    }
}

/// Effects that the run knows of, each once: what the last visit knows of one is newer than what the ledger says.
pub(super) fn known_effects<'a>(
    ledger: &'a [EffectRecord],
    last: &'a [EffectRecord],
) -> impl Iterator<Item = &'a EffectRecord> {
    let earlier = ledger.iter().filter(|old| last.iter().all(|new| new.key != old.key));
    last.iter().chain(earlier)
}

/// Those that may have happened.
pub(crate) fn open_effects<'a>(
    ledger: &'a [EffectRecord],
    last: &'a [EffectRecord],
) -> impl Iterator<Item = &'a EffectRecord> {
    known_effects(ledger, last).filter(|record| record.is_open())
}
