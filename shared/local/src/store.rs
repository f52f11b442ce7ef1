//! The store of checkpoints.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;
use stepwell_core::history::Segment;
use stepwell_core::write::{Write, WriteRequest};
use stepwell_core::{Checkpoint, EffectKey, EffectRecord, Json, LogId, Revision, RunId, Timestamp};
use stepwell_ports::{
    CheckpointStore, Claim, Claimed, DuePage, ListQuery, Page, RunSummary, StoreError, Written, check_limit,
};

use crate::fault::{Abort, Fault};
use crate::listing::{self, Place};
use crate::table::{self, Outcome, Prepared};
use crate::{Local, aside};

#[async_trait]
impl CheckpointStore for Local {
    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        let prepared = Prepared::of(request)?;
        let outcome = self.inner.writer.run(move |db| prepared.execute(db)).await??;
        let committed = match (outcome, &request.write) {
            (Outcome::Committed(standing), Write::Commit(commit)) => {
                let hold = commit.hold_of_new_visit(request.id, request.now);
                standing.with(request.run.clone(), hold, commit.due_at, commit.progress.clone())
            }
            (Outcome::Whole(written), _) => return Ok(written),
            (Outcome::Committed(_), _) => {
                return Err(StoreError::Unknown(format!(
                    "run {}: another write was answered as a commit",
                    request.run
                )));
            }
        };
        Ok(Written::Applied(Box::new(committed)))
    }

    async fn load(&self, run: &RunId) -> Result<Option<Checkpoint>, StoreError> {
        // One row by its key: shorter than the way to another thread.
        let stored = self.inner.readers.read(|db| table::load(db, run))?;
        Ok(stored.map(|stored| stored.checkpoint))
    }

    async fn log(&self, run: &RunId, log: LogId, first: u64, limit: usize) -> Result<Vec<Json>, StoreError> {
        let run = run.clone();
        self.read_aside(move |db| aside::entries(db, &run, log, first, limit)).await
    }

    async fn effect(&self, run: &RunId, key: &EffectKey) -> Result<Option<EffectRecord>, StoreError> {
        Ok(self.inner.readers.read(|db| aside::effect(db, run, key))?)
    }

    async fn history(&self, run: &RunId, from: Revision, limit: usize) -> Result<Vec<Segment>, StoreError> {
        let run = run.clone();
        self.read_aside(move |db| aside::segments(db, &run, from, limit)).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let claim = claim.clone();
        Ok(self.inner.writer.run(move |db| aside::claim(db, &claim)).await?)
    }

    async fn due(&self, until: Timestamp, limit: usize, after: Option<String>) -> Result<DuePage, StoreError> {
        check_limit(limit)?;
        let after = after.map(|token| Place::parse(&token, listing::DUE_ASKED)).transpose()?;
        self.read_aside(move |db| listing::due(db, until, limit, after.as_ref())).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<RunSummary>, StoreError> {
        check_limit(query.limit)?;
        let after = query.after.as_deref();
        let after =
            after.map_or_else(|| Ok(Place::newest(query)), |token| Place::parse(token, &listing::asked(query)))?;
        let query = query.clone();
        self.read_aside(move |db| listing::list(db, &query, &after)).await
    }
}

impl Local {
    /// Reads many rows, on a thread that may wait for the disk.
    async fn read_aside<T, W>(&self, work: W) -> Result<T, StoreError>
    where
        T: Send + 'static,
        W: FnOnce(&Connection) -> Result<T, Abort> + Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        let read = tokio::task::spawn_blocking(move || inner.readers.read(work)).await;
        Ok(read.unwrap_or_else(|error| Err(Fault::Unavailable(format!("a read was stopped: {error}"))))?)
    }
}
