//! The heart of the suite: long random sequences of writes, each put to the backend and to the definition. Whatever is
//! answered or read must be the same after every single one.

use std::collections::BTreeMap;

use stepwell_core::decide::DueRun;
use stepwell_core::history::Segment;
use stepwell_core::write::{Write, WriteRequest, apply, is_applied};
use stepwell_core::{
    Checkpoint, EffectKey, EffectRecord, Json, LogId, Phase, Revision, RunId, Timestamp, WorkflowName, invariants,
};
use stepwell_ports::{CheckpointStore, ListQuery, RunSummary, Written};

use super::bed::{Bed, END, same};
use super::generator::{Generator, Weights};

/// Requests of one sequence.
const REQUESTS: usize = 400;

/// Indexes and what lies beside the checkpoints are compared after this many requests.
const LOOK_EVERY: usize = 20;

/// Sequences of each kind.
const SEEDS: u64 = 4;

const QUIET: Weights =
    Weights { acquire: 30, commit: 40, renew: 6, signal: 10, cancel: 3, amend: 6, start: 1, repeat: 5, stale: 5 };
const MANY_SIGNALS: Weights =
    Weights { acquire: 10, commit: 2, renew: 2, signal: 80, cancel: 1, amend: 4, start: 1, repeat: 5, stale: 5 };
const RIVALS: Weights =
    Weights { acquire: 35, commit: 35, renew: 10, signal: 8, cancel: 8, amend: 8, start: 2, repeat: 30, stale: 30 };

pub(super) async fn random_writes_on_a_quiet_table(bed: &Bed<'_>) {
    sequences(bed, QUIET).await;
}

pub(super) async fn random_writes_with_many_signals(bed: &Bed<'_>) {
    sequences(bed, MANY_SIGNALS).await;
}

pub(super) async fn random_writes_of_rivals(bed: &Bed<'_>) {
    sequences(bed, RIVALS).await;
}

async fn sequences(bed: &Bed<'_>, weights: Weights) {
    for seed in 1..=SEEDS {
        let bed = Bed::fresh(bed.factory).await;
        sequence(&bed, seed, weights).await;
    }
}

async fn sequence(bed: &Bed<'_>, seed: u64, weights: Weights) {
    let (mut model, mut generator) = (Model::default(), Generator::new(seed));
    for number in 1..=REQUESTS {
        let request = generator.request(&model, weights);
        let place = || format!("seed {seed}, request {number}, {request:?}");
        let expected = model.apply(&request);
        let answer = bed.store.write(&request).await.unwrap_or_else(|error| panic!("{}: {error}", place()));
        same(&answer, &expected, || format!("the answer at {}", place()));
        let stored = bed.load(&request.run).await;
        same(&stored.as_ref(), &model.runs.get(&request.run), || format!("stored after {}", place()));
        if number % LOOK_EVERY == 0 {
            compare_indexes(bed, &model, &mut generator, &place()).await;
            compare_beside(bed, &model, &place()).await;
        }
    }
}

/// What a store holds, by the definition.
#[derive(Default)]
pub(super) struct Model {
    pub(super) runs: BTreeMap<RunId, Checkpoint>,
    entries: BTreeMap<(RunId, LogId), BTreeMap<u64, Json>>,
    segments: BTreeMap<RunId, BTreeMap<Revision, Segment>>,
    effects: BTreeMap<(RunId, EffectKey), EffectRecord>,
}

impl Model {
    fn apply(&mut self, request: &WriteRequest) -> Written {
        let (run, before) = (&request.run, self.runs.get(&request.run));
        let Ok(next) = apply(before, request) else {
            return Written::Refused(before.cloned().map(Box::new));
        };
        let repeated = before.is_some_and(|before| is_applied(before, request));
        invariants::check(&next).expect("the generator stays within the invariants");
        self.runs.insert(run.clone(), next.clone());
        if !repeated {
            self.put_beside(request);
        }
        Written::Applied(Box::new(next))
    }

    fn put_beside(&mut self, request: &WriteRequest) {
        let run = &request.run;
        let segment = match &request.write {
            Write::Commit(commit) => {
                for append in &commit.appends {
                    let log = self.entries.entry((run.clone(), append.log)).or_default();
                    log.extend((append.first..).zip(append.entries.iter().cloned()));
                }
                let keyed = |record: &EffectRecord| ((run.clone(), record.key.clone()), record.clone());
                self.effects.extend(commit.spill.iter().map(keyed));
                commit.segment.as_ref()
            }
            Write::Amend(amend) => amend.segment.as_ref(),
            Write::Start(_) | Write::Acquire(_) | Write::Renew(_) | Write::Signal(_) | Write::Cancel(_) => None,
        };
        if let Some(segment) = segment {
            self.segments.entry(run.clone()).or_default().insert(segment.from, segment.clone());
        }
    }

    pub(super) fn log_length(&self, run: &RunId, log: LogId) -> u64 {
        self.entries.get(&(run.clone(), log)).map_or(0, |entries| entries.len() as u64)
    }

    pub(super) fn last_segment(&self, run: &RunId) -> Option<&Segment> {
        self.segments.get(run)?.values().next_back()
    }

    fn due(&self, until: Timestamp) -> Vec<DueRun> {
        let mut due: Vec<DueRun> =
            self.runs.values().filter_map(DueRun::of).filter(|due| due.due_at <= until).collect();
        due.sort_by_key(|due| (due.due_at, due.run.clone()));
        due
    }

    fn list(&self, query: &ListQuery) -> Vec<RunSummary> {
        let summary = |checkpoint: &Checkpoint| RunSummary {
            run: checkpoint.run.clone(),
            workflow: checkpoint.workflow.clone(),
            phase: checkpoint.progress.status.phase(),
            started_at: checkpoint.started_at,
            wakes_at: checkpoint.wakes_at(),
        };
        let mut found: Vec<RunSummary> = self.runs.values().map(summary).collect();
        found.retain(|found| {
            query.workflow.as_ref().is_none_or(|workflow| *workflow == found.workflow)
                && query.phase.is_none_or(|phase| phase == found.phase)
        });
        found.sort_by_key(newest_first);
        found
    }
}

fn newest_first(found: &RunSummary) -> (std::cmp::Reverse<Timestamp>, RunId) {
    (std::cmp::Reverse(found.started_at), found.run.clone())
}

async fn compare_indexes(bed: &Bed<'_>, model: &Model, generator: &mut Generator, place: &str) {
    let marks: Vec<Timestamp> = model.runs.values().filter_map(|checkpoint| checkpoint.due_at).collect();
    for until in [generator.pick(&marks).unwrap_or_default(), END] {
        bed.shows(&format!("due until {until} at {place}"), &model.due(until), async || {
            let mut found = bed.due(until, 2).await;
            assert!(found.is_sorted_by_key(|due| due.due_at), "earliest mark first at {place}");
            found.sort_by_key(|due| (due.due_at, due.run.clone()));
            found
        })
        .await;
    }
    let brief = WorkflowName::new("brief").unwrap();
    let phase = generator.pick(&Phase::ALL);
    for (workflow, phase) in [(None, None), (Some(brief.clone()), None), (None, phase), (Some(brief), phase)] {
        let query = ListQuery { workflow, phase, limit: 2, ..ListQuery::default() };
        bed.shows(&format!("{query:?} at {place}"), &model.list(&query), async || {
            let mut found = bed.list(&query).await;
            assert!(found.is_sorted_by(|a, b| a.started_at >= b.started_at), "newest first at {place}");
            found.sort_by_key(newest_first);
            found
        })
        .await;
    }
}

/// What counts has to be there. What a refused commit has left where nothing counts may be there.
async fn compare_beside(bed: &Bed<'_>, model: &Model, place: &str) {
    for ((run, log), entries) in &model.entries {
        let expected: Vec<Json> = entries.values().cloned().collect();
        let found =
            bed.store.log(run, *log, 0, expected.len()).await.unwrap_or_else(|error| panic!("{place}: {error}"));
        same(&found, &expected, || format!("log {log} of {run} at {place}"));
    }
    for (run, segments) in &model.segments {
        let found = all_segments(bed.store.as_ref(), run).await;
        let found: Vec<&Segment> = found.iter().filter(|found| segments.contains_key(&found.from)).collect();
        same(&found, &segments.values().collect(), || format!("history of {run} at {place}"));
    }
    for ((run, key), record) in &model.effects {
        let found = bed.store.effect(run, key).await.unwrap_or_else(|error| panic!("{place}: {error}"));
        same(&found.as_ref(), &Some(record), || format!("effect {key} of {run} at {place}"));
    }
}

async fn all_segments(store: &dyn CheckpointStore, run: &RunId) -> Vec<Segment> {
    let (mut found, mut from): (Vec<Segment>, _) = (Vec::new(), Revision(0));
    loop {
        let page = store.history(run, from, 7).await.unwrap_or_else(|error| panic!("history of {run}: {error}"));
        let more = page.len() == 7;
        found.extend(page);
        match found.last() {
            Some(last) if more => from = last.end(),
            Some(_) | None => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use stepwell_core::write::Refusal;
    use stepwell_core::write::check;

    use super::*;

    /// A sequence is worth its time only if it goes everywhere: each write accepted, repeated, and refused for each
    /// reason. (That there is no such run has a case of its own.)
    #[test]
    fn the_sequences_go_everywhere() {
        let mut tried = BTreeSet::new();
        for weights in [QUIET, MANY_SIGNALS, RIVALS] {
            for seed in 1..=SEEDS {
                let (mut model, mut generator) = (Model::default(), Generator::new(seed));
                for _ in 0..REQUESTS {
                    let request = generator.request(&model, weights);
                    let before = model.runs.get(&request.run);
                    let repeated = before.is_some_and(|before| is_applied(before, &request));
                    let outcome = if repeated { "repeated".into() } else { format!("{:?}", check(before, &request)) };
                    if outcome == "Ok(())" {
                        tried.extend(before.and_then(|before| attempt_held_on_to(before, &request.write)));
                    }
                    tried.insert(format!("{} {outcome}", kind(&request.write)));
                    model.apply(&request);
                }
            }
        }
        let expected = [
            ("start", vec![Refusal::Exists]),
            ("acquire", vec![Refusal::Ended, Refusal::Parked, Refusal::Ticket, Refusal::Leased, Refusal::NotDue]),
            ("renew", vec![Refusal::Fenced, Refusal::Released]),
            (
                "commit",
                vec![Refusal::Fenced, Refusal::Released, Refusal::Revision, Refusal::Cancelled, Refusal::MailboxMoved],
            ),
            ("signal", vec![Refusal::Duplicate, Refusal::Ended, Refusal::MailboxFull]),
            ("cancel", vec![Refusal::Ended]),
            ("amend", vec![Refusal::Ended, Refusal::Leased, Refusal::Revision]),
        ];
        for (kind, refusals) in expected {
            assert!(tried.contains(&format!("{kind} Ok(())")), "{kind} is never accepted");
            for refusal in refusals {
                assert!(tried.contains(&format!("{kind} Err({refusal:?})")), "{kind} is never refused for {refusal:?}");
            }
        }
        for kind in ["start", "acquire", "renew", "commit", "amend"] {
            assert!(tried.contains(&format!("{kind} repeated")), "{kind} is never repeated");
        }
        for attempt in ["a first attempt", "one after a crash"] {
            assert!(tried.contains(attempt), "there is no intent in {attempt}");
        }
    }

    /// In which attempt a commit is an intent, if it is one: of the same visit, and the lease is kept.
    fn attempt_held_on_to(before: &Checkpoint, write: &Write) -> Option<String> {
        let Write::Commit(commit) = write else { return None };
        let is_intent = commit.progress.visit == before.progress.visit && commit.lease.is_some();
        let attempt = if before.crashed_since().is_some() { "one after a crash" } else { "a first attempt" };
        is_intent.then(|| attempt.to_owned())
    }

    const fn kind(write: &Write) -> &'static str {
        match write {
            Write::Start(_) => "start",
            Write::Acquire(_) => "acquire",
            Write::Renew(_) => "renew",
            Write::Commit(_) => "commit",
            Write::Signal(_) => "signal",
            Write::Cancel(_) => "cancel",
            Write::Amend(_) => "amend",
        }
    }
}
