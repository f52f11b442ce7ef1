//! The engine's side of a step, in memory, and an outside that counts.

use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use stepwell::host::{Claim, ErrorMeans, Host, HostError, Intent, NotAdmitted, Reached, Visiting};
use stepwell::{Call, CallError, Cx, EffectError, StepError};
use stepwell_core::{
    Amounts, BlobRef, Class, EffectKey, EffectRecord, Json, Letter, LogId, Outcome, Payload, RunId, SignalId,
    SignalName, Timestamp, Visit, WorkflowName,
};

/// When the clock starts.
pub(crate) const START: Timestamp = Timestamp(1_000_000);

/// What a step asked of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Hold(Timestamp),
    Intend(Vec<String>, Timestamp),
    Log { first: u64, count: u64 },
    Effect,
    Claim,
}

/// The engine's side.
pub(crate) struct FakeHost(Mutex<Inner>);

struct Inner {
    now: Timestamp,
    sleepers: Vec<Waker>,
    renews_slowly: bool,
    cancelled: bool,
    /// The run was cancelled, and only a write will tell.
    refuses_intents: bool,
    /// Why no effect may be dispatched.
    not_admitted: Option<NotAdmitted>,
    /// Whose the effects are that are unique across runs.
    claim: Claim,
    /// The journals that came with intents.
    intended: Vec<Vec<EffectRecord>>,
    /// What every further request is answered.
    trouble: Option<HostError>,
    asked: Vec<Asked>,
    blobs: BTreeMap<String, Vec<u8>>,
    logs: BTreeMap<LogId, Vec<Json>>,
    spilled: Vec<EffectRecord>,
}

impl FakeHost {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Inner {
            now: START,
            sleepers: Vec::new(),
            renews_slowly: false,
            cancelled: false,
            refuses_intents: false,
            not_admitted: None,
            claim: Claim::Mine,
            intended: Vec::new(),
            trouble: None,
            asked: Vec::new(),
            blobs: BTreeMap::new(),
            logs: BTreeMap::new(),
            spilled: Vec::new(),
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// Moves the clock and wakes whoever sleeps.
    pub(crate) fn pass(&self, time: Duration) {
        let mut inner = self.inner();
        inner.now = inner.now.plus(time);
        inner.sleepers.drain(..).for_each(Waker::wake);
    }

    pub(crate) fn cancel(&self) {
        self.inner().cancelled = true;
    }

    /// Somebody has cancelled the run: this worker learns of it from its next intent.
    pub(crate) fn refuse_intents(&self) {
        self.inner().refuses_intents = true;
    }

    /// From now on no effect is admitted.
    pub(crate) fn admit_nothing(&self, why: NotAdmitted) {
        self.inner().not_admitted = Some(why);
    }

    /// From now on each effect that is unique across runs is this one's.
    pub(crate) fn answer_claims(&self, claim: Claim) {
        self.inner().claim = claim;
    }

    /// The journals that came with intents.
    pub(crate) fn intended(&self) -> Vec<Vec<EffectRecord>> {
        self.inner().intended.clone()
    }

    pub(crate) fn be_in_trouble(&self, trouble: HostError) {
        self.inner().trouble = Some(trouble);
    }

    /// From now on what has to be written before each call takes a while.
    pub(crate) fn renew_slowly(&self) {
        self.inner().renews_slowly = true;
    }

    fn renews_slowly(&self) -> bool {
        self.inner().renews_slowly
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.inner().asked.clone()
    }

    pub(crate) fn spill(&self, record: EffectRecord) {
        self.inner().spilled.push(record);
    }

    pub(crate) fn lose_blobs(&self) {
        self.inner().blobs.clear();
    }

    /// A payload that lies in the blob store.
    pub(crate) fn shelve(&self, text: &str) -> Payload {
        let blob = BlobRef::of(&run(), text.as_bytes());
        self.inner().blobs.insert(blob.key.clone(), text.into());
        Payload::Blob(blob)
    }

    pub(crate) fn store_log(&self, log: LogId, entries: impl IntoIterator<Item = Json>) {
        self.inner().logs.entry(log).or_default().extend(entries);
    }

    /// The context of a first attempt.
    pub(crate) fn cx(self: &Arc<Self>) -> Cx {
        self.visit(|_| {})
    }

    /// The context of an attempt that is told something else.
    pub(crate) fn visit(self: &Arc<Self>, change: impl FnOnce(&mut Visiting)) -> Cx {
        let mut visiting = Visiting {
            run: run(),
            workflow: WorkflowName::new("refund").unwrap(),
            visit: Visit(1),
            failed_attempts: 0,
            earlier_try: None,
            letters: Vec::new(),
            journal: Vec::new(),
            ledger: Vec::new(),
            has_spilled: false,
            logs: 0,
            approvals: Vec::new(),
            undoing: None,
            undo_count: 0,
            counts_effects: false,
            reached: Reached::Park,
        };
        change(&mut visiting);
        Cx::new(visiting, self.clone())
    }

    /// The context of the attempt after this one.
    pub(crate) fn again(self: &Arc<Self>, cx: &Cx) -> Cx {
        self.visit(|visiting| {
            visiting.journal = cx.recorded().journal;
            visiting.failed_attempts = cx.attempt();
        })
    }

    fn answer<T>(&self, answer: impl FnOnce(&mut Inner) -> Result<T, HostError>) -> Result<T, HostError> {
        let mut inner = self.inner();
        match &inner.trouble {
            Some(trouble) => Err(trouble.clone()),
            None => answer(&mut inner),
        }
    }
}

#[async_trait]
impl Host for FakeHost {
    fn now(&self) -> Timestamp {
        self.inner().now
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.now().plus(duration);
        poll_fn(|context| {
            let mut inner = self.inner();
            if inner.now >= until {
                return Poll::Ready(());
            }
            inner.sleepers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    async fn hold_until(&self, until: Timestamp) -> Result<(), HostError> {
        self.inner().asked.push(Asked::Hold(until));
        if self.renews_slowly() {
            tokio::task::yield_now().await;
        }
        self.answer(|_| Ok(()))
    }

    async fn intend(&self, journal: Vec<EffectRecord>, key: &EffectKey, until: Timestamp) -> Result<Intent, HostError> {
        assert!(journal.iter().any(|record| record.key == *key && record.is_unknown()), "what is called is not in it");
        self.inner().intended.push(journal.clone());
        let open = journal.into_iter().filter(EffectRecord::is_open).map(|record| record.name).collect();
        self.inner().asked.push(Asked::Intend(open, until));
        if self.renews_slowly() {
            tokio::task::yield_now().await;
        }
        self.answer(|inner| {
            let cancelled = inner.cancelled || inner.refuses_intents;
            Ok(match inner.not_admitted.clone() {
                Some(why) => Intent::Refused(why),
                None if cancelled => Intent::Cancelled,
                None => Intent::Written,
            })
        })
    }

    async fn claim(&self, _: &EffectKey) -> Result<Claim, HostError> {
        self.inner().asked.push(Asked::Claim);
        self.answer(|inner| Ok(inner.claim.clone()))
    }

    fn is_cancelled(&self) -> bool {
        self.inner().cancelled
    }

    async fn put_blob(&self, bytes: Vec<u8>) -> Result<BlobRef, HostError> {
        self.answer(|inner| {
            let blob = BlobRef::of(&run(), &bytes);
            inner.blobs.insert(blob.key.clone(), bytes);
            Ok(blob)
        })
    }

    async fn get_blob(&self, blob: &BlobRef) -> Result<Vec<u8>, HostError> {
        let missing = || HostError::Data(format!("blob {} is missing", blob.key));
        self.answer(|inner| inner.blobs.get(&blob.key).cloned().ok_or_else(missing))
    }

    async fn read_log(&self, log: LogId, first: u64, count: u64) -> Result<Vec<Json>, HostError> {
        self.inner().asked.push(Asked::Log { first, count });
        let range = usize::try_from(first).unwrap()..usize::try_from(first + count).unwrap();
        let missing = || HostError::Data(format!("log {log} has no entries {range:?}"));
        let found = |inner: &mut Inner| inner.logs.get(&log)?.get(range.clone()).map(<[Json]>::to_vec);
        self.answer(|inner| found(inner).ok_or_else(missing))
    }

    async fn find_effect(&self, key: &EffectKey) -> Result<Option<EffectRecord>, HostError> {
        self.inner().asked.push(Asked::Effect);
        self.answer(|inner| Ok(inner.spilled.iter().find(|record| record.key == *key).cloned()))
    }
}

fn run() -> RunId {
    RunId::new("run-1").unwrap()
}

/// One call that reached the outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) key: String,
    pub(crate) attempt: u32,
    pub(crate) deadline: Duration,
}

/// The outside: it answers as it is told, and counts.
#[derive(Default)]
pub(crate) struct Outside(Mutex<Vec<Seen>>);

impl Outside {
    pub(crate) async fn ask<T, E>(&self, call: Call<'_>, answer: Result<T, E>) -> Result<T, E> {
        self.hear(call);
        tokio::task::yield_now().await;
        answer
    }

    /// Never answers.
    pub(crate) async fn ask_in_vain(&self, call: Call<'_>) -> Result<u8, CallError> {
        self.hear(call);
        core::future::pending().await
    }

    fn hear(&self, call: Call<'_>) {
        let seen = Seen { key: call.key().to_owned(), attempt: call.attempt(), deadline: call.deadline() };
        self.0.lock().unwrap().push(seen);
    }

    pub(crate) fn calls(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn keys(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.key).collect()
    }
}

/// A record that nothing further is said of.
pub(crate) fn bare(key: EffectKey, name: &str, class: Class, outcome: Outcome) -> EffectRecord {
    EffectRecord {
        key,
        name: name.into(),
        class,
        parameters: None,
        attempts: 1,
        outcome,
        until: None,
        of_run: true,
        approval: None,
        costs: Amounts::new(),
        undo: None,
        no_return: false,
        signed_off: None,
    }
}

/// The one record that there is.
pub(crate) fn only_record(cx: &Cx) -> EffectRecord {
    let journal = cx.recorded().journal;
    let [record] = &journal[..] else { panic!("{journal:?}") };
    record.clone()
}

pub(crate) fn json(value: &serde_json::Value) -> Json {
    Json::of(value).unwrap()
}

pub(crate) fn inline(value: &serde_json::Value) -> Payload {
    Payload::Inline(json(value))
}

pub(crate) fn succeeded(value: &serde_json::Value) -> Outcome {
    Outcome::Succeeded(inline(value))
}

pub(crate) fn letter(id: &str, name: &str, payload: Payload) -> Letter {
    Letter { id: SignalId::new(id).unwrap(), name: SignalName::new(name).unwrap(), payload, at: START }
}

/// What an error means for the run, after `?` in a step.
pub(crate) fn means(error: impl Into<StepError>) -> ErrorMeans {
    ErrorMeans::from(error.into())
}

pub(crate) fn is_misused(error: &EffectError, saying: &str) -> bool {
    matches!(error, EffectError::Misused { problem, .. } if problem.contains(saying))
}

/// Polls once, as an executor does that then loses interest.
pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
