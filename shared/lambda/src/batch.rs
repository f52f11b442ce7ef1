//! What batches of both queues have in common.

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsMessage};
use stepwell_core::Message;
use stepwell_core::message::MessageError;
use stepwell_ports::Receipt;

/// What became of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Lambda may delete it.
    Done,
    /// It stays in its queue, and comes again when its visibility has run out.
    Again,
}

/// The id that Lambda knows a record by. A record without one cannot be named; Lambda takes an empty id to mean that the
/// whole batch has to come again, which is harmless.
pub(crate) fn id(record: &SqsMessage) -> String {
    record.message_id.clone().unwrap_or_default()
}

pub(crate) fn receipt(record: &SqsMessage) -> Receipt {
    Receipt(record.receipt_handle.clone().unwrap_or_default())
}

pub(crate) fn message(record: &SqsMessage) -> Result<Message, MessageError> {
    Message::parse(record.body.as_deref().unwrap_or_default())
}

/// Names those that have to come again; Lambda deletes the others.
pub(crate) fn response(settled: impl IntoIterator<Item = (String, Settled)>) -> SqsBatchResponse {
    let mut response = SqsBatchResponse::default();
    for (id, settled) in settled {
        match settled {
            Settled::Done => {}
            Settled::Again => response.add_failure(id),
        }
    }
    response
}
