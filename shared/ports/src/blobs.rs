//! Large values, named by reference.

use async_trait::async_trait;
use stepwell_core::{BlobRef, RunId};

/// An error of a [`BlobStore`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// It is not there. The reference is right, so it was deleted from outside.
    #[error("blob {key} is missing: it was deleted from outside; restore it")]
    Missing {
        /// Its key.
        key: String,
    },
    /// It is there, with another length or digest.
    #[error("blob {key} was altered: {found}; restore it")]
    Altered {
        /// Its key.
        key: String,
        /// What was found, and what was expected.
        found: String,
    },
    /// It is larger than [`stepwell_core::limits::BLOB_BYTES_MAX`]. Nothing was written.
    #[error("a blob of {size} bytes is over the limit of {limit}; nothing was written")]
    TooLarge {
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The backend cannot be reached or cannot write. Later.
    #[error("the blob store is not available: {0}; try again later")]
    Unavailable(String),
}

/// Large values. Written before the checkpoint that refers to them; an orphan of a crashed step is harmless.
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Stores bytes under the run's prefix. **Durable** once answered: it survives a crash and a loss of power. The key is
    /// that of [`BlobRef::of`], so storing the same bytes again changes nothing.
    async fn put(&self, run: &RunId, bytes: &[u8]) -> Result<BlobRef, BlobError>;

    /// Reads a blob. Length and digest are checked: what is returned is what was stored.
    async fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, BlobError>;

    /// Deletes all blobs of a run. Deleting none is no error.
    async fn delete_run(&self, run: &RunId) -> Result<(), BlobError>;
}
