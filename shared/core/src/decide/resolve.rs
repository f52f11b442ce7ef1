//! A person says how an effect ended that nobody knows of.

use alloc::string::String;
use core::time::Duration;

use super::commit::{count_settled, open_effects};
use super::{Draft, Illegal, Send};
use crate::budget::take_all;
use crate::checkpoint::{Checkpoint, Progress};
use crate::effect::{EffectKey, EffectRecord, Outcome};
use crate::history::{EffectLine, EntryKind, More};
use crate::json::Payload;
use crate::status::{Failure, FailureKind, ParkReason, Phase, Status};
use crate::time::Timestamp;
use crate::undo::{not_passed, passed};
use crate::write::Amend;

/// What a person says of an effect that may have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It happened, and this is what it answered: the step gets it as its result.
    Succeeded(Payload),
    /// It did not happen and will not. The step gets this as a refusal.
    Failed(String),
    /// It did not happen: the step may call again.
    TryAgain,
    /// Nobody will ever know: it stays unknown, and the run may end with it.
    SignOff,
}

impl Resolution {
    /// The word for it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Succeeded(_) => "succeeded",
            Self::Failed(_) => "failed",
            Self::TryAgain => "try-again",
            Self::SignOff => "sign-off",
        }
    }
}

/// A person's word on one effect, with who says it and what they have seen. Recorded in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolve {
    /// Which effect.
    pub key: EffectKey,
    /// How it ended.
    pub resolution: Resolution,
    /// Who says so.
    pub by: String,
    /// Why, and what was seen: the provider's own record, a phone call.
    pub why: String,
}

/// Why an effect cannot be resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveRefused {
    /// The run has ended: its certificate stands.
    #[error("the run has {0}: what is uncertain stands in its certificate")]
    Ended(Phase),
    /// No effect of this key is open.
    #[error("no effect of key {0} is open: it was settled, or there never was one")]
    NotOpen(EffectKey),
    /// The call may still be on its way.
    #[error("effect {key} may still be on its way until {until}: what is true now may not be true then")]
    OnItsWay {
        /// Which effect.
        key: EffectKey,
        /// Until when.
        until: Timestamp,
    },
    /// See [`Illegal`].
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

/// Decides on a person's word. A run that is parked for want of it, or tries again for it, goes on at once when nothing else is
/// open; one that waits for something else waits on, and finds the answer then.
pub fn resolve(current: &Checkpoint, act: &Resolve, now: Timestamp) -> Result<(Amend, Option<Send>), ResolveRefused> {
    let status = &current.progress.status;
    if status.phase().is_ended() {
        return Err(ResolveRefused::Ended(status.phase()));
    }
    let Progress { journal, ledger, .. } = &current.progress;
    let record = open_effects(ledger, journal).find(|record| record.key == act.key);
    let record = record.ok_or_else(|| ResolveRefused::NotOpen(act.key.clone()))?;
    let named = EffectLine::from(record);
    if let Some(until) = record.until.filter(|until| *until > now) {
        return Err(ResolveRefused::OnItsWay { key: act.key.clone(), until });
    }
    let step = current.progress.place.step();
    let mut draft = Draft::new(current, now);
    let settled = settle(&mut draft.progress, act, current.is_to_end(), now).unwrap_or(named);
    let note = Some(alloc::format!("{} {}", act.resolution.as_str(), super::by(&act.by, Some(&act.why))));
    draft.record(
        step.clone(),
        EntryKind::Resolved,
        Duration::ZERO,
        More { effects: alloc::vec![settled], note, ..More::default() },
    );

    let waits_for_it = match status {
        Status::Parked { reason: ParkReason::UnknownOutcome { .. }, .. } | Status::Retrying { .. } => true,
        Status::Parked {
            reason:
                ParkReason::Poison { .. }
                | ParkReason::StepLimit { .. }
                | ParkReason::Incompatible { .. }
                | ParkReason::Data { .. }
                | ParkReason::Budget(_)
                | ParkReason::Undo { .. }
                | ParkReason::Paused { .. },
            ..
        } => current.is_to_end(),
        Status::Created
        | Status::Running
        | Status::Waiting(_)
        | Status::Completed { .. }
        | Status::Failed { .. }
        | Status::Cancelled { .. } => false,
    };
    let others_open = open_effects(&draft.progress.ledger, &draft.progress.journal).any(|record| record.key != act.key);
    let send = if waits_for_it && !others_open {
        draft.become_status(Status::Running, &step)?;
        draft.progress.trouble = None;
        Some(draft.next_message())
    } else {
        None
    };
    Ok((draft.into_amend(), send))
}

/// Writes the word down, and answers how the history names it, if the record is still there.
fn settle(progress: &mut Progress, act: &Resolve, is_to_end: bool, now: Timestamp) -> Option<EffectLine> {
    let outcome = match &act.resolution {
        Resolution::SignOff => {
            let mut line = None;
            let records = progress.journal.iter_mut().chain(&mut progress.ledger);
            for record in records.filter(|record| record.key == act.key) {
                record.signed_off = Some(act.by.clone());
                line = Some(EffectLine::from(&*record));
            }
            // It may have been passed, and nobody will know.
            passed(&mut progress.undo, &act.key);
            return line;
        }
        Resolution::Succeeded(result) => Outcome::Succeeded(result.clone()),
        Resolution::Failed(message) => Outcome::Failed(Failure::new(FailureKind::Refused, message.clone())),
        // It did not happen, and nobody will call again.
        Resolution::TryAgain if is_to_end => {
            let message = alloc::format!("it did not happen, {}, and the run is cancelled", super::by(&act.by, None));
            Outcome::Failed(Failure::new(FailureKind::NotSent, message))
        }
        Resolution::TryAgain => {
            // Nothing is known any more of what has to be asked about: the step calls as if for the first time. What the
            // outside dedupes is called under its key, and its window begins anew.
            let forgotten = |record: &EffectRecord| record.key == act.key && record.class.needs_intent();
            progress.journal.retain(|record| !forgotten(record));
            for record in progress.ledger.iter().filter(|record| forgotten(record)) {
                take_all(&mut progress.spent.ended, &record.costs);
                progress.undo.retain(|undo| undo.key != record.key);
            }
            not_passed(&mut progress.undo, &act.key);
            progress.ledger.retain(|record| !forgotten(record));
            Outcome::Unknown {
                since: now,
                evidence: alloc::format!("to be called again, {}", super::by(&act.by, None)),
            }
        }
    };
    let is_failed = matches!(outcome, Outcome::Failed(_));
    // What the journal knows of is counted when the visit ends.
    if progress.journal.iter().all(|record| record.key != act.key) {
        let earlier = progress.ledger.iter().find(|record| record.key == act.key);
        let settled = earlier.map(|record| EffectRecord { outcome: outcome.clone(), ..record.clone() });
        count_settled(progress, settled.as_slice());
    }
    if is_failed {
        // It did not happen: nothing was spent, and nothing is to be taken back.
        for record in progress.ledger.iter_mut().filter(|record| record.key == act.key) {
            take_all(&mut progress.spent.ended, &core::mem::take(&mut record.costs));
        }
        progress.undo.retain(|undo| undo.key != act.key);
        not_passed(&mut progress.undo, &act.key);
    } else if !matches!(outcome, Outcome::Unknown { .. }) {
        passed(&mut progress.undo, &act.key);
    }
    let records = progress.journal.iter_mut().chain(&mut progress.ledger);
    let mut line = None;
    for record in records.filter(|record| record.key == act.key) {
        record.outcome = outcome.clone();
        if is_failed {
            record.costs.clear();
        }
        line = Some(EffectLine::from(&*record));
    }
    line
}
