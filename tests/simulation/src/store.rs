//! The world's store: the reference implementation in memory, before which a witness stands, and whose indexes may be old.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use stepwell_core::history::Segment;
use stepwell_core::limits::PAGE_MAX;
use stepwell_core::write::WriteRequest;
use stepwell_core::{Checkpoint, EffectKey, EffectRecord, Json, LogId, Revision, RunId, Timestamp};
use stepwell_local::memory::Memory;
use stepwell_ports::{CheckpointStore, Claim, Claimed, DuePage, ListQuery, Page, RunSummary, StoreError, Written};
use stepwell_testkit::{Double, StoreDouble};

use crate::dice::{Dice, Temper};
use crate::tape::{Seen, Tape, Who};

/// What all share.
pub(crate) struct Store {
    pub(crate) memory: Arc<Memory>,
    tape: Arc<Tape>,
    dice: Dice,
    temper: Arc<Temper>,
    latest: Mutex<Latest>,
}

#[derive(Default)]
struct Latest {
    /// Who writes right now.
    writer: Option<Who>,
    checkpoints: BTreeMap<RunId, Arc<Checkpoint>>,
    due: Option<DuePage>,
}

impl Store {
    pub(crate) fn new(memory: Arc<Memory>, tape: Arc<Tape>, dice: Dice, temper: Arc<Temper>) -> Self {
        Self { memory, tape, dice, temper, latest: Mutex::default() }
    }

    /// This store, as somebody has it: what they write is on the tape under their name. `inner` ends at the witness.
    pub(crate) fn signed(self: &Arc<Self>, who: Who, inner: Arc<dyn CheckpointStore>) -> Arc<dyn CheckpointStore> {
        Arc::new(Double(Signed { who, witness: Arc::clone(self), inner }))
    }

    fn is_stale(&self) -> bool {
        let stale = self.tape.elapsed() < self.temper.calm && self.dice.chance(self.temper.stale);
        if stale {
            self.tape.count("index answers from before");
        }
        stale
    }

    fn latest(&self) -> std::sync::MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The witness.
#[async_trait]
impl CheckpointStore for Store {
    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        // One write of the memory is one step of the runtime, so nothing comes in between it and this.
        let written = self.memory.write(request).await?;
        let Written::Applied(after) = &written else { return Ok(written) };
        let mut latest = self.latest();
        let before = latest.checkpoints.get(&request.run).cloned();
        if before.as_deref() != Some(&**after) {
            let after = Arc::new((**after).clone());
            latest.checkpoints.insert(request.run.clone(), Arc::clone(&after));
            let by = latest.writer.clone().unwrap_or_else(|| "nobody".into());
            let (at, request) = (self.tape.now(), request.clone());
            self.tape.tell(&by, || crate::story::write(&request, before.as_deref(), &after));
            self.tape.recorded().writes.push(Seen { at, by, request, before, after });
        }
        Ok(written)
    }

    async fn load(&self, run: &RunId) -> Result<Option<Checkpoint>, StoreError> {
        self.memory.load(run).await
    }

    async fn log(&self, run: &RunId, log: LogId, first: u64, limit: usize) -> Result<Vec<Json>, StoreError> {
        self.memory.log(run, log, first, limit).await
    }

    async fn effect(&self, run: &RunId, key: &EffectKey) -> Result<Option<EffectRecord>, StoreError> {
        self.memory.effect(run, key).await
    }

    async fn history(&self, run: &RunId, from: Revision, limit: usize) -> Result<Vec<Segment>, StoreError> {
        self.memory.history(run, from, limit).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        self.memory.claim(claim).await
    }

    async fn due(&self, until: Timestamp, limit: usize, after: Option<String>) -> Result<DuePage, StoreError> {
        if !self.temper.sweeps {
            // Here nobody sweeps: what a run needs has to be in its messages.
            return Ok(DuePage { items: Vec::new(), damaged: Vec::new(), next: None });
        }
        if after.is_some() {
            return self.memory.due(until, limit, after).await;
        }
        let old = if self.is_stale() { self.latest().due.clone() } else { None };
        let mut page = if let Some(page) = old {
            page
        } else {
            // A world's runs fit one page.
            let page = self.memory.due(Timestamp(u64::MAX), PAGE_MAX, None).await?;
            self.latest().due = Some(page.clone());
            page
        };
        page.items.retain(|found| found.due_at <= until);
        page.items.truncate(limit);
        Ok(page)
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<RunSummary>, StoreError> {
        self.memory.list(query).await
    }
}

/// Says who writes, then writes. All behind it is one step of the runtime, so the name is right when the witness reads it.
struct Signed {
    who: Who,
    witness: Arc<Store>,
    inner: Arc<dyn CheckpointStore>,
}

#[async_trait]
impl StoreDouble for Signed {
    fn inner(&self) -> &dyn CheckpointStore {
        &*self.inner
    }

    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        self.witness.latest().writer = Some(Arc::clone(&self.who));
        self.inner.write(request).await
    }
}
