use std::fmt;

use serde::Serialize;
use serde_json::Number;

/// A figure's value: a number, or words such as a backend's name.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A finite number.
    Number(Number),
    /// Words; also what an infinite number, or one that is not a number, is told as.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => f.write_str(&plain(number)),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Number::from_f64(number).map_or_else(|| Self::Text(number.to_string()), Self::Number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(number.into())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Number(number.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// One figure of a report; see [`Report::figure`](crate::Report::figure).
#[derive(Debug)]
pub struct Figure {
    pub(crate) name: String,
    pub(crate) value: Value,
    pub(crate) unit: String,
    aim: Option<Aim>,
}

#[derive(Debug, Clone, Copy)]
enum Aim {
    AtLeast(f64),
    AtMost(f64),
}

impl Figure {
    pub(crate) fn new(name: &str, value: Value) -> Self {
        Self { name: name.to_owned(), value, unit: String::new(), aim: None }
    }

    /// What the number counts: `ms`, `/s`, `MiB`.
    pub fn unit(&mut self, unit: &str) -> &mut Self {
        unit.clone_into(&mut self.unit);
        self
    }

    /// The figure should be this or more.
    pub fn at_least(&mut self, bound: f64) -> &mut Self {
        self.aim = Some(Aim::AtLeast(bound));
        self
    }

    /// The figure should be this or less.
    pub fn at_most(&mut self, bound: f64) -> &mut Self {
        self.aim = Some(Aim::AtMost(bound));
        self
    }

    /// Whether the figure reaches its aim; `None` where it has none. Words reach no aim.
    pub fn met(&self) -> Option<bool> {
        let number = match &self.value {
            Value::Number(number) => number.as_f64(),
            Value::Text(_) => None,
        };
        self.aim.map(|aim| {
            number.is_some_and(|number| match aim {
                Aim::AtLeast(bound) => number >= bound,
                Aim::AtMost(bound) => number <= bound,
            })
        })
    }

    /// The aim in words, and whether it was met; empty where there is none.
    pub(crate) fn verdict(&self) -> String {
        let verdict = if self.met() == Some(true) { "met" } else { "missed" };
        match self.aim {
            None => String::new(),
            Some(Aim::AtLeast(bound)) => format!("at least {bound}: {verdict}"),
            Some(Aim::AtMost(bound)) => format!("at most {bound}: {verdict}"),
        }
    }
}

/// Whole numbers as they are, others with up to three digits behind the point.
fn plain(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => format!("{float:.3}").trim_end_matches('0').trim_end_matches('.').to_owned(),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(value: impl Into<Value>) -> Figure {
        Figure::new("some", value.into())
    }

    #[test]
    fn an_aim_includes_its_bound() {
        assert_eq!(figure(2_u32).at_least(2.0).met(), Some(true));
        assert_eq!(figure(1.999).at_least(2.0).met(), Some(false));
        assert_eq!(figure(2.0).at_most(2.0).met(), Some(true));
        assert_eq!(figure(3_u64).at_most(2.0).met(), Some(false));
        assert_eq!(figure(3_u64).met(), None);
    }

    #[test]
    fn what_is_no_number_meets_no_aim() {
        assert_eq!(figure("fast").at_most(2.0).met(), Some(false));
        assert_eq!(figure(f64::NAN).at_most(2.0).met(), Some(false));
        assert_eq!(Value::from(f64::NAN), Value::from("NaN"));
    }

    #[test]
    fn numbers_are_printed_plainly() {
        let printed = |value: Value| value.to_string();
        assert_eq!(printed(1200.0.into()), "1200");
        assert_eq!(printed(0.12345.into()), "0.123");
        assert_eq!(printed(u64::MAX.into()), "18446744073709551615");
    }
}
