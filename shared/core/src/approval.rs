//! Approvals: a person's leave to do one action, with exactly these parameters, once, before it expires.
//!
//! An approval is a capability: it names who may give it, how many have to, what for (the parameters' fingerprint and the code's
//! version) and until when. Whether it stands is worked out from its record each time ([`Approval::standing`]), never stored.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::checkpoint::Visit;
use crate::effect::EffectKey;
use crate::ids::RunId;
use crate::json::{Digest, Payload};
use crate::time::Timestamp;

/// Names one approval. Derived from what it is for, so that an answer to it is never taken for an answer to something else.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApprovalId(String);

impl ApprovalId {
    /// The approval of this action with these parameters, asked for at this visit of a step: 16 hexadecimal digits.
    pub fn derive(run: &RunId, action: &str, parameters: &Digest, visit: Visit) -> Self {
        let visit = visit.0.to_be_bytes();
        let parts = [&b"approval"[..], run.as_str().as_bytes(), action.as_bytes(), &parameters.0, &visit];
        Self(Digest::of_parts(parts).short(16))
    }

    /// Reads an id that a person has copied. `None`: it is none.
    ///
    /// ```
    /// use stepwell_core::ApprovalId;
    /// assert!(ApprovalId::parse("0123456789abcdef").is_some());
    /// assert!(ApprovalId::parse("refund").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        (text.len() == 16 && text.bytes().all(is_digit)).then(|| Self(text.into()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApprovalId({})", self.0)
    }
}

/// Who may decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Authority {
    /// This person.
    #[serde(rename = "p")]
    Person(String),
    /// Everybody who has this role.
    #[serde(rename = "r")]
    Role(String),
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(name) => f.write_str(name),
            Self::Role(role) => write!(f, "role {role}"),
        }
    }
}

/// Somebody who answers, as whoever let them in knows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reviewer {
    /// Who.
    #[serde(rename = "n")]
    pub name: String,
    /// The roles they have.
    #[serde(rename = "r", default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
}

impl Reviewer {
    fn has(&self, authority: &Authority) -> bool {
        match authority {
            Authority::Person(name) => *name == self.name,
            Authority::Role(role) => self.roles.contains(role),
        }
    }
}

/// From a time on, others may decide too: nobody has answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalation {
    /// From this time on.
    #[serde(rename = "t")]
    pub at: Timestamp,
    /// These too.
    #[serde(rename = "b")]
    pub to: Vec<Authority>,
}

/// What an author asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskApproval {
    /// The action.
    pub action: String,
    /// Its parameters, in full: what a reviewer reads.
    pub parameters: Payload,
    /// Their fingerprint.
    pub fingerprint: Digest,
    /// Who may decide: any of these.
    pub by: Vec<Authority>,
    /// How many have to allow it.
    pub quorum: u32,
    /// After how long others may decide too, and who.
    pub escalation: Option<(Duration, Vec<Authority>)>,
    /// How long there is to decide.
    pub within: Duration,
    /// How long it may be used once it is given.
    pub usable_for: Duration,
    /// Whether persons that it names may answer through a signed link, without credentials.
    pub by_link: bool,
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whose.
    #[serde(rename = "w")]
    pub reviewer: Reviewer,
    /// Allowed or rejected.
    #[serde(rename = "y")]
    pub allows: bool,
    /// Why.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When.
    #[serde(rename = "t")]
    pub at: Timestamp,
}

impl Answer {
    /// The word for it.
    pub const fn as_str(&self) -> &'static str {
        if self.allows { "approved" } else { "rejected" }
    }
}

/// One approval: who allowed what, when, on which parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Which.
    #[serde(rename = "i")]
    pub id: ApprovalId,
    /// The action.
    #[serde(rename = "n")]
    pub action: String,
    /// Its parameters, in full.
    #[serde(rename = "p")]
    pub parameters: Payload,
    /// Their fingerprint.
    #[serde(rename = "h")]
    pub fingerprint: Digest,
    /// The version of the code that asked.
    #[serde(rename = "v")]
    pub version: u32,
    /// Who may decide: any of these.
    #[serde(rename = "b")]
    pub by: Vec<Authority>,
    /// How many have to allow it.
    #[serde(rename = "q")]
    pub quorum: u32,
    /// When others may decide too.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<Escalation>,
    /// When it was asked for.
    #[serde(rename = "t")]
    pub asked_at: Timestamp,
    /// No answer is taken from this time on.
    #[serde(rename = "x")]
    pub expires_at: Timestamp,
    /// For how many milliseconds it may be used once it is given.
    #[serde(rename = "m")]
    pub usable_ms: u64,
    /// The answers, oldest first.
    #[serde(rename = "a", default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answer>,
    /// The effect that was made under it, and when its intent was written.
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// The one that was asked for in its place.
    #[serde(rename = "z", default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<ApprovalId>,
    /// Whether persons that it names may answer through a signed link, without credentials.
    #[serde(rename = "l", default, skip_serializing_if = "is_false")]
    pub by_link: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this signature")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// What an approval was used for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// The effect.
    #[serde(rename = "k")]
    pub by: EffectKey,
    /// When.
    #[serde(rename = "t")]
    pub at: Timestamp,
}

/// How an approval stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Answers are awaited.
    Open,
    /// It may be used, until then.
    Approved {
        /// When the last answer that it needed came.
        at: Timestamp,
        /// Until when.
        until: Timestamp,
    },
    /// Somebody who may decide has rejected it.
    Rejected(Answer),
    /// Nobody decided in time, or what was decided was not used in time.
    Expired {
        /// When.
        at: Timestamp,
    },
    /// Something else was asked for in its place.
    Replaced(ApprovalId),
    /// It was used: an approval is good for one effect.
    Used(Used),
}

impl Standing {
    /// The word for it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Approved { .. } => "approved",
            Self::Rejected(_) => "rejected",
            Self::Expired { .. } => "expired",
            Self::Replaced(_) => "replaced",
            Self::Used(_) => "used",
        }
    }
}

impl Approval {
    pub(crate) fn of(ask: AskApproval, id: ApprovalId, version: u32, now: Timestamp) -> Self {
        let AskApproval { action, parameters, fingerprint, by, quorum, escalation, within, usable_for, by_link } = ask;
        Self {
            id,
            action,
            parameters,
            fingerprint,
            version,
            by,
            quorum: quorum.max(1),
            escalation: escalation.map(|(after, to)| Escalation { at: now.plus(after), to }),
            asked_at: now,
            expires_at: now.plus(within),
            usable_ms: crate::time::millis(usable_for),
            answers: Vec::new(),
            used: None,
            replaced_by: None,
            by_link,
        }
    }

    /// How it stands. Each answer's authority is looked at again: one that has none counts for nothing.
    pub fn standing(&self, now: Timestamp) -> Standing {
        if let Some(used) = &self.used {
            return Standing::Used(used.clone());
        }
        if let Some(id) = &self.replaced_by {
            return Standing::Replaced(id.clone());
        }
        let counts = |answer: &&Answer| answer.at < self.expires_at && self.may_decide(&answer.reviewer, answer.at);
        if let Some(rejection) = self.answers.iter().filter(counts).find(|answer| !answer.allows) {
            return Standing::Rejected(rejection.clone());
        }
        let needed = usize::try_from(self.quorum.max(1)).unwrap_or(usize::MAX);
        if let Some(last) = self.answers.iter().filter(counts).nth(needed - 1) {
            let until = last.at.plus(Duration::from_millis(self.usable_ms));
            return if now < until {
                Standing::Approved { at: last.at, until }
            } else {
                Standing::Expired { at: until }
            };
        }
        if now < self.expires_at { Standing::Open } else { Standing::Expired { at: self.expires_at } }
    }

    /// Whether this person may decide at this time.
    pub fn may_decide(&self, reviewer: &Reviewer, at: Timestamp) -> bool {
        self.authorities(at).any(|authority| reviewer.has(authority))
    }

    /// Whether this person is named as one who decides, now or later.
    pub fn names(&self, person: &str) -> bool {
        let later = self.escalation.iter().flat_map(|escalation| &escalation.to);
        self.by.iter().chain(later).any(|authority| match authority {
            Authority::Person(name) => name == person,
            Authority::Role(_) => false,
        })
    }

    /// Who may decide at this time, in words.
    pub fn deciders(&self, at: Timestamp) -> String {
        let names: Vec<String> = self.authorities(at).map(ToString::to_string).collect();
        names.join(" or ")
    }

    fn authorities(&self, at: Timestamp) -> impl Iterator<Item = &Authority> {
        let escalated = self.escalation.iter().filter(move |escalation| escalation.at <= at);
        self.by.iter().chain(escalated.flat_map(|more| &more.to))
    }

    /// Whether it is done with: nobody waits for it any more, and nothing can be made under it.
    pub(crate) fn is_settled(&self, now: Timestamp) -> bool {
        match self.standing(now) {
            Standing::Open | Standing::Approved { .. } => false,
            Standing::Rejected(_) | Standing::Expired { .. } | Standing::Replaced(_) | Standing::Used(_) => true,
        }
    }
}
