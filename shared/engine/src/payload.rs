//! Values between checkpoint and blob store: small ones stay inline, large ones go to a blob before the commit.

use stepwell_core::limits::{INLINE_BYTES_MAX, VALUE_BYTES_MAX};
use stepwell_core::write::LogAppend;
use stepwell_core::{EffectRecord, Json, Outcome, Payload, RunId};
use stepwell_ports::{BlobError, BlobStore};

/// An effect's recorded result stays inline up to this size: many of them ride in one checkpoint.
pub(crate) const RESULT_INLINE_BYTES_MAX: usize = 1_024;

/// A value that cannot be stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PayloadError {
    /// Too large, whatever is done.
    #[error(
        "{what} has {size} bytes of JSON, the limit is {VALUE_BYTES_MAX}; keep large values in a Blob and growing lists in a Log"
    )]
    TooLarge { what: &'static str, size: usize },
    /// The stored text is no JSON.
    #[error("blob {key} is no JSON text: it was altered; restore it")]
    NoJson { key: String },
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// Makes a value ready for a checkpoint.
pub(crate) async fn store(
    blobs: &dyn BlobStore,
    run: &RunId,
    what: &'static str,
    value: Json,
) -> Result<Payload, PayloadError> {
    store_above(INLINE_BYTES_MAX, blobs, run, what, value).await
}

async fn store_above(
    limit: usize,
    blobs: &dyn BlobStore,
    run: &RunId,
    what: &'static str,
    value: Json,
) -> Result<Payload, PayloadError> {
    let size = value.text().len();
    if size <= limit {
        return Ok(Payload::Inline(value));
    }
    if size > VALUE_BYTES_MAX {
        return Err(PayloadError::TooLarge { what, size });
    }
    Ok(Payload::Blob(blobs.put(run, value.text().as_bytes()).await?))
}

/// Makes the results of these effects ready for a checkpoint: those above the limit go to blobs. Returns the bytes that did.
pub(crate) async fn store_results<'a>(
    blobs: &dyn BlobStore,
    run: &RunId,
    limit: usize,
    records: impl Iterator<Item = &'a mut EffectRecord>,
) -> Result<u64, PayloadError> {
    let mut bytes = 0;
    for record in records {
        if let Outcome::Succeeded(payload) = &mut record.outcome
            && let Payload::Inline(json) = payload
            && json.text().len() > limit
        {
            bytes += json.text().len() as u64;
            *payload = store_above(limit, blobs, run, "an effect's result", json.clone()).await?;
        }
    }
    Ok(bytes)
}

/// Checks what a step has appended to logs.
pub(crate) fn check_entries(appends: &[LogAppend]) -> Result<(), PayloadError> {
    let mut sizes = appends.iter().flat_map(|append| &append.entries).map(|entry| entry.text().len());
    match sizes.find(|size| *size > VALUE_BYTES_MAX) {
        Some(size) => Err(PayloadError::TooLarge { what: "a log entry", size }),
        None => Ok(()),
    }
}

/// Reads a value back.
pub(crate) async fn load(blobs: &dyn BlobStore, payload: &Payload) -> Result<Json, PayloadError> {
    match payload {
        Payload::Inline(json) => Ok(json.clone()),
        Payload::Blob(blob) => {
            let no_json = || PayloadError::NoJson { key: blob.key.clone() };
            let text = String::from_utf8(blobs.get(blob).await?).map_err(|_| no_json())?;
            Json::from_text(text).map_err(|_| no_json())
        }
    }
}
