//! A person asks a run to stand still: it is parked, and goes on when it is resumed.
//!
//! The request lies in the mailbox ([`PAUSE`](crate::mailbox::PAUSE)), so it outlives whoever made it. A run that nobody holds is
//! parked by the request itself; a holder parks it once its step has ended. What takes effects back is not held up.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::{Draft, Illegal};
use crate::checkpoint::Checkpoint;
use crate::history::{EntryKind, More};
use crate::ids::SignalId;
use crate::json::{Json, Payload};
use crate::mailbox::Letter;
use crate::status::{ParkReason, Phase, Status, Wait};
use crate::time::Timestamp;
use crate::write::Amend;

/// Who asks for a pause, and why. Recorded in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Who.
    pub by: String,
    /// Why.
    pub why: Option<String>,
}

impl Pause {
    /// What the request says in the mailbox: who, and why, in words.
    ///
    /// # Errors
    /// None: text can be written as JSON.
    pub fn payload(&self) -> Result<Payload, serde_json::Error> {
        Json::of(&super::by(&self.by, self.why.as_deref())).map(Payload::Inline)
    }
}

/// Why a run cannot be paused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PauseRefused {
    /// It has ended, or stands still already, or is about to end.
    #[error("the run is {0}: there is nothing to pause")]
    NotLive(Phase),
    /// See [`Illegal`].
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

/// Requests to pause that were not carried out yet.
pub(super) struct Asked<'a> {
    first: &'a Letter,
    held: &'a Checkpoint,
}

/// The requests that a run has in its mailbox, unless it is about to end.
pub(super) fn asked(held: &Checkpoint) -> Option<Asked<'_>> {
    if held.is_ending() {
        return None;
    }
    held.mailbox.pauses().next().map(|first| Asked { first, held })
}

impl Asked<'_> {
    /// Why the run is parked: the first request's words.
    pub(super) fn reason(&self) -> ParkReason {
        let what = match &self.first.payload {
            Payload::Inline(json) => json.parse::<String>().ok(),
            Payload::Blob(_) => None,
        };
        ParkReason::Paused { what: what.unwrap_or_else(|| "by somebody".to_string()) }
    }

    /// All of them: they are carried out together.
    pub(super) fn letters(&self) -> Vec<SignalId> {
        self.held.mailbox.pause_ids()
    }
}

/// Whether a pause can be asked for.
///
/// # Errors
/// [`PauseRefused::NotLive`].
pub fn can_pause(current: &Checkpoint) -> Result<(), PauseRefused> {
    if current.progress.status.is_live() && !current.is_ending() {
        return Ok(());
    }
    let phase = if current.is_ending() { Phase::Cancelling } else { current.progress.status.phase() };
    Err(PauseRefused::NotLive(phase))
}

/// Carries out what was asked for, on a run that nobody holds. `None`: nobody asks, or somebody holds it and will.
///
/// # Errors
/// [`PauseRefused::Illegal`], which is a defect.
pub fn pause(current: &Checkpoint, now: Timestamp) -> Result<Option<Amend>, PauseRefused> {
    let Some(asked) = asked(current).filter(|_| current.progress.status.is_live() && !current.is_leased(now)) else {
        return Ok(None);
    };
    let (reason, step) = (asked.reason(), current.progress.place.step());
    let mut draft = Draft::new(current, now);
    let note = Some(reason.to_string());
    draft.progress.spent.cut_wait = match &current.progress.status {
        Status::Waiting(wait) => Some(Box::<Wait>::new(wait.clone())),
        Status::Created
        | Status::Running
        | Status::Retrying { .. }
        | Status::Parked { .. }
        | Status::Completed { .. }
        | Status::Failed { .. }
        | Status::Cancelled { .. } => None,
    };
    draft.become_status(Status::Parked { reason, at: now }, &step)?;
    draft.record(step, EntryKind::Parked, Duration::ZERO, More { note, ..More::default() });
    let consumed = asked.letters();
    Ok(Some(Amend { consumed, ..draft.into_amend() }))
}
