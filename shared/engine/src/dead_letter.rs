//! What becomes of a message that the queue has given up on.

use stepwell_core::decide::{self, DeadLetter};
use stepwell_core::write::Write;
use stepwell_core::{Message, Phase};
use stepwell_ports::StoreError;

use crate::Engine;
use crate::commit::{Carried, carry_out};

/// What to do with a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LetterAck {
    /// Delete it: its run is seen to, or needs no message.
    Delete,
    /// Keep it for a person, who reads here why.
    Keep(String),
    /// Store or queue are away: look again later.
    Leave,
}

impl Engine {
    /// Looks at the run of a dead letter, does what is to be done about it, and says what to do with the letter. `reason` is
    /// why a worker has buried it; `None` where the queue gave it up by itself. Doing it twice is harmless.
    #[tracing::instrument(level = "debug", skip_all, fields(run = %message.run, ticket = message.ticket.0))]
    pub async fn dead_letter(&self, message: &Message, reason: Option<&str>) -> LetterAck {
        // A refusal is a write that came in between: look again, a few times.
        for _ in 0..3 {
            let current = match self.ports.store.load(&message.run).await {
                Ok(current) => current,
                Err(error) => return unreadable(message, &error),
            };
            let (now, random) = (self.ports.clock.now(), self.ports.ids.random());
            let amend = match decide::dead_letter(current.as_ref(), message, reason, now, random) {
                Err(illegal) => return LetterAck::Keep(illegal.to_string()),
                Ok(DeadLetter::Keep { why }) => return LetterAck::Keep(why),
                Ok(DeadLetter::Delete) => {
                    tracing::info!(run = %message.run, "a dead letter has nothing to say any more");
                    return LetterAck::Delete;
                }
                Ok(DeadLetter::Send(send)) => return self.send_on(message, send).await,
                Ok(DeadLetter::Park(amend)) => amend,
            };
            match carry_out(&self.ports, &message.run, Write::Amend(amend)).await {
                Carried::Applied(_) => {
                    let phase = Phase::Parked.as_str();
                    tracing::warn!(run = %message.run, phase, reason, "a run is parked: its message was given up");
                    return LetterAck::Delete;
                }
                Carried::Refused(refusal, _) => tracing::info!(run = %message.run, %refusal, "the run has moved"),
                Carried::Failed(error) => return unreadable(message, &error),
            }
        }
        LetterAck::Leave
    }

    async fn send_on(&self, message: &Message, send: decide::Send) -> LetterAck {
        match self.ports.send(&message.run, send).await {
            Ok(()) => {
                tracing::info!(run = %message.run, ticket = send.ticket.0, delay = ?send.delay, "a run gets a message again");
                LetterAck::Delete
            }
            Err(error) => {
                tracing::warn!(run = %message.run, %error, "a message could not be sent; its dead letter stays");
                LetterAck::Leave
            }
        }
    }
}

/// The store does not give the run, or does not take the write: later, if that may help; else a person has to look.
fn unreadable(message: &Message, error: &StoreError) -> LetterAck {
    if error.is_passing() {
        tracing::warn!(run = %message.run, %error, "a dead letter cannot be settled now");
        return LetterAck::Leave;
    }
    LetterAck::Keep(error.to_string())
}
