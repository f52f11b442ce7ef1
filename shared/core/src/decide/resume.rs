//! A person or a deploy lets a parked run go on.

use alloc::string::String;
use core::time::Duration;

use super::{Draft, Illegal, Send};
use crate::approval::{Approval, Standing};
use crate::budget::{OverBudget, WALL_MS};
use crate::checkpoint::Checkpoint;
use crate::effect::{EffectRecord, Outcome};
use crate::history::{EntryKind, More};
use crate::status::{ParkReason, Phase, Status, Wait};
use crate::time::{Timestamp, millis};
use crate::write::Amend;

/// Who lets a run go on, and why. Recorded in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Who.
    pub by: String,
    /// Why.
    pub why: Option<String>,
}

/// Why a run cannot be resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResumeRefused {
    /// Only a parked run can.
    #[error("the run is {0}, not parked: there is nothing to resume")]
    NotParked(Phase),
    /// See [`Illegal`].
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

/// Decides on resuming a parked run: it goes on where it stands, with its journal, its failed attempts forgotten. After a
/// step limit, it may make as many steps again; after its budget is spent, it may spend as much again; a compensation that was refused
/// is asked for again. After an unknown outcome of an idempotent effect, resuming is the person's word that it may be called again
/// under its key; what cannot be called again unasked needs [`resolve`](super::resolve()).
pub fn resume(current: &Checkpoint, act: &Resume, now: Timestamp) -> Result<(Amend, Send), ResumeRefused> {
    let Status::Parked { reason, .. } = &current.progress.status else {
        return Err(ResumeRefused::NotParked(current.progress.status.phase()));
    };
    let note = super::by(&act.by, act.why.as_deref());
    let (mut amend, send) = go_on(current, &note, now)?;
    let Amend { progress, tried_since, .. } = &mut amend;
    match reason {
        ParkReason::StepLimit { limit } => progress.step_limit = progress.visit.0.saturating_add(*limit),
        ParkReason::UnknownOutcome { .. } => {
            *tried_since = None;
            for record in progress.journal.iter_mut().chain(&mut progress.ledger).filter(|record| is_repeated(record)) {
                // Its window begins anew: the next call is this person's, not the one that nobody knows of.
                record.outcome = Outcome::Unknown { since: now, evidence: alloc::format!("resumed {note}") };
            }
        }
        ParkReason::Budget(over) => {
            // A run grows older while it is parked.
            let age = if over.counter == WALL_MS { millis(now.since(current.started_at)) } else { 0 };
            progress.spent.allow(&OverBudget { spent: over.spent.max(age), ..over.clone() });
        }
        // What was refused is mended, says this person: it is asked for again.
        ParkReason::Undo { .. } => progress.journal.retain(EffectRecord::may_have_happened),
        ParkReason::Poison { .. }
        | ParkReason::Incompatible { .. }
        | ParkReason::Data { .. }
        | ParkReason::Paused { .. } => {}
    }
    // A request to pause that came while its step ended is answered by this.
    amend.consumed = current.mailbox.pause_ids();
    Ok((amend, send))
}

/// Late evidence has come: a run that is parked for want of an answer goes on, and finds it. Nothing else is settled by that,
/// so what may have happened besides stays as it is. `None` when it is not parked for that.
pub fn resume_for_evidence(current: &Checkpoint, now: Timestamp) -> Result<Option<(Amend, Send)>, Illegal> {
    match &current.progress.status {
        Status::Parked { reason: ParkReason::UnknownOutcome { .. }, .. } => {
            go_on(current, "by late evidence", now).map(Some)
        }
        Status::Parked { .. }
        | Status::Created
        | Status::Running
        | Status::Waiting(_)
        | Status::Retrying { .. }
        | Status::Completed { .. }
        | Status::Failed { .. }
        | Status::Cancelled { .. } => Ok(None),
    }
}

/// A parked run goes on where it stands, with its journal, its failed attempts forgotten.
fn go_on(current: &Checkpoint, note: &str, now: Timestamp) -> Result<(Amend, Send), Illegal> {
    let step = current.progress.place.step();
    let mut draft = Draft::new(current, now);
    // A wait that was cut short goes on, unless what it waits for was decided meanwhile.
    let is_open = |approval: &Approval| approval.standing(now) == Standing::Open;
    let asked = |wait: &Wait| current.progress.approvals.iter().find(|known| wait.approval.as_ref() == Some(&known.id));
    let is_cut = matches!(
        current.progress.status,
        Status::Parked { reason: ParkReason::Budget(_) | ParkReason::Paused { .. }, .. }
    );
    let cut = draft.progress.spent.cut_wait.take().filter(|wait| is_cut && asked(wait).is_none_or(is_open));
    let status = cut.map_or(Status::Running, |wait| Status::Waiting(Wait { budget_ends: Some(now), ..*wait }));
    draft.become_status(status, &step)?;
    draft.record(step, EntryKind::Resumed, Duration::ZERO, More { note: Some(note.into()), ..More::default() });
    draft.progress.trouble = None;
    let send = draft.next_message();
    Ok((draft.into_amend(), send))
}

/// Whether resuming means calling it again. What the outside does not dedupe is asked about, or a person resolves it.
fn is_repeated(record: &EffectRecord) -> bool {
    record.is_open() && !record.class.needs_intent()
}
