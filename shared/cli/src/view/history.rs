//! History, an entry a line.

use std::fmt;

use serde::Serialize;
use stepwell_core::history::{EffectLine, EntryKind, LineOutcome};
use stepwell_engine::HistoryEntry;

use super::{At, BOLD, DIM};

/// One commit.
#[derive(Debug, Serialize)]
pub(crate) struct EntryView {
    revision: u64,
    at: At,
    step: String,
    what: &'static str,
    took_ms: u64,
    failed_attempts: u32,
    effects: Vec<EffectLineView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// An effect as the history knows it.
#[derive(Debug, Serialize)]
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

impl From<&HistoryEntry> for EntryView {
    fn from(HistoryEntry { revision, at, entry }: &HistoryEntry) -> Self {
        Self {
            revision: revision.0,
            at: At(*at),
            step: entry.step.clone(),
            what: entry.kind.as_str(),
            took_ms: entry.took,
            failed_attempts: entry.more.failed_attempts,
            effects: entry.more.effects.iter().map(EffectLineView::from).collect(),
            note: entry.more.note.clone(),
        }
    }
}

impl EntryView {
    /// Without its time, for whoever watches it happen.
    pub(crate) fn live(&self) -> impl fmt::Display {
        fmt::from_fn(|f| {
            write!(f, "{:>4}  ", self.revision)?;
            self.rest(f)
        })
    }

    fn rest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, what, took_ms, failed_attempts, effects, note, .. } = self;
        write!(f, "{BOLD}{step:<14}{BOLD:#} {what:<9} {took_ms:>6} ms")?;
        // Data that this code cannot read is no failed attempt of the step: the note says what it is.
        if *what == EntryKind::Retried.as_str() && *failed_attempts > 0 {
            write!(f, "  after attempt {failed_attempts}")?;
        }
        for effect in effects {
            write!(f, "  {effect}")?;
        }
        note.iter().try_for_each(|note| write!(f, "  {note}"))
    }
}

impl fmt::Display for EntryView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4}  {DIM}{}{DIM:#}  ", self.revision, self.at)?;
        self.rest(f)
    }
}

impl fmt::Display for EffectLineView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, class, outcome, attempts } = self;
        write!(f, "{name} ({class})")?;
        if *outcome != LineOutcome::Succeeded.as_str() {
            write!(f, " {outcome}")?;
        }
        if *attempts > 1 { write!(f, ", {attempts} calls") } else { Ok(()) }
    }
}
