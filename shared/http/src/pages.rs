//! What may be several in a run, listed across runs, a page of runs at a time.

use serde::Deserialize;
use stepwell_core::limits::PAGE_MAX;
use stepwell_core::{Json, RunId, Timestamp, WorkflowName};
use stepwell_engine::{Client, ClientError};
use stepwell_ports::{ListQuery, StoreError};
use utoipa::IntoParams;

use crate::access::{Caller, Permission};
use crate::problem::Problem;
use crate::view::{OfRun, RUNS_AT_ONCE, RunsFrom, of_each};

/// Runs of a page when nobody says how many.
const PAGE_DEFAULT: usize = 50;

/// Bytes after which a page looks at no further runs. A Lambda function answers with 6 MB at most.
const PAGE_BYTES_MAX: usize = 1024 * 1024;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageAsked {
    /// How many runs are looked at, at most; 50 when it is not said.
    #[param(minimum = 1, maximum = 1000, required = false, value_type = u64)]
    limit: Option<usize>,
    /// The `next` of the page before.
    #[param(required = false, value_type = String)]
    after: Option<String>,
}

/// What was found, and where the next page begins. Each is written already: its length decides how many there are.
pub(crate) struct Found {
    pub(crate) items: Vec<Json>,
    pub(crate) next: Option<String>,
}

/// Those of a page of runs that are to be kept.
pub(crate) async fn look<T: OfRun>(
    client: &Client,
    caller: &Caller,
    PageAsked { limit, after }: PageAsked,
    now: Timestamp,
    keep: fn(&T) -> bool,
) -> Result<Found, Problem> {
    let limit = limit.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&limit) {
        let detail = format!("limit: ask for 1 to {PAGE_MAX} runs to be looked at, and go on with `next`");
        return Err(Problem::fix("bad-query", detail));
    }
    let mut place = match after {
        None => RunsFrom::first(&T::STATUSES),
        Some(token) => Some(RunsFrom::parse(&token, &T::STATUSES).ok_or_else(no_such_page)?),
    };
    let (mut items, mut looked_at, mut bytes) = (Vec::new(), 0, 0);
    while let Some(RunsFrom { status, after }) = place.take_if(|_| looked_at < limit && bytes < PAGE_BYTES_MAX) {
        let some = RUNS_AT_ONCE.min(limit - looked_at);
        let query =
            ListQuery { workflow: only(caller), phase: Some(status), limit: some, after, ..ListQuery::default() };
        let page = match client.list(&query).await {
            Err(ClientError::Store(StoreError::Invalid(_))) if query.after.is_some() => return Err(no_such_page()),
            listed => listed?,
        };
        looked_at += page.items.len();
        // The store has looked at many that are not like that: whoever asked may go on from there.
        let is_short = page.items.len() < some && page.next.is_some();
        let seen = page.items.into_iter().filter(|run| caller.may(Permission::Look, Some(&run.workflow)));
        let runs: Vec<RunId> = seen.map(|summary| summary.run).collect();
        for found in of_each::<T>(client, &runs, now).await?.iter().filter(|found| keep(found)) {
            let shown = Json::of(found).map_err(Problem::defect)?;
            bytes += shown.text().len();
            items.push(shown);
        }
        place = RunsFrom::following(&T::STATUSES, status, page.next);
        if is_short {
            break;
        }
    }
    Ok(Found { items, next: place.map(|place| place.token()) })
}

/// The workflow whose runs this caller may see, where it is but one: then the store lists no others.
pub(crate) fn only(caller: &Caller) -> Option<WorkflowName> {
    let mut seen = caller.workflows(Permission::Look)?;
    if seen.len() == 1 { seen.pop() } else { None }
}

fn no_such_page() -> Problem {
    Problem::fix("bad-query", "after: no page has given this `next`; begin with the first page")
}
