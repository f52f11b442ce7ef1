//! What the dashboard shows, worked out from bounded samples.

use std::time::Duration;

use futures_util::future::try_join_all;
use stepwell_core::limits::PAGE_MAX;
use stepwell_core::{Checkpoint, Phase, Status, Timestamp, Usage};
use stepwell_engine::{Client, ClientError};
use stepwell_http::Permission;
use stepwell_ports::{ListQuery, RunSummary};

use crate::gather;
use crate::shell::Count;
use crate::who::Viewer;

/// Runs that are looked into. Their checkpoints are read one by one.
const LOADED: usize = 100;

/// Hours that are shown.
const HOURS: u64 = 24;
const HOUR_MS: u64 = 3_600_000;

/// How long a run may be past its mark before somebody should look.
pub(super) const OVERDUE_IS_BAD: Duration = Duration::from_mins(10);

/// How long a wait may be over before it counts as late: waking takes a moment.
const LATE: Duration = Duration::from_mins(1);

/// Runs past their mark that are looked at.
const OVERDUE: usize = 100;

/// All of it.
pub(crate) struct Figures {
    pub(crate) by_status: Vec<(Phase, Count)>,
    /// Of how many runs the hours of their starts are.
    pub(crate) sampled: usize,
    /// How many of them were looked into.
    pub(crate) loaded: usize,
    pub(crate) hours: Vec<Hour>,
    pub(crate) overdue: Overdue,
    pub(crate) late: Count,
    pub(crate) usage: Usage,
}

/// Runs that nobody seems to have woken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overdue {
    pub(crate) runs: Count,
    /// Since when the oldest of them is due.
    pub(crate) oldest: Option<Timestamp>,
}

/// What began and ended in an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hour {
    pub(crate) from: Timestamp,
    pub(crate) started: usize,
    pub(crate) ended: usize,
}

impl Figures {
    pub(crate) async fn load(client: &Client, viewer: &Viewer, now: Timestamp) -> Result<Self, ClientError> {
        let phases: Vec<Phase> = Phase::ALL.into_iter().filter(|phase| *phase != Phase::Cancelling).collect();
        let queries: Vec<ListQuery> = phases.iter().map(|phase| all(Some(*phase))).collect();
        let pages = try_join_all(queries.iter().map(|query| client.list(query))).await?;
        let newest = client.list(&all(None)).await?;
        let seen = |runs: &[RunSummary]| -> Vec<RunSummary> {
            runs.iter().filter(|run| viewer.may(Permission::Look, &run.workflow)).cloned().collect()
        };
        let (mut by_status, mut late) = (Vec::new(), Count::default());
        for (phase, page) in phases.into_iter().zip(pages) {
            let (runs, more) = (seen(&page.items), page.next.is_some());
            if matches!(phase, Phase::Waiting | Phase::Retrying) {
                late.found += runs.iter().filter(|run| is_late(run, now)).count();
                late.more |= more;
            }
            by_status.push((phase, Count { found: runs.len(), more }));
        }
        let newest = seen(&newest.items);
        let loaded = gather::load(client, viewer, &newest[..newest.len().min(LOADED)]).await?;
        let usage = loaded.iter().fold(Usage::default(), |sum, run| sum.plus(run.progress.usage));
        Ok(Self {
            by_status,
            sampled: newest.len(),
            loaded: loaded.len(),
            hours: hours(&newest, &loaded, now),
            overdue: Overdue::load(client).await?,
            late,
            usage,
        })
    }
}

impl Overdue {
    /// Marks belong to runs of any workflow; they tell nothing of one.
    async fn load(client: &Client) -> Result<Self, ClientError> {
        let due = client.due(OVERDUE).await?;
        let runs = Count { found: due.len(), more: due.len() == OVERDUE };
        Ok(Self { runs, oldest: due.iter().map(|run| run.due_at).min() })
    }
}

fn all(phase: Option<Phase>) -> ListQuery {
    ListQuery { phase, limit: PAGE_MAX, ..ListQuery::default() }
}

fn is_late(run: &RunSummary, now: Timestamp) -> bool {
    run.wakes_at.is_some_and(|at| at.plus(LATE) < now)
}

/// The last hours, oldest first.
fn hours(newest: &[RunSummary], loaded: &[Checkpoint], now: Timestamp) -> Vec<Hour> {
    let last = now.0 / HOUR_MS;
    let first = last.saturating_sub(HOURS - 1);
    let mut hours: Vec<Hour> =
        (first..=last).map(|hour| Hour { from: Timestamp(hour * HOUR_MS), started: 0, ended: 0 }).collect();
    let mut count = |at: Timestamp, add: fn(&mut Hour)| {
        let place = (at.0 / HOUR_MS).checked_sub(first).and_then(|place| usize::try_from(place).ok());
        if let Some(hour) = place.and_then(|place| hours.get_mut(place)) {
            add(hour);
        }
    };
    for run in newest {
        count(run.started_at, |hour| hour.started += 1);
    }
    for at in loaded.iter().filter_map(|run| ended_at(&run.progress.status)) {
        count(at, |hour| hour.ended += 1);
    }
    hours
}

const fn ended_at(status: &Status) -> Option<Timestamp> {
    match status {
        Status::Completed { at, .. } | Status::Failed { at, .. } | Status::Cancelled { at, .. } => Some(*at),
        Status::Created | Status::Running | Status::Waiting(_) | Status::Retrying { .. } | Status::Parked { .. } => {
            None
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use stepwell_core::{RunId, WorkflowName};

    use super::*;

    fn run(started: u64, wakes: Option<u64>) -> RunSummary {
        RunSummary {
            run: RunId::new("r1").unwrap(),
            workflow: WorkflowName::new("w").unwrap(),
            phase: Phase::Waiting,
            started_at: Timestamp(started),
            wakes_at: wakes.map(Timestamp),
        }
    }

    #[test]
    fn starts_are_counted_in_their_hour_and_older_ones_are_not() {
        let now = 100 * HOUR_MS + 1;
        let runs = [now, 100 * HOUR_MS, 100 * HOUR_MS - 1, 77 * HOUR_MS, 77 * HOUR_MS - 1, now + HOUR_MS];
        let hours = hours(&runs.map(|at| run(at, None)), &[], Timestamp(now));
        assert_eq!(hours.len(), 24);
        assert_eq!((hours[23].started, hours[22].started, hours[0].started), (2, 1, 1));
        assert_eq!((hours[0].from, hours.iter().map(|hour| hour.started).sum::<usize>()), (Timestamp(77 * HOUR_MS), 4));
    }

    #[test]
    fn a_wait_is_late_once_its_time_is_well_over() {
        let now = Timestamp(1_000_000);
        assert!(is_late(&run(0, Some(1_000_000 - 60_001)), now));
        assert!(!is_late(&run(0, Some(1_000_000 - 60_000)), now) && !is_late(&run(0, None), now));
    }
}
