//! `stepwell list`: runs, newest first, a page at a time.

use stepwell::Registry;
use stepwell_http::view::PageView;
use stepwell_ports::ListQuery;

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::{Output, say};
use crate::view::Text;

pub(super) async fn run(cli: &Cli, args: &args::List, out: Output) -> Result<Exit, CliError> {
    let args::List { workflow, status, from, before, limit, after } = args;
    let query = ListQuery {
        workflow: workflow.clone(),
        phase: *status,
        started_from: *from,
        started_before: *before,
        limit: *limit,
        after: after.clone(),
    };
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    let page = PageView::from(client.list(&query).await?);
    if page.runs.is_empty() && !out.is_json() {
        say("no runs");
        return Ok(Exit::Done);
    }
    out.data(&Text(&page))?;
    if let Some(next) = &page.next {
        say(format_args!("there are more: --after {next}"));
    }
    Ok(Exit::Done)
}
