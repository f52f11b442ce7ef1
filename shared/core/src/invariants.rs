//! What must hold for any checkpoint, checked before a commit and after a load. A broken one is a defect in the engine or
//! damage to the store; it is reported by number, never written.

use alloc::string::String;

use crate::checkpoint::Checkpoint;
use crate::limits::{LEDGER_RECORDS_MAX, MAILBOX_LETTERS_MAX, SIGNALS_SEEN_MAX, TAIL_ENTRIES_MAX};
use crate::status::Status;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("run {run}: invariant {number} is broken: {what}; nothing was written, please report it")]
pub struct Broken {
    /// Which run.
    pub run: String,
    /// Which invariant, as numbered in [`check`].
    pub number: u8,
    /// What it says.
    pub what: &'static str,
}

/// Checks them all.
pub fn check(checkpoint: &Checkpoint) -> Result<(), Broken> {
    let progress = &checkpoint.progress;
    let status = &progress.status;
    let wait = match status {
        Status::Waiting(wait) => Some(wait),
        Status::Created
        | Status::Running
        | Status::Retrying { .. }
        | Status::Parked { .. }
        | Status::Completed { .. }
        | Status::Failed { .. }
        | Status::Cancelled { .. } => None,
    };
    // One that a spent budget has cut short goes on where it was.
    let waits = || wait.into_iter().chain(progress.spent.cut_wait.as_deref());
    let rules: [(u8, &'static str, bool); 9] = [
        (1, "only a live run is leased", checkpoint.hold.lease.is_none() || status.is_live()),
        (2, "a run has a ticket", progress.ticket.0 >= 1),
        (3, "a step that ended was committed", progress.visit.0 <= progress.revision.0),
        (4, "a wait names a signal or a time", waits().all(|wait| !wait.on.is_empty() || wait.until.is_some())),
        (5, "a wait has seen no signal that has not come", waits().all(|wait| wait.seen <= checkpoint.mailbox.seq)),
        (
            6,
            "a run that may wake by itself has a mark not before it",
            !status.is_live() || checkpoint.due_at.is_some() || wait.is_some_and(|wait| wait.wakes_at().is_none()),
        ),
        (
            7,
            "the mailbox is bounded",
            checkpoint.mailbox.letters.len() <= MAILBOX_LETTERS_MAX
                && checkpoint.mailbox.seen.len() <= SIGNALS_SEEN_MAX,
        ),
        (8, "the tail is bounded", progress.tail.entries.len() <= TAIL_ENTRIES_MAX),
        (9, "the ledger is bounded", progress.ledger.len() <= LEDGER_RECORDS_MAX),
    ];
    match rules.into_iter().find(|(_, _, holds)| !holds) {
        Some((number, what, _)) => Err(Broken { run: checkpoint.run.as_str().into(), number, what }),
        None => Ok(()),
    }
}
