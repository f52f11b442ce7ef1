//! Compensations: what takes an effect back when its run fails or is cancelled. Each is a step of the workflow, kept on a stack
//! from the effect's intent on, and run in reverse order.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::effect::{Class, EffectKey, EffectRecord};
use crate::history::LineOutcome;
use crate::json::Json;
use crate::status::Failure;
use crate::time::Timestamp;

/// An effect that has happened, or may have, and the step that takes it back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// The effect.
    #[serde(rename = "k")]
    pub key: EffectKey,
    /// Its name.
    #[serde(rename = "n")]
    pub name: String,
    /// Its class.
    #[serde(rename = "c")]
    pub class: Class,
    /// Its calls.
    #[serde(rename = "a")]
    pub attempts: u32,
    /// The step that takes it back: a cursor.
    #[serde(rename = "s")]
    pub step: Json,
    /// Points of no return that came after it, and that may have been passed. Once one of them has, this is not taken back.
    #[serde(rename = "b", default, skip_serializing_if = "Vec::is_empty")]
    pub behind: Vec<EffectKey>,
}

/// Adds to the stack what these effects bring, and takes away what did not happen after all.
pub(crate) fn put_on(stack: &mut Vec<Undo>, effects: &[EffectRecord]) {
    for record in effects {
        if !record.may_have_happened() {
            stack.retain(|undo| undo.key != record.key);
            not_passed(stack, &record.key);
            continue;
        }
        match (record.no_return, record.is_open()) {
            (false, _) => {}
            (true, false) if stack.iter().any(|undo| undo.behind.contains(&record.key)) => {
                passed(stack, &record.key);
            }
            (true, false) => stack.clear(),
            (true, true) => {
                for undo in stack.iter_mut().filter(|undo| !undo.behind.contains(&record.key)) {
                    undo.behind.push(record.key.clone());
                }
            }
        }
        if let Some(step) = record.undo.clone().filter(|_| stack.iter().all(|undo| undo.key != record.key)) {
            let EffectRecord { key, name, class, attempts, .. } = record.clone();
            stack.push(Undo { key, name, class, attempts, step, behind: Vec::new() });
        }
    }
}

/// The stack as it is with these effects, which stay where they are.
pub(crate) fn stacked(stack: &[Undo], effects: &[EffectRecord]) -> Vec<Undo> {
    let mut stack = stack.to_vec();
    put_on(&mut stack, effects);
    stack
}

/// This point of no return was passed.
pub(crate) fn passed(stack: &mut Vec<Undo>, key: &EffectKey) {
    stack.retain(|undo| !undo.behind.contains(key));
}

/// It was not.
pub(crate) fn not_passed(stack: &mut [Undo], key: &EffectKey) {
    for undo in stack {
        undo.behind.retain(|point| point != key);
    }
}

/// A run whose effects are being taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undoing {
    /// Why, and so what the run ends as.
    #[serde(rename = "y")]
    pub cause: Cause,
    /// The step at which that was.
    #[serde(rename = "s")]
    pub step: String,
    /// What was taken back, in that order.
    #[serde(rename = "d", default, skip_serializing_if = "Vec::is_empty")]
    pub undone: Vec<CertifiedEffect>,
    /// What a person has let stand.
    #[serde(rename = "l", default, skip_serializing_if = "Vec::is_empty")]
    pub stands: Vec<CertifiedEffect>,
    /// Calls that the cancellation came before.
    #[serde(rename = "n", default, skip_serializing_if = "Vec::is_empty")]
    pub never_sent: Vec<CertifiedEffect>,
    /// Since when an attempt whose worker died may have called the outside without leaving a record.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub lost_attempt: Option<Timestamp>,
}

/// Why a run's effects are taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// It has failed.
    #[serde(rename = "f")]
    Failed(Failure),
    /// Somebody asked for its end.
    #[serde(rename = "x")]
    Cancelled,
}

/// One effect as a certificate lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertifiedEffect {
    /// Its name.
    #[serde(rename = "n")]
    pub name: String,
    /// Its class.
    #[serde(rename = "c")]
    pub class: Class,
    /// What is known of it.
    #[serde(rename = "o")]
    pub outcome: LineOutcome,
    /// Calls made to the outside.
    #[serde(rename = "a")]
    pub attempts: u32,
    /// The key under which the outside knows it.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub key: Option<EffectKey>,
    /// When its last call gave up waiting.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Who has signed it off as uncertain.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub signed_off_by: Option<String>,
    /// Who has let it stand, and why.
    #[serde(rename = "y", default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl From<&EffectRecord> for CertifiedEffect {
    fn from(record: &EffectRecord) -> Self {
        Self {
            name: record.name.clone(),
            class: record.class,
            outcome: LineOutcome::from(&record.outcome),
            attempts: record.attempts,
            key: Some(record.key.clone()),
            until: record.until,
            signed_off_by: record.signed_off.clone(),
            note: None,
        }
    }
}

impl From<&Undo> for CertifiedEffect {
    /// What is left to be said when its record lies beside the checkpoint: it was settled, else it would not.
    fn from(undo: &Undo) -> Self {
        Self {
            name: undo.name.clone(),
            class: undo.class,
            outcome: LineOutcome::Succeeded,
            attempts: undo.attempts,
            key: Some(undo.key.clone()),
            until: None,
            signed_off_by: None,
            note: None,
        }
    }
}
