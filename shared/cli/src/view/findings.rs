//! What `doctor` has found.

use std::fmt;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::BOLD;

/// How something stands, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(not(feature = "aws"), allow(dead_code, reason = "in a folder everything can be seen"))]
pub(crate) enum Standing {
    Ok,
    Unknown,
    Warn,
    Fail,
}

/// Something that was looked at.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: String,
    pub(crate) status: Standing,
    pub(crate) found: String,
    /// What to do about it.
    pub(crate) mend: Option<String>,
}

/// All of them, and the worst of them first.
#[derive(Debug, Serialize)]
pub(crate) struct FindingsView {
    pub(crate) status: Standing,
    findings: Vec<Finding>,
}

impl Finding {
    pub(crate) fn new(check: &str, status: Standing, found: String, mend: impl Into<String>) -> Self {
        Self { check: check.to_owned(), status, found, mend: Some(mend.into()) }
    }

    pub(crate) fn ok(check: &str, found: String) -> Self {
        Self { check: check.to_owned(), status: Standing::Ok, found, mend: None }
    }
}

impl From<Vec<Finding>> for FindingsView {
    fn from(findings: Vec<Finding>) -> Self {
        let worst = findings.iter().map(|finding| finding.status).max();
        Self { status: worst.unwrap_or(Standing::Ok), findings }
    }
}

impl Standing {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }

    const fn style(self) -> Style {
        match self {
            Self::Ok => AnsiColor::Green.on_default(),
            Self::Unknown => AnsiColor::Cyan.on_default(),
            Self::Warn => AnsiColor::Yellow.on_default(),
            Self::Fail => AnsiColor::Red.on_default().bold(),
        }
    }
}

impl fmt::Display for FindingsView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = self.findings.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
        for Finding { check, status, found, mend } in &self.findings {
            let style = status.style();
            writeln!(f, "{style}{:<7}{style:#}  {BOLD}{check:<widest$}{BOLD:#}  {found}", status.word())?;
            if let Some(mend) = mend {
                writeln!(f, "{:widest$}           -> {mend}", "")?;
            }
        }
        let number = |standing| self.findings.iter().filter(|finding| finding.status == standing).count();
        let [fail, warn, unknown, ok] = [Standing::Fail, Standing::Warn, Standing::Unknown, Standing::Ok].map(number);
        write!(f, "{fail} to mend, {warn} to think about, {unknown} not seen, {ok} as they should be")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_is_the_verdict_and_each_that_is_not_well_says_what_to_do() {
        let findings = |standings: &[Standing]| -> FindingsView {
            let one = |status: &Standing| {
                Finding { mend: Some("mend it".into()), ..Finding::ok("x", "y".into()) }.with(*status)
            };
            standings.iter().map(one).collect::<Vec<_>>().into()
        };
        assert_eq!(findings(&[]).status, Standing::Ok);
        assert_eq!(findings(&[Standing::Warn, Standing::Unknown, Standing::Ok]).status, Standing::Warn);
        let all = findings(&[Standing::Ok, Standing::Fail, Standing::Warn, Standing::Unknown]);
        assert_eq!(all.status, Standing::Fail);
        let text = all.to_string();
        assert!(text.contains("-> mend it"), "{text}");
        assert!(text.ends_with("1 to mend, 1 to think about, 1 not seen, 1 as they should be"), "{text}");
    }

    impl Finding {
        fn with(self, status: Standing) -> Self {
            Self { status, ..self }
        }
    }
}
