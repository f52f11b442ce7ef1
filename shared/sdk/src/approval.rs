//! Approvals, as an author asks for them and reads the answer.

use core::time::Duration;

use serde::Serialize;
use stepwell_core::approval::{AskApproval, Authority};
use stepwell_core::limits::NAME_CHARS_MAX;
use stepwell_core::{Json, Payload, Standing, Timestamp};

use crate::secret::refuse_secrets;
use crate::{Cx, StepError, fingerprint};

/// How long a given approval may be used unless [`Approval::usable_for`] says otherwise.
const USABLE_DEFAULT: Duration = Duration::from_hours(24);

/// Everybody who has this role may decide.
pub fn role(name: impl Into<String>) -> Authority {
    Authority::Role(name.into())
}

/// This person may decide.
pub fn person(name: impl Into<String>) -> Authority {
    Authority::Person(name.into())
}

/// An approval in the making: of an action, with exactly these parameters. See [`WaitBuilder::for_approval`](crate::WaitBuilder::for_approval).
///
/// It is good for one effect, made by the same version of the code with the same parameters, before it expires. Asking again for the
/// same while it is open or unused changes nothing; asking with other parameters makes a new approval and voids the old one.
///
/// ```
/// use stepwell::prelude::*;
/// # #[derive(Serialize)] struct Refund { order: u32, cents: u64 }
/// # enum At { Decide }
/// # let refund = Refund { order: 7, cents: 90_000 };
/// let asked: stepwell::Next<At, ()> = wait(At::Decide).for_approval(
///     Approval::of("refund", &refund)
///         .by(role("finance"))
///         .quorum(2)
///         .escalate_after(hours(4), role("cfo"))
///         .within(days(3)),
/// );
/// ```
///
/// Nobody may decide until somebody is named, and it always expires:
///
/// ```compile_fail,E0599
/// use stepwell::prelude::*;
/// let endless = Approval::of("refund", &7).within(days(3));
/// ```
#[must_use = "an approval is asked for by a wait"]
#[derive(Debug)]
pub struct Approval {
    action: &'static str,
    parameters: Result<Payload, String>,
    fingerprint: stepwell_core::Digest,
    by: Vec<Authority>,
    quorum: u32,
    escalation: Option<(Duration, Vec<Authority>)>,
    usable_for: Duration,
    by_link: bool,
}

/// An approval in the making: by whom?
#[must_use = "say who may decide: `.by(role(..))` or `.by(person(..))`"]
#[derive(Debug)]
pub struct ApprovalOf(Approval);

/// An approval to ask for.
#[must_use = "an approval is asked for by a wait"]
#[derive(Debug)]
pub struct ApprovalRequest {
    asked: Approval,
    within: Duration,
}

/// What became of an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// As many as had to have allowed it.
    Approved {
        /// Who.
        by: Vec<String>,
        /// When the last of them did.
        at: Timestamp,
    },
    /// Somebody has rejected it.
    Rejected {
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// Nobody decided in time, or what was decided was not used in time.
    Expired,
    /// It is still open: the wait ended for another reason.
    Open,
}

impl Approval {
    /// Of this action with these parameters. A reviewer sees them in full, and they are stored: no [`Secret`](crate::Secret) in them.
    #[allow(clippy::new_ret_no_self, reason = "who may decide has to be said first")]
    pub fn of<T: Serialize + ?Sized>(action: &'static str, parameters: &T) -> ApprovalOf {
        let (stored, fingerprint) = match (Json::of(parameters), fingerprint(parameters)) {
            (Ok(json), Ok(fingerprint)) => (Ok(Payload::Inline(json)), fingerprint),
            (Err(error), _) => (Err(error.to_string()), stepwell_core::Digest::of(b"")),
            (_, Err(error)) => (Err(error.to_string()), stepwell_core::Digest::of(b"")),
        };
        ApprovalOf(Self {
            action,
            parameters: stored,
            fingerprint,
            by: Vec::new(),
            quorum: 1,
            escalation: None,
            usable_for: USABLE_DEFAULT,
            by_link: false,
        })
    }

    /// These may decide, too.
    pub fn or(mut self, authority: Authority) -> Self {
        self.by.push(authority);
        self
    }

    /// So many different people have to allow it. Default: one. One rejection rejects it.
    pub fn quorum(mut self, people: u32) -> Self {
        self.quorum = people;
        self
    }

    /// If nobody has decided after this long, these may decide, too.
    pub fn escalate_after(mut self, after: Duration, to: Authority) -> Self {
        self.escalation = Some((after, vec![to]));
        self
    }

    /// How long it may be used once it is given. Default: a day.
    pub fn usable_for(mut self, duration: Duration) -> Self {
        self.usable_for = duration;
        self
    }

    /// Persons that it names may answer through a signed link, sent to them by mail say, without credentials of their own: whoever
    /// has the link answers as that person, once. Left out, nobody can. Roles are not answered for by link.
    pub fn by_link(mut self) -> Self {
        self.by_link = true;
        self
    }

    /// How long there is to decide; then it expires.
    pub fn within(self, duration: Duration) -> ApprovalRequest {
        ApprovalRequest { asked: self, within: duration }
    }
}

impl ApprovalOf {
    /// These may decide.
    pub fn by(self, authority: Authority) -> Approval {
        self.0.or(authority)
    }
}

impl ApprovalRequest {
    /// What the engine is told.
    pub(crate) fn into_ask(self) -> Result<AskApproval, StepError> {
        let Self { asked, within } = self;
        let Approval { action, parameters, fingerprint, by, quorum, escalation, usable_for, by_link } = asked;
        let wrong = |what: String| StepError::terminal(format!("approval of {action}: {what}"));
        if action.is_empty() || action.chars().count() > NAME_CHARS_MAX {
            return Err(wrong(format!("an action's name has 1 to {NAME_CHARS_MAX} characters")));
        }
        let parameters = parameters.map_err(|problem| wrong(format!("its parameters: {problem}")))?;
        if let Payload::Inline(json) = &parameters {
            refuse_secrets("its parameters", json.text().as_bytes()).map_err(wrong)?;
        }
        for who in by.iter().chain(escalation.iter().flat_map(|(_, to)| to)) {
            refuse_secrets("who may decide", who.to_string().as_bytes()).map_err(wrong)?;
        }
        let deciders = by.iter().chain(escalation.iter().flat_map(|(_, to)| to));
        let (people, roles): (Vec<_>, Vec<_>) = deciders.partition(|who| matches!(who, Authority::Person(_)));
        if roles.is_empty() && usize::try_from(quorum).unwrap_or(usize::MAX) > people.len() {
            return Err(wrong(format!("{quorum} have to allow it, but only {} may decide", people.len())));
        }
        let action = action.into();
        Ok(AskApproval { action, parameters, fingerprint, by, quorum, escalation, within, usable_for, by_link })
    }
}

impl Cx {
    /// What became of the approval of this action that was asked for last.
    ///
    /// # Errors
    /// When none was asked for: the run fails.
    pub fn approval(&self, action: &str) -> Result<Decision, StepError> {
        let approval = self.visiting.approvals.iter().rev().find(|approval| approval.action == action);
        let approval = approval
            .ok_or_else(|| StepError::terminal(format!("no approval of {action} was asked for in this run")))?;
        let allowed = || approval.answers.iter().filter(|answer| answer.allows);
        Ok(match approval.standing(self.now()) {
            Standing::Approved { at, .. } | Standing::Used(stepwell_core::approval::Used { at, .. }) => {
                let at = allowed().next_back().map_or(at, |answer| answer.at);
                Decision::Approved { by: allowed().map(|answer| answer.reviewer.name.clone()).collect(), at }
            }
            Standing::Rejected(answer) => {
                let reason = answer.why.unwrap_or_else(|| "no reason was given".into());
                Decision::Rejected { by: answer.reviewer.name, reason }
            }
            Standing::Expired { .. } | Standing::Replaced(_) => Decision::Expired,
            Standing::Open => Decision::Open,
        })
    }
}
