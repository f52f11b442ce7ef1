//! Runs, a line each.

use std::fmt;

use stepwell_http::view::{PageView, SummaryView};

use super::{BOLD, Coloured, Text};

impl fmt::Display for Text<'_, PageView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PageView { runs, .. } = self.0;
        let widest = |width: fn(&SummaryView) -> usize| runs.iter().map(width).max().unwrap_or(0).max(8);
        let (run, workflow) = (widest(|row| row.run.as_str().len()), widest(|row| row.workflow.as_str().len()));
        write!(
            f,
            "{BOLD}{:<run$}  {:<workflow$}  {:<10}  {:<24}  WAKES{BOLD:#}",
            "RUN", "WORKFLOW", "STATUS", "STARTED"
        )?;
        for row in runs {
            let status = Coloured(row.status);
            write!(f, "\n{:<run$}  {:<workflow$}  {status:<10}  {:<24}", row.run, row.workflow, row.started_at)?;
            row.wakes_at.iter().try_for_each(|at| write!(f, "  {at}"))?;
        }
        Ok(())
    }
}
