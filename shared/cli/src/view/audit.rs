//! What an audit has found.

use std::collections::BTreeMap;
use std::fmt;

use anstyle::AnsiColor;
use serde::Serialize;
use stepwell_core::RunId;
use stepwell_engine::{AuditPage, Found};

use super::{BOLD, count, harmless};

/// Findings that are shown; the others are counted.
const SHOWN_MAX: usize = 1_000;

/// Figures, and what is wrong.
#[derive(Debug, Default, Serialize)]
pub(crate) struct AuditView {
    pub(crate) runs: u64,
    /// Those that have not ended.
    live: u64,
    /// By what wakes them next.
    wake: BTreeMap<&'static str, u64>,
    /// Effects that may have happened and are not settled.
    unknowns: u64,
    /// Blobs that were read.
    blobs: u64,
    /// How many findings there are.
    pub(crate) found: u64,
    findings: Vec<FindingView>,
}

#[derive(Debug, Serialize)]
struct FindingView {
    run: RunId,
    invariant: u8,
    code: &'static str,
    what: String,
    remedy: &'static str,
}

impl AuditView {
    pub(crate) fn add(&mut self, page: AuditPage) {
        let AuditPage { runs, live, wake, unknowns, blobs, findings, next: _ } = page;
        self.runs += runs;
        self.live += live;
        for (source, runs) in wake {
            *self.wake.entry(source.as_str()).or_default() += runs;
        }
        self.unknowns += unknowns;
        self.blobs += blobs;
        self.found += findings.len() as u64;
        let room = SHOWN_MAX.saturating_sub(self.findings.len());
        self.findings.extend(findings.into_iter().take(room).map(FindingView::from));
    }
}

impl From<Found> for FindingView {
    fn from(Found { run, finding }: Found) -> Self {
        let (invariant, code, remedy) = (finding.invariant(), finding.code(), finding.remedy());
        Self { run, invariant, code, what: finding.to_string(), remedy }
    }
}

impl fmt::Display for AuditView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, live, wake, unknowns, blobs, found, findings } = self;
        if !findings.is_empty() {
            let widest = |width: fn(&FindingView) -> usize| findings.iter().map(width).max().unwrap_or(0).max(4);
            let (run, code) = (widest(|row| row.run.as_str().len()), widest(|row| row.code.len()));
            writeln!(f, "{BOLD}{:<run$}  INVARIANT  {:<code$}  WHAT{BOLD:#}", "RUN", "CODE")?;
            let red = AnsiColor::Red.on_default();
            for row in findings {
                let FindingView { run: id, invariant, code: word, what, remedy } = row;
                writeln!(f, "{id:<run$}  {invariant:<9}  {red}{word:<code$}{red:#}  {}", harmless(what))?;
                writeln!(f, "{:run$}             {:code$}  -> {remedy}", "", "")?;
            }
            let more = found.saturating_sub(findings.len() as u64);
            if more > 0 {
                writeln!(f, "and {more} more")?;
            }
            writeln!(f)?;
        }
        let sources: Vec<String> = wake.iter().map(|(source, runs)| format!("{source} {runs}")).collect();
        let by = if sources.is_empty() { String::new() } else { format!(" (woken by: {})", sources.join(", ")) };
        let blobs = count(*blobs, "blob");
        let (runs, unknowns) = (count(*runs, "run"), count(*unknowns, "effect"));
        writeln!(f, "{runs}, {live} not ended{by}; {blobs} read, {unknowns} in doubt")?;
        match found {
            0 => write!(f, "nothing is wrong"),
            _ => write!(f, "{BOLD}{}{BOLD:#}", count(*found, "finding")),
        }
    }
}

#[cfg(test)]
mod tests {
    use stepwell_core::Phase;
    use stepwell_core::audit::{Finding, WakeSource};

    use super::*;

    fn page(findings: usize) -> AuditPage {
        let run = RunId::new("order-7").unwrap();
        let found = Found { run, finding: Finding::NoWakeSource { phase: Phase::Waiting } };
        let wake = BTreeMap::from([(WakeSource::Timer, 2), (WakeSource::Person, 1)]);
        AuditPage { runs: 5, live: 4, wake, unknowns: 1, blobs: 1, findings: vec![found; findings], next: None }
    }

    #[test]
    fn a_finding_says_where_what_and_what_to_do() {
        let mut view = AuditView::default();
        view.add(page(0));
        let words =
            "5 runs, 4 not ended (woken by: person 1, timer 2); 1 blob read, 1 effect in doubt\nnothing is wrong";
        assert_eq!(view.to_string(), words);
        view.add(page(1));
        let text = anstream::adapter::strip_str(&view.to_string()).to_string();
        let row = "order-7  10         no-wake-source  it is waiting, and nothing wakes it\n";
        assert!(text.contains(row) && text.contains("-> pause the run and resume it"), "{text}");
        assert!(
            text.ends_with(
                "10 runs, 8 not ended (woken by: person 2, timer 4); 2 blobs read, 2 effects in doubt\n1 finding"
            ),
            "{text}"
        );
    }

    #[test]
    fn what_comes_from_a_run_does_not_steer_the_terminal_and_more_than_a_thousand_are_counted() {
        let run = RunId::new("r").unwrap();
        let finding = Finding::Unreadable { what: "\u{1b}[2J".into() };
        let mut view = AuditView::default();
        view.add(AuditPage { findings: vec![Found { run, finding }], ..page(0) });
        assert!(view.to_string().contains("it cannot be read: \\u{1b}[2J"), "{view}");
        view.add(page(SHOWN_MAX + 5));
        assert!(view.to_string().contains("and 6 more\n"), "{view}");
        assert_eq!((view.found, view.findings.len()), (1_006, SHOWN_MAX));
    }
}
