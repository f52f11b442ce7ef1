//! The dead-letter function: looks at the run of each letter before it believes that it is dead.

use core::time::Duration;
use std::sync::Arc;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use futures_util::future::join_all;
use lambda_runtime::{LambdaEvent, service_fn};
use stepwell::Registry;
use stepwell_aws::REASON_ATTRIBUTE;
use stepwell_engine::{Engine, LetterAck};
use stepwell_ports::RunQueue;

use crate::batch::{self, Settled};
use crate::process::{self, Deployment, Fatal};

/// How long a letter that a person has to look at is put off, again and again until it expires.
///
/// SQS lets a message be hidden for 12 hours, and counts them from when it was received: to ask for all of them once some
/// milliseconds have passed is an error.
const KEPT: Duration = Duration::from_hours(11);

/// Looks at batches of dead letters.
#[derive(Clone)]
pub struct DeadLetters {
    /// Looks at runs.
    pub engine: Engine,
    /// The dead-letter queue, which the letters were received from.
    pub letters: Arc<dyn RunQueue>,
}

impl DeadLetters {
    /// Settles the letters of a batch, and names those that stay: what a person has to look at is put off for hours, what
    /// could not be settled now comes again soon.
    pub async fn look(&self, event: SqsEvent) -> SqsBatchResponse {
        let settled = event.records.iter().map(async |record| (batch::id(record), self.settle(record).await));
        batch::response(join_all(settled).await)
    }

    async fn settle(&self, record: &SqsMessage) -> Settled {
        let reason = record.message_attributes.get(REASON_ATTRIBUTE).and_then(|reason| reason.string_value.as_deref());
        let message = match batch::message(record) {
            Ok(message) => message,
            Err(error) => return self.keep(record, None, &error.to_string()).await,
        };
        match self.engine.dead_letter(&message, reason).await {
            LetterAck::Delete => Settled::Done,
            LetterAck::Leave => Settled::Again,
            LetterAck::Keep(why) => self.keep(record, Some(message.run.as_str()), &why).await,
        }
    }

    async fn keep(&self, record: &SqsMessage, run: Option<&str>, why: &str) -> Settled {
        let (message_id, code) = (batch::id(record), "dead-letter-kept");
        tracing::error!(message_id, run, why, code, "a dead letter is kept: a person has to look");
        if let Err(error) = self.letters.extend(&batch::receipt(record), KEPT).await {
            tracing::warn!(message_id, %error, "it could not be put off, and comes again soon");
        }
        Settled::Again
    }
}

/// Serves batches until Lambda ends the process.
pub(crate) async fn serve() -> Result<(), Fatal> {
    let deployment = Deployment::connect().await?;
    let letters = Arc::clone(&deployment.dead_letters);
    process::warm(&*deployment.ports.store, Some(&*letters)).await;
    let letters = DeadLetters { engine: deployment.engine(Registry::new())?, letters };
    let handler =
        async |event: LambdaEvent<SqsEvent>| Ok::<_, lambda_runtime::Error>(letters.look(event.payload).await);
    lambda_runtime::run(service_fn(handler)).await.map_err(|error| Fatal::Runtime(error.to_string()))
}
