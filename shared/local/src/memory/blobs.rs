use async_trait::async_trait;
use stepwell_core::limits::BLOB_BYTES_MAX;
use stepwell_core::{BlobRef, Digest, RunId};
use stepwell_ports::{BlobError, BlobStore};

use super::Memory;

#[async_trait]
impl BlobStore for Memory {
    async fn put(&self, run: &RunId, bytes: &[u8]) -> Result<BlobRef, BlobError> {
        if bytes.len() > BLOB_BYTES_MAX {
            return Err(BlobError::TooLarge { size: bytes.len() as u64, limit: BLOB_BYTES_MAX as u64 });
        }
        let (blob, bound) = (BlobRef::of(run, bytes), self.bounds.blob_bytes);
        let mut state = self.state();
        let others = state.blobs.iter().filter(|(key, _)| **key != blob.key);
        let held: usize = others.map(|(_, bytes)| bytes.len()).sum();
        if held + bytes.len() > bound {
            return Err(BlobError::Unavailable(format!("the memory holds {bound} bytes of blobs, which is its bound")));
        }
        state.blobs.insert(blob.key.clone(), bytes.to_vec());
        Ok(blob)
    }

    async fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, BlobError> {
        let key = blob.key.clone();
        let Some(bytes) = self.state().blobs.get(&key).cloned() else {
            return Err(BlobError::Missing { key });
        };
        let (size, sha256) = (bytes.len() as u64, Digest::of(&bytes));
        if (size, sha256) != (blob.size, blob.sha256) {
            let found = format!("{size} bytes of digest {sha256}, expected {} of {}", blob.size, blob.sha256);
            return Err(BlobError::Altered { key, found });
        }
        Ok(bytes)
    }

    async fn delete_run(&self, run: &RunId) -> Result<(), BlobError> {
        let prefix = format!("{run}/");
        self.state().blobs.retain(|key, _| !key.starts_with(&prefix));
        Ok(())
    }
}

impl Memory {
    /// Puts other bytes in a blob's place, or none, for tests of what a damaged blob leads to.
    pub fn damage(&self, blob: &BlobRef, with: Option<Vec<u8>>) {
        let mut state = self.state();
        match with {
            Some(bytes) => state.blobs.insert(blob.key.clone(), bytes),
            None => state.blobs.remove(&blob.key),
        };
    }
}
