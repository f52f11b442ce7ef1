//! Runs, newest first, a page at a time.

use serde::Serialize;
use stepwell_core::{Phase, RunId, WorkflowName};
use stepwell_ports::{Page, RunSummary};

use super::At;

/// A page of runs.
#[derive(Debug, Serialize)]
pub struct PageView {
    /// The runs.
    pub runs: Vec<SummaryView>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// A run in a list.
#[derive(Debug, Serialize)]
pub struct SummaryView {
    /// Which it is.
    pub run: RunId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// Where it stands.
    pub status: Phase,
    /// When it was started.
    pub started_at: At,
    /// When it goes on by itself, if it waits for a time.
    pub wakes_at: Option<At>,
}

impl From<Page<RunSummary>> for PageView {
    fn from(page: Page<RunSummary>) -> Self {
        let view = |RunSummary { run, workflow, phase, started_at, wakes_at }| SummaryView {
            run,
            workflow,
            status: phase,
            started_at: At(started_at),
            wakes_at: wakes_at.map(At),
        };
        Self { runs: page.items.into_iter().map(view).collect(), next: page.next }
    }
}
