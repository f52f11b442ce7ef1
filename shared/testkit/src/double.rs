use async_trait::async_trait;
use stepwell_core::history::Segment;
use stepwell_core::write::WriteRequest;
use stepwell_core::{Checkpoint, EffectKey, EffectRecord, Json, LogId, Revision, RunId, Timestamp};
use stepwell_ports::{CheckpointStore, Claim, Claimed, DuePage, ListQuery, Page, RunSummary, StoreError, Written};

/// A store that stands before another one and does some things in its own way; what it does not say is passed on. [`Double`] makes
/// a [`CheckpointStore`] of it, whose methods these are.
#[async_trait]
#[allow(missing_docs, reason = "each is the method of its name of `CheckpointStore`")]
pub trait StoreDouble: Send + Sync {
    /// The store behind it.
    fn inner(&self) -> &dyn CheckpointStore;

    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        self.inner().write(request).await
    }

    async fn due(&self, until: Timestamp, limit: usize, after: Option<String>) -> Result<DuePage, StoreError> {
        self.inner().due(until, limit, after).await
    }
}

/// The [`CheckpointStore`] that a [`StoreDouble`] is.
#[derive(Debug)]
pub struct Double<D>(pub D);

#[async_trait]
impl<D: StoreDouble> CheckpointStore for Double<D> {
    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        self.0.write(request).await
    }

    async fn load(&self, run: &RunId) -> Result<Option<Checkpoint>, StoreError> {
        self.0.inner().load(run).await
    }

    async fn log(&self, run: &RunId, log: LogId, first: u64, limit: usize) -> Result<Vec<Json>, StoreError> {
        self.0.inner().log(run, log, first, limit).await
    }

    async fn effect(&self, run: &RunId, key: &EffectKey) -> Result<Option<EffectRecord>, StoreError> {
        self.0.inner().effect(run, key).await
    }

    async fn history(&self, run: &RunId, from: Revision, limit: usize) -> Result<Vec<Segment>, StoreError> {
        self.0.inner().history(run, from, limit).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        self.0.inner().claim(claim).await
    }

    async fn due(&self, until: Timestamp, limit: usize, after: Option<String>) -> Result<DuePage, StoreError> {
        self.0.due(until, limit, after).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<RunSummary>, StoreError> {
        self.0.inner().list(query).await
    }
}
