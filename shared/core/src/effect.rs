//! Effects: calls to the outside world, their keys, classes and outcomes.

use alloc::string::String;
use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::approval::ApprovalId;
use crate::budget::Amounts;
use crate::checkpoint::Visit;
use crate::ids::{RunId, WorkflowName};
use crate::json::{Digest, Json, Payload};
use crate::status::Failure;
use crate::time::Timestamp;

/// What the outside promises about being asked twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Class {
    /// Asking again changes nothing.
    #[serde(rename = "r")]
    Read,
    /// The outside dedupes by the key, for at least this many milliseconds (`None`: for ever).
    #[serde(rename = "i")]
    Idempotent(Option<u64>),
    /// It dedupes nothing, but can be asked whether a key has happened.
    #[serde(rename = "c")]
    Reconcilable,
    /// Nothing: a second call acts a second time.
    #[serde(rename = "o")]
    Once,
}

impl Class {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Idempotent(_) => "idempotent",
            Self::Reconcilable => "reconcilable",
            Self::Once => "once",
        }
    }

    /// For how long a call that may have been made at `first` may be repeated from now on, under the same key and without asking first:
    /// it may land as late as it gives up waiting, and has to be deduped then, too. Zero: it may not.
    pub fn repeatable_for(self, first: Timestamp, now: Timestamp) -> Duration {
        match self {
            Self::Read | Self::Idempotent(None) => Duration::MAX,
            Self::Idempotent(Some(window)) => Duration::from_millis(window).saturating_sub(now.since(first)),
            Self::Reconcilable | Self::Once => Duration::ZERO,
        }
    }

    /// Whether a call changes something outside.
    pub const fn acts(self) -> bool {
        match self {
            Self::Read => false,
            Self::Idempotent(_) | Self::Reconcilable | Self::Once => true,
        }
    }

    /// Whether a call needs its intent written first: after a crash nothing else would tell that it may have been made.
    pub const fn needs_intent(self) -> bool {
        match self {
            Self::Read | Self::Idempotent(_) => false,
            Self::Reconcilable | Self::Once => true,
        }
    }
}

/// The idempotency key under which the outside is called.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EffectKey(String);

/// How far an effect's identity reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// This visit of the step: a loop that comes back makes the effect anew.
    Visit(Visit),
    /// The whole run, by the author's key: coming back never acts twice.
    Run(&'a str),
    /// Every run of the workflow, by the author's key: one refund an order, whichever run asks. All runs derive the same
    /// key, so a run has to own it (a claim in the store) before it acts under it.
    Business(&'a str),
}

impl EffectKey {
    /// Derives the key from run, workflow, effect name and scope: 32 hexadecimal digits, the same in every attempt. The run
    /// plays no part in [`Scope::Business`].
    ///
    /// ```
    /// use stepwell_core::{EffectKey, RunId, Scope, WorkflowName};
    /// let (run, workflow) = (RunId::new("r1")?, WorkflowName::new("refund")?);
    /// let key = EffectKey::derive(&run, &workflow, "email", Scope::Run("order-7"));
    /// assert_eq!(key, EffectKey::derive(&run, &workflow, "email", Scope::Run("order-7")));
    /// assert_ne!(key, EffectKey::derive(&run, &workflow, "email", Scope::Run("order-8")));
    ///
    /// let other = RunId::new("r2")?;
    /// assert_ne!(key, EffectKey::derive(&other, &workflow, "email", Scope::Run("order-7")));
    /// let key = EffectKey::derive(&run, &workflow, "email", Scope::Business("order-7"));
    /// assert_eq!(key, EffectKey::derive(&other, &workflow, "email", Scope::Business("order-7")));
    /// # Ok::<(), stepwell_core::NameError>(())
    /// ```
    pub fn derive(run: &RunId, workflow: &WorkflowName, name: &str, scope: Scope<'_>) -> Self {
        let visit;
        let run = run.as_str().as_bytes();
        let (run, kind, within): (&[u8], &[u8], &[u8]) = match scope {
            Scope::Visit(Visit(number)) => {
                visit = number.to_be_bytes();
                (run, b"visit", &visit)
            }
            Scope::Run(key) => (run, b"run", key.as_bytes()),
            Scope::Business(key) => (b"", b"business", key.as_bytes()),
        };
        let parts = [run, workflow.as_str().as_bytes(), name.as_bytes(), kind, within];
        Self(Digest::of_parts(parts).short(32))
    }

    /// Reads a key that a person has copied: 32 hexadecimal digits, in lower case. `None`: it is none.
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
        (text.len() == 32 && text.bytes().all(is_digit)).then(|| Self(text.into()))
    }

    /// As text, for the outside's `Idempotency-Key`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EffectKey({})", self.0)
    }
}

/// How an effect ended, as far as is known. There is no fourth: what may have happened is [`Outcome::Unknown`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It happened; this is what it answered.
    #[serde(rename = "s")]
    Succeeded(Payload),
    /// It did not happen and will not.
    #[serde(rename = "f")]
    Failed(Failure),
    /// It may have happened.
    #[serde(rename = "u")]
    Unknown {
        /// When it may have happened first.
        #[serde(rename = "t")]
        since: Timestamp,
        /// What was seen: the time-out, the lost connection.
        #[serde(rename = "e")]
        evidence: String,
    },
}

impl Outcome {
    /// The word for it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Succeeded(_) => "succeeded",
            Self::Failed(_) => "failed",
            Self::Unknown { .. } => "unknown",
        }
    }
}

/// One effect as the journal and the ledger keep it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectRecord {
    /// Its idempotency key.
    #[serde(rename = "k")]
    pub key: EffectKey,
    /// Its name in the workflow.
    #[serde(rename = "n")]
    pub name: String,
    /// Its class.
    #[serde(rename = "c")]
    pub class: Class,
    /// Digest of its parameters, where the author gave them.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Digest>,
    /// Calls made to the outside that this record knows of.
    #[serde(rename = "a")]
    pub attempts: u32,
    /// How it ended.
    #[serde(rename = "o")]
    pub outcome: Outcome,
    /// When its last call gave up waiting, at the latest. Before that, whoever made it may still be about to send it.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Whether it belongs to the run (it has an author's key) and not just to this visit of the step.
    #[serde(rename = "r", default, skip_serializing_if = "core::ops::Not::not")]
    pub of_run: bool,
    /// The approval that it is made under.
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// What it costs: reserved before the call, settled with its outcome.
    #[serde(rename = "m", default, skip_serializing_if = "Amounts::is_empty")]
    pub costs: Amounts,
    /// The step that takes it back: a cursor.
    #[serde(rename = "b", default, deserialize_with = "crate::json::given", skip_serializing_if = "Option::is_none")]
    pub undo: Option<Json>,
    /// Whether nothing that happened before it is taken back once it has happened.
    #[serde(rename = "x", default, skip_serializing_if = "core::ops::Not::not")]
    pub no_return: bool,
    /// Who has signed it off as uncertain: nobody will find out, and the run may end with it.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub signed_off: Option<String>,
}

impl EffectRecord {
    /// Whether its intent is written before its call: since of its class nothing else would tell after a crash that it may have
    /// been made, or since an approval is used by it, an amount reserved for it, or something taken back after it.
    pub fn has_intent(&self) -> bool {
        self.class.needs_intent()
            || self.approval.is_some()
            || !self.costs.is_empty()
            || self.undo.is_some()
            || self.no_return
    }

    /// Whether this, of which neither journal nor ledger knows, can be of this visit: what belonged to an earlier one was settled there,
    /// and what belongs to the run may be settled beside the checkpoint.
    pub fn is_of(&self, run: &RunId, workflow: &WorkflowName, visit: Visit, has_spilled: bool) -> bool {
        if self.of_run {
            !has_spilled
        } else {
            self.key == EffectKey::derive(run, workflow, &self.name, Scope::Visit(visit))
        }
    }

    /// Whether nobody knows how it ended.
    pub const fn is_unknown(&self) -> bool {
        matches!(self.outcome, Outcome::Unknown { .. })
    }

    /// Whether it has happened, or may have.
    pub const fn may_have_happened(&self) -> bool {
        match self.outcome {
            Outcome::Succeeded(_) | Outcome::Unknown { .. } => true,
            Outcome::Failed(_) => false,
        }
    }

    /// Whether it may have happened, that matters, and nobody has signed it off. A read that may have happened has changed
    /// nothing.
    pub fn is_open(&self) -> bool {
        match (&self.outcome, self.class) {
            (Outcome::Unknown { .. }, Class::Idempotent(_) | Class::Reconcilable | Class::Once) => {
                self.signed_off.is_none()
            }
            (Outcome::Unknown { .. }, Class::Read) | (Outcome::Succeeded(_) | Outcome::Failed(_), _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outside remembers keys for as long as it likes: a run that goes on under newer code has to ask under the same.
    #[test]
    fn keys_stay_what_they_were() {
        let (run, workflow) = (RunId::new("r1").unwrap(), WorkflowName::new("refund").unwrap());
        let keys = [
            (Scope::Visit(Visit(3)), "ed2a0670317d13a11225690a58ca83c1"),
            (Scope::Run("order-7"), "e146fb27d1c5fad0209bbe5a76879444"),
            (Scope::Business("order-7"), "7a4fec1cdd3e7bb207eaf46af476cf29"),
        ];
        for (scope, key) in keys {
            assert_eq!(EffectKey::derive(&run, &workflow, "email", scope).as_str(), key, "{scope:?}");
        }
    }
}
