//! A person repairs a parked or failed run: edits what it knows, moves it to another step, gives it up, or lets a failed one go on.
//!
//! Each act is made against the revision that was looked at, and recorded with who and why. A run that is edited or moved stays
//! parked, so that it can be looked at before it is resumed; a failed one is parked by that.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::commit::{count_settled, open_effects};
use super::ending::with_evidence;
use super::{Draft, Illegal, Send};
use crate::approval::Standing;
use crate::checkpoint::{Checkpoint, Place, Usage, Visit};
use crate::effect::{EffectKey, EffectRecord};
use crate::history::{EntryKind, More};
use crate::ids::{Revision, SignalId};
use crate::json::{Json, Payload};
use crate::status::{Failure, FailureKind, ParkReason, Phase, Status, Wait};
use crate::time::Timestamp;
use crate::undo::stacked;
use crate::write::Amend;

/// Who repairs a run, why, and at which revision it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The revision that was looked at.
    pub at: Revision,
    /// Who.
    pub by: String,
    /// Why.
    pub why: String,
}

/// Why a run is not repaired. Nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RepairRefused {
    /// Only a run that is parked or has failed can be repaired.
    #[error("the run is {0}: only one that is parked or has failed can be repaired{hint}", hint = pause_first(*.0))]
    Phase(Phase),
    /// Only a failed run is tried again like this.
    #[error("the run is {0}, and has not failed: a parked run is resumed")]
    NotFailed(Phase),
    /// It has moved on since it was looked at.
    #[error("the run is at revision {found}, not at {}: look again, then decide", stated.0, found = found.0)]
    Stale {
        /// The revision that it is at.
        found: Revision,
        /// The one that was looked at.
        stated: Revision,
    },
    /// It is about to end, and takes back what it has done, or has.
    #[error("the run is cancelled, or takes back what it has done, or has: it cannot be repaired; start a new one")]
    Ending,
    /// No step of it has ended.
    #[error("the run has not begun: there is no step to leave; edit its input")]
    NotBegun,
    /// An effect may have happened.
    #[error(
        "effect {name} (key {key}) may have happened: say with `resolve` how it ended, or sign it off, then repair"
    )]
    Unsettled {
        /// Which effect.
        key: EffectKey,
        /// Its name.
        name: String,
    },
    /// See [`Illegal`].
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

const fn pause_first(phase: Phase) -> &'static str {
    if phase.is_ended() { "" } else { "; pause it first" }
}

/// What a repaired run knows.
pub fn known(current: &Checkpoint) -> &Payload {
    match &current.progress.place {
        Place::Fresh { input, .. } => input,
        Place::At { state, .. } => state,
    }
}

/// Whether a person may repair the run, having looked at it at this revision.
///
/// # Errors
/// All but [`RepairRefused::Unsettled`], [`RepairRefused::NotBegun`] and [`RepairRefused::NotFailed`].
pub fn check(current: &Checkpoint, at: Revision) -> Result<(), RepairRefused> {
    let progress = &current.progress;
    match &progress.status {
        Status::Parked { .. } | Status::Failed { .. } => {}
        Status::Created
        | Status::Running
        | Status::Waiting(_)
        | Status::Retrying { .. }
        | Status::Completed { .. }
        | Status::Cancelled { .. } => return Err(RepairRefused::Phase(progress.status.phase())),
    }
    if progress.revision != at {
        return Err(RepairRefused::Stale { found: progress.revision, stated: at });
    }
    if current.is_ending() {
        return Err(RepairRefused::Ending);
    }
    Ok(())
}

/// Puts another value in the place of what the run knows: its input while it has not begun, else its state. `back` leads from the
/// new value to the old one, see [`More::back`].
///
/// # Errors
/// See [`check`].
pub fn edit(
    current: &Checkpoint,
    value: Payload,
    back: Option<Json>,
    act: &Repair,
    now: Timestamp,
) -> Result<Amend, RepairRefused> {
    check(current, act.at)?;
    let mut draft = Draft::new(current, now);
    draft.progress.place = match draft.progress.place {
        Place::Fresh { at, .. } => Place::Fresh { input: value, at },
        Place::At { cursor, .. } => Place::At { cursor, state: value },
    };
    let note = super::by(&act.by, Some(&act.why));
    stand_still(&mut draft, &note);
    let step = current.progress.place.step();
    draft.record(step, EntryKind::Edited, Duration::ZERO, More { note: Some(note), back, ..More::default() });
    Ok(draft.into_amend())
}

/// Moves the run to another step, which it runs when it is resumed. The visit of the step that it leaves is over: what that has done
/// stays on record. Effects that have a key are not made twice, wherever it goes; one without a key belongs to its visit, and is made
/// again if its step runs again.
///
/// # Errors
/// See [`check`]; a run that has not begun, an effect that may have happened.
pub fn move_to(current: &Checkpoint, cursor: Json, act: &Repair, now: Timestamp) -> Result<Amend, RepairRefused> {
    check(current, act.at)?;
    let Place::At { state, .. } = &current.progress.place else { return Err(RepairRefused::NotBegun) };
    let (effects, consumed) = settled(current)?;
    let mut draft = Draft::new(current, now);
    draft.progress.journal = effects;
    let from = current.progress.place.step();
    draft.progress.place = Place::At { cursor, state: state.clone() };
    let mut note =
        alloc::format!("from {from} to {}, {}", draft.progress.place.step(), super::by(&act.by, Some(&act.why)));
    if let Some(lost) = lost_attempt(current) {
        note = alloc::format!("{note}; {lost}");
    }
    // The visit is over, but not folded: the ledger has no room to be made here. Its effects are when the next one ends.
    draft.progress.visit = Visit(draft.progress.visit.0.saturating_add(1));
    // What it waited for belongs to the step that it leaves.
    draft.progress.spent.cut_wait = None;
    stand_still(&mut draft, &note);
    draft.record(from, EntryKind::Moved, Duration::ZERO, More { note: Some(note), ..More::default() });
    Ok(Amend { tried_since: None, consumed, ..draft.into_amend() })
}

/// Gives a parked run up: it ends as failed, and what it has done stands.
///
/// # Errors
/// See [`check`]; a run that is not parked, an effect that may have happened.
pub fn discard(current: &Checkpoint, act: &Repair, now: Timestamp) -> Result<Amend, RepairRefused> {
    check(current, act.at)?;
    if current.progress.status.phase().is_ended() {
        return Err(RepairRefused::Phase(current.progress.status.phase()));
    }
    let (effects, consumed) = settled(current)?;
    let step = current.progress.place.step();
    let mut message = alloc::format!("discarded {}", super::by(&act.by, Some(&act.why)));
    // What this visit has done is on no stack yet.
    let undo = stacked(&current.progress.undo, &effects);
    let stands: Vec<&str> = undo.iter().map(|undo| undo.name.as_str()).collect();
    if !stands.is_empty() {
        message = alloc::format!("{message}; what it has done stands: {}", stands.join(", "));
    }
    if let Some(lost) = lost_attempt(current) {
        message = alloc::format!("{message}; {lost}");
    }
    let failure = Failure::new(FailureKind::Discarded, message);
    let mut draft = Draft::new(current, now);
    let note = Some(failure.message.clone());
    draft.become_status(Status::Failed { failure, at: now }, &step)?;
    count_settled(&mut draft.progress, &effects);
    draft.progress.journal = effects;
    draft.record(step, EntryKind::Failed, Duration::ZERO, More { note, ..More::default() });
    Ok(Amend { consumed, ..draft.into_amend() })
}

/// A failed run goes on where it stands, with its journal, its failed attempts forgotten.
///
/// # Errors
/// A run that has not failed, or that has taken back what it had done.
pub fn retry(
    current: &Checkpoint,
    by: &str,
    why: Option<&str>,
    now: Timestamp,
) -> Result<(Amend, Send), RepairRefused> {
    let phase = current.progress.status.phase();
    if phase != Phase::Failed {
        return Err(RepairRefused::NotFailed(phase));
    }
    check(current, current.progress.revision)?;
    let step = current.progress.place.step();
    let mut draft = Draft::new(current, now);
    let status = goes_on(&mut draft);
    reopened(&mut draft, status);
    let note = Some(super::by(by, why));
    draft.record(step, EntryKind::Reopened, Duration::ZERO, More { note, ..More::default() });
    let send = draft.next_message();
    // A request to pause that came while its last step ran is answered by this.
    let consumed = current.mailbox.pause_ids();
    Ok((Amend { consumed, ..draft.into_amend() }, send))
}

/// One that was given up while its wait was cut short waits on, unless what it waits for was decided meanwhile: its step must not run
/// before its time.
fn goes_on(draft: &mut Draft<'_>) -> Status {
    let Some(wait) = draft.progress.spent.cut_wait.take() else { return Status::Running };
    let mut asked = draft.progress.approvals.iter().filter(|known| wait.approval.as_ref() == Some(&known.id));
    if asked.all(|approval| approval.standing(draft.now) == Standing::Open) {
        Status::Waiting(Wait { budget_ends: Some(draft.now), ..*wait })
    } else {
        Status::Running
    }
}

/// What is to be said of an attempt whose worker has died, where its visit is left behind.
fn lost_attempt(current: &Checkpoint) -> Option<String> {
    let (since, step) = (current.hold.tried_since?, current.progress.place.step());
    Some(alloc::format!("an attempt of {step} since {since} may have called the outside and left no record"))
}

/// A parked run stays as it is; a failed one is parked.
fn stand_still(draft: &mut Draft<'_>, note: &str) {
    let repaired = || {
        let reason = ParkReason::Paused { what: alloc::format!("to be repaired, {note}") };
        Status::Parked { reason, at: draft.now }
    };
    match &draft.before.progress.status {
        Status::Failed { .. } => {
            let parked = repaired();
            reopened(draft, parked);
        }
        // What would have been spent was mended, perhaps: resuming it allows nothing more than it was allowed.
        Status::Parked { reason: ParkReason::Budget(_), .. } => draft.progress.status = repaired(),
        Status::Parked { .. }
        | Status::Created
        | Status::Running
        | Status::Waiting(_)
        | Status::Retrying { .. }
        | Status::Completed { .. }
        | Status::Cancelled { .. } => {}
    }
}

/// The one way out of an end, which the table of transitions does not have: a person's, and only out of a failure. The visit in which
/// the run has failed is not over after all: what was counted at its end is counted when it is.
fn reopened(draft: &mut Draft<'_>, status: Status) {
    (draft.progress.status, draft.progress.trouble) = (status, None);
    draft.progress.lives = draft.progress.lives.saturating_add(1);
    let usage = draft.progress.usage;
    draft.progress.usage = Usage { effects_confirmed: 0, effects_failed: 0, ..usage };
    let journal = core::mem::take(&mut draft.progress.journal);
    count_settled(&mut draft.progress, &journal);
    let counted = draft.progress.usage;
    draft.progress.journal = journal;
    draft.progress.usage = Usage {
        effects_confirmed: usage.effects_confirmed.saturating_sub(counted.effects_confirmed),
        effects_failed: usage.effects_failed.saturating_sub(counted.effects_failed),
        ..usage
    };
}

/// The effects of this visit with what late evidence says of them, and the letters that say it. None of the run's may be open.
fn settled(current: &Checkpoint) -> Result<(Vec<EffectRecord>, Vec<SignalId>), RepairRefused> {
    let (effects, read) = with_evidence(current, &current.progress.journal);
    if let Some(open) = open_effects(&current.progress.ledger, &effects).next() {
        return Err(RepairRefused::Unsettled { key: open.key.clone(), name: open.name.clone() });
    }
    Ok((effects, read))
}
