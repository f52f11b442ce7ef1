//! What has happened to a run, a commit an entry.

use serde::Serialize;
use stepwell_core::history::EffectLine;
use stepwell_core::{Json, RunId};
use stepwell_engine::HistoryEntry;

use super::At;

/// Some of a history, and from which revision it goes on.
#[derive(Serialize)]
pub(crate) struct HistoryView {
    pub(crate) run: RunId,
    /// Each an [`EntryView`], written already: its length decides how many there are.
    pub(crate) history: Vec<Json>,
    pub(crate) next: Option<u64>,
}

#[derive(Serialize)]
pub(crate) struct EntryView<'a> {
    revision: u64,
    at: At,
    step: &'a str,
    what: &'static str,
    took_ms: u64,
    failed_attempts: u32,
    effects: Vec<EffectLineView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

/// An effect as the history knows it.
#[derive(Serialize)]
pub(crate) struct EffectLineView {
    name: String,
    class: &'static str,
    outcome: &'static str,
    attempts: u32,
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
            step: &entry.step,
            what: entry.kind.as_str(),
            took_ms: entry.took,
            failed_attempts: entry.more.failed_attempts,
            effects: entry.more.effects.iter().map(EffectLineView::from).collect(),
            note: entry.more.note.as_deref(),
        }
    }
}
