//! What the dashboard shows, worked out from bounded samples.

use std::time::Duration;

use futures_util::future::try_join;
use stepwell_core::decide::DueRun;
use stepwell_core::{Checkpoint, Phase, Status, Timestamp, Usage, WorkflowName};
use stepwell_engine::{Client, ClientError};
use stepwell_http::Permission;
use stepwell_http::view::load_each;
use stepwell_ports::{ListQuery, Page, RunSummary};

use crate::shell::Count;
use crate::who::Viewer;

/// The newest runs that are looked at. To list a run is to read of its checkpoint, on AWS.
const NEWEST: usize = 200;

/// Runs that want a person are looked for further back, up to so many of each status.
const WANTING: usize = 50;

/// Those statuses: each is a list of its own, so that to look for them passes over no others.
const WANTS: [Phase; 2] = [Phase::Parked, Phase::Failed];

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

/// What all of it is worked out from, for whomever.
#[derive(Debug)]
pub(crate) struct Sample {
    /// When it was taken.
    at: Timestamp,
    newest: Page<RunSummary>,
    wanting: [Page<RunSummary>; 2],
    loaded: Vec<Looked>,
    due: Vec<DueRun>,
}

/// What is kept of a run that was looked into.
#[derive(Debug)]
struct Looked {
    workflow: WorkflowName,
    ended_at: Option<Timestamp>,
    usage: Usage,
}

/// All of it.
pub(crate) struct Figures {
    /// When the runs were looked at.
    pub(crate) at: Timestamp,
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

impl Sample {
    pub(crate) async fn take(client: &Client, now: Timestamp) -> Result<Self, ClientError> {
        let newest = client.list(&of(None, NEWEST)).await?;
        let [parked, failed] = WANTS.map(|phase| of(Some(phase), WANTING));
        let (parked, failed) = try_join(client.list(&parked), client.list(&failed)).await?;
        let runs = newest.items.iter().take(LOADED).map(|run| &run.run);
        let loaded = load_each(client, runs).await?.iter().map(Looked::of).collect();
        Ok(Self { at: now, newest, wanting: [parked, failed], loaded, due: client.due(OVERDUE).await? })
    }

    fn overdue(&self) -> Overdue {
        let runs = Count { found: self.due.len(), more: self.due.len() == OVERDUE };
        Overdue { runs, oldest: self.due.iter().map(|run| run.due_at).min() }
    }

    fn late(&self) -> Count {
        let found = self.due.iter().filter(|run| is_late(run, self.at)).count();
        Count { found, more: self.due.len() == OVERDUE }
    }
}

impl Looked {
    fn of(run: &Checkpoint) -> Self {
        let Checkpoint { workflow, progress, .. } = run;
        Self { workflow: workflow.clone(), ended_at: ended_at(&progress.status), usage: progress.usage }
    }
}

impl Figures {
    /// What of it whoever looks may see. Marks belong to runs of any workflow; they tell nothing of one.
    pub(crate) fn of(sample: &Sample, viewer: &Viewer) -> Self {
        let may = |workflow: &WorkflowName| viewer.may(Permission::Look, workflow);
        let newest: Vec<&RunSummary> = sample.newest.items.iter().filter(|run| may(&run.workflow)).collect();
        let loaded: Vec<&Looked> = sample.loaded.iter().filter(|run| may(&run.workflow)).collect();
        let mut by_status = Vec::new();
        for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Cancelling) {
            let found = newest.iter().filter(|run| run.phase == phase).count();
            let mut count = Count { found, more: sample.newest.next.is_some() };
            for (_, page) in WANTS.iter().zip(&sample.wanting).filter(|(wanted, _)| **wanted == phase) {
                let further = page.items.iter().filter(|run| may(&run.workflow)).count();
                count = Count { found: found.max(further), more: count.more && page.next.is_some() };
            }
            by_status.push((phase, count));
        }
        Self {
            at: sample.at,
            by_status,
            sampled: newest.len(),
            loaded: loaded.len(),
            hours: hours(&newest, &loaded, sample.at),
            overdue: sample.overdue(),
            late: sample.late(),
            usage: loaded.iter().fold(Usage::default(), |sum, run| sum.plus(run.usage)),
        }
    }
}

fn of(phase: Option<Phase>, limit: usize) -> ListQuery {
    ListQuery { phase, limit, ..ListQuery::default() }
}

fn is_late(run: &DueRun, now: Timestamp) -> bool {
    run.wakes_at.is_some_and(|at| at.plus(LATE) < now)
}

/// The last hours, oldest first.
fn hours(newest: &[&RunSummary], loaded: &[&Looked], now: Timestamp) -> Vec<Hour> {
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
    for at in loaded.iter().filter_map(|run| run.ended_at) {
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
    use stepwell_core::{RunId, Ticket};

    use super::*;

    fn run(started: u64, phase: Phase) -> RunSummary {
        RunSummary {
            run: RunId::new("r1").unwrap(),
            workflow: WorkflowName::new("w").unwrap(),
            phase,
            started_at: Timestamp(started),
            wakes_at: None,
        }
    }

    fn due(wakes_at: Option<u64>) -> DueRun {
        DueRun {
            run: RunId::new("r1").unwrap(),
            ticket: Ticket(1),
            due_at: Timestamp(1_000),
            wakes_at: wakes_at.map(Timestamp),
            leased_until: None,
        }
    }

    #[test]
    fn starts_are_counted_in_their_hour_and_older_ones_are_not() {
        let now = 100 * HOUR_MS + 1;
        let runs = [now, 100 * HOUR_MS, 100 * HOUR_MS - 1, 77 * HOUR_MS, 77 * HOUR_MS - 1, now + HOUR_MS];
        let runs = runs.map(|at| run(at, Phase::Waiting));
        let hours = hours(&runs.iter().collect::<Vec<_>>(), &[], Timestamp(now));
        assert_eq!(hours.len(), 24);
        assert_eq!((hours[23].started, hours[22].started, hours[0].started), (2, 1, 1));
        assert_eq!((hours[0].from, hours.iter().map(|hour| hour.started).sum::<usize>()), (Timestamp(77 * HOUR_MS), 4));
    }

    #[test]
    fn a_wait_is_late_once_its_time_is_well_over() {
        let now = Timestamp(1_000_000);
        assert!(is_late(&due(Some(1_000_000 - 60_001)), now));
        assert!(!is_late(&due(Some(1_000_000 - 60_000)), now) && !is_late(&due(None), now));
    }

    #[test]
    fn one_sample_counts_all_statuses_and_those_that_want_a_person_further_back() {
        let page = |runs: &[(Phase, usize)], next: Option<&str>| {
            let items = runs.iter().flat_map(|(phase, many)| vec![run(0, *phase); *many]).collect();
            Page { items, damaged: Vec::new(), next: next.map(Into::into) }
        };
        let sample = Sample {
            at: Timestamp(1_000_000),
            newest: page(&[(Phase::Waiting, 3), (Phase::Parked, 2), (Phase::Failed, 4)], Some("more")),
            wanting: [page(&[(Phase::Parked, 5)], None), page(&[(Phase::Failed, 3)], Some("more"))],
            loaded: Vec::new(),
            due: vec![due(Some(0)), due(None)],
        };
        let figures = Figures::of(&sample, &Viewer::who_may(&[Permission::Look]));
        let found = |wanted| figures.by_status.iter().find(|(phase, _)| *phase == wanted).unwrap().1.to_string();
        let all = [Phase::Waiting, Phase::Parked, Phase::Failed, Phase::Running].map(found);
        assert_eq!(all, ["3+", "5", "4+", "0+"]);
        assert_eq!((figures.sampled, figures.late.found, figures.overdue.runs.found), (9, 1, 2));
        let nothing = Figures::of(&sample, &Viewer::who_may(&[]));
        assert!(nothing.sampled == 0 && nothing.by_status.iter().all(|(_, count)| count.found == 0));
    }
}
