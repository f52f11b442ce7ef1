//! `stepwell unknowns`: effects that may have happened, of one run or of all that have not ended.

use std::collections::BTreeSet;

use stepwell::Registry;
use stepwell_core::RunId;
use stepwell_engine::Client;
use stepwell_http::view::UnknownView;
use stepwell_ports::ListQuery;

use crate::args::{self, Cli};
use crate::backend::{Backend, now};
use crate::errors::{CliError, Exit};
use crate::output::{Output, say};
use crate::view::{ShownUnknowns, count};

/// Runs of one look: they are loaded side by side.
const RUNS_AT_ONCE: usize = 16;

pub(super) async fn run(cli: &Cli, args: &args::Unknowns, out: Output) -> Result<Exit, CliError> {
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    let (unknowns, more) = match &args.run {
        Some(run) => (UnknownView::of(&client.get(run).await?), false),
        None => look(&client, args.limit).await?,
    };
    if unknowns.is_empty() && !out.is_json() {
        say("no effect is open");
    } else {
        out.data(&ShownUnknowns { unknowns, now: now() })?;
    }
    if more {
        let looked_at = count(args.limit as u64, "run");
        say(format_args!("only {looked_at} looked at; there are more: look at more with --limit"));
    }
    Ok(Exit::Done)
}

/// Looks at runs, status by status, and says whether there are more. A run that moves to another status meanwhile may be
/// missed: it is there next time.
async fn look(client: &Client, limit: usize) -> Result<(Vec<UnknownView>, bool), CliError> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for status in UnknownView::STATUSES {
        let mut query = ListQuery { phase: Some(status), limit: RUNS_AT_ONCE, ..ListQuery::default() };
        loop {
            let page = client.list(&query).await?;
            let mut new: Vec<RunId> = page.items.into_iter().map(|summary| summary.run).collect();
            new.retain(|run| !seen.contains(run));
            let room = limit - seen.len();
            let more = new.len() > room;
            new.truncate(room);
            found.extend(UnknownView::of_each(client, &new).await?);
            seen.extend(new);
            if more {
                return Ok((found, true));
            }
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
    }
    Ok((found, false))
}
