//! How a run ends that does not complete: what is taken back, what stands, and what is known of its effects.

use serde::Serialize;
use stepwell_core::decide::LetStand;
use stepwell_core::{Cause, Certificate, CertifiedEffect, Checkpoint, Json, RunId, Status, Undo, Undoing};
use utoipa::ToSchema;

use super::{At, FailureView};
use crate::schema;

/// Characters that are shown of a cursor that has no name.
const STEP_CHARS_SHOWN: usize = 40;

/// What a cancelled run has done, and may have done.
#[derive(Debug, Serialize, ToSchema)]
pub struct CertificateView {
    /// Effects that have happened.
    pub confirmed: u64,
    /// Effects that the outside refused for good.
    pub failed: u64,
    /// Effects that may have happened. A person has signed each of them off.
    pub uncertain: Vec<CertifiedView>,
    /// Calls that the cancellation came before.
    pub never_sent: Vec<CertifiedView>,
    /// Effects that were taken back, in that order.
    pub undone: Vec<CertifiedView>,
    /// Effects that could not be taken back, and that a person has let stand.
    pub stands: Vec<CertifiedView>,
    /// The step in which it ended.
    pub unfinished_step: String,
    /// Since when a worker that died may have called the outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = At)]
    pub lost_attempt: Option<At>,
}

/// An effect of a run that has ended, or takes back what it has done.
#[derive(Debug, Serialize, ToSchema)]
pub struct CertifiedView {
    /// Its name in the workflow.
    pub name: String,
    /// What the outside promises about being asked twice.
    pub class: &'static str,
    /// What is known of it.
    pub outcome: &'static str,
    /// Calls that were made.
    pub attempts: u32,
    /// By which the other side knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub key: Option<String>,
    /// When its last call gave up waiting.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = At)]
    pub until: Option<At>,
    /// Who has signed it off as uncertain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub signed_off_by: Option<String>,
    /// Who has let it stand, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub note: Option<String>,
}

/// A run that takes back what it has done, or has.
#[derive(Debug, Serialize, ToSchema)]
pub struct UndoingView {
    /// Why.
    pub cause: CauseView,
    /// The step at which that was.
    pub step: String,
    /// What was taken back, in that order.
    pub undone: Vec<CertifiedView>,
    /// What a person has let stand.
    pub stands: Vec<CertifiedView>,
    /// What is still to be taken back, the next first.
    pub left: Vec<UndoView>,
    /// Calls that the cancellation came before.
    pub never_sent: Vec<CertifiedView>,
    /// Since when a worker that died may have called the outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = At)]
    pub lost_attempt: Option<At>,
}

/// A person's word that an effect stands.
#[derive(Debug, Serialize, ToSchema)]
pub struct LetStandView {
    /// Of which run.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// Which effect. Left out when that could not be read: the word stands all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = CertifiedView)]
    pub effect: Option<CertifiedView>,
    /// Who says so.
    pub by: String,
    /// Why, and what was done instead.
    pub why: String,
}

impl LetStandView {
    /// What became of a person's word, if the run can be read now.
    pub fn of(run: RunId, act: LetStand, after: Option<&Checkpoint>) -> Self {
        let LetStand { by, why } = act;
        let stands = after.and_then(|after| after.progress.undoing.as_ref()).and_then(|undoing| undoing.stands.last());
        Self { run, effect: stands.map(CertifiedView::from), by, why }
    }
}

/// Why a run takes back what it has done.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CauseView {
    /// It has failed.
    Failed(FailureView),
    /// Somebody has asked for its end.
    Cancelled,
}

/// An effect, and the step that takes it back.
#[derive(Debug, Serialize, ToSchema)]
pub struct UndoView {
    /// Its name in the workflow.
    pub name: String,
    /// What the outside promises about being asked twice.
    pub class: &'static str,
    /// By which the other side knows it.
    pub key: String,
    /// Calls that were made.
    pub attempts: u32,
    /// The step that takes it back.
    pub step: String,
}

impl UndoView {
    /// What is taken back if the run fails or is cancelled now, the next first. Effects of the step that runs come on top
    /// when it has ended.
    pub(super) fn of(run: &Checkpoint) -> Vec<Self> {
        if run.progress.status.phase().is_ended() {
            return Vec::new();
        }
        run.progress.undo.iter().rev().map(Self::from).collect()
    }
}

impl UndoingView {
    /// What a run takes back, or has, unless that stands in its certificate.
    pub(super) fn of(run: &Checkpoint) -> Option<Self> {
        let Undoing { cause, step, undone, stands, never_sent, lost_attempt } = match run.progress.status {
            Status::Cancelled { .. } => None,
            Status::Created
            | Status::Running
            | Status::Waiting(_)
            | Status::Retrying { .. }
            | Status::Parked { .. }
            | Status::Completed { .. }
            | Status::Failed { .. } => run.progress.undoing.as_deref(),
        }?;
        Some(Self {
            cause: cause.into(),
            step: step.clone(),
            undone: each(undone),
            stands: each(stands),
            left: UndoView::of(run),
            never_sent: each(never_sent),
            lost_attempt: lost_attempt.map(At),
        })
    }
}

/// The name of the step that a cursor means.
pub(super) fn step_of(cursor: &Json) -> String {
    cursor.variant().unwrap_or_else(|| cursor.text().chars().take(STEP_CHARS_SHOWN).collect())
}

fn each(effects: &[CertifiedEffect]) -> Vec<CertifiedView> {
    effects.iter().map(CertifiedView::from).collect()
}

impl From<&Undo> for UndoView {
    fn from(Undo { key, name, class, attempts, step, behind: _ }: &Undo) -> Self {
        let (name, key, step) = (name.clone(), key.to_string(), step_of(step));
        Self { name, class: class.as_str(), key, attempts: *attempts, step }
    }
}

impl From<&Cause> for CauseView {
    fn from(cause: &Cause) -> Self {
        match cause {
            Cause::Failed(failure) => Self::Failed(failure.into()),
            Cause::Cancelled => Self::Cancelled,
        }
    }
}

impl From<&Certificate> for CertificateView {
    fn from(certificate: &Certificate) -> Self {
        let Certificate { confirmed, failed, uncertain, never_sent, undone, stands, step, lost_attempt } = certificate;
        Self {
            confirmed: *confirmed,
            failed: *failed,
            uncertain: each(uncertain),
            never_sent: each(never_sent),
            undone: each(undone),
            stands: each(stands),
            unfinished_step: step.clone(),
            lost_attempt: lost_attempt.map(At),
        }
    }
}

impl From<&CertifiedEffect> for CertifiedView {
    fn from(effect: &CertifiedEffect) -> Self {
        let CertifiedEffect { name, class, outcome, attempts, key, until, signed_off_by, note } = effect;
        Self {
            name: name.clone(),
            class: class.as_str(),
            outcome: outcome.as_str(),
            attempts: *attempts,
            key: key.as_ref().map(ToString::to_string),
            until: until.map(At),
            signed_off_by: signed_off_by.clone(),
            note: note.clone(),
        }
    }
}
