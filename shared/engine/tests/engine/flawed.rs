//! Stores that something is wrong with.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use stepwell_core::history::Segment;
use stepwell_core::write::{Write, WriteRequest};
use stepwell_core::{BlobRef, Checkpoint, EffectKey, EffectRecord, Json, LogId, Revision, RunId, Timestamp};
use stepwell_local::memory::Memory;
use stepwell_ports::{
    CheckpointStore, Claim, Claimed, Damaged, DuePage, ListQuery, Page, RunSummary, StoreError, Written,
};

use crate::bed::Bed;

/// What is wrong with a store.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Flaw {
    /// The first run of each page of a listing has an entry that cannot be read.
    DamagedEntry,
    /// Commits forget the watchdog's mark.
    DropsMarks,
    /// A checkpoint cannot be read.
    Damaged,
    /// Nor can a segment.
    DamagedHistory,
    /// The segment that begins there is gone.
    LosesSegment(u64),
    /// Entries of logs from there on are gone.
    LosesEntries(u64),
    /// Logs go on after what counts, as after a commit that was refused. What is there refers to a blob that is not.
    HasMoreEntries,
    /// Nothing is.
    None,
    /// The first look at a run shows something that cannot be.
    Flickers,
    /// Every look does.
    Lies,
    /// It answers later.
    Away,
}

pub(crate) struct Flawed {
    inner: Arc<Memory>,
    flaw: Flaw,
    looked: AtomicBool,
    /// How many segments each reading of history has asked for.
    asked: Mutex<Vec<usize>>,
}

impl Flawed {
    pub(crate) fn new(bed: &Bed, flaw: Flaw) -> Arc<Self> {
        Arc::new(Self { inner: bed.memory.clone(), flaw, looked: AtomicBool::new(false), asked: Mutex::default() })
    }

    pub(crate) fn segments_asked(&self) -> Vec<usize> {
        self.asked.lock().unwrap().clone()
    }

    fn listed<T>(&self, mut page: Page<T>, run: impl Fn(&T) -> &RunId) -> Page<T> {
        if self.flaw == Flaw::DamagedEntry && !page.items.is_empty() {
            let run = run(&page.items.remove(0)).clone();
            page.damaged.push(Damaged { what: format!("run {run}: its phase is unknown"), run });
        }
        page
    }
}

#[async_trait]
impl CheckpointStore for Flawed {
    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        let mut request = request.clone();
        if let (Write::Commit(commit), Flaw::DropsMarks) = (&mut request.write, self.flaw) {
            commit.due_at = None;
        }
        self.inner.write(&request).await
    }

    async fn load(&self, run: &RunId) -> Result<Option<Checkpoint>, StoreError> {
        let mut loaded = self.inner.load(run).await?;
        let is_first = !self.looked.swap(true, Ordering::Relaxed);
        match self.flaw {
            Flaw::Damaged => return Err(StoreError::Damaged(format!("run {run}: its checksum is wrong"))),
            Flaw::Away => return Err(StoreError::Unavailable("no connection".into())),
            Flaw::Lies => loaded.iter_mut().for_each(|run| run.progress.ticket.0 += 1_000),
            Flaw::Flickers if is_first => loaded.iter_mut().for_each(|run| run.progress.ticket.0 += 1_000),
            Flaw::Flickers
            | Flaw::DamagedEntry
            | Flaw::DropsMarks
            | Flaw::DamagedHistory
            | Flaw::LosesSegment(_)
            | Flaw::LosesEntries(_)
            | Flaw::HasMoreEntries
            | Flaw::None => {}
        }
        Ok(loaded)
    }

    async fn log(&self, run: &RunId, log: LogId, first: u64, limit: usize) -> Result<Vec<Json>, StoreError> {
        let mut entries = self.inner.log(run, log, first, limit).await?;
        if let Flaw::LosesEntries(from) = self.flaw {
            entries.truncate(usize::try_from(from.saturating_sub(first)).unwrap());
        }
        if self.flaw == Flaw::HasMoreEntries && entries.len() < limit {
            entries.push(Json::of(&BlobRef::of(run, b"no such page")).unwrap());
        }
        Ok(entries)
    }

    async fn effect(&self, run: &RunId, key: &EffectKey) -> Result<Option<EffectRecord>, StoreError> {
        self.inner.effect(run, key).await
    }

    async fn history(&self, run: &RunId, from: Revision, limit: usize) -> Result<Vec<Segment>, StoreError> {
        if self.flaw == Flaw::DamagedHistory {
            return Err(StoreError::Damaged(format!("run {run}: a segment cannot be read")));
        }
        self.asked.lock().unwrap().push(limit);
        let mut segments = self.inner.history(run, from, limit).await?;
        segments.retain(|segment| Flaw::LosesSegment(segment.from.0) != self.flaw);
        Ok(segments)
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        self.inner.claim(claim).await
    }

    async fn due(&self, until: Timestamp, limit: usize, after: Option<String>) -> Result<DuePage, StoreError> {
        Ok(self.listed(self.inner.due(until, limit, after).await?, |due| &due.run))
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<RunSummary>, StoreError> {
        Ok(self.listed(self.inner.list(query).await?, |summary| &summary.run))
    }
}
