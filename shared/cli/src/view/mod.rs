//! What is shown for people (`Display`). As JSON it is shown by [`stepwell_http::view`], in the words of the API.

mod approval;
mod audit;
mod budget;
mod contents;
mod differences;
mod effect;
mod findings;
mod harmless;
mod history;
mod list;
mod next;
mod run;
mod undo;
mod unknown;

use std::fmt;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use stepwell_core::Phase;
use stepwell_http::view::Value;

pub(crate) use approval::{ShownApprovals, escalates};
pub(crate) use audit::AuditView;
pub(crate) use budget::unit;
pub(crate) use contents::write_tree;
pub(crate) use differences::differences;
pub(crate) use findings::{Finding, FindingsView, Standing};
pub(crate) use harmless::harmless;
pub(crate) use history::live;
pub(crate) use next::next_commands;
pub(crate) use run::ShownRun;
pub(crate) use unknown::ShownUnknowns;
#[cfg(test)]
pub(crate) use unknown::tests as unknown_tests;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

/// Characters of a value that people are shown.
const VALUE_CHARS_SHOWN: usize = 400;

/// What people are shown of something. As JSON it is what it is.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct Text<'a, T>(pub(crate) &'a T);

/// The same, for what names a command to go on with.
#[derive(Serialize)]
#[serde(transparent)]
pub(crate) struct Here<T> {
    pub(crate) view: T,
    /// What that command needs, to mean this place.
    #[serde(skip)]
    pub(crate) flag: &'static str,
}

impl fmt::Display for Text<'_, Value> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            Value::Here(json) => json.text(),
            Value::Apart { stored_apart } => return write!(f, "stored apart, {}", Bytes(*stored_apart)),
            Value::Lost { unreadable } => return write!(f, "cannot be read: {}", harmless(unreadable)),
        };
        match text.char_indices().nth(VALUE_CHARS_SHOWN) {
            Some((end, _)) => {
                write!(f, "{}… ({} bytes, all of it with --json)", harmless(&text[..end]), text.len())
            }
            None => write!(f, "{}", harmless(text)),
        }
    }
}

/// A phase in its colour, padded to a column.
pub(crate) struct Coloured(pub(crate) Phase);

impl fmt::Display for Coloured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colour = match self.0 {
            Phase::Completed => AnsiColor::Green,
            Phase::Failed => AnsiColor::Red,
            Phase::Parked | Phase::Retrying | Phase::Cancelling => AnsiColor::Yellow,
            Phase::Cancelled => AnsiColor::Magenta,
            Phase::Created | Phase::Running | Phase::Waiting => AnsiColor::Cyan,
        };
        let style = colour.on_default();
        f.write_str(&style.render().to_string())?;
        fmt::Display::fmt(&self.0, f)?;
        write!(f, "{style:#}")
    }
}

/// One line: a label, and what it labels.
pub(crate) fn line(f: &mut fmt::Formatter<'_>, label: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(f, "{BOLD}{label:<11}{BOLD:#} {value}")
}

/// A number of bytes, for people.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes @ 0..1_000 => write!(f, "{bytes} bytes"),
            bytes @ 1_000..1_000_000 => write!(f, "{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
            bytes => write!(f, "{}.{} MB", bytes / 1_000_000, bytes % 1_000_000 / 100_000),
        }
    }
}

/// "1 step", "2 steps".
pub(crate) fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use stepwell_core::Json;

    use super::*;

    #[test]
    fn a_long_value_is_cut_at_a_character_and_says_so() {
        let long = Json::of(&"ü".repeat(1_000)).unwrap();
        let text = Text(&Value::Here(long)).to_string();
        assert!(text.starts_with("\"üü") && text.ends_with("ü… (2002 bytes, all of it with --json)"), "{text}");
        assert_eq!(Text(&Value::Here(Json::of(&[1]).unwrap())).to_string(), "[1]");
        assert_eq!(Text(&Value::Apart { stored_apart: 2_500_000 }).to_string(), "stored apart, 2.5 MB");
    }

    #[test]
    fn numbers_read_well() {
        let bytes: Vec<String> = [999, 1_000, 12_345, 2_500_000].map(|bytes| Bytes(bytes).to_string()).into();
        assert_eq!(bytes, ["999 bytes", "1.0 kB", "12.3 kB", "2.5 MB"]);
        assert_eq!((count(1, "step"), count(0, "step")), ("1 step".into(), "0 steps".into()));
    }
}
