//! A person answers an approval.

use alloc::boxed::Box;
use alloc::string::String;
use core::time::Duration;

use super::{Draft, Illegal, Send};
use crate::approval::{Answer, Approval, ApprovalId, AskApproval, Reviewer, Standing};
use crate::checkpoint::{Checkpoint, Progress};
use crate::history::{EntryKind, More};
use crate::ids::RunId;
use crate::limits::APPROVALS_KEPT_MAX;
use crate::status::{Phase, Status};
use crate::time::Timestamp;
use crate::undo::Cause;
use crate::write::Amend;

/// A person's answer to an approval. Recorded in it and in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approve {
    /// Which approval. Its id is bound to the parameters that were looked at.
    pub approval: ApprovalId,
    /// Who answers, as whoever let them in knows them.
    pub reviewer: Reviewer,
    /// Allowed or rejected.
    pub allows: bool,
    /// Why.
    pub why: Option<String>,
}

/// What an answer comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approved {
    /// It is new: write it, then send the message if there is one.
    New(Box<Amend>, Option<Send>),
    /// The same was said before, by the same person: nothing changes.
    Again,
}

/// Why an answer is not taken. Nothing is changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApproveRefused {
    /// The run has ended, or is about to.
    #[error("the run is {0}: nothing is left to be approved")]
    Ended(Phase),
    /// It has no such approval.
    #[error("the run has no approval {0}: the id is wrong, or it was decided long ago and stands in the history")]
    NoSuch(ApprovalId),
    /// Something else was asked for in its place.
    #[error("approval {id} was replaced by {by}, which has other parameters or was asked for anew: look at that one")]
    Replaced {
        /// The one that was answered.
        id: ApprovalId,
        /// The one that counts.
        by: ApprovalId,
    },
    /// It is too late.
    #[error("approval {id} has expired at {at}")]
    Expired {
        /// Which.
        id: ApprovalId,
        /// When.
        at: Timestamp,
    },
    /// This person may not decide.
    #[error("{who} may not decide on approval {id}: it is for {by}")]
    NoAuthority {
        /// Which.
        id: ApprovalId,
        /// Who answered.
        who: String,
        /// Who may.
        by: String,
    },
    /// It was decided.
    #[error("approval {id} was {} by {} before: it is decided once", first.as_str(), first.reviewer.name)]
    Decided {
        /// Which.
        id: ApprovalId,
        /// The answer that stands.
        first: Answer,
    },
    /// See [`Illegal`].
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

/// Decides on an answer. One that settles what the run waits for lets it go on.
pub fn approve(current: &Checkpoint, act: &Approve, now: Timestamp) -> Result<Approved, ApproveRefused> {
    let status = &current.progress.status;
    let ending = match current.progress.undoing.as_deref().map(|undoing| &undoing.cause) {
        Some(Cause::Failed(_)) => Some(Phase::Failed),
        Some(Cause::Cancelled) => Some(Phase::Cancelling),
        None => current.cancel.as_ref().map(|_| Phase::Cancelling),
    };
    if let Some(phase) = Some(status.phase()).filter(|phase| phase.is_ended()).or(ending) {
        return Err(ApproveRefused::Ended(phase));
    }
    let approvals = &current.progress.approvals;
    let found = approvals.iter().enumerate().find(|(_, approval)| approval.id == act.approval);
    let (at, approval) = found.ok_or_else(|| ApproveRefused::NoSuch(act.approval.clone()))?;
    if !approval.may_decide(&act.reviewer, now) {
        let (id, who, by) = (approval.id.clone(), act.reviewer.name.clone(), approval.deciders(now));
        return Err(ApproveRefused::NoAuthority { id, who, by });
    }
    if let Some(said) = approval.answers.iter().find(|answer| answer.reviewer.name == act.reviewer.name) {
        if said.allows == act.allows {
            return Ok(Approved::Again);
        }
        return Err(ApproveRefused::Decided { id: approval.id.clone(), first: said.clone() });
    }
    may_answer(approval, now)?;

    let answer = Answer { reviewer: act.reviewer.clone(), allows: act.allows, why: act.why.clone(), at: now };
    let step = current.progress.place.step();
    let mut draft = Draft::new(current, now);
    let note = Some(words(approval, &answer));
    draft.record(step.clone(), EntryKind::Answered, Duration::ZERO, More { note, ..More::default() });
    let mut answered = approval.clone();
    answered.answers.push(answer);
    let decided = answered.standing(now) != Standing::Open;
    let id = answered.id.clone();
    draft.progress.approvals[at] = answered;
    let waits_for_it = matches!(status, Status::Waiting(wait) if wait.approval.as_ref() == Some(&id));
    let send = if waits_for_it && decided {
        draft.become_status(Status::Running, &step)?;
        Some(draft.next_message())
    } else {
        None
    };
    Ok(Approved::New(Box::new(draft.into_amend()), send))
}

/// Whether an answer can still change something.
fn may_answer(approval: &Approval, now: Timestamp) -> Result<(), ApproveRefused> {
    let id = approval.id.clone();
    match approval.standing(now) {
        Standing::Open => Ok(()),
        Standing::Replaced(by) => Err(ApproveRefused::Replaced { id, by }),
        Standing::Rejected(first) => Err(ApproveRefused::Decided { id, first }),
        Standing::Approved { .. } | Standing::Used(_) => match approval.answers.first() {
            Some(first) => Err(ApproveRefused::Decided { id, first: first.clone() }),
            None => Err(ApproveRefused::NoSuch(id)),
        },
        // What was given and not used in time was decided all the same.
        Standing::Expired { at } => match approval.answers.first().filter(|first| was_decided(approval, first)) {
            Some(first) => Err(ApproveRefused::Decided { id, first: first.clone() }),
            None => Err(ApproveRefused::Expired { id, at }),
        },
    }
}

/// Whether it was decided at the time of an answer, those that came later counted in.
fn was_decided(approval: &Approval, answer: &Answer) -> bool {
    approval.standing(answer.at) != Standing::Open
}

/// Who allowed what, on which parameters: for the history, which outlives the record.
fn words(approval: &Approval, answer: &Answer) -> String {
    let Approval { action, fingerprint, version, .. } = approval;
    let Reviewer { name, roles } = &answer.reviewer;
    let who = if roles.is_empty() { name.clone() } else { alloc::format!("{name} ({})", roles.join(", ")) };
    let said = super::by(&who, answer.why.as_deref());
    let parameters = fingerprint.short(16);
    alloc::format!("{} {action} (parameters {parameters}, version {version}) {said}", answer.as_str())
}

/// Asks for an approval. What is open, or given and not used yet, for the same action, parameters and code goes on; anything else
/// that was asked for under this name is replaced. Answers which one counts, and how it stands.
pub(super) fn ask(
    progress: &mut Progress,
    run: &RunId,
    ask: AskApproval,
    version: u32,
    now: Timestamp,
) -> (Approval, Standing) {
    let same = |known: &&Approval| {
        known.action == ask.action
            && known.fingerprint == ask.fingerprint
            && known.version == version
            && known.by == ask.by
            && known.quorum == ask.quorum.max(1)
            && known.escalation.as_ref().map(|escalation| &escalation.to) == ask.escalation.as_ref().map(|(_, to)| to)
            && !known.is_settled(now)
    };
    if let Some(known) = progress.approvals.iter().find(same) {
        return (known.clone(), known.standing(now));
    }
    let id = ApprovalId::derive(run, &ask.action, &ask.fingerprint, progress.visit);
    for known in progress.approvals.iter_mut().filter(|known| known.action == ask.action && !known.is_settled(now)) {
        known.replaced_by = Some(id.clone());
    }
    let approval = Approval::of(ask, id, version, now);
    progress.approvals.push(approval.clone());
    let Progress { approvals, journal, ledger, .. } = progress;
    // A call that may have happened is repeated under the approval that it has used.
    let is_used = |known: &Approval| {
        let mut open = journal.iter().chain(ledger.iter()).filter(|record| record.is_open());
        open.any(|record| record.approval.as_ref() == Some(&known.id))
    };
    let may_go = |known: &Approval| known.is_settled(now) && !is_used(known);
    let mut surplus = approvals.iter().filter(|known| may_go(known)).count().saturating_sub(APPROVALS_KEPT_MAX);
    approvals.retain(|known| {
        let goes = surplus > 0 && may_go(known);
        surplus -= usize::from(goes);
        !goes
    });
    (approval, Standing::Open)
}
