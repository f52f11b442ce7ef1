//! The queue of messages on SQS.

use core::time::Duration;
use std::time::Instant;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::ProvideErrorMetadata as _;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, DeleteMessageBatchRequestEntry, Message as Received, MessageAttributeValue,
    MessageSystemAttributeName, SendMessageBatchRequestEntry,
};
use stepwell_core::Message;
use stepwell_core::limits::MESSAGE_DELAY_MAX;
use stepwell_ports::{Delivery, Envelope, QueueError, Receipt, RunQueue};

use crate::clients::pause;
use crate::fault::Fault;

/// Messages of one batch: the service's limit.
const BATCH_MAX: usize = 10;

/// Rounds in which what a batch has refused is sent again.
const ROUNDS_MAX: u32 = 4;

/// The longest wait of one receive: the service's limit.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// The longest visibility: the service's limit.
const VISIBILITY_MAX: Duration = Duration::from_hours(12);

/// Characters of a reason that are kept.
const REASON_CHARS_MAX: usize = 1_024;

/// The message attribute that says why a message is a dead letter.
pub const REASON_ATTRIBUTE: &str = "reason";

/// A queue and its dead-letter queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) client: Client,
    pub(crate) url: String,
    pub(crate) dead_letter_url: String,
}

#[async_trait]
impl RunQueue for Queue {
    async fn send(&self, envelopes: &[Envelope]) -> Result<(), QueueError> {
        if let Some(over) = envelopes.iter().find(|envelope| envelope.delay > MESSAGE_DELAY_MAX) {
            return Err(QueueError::Invalid(format!(
                "a delay of {:?} for run {}: at most {MESSAGE_DELAY_MAX:?}; longer ones are the sweeper's",
                over.delay, over.message.run
            )));
        }
        for batch in envelopes.chunks(BATCH_MAX) {
            let mut left: Vec<&Envelope> = batch.iter().collect();
            for round in 0.. {
                let failed = self.send_batch(&left).await?;
                left = still_left(&left, &failed);
                if left.is_empty() {
                    break;
                }
                give_up_after(round, "SendMessageBatch", &self.url, &failed)?;
                pause(round).await;
            }
        }
        Ok(())
    }

    async fn receive(&self, max: usize, visibility: Duration, wait: Duration) -> Result<Vec<Delivery>, QueueError> {
        let begun = Instant::now();
        loop {
            let left = wait.saturating_sub(begun.elapsed());
            let received = self.receive_once(max.clamp(1, BATCH_MAX), visibility, left.min(WAIT_MAX)).await?;
            let found_any = !received.is_empty();
            let mut deliveries = Vec::new();
            for received in received {
                deliveries.extend(self.read(received).await?);
            }
            if !deliveries.is_empty() || (!found_any && begun.elapsed() >= wait) || wait.is_zero() {
                return Ok(deliveries);
            }
        }
    }

    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError> {
        for batch in receipts.chunks(BATCH_MAX) {
            let mut left: Vec<&Receipt> = batch.iter().collect();
            for round in 0.. {
                // One that the service does not know is gone already.
                let mut failed = self.delete_batch(&left).await?;
                failed.retain(|failed| !failed.sender_fault());
                left = still_left(&left, &failed);
                if left.is_empty() {
                    break;
                }
                give_up_after(round, "DeleteMessageBatch", &self.url, &failed)?;
                pause(round).await;
            }
        }
        Ok(())
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), QueueError> {
        let change = self.client.change_message_visibility().queue_url(&self.url).receipt_handle(&receipt.0);
        let changed = change.visibility_timeout(seconds(visibility.min(VISIBILITY_MAX))).send().await;
        match changed {
            Ok(_) => Ok(()),
            Err(error) if error.as_service_error().and_then(|error| error.code()).is_some_and(is_gone) => Ok(()),
            Err(error) => Err(Fault::of(&error, "ChangeMessageVisibility", &queue(&self.url)).into()),
        }
    }

    async fn bury(&self, delivery: &Delivery, reason: &str) -> Result<(), QueueError> {
        self.bury_body(&delivery.message.to_text(), &delivery.receipt, reason).await
    }
}

impl Queue {
    async fn send_batch(&self, envelopes: &[&Envelope]) -> Result<Vec<BatchResultErrorEntry>, QueueError> {
        let mut send = self.client.send_message_batch().queue_url(&self.url);
        for (number, envelope) in envelopes.iter().enumerate() {
            let entry = SendMessageBatchRequestEntry::builder()
                .id(number.to_string())
                .message_body(envelope.message.to_text())
                .delay_seconds(seconds(envelope.delay))
                .build();
            send = send.entries(entry.map_err(|error| QueueError::Invalid(error.to_string()))?);
        }
        match send.send().await {
            Ok(output) => Ok(output.failed),
            Err(error) => Err(Fault::of(&error, "SendMessageBatch", &queue(&self.url)).into()),
        }
    }

    async fn delete_batch(&self, receipts: &[&Receipt]) -> Result<Vec<BatchResultErrorEntry>, QueueError> {
        let mut delete = self.client.delete_message_batch().queue_url(&self.url);
        for (number, receipt) in receipts.iter().enumerate() {
            let entry = DeleteMessageBatchRequestEntry::builder().id(number.to_string()).receipt_handle(&receipt.0);
            delete = delete.entries(entry.build().map_err(|error| QueueError::Invalid(error.to_string()))?);
        }
        match delete.send().await {
            Ok(output) => Ok(output.failed),
            Err(error) => Err(Fault::of(&error, "DeleteMessageBatch", &queue(&self.url)).into()),
        }
    }

    async fn receive_once(
        &self,
        max: usize,
        visibility: Duration,
        wait: Duration,
    ) -> Result<Vec<Received>, QueueError> {
        let receive = self
            .client
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(i32::try_from(max).unwrap_or(1))
            .visibility_timeout(seconds(visibility.min(VISIBILITY_MAX)))
            .wait_time_seconds(seconds(wait))
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount);
        match receive.send().await {
            Ok(output) => Ok(output.messages.unwrap_or_default()),
            Err(error) => Err(Fault::of(&error, "ReceiveMessage", &queue(&self.url)).into()),
        }
    }

    /// Reads what was received. What is no message of ours goes to the dead-letter queue, as it is.
    async fn read(&self, message: Received) -> Result<Option<Delivery>, QueueError> {
        let count = message.attributes.as_ref();
        let count = count.and_then(|all| all.get(&MessageSystemAttributeName::ApproximateReceiveCount));
        let receives = count.and_then(|count| count.parse().ok()).unwrap_or(1);
        let body = message.body.unwrap_or_default();
        let receipt = Receipt(message.receipt_handle.unwrap_or_default());
        match Message::parse(&body) {
            Ok(message) => Ok(Some(Delivery { message, receipt, receives })),
            Err(error) => {
                tracing::warn!(%error, "a message of another form goes to the dead-letter queue");
                self.bury_body(&body, &receipt, &error.to_string()).await.map(|()| None)
            }
        }
    }

    async fn bury_body(&self, body: &str, receipt: &Receipt, reason: &str) -> Result<(), QueueError> {
        let reason = MessageAttributeValue::builder()
            .data_type("String")
            .string_value(speakable(reason, REASON_CHARS_MAX))
            .build();
        let reason = reason.map_err(|error| QueueError::Invalid(error.to_string()))?;
        let letter = self.client.send_message().queue_url(&self.dead_letter_url);
        let letter = letter.message_body(speakable(body, usize::MAX)).message_attributes(REASON_ATTRIBUTE, reason);
        if let Err(error) = letter.send().await {
            return Err(Fault::of(&error, "SendMessage", &queue(&self.dead_letter_url)).into());
        }
        self.delete(std::slice::from_ref(receipt)).await
    }
}

/// What the service takes: not empty, and only characters of XML. At most this many.
fn speakable(text: &str, chars_max: usize) -> String {
    let is_taken = |c: &char| !c.is_control() || matches!(c, '\t' | '\n' | '\r');
    let text: String = text.chars().filter(is_taken).take(chars_max).collect();
    if text.is_empty() { "?".to_owned() } else { text }
}

/// Whole seconds, rounded up: nothing comes early.
fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis().div_ceil(1_000)).unwrap_or(i32::MAX)
}

/// Codes of a receipt that is no longer good.
fn is_gone(code: &str) -> bool {
    let code = code.rsplit('.').next().unwrap_or(code);
    matches!(code, "MessageNotInflight" | "ReceiptHandleIsInvalid" | "InvalidParameterValue" | "InvalidReceiptHandle")
}

/// Those whose number a batch has refused.
fn still_left<'a, T>(sent: &[&'a T], failed: &[BatchResultErrorEntry]) -> Vec<&'a T> {
    let number = |failed: &BatchResultErrorEntry| failed.id().parse::<usize>().ok();
    failed.iter().filter_map(|failed| sent.get(number(failed)?).copied()).collect()
}

fn give_up_after(round: u32, operation: &str, url: &str, failed: &[BatchResultErrorEntry]) -> Result<(), QueueError> {
    let words = |failed: &BatchResultErrorEntry| {
        let (code, message) = (failed.code(), failed.message().unwrap_or("no word why"));
        format!("{operation} on {}: {} refused, {code}: {message}", queue(url), failed.id())
    };
    match failed.iter().find(|failed| failed.sender_fault()).or(failed.first()) {
        Some(failed) if failed.sender_fault() => Err(QueueError::Invalid(words(failed))),
        Some(failed) if round + 1 >= ROUNDS_MAX => Err(QueueError::Unavailable(words(failed))),
        Some(_) | None => Ok(()),
    }
}

fn queue(url: &str) -> String {
    format!("queue {url}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded_up_to_seconds() {
        for (millis, expected) in [(0, 0), (1, 1), (999, 1), (1_000, 1), (1_001, 2), (900_000, 900)] {
            assert_eq!(seconds(Duration::from_millis(millis)), expected, "{millis} ms");
        }
    }

    #[test]
    fn only_what_was_refused_is_sent_again_and_not_for_ever() {
        let failed = |id: &str, sender_fault| {
            let failed = BatchResultErrorEntry::builder().id(id).code("InternalError").sender_fault(sender_fault);
            failed.build().unwrap()
        };
        let sent = ["a", "b", "c"];
        let refused = [failed("2", false), failed("0", false)];
        let sent: Vec<&&str> = sent.iter().collect();
        assert_eq!(still_left(&sent, &refused), [&"c", &"a"]);
        assert_eq!(give_up_after(0, "SendMessageBatch", "q", &refused), Ok(()));
        let last = give_up_after(ROUNDS_MAX - 1, "SendMessageBatch", "q", &refused);
        assert!(matches!(last, Err(QueueError::Unavailable(_))), "{last:?}");
        let ours = give_up_after(0, "SendMessageBatch", "q", &[failed("0", false), failed("1", true)]);
        assert!(matches!(ours, Err(QueueError::Invalid(_))), "{ours:?}");
    }

    #[test]
    fn a_reason_is_made_fit_for_the_service() {
        assert_eq!(speakable("", 9), "?");
        assert_eq!(speakable("no\u{0} run\n", 9), "no run\n");
        assert_eq!(speakable(&"x".repeat(5_000), 9).len(), 9);
    }
}
