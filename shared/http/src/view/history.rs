//! What has happened to a run, a commit an entry.

use std::borrow::Cow;

use serde::Serialize;
use stepwell_core::history::EffectLine;
use stepwell_core::{Json, RunId};
use stepwell_engine::HistoryEntry;
use utoipa::ToSchema;

use super::At;
use crate::schema;

/// Some of a history, and from which revision it goes on.
#[derive(Serialize, ToSchema)]
pub(crate) struct HistoryView {
    #[schema(value_type = schema::RunId)]
    pub(crate) run: RunId,
    /// Each an [`EntryView`], written already: its length decides how many there are.
    #[schema(value_type = Vec<EntryView<'_>>)]
    pub(crate) history: Vec<Json>,
    #[schema(required = true)]
    pub(crate) next: Option<u64>,
}

/// One commit.
#[derive(Debug, Serialize, ToSchema)]
pub struct EntryView<'a> {
    /// The run's revision after it.
    pub revision: u64,
    /// When it was made.
    pub at: At,
    /// The step that it belongs to.
    pub step: Cow<'a, str>,
    /// What it was, in the history's own word.
    pub what: &'static str,
    /// How long the attempt took, in milliseconds.
    pub took_ms: u64,
    /// Failed attempts of this step so far.
    pub failed_attempts: u32,
    /// Effects of the step that has ended.
    pub effects: Vec<EffectLineView>,
    /// An error, a reason, a migration, or who did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub note: Option<Cow<'a, str>>,
}

/// An effect as the history knows it.
#[derive(Debug, Serialize, ToSchema)]
pub struct EffectLineView {
    /// Its name in the workflow.
    pub name: String,
    /// What the outside promises about being asked twice.
    pub class: &'static str,
    /// How it ended.
    pub outcome: &'static str,
    /// Calls that were made.
    pub attempts: u32,
}

impl From<&EffectLine> for EffectLineView {
    fn from(line: &EffectLine) -> Self {
        let EffectLine { name, class, outcome, attempts } = line;
        Self { name: name.clone(), class: class.as_str(), outcome: outcome.as_str(), attempts: *attempts }
    }
}

impl<'a> From<&'a HistoryEntry> for EntryView<'a> {
    fn from(HistoryEntry { revision, at, entry }: &'a HistoryEntry) -> Self {
        Self {
            revision: revision.0,
            at: At(*at),
            step: Cow::Borrowed(&entry.step),
            what: entry.kind.as_str(),
            took_ms: entry.took,
            failed_attempts: entry.more.failed_attempts,
            effects: entry.more.effects.iter().map(EffectLineView::from).collect(),
            note: entry.more.note.as_deref().map(Cow::Borrowed),
        }
    }
}

impl EntryView<'_> {
    /// The same, of its own: it borrows nothing.
    pub fn into_owned(self) -> EntryView<'static> {
        let Self { revision, at, step, what, took_ms, failed_attempts, effects, note } = self;
        let (step, note) = (Cow::Owned(step.into_owned()), note.map(|note| Cow::Owned(note.into_owned())));
        EntryView { revision, at, step, what, took_ms, failed_attempts, effects, note }
    }
}
