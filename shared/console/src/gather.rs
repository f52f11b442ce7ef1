//! What several runs have, a page of runs at a time: approvals, unknown effects, parked runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use futures_util::lock::Mutex;
use stepwell_core::{Checkpoint, Phase, Timestamp, WorkflowName};
use stepwell_engine::{Client, ClientError};
use stepwell_http::Permission;
use stepwell_http::view::{ApprovalView, OfRun, RunsFrom, UnknownView, load_each};
use stepwell_ports::{ListQuery, RunSummary, StoreError};

use crate::answer::Trouble;
use crate::pages::dashboard::Sample;
use crate::shell::{Count, Counts};
use crate::who::Viewer;

/// Runs that a page of an inbox looks at.
pub(crate) const RUNS: usize = 50;

/// Runs of a status in which what waits for a person is counted.
const COUNTED: usize = 50;

/// How long a count stands. Every page shows it, and a page asks again every few seconds.
const COUNT_STANDS: Duration = Duration::from_secs(30);

/// How long the sample of the dashboard stands: some hundred reads.
const SAMPLE_STANDS: Duration = Duration::from_mins(1);

/// How long nobody asks again after that has failed: those who wait their turn would all wait as long for the same.
const FAILURE_STANDS: Duration = Duration::from_secs(2);

/// What was found in a page of runs, each with its run, and where it goes on.
pub(crate) struct Found<T> {
    pub(crate) items: Vec<(Arc<Checkpoint>, T)>,
    pub(crate) next: Option<String>,
}

/// What these statuses' runs have, those statuses first that stand first.
pub(crate) async fn gather<T>(
    client: &Client,
    viewer: &Viewer,
    statuses: &[Phase],
    after: &str,
    of: impl Fn(&Checkpoint) -> Vec<T>,
) -> Result<Found<T>, Trouble> {
    let mut place = match after {
        "" => RunsFrom::first(statuses),
        token => Some(RunsFrom::parse(token, statuses).ok_or_else(no_such_page)?),
    };
    let (mut items, mut looked_at) = (Vec::new(), 0);
    while let Some(RunsFrom { status, after }) = place.take_if(|_| looked_at < RUNS) {
        let paged = after.is_some();
        let query = ListQuery { phase: Some(status), limit: RUNS - looked_at, after, ..ListQuery::default() };
        let page = match client.list(&query).await {
            Err(ClientError::Store(StoreError::Invalid(_))) if paged => return Err(no_such_page()),
            listed => listed?,
        };
        // A page that is short though others follow has looked at many runs already.
        let is_cut = looked_at + page.items.len() < RUNS && page.next.is_some();
        looked_at = if is_cut { RUNS } else { looked_at + page.items.len() };
        for run in load(client, viewer, &page.items).await? {
            let run = Arc::new(run);
            items.extend(of(&run).into_iter().map(|found| (Arc::clone(&run), found)));
        }
        place = RunsFrom::following(statuses, status, page.next);
    }
    Ok(Found { items, next: place.map(|place| place.token()) })
}

/// Those of these runs that whoever looks may see, and that are still there.
pub(crate) async fn load(
    client: &Client,
    viewer: &Viewer,
    runs: &[RunSummary],
) -> Result<Vec<Checkpoint>, ClientError> {
    let seen = runs.iter().filter(|run| viewer.may(Permission::Look, &run.workflow));
    load_each(client, seen.map(|run| &run.run)).await
}

fn no_such_page() -> Trouble {
    Trouble::BadQuery("This is no page of this list: begin with the first.".into())
}

/// What is counted over all runs. All pages of a process share it for a while.
#[derive(Clone, Default)]
pub(crate) struct Counter {
    tally: Kept<Tally>,
    sample: Kept<Sample>,
}

/// What is made for whoever asks first, and serves those who ask soon after. Others wait while it is made.
struct Kept<T>(Arc<Mutex<Option<Made<T>>>>);

/// When it was made, and what. `None`: that has failed.
type Made<T> = (Instant, Option<Arc<T>>);

/// What waits for a person, counted among the newest runs: by workflow, since not everybody may see all of them.
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
        match self.tally.get(COUNT_STANDS, Tally::count(client, now)).await {
            Ok(tally) => Some(tally.counts(viewer)),
            Err(error) => {
                tracing::warn!(%error, "what waits for a person cannot be counted now");
                None
            }
        }
    }

    /// What the dashboard is made from.
    pub(crate) async fn sample(&self, client: &Client, now: Timestamp) -> Result<Arc<Sample>, ClientError> {
        self.sample.get(SAMPLE_STANDS, Sample::take(client, now)).await
    }
}

impl<T> Kept<T> {
    /// What was made no longer ago than it stands, or else what is made now.
    async fn get(
        &self,
        stands: Duration,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<Arc<T>, ClientError> {
        let mut kept = self.0.lock().await;
        match &*kept {
            Some((at, Some(made))) if at.elapsed() < stands => return Ok(Arc::clone(made)),
            Some((at, None)) if at.elapsed() < FAILURE_STANDS => {
                return Err(StoreError::Unavailable("that has just failed; ask again in a moment".into()).into());
            }
            Some(_) | None => {}
        }
        let made = work.await.map(Arc::new);
        *kept = Some((Instant::now(), made.as_ref().ok().cloned()));
        made
    }
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Arc::default())
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
        let runs = pages.iter().flat_map(|page| &page.items).map(|run| &run.run);
        for run in load_each(client, runs).await? {
            tally.add(&run, now);
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
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn who_asks_at_once_or_soon_after_is_served_by_one_count() {
        let (kept, made) = (Kept::default(), AtomicUsize::new(0));
        let count = async || {
            tokio::task::yield_now().await;
            Ok(made.fetch_add(1, Ordering::Relaxed))
        };
        let hour = Duration::from_hours(1);
        let all = join_all((0..20).map(|_| kept.get(hour, count()))).await;
        assert!(all.into_iter().all(|got| *got.unwrap() == 0));
        assert_eq!(*kept.get(hour, count()).await.unwrap(), 0);
        assert_eq!(*kept.get(Duration::ZERO, count()).await.unwrap(), 1, "the first stands no longer");
        assert_eq!((*kept.get(hour, count()).await.unwrap(), made.load(Ordering::Relaxed)), (1, 2));
    }

    #[tokio::test]
    async fn who_waits_for_a_count_that_fails_does_not_try_in_turn() {
        let (kept, tried) = (Kept::<u32>::default(), AtomicUsize::new(0));
        let fail = async || {
            tokio::task::yield_now().await;
            tried.fetch_add(1, Ordering::Relaxed);
            Err(StoreError::Throttled("too many".into()).into())
        };
        let all = join_all((0..20).map(|_| kept.get(Duration::from_hours(1), fail()))).await;
        assert!(all.iter().all(Result::is_err));
        assert_eq!(tried.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn who_gives_up_while_counting_leaves_it_to_the_next() {
        let kept = Kept::default();
        let mut never = Box::pin(kept.get(Duration::from_hours(1), core::future::pending()));
        assert!(futures_util::poll!(&mut never).is_pending());
        drop(never);
        assert_eq!(*kept.get(Duration::from_hours(1), async { Ok(7) }).await.unwrap(), 7);
    }
}
