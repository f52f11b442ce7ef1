//! What may be several in a run, listed across runs, a page of runs at a time.

use core::marker::PhantomData;

use serde::Deserialize;
use stepwell_core::limits::PAGE_MAX;
use stepwell_core::{Json, Phase, RunId, Timestamp, WorkflowName};
use stepwell_engine::{Client, ClientError};
use stepwell_ports::{ListQuery, StoreError};
use utoipa::IntoParams;

use crate::access::{Caller, Permission};
use crate::problem::Problem;
use crate::view::{OfRun, of_each};

/// Runs of a page when nobody says how many.
const PAGE_DEFAULT: usize = 50;

/// Runs that are loaded side by side.
const RUNS_AT_ONCE: usize = 8;

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

/// Where a page begins: in which list, and after what of it.
struct Place<T> {
    status: Phase,
    after: Option<String>,
    of: PhantomData<fn() -> T>,
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
        None => Some(Place::<T>::at(T::STATUSES[0], None)),
        Some(token) => Some(Place::parse(&token).ok_or_else(no_such_page)?),
    };
    let (mut items, mut looked_at, mut bytes) = (Vec::new(), 0, 0);
    while let Some(Place { status, after, .. }) = place.take_if(|_| looked_at < limit && bytes < PAGE_BYTES_MAX) {
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
        place = match page.next {
            Some(next) => Some(Place::at(status, Some(next))),
            None => Place::following(status),
        };
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

impl<T: OfRun> Place<T> {
    const fn at(status: Phase, after: Option<String>) -> Self {
        Self { status, after, of: PhantomData }
    }

    fn following(status: Phase) -> Option<Self> {
        let status = *T::STATUSES.iter().skip_while(|known| **known != status).nth(1)?;
        Some(Self::at(status, None))
    }

    fn token(&self) -> String {
        format!("{}:{}", self.status, self.after.as_deref().unwrap_or_default())
    }

    fn parse(token: &str) -> Option<Self> {
        let (status, after) = token.split_once(':')?;
        let status = Phase::parse(status).filter(|status| T::STATUSES.contains(status))?;
        Some(Self::at(status, Some(after.to_owned()).filter(|after| !after.is_empty())))
    }
}

fn no_such_page() -> Problem {
    Problem::fix("bad-query", "after: no page has given this `next`; begin with the first page")
}
