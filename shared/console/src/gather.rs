//! What several runs have, a page of runs at a time: approvals, unknown effects, parked runs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use stepwell_core::{Checkpoint, Phase, RunId, Timestamp, WorkflowName};
use stepwell_engine::{Client, ClientError};
use stepwell_http::view::{ApprovalView, OfRun, UnknownView};
use stepwell_ports::{ListQuery, RunSummary, StoreError};

use crate::answer::Trouble;
use crate::shell::{Count, Counts};
use stepwell_http::Permission;

use crate::who::Viewer;

/// Runs that a page of an inbox looks at.
pub(crate) const RUNS: usize = 50;

/// Runs that are loaded side by side.
const AT_ONCE: usize = 8;

/// Runs of a status in which what waits for a person is counted.
const COUNTED: usize = 50;

/// How long a count stands. Every page shows it, and a page asks again every few seconds.
const COUNT_STANDS: Duration = Duration::from_secs(2);

/// What was found in a page of runs, each with its run, and where it goes on.
pub(crate) struct Found<T> {
    pub(crate) items: Vec<(Arc<Checkpoint>, T)>,
    pub(crate) next: Option<String>,
}

/// Where a page begins: in which list, and after what of it.
struct Place {
    status: Phase,
    after: Option<String>,
}

/// What these statuses' runs have, those statuses first that stand first.
pub(crate) async fn gather<T>(
    client: &Client,
    viewer: &Viewer,
    statuses: &[Phase],
    after: &str,
    of: impl Fn(&Checkpoint) -> Vec<T>,
) -> Result<Found<T>, Trouble> {
    let mut place = match (after, statuses.first()) {
        ("", Some(first)) => Some(Place { status: *first, after: None }),
        (token, _) => Some(Place::parse(token, statuses).ok_or_else(no_such_page)?),
    };
    let (mut items, mut looked_at) = (Vec::new(), 0);
    while let Some(Place { status, after }) = place.take_if(|_| looked_at < RUNS) {
        let paged = after.is_some();
        let query = ListQuery { phase: Some(status), limit: RUNS - looked_at, after, ..ListQuery::default() };
        let page = match client.list(&query).await {
            Err(ClientError::Store(StoreError::Invalid(_))) if paged => return Err(no_such_page()),
            listed => listed?,
        };
        looked_at += page.items.len();
        for run in load(client, viewer, &page.items).await? {
            let run = Arc::new(run);
            items.extend(of(&run).into_iter().map(|found| (Arc::clone(&run), found)));
        }
        place = if let Some(next) = page.next {
            Some(Place { status, after: Some(next) })
        } else {
            let following = statuses.iter().skip_while(|known| **known != status).nth(1);
            following.map(|status| Place { status: *status, after: None })
        };
    }
    Ok(Found { items, next: place.map(|place| place.token()) })
}

/// Those of these runs that whoever looks may see, and that are still there.
pub(crate) async fn load(
    client: &Client,
    viewer: &Viewer,
    runs: &[RunSummary],
) -> Result<Vec<Checkpoint>, ClientError> {
    let seen: Vec<&RunId> =
        runs.iter().filter(|run| viewer.may(Permission::Look, &run.workflow)).map(|run| &run.run).collect();
    let mut found = Vec::new();
    for some in seen.chunks(AT_ONCE) {
        for loaded in join_all(some.iter().map(|run| client.get(run))).await {
            match loaded {
                Ok(run) => found.push(run),
                Err(ClientError::NoSuchRun(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

impl Place {
    fn token(&self) -> String {
        format!("{}:{}", self.status, self.after.as_deref().unwrap_or_default())
    }

    fn parse(token: &str, statuses: &[Phase]) -> Option<Self> {
        let (status, after) = token.split_once(':')?;
        let status = Phase::parse(status).filter(|status| statuses.contains(status))?;
        Some(Self { status, after: Some(after.to_owned()).filter(|after| !after.is_empty()) })
    }
}

fn no_such_page() -> Trouble {
    Trouble::BadQuery("This is no page of this list: begin with the first.".into())
}

/// What waits for a person, counted among the newest runs. All pages of a process share one count for a while.
#[derive(Clone, Default)]
pub(crate) struct Counter {
    last: Arc<Mutex<Option<Counted>>>,
}

/// A count, and when it was made.
type Counted = (Instant, Arc<Tally>);

/// By workflow, since not everybody may see all of them.
#[derive(Debug, Default)]
struct Tally {
    per: BTreeMap<WorkflowName, [usize; 3]>,
    /// Whether there are runs that were not looked at: among them there may be more.
    more: bool,
    more_parked: bool,
}

impl Counter {
    /// The counts for whoever looks. `None`: they cannot be had now; the page is shown without.
    pub(crate) async fn counts(&self, client: &Client, viewer: &Viewer, now: Timestamp) -> Option<Counts> {
        let known = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let tally = match known {
            Some((at, tally)) if at.elapsed() < COUNT_STANDS => tally,
            _ => match Tally::count(client, now).await {
                Ok(tally) => {
                    let tally = Arc::new(tally);
                    let counted = Some((Instant::now(), Arc::clone(&tally)));
                    *self.last.lock().unwrap_or_else(PoisonError::into_inner) = counted;
                    tally
                }
                Err(error) => {
                    tracing::warn!(%error, "what waits for a person cannot be counted now");
                    return None;
                }
            },
        };
        Some(tally.counts(viewer))
    }
}

impl Tally {
    async fn count(client: &Client, now: Timestamp) -> Result<Self, ClientError> {
        let of = |phase| ListQuery { phase: Some(phase), limit: COUNTED, ..ListQuery::default() };
        let (parked, waiting) = (of(Phase::Parked), of(Phase::Waiting));
        let pages = try_join_all([client.list(&parked), client.list(&waiting)]).await?;
        let mut tally = Self {
            more: pages.iter().any(|page| page.next.is_some()),
            more_parked: pages.first().is_some_and(|page| page.next.is_some()),
            ..Self::default()
        };
        let runs: Vec<&RunId> = pages.iter().flat_map(|page| &page.items).map(|run| &run.run).collect();
        for some in runs.chunks(AT_ONCE) {
            for loaded in join_all(some.iter().map(|run| client.get(run))).await {
                match loaded {
                    Ok(run) => tally.add(&run, now),
                    Err(ClientError::NoSuchRun(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(tally)
    }

    fn add(&mut self, run: &Checkpoint, now: Timestamp) {
        let [approvals, unknowns, parked] = self.per.entry(run.workflow.clone()).or_default();
        *approvals += ApprovalView::of(run, now).iter().filter(|approval| approval.is_open()).count();
        *unknowns += UnknownView::of(run, now).len();
        *parked += usize::from(run.progress.status.phase() == Phase::Parked);
    }

    fn counts(&self, viewer: &Viewer) -> Counts {
        let seen = || self.per.iter().filter(|(workflow, _)| viewer.may(Permission::Look, workflow));
        let count = |place: usize, more| Count { found: seen().map(|(_, counted)| counted[place]).sum(), more };
        Counts { approvals: count(0, self.more), unknowns: count(1, self.more), parked: count(2, self.more_parked) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_back_and_others_are_not() {
        let statuses = [Phase::Parked, Phase::Waiting];
        for token in ["parked:", "waiting:a:b"] {
            assert_eq!(Place::parse(token, &statuses).map(|place| place.token()).as_deref(), Some(token));
        }
        for token in ["", "parked", "failed:", "nothing:x"] {
            assert!(Place::parse(token, &statuses).is_none(), "{token}");
        }
    }
}
