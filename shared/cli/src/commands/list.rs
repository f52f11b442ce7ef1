//! `stepwell list`: runs, newest first, a page at a time.

use std::fmt;

use serde::Serialize;
use stepwell::Registry;
use stepwell_core::{Phase, RunId, WorkflowName};
use stepwell_ports::{ListQuery, Page, RunSummary};

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::{Output, say};
use crate::view::{At, BOLD, Coloured};

#[derive(Serialize)]
struct PageView {
    runs: Vec<SummaryView>,
    next: Option<String>,
}

#[derive(Serialize)]
struct SummaryView {
    run: RunId,
    workflow: WorkflowName,
    status: Phase,
    started_at: At,
    wakes_at: Option<At>,
}

pub(super) async fn run(cli: &Cli, args: &args::List, out: Output) -> Result<Exit, CliError> {
    let args::List { workflow, status, limit, after } = args;
    let query = ListQuery { workflow: workflow.clone(), phase: *status, limit: *limit, after: after.clone() };
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    let page = PageView::from(client.list(&query).await?);
    if page.runs.is_empty() && !out.is_json() {
        say("no runs");
        return Ok(Exit::Done);
    }
    out.data(&page)?;
    if let Some(next) = &page.next {
        say(format_args!("there are more: --after {next}"));
    }
    Ok(Exit::Done)
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

impl fmt::Display for PageView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widest = |width: fn(&SummaryView) -> usize| self.runs.iter().map(width).max().unwrap_or(0).max(8);
        let (run, workflow) = (widest(|row| row.run.as_str().len()), widest(|row| row.workflow.as_str().len()));
        write!(
            f,
            "{BOLD}{:<run$}  {:<workflow$}  {:<10}  {:<24}  WAKES{BOLD:#}",
            "RUN", "WORKFLOW", "STATUS", "STARTED"
        )?;
        for row in &self.runs {
            let status = Coloured(row.status);
            write!(f, "\n{:<run$}  {:<workflow$}  {status:<10}  {:<24}", row.run, row.workflow, row.started_at)?;
            row.wakes_at.iter().try_for_each(|at| write!(f, "  {at}"))?;
        }
        Ok(())
    }
}
