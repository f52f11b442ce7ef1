//! What to do with a queue message whose acquire was refused, and whom to wake after a signal.
//!
//! This is the protocol's table of what a worker does with a message, row by row.

use alloc::string::String;
use core::time::Duration;

use super::{Send, wake_up};
use crate::checkpoint::Checkpoint;
use crate::ids::Ticket;
use crate::limits::MESSAGE_DELAY_MAX;
use crate::message::Message;
use crate::time::Timestamp;

/// Spread of the delay after which a message that met a live lease comes again, so that many do not come at once.
const JITTER: Duration = Duration::from_millis(250);

/// What to do with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has nothing to say any more.
    Delete,
    /// Send this, and only then delete the message at hand.
    SendThenDelete(Send),
    /// To the dead-letter queue, with the reason.
    Bury(Bury),
    /// The write should have been accepted: try the acquire again.
    TryAgain,
    /// The protocol is violated: leave the message, it comes again; tell a person.
    Violation(String),
}

/// Why a message goes to the dead-letter queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Bury {
    /// The table has no such run. That is another answer than "the table could not be read".
    #[error("there is no such run: it was deleted, or the message is from another deployment")]
    NoSuchRun,
}

/// Decides on a message whose acquire was refused, from the checkpoint that refused it.
pub fn refused(current: Option<&Checkpoint>, message: &Message, now: Timestamp, random: u64) -> Verdict {
    let Some(current) = current else {
        return Verdict::Bury(Bury::NoSuchRun);
    };
    let (status, ticket) = (&current.progress.status, current.progress.ticket);
    if !status.is_live() {
        return Verdict::Delete;
    }
    if message.ticket > ticket {
        return Verdict::Violation(alloc::format!(
            "run {}: a message has ticket {}, the checkpoint only {ticket}",
            current.run,
            message.ticket
        ));
    }
    if message.ticket.next() < ticket {
        return Verdict::Delete;
    }
    // From here on the message is the current one, or the one before it, whose sender may have died between its
    // hand-off and the send. Both have to leave behind a message that will be good, wherever the run may go on.
    if let Some(lease) = current.hold.lease.as_ref().filter(|lease| lease.until > now) {
        let jitter = Duration::from_millis(random % u64::try_from(JITTER.as_millis()).unwrap_or(1));
        let delay = (lease.until.since(now) + jitter).min(MESSAGE_DELAY_MAX);
        return Verdict::SendThenDelete(Send { ticket, delay });
    }
    let due = current.is_due(now);
    match (message.ticket == ticket, due) {
        (true, true) => Verdict::TryAgain,
        (false, true) => Verdict::SendThenDelete(Send { ticket, delay: Duration::ZERO }),
        (_, false) => wake_up(status, ticket, now).map_or(Verdict::Delete, Verdict::SendThenDelete),
    }
}

/// After a signal or a cancellation was accepted: the message to send, if the run is due and nobody holds it. A holder
/// learns of it from its own next write.
pub fn wake(after: &Checkpoint, now: Timestamp) -> Option<Send> {
    let ticket: Ticket = after.progress.ticket;
    (after.is_due(now) && !after.is_leased(now)).then_some(Send { ticket, delay: Duration::ZERO })
}
