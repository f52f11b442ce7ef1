//! Parked runs.

use stepwell_core::write::Write;
use stepwell_core::{Checkpoint, EffectRecord, ParkReason, Phase, SignalId, Status};

use super::{Evidence, Findings};
use crate::Wrong;
use crate::tape::Seen;

/// Invariant 9: A run is parked with all that it has, nobody works on it, and whoever lets it go on stands in its history.
pub(super) fn keeps_everything(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::of(9);
    for Seen { at, by, request, before, after } in &evidence.recorded.writes {
        let Some(before) = before else { continue };
        let run = &request.run;
        let [was_parked, is_parked] =
            [before, after].map(|checkpoint| checkpoint.progress.status.phase() == Phase::Parked);
        if was_parked {
            found.must(!matches!(request.write, Write::Acquire(_) | Write::Commit(_)), || {
                format!("{run}: {by} works on it at {at}, and it is parked")
            });
        }
        if was_parked && !is_parked {
            let recorded = after.progress.tail.end() == after.progress.revision.next();
            found.must(recorded && after.progress.revision > before.progress.revision, || {
                format!("{run}: {by} lets it go on at {at}, and its history does not say so")
            });
        }
        if is_parked && !was_parked {
            // What was not called after all is taken back by who meant to: it is no loss.
            let called = |record: &EffectRecord| {
                let mut calls = evidence.recorded.calls.iter();
                calls.any(|call| call.key == record.key.as_str() && call.at <= *at && !call.declined)
            };
            for lost in lost(before, after, &request.write, called) {
                found.must(false, || format!("{run}: it is parked at {at} without {lost}"));
            }
            if let Status::Parked { reason: ParkReason::Data { what }, .. } = &after.progress.status {
                found.must(!what.contains("is missing"), || format!("{run}: what it knows is gone at {at}: {what}"));
            }
        }
    }
    found.found()
}

/// What it had before, and has no more.
fn lost(before: &Checkpoint, after: &Checkpoint, write: &Write, called: impl Fn(&EffectRecord) -> bool) -> Vec<String> {
    let (old, new) = (&before.progress, &after.progress);
    let same_visit = old.visit == new.visit;
    let consumed: &[SignalId] = match write {
        Write::Commit(commit) => &commit.consumed,
        Write::Amend(amend) => &amend.consumed,
        Write::Start(_) | Write::Acquire(_) | Write::Renew(_) | Write::Signal(_) | Write::Cancel(_) => &[],
    };
    let mut lost = Vec::new();
    if same_visit && old.place != new.place {
        lost.push("its place".to_owned());
    }
    let keeps = |record: &EffectRecord| new.journal.iter().chain(&new.ledger).any(|kept| kept.key == record.key);
    let of_visit = old.journal.iter().filter(|record| same_visit || record.of_run);
    for record in of_visit.chain(&old.ledger).filter(|record| new.spilled == 0 && !keeps(record) && called(record)) {
        lost.push(format!("its effect {}", record.name));
    }
    for letter in before.mailbox.letters.iter().filter(|letter| !consumed.contains(&letter.id)) {
        if !after.mailbox.letters.contains(letter) {
            lost.push(format!("its signal {}", letter.id));
        }
    }
    lost
}
