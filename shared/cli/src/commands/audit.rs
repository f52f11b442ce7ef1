//! `stepwell audit`: holds every run against the invariants of the protocol, and says what is wrong.

use std::time::{Duration, Instant};

use stepwell::Registry;
use stepwell_engine::AuditQuery;

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::{Output, say};
use crate::view::{AuditView, count};

/// Runs of one look.
const RUNS_AT_ONCE: usize = 16;
/// How long nothing is said.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) async fn run(cli: &Cli, args: &args::Audit, out: Output) -> Result<Exit, CliError> {
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    let (workflow, grace) = (args.workflow.clone(), args.grace);
    let mut query = AuditQuery { workflow, grace, limit: RUNS_AT_ONCE, after: None };
    let (mut view, mut said) = (AuditView::default(), Instant::now());
    loop {
        let page = match client.audit(&query).await {
            Ok(page) => page,
            Err(error) => {
                // What was found so far is not to be lost with it.
                if view.runs > 0 {
                    out.data(&view)?;
                }
                return Err(error.into());
            }
        };
        query.after.clone_from(&page.next);
        view.add(page);
        if query.after.is_none() {
            break;
        }
        if said.elapsed() > PATIENCE {
            said = Instant::now();
            say(format_args!("{} audited, {} so far", count(view.runs, "run"), count(view.found, "finding")));
        }
    }
    if let (0, Some(workflow)) = (view.runs, query.workflow) {
        // A name that is wrong must not pass for runs that are well.
        return Err(CliError::NothingAudited(workflow));
    }
    out.data(&view)?;
    Ok(if view.found == 0 { Exit::Done } else { Exit::Broken })
}
