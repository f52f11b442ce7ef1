//! Secrets.

use stepwell_core::{Outcome, Progress, Status};
use stepwell_testkit::broken::SECRET;

use super::{Evidence, Findings};
use crate::Wrong;

/// Invariant 11: What every call to the outside carries, and what its errors give back, is in no checkpoint, history, output or event of the log.
pub(super) fn never_written(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::of(11);
    for leak in &evidence.recorded.leaks {
        found.must(false, || format!("the secret is in {leak}"));
    }
    for seen in &evidence.recorded.writes {
        found.must(!texts(&seen.after.progress).any(|text| text.contains(SECRET)), || {
            format!("{}: the secret is in what {} writes at {}", seen.request.run, seen.by, seen.at)
        });
    }
    found.found()
}

/// Where a text of the outside may come to stand in a checkpoint. (What it stands in at the end is searched whole.)
fn texts(progress: &Progress) -> impl Iterator<Item = &str> {
    let status = match &progress.status {
        Status::Failed { failure, .. } => Some(&*failure.message),
        Status::Created
        | Status::Running
        | Status::Waiting(_)
        | Status::Retrying { .. }
        | Status::Parked { .. }
        | Status::Completed { .. }
        | Status::Cancelled { .. } => None,
    };
    let trouble = progress.trouble.iter().map(|trouble| &*trouble.last.message);
    let notes = progress.tail.entries.iter().filter_map(|entry| entry.more.note.as_deref());
    let effects = progress.journal.iter().chain(&progress.ledger).filter_map(|record| match &record.outcome {
        Outcome::Unknown { evidence, .. } => Some(&**evidence),
        Outcome::Failed(failure) => Some(&*failure.message),
        Outcome::Succeeded(_) => None,
    });
    status.into_iter().chain(trouble).chain(notes).chain(effects)
}
