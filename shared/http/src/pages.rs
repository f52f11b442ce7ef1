//! What may be several in a run, listed across runs, a page of runs at a time.

use core::marker::PhantomData;

use serde::Deserialize;
use stepwell_core::limits::PAGE_MAX;
use stepwell_core::{Json, Phase, RunId, Timestamp};
use stepwell_engine::{Client, ClientError};
use stepwell_ports::{ListQuery, StoreError};

use crate::problem::Problem;
use crate::view::{OfRun, of_each};

/// Runs of a page when nobody says how many.
const PAGE_DEFAULT: usize = 50;

/// Runs that are loaded side by side.
const RUNS_AT_ONCE: usize = 8;

/// Bytes after which a page looks at no further runs. A Lambda function answers with 6 MB at most.
const PAGE_BYTES_MAX: usize = 1024 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageAsked {
    limit: Option<usize>,
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
        let query = ListQuery { workflow: None, phase: Some(status), limit: some, after };
        let page = match client.list(&query).await {
            Err(ClientError::Store(StoreError::Invalid(_))) if query.after.is_some() => return Err(no_such_page()),
            listed => listed?,
        };
        looked_at += page.items.len();
        let runs: Vec<RunId> = page.items.into_iter().map(|summary| summary.run).collect();
        for found in of_each::<T>(client, &runs, now).await?.iter().filter(|found| keep(found)) {
            let shown = Json::of(found).map_err(Problem::defect)?;
            bytes += shown.text().len();
            items.push(shown);
        }
        place = match page.next {
            Some(next) => Some(Place::at(status, Some(next))),
            None => Place::following(status),
        };
    }
    Ok(Found { items, next: place.map(|place| place.token()) })
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
