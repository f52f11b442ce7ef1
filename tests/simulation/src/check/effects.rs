//! What runs say of their effects, against the outside's own book.

use std::collections::{BTreeMap, BTreeSet};

use stepwell_core::history::LineOutcome;
use stepwell_core::write::Write;
use stepwell_core::{EffectRecord, Outcome, RunId, Status, Timestamp};

use super::{Evidence, Findings, of_run};
use crate::Wrong;
use crate::tape::{Answer, Asked, Call, Op, Promise, Seen};

/// How often a person may have said that a key is to be called again.
fn tries_again(evidence: &Evidence, of: &str) -> usize {
    let is_leave = |op: &&Op| {
        let leave = matches!(&op.asked, Asked::Resolve(key, "try-again") if key.as_str() == of);
        leave && !matches!(op.answer, Answer::Refused(_))
    };
    evidence.recorded.ops.iter().filter(is_leave).count()
}

fn by_key(evidence: &Evidence) -> BTreeMap<&str, Vec<&Call>> {
    let mut calls = BTreeMap::<&str, Vec<&Call>>::new();
    for call in &evidence.recorded.calls {
        calls.entry(&call.key).or_default().push(call);
    }
    calls
}

/// Invariant 3: What promises nothing is called once, calls aside whose caller was told that nothing was done; what has a key is called under one key, with one set of parameters.
pub(super) fn one_key_and_once(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::of(3);
    let mut keys = BTreeMap::<(&RunId, &str), BTreeSet<&str>>::new();
    for (key, calls) in by_key(evidence) {
        let Some(first) = calls.first() else { continue };
        let what = || format!("{}: {} ({key})", first.run, first.name);
        let parameters: BTreeSet<&str> = calls.iter().map(|call| &*call.parameters).collect();
        found.must(parameters.len() == 1, || format!("{} was called with {parameters:?}", what()));
        if first.promise == Promise::Once {
            let allowed = 1 + tries_again(evidence, key);
            let times: Vec<Timestamp> = calls.iter().filter(|call| !call.declined).map(|call| call.at).collect();
            found.must(times.len() <= allowed, || {
                format!("{} was called at {times:?}, {allowed} times allowed", what())
            });
        }
        if first.keyed {
            keys.entry((&first.run, first.name)).or_default().insert(key);
        }
    }
    for ((run, name), keys) in keys {
        found.must(keys.len() == 1, || format!("{run}: {name} was called under {keys:?}"));
    }
    found.found()
}

/// Invariant 4: What may have happened is never called a failure, and never happens twice; what is called a success has happened.
pub(super) fn never_guessed(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::of(4);
    let by_key = by_key(evidence);
    for (key, calls) in &by_key {
        let times: Vec<Timestamp> = calls.iter().filter_map(|call| call.acted).collect();
        let Some(first) = calls.first() else { continue };
        found.must(first.promise == Promise::Read || times.len() <= 1, || {
            format!("{}: {} ({key}) happened at {times:?}", first.run, first.name)
        });
    }
    // What is called anew after it was refused, by a person's word, may happen then.
    let has_acted = |key: &str, by: Timestamp| {
        by_key.get(key).is_some_and(|calls| calls.iter().any(|call| call.at <= by && call.acted.is_some()))
    };
    for end in &evidence.finals {
        let mut judged = BTreeSet::<(String, &str)>::new();
        for Seen { at, after, .. } in of_run(evidence, end) {
            for record in after.progress.journal.iter().chain(&after.progress.ledger).filter(|it| it.class.acts()) {
                let (key, outcome) = (record.key.as_str(), record.outcome.as_str());
                if record.is_unknown() || !judged.insert((key.to_owned(), outcome)) {
                    continue;
                }
                let failed = matches!(record.outcome, Outcome::Failed(_));
                found.must(failed != has_acted(key, *at), || {
                    format!(
                        "{}: at {at} {} ({key}) is {outcome}; it was called: {:?}",
                        after.run,
                        record.name,
                        by_key.get(key)
                    )
                });
            }
        }
        if let Status::Cancelled { certificate, .. } = &end.checkpoint.progress.status {
            for line in certificate.never_sent.iter().filter(|line| line.outcome == LineOutcome::Failed) {
                let acted = line.key.as_ref().is_some_and(|key| has_acted(key.as_str(), evidence.ended_at));
                found.must(!acted, || {
                    format!("{}: {} is certified as never sent, and acted", end.checkpoint.run, line.name)
                });
            }
        }
    }
    found.found()
}

/// Invariant 5: What is recorded is not called again, by anybody who has taken the run up since.
pub(super) fn never_computed_again(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::of(5);
    for end in &evidence.finals {
        let mut recorded = BTreeMap::<&str, Timestamp>::new();
        let mut acquires = Vec::new();
        for seen in of_run(evidence, end) {
            if matches!(seen.request.write, Write::Acquire(_)) {
                acquires.push(seen);
            }
            let progress = &seen.after.progress;
            let is_known = |record: &&EffectRecord| matches!(record.outcome, Outcome::Succeeded(_));
            for record in progress.journal.iter().chain(&progress.ledger).filter(is_known) {
                recorded.entry(record.key.as_str()).or_insert(seen.at);
            }
        }
        for call in evidence.recorded.calls.iter().filter(|call| call.run == end.checkpoint.run) {
            let Some(since) = recorded.get(&*call.key).filter(|since| **since < call.at) else { continue };
            let mine = acquires.iter().rfind(|seen| seen.by == call.by && seen.at <= call.at);
            found.must(mine.is_none_or(|mine| mine.at <= *since), || {
                format!(
                    "{}: {} calls {} at {}, whose result is recorded since {since}",
                    call.run, call.by, call.name, call.at
                )
            });
        }
    }
    found.found()
}
