//! History, an entry a line.

use std::fmt;

use serde::Serialize;
use stepwell_core::history::{EffectLine, EntryKind, LineOutcome};
use stepwell_engine::HistoryEntry;

use super::{At, BOLD, DIM, count};

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
        // An intent comes before its call, and what a person says of an effect stands in the note.
        let bare = *what == EntryKind::Intended.as_str() || *what == EntryKind::Resolved.as_str();
        for effect in effects {
            if bare { write!(f, "  {} ({})", effect.name, effect.class)? } else { write!(f, "  {effect}")? }
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

impl EffectLineView {
    /// As a certificate says it.
    pub(super) fn uncertain(&self) -> impl fmt::Display {
        let Self { name, class, attempts, .. } = self;
        fmt::from_fn(move |f| write!(f, "{name} ({class}), {}, may have happened", count(u64::from(*attempts), "call")))
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

#[cfg(test)]
mod tests {
    use stepwell_core::history::{Entry, More};
    use stepwell_core::{Class, Revision, Timestamp};

    use super::*;

    fn told(kind: EntryKind, outcome: LineOutcome, note: Option<&str>) -> String {
        let pay = EffectLine { name: "pay".into(), class: Class::Once, outcome, attempts: 2 };
        let more = More { failed_attempts: 0, effects: vec![pay], note: note.map(Into::into) };
        let entry = Entry { step: "Pay".into(), kind, at: 0, took: 0, more };
        let text = EntryView::from(&HistoryEntry { revision: Revision(3), at: Timestamp(0), entry }).to_string();
        anstream::adapter::strip_str(&text).to_string()
    }

    #[test]
    fn an_intent_has_no_outcome_and_a_resolution_tells_who_and_why() {
        let intended = told(EntryKind::Intended, LineOutcome::Unknown, None);
        assert!(intended.contains("Pay            intended ") && intended.ends_with(" ms  pay (once)"), "{intended}");
        let resolved = told(EntryKind::Resolved, LineOutcome::Failed, Some("failed by ada: the bank has called"));
        assert!(resolved.ends_with("ms  pay (once)  failed by ada: the bank has called"), "{resolved}");
        let stepped = told(EntryKind::Stepped, LineOutcome::Unknown, None);
        assert!(stepped.ends_with("ms  pay (once) unknown, 2 calls"), "{stepped}");
    }

    #[test]
    fn a_certificate_does_not_guess() {
        let line = EffectLine { name: "pay".into(), class: Class::Once, outcome: LineOutcome::Unknown, attempts: 1 };
        assert_eq!(EffectLineView::from(&line).uncertain().to_string(), "pay (once), 1 call, may have happened");
    }
}
