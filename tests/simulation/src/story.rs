//! Words for what happens.

use stepwell_core::write::{Write, WriteRequest};
use stepwell_core::{Checkpoint, Status};

/// A write that was applied, in a line.
pub(crate) fn write(request: &WriteRequest, before: Option<&Checkpoint>, after: &Checkpoint) -> String {
    let run = short(request.run.as_str());
    let (progress, hold) = (&after.progress, &after.hold);
    let (fence, ticket, revision) = (hold.fence, progress.ticket, progress.revision);
    match &request.write {
        Write::Start(start) => format!("starts {run} ({})", start.workflow),
        Write::Acquire(_) => {
            format!("acquires {run} at {} under fence {fence}, ticket {ticket}", progress.place.step())
        }
        Write::Renew(renew) => format!("renews {run} until {}", renew.until),
        Write::Commit(_) => {
            let step = before.map_or_else(String::new, |before| before.progress.place.step());
            let last = progress.tail.entries.last().map_or("nothing", |entry| entry.kind.as_str());
            let lease = if hold.lease.is_some() { "held on to" } else { "let go" };
            format!(
                "commits {run} {step}: {last}; revision {revision}, fence {fence}, ticket {ticket}, {lease}; {}",
                status(after)
            )
        }
        Write::Signal(letter) => {
            format!("puts {} ({}) into the mailbox of {run}", letter.name, short(letter.id.as_str()))
        }
        Write::Cancel(_) => format!("asks for the end of {run}"),
        Write::Amend(_) => {
            let last = progress.tail.entries.last();
            let kind = last.map_or("nothing", |entry| entry.kind.as_str());
            let note = last.and_then(|entry| entry.more.note.clone()).unwrap_or_default();
            format!("amends {run}: {kind} ({note}); revision {revision}, ticket {ticket}; {}", status(after))
        }
    }
}

fn status(after: &Checkpoint) -> String {
    match &after.progress.status {
        Status::Created => "created".into(),
        Status::Running => format!("on to {}", after.progress.place.step()),
        Status::Waiting(wait) => match wait.wakes_at() {
            Some(at) => format!("waits until {at}"),
            None => "waits".into(),
        },
        Status::Retrying { at } => {
            let why = after.progress.trouble.as_ref().map(|trouble| trouble.last.to_string()).unwrap_or_default();
            format!("again at {at}: {why}")
        }
        Status::Parked { reason, .. } => format!("parked: {reason}"),
        Status::Completed { .. } => "completed".into(),
        Status::Failed { failure, .. } => format!("failed: {failure}"),
        Status::Cancelled { .. } => "cancelled".into(),
    }
}

/// The first characters of an id: enough to tell one from another within a world.
pub(crate) fn short(id: &str) -> &str {
    id.get(..10).unwrap_or(id)
}
