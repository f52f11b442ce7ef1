//! Looks for something in all runs that have not ended.

use std::collections::BTreeSet;

use stepwell_core::{RunId, Timestamp};
use stepwell_engine::Client;
use stepwell_http::view::{OfRun, of_each};
use stepwell_ports::ListQuery;

use crate::errors::CliError;
use crate::output::say;
use crate::view::count;

/// Runs of one look.
const RUNS_AT_ONCE: usize = 16;

/// Of this run, or of as many as that; and whether there are runs that were not looked at.
pub(super) async fn look<T: OfRun>(
    client: &Client,
    run: Option<&RunId>,
    limit: usize,
    now: Timestamp,
) -> Result<(Vec<T>, bool), CliError> {
    match run {
        Some(run) => Ok((T::of(&client.get(run).await?, now), false)),
        None => everywhere(client, limit, now).await,
    }
}

/// Says that there are more.
pub(super) fn say_more(limit: usize) {
    let looked_at = count(limit as u64, "run");
    say(format_args!("only {looked_at} looked at; there are more: look at more with --limit"));
}

/// Looks at runs, status by status. A run that moves to another status meanwhile may be missed: it is there next time.
async fn everywhere<T: OfRun>(client: &Client, limit: usize, now: Timestamp) -> Result<(Vec<T>, bool), CliError> {
    let (mut items, mut seen) = (Vec::new(), BTreeSet::new());
    for status in T::STATUSES {
        let mut query = ListQuery { phase: Some(status), limit: RUNS_AT_ONCE, ..ListQuery::default() };
        loop {
            let page = client.list(&query).await?;
            let mut new: Vec<RunId> = page.items.into_iter().map(|summary| summary.run).collect();
            new.retain(|run| !seen.contains(run));
            let room = limit - seen.len();
            let more = new.len() > room;
            new.truncate(room);
            items.extend(of_each::<T>(client, &new, now).await?);
            seen.extend(new);
            if more {
                return Ok((items, true));
            }
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
    }
    Ok((items, false))
}
