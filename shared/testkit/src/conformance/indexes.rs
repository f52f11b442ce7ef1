//! The two indexes: what is due, and what there is.

use std::time::Duration;

use stepwell_core::decide::DueRun;
use stepwell_core::limits::{PAGE_MAX, WATCHDOG_MARK};
use stepwell_core::{Checkpoint, MailboxSeq, Phase, RunId, Status, Timestamp, WorkflowName};
use stepwell_ports::{ListQuery, RunSummary, StoreError};

use super::bed::{Bed, END, LEASE, TICK, amended, boxed, renew, run, start, waiting};

pub(super) async fn due_runs_come_earliest_first_up_to_the_mark(bed: &Bed<'_>) {
    let mut marks = Vec::new();
    // Against the order of names, and two with the same mark.
    for (name, marks_away) in [("a", 9), ("b", 120), ("c", 1), ("d", 9), ("e", 2)] {
        let until = bed.now().plus(WATCHDOG_MARK * marks_away);
        let waits = bed.standing(name, waiting("approve", Some(until), MailboxSeq(0))).await;
        marks.push((waits.due_at.unwrap(), waits.run));
    }
    marks.sort();
    for (until, _) in marks.clone() {
        let before = Timestamp(until.0 - 1);
        for until in [before, until] {
            let expected: Vec<_> = marks.iter().filter(|(mark, _)| *mark <= until).cloned().collect();
            bed.shows(&format!("due until {until}"), &expected, async || {
                let found = bed.due(until, 100).await;
                assert!(found.is_sorted_by_key(|due| due.due_at), "earliest mark first: {found:?}");
                let mut found: Vec<_> = found.into_iter().map(|due| (due.due_at, due.run)).collect();
                found.sort();
                found
            })
            .await;
        }
    }
}

pub(super) async fn due_runs_carry_what_the_sweeper_needs(bed: &Bed<'_>) {
    let later = bed.now().plus(Duration::from_hours(1));
    let mut expected = [
        bed.started("created").await,
        bed.held("held").await,
        bed.standing("running", Status::Running).await,
        bed.standing("retrying", Status::Retrying { at: later }).await,
        bed.standing("waiting", waiting("approve", Some(later), MailboxSeq(0))).await,
    ]
    .map(|checkpoint| DueRun::of(&checkpoint).unwrap())
    .to_vec();
    expected.sort_by(|a, b| a.run.cmp(&b.run));
    bed.shows("due runs", &expected, async || sorted(bed.due(END, 100).await)).await;
}

fn sorted(mut found: Vec<DueRun>) -> Vec<DueRun> {
    found.sort_by(|a, b| a.run.cmp(&b.run));
    found
}

async fn shows_as_stored(bed: &Bed<'_>, after: &Checkpoint, what: &str) {
    let expected: Vec<DueRun> = DueRun::of(after).into_iter().collect();
    bed.shows(&format!("due after {what}"), &expected, async || bed.due(END, 10).await).await;
}

pub(super) async fn due_runs_move_with_every_write(bed: &Bed<'_>) {
    let started = bed.started("r").await;
    shows_as_stored(bed, &started, "the start").await;
    let held = bed.acquired(&started).await;
    shows_as_stored(bed, &held, "the acquire").await;
    let held = bed.applied(&held.run, renew(held.hold.fence, bed.now().plus(LEASE * 9))).await;
    shows_as_stored(bed, &held, "the renewal").await;
    let held = bed.applied(&held.run, boxed(bed.carry_on(&held))).await;
    shows_as_stored(bed, &held, "the commit").await;
    let waits = bed.handed_off(&held, waiting("approve", None, MailboxSeq(0))).await;
    assert_eq!(waits.due_at, None);
    shows_as_stored(bed, &waits, "the hand-off into a wait for ever").await;
    bed.advance(WATCHDOG_MARK * 3);
    let signalled = bed.applied(&waits.run, bed.signal("s", "approve")).await;
    shows_as_stored(bed, &signalled, "the signal").await;
    let held = bed.acquired(&signalled).await;
    let waits = bed.handed_off(&held, waiting("approve", None, MailboxSeq(1))).await;
    let cancelled = bed.applied(&waits.run, bed.cancel("ann")).await;
    shows_as_stored(bed, &cancelled, "the cancellation").await;
}

pub(super) async fn due_runs_vanish_when_parked_or_ended(bed: &Bed<'_>) {
    let parked = bed.standing("r", bed.parked()).await;
    shows_as_stored(bed, &parked, "parking").await;
    // The signal sets a mark, but nobody may touch the run.
    let signalled = bed.applied(&parked.run, bed.signal("s", "approve")).await;
    assert!(signalled.due_at.is_some());
    shows_as_stored(bed, &signalled, "a signal to a parked run").await;
    let resumed = bed.applied(&parked.run, amended(bed.amend(&signalled))).await;
    assert!(DueRun::of(&resumed).is_some());
    shows_as_stored(bed, &resumed, "the amendment").await;
    let held = bed.acquired(&resumed).await;
    let ended = bed.handed_off(&held, bed.completed()).await;
    assert_eq!(DueRun::of(&ended), None);
    shows_as_stored(bed, &ended, "the end").await;
}

pub(super) async fn due_runs_are_read_in_pages(bed: &Bed<'_>) {
    let mut expected = Vec::new();
    for number in 0..23 {
        // Many of one mark, so that a page ends among them.
        if number == 15 {
            bed.advance(WATCHDOG_MARK);
        }
        let started = bed.started(&format!("r{number}")).await;
        expected.push(DueRun::of(&started).unwrap());
    }
    let expected = sorted(expected);
    for limit in [1, 4, 22, 23, 24] {
        bed.shows(&format!("due runs in pages of {limit}"), &expected, async || sorted(bed.due(END, limit).await))
            .await;
    }
}

fn summary(checkpoint: &Checkpoint) -> RunSummary {
    RunSummary {
        run: checkpoint.run.clone(),
        workflow: checkpoint.workflow.clone(),
        phase: checkpoint.progress.status.phase(),
        started_at: checkpoint.started_at,
        wakes_at: checkpoint.wakes_at(),
    }
}

/// One run in each stored phase and of each of two workflows, newest first.
async fn runs_of_all_kinds(bed: &Bed<'_>) -> Vec<RunSummary> {
    let later = bed.now().plus(Duration::from_hours(1));
    let failure = stepwell_core::Failure::new(stepwell_core::FailureKind::Error, "no");
    let statuses = [
        Status::Running,
        Status::Retrying { at: later },
        waiting("approve", Some(later), MailboxSeq(0)),
        waiting("approve", None, MailboxSeq(0)),
        bed.parked(),
        bed.completed(),
        Status::Failed { failure, at: bed.now() },
        Status::Cancelled { certificate: stepwell_core::Certificate::default(), at: bed.now() },
    ];
    let mut all = Vec::new();
    for workflow in ["refund", "brief"] {
        let created = bed.applied(&run(&format!("{workflow}-new")), start(workflow)).await;
        all.push(summary(&created));
        for (number, status) in statuses.iter().enumerate() {
            bed.advance(TICK);
            let started = bed.applied(&run(&format!("{workflow}-{number}")), start(workflow)).await;
            let held = bed.acquired(&started).await;
            let held = bed.applied(&held.run, bed.signal("s", "chat")).await;
            all.push(summary(&bed.handed_off(&held, status.clone()).await));
        }
        bed.advance(TICK);
    }
    all.reverse();
    all
}

pub(super) async fn runs_are_listed_newest_first(bed: &Bed<'_>) {
    let expected = runs_of_all_kinds(bed).await;
    let query = ListQuery { limit: 100, ..ListQuery::default() };
    bed.shows("all runs", &expected, async || bed.list(&query).await).await;
    // A lease and a cancellation do not show in the stored phase.
    let held = bed.acquired(&bed.load(&run("brief-0")).await.unwrap()).await;
    bed.applied(&held.run, bed.cancel("ann")).await;
    bed.shows("all runs again", &expected, async || bed.list(&query).await).await;
}

pub(super) async fn runs_are_listed_by_workflow_and_phase(bed: &Bed<'_>) {
    let all = runs_of_all_kinds(bed).await;
    let workflows = [None, Some("brief"), Some("refund"), Some("unknown"), Some("brie"), Some("briefs")];
    for workflow in workflows.map(|name| name.map(|name| WorkflowName::new(name).unwrap())) {
        for phase in [None].into_iter().chain(Phase::ALL.map(Some)) {
            let query = ListQuery { workflow: workflow.clone(), phase, limit: 2, ..ListQuery::default() };
            let matches = |run: &&RunSummary| {
                workflow.as_ref().is_none_or(|workflow| *workflow == run.workflow)
                    && phase.is_none_or(|phase| phase == run.phase)
            };
            let expected: Vec<RunSummary> = all.iter().filter(matches).cloned().collect();
            bed.shows(&format!("{query:?}"), &expected, async || bed.list(&query).await).await;
        }
    }
}

pub(super) async fn runs_are_listed_by_the_time_of_their_start(bed: &Bed<'_>) {
    let all = runs_of_all_kinds(bed).await;
    let brief = WorkflowName::new("brief").unwrap();
    let (first, last) = (all.last().unwrap().started_at, all.first().unwrap().started_at);
    let middle = all[all.len() / 2].started_at;
    let times = [first, Timestamp(middle.0 - 1), middle, Timestamp(middle.0 + 1), last, Timestamp(last.0 + 1)];
    let times = || [None].into_iter().chain(times.map(Some)).chain([Some(Timestamp(0)), Some(Timestamp(u64::MAX))]);
    for started_from in times() {
        for started_before in times() {
            for workflow in [None, Some(brief.clone())] {
                let query = ListQuery { workflow, started_from, started_before, limit: 3, ..ListQuery::default() };
                let matches = |run: &&RunSummary| {
                    query.workflow.as_ref().is_none_or(|workflow| *workflow == run.workflow)
                        && started_from.is_none_or(|from| run.started_at >= from)
                        && started_before.is_none_or(|before| run.started_at < before)
                };
                let expected: Vec<RunSummary> = all.iter().filter(matches).cloned().collect();
                bed.shows(&format!("{query:?}"), &expected, async || bed.list(&query).await).await;
            }
        }
    }
}

pub(super) async fn runs_are_listed_in_pages_without_loss_or_repetition(bed: &Bed<'_>) {
    // All in one millisecond, then one each.
    for number in 0..31 {
        if number >= 20 {
            bed.advance(TICK);
        }
        bed.started(&format!("r{number}")).await;
    }
    let expected: Vec<RunId> = {
        let mut runs: Vec<RunId> = (0..31).map(|number| run(&format!("r{number}"))).collect();
        runs.sort();
        runs
    };
    for limit in [1, 7, 30, 31, 1_000] {
        let query = ListQuery { limit, ..ListQuery::default() };
        bed.shows(&format!("all runs in pages of {limit}"), &expected, async || {
            let found = bed.list(&query).await;
            assert!(found.is_sorted_by(|a, b| a.started_at >= b.started_at), "newest first");
            let mut runs: Vec<RunId> = found.into_iter().map(|found| found.run).collect();
            runs.sort();
            runs
        })
        .await;
    }
}

pub(super) async fn runs_that_start_between_two_pages_disturb_nothing(bed: &Bed<'_>) {
    let mut expected = Vec::new();
    for number in 0..10 {
        bed.advance(TICK);
        expected.push(bed.started(&format!("old-{number}")).await.run);
    }
    expected.reverse();
    let mut query = ListQuery { limit: 4, ..ListQuery::default() };
    let count = async || bed.list(&query).await.len();
    bed.shows("old runs", &10, count).await;
    let page = bed.store.list(&query).await.unwrap();
    let mut found: Vec<RunId> = page.items.into_iter().map(|found| found.run).collect();
    query.after = page.next;
    bed.advance(TICK);
    bed.started("new").await;
    let held = bed.acquired(&bed.load(&run("old-0")).await.unwrap()).await;
    bed.handed_off(&held, bed.completed()).await;
    found.extend(bed.list(&query).await.into_iter().map(|found| found.run));
    assert_eq!(found, expected);
}

pub(super) async fn a_token_of_no_page_is_invalid(bed: &Bed<'_>) {
    for number in 0..4 {
        bed.started(&format!("r{number}")).await;
    }
    let query = ListQuery { limit: 2, ..ListQuery::default() };
    bed.shows("runs", &4, async || bed.list(&query).await.len()).await;
    let given = bed.store.list(&query).await.unwrap().next.expect("there is another page");
    let brief = Some(WorkflowName::new("brief").unwrap());
    let queries = [
        ListQuery { after: Some("nonsense".into()), ..query.clone() },
        ListQuery { after: Some(String::new()), ..query.clone() },
        ListQuery { after: Some(format!("{given}x/y")), ..query.clone() },
        ListQuery { after: Some(given.clone()), workflow: brief, ..query.clone() },
        ListQuery { after: Some(given), phase: Some(Phase::Created), ..query },
    ];
    for query in queries {
        let answer = bed.store.list(&query).await;
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{query:?} is invalid, the answer is {answer:?}");
    }
}

pub(super) async fn a_page_of_no_size_is_invalid(bed: &Bed<'_>) {
    bed.started("r").await;
    for limit in [0, PAGE_MAX + 1, usize::MAX] {
        let due = bed.store.due(END, limit, None).await;
        assert!(matches!(due, Err(StoreError::Invalid(_))), "{limit} due runs are invalid, the answer is {due:?}");
        let listed = bed.store.list(&ListQuery { limit, ..ListQuery::default() }).await;
        assert!(matches!(listed, Err(StoreError::Invalid(_))), "{limit} runs are invalid, the answer is {listed:?}");
    }
}
