//! Figures of suites and benchmarks.
//!
//! What lives here: [`Report`], which counts what passed and failed, keeps named figures, prints them as a table for
//! people and writes them as JSON for machines; [`Table`], which lines columns up; and the program `suite`, which runs
//! a test command and reports its counts.
//!
//! What must not: anything that knows Stepwell. A suite measures; this crate only says what was measured.

mod figure;
mod table;

pub use figure::{Figure, Value};
pub use table::Table;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde::Serialize;

/// What one suite or benchmark found out.
///
/// ```
/// let mut report = stepwell_report::Report::new("growth");
/// report.check("history stays in order", true);
/// report.figure("steps per second", 5_400_u32).unit("/s").at_least(1_000.0);
/// report.figure("backend", "sqlite");
/// assert_eq!(report.summary(), "1 passed, 0 failed");
/// ```
#[derive(Debug)]
pub struct Report {
    suite: String,
    passed: u64,
    failed: u64,
    failures: Vec<String>,
    figures: Vec<Figure>,
}

impl Report {
    /// An empty report. `suite` names the file it is written to.
    pub fn new(suite: &str) -> Self {
        Self { suite: suite.to_owned(), passed: 0, failed: 0, failures: Vec::new(), figures: Vec::new() }
    }

    /// Counts one check, and keeps its name if it failed.
    pub fn check(&mut self, name: &str, ok: bool) {
        if ok {
            self.passed += 1;
        } else {
            self.fail(name);
        }
    }

    /// Counts `count` checks that passed.
    pub fn pass(&mut self, count: u64) {
        self.passed += count;
    }

    /// Counts one failure; `what` is printed above the last line.
    pub fn fail(&mut self, what: impl Into<String>) {
        self.failed += 1;
        self.failures.push(what.into());
    }

    /// Adds a figure; one of the same name is replaced. The answer takes its unit and its aim.
    pub fn figure(&mut self, name: &str, value: impl Into<Value>) -> &mut Figure {
        self.figures.retain(|figure| figure.name != name);
        self.figures.push_mut(Figure::new(name, value.into()))
    }

    /// Whether nothing failed.
    ///
    /// A missed aim is not a failure: it says what a quieter or faster machine should reach. Pass a bound that must hold
    /// anywhere to [`Report::check`].
    pub fn ok(&self) -> bool {
        self.failed == 0
    }

    /// The counts as one line, `N passed, M failed`.
    pub fn summary(&self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }

    /// Prints the report on stdout (figures, failures, and [`Report::summary`] as the last line) and writes it as
    /// `target/reports/<suite>.json`. The answer is [`Report::ok`].
    ///
    /// # Errors
    /// Where stdout is closed, or the target folder cannot be found or written.
    pub fn finish(&self) -> io::Result<bool> {
        self.write_to(&reports_dir()?)?;
        self.print_to(&mut io::stdout().lock())?;
        Ok(self.ok())
    }

    /// Writes the JSON form into `dir`, which is created if missing.
    ///
    /// # Errors
    /// Where the folder or the file cannot be written.
    pub fn write_to(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)?;
        let figures = self.figures.iter().map(|figure| (figure.name.as_str(), &figure.value)).collect();
        let written = Written { suite: &self.suite, passed: self.passed, failed: self.failed, figures };
        let json = serde_json::to_string_pretty(&written).map_err(io::Error::other)?;
        fs::write(dir.join(file_name(&self.suite)), json + "\n")
    }

    /// Prints what [`Report::finish`] prints.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn print_to(&self, out: &mut impl Write) -> io::Result<()> {
        if !self.figures.is_empty() {
            let mut table = Table::new(&["figure", "value", "unit", "aim"]);
            for figure in &self.figures {
                table.row(&[&figure.name, &figure.value.to_string(), &figure.unit, &figure.verdict()]);
            }
            writeln!(out, "\n{table}")?;
        }
        for failure in &self.failures {
            writeln!(out, "failed: {failure}")?;
        }
        writeln!(out, "{}", self.summary())
    }
}

/// Where reports are written: `reports` in the target folder, which is `CARGO_TARGET_DIR` or else `target` in the
/// workspace's root, found by walking up from the current folder.
///
/// # Errors
/// Where no folder above holds a `Cargo.toml` with a `[workspace]`.
pub fn reports_dir() -> io::Result<PathBuf> {
    let here = env::current_dir()?;
    let root = here.ancestors().find(|dir| is_workspace(dir)).ok_or_else(|| {
        io::Error::other(format!("no workspace in or above {}: run this inside the repository", here.display()))
    })?;
    let target = env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty());
    Ok(root.join(target.unwrap_or_else(|| "target".into())).join("reports"))
}

/// The file a suite's report is written to: its name, safe as a file's name.
pub fn file_name(suite: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    suite.chars().map(safe).collect::<String>() + ".json"
}

#[derive(Serialize)]
struct Written<'a> {
    suite: &'a str,
    passed: u64,
    failed: u64,
    figures: BTreeMap<&'a str, &'a Value>,
}

fn is_workspace(dir: &Path) -> bool {
    fs::read_to_string(dir.join("Cargo.toml")).is_ok_and(|text| text.lines().any(|line| line.trim() == "[workspace]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Report {
        let mut report = Report::new("sample");
        report.pass(2);
        report.check("holds", true);
        report.check("breaks", false);
        report.figure("speed", 5_400_u32).unit("/s").at_least(1_000.0);
        report.figure("memory", 12.345).unit("MiB").at_most(10.0);
        report.figure("backend", "sqlite");
        report
    }

    #[test]
    fn people_read_a_table_and_the_counts_come_last() {
        let mut out = Vec::new();
        sample().print_to(&mut out).unwrap();
        let expected = "\n\
            figure    value  unit  aim\n\
            speed      5400  /s    at least 1000: met\n\
            memory   12.345  MiB   at most 10: missed\n\
            backend  sqlite\n\
            \n\
            failed: breaks\n\
            3 passed, 1 failed\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn machines_read_json() {
        let dir = env::temp_dir().join(format!("stepwell-report-{}", std::process::id()));
        sample().write_to(&dir).unwrap();
        let text = fs::read_to_string(dir.join("sample.json")).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({
            "suite": "sample", "passed": 3, "failed": 1,
            "figures": { "speed": 5400, "memory": 12.345, "backend": "sqlite" },
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn a_missed_aim_is_not_a_failure() {
        let mut report = Report::new("aims");
        report.figure("latency", 9.0).unit("ms").at_most(1.0);
        assert!(report.ok());
        report.check("bound", false);
        assert!(!report.ok());
    }

    #[test]
    fn a_figure_named_twice_keeps_the_later_value() {
        let mut report = Report::new("twice");
        report.figure("steps", 1_u32);
        report.figure("steps", 2_u32);
        let mut out = Vec::new();
        report.print_to(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap().matches("steps").count(), 1);
    }

    #[test]
    fn a_suite_cannot_write_outside_its_folder() {
        assert_eq!(file_name("../up/and away"), "---up-and-away.json");
    }
}
