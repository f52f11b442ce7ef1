//! What is shown, as JSON (`Serialize`) and for people (`Display`).

mod contents;
mod findings;
mod history;
mod run;
mod unknown;

use std::fmt;

use anstyle::{AnsiColor, Style};
use serde::{Serialize, Serializer};
use stepwell_core::{Json, Payload, Phase, Timestamp};
use stepwell_engine::Client;

pub(crate) use contents::Contents;
pub(crate) use findings::{Finding, FindingsView, Standing};
pub(crate) use history::EntryView;
pub(crate) use run::RunView;
#[cfg(test)]
pub(crate) use unknown::tests as unknown_tests;
pub(crate) use unknown::{UnknownView, UnknownsView};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

/// Characters of a value that people are shown.
const VALUE_CHARS_SHOWN: usize = 400;

/// A point in time, in RFC 3339.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At(pub(crate) Timestamp);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = i64::try_from(self.0.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        match time {
            Some(time) => f.pad(&format!("{time:.3}")),
            // After the year 9999.
            None => f.pad(&self.0.to_string()),
        }
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A stored value, or why it cannot be read: the rest is shown all the same.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Here(Json),
    Lost { unreadable: String },
}

impl Value {
    pub(crate) async fn load(client: &Client, payload: &Payload) -> Self {
        match client.value(payload).await {
            Ok(json) => Self::Here(json),
            Err(error) => Self::Lost { unreadable: error.to_string() },
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Here(json) => json.text(),
            Self::Lost { unreadable } => return write!(f, "cannot be read: {unreadable}"),
        };
        match text.char_indices().nth(VALUE_CHARS_SHOWN) {
            Some((end, _)) => write!(f, "{}… ({} bytes, all of it with --json)", &text[..end], text.len()),
            None => f.write_str(text),
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
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(At(Timestamp(1_700_000_000_123)).to_string(), "2023-11-14T22:13:20.123Z");
        assert_eq!(At(Timestamp(u64::MAX)).to_string(), format!("{} ms", u64::MAX));
    }

    #[test]
    fn a_long_value_is_cut_at_a_character_and_says_so() {
        let long = Json::of(&"ü".repeat(1_000)).unwrap();
        let text = Value::Here(long).to_string();
        assert!(text.starts_with("\"üü") && text.ends_with("ü… (2002 bytes, all of it with --json)"), "{text}");
        assert_eq!(Value::Here(Json::of(&[1]).unwrap()).to_string(), "[1]");
    }

    #[test]
    fn numbers_read_well() {
        let bytes: Vec<String> = [999, 1_000, 12_345, 2_500_000].map(|bytes| Bytes(bytes).to_string()).into();
        assert_eq!(bytes, ["999 bytes", "1.0 kB", "12.3 kB", "2.5 MB"]);
        assert_eq!((count(1, "step"), count(0, "step")), ("1 step".into(), "0 steps".into()));
    }
}
