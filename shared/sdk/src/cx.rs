//! What a step can do: effects, signals, large values, time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use stepwell_core::limits::UNDO_MAX;
use stepwell_core::mailbox::take_evidence;
use stepwell_core::{
    Amounts, ApprovalId, EffectKey, EffectRecord, Json, Outcome, Payload, RunId, SignalId, Timestamp, Usage,
};

use crate::arena::Keys;
use crate::effect::{Effect, Unclassified};
use crate::host::{Host, HostError, Visiting};
use crate::known::misused;
use crate::secret::refuse_secrets;
use crate::signal::read_at_edge;
use crate::watch::Watch;
use crate::{Blob, EffectError, Log, Signal, StepError, redact};

/// What a step can do beside computing. Shared (`&Cx`), so that several effects may be in flight at once.
pub struct Cx {
    pub(crate) visiting: Visiting,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) keys: Keys,
    /// Whether a step is one of the workflow, which alone knows its type.
    pub(crate) knows_step: OnceLock<KnowsStep>,
    /// Who sees what goes to the outside.
    pub(crate) watch: OnceLock<Arc<dyn Watch>>,
    record: Mutex<StepRecord>,
}

type KnowsStep = fn(&Json) -> Result<(), String>;

/// What one attempt of a step recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepRecord {
    /// Every effect of this visit, those of earlier attempts included.
    pub journal: Vec<EffectRecord>,
    /// Effects whose results this attempt has, those aside that may be asked for twice.
    pub(crate) handed_out: Vec<EffectKey>,
    /// Effects that are being called right now.
    pub(crate) in_flight: Vec<EffectKey>,
    /// What calls have said that they cost, by key.
    pub(crate) told: BTreeMap<String, Amounts>,
    pub(crate) taken: Vec<SignalId>,
    pub(crate) used: Usage,
}

/// Entries of a log that are read with one request.
const LOG_PAGE: u64 = 1_000;

impl Cx {
    /// For the engine: the context of one attempt.
    pub fn new(mut visiting: Visiting, host: Arc<dyn Host>) -> Self {
        let journal = std::mem::take(&mut visiting.journal);
        let mut record = StepRecord { journal, ..StepRecord::default() };
        let Visiting { run, workflow, visit, has_spilled, letters, ledger, .. } = &visiting;
        let is_of_visit = |told: &EffectRecord| told.is_of(run, workflow, *visit, *has_spilled);
        record.taken = take_evidence(letters, &mut record.journal, ledger, is_of_visit);
        let (knows_step, watch) = (OnceLock::new(), OnceLock::new());
        Self { visiting, host, keys: Keys::default(), knows_step, watch, record: Mutex::new(record) }
    }

    /// For the engine: whether a call to the outside is under way.
    pub fn is_calling(&self) -> bool {
        !self.record().in_flight.is_empty()
    }

    /// For the engine: what the attempt has recorded so far.
    pub fn recorded(&self) -> StepRecord {
        self.record().clone()
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, StepRecord> {
        // The record is consistent after each of its short critical sections, none of which calls user code.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run's id.
    pub fn run(&self) -> &RunId {
        &self.visiting.run
    }

    /// Which attempt of this step this is, from 1. Attempts that crashed with their worker are not counted.
    pub fn attempt(&self) -> u32 {
        self.visiting.failed_attempts + 1
    }

    /// The time, by the engine's clock.
    pub fn now(&self) -> Timestamp {
        self.host.now()
    }

    /// Whether somebody asked to end the run. Effects are no longer dispatched then; a long computation may want to stop.
    pub fn is_cancelled(&self) -> bool {
        self.host.is_cancelled()
    }

    /// A call to the outside, by a name that is unique in this step (or with a [`key`](Effect::key), say in a loop). Say its
    /// class, then `call`:
    ///
    /// ```
    /// # use stepwell::prelude::*;
    /// # async fn fetch(url: &str) -> Result<String, std::io::Error> { Ok(url.to_string()) }
    /// # async fn step(cx: &Cx) -> Result<(), StepError> {
    /// let page = cx.effect("fetch").read().call(|_| fetch("https://example.com")).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Without a class there is no call:
    ///
    /// ```compile_fail,E0277
    /// # use stepwell::prelude::*;
    /// # async fn fetch(url: &str) -> Result<String, std::io::Error> { Ok(url.to_string()) }
    /// # async fn step(cx: &Cx) -> Result<(), StepError> {
    /// let page = cx.effect("fetch").call(|_| fetch("https://example.com")).await?;
    /// # Ok(()) }
    /// ```
    pub fn effect(&self, name: &'static str) -> Effect<'_, Unclassified> {
        Effect::new(self, name)
    }

    /// The result of the effect that this step takes back. `None` when it may have happened and nobody knows what it answered.
    ///
    /// # Errors
    /// In a step that takes nothing back, or when the result is of another type: the run is parked, since it cannot go on.
    pub async fn result_to_undo<T: DeserializeOwned>(&self) -> Result<Option<T>, StepError> {
        let Some(key) = &self.visiting.undoing else {
            return Err(StepError::terminal("this step takes nothing back: it has no result to undo"));
        };
        let mut record = self.visiting.ledger.iter().find(|record| record.key == *key).cloned();
        if record.is_none() && self.visiting.has_spilled {
            record = self.host.find_effect(key).await.map_err(EffectError::from)?;
        }
        match record.map(|record| record.outcome) {
            Some(Outcome::Succeeded(payload)) => {
                let value = self.value(&payload).await.map_err(EffectError::from)?;
                value
                    .parse()
                    .map(Some)
                    .map_err(|error| data(format!("the result of effect {key} does not fit: {error}")))
            }
            Some(Outcome::Failed(_) | Outcome::Unknown { .. }) | None => Ok(None),
        }
    }

    /// The approval that an effect is made under: the one that it has used, or the last that was asked for.
    pub(crate) fn approval_for(&self, action: &str, key: &EffectKey) -> Result<ApprovalId, String> {
        let mut asked = self.visiting.approvals.iter().rev().filter(|approval| approval.action == action);
        let used = asked.clone().find(|approval| approval.used.as_ref().is_some_and(|used| used.by == *key));
        let problem = || format!("no approval of {action} was asked for; `wait(..).for_approval(..)` asks");
        used.or_else(|| asked.next()).map(|approval| approval.id.clone()).ok_or_else(problem)
    }

    /// A step that takes an effect back, if it is one of the workflow.
    pub(crate) fn checked_undo(&self, name: &str, undo: Result<Json, String>) -> Result<Json, EffectError> {
        let wrong = |problem: String| misused(name, format!("the step that takes it back {problem}"));
        if self.visiting.undoing.is_some() {
            return Err(wrong(
                "would run while another is taken back: what takes back is not taken back itself".into(),
            ));
        }
        let step = undo.map_err(|error| wrong(format!("cannot be written as JSON: {error}")))?;
        refuse_secrets("it", step.text().as_bytes()).map_err(wrong)?;
        let known = self.knows_step.get().map_or(Ok(()), |knows| knows(&step));
        known.map_err(|misfit| wrong(format!("is none of the workflow: {misfit}")))?;
        let (stack, journal) = (self.visiting.undo_count, self.record().journal.len());
        if stack + journal > UNDO_MAX {
            return Err(wrong(format!("is one of more than {UNDO_MAX}: a run can take back so many; split it")));
        }
        Ok(step)
    }

    /// Takes the oldest signal of this kind from the mailbox. It is consumed when the step commits; if the step fails it is
    /// still there. `None` when there is none (after a wait: its time ran out).
    ///
    /// # Errors
    /// When the payload does not fit `T` any more: the run fails, naming the field.
    pub async fn take<T: DeserializeOwned>(&self, signal: Signal<T>) -> Result<Option<T>, StepError> {
        let found = {
            let mut record = self.record();
            let fits = |letter: &&stepwell_core::Letter| {
                letter.name.as_str() == signal.name() && !record.taken.contains(&letter.id)
            };
            let found = self.visiting.letters.iter().find(fits).cloned();
            if let Some(letter) = &found {
                record.taken.push(letter.id.clone());
            }
            found
        };
        let Some(letter) = found else { return Ok(None) };
        let value = self.value(&letter.payload).await.map_err(EffectError::from)?;
        read_at_edge(&value).map(Some).map_err(|misfit| {
            let (name, id) = (signal.name(), &letter.id);
            StepError::terminal(format!("signal {name} ({id}) does not fit at `{}`: {}", misfit.path(), misfit.inner()))
        })
    }

    /// Stores a large value; keep the reference in the state.
    ///
    /// # Errors
    /// When it cannot be written as JSON, is over the limit, or the blob store is not available.
    pub async fn blob<T, V>(&self, value: &T) -> Result<Blob<V>, StepError>
    where
        T: BlobOf<V> + Serialize + Sync + ?Sized,
    {
        let bytes = serde_json::to_vec(value).map_err(|error| StepError::terminal(format!("a blob: {error}")))?;
        refuse_secrets("a blob", &bytes).map_err(StepError::terminal)?;
        self.record().used.bytes += bytes.len() as u64;
        let reference = self.host.put_blob(bytes).await.map_err(EffectError::from)?;
        Ok(Blob::new(reference))
    }

    /// Reads a large value. Its length and digest are checked.
    ///
    /// # Errors
    /// A blob that is missing or altered parks the run.
    pub async fn load<T: DeserializeOwned>(&self, blob: &Blob<T>) -> Result<T, StepError> {
        let bytes = self.host.get_blob(&blob.reference).await.map_err(EffectError::from)?;
        serde_json::from_slice(&bytes)
            .map_err(|error| data(format!("blob {} does not fit: {error}", blob.reference.key)))
    }

    /// Reads all entries of a log, those pushed in this step included.
    ///
    /// # Errors
    /// An entry that is missing, or does not fit `T`, parks the run.
    pub async fn read<T: Serialize + DeserializeOwned + Sync>(&self, log: &Log<T>) -> Result<Vec<T>, StepError> {
        self.read_from(log, 0).await
    }

    /// Reads the last entries of a log, at most `count`.
    ///
    /// # Errors
    /// As [`Cx::read`].
    pub async fn read_last<T: Serialize + DeserializeOwned + Sync>(
        &self,
        log: &Log<T>,
        count: u64,
    ) -> Result<Vec<T>, StepError> {
        self.read_from(log, log.len().saturating_sub(count)).await
    }

    async fn read_from<T: Serialize + DeserializeOwned + Sync>(
        &self,
        log: &Log<T>,
        first: u64,
    ) -> Result<Vec<T>, StepError> {
        let mut entries = Vec::new();
        let mut next = first;
        while let Some(id) = log.id.filter(|_| next < log.stored) {
            let count = LOG_PAGE.min(log.stored - next);
            for (at, json) in (next..).zip(self.host.read_log(id, next, count).await.map_err(EffectError::from)?) {
                let misfit = |error| data(format!("entry {at} of log {id} does not fit: {error}"));
                entries.push(json.parse().map_err(misfit)?);
            }
            next += count;
        }
        let skipped = usize::try_from(first.saturating_sub(log.stored)).unwrap_or(usize::MAX);
        for pending in log.pending.iter().skip(skipped) {
            let misfit = |error| StepError::terminal(format!("a log entry cannot be written as JSON: {error}"));
            entries.push(Json::of(pending).and_then(|json| json.parse()).map_err(misfit)?);
        }
        Ok(entries)
    }

    pub(crate) async fn value(&self, payload: &Payload) -> Result<Json, HostError> {
        match payload {
            Payload::Inline(json) => Ok(json.clone()),
            Payload::Blob(blob) => {
                let bytes = self.host.get_blob(blob).await?;
                let text =
                    String::from_utf8(bytes).map_err(|_| HostError::Data(format!("blob {} is no text", blob.key)))?;
                Json::from_text(text).map_err(|error| HostError::Data(format!("blob {} is no JSON: {error}", blob.key)))
            }
        }
    }
}

fn data(what: String) -> StepError {
    StepError::park(stepwell_core::ParkReason::Data { what: redact(what) })
}

/// Says what a value reads back as: `str` as `String`, a slice as `Vec`, everything else as itself.
pub trait BlobOf<T> {}

impl<T> BlobOf<T> for T {}
impl BlobOf<String> for str {}
impl<T> BlobOf<Vec<T>> for [T] {}
