//! What a running step reaches of the engine: the lease, blobs, logs, effects of the run.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use stepwell::host::{Claim as HostClaim, Host, HostError, Intent};
use stepwell_core::decide::{self, Rules};
use stepwell_core::write::{Refusal, Renew, Write};
use stepwell_core::{
    BlobRef, Budget, Checkpoint, EffectKey, EffectRecord, Fence, Json, LogId, Progress, RunId, Timestamp,
};
use stepwell_ports::{BlobError, Claim, Claimant, Claimed, StoreError};

use crate::commit::{Carried, carry_out};
use crate::intents::{Asked, Intents};
use crate::{Ports, payload};

/// The holder of one run, for the length of one turn.
pub(crate) struct TurnHost {
    ports: Ports,
    run: RunId,
    fence: Fence,
    rules: Rules,
    /// The version of the code that runs, and what it lets the run spend.
    code: Code,
    intents: Intents,
    lost: AtomicBool,
    leased_until: AtomicU64,
    /// When the step that runs is cut: no lease is needed beyond that.
    cut_at: AtomicU64,
    cancelled: AtomicBool,
    renewals: AtomicU64,
}

impl TurnHost {
    pub(crate) fn new(ports: Ports, held: &Arc<Checkpoint>, rules: Rules, code: Code) -> Self {
        let host = Self {
            ports,
            run: held.run.clone(),
            fence: held.hold.fence,
            rules,
            code,
            intents: Intents::new(Arc::clone(held)),
            lost: AtomicBool::new(false),
            leased_until: AtomicU64::new(0),
            cut_at: AtomicU64::new(u64::MAX),
            cancelled: AtomicBool::new(false),
            renewals: AtomicU64::new(0),
        };
        host.learn_held(held);
        host
    }

    /// What the code that runs lets the run spend.
    pub(crate) fn budget(&self) -> &Budget {
        &self.code.budget
    }

    /// Takes over what an acquire or a commit has answered.
    pub(crate) fn learn(&self, held: &Arc<Checkpoint>) {
        self.intents.learn(Arc::clone(held));
        self.learn_held(held);
    }

    fn learn_held(&self, held: &Checkpoint) {
        if let Some(lease) = &held.hold.lease {
            self.leased_until.store(lease.until.0, Ordering::Relaxed);
        }
        self.cancelled.store(held.is_to_end(), Ordering::Relaxed);
    }

    /// Takes over what a renewal or an intent has answered. Two may be under way at once, and be heard of in any order.
    fn learn_renewed(&self, held: &Checkpoint) {
        if let Some(lease) = &held.hold.lease {
            self.leased_until.fetch_max(lease.until.0, Ordering::Relaxed);
        }
        self.cancelled.fetch_or(held.is_to_end(), Ordering::Relaxed);
    }

    /// A step begins, and is cut at this time.
    pub(crate) fn begin(&self, cut_at: Timestamp) {
        self.cut_at.store(cut_at.0, Ordering::Relaxed);
    }

    /// The checkpoint as the last intent has left it, if there was one since the last call.
    pub(crate) fn take_intended(&self) -> Option<Arc<Checkpoint>> {
        self.intents.take_news()
    }

    /// Another worker has the run: nothing more is called or written.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    fn still_held(&self) -> Result<(), HostError> {
        if self.lost.load(Ordering::Relaxed) { Err(HostError::Lost) } else { Ok(()) }
    }

    /// Renewals and intents since the last call.
    pub(crate) fn take_renewals(&self) -> u64 {
        self.renewals.swap(0, Ordering::Relaxed)
    }

    /// Extends the lease to its full length whenever a third of it has passed. Returns when the run is lost.
    pub(crate) async fn keep_lease(&self) {
        let mut pause = Duration::ZERO;
        loop {
            let until = Timestamp(self.leased_until.load(Ordering::Relaxed));
            let left = until.since(self.ports.clock.now());
            self.ports.clock.sleep(left.saturating_sub(self.rules.lease * 2 / 3).max(pause)).await;
            pause = match self.renew_until(self.ports.clock.now().plus(self.rules.lease)).await {
                Ok(()) => Duration::ZERO,
                Err(HostError::Lost) => return,
                // Not renewed: the lease may run out, and then the fence decides. The step goes on.
                Err(HostError::Passing(message) | HostError::Data(message)) => {
                    tracing::warn!(run = %self.run, message, "the lease could not be renewed");
                    self.rules.lease / 10
                }
            };
        }
    }

    async fn renew_until(&self, until: Timestamp) -> Result<(), HostError> {
        let write = Write::Renew(Renew { fence: self.fence, until });
        self.renewals.fetch_add(1, Ordering::Relaxed);
        match carry_out(&self.ports, &self.run, write).await {
            Carried::Applied(held) => {
                self.learn_renewed(&held);
                Ok(())
            }
            Carried::Refused(..) => Err(HostError::Lost),
            Carried::Failed(error) => Err(store_error(&error)),
        }
    }
}

#[async_trait]
impl Host for TurnHost {
    fn now(&self) -> Timestamp {
        self.ports.clock.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.ports.clock.sleep(duration).await;
    }

    async fn hold_until(&self, until: Timestamp) -> Result<(), HostError> {
        self.still_held()?;
        // A step never outlasts its own time limit, whatever its effects may take; nor does its lease have to.
        let until = until.min(Timestamp(self.cut_at.load(Ordering::Relaxed)));
        if until.0 <= self.leased_until.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.renew_until(until).await
    }

    async fn intend(&self, journal: Vec<EffectRecord>, key: &EffectKey, until: Timestamp) -> Result<Intent, HostError> {
        self.still_held()?;
        // Before the first await: a call beside this one finds what is reserved here in its journal.
        let (held, now) = (self.intents.held(), self.ports.clock.now());
        if let Err(why) = decide::admit(&held, &journal, key, self.code.version, &self.code.budget, now) {
            return Ok(Intent::Refused(why));
        }
        let until = until.min(Timestamp(self.cut_at.load(Ordering::Relaxed)));
        let mine = self.intents.ask(journal, until);
        let mut written = self.intents.turn().await;
        if *written >= mine {
            return Ok(Intent::Written);
        }
        let (Asked { number, mut journal, until }, mut held) = self.intents.to_write();
        let blobs = &*self.ports.blobs;
        payload::store_results(blobs, &self.run, payload::RESULT_INLINE_BYTES_MAX, journal.iter_mut())
            .await
            .map_err(|error| HostError::Passing(error.to_string()))?;
        loop {
            let intended = decide::intend(&held, journal.clone(), until, self.rules, self.ports.clock.now());
            let commit = intended.map_err(|illegal| HostError::Data(illegal.to_string()))?;
            self.renewals.fetch_add(1, Ordering::Relaxed);
            match carry_out(&self.ports, &self.run, Write::Commit(Box::new(commit))).await {
                Carried::Applied(held) => {
                    self.learn_renewed(&held);
                    self.intents.stands(held.into());
                    *written = number;
                    return Ok(Intent::Written);
                }
                // What takes effects back goes on, whoever asks for the run's end.
                Carried::Refused(Refusal::Cancelled, Some(current)) if !current.is_to_end() => held = current.into(),
                Carried::Refused(Refusal::Cancelled, _) => {
                    self.cancelled.store(true, Ordering::Relaxed);
                    return Ok(Intent::Cancelled);
                }
                Carried::Refused(..) => return Err(HostError::Lost),
                Carried::Failed(error) => return Err(store_error(&error)),
            }
        }
    }

    async fn claim(&self, key: &EffectKey) -> Result<HostClaim, HostError> {
        self.still_held()?;
        let by = Claimant { run: self.run.clone(), life: self.intents.held().progress.lives };
        let mut claim = Claim { key: key.clone(), by, instead_of: None };
        // More than two rounds only if others pass it on meanwhile.
        for _ in 0..8 {
            self.renewals.fetch_add(1, Ordering::Relaxed);
            let owner = match self.ports.store.claim(&claim).await.map_err(|error| store_error(&error))? {
                Claimed::Mine => return Ok(HostClaim::Mine),
                Claimed::Of(owner) => owner,
            };
            // What this run had in an earlier life is its own: what it did then stands in its own records.
            let is_own = owner.run == self.run && owner.life < claim.by.life;
            let theirs = if is_own { None } else { self.elsewhere(&owner, key).await? };
            match theirs {
                Some(theirs) => return Ok(theirs),
                None => claim.instead_of = Some(owner),
            }
        }
        Err(HostError::Passing(format!("effect key {key} goes from run to run; it is claimed again later")))
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    async fn put_blob(&self, bytes: Vec<u8>) -> Result<BlobRef, HostError> {
        self.ports.blobs.put(&self.run, &bytes).await.map_err(|error| blob_error(&error))
    }

    async fn get_blob(&self, blob: &BlobRef) -> Result<Vec<u8>, HostError> {
        self.ports.blobs.get(blob).await.map_err(|error| blob_error(&error))
    }

    async fn read_log(&self, log: LogId, first: u64, count: u64) -> Result<Vec<Json>, HostError> {
        let limit = usize::try_from(count).unwrap_or(usize::MAX);
        let entries = self.ports.store.log(&self.run, log, first, limit).await.map_err(|error| store_error(&error))?;
        if entries.len() < limit {
            let missing = first + entries.len() as u64;
            return Err(HostError::Data(format!("entry {missing} of log {log} of run {} is missing", self.run)));
        }
        Ok(entries)
    }

    async fn find_effect(&self, key: &EffectKey) -> Result<Option<EffectRecord>, HostError> {
        self.ports.store.effect(&self.run, key).await.map_err(|error| store_error(&error))
    }
}

/// The code that a turn runs.
pub(crate) struct Code {
    /// Its version.
    pub(crate) version: u32,
    /// What it lets a run spend.
    pub(crate) budget: Budget,
}

impl Code {
    /// A run of a workflow that this program does not know: no step of it runs.
    pub(crate) fn none() -> Self {
        Self { version: 0, budget: Budget::none() }
    }
}

impl TurnHost {
    /// What another run knows of an effect. `None`: it will never make it, for sure.
    async fn elsewhere(&self, claimant: &Claimant, key: &EffectKey) -> Result<Option<HostClaim>, HostError> {
        let store = &self.ports.store;
        let owner = claimant.run.clone();
        let run = store.load(&owner).await.map_err(|error| store_error(&error))?;
        // Whoever claims has a checkpoint: one that is gone was removed, and with it the run.
        let Some(run) = run else { return Ok(None) };
        let Progress { journal, ledger, spilled, status, lives, undo, undoing, .. } = &run.progress;
        if let Some(undoing) = undoing {
            let undone = undoing.undone.iter().any(|effect| effect.key.as_ref() == Some(key));
            if undone || undo.iter().any(|undo| undo.key == *key) {
                return Ok(Some(HostClaim::TakenBack { run: owner }));
            }
        }
        let mut record = journal.iter().chain(ledger).find(|record| record.key == *key).cloned();
        if record.is_none() && *spilled > 0 {
            record = store.effect(&owner, key).await.map_err(|error| store_error(&error))?;
        }
        let never = match &record {
            Some(record) => !record.may_have_happened(),
            // In that life, at least: should it be brought back, it claims anew.
            None => status.phase().is_ended() || *lives > claimant.life,
        };
        Ok((!never).then(|| HostClaim::Of { run: owner, record: record.map(Box::new) }))
    }
}

fn store_error(error: &StoreError) -> HostError {
    match error {
        StoreError::Throttled(_) | StoreError::Unknown(_) | StoreError::Unavailable(_) => {
            HostError::Passing(error.to_string())
        }
        StoreError::Invalid(_) | StoreError::Damaged(_) => HostError::Data(error.to_string()),
    }
}

fn blob_error(error: &BlobError) -> HostError {
    match error {
        BlobError::Unavailable(_) => HostError::Passing(error.to_string()),
        BlobError::Missing { .. } | BlobError::Altered { .. } | BlobError::TooLarge { .. } => {
            HostError::Data(error.to_string())
        }
    }
}
