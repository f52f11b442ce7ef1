//! A run's values, and which of them are read.

use std::borrow::Cow;

use serde::Serialize;
use stepwell_core::{Json, Payload};
use stepwell_engine::{Client, ClientError, Remedy};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::schema;

/// The largest value that an answer of the API shows. A Lambda function answers with 6 MB at most, in which quotes count
/// double.
const VALUE_BYTES_SHOWN: u64 = 2 * 1024 * 1024;

/// A stored value, or why it is not here: the rest is shown all the same.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// The value itself.
    Here(Json),
    /// In a blob that was not read.
    Apart {
        /// Its size in bytes.
        stored_apart: u64,
    },
    /// It cannot be read.
    Lost {
        /// Why.
        unreadable: String,
    },
}

/// Which of a run's values are read from their blobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The output, up to 2 MB: one answer of the API is small, and takes two reads however many values the run has.
    Answer,
    /// All, whatever their size. What cannot be read says why in its place.
    All,
}

impl Value {
    /// What the checkpoint itself holds.
    pub(super) fn of(payload: &Payload) -> Self {
        match payload {
            Payload::Inline(json) => Self::Here(json.clone()),
            Payload::Blob(blob) => Self::Apart { stored_apart: blob.size },
        }
    }

    /// A value that is at hand, unless an answer would be too large with it.
    pub fn short(json: Json) -> Self {
        let size = json.text().len() as u64;
        if size > VALUE_BYTES_SHOWN / 2 { Self::Apart { stored_apart: size } } else { Self::Here(json) }
    }

    /// The value, read from its blob if it has one, or why it cannot be read, with where it lies: for whoever may know that.
    pub async fn load(client: &Client, payload: &Payload) -> Self {
        match client.value(payload).await {
            Ok(json) => Self::Here(json),
            Err(error) => Self::Lost { unreadable: error.to_string() },
        }
    }
}

impl Reach {
    /// What a run has ended with, or what somebody has to decide on. With [`Reach::Answer`] nobody learns where it lies.
    ///
    /// # Errors
    /// When an answer would lack it only because it cannot be read now: the whole is worth another attempt.
    pub async fn output(self, client: &Client, output: &Payload) -> Result<Value, ClientError> {
        match (self, output) {
            (Self::All, _) => Ok(Value::load(client, output).await),
            (Self::Answer, Payload::Blob(blob)) if blob.size > VALUE_BYTES_SHOWN => Ok(Value::of(output)),
            (Self::Answer, Payload::Inline(_) | Payload::Blob(_)) => match client.value(output).await {
                Ok(json) => Ok(Value::Here(json)),
                Err(error) => match error.remedy() {
                    Remedy::Retry => Err(error),
                    Remedy::FixTheInput | Remedy::CallAPerson => {
                        tracing::error!(%error, "a value cannot be read");
                        // Callers of the API are not told where values lie.
                        Ok(Value::Lost { unreadable: "it is missing or was altered; a person has to look".into() })
                    }
                },
            },
        }
    }

    /// Any other value.
    pub(super) async fn other(self, client: &Client, payload: &Payload) -> Value {
        match self {
            Self::Answer => Value::of(payload),
            Self::All => Value::load(client, payload).await,
        }
    }
}

impl PartialSchema for Value {
    fn schema() -> RefOr<Schema> {
        schema::any(
            "A value of the workflow: any JSON. `{\"stored_apart\": BYTES}` stands for one that is too large to be shown here, \
             `{\"unreadable\": WHY}` for one that cannot be read.",
        )
    }
}

impl ToSchema for Value {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Value")
    }
}
