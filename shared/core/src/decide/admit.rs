//! Whether one effect may be dispatched: the approval that it is made under, and what may be spent.

use crate::approval::{Approval, ApprovalId, Standing};
use crate::budget::{Budget, OverBudget};
use crate::checkpoint::Checkpoint;
use crate::effect::{EffectKey, EffectRecord};
use crate::time::Timestamp;

/// Why an effect is not dispatched. Nothing was called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// The approval does not allow it.
    #[error("approval {approval} does not allow it: {why}")]
    NotApproved {
        /// Which approval.
        approval: ApprovalId,
        /// Why not.
        why: NotApproved,
    },
    /// The budget does not.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
}

/// Why an approval does not allow an effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotApproved {
    /// It is not known any more.
    #[error("it is not known any more")]
    NoSuch,
    /// Nobody has decided yet, or too few have.
    #[error("it is not decided yet")]
    Open,
    /// It was rejected.
    #[error("it was rejected by {0}")]
    Rejected(alloc::string::String),
    /// It has expired.
    #[error("it has expired at {0}")]
    Expired(Timestamp),
    /// Another was asked for in its place.
    #[error("it was replaced by {0}")]
    Replaced(ApprovalId),
    /// It was used for something else.
    #[error("it was used for effect {0}, and is good for one")]
    Used(EffectKey),
    /// It was given for other parameters.
    #[error("it was given for other parameters")]
    OtherParameters,
    /// It was given to other code.
    #[error("it was given to version {given} of the code, and this is version {runs}")]
    OtherVersion {
        /// The version that asked.
        given: u32,
        /// The version that runs.
        runs: u32,
    },
}

/// Decides whether an effect may be dispatched. `journal` is every effect of this visit as it would stand once the intent is written,
/// those being called beside this one included, `version` that of the code that runs.
///
/// What repeats its own call under its key needs no new leave: its approval was used for it when that was in force.
///
/// # Errors
/// See [`NotAdmitted`].
pub fn admit(
    held: &Checkpoint,
    journal: &[EffectRecord],
    key: &EffectKey,
    version: u32,
    budget: &Budget,
    now: Timestamp,
) -> Result<(), NotAdmitted> {
    let record = journal.iter().find(|record| record.key == *key);
    if let Some((record, id)) = record.and_then(|record| Some((record, record.approval.as_ref()?))) {
        let approval = held.progress.approvals.iter().find(|approval| approval.id == *id);
        let beside = journal.iter().find(|other| other.key != *key && other.approval.as_ref() == Some(id));
        let allowed = match (approval, beside) {
            (None, _) => Err(NotApproved::NoSuch),
            (Some(_), Some(beside)) => Err(NotApproved::Used(beside.key.clone())),
            (Some(approval), None) => allows(approval, record, version, now),
        };
        allowed.map_err(|why| NotAdmitted::NotApproved { approval: id.clone(), why })?;
    }
    // What takes effects back is not held up by what they have cost.
    if held.progress.undoing.is_none() {
        budget.allows(&held.progress, journal)?;
    }
    Ok(())
}

fn allows(approval: &Approval, record: &EffectRecord, version: u32, now: Timestamp) -> Result<(), NotApproved> {
    if record.parameters != Some(approval.fingerprint) {
        return Err(NotApproved::OtherParameters);
    }
    match approval.standing(now) {
        Standing::Used(used) if used.by == record.key => Ok(()),
        Standing::Used(used) => Err(NotApproved::Used(used.by)),
        Standing::Open => Err(NotApproved::Open),
        Standing::Rejected(answer) => Err(NotApproved::Rejected(answer.reviewer.name)),
        Standing::Expired { at } => Err(NotApproved::Expired(at)),
        Standing::Replaced(by) => Err(NotApproved::Replaced(by)),
        Standing::Approved { .. } if approval.version != version => {
            Err(NotApproved::OtherVersion { given: approval.version, runs: version })
        }
        Standing::Approved { .. } => Ok(()),
    }
}
