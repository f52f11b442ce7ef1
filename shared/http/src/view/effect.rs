//! The effects of a run, as its journal and its ledger have them.

use serde::Serialize;
use stepwell_core::{Amounts, ApprovalId, Class, EffectRecord, Outcome};
use stepwell_engine::Client;
use utoipa::ToSchema;

use super::undo::step_of;
use super::{At, FailureView, Reach, Value};
use crate::schema;

/// An effect, as the journal or the ledger has it.
#[derive(Debug, Serialize, ToSchema)]
pub struct EffectView {
    /// Its name in the workflow.
    pub name: String,
    /// What the outside promises about being asked twice.
    pub class: &'static str,
    /// How long the other side keeps the key, in milliseconds, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64)]
    pub key_kept_ms: Option<u64>,
    /// By which the other side and [`Client::resolve`] know it.
    pub key: String,
    /// Whether it is made once in the whole run, not once in a visit of its step.
    pub of_run: bool,
    /// Calls that were made.
    pub attempts: u32,
    /// The approval that it is made under.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::ApprovalId)]
    pub approval: Option<ApprovalId>,
    /// What it costs, or may cost while nobody knows how it ended.
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    #[schema(value_type = BTreeMap<String, u64>)]
    pub costs: Amounts,
    /// The step that takes it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub undo: Option<String>,
    /// Whether nothing that happened before it is taken back once it has happened.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub no_return: bool,
    /// Who has signed it off as uncertain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub signed_off_by: Option<String>,
    /// How it ended.
    pub outcome: OutcomeView,
}

/// How an effect ended.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutcomeView {
    /// It has happened.
    Succeeded {
        /// What it answered.
        result: Value,
    },
    /// It has not happened.
    Failed(FailureView),
    /// It may have happened.
    Unknown {
        /// Since when nobody knows.
        since: At,
        /// When its last call gave up waiting, at the latest: before that it may still land.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = At)]
        until: Option<At>,
        /// Why nobody knows.
        evidence: String,
    },
}

impl EffectView {
    pub(super) async fn load(client: &Client, record: &EffectRecord, reach: Reach) -> Self {
        let EffectRecord { key, name, class, parameters: _, attempts, outcome, until, of_run, approval, .. } = record;
        let EffectRecord { costs, undo, no_return, signed_off, .. } = record;
        let outcome = match outcome {
            Outcome::Succeeded(result) => OutcomeView::Succeeded { result: reach.other(client, result).await },
            Outcome::Failed(failure) => OutcomeView::Failed(failure.into()),
            Outcome::Unknown { since, evidence } => {
                OutcomeView::Unknown { since: At(*since), until: until.map(At), evidence: evidence.clone() }
            }
        };
        let key_kept_ms = match class {
            Class::Read | Class::Idempotent(None) | Class::Reconcilable | Class::Once => None,
            Class::Idempotent(Some(window)) => Some(*window),
        };
        Self {
            name: name.clone(),
            class: class.as_str(),
            key_kept_ms,
            key: key.to_string(),
            of_run: *of_run,
            attempts: *attempts,
            approval: approval.clone(),
            costs: costs.clone(),
            undo: undo.as_ref().map(step_of),
            no_return: *no_return,
            signed_off_by: signed_off.clone(),
            outcome,
        }
    }
}
