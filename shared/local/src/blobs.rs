//! Large values, as files: `blobs/<run>/<sha256>`.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use stepwell_core::limits::BLOB_BYTES_MAX;
use stepwell_core::{BlobRef, Digest, RunId};
use stepwell_ports::{BlobError, BlobStore};

use crate::Local;
use crate::open::sync_dir;

#[async_trait]
impl BlobStore for Local {
    async fn put(&self, run: &RunId, bytes: &[u8]) -> Result<BlobRef, BlobError> {
        let (size, limit) = (bytes.len() as u64, BLOB_BYTES_MAX as u64);
        if size > limit {
            return Err(BlobError::TooLarge { size, limit });
        }
        let (root, run, bytes) = (self.inner.blobs.clone(), run.clone(), bytes.to_vec());
        on_disk(move || put(&root, &run, &bytes)).await
    }

    async fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, BlobError> {
        let (root, blob) = (self.inner.blobs.clone(), blob.clone());
        on_disk(move || get(&root, &blob)).await
    }

    async fn delete_run(&self, run: &RunId) -> Result<(), BlobError> {
        let dir = self.inner.blobs.join(run.as_str());
        on_disk(move || match fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(unavailable(&dir, &error)),
            Ok(()) | Err(_) => Ok(()),
        })
        .await
    }
}

async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(BlobError::Unavailable(format!("the work was stopped: {error}"))))
}

/// Writes under a name of its own, and gives the file its right name when it is whole and on the disk.
fn put(root: &Path, run: &RunId, bytes: &[u8]) -> Result<BlobRef, BlobError> {
    let blob = BlobRef::of(run, bytes);
    let dir = root.join(run.as_str());
    let file = dir.join(blob.sha256.to_string());
    let written = || -> io::Result<()> {
        if !dir.is_dir() {
            fs::create_dir_all(&dir)?;
            sync_dir(root)?;
        }
        if get(root, &blob).is_ok() {
            // It is there and whole, but whoever wrote it may not have come to this yet.
            return sync_dir(&dir);
        }
        let draft = dir.join(format!("new-{:016x}", fastrand::u64(..)));
        let renamed = write_synced(&draft, bytes).and_then(|()| fs::rename(&draft, &file));
        if renamed.is_err() {
            let _ = fs::remove_file(&draft);
        }
        renamed?;
        sync_dir(&dir)
    };
    written().map_err(|error| unavailable(&file, &error))?;
    Ok(blob)
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn get(root: &Path, blob: &BlobRef) -> Result<Vec<u8>, BlobError> {
    let altered = |found: String| BlobError::Altered { key: blob.key.clone(), found };
    let file = path_of(root, blob).ok_or_else(|| altered("its key does not belong to its digest".into()))?;
    let missing = |error: &io::Error| match error.kind() {
        ErrorKind::NotFound => BlobError::Missing { key: blob.key.clone() },
        _ => unavailable(&file, error),
    };
    // Before it is read: it may have become something huge.
    let size = fs::metadata(&file).map_err(|error| missing(&error))?.len();
    if size != blob.size {
        return Err(altered(format!("{size} bytes were found, {} expected", blob.size)));
    }
    let bytes = fs::read(&file).map_err(|error| missing(&error))?;
    let digest = Digest::of(&bytes);
    if digest != blob.sha256 {
        return Err(altered(format!("bytes with the digest {digest} were found, {} expected", blob.sha256)));
    }
    Ok(bytes)
}

/// The file of a reference. `None` for a key that [`BlobRef::of`] has not made: it could name any file.
fn path_of(root: &Path, blob: &BlobRef) -> Option<PathBuf> {
    let (run, digest) = blob.key.split_once('/')?;
    (digest == blob.sha256.to_string()).then_some(())?;
    Some(root.join(RunId::new(run).ok()?.as_str()).join(digest))
}

fn unavailable(path: &Path, error: &io::Error) -> BlobError {
    let path = path.display();
    BlobError::Unavailable(match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => format!("the disk is full: free space for {path}"),
        _ => format!("{path}: {error}"),
    })
}
