//! What to do with a message that the queue has given up on.
//!
//! A dead letter is about a message, not about its run: most often the run is well, or long over. So the run is looked at
//! before anybody believes that it is dead.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use core::time::Duration;

use super::{Draft, Illegal, Send, Verdict, refused};
use crate::checkpoint::Checkpoint;
use crate::history::{EntryKind, More};
use crate::message::Message;
use crate::status::{ParkReason, Status};
use crate::time::Timestamp;
use crate::write::Amend;

/// Before the message of a run that cannot be parked is sent again: one that is buried each time must not go round and
/// round as fast as the queues can.
const PAUSE: Duration = Duration::from_mins(1);

/// Characters of a reason that are kept: it rides in the checkpoint and in the history.
const REASON_CHARS_MAX: usize = 1_024;

/// What to do with a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadLetter {
    /// A person has to look: leave it where it is.
    Keep {
        /// Why.
        why: String,
    },
    /// Its run has ended, is parked, has moved on, or is woken by something else.
    Delete,
    /// The run may be well, and this may be the last message that knows of it: send this, then delete the letter.
    Send(Send),
    /// It was buried for a reason that still stands: write this, which parks the run, then delete the letter.
    Park(Box<Amend>),
}

/// Decides on a dead letter. `reason` is why a worker has buried it; there is none where the queue gave it up by itself,
/// after many receives. The number of receives decides nothing: limits on retries and poison are in the checkpoint.
///
/// # Errors
/// [`Illegal`] when the table of transitions does not let the run be parked: a defect.
pub fn dead_letter(
    current: Option<&Checkpoint>,
    message: &Message,
    reason: Option<&str>,
    now: Timestamp,
    random: u64,
) -> Result<DeadLetter, Illegal> {
    if let (Some(current), Some(reason)) = (current, reason)
        && is_stuck(current, message, now)
    {
        return park(current, reason, now);
    }
    Ok(match refused(current, message, now, random) {
        Verdict::Bury(why) => DeadLetter::Keep { why: why.to_string() },
        Verdict::Violation(why) => DeadLetter::Keep { why },
        Verdict::Delete => DeadLetter::Delete,
        Verdict::SendThenDelete(send) => DeadLetter::Send(send),
        Verdict::TryAgain => {
            let delay = if reason.is_some() { PAUSE } else { Duration::ZERO };
            DeadLetter::Send(Send { ticket: message.ticket, delay })
        }
    })
}

/// Whether what was said of the message is true of the run as it stands: it has not moved on, nobody works on it, and a
/// worker would run its step again.
///
/// No step runs for a run that is to be cancelled and has nothing to ask and nothing to take back, or that waits on. Those are not
/// parked: the one is to end, and the other would forget its wait.
fn is_stuck(current: &Checkpoint, message: &Message, now: Timestamp) -> bool {
    let status = &current.progress.status;
    let waits_on = match status {
        Status::Waiting(wait) => !wait.is_over(now) && !current.mailbox.holds_any(&wait.on),
        Status::Created
        | Status::Running
        | Status::Retrying { .. }
        | Status::Parked { .. }
        | Status::Completed { .. }
        | Status::Failed { .. }
        | Status::Cancelled { .. } => false,
    };
    let is_to_end = current.is_to_end() && !super::ending::can_ask(current);
    status.is_live() && current.progress.ticket == message.ticket && !current.is_leased(now) && !is_to_end && !waits_on
}

/// Place, journal, mailbox, and what a crashed attempt may have done stay as they are: resuming needs them.
fn park(current: &Checkpoint, reason: &str, now: Timestamp) -> Result<DeadLetter, Illegal> {
    let step = current.progress.place.step();
    let said: String = reason.chars().take(REASON_CHARS_MAX).collect();
    let reason = ParkReason::Data { what: alloc::format!("its message was given up: {said}") };
    let note = Some(reason.to_string());
    let mut draft = Draft::new(current, now);
    draft.become_status(Status::Parked { reason, at: now }, &step)?;
    draft.record(step, EntryKind::Parked, Duration::ZERO, More { note, ..More::default() });
    Ok(DeadLetter::Park(Box::new(draft.into_amend())))
}
