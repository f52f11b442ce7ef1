use std::sync::Arc;

use async_trait::async_trait;
use stepwell_core::{BlobRef, RunId};
use stepwell_ports::{BlobError, BlobStore};

/// Forgets what it has stored.
pub(super) struct Forgetful(pub(super) Arc<dyn BlobStore>);

#[async_trait]
impl BlobStore for Forgetful {
    async fn put(&self, run: &RunId, bytes: &[u8]) -> Result<BlobRef, BlobError> {
        let stored = self.0.put(run, bytes).await?;
        self.0.delete_run(run).await?;
        Ok(stored)
    }

    async fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, BlobError> {
        self.0.get(blob).await
    }

    async fn delete_run(&self, run: &RunId) -> Result<(), BlobError> {
        self.0.delete_run(run).await
    }
}
