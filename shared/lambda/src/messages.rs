//! The runner: a batch of messages, each worked on at once.

use core::time::Duration;
use std::error::Error;
use std::sync::Arc;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use futures_util::future::join_all;
use lambda_runtime::{LambdaEvent, service_fn};
use stepwell::Registry;
use stepwell_core::Timestamp;
use stepwell_core::message::MessageError;
use stepwell_core::time::millis;
use stepwell_engine::{Ack, Engine, StopFlag, TurnTime};
use stepwell_ports::{Clock, Delivery, RunQueue};
use tokio::task::JoinError;
use tracing::Instrument as _;

use crate::batch::{self, Settled};
use crate::process::{self, Deployment, Fatal};

/// How long a turn goes on with further steps of its run: as long as a worker's. The batch ends with its last turn, so this
/// is also how long the messages of ended turns wait to be deleted.
const TURN: Duration = Duration::from_mins(1);

/// Before Lambda's deadline, a step is cut: its failure is still committed, against a store that may be busy, and its run
/// handed off.
const CUT_MARGIN: Duration = Duration::from_secs(3);

/// Before Lambda's deadline, turns that hang all the same are given up: what the others have come to still has to be said.
const ANSWER_MARGIN: Duration = Duration::from_millis(750);

/// In how much time a body that is no message of ours comes again. The queue counts, and after a few receives moves it to
/// the dead letters as it is.
const UNREADABLE_PAUSE: Duration = Duration::from_secs(1);

/// Works on batches of messages.
#[derive(Clone)]
pub struct Messages {
    /// Moves runs.
    pub engine: Engine,
    /// Where the messages come from.
    pub queue: Arc<dyn RunQueue>,
    /// Time, as Lambda's deadlines count it.
    pub clock: Arc<dyn Clock>,
}

impl Messages {
    /// Works on all messages of a batch at once, each on a task of its own, and names those that have to come again. Answers
    /// a little before `deadline`, when Lambda kills the process.
    ///
    /// What goes wrong with one message does not touch the others. Two messages of one run are harmless: its lease decides.
    pub async fn work(&self, event: SqsEvent, deadline: Timestamp) -> SqsBatchResponse {
        let hard = Some(before(deadline, CUT_MARGIN));
        let time = TurnTime { soft: TURN, hard, stop: StopFlag::default() };
        let answer_by = before(deadline, ANSWER_MARGIN);
        let settled = join_all(event.records.into_iter().map(|record| self.guarded(record, time.clone(), answer_by)));
        batch::response(settled.await)
    }

    /// Settles a record on a task of its own. Waits for it from the outside: a step that blocks its thread is left behind all
    /// the same.
    async fn guarded(&self, record: SqsMessage, time: TurnTime, answer_by: Timestamp) -> (String, Settled) {
        let id = batch::id(&record);
        let mut task = tokio::spawn({
            let messages = self.clone();
            // A task has no span of itself, and the request's id is what a person looks for.
            async move { messages.settle(&record, &time).await }.in_current_span()
        });
        let settled = tokio::select! {
            biased;
            settled = &mut task => settled.unwrap_or_else(|error| ended(&id, &error)),
            () = self.clock.sleep(answer_by.since(self.clock.now())) => {
                task.abort();
                tracing::error!(message_id = id, code = "turn-hangs", "a turn is given up before the deadline; its message comes again");
                Settled::Again
            }
        };
        (id, settled)
    }

    async fn settle(&self, record: &SqsMessage, time: &TurnTime) -> Settled {
        let message = match batch::message(record) {
            Ok(message) => message,
            Err(error) => return self.unreadable(record, &error).await,
        };
        match self.engine.turn(&message, time).await {
            Ack::Delete => Settled::Done,
            Ack::Leave => Settled::Again,
            Ack::Bury(reason) => {
                tracing::error!(run = %message.run, reason, code = "buried", "a message goes to the dead letters");
                let receives = record.attributes.get("ApproximateReceiveCount");
                let receives = receives.and_then(|count| count.parse().ok()).unwrap_or(1);
                let delivery = Delivery { message, receipt: batch::receipt(record), receives };
                match self.queue.bury(&delivery, &reason).await {
                    Ok(()) => Settled::Done,
                    Err(error) => {
                        let run = &delivery.message.run;
                        tracing::warn!(%run, %error, "a message could not be buried; it comes again");
                        Settled::Again
                    }
                }
            }
        }
    }

    /// The port buries only messages of ours. Any other body is left to the queue, which moves it to the dead letters by
    /// itself; it only has to come again soon, and not after the long visibility of a batch.
    async fn unreadable(&self, record: &SqsMessage, error: &MessageError) -> Settled {
        let (message_id, code) = (batch::id(record), "unreadable-message");
        tracing::error!(message_id, %error, code, "a body of another form is left to the queue, which gives it up");
        if let Err(error) = self.queue.extend(&batch::receipt(record), UNREADABLE_PAUSE).await {
            tracing::warn!(message_id, %error, "it comes again after its visibility");
        }
        Settled::Again
    }
}

fn before(deadline: Timestamp, margin: Duration) -> Timestamp {
    Timestamp(deadline.0.saturating_sub(millis(margin)))
}

/// A task that has ended without an answer.
fn ended(message_id: &str, error: &JoinError) -> Settled {
    // Its text is in the panic's own report: it may hold what the run knows.
    let panicked = error.is_panic();
    tracing::error!(
        message_id,
        panicked,
        code = "turn-panicked",
        "a turn has ended in the middle; its message comes again"
    );
    Settled::Again
}

/// Serves batches until Lambda ends the process.
pub(crate) async fn serve<E: Error>(registry: Result<Registry, E>) -> Result<(), Fatal> {
    let mut problems = Vec::new();
    // Where it is missing there is a problem, and nothing is served.
    let registry = process::workflows(registry, &mut problems).unwrap_or_default();
    let deployment = Deployment::checked(problems).await?;
    process::warm(&*deployment.ports.store, Some(&*deployment.ports.queue)).await;
    let (queue, clock) = (Arc::clone(&deployment.ports.queue), Arc::clone(&deployment.ports.clock));
    let messages = Messages { engine: deployment.engine(registry)?, queue, clock };
    let handler = async |event: LambdaEvent<SqsEvent>| {
        let deadline = Timestamp(event.context.deadline);
        Ok::<_, lambda_runtime::Error>(messages.work(event.payload, deadline).await)
    };
    lambda_runtime::run(service_fn(handler)).await.map_err(|error| Fatal::Runtime(error.to_string()))
}
