//! What a person's pause, edit, move or giving up of a run came to, and what a run knew at a revision.

use serde::Serialize;
use stepwell_core::decide::Repair;
use stepwell_core::{Json, Phase, Revision, RunId};
use stepwell_engine::{Edited, MoveTo, PauseAnswer, StateAt};
use utoipa::ToSchema;

use super::Value;
use super::undo::step_of;
use crate::schema;

/// A run that was asked to stand still.
#[derive(Debug, Serialize, ToSchema)]
pub struct PauseView {
    /// Which.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// Whether this request is the reason why it stands still, or will.
    pub new: bool,
    /// How it stands now: `parked`, or as before, until the step that runs has ended.
    #[schema(value_type = schema::Phase)]
    pub status: Phase,
    /// Who asks.
    pub by: String,
    /// Why.
    #[schema(required = true)]
    pub why: Option<String>,
}

/// A run whose state, or input, was edited.
#[derive(Debug, Serialize, ToSchema)]
pub struct EditedView {
    /// Which.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The revision that the edit has made: the next one is made against it.
    #[schema(value_type = schema::Revision)]
    pub revision: u64,
    /// What the run knows now.
    #[schema(value_type = Value)]
    pub value: Value,
    /// By whom.
    pub by: String,
    /// Why.
    pub why: String,
}

/// A run that was moved to another step.
#[derive(Debug, Serialize, ToSchema)]
pub struct MovedView {
    /// Which.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The revision that the move has made: the next one is made against it.
    #[schema(value_type = schema::Revision)]
    pub revision: u64,
    /// The step that runs when the run is resumed.
    pub step: String,
    /// By whom.
    pub by: String,
    /// Why.
    pub why: String,
}

/// A run that was given up. It has failed; what it has done stands.
#[derive(Debug, Serialize, ToSchema)]
pub struct DiscardedView {
    /// Which.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// By whom.
    pub by: String,
    /// Why.
    pub why: String,
}

/// What a run knew around one commit.
#[derive(Debug, Serialize, ToSchema)]
pub struct StateView {
    /// Which run.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The revision that the commit has made.
    #[schema(value_type = schema::Revision)]
    pub revision: u64,
    /// The step that it belongs to.
    pub step: String,
    /// What the run knew before it. Left out where that was not kept, or there is nothing before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    pub before: Option<Value>,
    /// What it knew after it.
    #[schema(value_type = Value)]
    pub after: Value,
}

impl PauseView {
    /// What became of a request.
    pub fn of(run: RunId, answer: PauseAnswer, by: String, why: Option<String>) -> Self {
        let PauseAnswer { new, phase } = answer;
        Self { run, new, status: phase, by, why }
    }
}

impl EditedView {
    /// What an edit came to.
    pub fn of(run: RunId, edited: Edited, by: String, why: String) -> Self {
        let Edited { revision, value } = edited;
        Self { run, revision: revision.0, value: Value::short(value), by, why }
    }
}

impl MovedView {
    /// What a move came to: it has made this revision.
    pub fn of(run: RunId, act: MoveTo, revision: Revision) -> Self {
        let MoveTo { at: _, to, by, why } = act;
        Self { run, revision: revision.0, step: step_of(&to), by, why }
    }
}

impl DiscardedView {
    /// What giving a run up came to.
    pub fn of(run: RunId, act: Repair) -> Self {
        let Repair { at: _, by, why } = act;
        Self { run, by, why }
    }
}

impl StateView {
    /// What a run knew.
    pub fn of(run: RunId, state: StateAt) -> Self {
        let StateAt { revision, step, before, after } = state;
        let short = |json: Json| Value::short(json);
        Self { run, revision: revision.0, step, before: before.map(short), after: short(after) }
    }
}
