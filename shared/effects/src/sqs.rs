//! Messages to a queue of SQS.

use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::Builder;
use aws_sdk_sqs::operation::send_message::builders::SendMessageFluentBuilder;
use aws_sdk_sqs::types::MessageAttributeValue;
use serde::{Deserialize, Serialize};
use stepwell::{Call, CallError};

use crate::aws;

/// The message attribute that holds the effect's key, for receivers that dedupe by it.
pub const KEY_ATTRIBUTE: &str = "idempotency-key";

/// How long a FIFO queue's word is good for, as [`idempotent_for`](stepwell::Effect::idempotent_for) takes it. SQS drops
/// repetitions for five minutes from the first; a repetition that is sent at the last moment needs a while to arrive, so a
/// minute is kept back. Give the effect no deadline longer than that.
pub const FIFO_WINDOW: Duration = Duration::from_mins(4);

/// Sends messages to one queue.
///
/// The client is the caller's: region, credentials and endpoint are those of its environment. Its retries are off for the calls
/// made here, so that each is one attempt: a repetition inside the SDK would hide what became of the first.
///
/// # Class
/// - A FIFO queue, [`Sqs::send_fifo`]: `idempotent_for(FIFO_WINDOW)`. The key is the message's deduplication id; SQS takes a
///   second message under it, and delivers one.
/// - A standard queue, [`Sqs::send`]: SQS dedupes nothing, and cannot be asked. `idempotent` only if *every receiver* dedupes
///   by the key, which rides along as the attribute [`KEY_ATTRIBUTE`]; it has to anyhow, since a standard queue may deliver
///   twice by itself. Else `once`.
///
/// # What a failure says
///
/// | what was seen | what it says |
/// | --- | --- |
/// | no connection, no credentials | not done |
/// | throttled; credentials that have expired | not done |
/// | any other 4xx: no such queue, access denied, a message that is too large | refused |
/// | a lost connection, no answer in time, 5xx | unknown |
///
/// Codes are `aws-<code of the service>`, and `aws-connect`, `aws-lost`, `aws-request` where it gave none.
///
/// ```no_run
/// use stepwell::prelude::*;
/// use stepwell_effects::sqs::{FIFO_WINDOW, Sqs};
///
/// # struct Shop { orders: Sqs }
/// # impl Shop {
/// async fn hand_on(&self, order: &str, cx: &Cx) -> Result<(), StepError> {
///     cx.effect("order").key(order).with(order).idempotent_for(FIFO_WINDOW)
///         .call(|call| self.orders.send_fifo(call, "orders", order)).await?;
///     Ok(())
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Sqs {
    client: Client,
    queue_url: String,
}

/// What SQS says of a message that it took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqsMessage {
    /// The message's id at SQS.
    pub id: String,
    /// Its place in a FIFO queue.
    pub sequence_number: Option<String>,
}

impl Sqs {
    /// The queue at this URL.
    pub fn new(client: Client, queue_url: impl Into<String>) -> Self {
        Self { client, queue_url: queue_url.into() }
    }

    /// Sends a message to a standard queue. The class depends on the receivers, see [`Sqs`].
    ///
    /// # Errors
    /// [`Sqs`] says which.
    pub async fn send(&self, call: Call<'_>, body: impl Into<String>) -> Result<SqsMessage, CallError> {
        self.make(call, body.into(), |message| message).await
    }

    /// Sends a message to a FIFO queue, in the order of its group. Class `idempotent_for(FIFO_WINDOW)`, see [`Sqs`].
    ///
    /// # Errors
    /// [`Sqs`] says which.
    pub async fn send_fifo(
        &self,
        call: Call<'_>,
        group: impl Into<String>,
        body: impl Into<String>,
    ) -> Result<SqsMessage, CallError> {
        let of_fifo =
            |message: SendMessageFluentBuilder| message.message_group_id(group).message_deduplication_id(call.key());
        self.make(call, body.into(), of_fifo).await
    }

    async fn make(
        &self,
        call: Call<'_>,
        body: String,
        with: impl FnOnce(SendMessageFluentBuilder) -> SendMessageFluentBuilder,
    ) -> Result<SqsMessage, CallError> {
        let error = |error: &_| aws::call_error(error, "SendMessage", &self.queue_url);
        let key = MessageAttributeValue::builder().data_type("String").string_value(call.key()).build();
        let key = key.map_err(|problem| CallError::refused(problem).with_code("aws-request"))?;
        let (retries, timeouts) = aws::one_attempt(call.deadline());
        let message = self.client.send_message().queue_url(&self.queue_url).message_body(body);
        let sent = with(message.message_attributes(KEY_ATTRIBUTE, key))
            .customize()
            .config_override(Builder::new().retry_config(retries).timeout_config(timeouts))
            .send()
            .await
            .map_err(|problem| error(&problem))?;
        Ok(SqsMessage { id: sent.message_id.unwrap_or_default(), sequence_number: sent.sequence_number })
    }
}
