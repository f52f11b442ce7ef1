//! History, an entry a line.

use std::fmt;

use stepwell_core::history::{EntryKind, LineOutcome};
use stepwell_http::view::{EffectLineView, EntryView};

use super::{BOLD, DIM, Text, harmless};

impl fmt::Display for Text<'_, EntryView<'_>> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4}  {DIM}{}{DIM:#}  ", self.0.revision, self.0.at)?;
        write_rest(f, self.0)
    }
}

/// An entry without its time, for whoever watches it happen.
pub(crate) fn live(entry: &EntryView<'_>) -> impl fmt::Display {
    fmt::from_fn(|f| {
        write!(f, "{:>4}  ", entry.revision)?;
        write_rest(f, entry)
    })
}

fn write_rest(f: &mut fmt::Formatter<'_>, entry: &EntryView<'_>) -> fmt::Result {
    let EntryView { step, what, took_ms, failed_attempts, effects, note, .. } = entry;
    let step = harmless(step).to_string();
    write!(f, "{BOLD}{step:<14}{BOLD:#} {what:<9} {took_ms:>6} ms")?;
    // Data that this code cannot read is no failed attempt of the step: the note says what it is.
    if *what == EntryKind::Retried.as_str() && *failed_attempts > 0 {
        write!(f, "  after attempt {failed_attempts}")?;
    }
    // An intent comes before its call, and what a person says of an effect stands in the note.
    let bare = *what == EntryKind::Intended.as_str() || *what == EntryKind::Resolved.as_str();
    for effect in effects {
        if bare {
            write!(f, "  {} ({})", harmless(&effect.name), effect.class)?;
        } else {
            write!(f, "  {}", Text(effect))?;
        }
    }
    note.iter().try_for_each(|note| write!(f, "  {}", harmless(note)))
}

impl fmt::Display for Text<'_, EffectLineView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EffectLineView { name, class, outcome, attempts } = self.0;
        write!(f, "{} ({class})", harmless(name))?;
        if *outcome != LineOutcome::Succeeded.as_str() {
            write!(f, " {outcome}")?;
        }
        if *attempts > 1 { write!(f, ", {attempts} calls") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use stepwell_core::history::{EffectLine, Entry, More};
    use stepwell_core::{Class, Revision, Timestamp};
    use stepwell_engine::HistoryEntry;

    use super::*;

    fn told(kind: EntryKind, outcome: LineOutcome, note: Option<&str>) -> String {
        let pay = EffectLine { name: "pay".into(), class: Class::Once, outcome, attempts: 2 };
        let more = More { effects: vec![pay], note: note.map(Into::into), ..More::default() };
        let entry = Entry { step: "Pay".into(), kind, at: 0, took: 0, more };
        let entry = HistoryEntry { revision: Revision(3), at: Timestamp(0), entry };
        let text = Text(&EntryView::from(&entry)).to_string();
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
}
