//! Ports that fail as told: a [`Gate`] stands before the ports of one worker, counts its calls, and lets each pass, fail,
//! get lost, or be its last.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stepwell_core::history::Segment;
use stepwell_core::write::{Write, WriteRequest};
use stepwell_core::{BlobRef, Checkpoint, EffectKey, EffectRecord, Json, LogId, Revision, RunId, Timestamp};
use stepwell_ports::{
    BlobError, BlobStore, CheckpointStore, Claim, Claimed, Clock, Delivery, DuePage, Envelope, ListQuery, Page,
    QueueError, Receipt, RunQueue, RunSummary, StoreError, Written,
};

use tokio::time::Instant;

use crate::crash::{CrashPoint, Fuse, Side};

/// Which method of a port; a store's `write` by what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "each is the method, or the write, of its name")]
pub enum PortCall {
    Start,
    Acquire,
    Renew,
    Commit,
    Signal,
    Cancel,
    Amend,
    Load,
    Log,
    Effect,
    History,
    Claim,
    Due,
    List,
    Send,
    Receive,
    Delete,
    Extend,
    Bury,
    PutBlob,
    GetBlob,
    DeleteBlobs,
}

impl PortCall {
    const fn of(write: &Write) -> Self {
        match write {
            Write::Start(_) => Self::Start,
            Write::Acquire(_) => Self::Acquire,
            Write::Renew(_) => Self::Renew,
            Write::Commit(_) => Self::Commit,
            Write::Signal(_) => Self::Signal,
            Write::Cancel(_) => Self::Cancel,
            Write::Amend(_) => Self::Amend,
        }
    }

    /// Whether it changes nothing: there is no "may have happened" then.
    const fn only_reads(self) -> bool {
        match self {
            Self::Load | Self::Log | Self::Effect | Self::History | Self::Due | Self::List | Self::GetBlob => true,
            Self::Start
            | Self::Acquire
            | Self::Renew
            | Self::Commit
            | Self::Signal
            | Self::Cancel
            | Self::Amend
            | Self::Claim
            | Self::Send
            | Self::Receive
            | Self::Delete
            | Self::Extend
            | Self::Bury
            | Self::PutBlob
            | Self::DeleteBlobs => false,
        }
    }
}

impl fmt::Display for PortCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out.
    Pass,
    /// It is carried out, and answered only after this long.
    SlowAnswer(Duration),
    /// It is carried out only after this long.
    SlowStart(Duration),
    /// Nothing happens; the answer is that the backend is busy.
    Throttled,
    /// Nothing happens; the answer is that the backend is away.
    Unavailable,
    /// Nothing happens; the answer is that this will never be taken.
    Refused,
    /// Nothing happens; the answer is that it may have.
    LostBefore,
    /// It is carried out; the answer is that it may have been.
    LostAfter,
    /// The answer is that it may have happened; it happens after this long.
    Late(Duration),
    /// The worker dies before it.
    DieBefore,
    /// It is carried out, and the worker dies before it hears so.
    DieAfter,
    /// It is carried out, and before the worker hears so, all of the worker stands still for this long: no call of its begins, no
    /// answer reaches it, and no sleep by its clock ([`Gate::clock`]) ends.
    Freeze(Duration),
}

type Plan = Box<dyn FnMut(u64, PortCall) -> Fate + Send>;

/// Stands before the ports of one worker.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # use std::sync::Arc;
/// # use stepwell_core::Timestamp;
/// # use stepwell_ports::{CheckpointStore, StoreError};
/// # use stepwell_testkit::ManualClock;
/// use stepwell_testkit::faults::{Fate, Gate, PortCall};
/// # let store = Arc::new(stepwell_local::memory::Memory::new(Arc::new(ManualClock::starting_at(Timestamp(1)))));
/// let gate = Gate::planned(|number, _call| if number == 1 { Fate::Throttled } else { Fate::Pass });
/// let store = gate.store(store);
/// let run = stepwell_core::RunId::new("r1").unwrap();
/// assert!(store.load(&run).await.is_err());
/// assert_eq!(store.load(&run).await, Ok(None));
/// assert_eq!(gate.count(PortCall::Load), 2);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Gate {
    fuse: Fuse,
    /// The worker stands still until then.
    frozen: Mutex<Option<Instant>>,
    plan: Mutex<Plan>,
    calls: Mutex<Vec<PortCall>>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("fuse", &self.fuse).field("calls", &self.total()).finish_non_exhaustive()
    }
}

impl Gate {
    /// One that only counts.
    pub fn open() -> Arc<Self> {
        Self::planned(|_, _| Fate::Pass)
    }

    /// One that asks this plan about every call: its number, from 1, and what it is.
    pub fn planned(plan: impl FnMut(u64, PortCall) -> Fate + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            fuse: Fuse::new(),
            frozen: Mutex::default(),
            plan: Mutex::new(Box::new(plan)),
            calls: Mutex::default(),
        })
    }

    /// One whose worker dies there.
    pub fn crashing(point: CrashPoint) -> Arc<Self> {
        let last = match point.side {
            Side::Before => Fate::DieBefore,
            Side::After => Fate::DieAfter,
        };
        Self::planned(move |number, _| if number == point.call { last } else { Fate::Pass })
    }

    /// The life of the worker behind it.
    pub fn fuse(&self) -> &Fuse {
        &self.fuse
    }

    /// Goes on under another plan.
    pub fn replan(&self, plan: impl FnMut(u64, PortCall) -> Fate + Send + 'static) {
        *lock(&self.plan) = Box::new(plan);
    }

    /// Every call that was made, in order, those that failed included.
    pub fn calls(&self) -> Vec<PortCall> {
        lock(&self.calls).clone()
    }

    /// How many calls were made.
    pub fn total(&self) -> u64 {
        lock(&self.calls).len() as u64
    }

    /// How many of this call were made.
    pub fn count(&self, call: PortCall) -> usize {
        lock(&self.calls).iter().filter(|made| **made == call).count()
    }

    /// This store, behind the gate.
    pub fn store(self: &Arc<Self>, inner: Arc<dyn CheckpointStore>) -> Arc<dyn CheckpointStore> {
        Arc::new(Gated { gate: Arc::clone(self), inner })
    }

    /// This queue, behind the gate.
    pub fn queue(self: &Arc<Self>, inner: Arc<dyn RunQueue>) -> Arc<dyn RunQueue> {
        Arc::new(Gated { gate: Arc::clone(self), inner })
    }

    /// This blob store, behind the gate.
    pub fn blobs(self: &Arc<Self>, inner: Arc<dyn BlobStore>) -> Arc<dyn BlobStore> {
        Arc::new(Gated { gate: Arc::clone(self), inner })
    }

    /// This clock, behind the gate: it stands before no call, but no sleep ends while the worker stands still.
    pub fn clock(self: &Arc<Self>, inner: Arc<dyn Clock>) -> Arc<dyn Clock> {
        Arc::new(Gated { gate: Arc::clone(self), inner })
    }

    /// All of the worker stands still for this long from now on, see [`Fate::Freeze`].
    pub fn freeze(&self, lasting: Duration) {
        *lock(&self.frozen) = Some(Instant::now() + lasting);
    }

    /// Returns when the worker does not stand still.
    pub async fn thawed(&self) {
        loop {
            let until = *lock(&self.frozen);
            match until {
                Some(until) if until > Instant::now() => tokio::time::sleep_until(until).await,
                Some(_) | None => return,
            }
        }
    }

    fn fate(&self, call: PortCall) -> Fate {
        let number = {
            let mut calls = lock(&self.calls);
            calls.push(call);
            calls.len() as u64
        };
        lock(&self.plan)(number, call)
    }

    /// Does this, or what the plan says instead.
    async fn pass<T, E>(
        &self,
        call: PortCall,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: Fails + Send + 'static,
    {
        if self.fuse.is_burnt() {
            return self.fuse.silence().await;
        }
        self.thawed().await;
        let lost = || if call.only_reads() { E::unavailable() } else { E::unknown() };
        let answer = match self.fate(call) {
            Fate::Pass => work.await,
            Fate::SlowAnswer(delay) => {
                let answer = work.await;
                tokio::time::sleep(delay).await;
                answer
            }
            Fate::SlowStart(delay) => {
                tokio::time::sleep(delay).await;
                work.await
            }
            Fate::Throttled => Err(E::throttled()),
            Fate::Unavailable => Err(E::unavailable()),
            Fate::Refused => Err(E::refused()),
            Fate::LostBefore => Err(lost()),
            Fate::LostAfter => work.await.and_then(|_| Err(lost())),
            Fate::Late(delay) => {
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    // Nobody listens any more.
                    let _ = work.await;
                });
                Err(lost())
            }
            Fate::DieBefore => {
                self.fuse.burn();
                self.fuse.silence().await
            }
            Fate::DieAfter => {
                let _ = work.await;
                self.fuse.burn();
                self.fuse.silence().await
            }
            Fate::Freeze(lasting) => {
                let answer = work.await;
                self.freeze(lasting);
                answer
            }
        };
        self.thawed().await;
        // It may have died meanwhile, at another of its calls.
        if self.fuse.is_burnt() { self.fuse.silence().await } else { answer }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a port says when it fails.
trait Fails {
    fn throttled() -> Self;
    fn unavailable() -> Self;
    fn refused() -> Self;
    fn unknown() -> Self;
}

impl Fails for StoreError {
    fn throttled() -> Self {
        Self::Throttled("scripted".into())
    }

    fn unavailable() -> Self {
        Self::Unavailable("scripted".into())
    }

    fn refused() -> Self {
        Self::Invalid("scripted".into())
    }

    fn unknown() -> Self {
        Self::Unknown("scripted: the reply was lost".into())
    }
}

impl Fails for QueueError {
    fn throttled() -> Self {
        Self::Unavailable("scripted: busy".into())
    }

    fn unavailable() -> Self {
        Self::Unavailable("scripted".into())
    }

    fn refused() -> Self {
        Self::Invalid("scripted".into())
    }

    fn unknown() -> Self {
        Self::Unavailable("scripted: the reply was lost".into())
    }
}

impl Fails for BlobError {
    fn throttled() -> Self {
        Self::Unavailable("scripted: busy".into())
    }

    fn unavailable() -> Self {
        Self::Unavailable("scripted".into())
    }

    fn refused() -> Self {
        Self::TooLarge { size: u64::MAX, limit: 0 }
    }

    fn unknown() -> Self {
        Self::Unavailable("scripted: the reply was lost".into())
    }
}

/// A port behind a gate. Each call owns what it needs, so that it can happen after its caller is gone.
struct Gated<P: ?Sized> {
    gate: Arc<Gate>,
    inner: Arc<P>,
}

#[async_trait]
impl CheckpointStore for Gated<dyn CheckpointStore> {
    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        let (inner, request) = (Arc::clone(&self.inner), request.clone());
        self.gate.pass(PortCall::of(&request.write), async move { inner.write(&request).await }).await
    }

    async fn load(&self, run: &RunId) -> Result<Option<Checkpoint>, StoreError> {
        let (inner, run) = (Arc::clone(&self.inner), run.clone());
        self.gate.pass(PortCall::Load, async move { inner.load(&run).await }).await
    }

    async fn log(&self, run: &RunId, log: LogId, first: u64, limit: usize) -> Result<Vec<Json>, StoreError> {
        let (inner, run) = (Arc::clone(&self.inner), run.clone());
        self.gate.pass(PortCall::Log, async move { inner.log(&run, log, first, limit).await }).await
    }

    async fn effect(&self, run: &RunId, key: &EffectKey) -> Result<Option<EffectRecord>, StoreError> {
        let (inner, run, key) = (Arc::clone(&self.inner), run.clone(), key.clone());
        self.gate.pass(PortCall::Effect, async move { inner.effect(&run, &key).await }).await
    }

    async fn history(&self, run: &RunId, from: Revision, limit: usize) -> Result<Vec<Segment>, StoreError> {
        let (inner, run) = (Arc::clone(&self.inner), run.clone());
        self.gate.pass(PortCall::History, async move { inner.history(&run, from, limit).await }).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let (inner, claim) = (Arc::clone(&self.inner), claim.clone());
        self.gate.pass(PortCall::Claim, async move { inner.claim(&claim).await }).await
    }

    async fn due(&self, until: Timestamp, limit: usize, after: Option<String>) -> Result<DuePage, StoreError> {
        let inner = Arc::clone(&self.inner);
        self.gate.pass(PortCall::Due, async move { inner.due(until, limit, after).await }).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<RunSummary>, StoreError> {
        let (inner, query) = (Arc::clone(&self.inner), query.clone());
        self.gate.pass(PortCall::List, async move { inner.list(&query).await }).await
    }
}

#[async_trait]
impl RunQueue for Gated<dyn RunQueue> {
    async fn send(&self, envelopes: &[Envelope]) -> Result<(), QueueError> {
        let (inner, envelopes) = (Arc::clone(&self.inner), envelopes.to_vec());
        self.gate.pass(PortCall::Send, async move { inner.send(&envelopes).await }).await
    }

    async fn receive(&self, max: usize, visibility: Duration, wait: Duration) -> Result<Vec<Delivery>, QueueError> {
        let inner = Arc::clone(&self.inner);
        self.gate.pass(PortCall::Receive, async move { inner.receive(max, visibility, wait).await }).await
    }

    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError> {
        let (inner, receipts) = (Arc::clone(&self.inner), receipts.to_vec());
        self.gate.pass(PortCall::Delete, async move { inner.delete(&receipts).await }).await
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), QueueError> {
        let (inner, receipt) = (Arc::clone(&self.inner), receipt.clone());
        self.gate.pass(PortCall::Extend, async move { inner.extend(&receipt, visibility).await }).await
    }

    async fn bury(&self, delivery: &Delivery, reason: &str) -> Result<(), QueueError> {
        let (inner, delivery, reason) = (Arc::clone(&self.inner), delivery.clone(), reason.to_owned());
        self.gate.pass(PortCall::Bury, async move { inner.bury(&delivery, &reason).await }).await
    }
}

#[async_trait]
impl Clock for Gated<dyn Clock> {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration).await;
        self.gate.thawed().await;
    }
}

#[async_trait]
impl BlobStore for Gated<dyn BlobStore> {
    async fn put(&self, run: &RunId, bytes: &[u8]) -> Result<BlobRef, BlobError> {
        let (inner, run, bytes) = (Arc::clone(&self.inner), run.clone(), bytes.to_vec());
        self.gate.pass(PortCall::PutBlob, async move { inner.put(&run, &bytes).await }).await
    }

    async fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, BlobError> {
        let (inner, blob) = (Arc::clone(&self.inner), blob.clone());
        self.gate.pass(PortCall::GetBlob, async move { inner.get(&blob).await }).await
    }

    async fn delete_run(&self, run: &RunId) -> Result<(), BlobError> {
        let (inner, run) = (Arc::clone(&self.inner), run.clone());
        self.gate.pass(PortCall::DeleteBlobs, async move { inner.delete_run(&run).await }).await
    }
}

#[cfg(test)]
mod tests {
    use stepwell_core::{Scope, WorkflowName};
    use stepwell_local::memory::Memory;

    use super::*;
    use crate::{ManualClock, VirtualClock};

    #[tokio::test(start_paused = true)]
    async fn a_frozen_worker_neither_calls_nor_hears_nor_wakes() {
        let start = Instant::now();
        let clock = Arc::new(VirtualClock::starting_at(Timestamp(1)));
        let mut fates = [Fate::Freeze(Duration::from_mins(1)), Fate::Pass].into_iter();
        let gate = Gate::planned(move |_, _| fates.next().unwrap());
        let store = gate.store(Arc::new(Memory::new(clock.clone())));
        let run = RunId::new("r1").unwrap();
        let sleeper = gate.clock(clock);
        let (heard, ()) = tokio::join!(store.load(&run), sleeper.sleep(Duration::from_secs(1)));
        assert_eq!((heard, start.elapsed()), (Ok(None), Duration::from_mins(1)));
        assert_eq!(
            (store.load(&run).await, start.elapsed()),
            (Ok(None), Duration::from_mins(1)),
            "and goes on after that"
        );
    }

    #[tokio::test]
    async fn a_claim_is_counted_and_gets_lost_like_a_write() {
        let memory: Arc<dyn CheckpointStore> = Arc::new(Memory::new(Arc::new(ManualClock::starting_at(Timestamp(1)))));
        let [first, second] = ["r1", "r2"].map(|name| RunId::new(name).unwrap());
        let workflow = WorkflowName::new("refund").unwrap();
        let key = EffectKey::derive(&first, &workflow, "refund", Scope::Business("order-7"));
        let claim = |run: &RunId| Claim { key: key.clone(), by: run.clone().into(), instead_of: None };
        let mut fates = [Fate::LostBefore, Fate::Throttled, Fate::LostAfter, Fate::Pass].into_iter();
        let gate = Gate::planned(move |_, _| fates.next().unwrap());
        let store = gate.store(Arc::clone(&memory));
        for (number, run) in [&second, &second, &first].into_iter().enumerate() {
            let is_unknown = matches!(store.claim(&claim(run)).await, Err(StoreError::Unknown(_)));
            assert_eq!(is_unknown, number != 1, "call {number}");
        }
        assert_eq!(
            memory.claim(&claim(&second)).await,
            Ok(Claimed::Of(first.clone().into())),
            "just the last one landed"
        );
        assert_eq!(store.claim(&claim(&first)).await, Ok(Claimed::Mine), "and is safe to make again");
        assert_eq!(gate.calls(), [PortCall::Claim; 4]);
    }
}
