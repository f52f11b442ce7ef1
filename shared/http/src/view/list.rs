//! Runs, newest first, a page at a time.

use serde::Serialize;
use stepwell_core::{Phase, RunId, WorkflowName};
use stepwell_ports::{Page, RunSummary};
use utoipa::ToSchema;

use super::At;
use crate::schema;

/// A page of runs.
#[derive(Debug, Serialize, ToSchema)]
pub struct PageView {
    /// The runs.
    pub runs: Vec<SummaryView>,
    /// Where the next page begins, if there is one.
    #[schema(required = true)]
    pub next: Option<String>,
}

/// A run in a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct SummaryView {
    /// Which it is.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// Its workflow.
    #[schema(value_type = schema::WorkflowName)]
    pub workflow: WorkflowName,
    /// Where it stands.
    #[schema(value_type = schema::Phase)]
    pub status: Phase,
    /// When it was started.
    pub started_at: At,
    /// When it goes on by itself, if it waits for a time.
    #[schema(required = true)]
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
