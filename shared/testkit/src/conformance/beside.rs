//! What lies beside a checkpoint: log entries, history segments, spilled effects.

use stepwell_core::history::{Entry, EntryKind, More, Segment};
use stepwell_core::write::{LogAppend, Refusal, Write};
use stepwell_core::{
    Checkpoint, Class, EffectKey, EffectRecord, Json, LogId, Outcome, Payload, Revision, RunId, Scope, Status,
};

use super::bed::{Bed, LEASE, amended, boxed, json, run};

fn entries(texts: impl IntoIterator<Item = u64>) -> Vec<Json> {
    texts.into_iter().map(|number| json(&format!("{{\"n\": {number}}}"))).collect()
}

fn append(log: u32, first: u64, entries: Vec<Json>) -> LogAppend {
    LogAppend { log: LogId(log), first, entries }
}

async fn appended(bed: &Bed<'_>, held: &Checkpoint, appends: Vec<LogAppend>) -> Checkpoint {
    let mut commit = bed.carry_on(held);
    commit.appends = appends;
    bed.applied(&held.run, boxed(commit)).await
}

async fn log(bed: &Bed<'_>, run: &RunId, log: u32, first: u64, limit: usize) -> Vec<Json> {
    bed.store.log(run, LogId(log), first, limit).await.unwrap_or_else(|error| panic!("log {log} of {run}: {error}"))
}

pub(super) async fn a_log_is_read_in_order_and_in_ranges(bed: &Bed<'_>) {
    let mut held = bed.held("r").await;
    // Enough that an order by text instead of by number shows.
    for first in (0..120).step_by(8) {
        held = appended(bed, &held, vec![append(0, first, entries(first..first + 8))]).await;
    }
    let run = &held.run;
    assert_eq!(log(bed, run, 0, 0, 1_000).await, entries(0..120));
    assert_eq!(log(bed, run, 0, 0, 1).await, entries(0..1));
    assert_eq!(log(bed, run, 0, 95, 10).await, entries(95..105));
    assert_eq!(log(bed, run, 0, 119, 10).await, entries(119..120));
    assert_eq!(log(bed, run, 0, 120, 10).await, entries([]));
    assert_eq!(log(bed, run, 0, u64::MAX, 10).await, entries([]));
    assert_eq!(log(bed, &super::bed::run("unknown"), 0, 0, 10).await, entries([]));
}

pub(super) async fn a_log_ends_at_the_first_gap(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let held = appended(bed, &held, vec![append(0, 0, entries(0..2)), append(0, 3, entries(3..5))]).await;
    assert_eq!(log(bed, &held.run, 0, 0, 10).await, entries(0..2));
    assert_eq!(log(bed, &held.run, 0, 2, 10).await, entries([]));
    assert_eq!(log(bed, &held.run, 0, 3, 10).await, entries(3..5));
    let held = appended(bed, &held, vec![append(0, 2, entries(2..3))]).await;
    assert_eq!(log(bed, &held.run, 0, 0, 10).await, entries(0..5));
}

pub(super) async fn a_log_entry_of_a_crashed_step_is_overwritten(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let held = appended(bed, &held, vec![append(0, 0, entries(0..5))]).await;
    // The state that was written then counts two of the five: the next step appends from there.
    let held = appended(bed, &held, vec![append(0, 2, entries(20..22))]).await;
    assert_eq!(log(bed, &held.run, 0, 0, 4).await, entries([0, 1, 20, 21]));
}

pub(super) async fn logs_of_one_run_and_of_many_are_apart(bed: &Bed<'_>) {
    for (number, name) in [(0, "r"), (1, "r1"), (2, "r.1"), (3, "r:0")] {
        let held = bed.held(name).await;
        let held =
            appended(bed, &held, vec![append(1, 0, entries([number])), append(11, 0, entries([number, 7]))]).await;
        appended(bed, &held, vec![append(u32::MAX, 0, entries([number, 8, 9]))]).await;
    }
    for (number, name) in [(0, "r"), (1, "r1"), (2, "r.1"), (3, "r:0")] {
        let run = run(name);
        assert_eq!(log(bed, &run, 0, 0, 10).await, entries([]), "log 0 of {name}");
        assert_eq!(log(bed, &run, 1, 0, 10).await, entries([number]), "log 1 of {name}");
        assert_eq!(log(bed, &run, 11, 0, 10).await, entries([number, 7]), "log 11 of {name}");
        assert_eq!(log(bed, &run, u32::MAX, 0, 10).await, entries([number, 8, 9]), "the last log of {name}");
    }
}

/// A worker that lost its lease, and writes all the same. What its commit would have written may be seen where nothing else
/// is, but never in the place of what counts.
pub(super) async fn a_refused_commit_changes_nothing_that_counts(bed: &Bed<'_>) {
    let old = bed.held("r").await;
    bed.advance(LEASE);
    let new = bed.acquired(&old).await;
    let run = &new.run;
    let mut good = bed.carry_on(&new);
    good.appends = vec![append(0, 0, entries(0..3))];
    good.segment = Some(segment(1, 2, "good"));
    good.spill = vec![record(run, "mail", "good")];
    let mut stale = good.clone();
    stale.appends = vec![append(0, 0, entries(90..95))];
    stale.segment = Some(segment(1, 1, "stale"));
    stale.spill = vec![record(run, "mail", "stale")];
    let committed = bed.applied(run, boxed(good)).await;

    let fenced = stepwell_core::write::Commit { fence: old.hold.fence, after: old.progress.revision, ..stale.clone() };
    bed.refused(run, boxed(fenced), Refusal::Fenced).await;
    let repeated = stale.clone();
    bed.refused(run, boxed(repeated), Refusal::Revision).await;
    let free = bed.handed_off(&committed, Status::Running).await;
    let released = stepwell_core::write::Commit { after: free.progress.revision, ..stale };
    bed.refused(run, boxed(released), Refusal::Released).await;

    assert_eq!(log(bed, run, 0, 0, 3).await, entries(0..3));
    assert_eq!(history(bed, run, 0, 10).await, [segment(1, 2, "good")]);
    let key = record(run, "mail", "good").key;
    assert_eq!(bed.store.effect(run, &key).await, Ok(Some(record(run, "mail", "good"))));
}

fn segment(from: u64, length: u64, step: &str) -> Segment {
    let entry = |number| {
        let note = (number % 2 == 1).then(|| format!("note \"{number}\" – ok"));
        let more = More { note, ..More::default() };
        Entry { step: step.into(), kind: EntryKind::Stepped, at: number * 10, took: number, more }
    };
    Segment { from: Revision(from), at: super::BEGIN, entries: (0..length).map(entry).collect() }
}

/// All segments from this revision on, read in pages of `limit`.
async fn history(bed: &Bed<'_>, run: &RunId, from: u64, limit: usize) -> Vec<Segment> {
    let (mut found, mut from) = (Vec::new(), Revision(from));
    loop {
        let page =
            bed.store.history(run, from, limit).await.unwrap_or_else(|error| panic!("history of {run}: {error}"));
        assert!(page.len() <= limit, "a page of at most {limit} has {} segments", page.len());
        let more = page.len() == limit;
        found.extend(page);
        assert!(found.len() < 1_000, "the pages do not end");
        match found.last() {
            Some(last) if more => from = last.end(),
            Some(_) | None => return found,
        }
    }
}

/// Twelve segments of ten entries each: the revisions 1 to 120.
async fn with_history(bed: &Bed<'_>) -> (RunId, Vec<Segment>) {
    let mut held = bed.held("r").await;
    let segments: Vec<Segment> = (0..12).map(|number| segment(1 + number * 10, 10, "Research")).collect();
    for segment in &segments {
        let mut commit = bed.carry_on(&held);
        commit.segment = Some(segment.clone());
        held = bed.applied(&held.run, boxed(commit)).await;
    }
    // Another run's history, to be left out.
    let other = bed.held("r1").await;
    let mut commit = bed.carry_on(&other);
    commit.segment = Some(segment(1, 3, "Other"));
    bed.applied(&other.run, boxed(commit)).await;
    (held.run, segments)
}

pub(super) async fn history_is_read_in_order_from_the_right_segment(bed: &Bed<'_>) {
    let (run, segments) = with_history(bed).await;
    for (from, first) in [(0, 0), (1, 0), (10, 0), (11, 1), (95, 9), (100, 9), (101, 10), (120, 11), (121, 12)] {
        assert_eq!(history(bed, &run, from, 100).await, segments[first..], "from revision {from}");
    }
    assert_eq!(history(bed, &run, u64::MAX, 100).await, []);
    assert_eq!(history(bed, &super::bed::run("unknown"), 0, 100).await, []);
}

pub(super) async fn history_is_read_in_pages(bed: &Bed<'_>) {
    let (run, segments) = with_history(bed).await;
    for limit in [1, 5, 12, 13] {
        assert_eq!(history(bed, &run, 0, limit).await, segments, "pages of {limit}");
    }
    let page = bed.store.history(&run, Revision(15), 3).await.unwrap();
    assert_eq!(page, segments[1..4]);
}

pub(super) async fn an_amendment_writes_its_segment(bed: &Bed<'_>) {
    let parked = bed.standing("r", bed.parked()).await;
    let mut amend = bed.amend(&parked);
    amend.segment = Some(segment(1, 16, "Research"));
    bed.applied(&parked.run, amended(amend)).await;
    assert_eq!(history(bed, &parked.run, 0, 10).await, [segment(1, 16, "Research")]);
}

fn record(run: &RunId, name: &str, result: &str) -> EffectRecord {
    let workflow = stepwell_core::WorkflowName::new("brief").unwrap();
    EffectRecord {
        key: EffectKey::derive(run, &workflow, name, Scope::Run("order-7")),
        name: name.into(),
        class: Class::Idempotent(Some(86_400_000)),
        parameters: Some(stepwell_core::Digest::of(b"parameters")),
        attempts: 2,
        outcome: Outcome::Succeeded(Payload::Inline(Json::of(result).unwrap())),
        until: Some(stepwell_core::Timestamp(1_700_000_000_000)),
        of_run: true,
        approval: None,
        costs: stepwell_core::Amounts::from([("cents".into(), 90)]),
        undo: Some(Json::of("Release").unwrap()),
        no_return: false,
        signed_off: None,
    }
}

pub(super) async fn a_spilled_effect_is_found_by_its_key(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let run = &held.run;
    let records: Vec<EffectRecord> = (0..20).map(|number| record(run, &format!("mail-{number}"), "sent")).collect();
    let mut commit = bed.carry_on(&held);
    commit.spill = records[..15].to_vec();
    let held = bed.applied(run, boxed(commit)).await;
    let mut commit = bed.hand_off(&held, Status::Running);
    commit.spill = records[15..].to_vec();
    let write: Write = boxed(commit);
    bed.applied(run, write).await;
    for record in &records {
        assert_eq!(bed.store.effect(run, &record.key).await, Ok(Some(record.clone())), "effect {}", record.name);
    }
    let other = self::record(&super::bed::run("r1"), "mail-0", "sent");
    assert_eq!(bed.store.effect(run, &other.key).await, Ok(None), "a key that was never spilled");
    bed.held("r1").await;
    assert_eq!(bed.store.effect(&super::bed::run("r1"), &records[0].key).await, Ok(None), "another run's key");
}
