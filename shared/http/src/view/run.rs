//! One run: where it stands, what it waits for, what it has done.

use std::time::Duration;

use serde::Serialize;
use stepwell_core::{
    CancelRequest, Certificate, Checkpoint, Class, EffectRecord, Failure, Lease, Letter, Outcome, Phase, Place,
    Progress, RunId, Status, Timestamp, Trouble, Usage, Wait, WorkflowName,
};
use stepwell_engine::Client;

use super::history::EffectLineView;
use super::{At, Value};
use crate::problem::Problem;

/// One run. Its output is read; of its other values, what the checkpoint holds.
#[derive(Serialize)]
pub(crate) struct RunView {
    run: RunId,
    workflow: WorkflowName,
    version: u32,
    status: Phase,
    step: String,
    steps: u64,
    step_limit: u64,
    started_at: At,
    since: At,
    #[serde(skip_serializing_if = "Option::is_none")]
    wakes_at: Option<At>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<WorkerView>,
    detail: DetailView,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel: Option<CancelView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<TroubleView>,
    /// The input while the run has not begun, then the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Value>,
    signals: Vec<SignalView>,
    effects: Vec<EffectView>,
    effects_stored_apart: u64,
    usage: UsageView,
}

#[derive(Serialize)]
struct WorkerView {
    id: String,
    since: At,
    lease_until: At,
}

/// What only some statuses have.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum DetailView {
    Created,
    Running,
    Waiting { signals: Vec<String>, until: Option<At> },
    Retrying { at: At },
    Parked { code: &'static str, reason: String },
    Completed { output: Value },
    Failed(FailureView),
    Cancelled(CertificateView),
}

#[derive(Serialize)]
struct FailureView {
    kind: &'static str,
    code: Option<String>,
    message: String,
}

#[derive(Serialize)]
struct CertificateView {
    confirmed: u64,
    failed: u64,
    uncertain: Vec<EffectLineView>,
    unfinished_step: String,
    /// Since when a worker that died may have called the outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_attempt: Option<At>,
}

#[derive(Serialize)]
pub(crate) struct CancelView {
    by: String,
    why: Option<String>,
    at: At,
}

/// What became of a request to cancel: the one that stands, and whether that is this one.
#[derive(Serialize)]
pub(crate) struct CancelAnswerView {
    pub(crate) run: RunId,
    pub(crate) new: bool,
    #[serde(flatten)]
    pub(crate) request: CancelView,
}

#[derive(Serialize)]
struct TroubleView {
    failed_attempts: u32,
    incompatible: u32,
    since: At,
    last: FailureView,
}

/// A signal that was not consumed yet.
#[derive(Serialize)]
struct SignalView {
    id: String,
    name: String,
    at: At,
    payload: Value,
}

#[derive(Serialize)]
struct EffectView {
    name: String,
    class: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_kept_ms: Option<u64>,
    key: String,
    of_run: bool,
    attempts: u32,
    outcome: OutcomeView,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum OutcomeView {
    Succeeded {
        result: Value,
    },
    Failed(FailureView),
    Unknown {
        since: At,
        /// When its last call gave up waiting, at the latest: before that it may still land.
        #[serde(skip_serializing_if = "Option::is_none")]
        until: Option<At>,
        evidence: String,
    },
}

#[derive(Serialize)]
struct UsageView {
    writes: u64,
    bytes: u64,
    effects_made: u64,
    effects_skipped: u64,
    effects_confirmed: u64,
    effects_failed: u64,
    step_ms: u64,
}

impl RunView {
    /// A run as it stands now.
    ///
    /// # Errors
    /// When its output cannot be read now.
    pub(crate) async fn load(client: &Client, run: &Checkpoint, now: Timestamp) -> Result<Self, Problem> {
        let progress = &run.progress;
        let (input, state) = match &progress.place {
            Place::Fresh { input } => (Some(Value::of(input)), None),
            Place::At { state, .. } => (None, Some(Value::of(state))),
        };
        Ok(Self {
            run: run.run.clone(),
            workflow: run.workflow.clone(),
            version: progress.version,
            status: run.phase(now),
            step: progress.place.step(),
            steps: progress.visit.0,
            step_limit: progress.step_limit,
            started_at: At(run.started_at),
            since: At(since(run)),
            wakes_at: run.wakes_at().map(At),
            worker: run.hold.lease.as_ref().filter(|lease| lease.until > now).map(WorkerView::from),
            detail: DetailView::load(client, &progress.status).await?,
            cancel: run.cancel.as_ref().map(CancelView::from),
            trouble: progress.trouble.as_ref().map(TroubleView::from),
            input,
            state,
            signals: run.mailbox.letters.iter().map(SignalView::from).collect(),
            effects: progress.journal.iter().chain(&progress.ledger).map(EffectView::from).collect(),
            effects_stored_apart: progress.spilled,
            usage: progress.usage.into(),
        })
    }
}

/// When the run came to stand as it does: its last commit, or its start.
fn since(run: &Checkpoint) -> Timestamp {
    let Progress { tail, .. } = &run.progress;
    let last = tail.entries.last();
    last.map_or(run.started_at, |last| tail.at.plus(Duration::from_millis(last.at)))
}

impl DetailView {
    async fn load(client: &Client, status: &Status) -> Result<Self, Problem> {
        Ok(match status {
            Status::Created => Self::Created,
            Status::Running => Self::Running,
            Status::Waiting(Wait { on, until, .. }) => {
                Self::Waiting { signals: on.iter().map(ToString::to_string).collect(), until: until.map(At) }
            }
            Status::Retrying { at } => Self::Retrying { at: At(*at) },
            Status::Parked { reason, .. } => Self::Parked { code: reason.code(), reason: reason.to_string() },
            Status::Completed { output, .. } => Self::Completed { output: Value::load(client, output).await? },
            Status::Failed { failure, .. } => Self::Failed(failure.into()),
            Status::Cancelled { certificate, .. } => Self::Cancelled(certificate.into()),
        })
    }
}

impl From<&Letter> for SignalView {
    fn from(Letter { id, name, payload, at }: &Letter) -> Self {
        Self { id: id.to_string(), name: name.to_string(), at: At(*at), payload: Value::of(payload) }
    }
}

impl From<&EffectRecord> for EffectView {
    fn from(record: &EffectRecord) -> Self {
        let EffectRecord { key, name, class, attempts, outcome, until, of_run, parameters: _ } = record;
        let outcome = match outcome {
            Outcome::Succeeded(result) => OutcomeView::Succeeded { result: Value::of(result) },
            Outcome::Failed(failure) => OutcomeView::Failed(failure.into()),
            Outcome::Unknown { since, evidence } => {
                OutcomeView::Unknown { since: At(*since), until: until.map(At), evidence: evidence.clone() }
            }
        };
        let key_kept_ms = match class {
            Class::Read | Class::Idempotent(None) | Class::Reconcilable | Class::Once => None,
            Class::Idempotent(Some(window)) => Some(*window),
        };
        let (name, key) = (name.clone(), key.to_string());
        Self { name, class: class.as_str(), key_kept_ms, key, of_run: *of_run, attempts: *attempts, outcome }
    }
}

impl From<&Lease> for WorkerView {
    fn from(Lease { owner, since, until }: &Lease) -> Self {
        Self { id: owner.to_string(), since: At(*since), lease_until: At(*until) }
    }
}

impl From<&Failure> for FailureView {
    fn from(Failure { kind, code, message }: &Failure) -> Self {
        Self { kind: kind.as_str(), code: code.clone(), message: message.clone() }
    }
}

impl From<&Certificate> for CertificateView {
    fn from(Certificate { confirmed, failed, uncertain, step, lost_attempt }: &Certificate) -> Self {
        let uncertain = uncertain.iter().map(EffectLineView::from).collect();
        let lost_attempt = lost_attempt.map(At);
        Self { confirmed: *confirmed, failed: *failed, uncertain, unfinished_step: step.clone(), lost_attempt }
    }
}

impl From<&CancelRequest> for CancelView {
    fn from(CancelRequest { by, why, at }: &CancelRequest) -> Self {
        Self { by: by.clone(), why: why.clone(), at: At(*at) }
    }
}

impl From<&Trouble> for TroubleView {
    fn from(Trouble { failed, incompatible, since, last }: &Trouble) -> Self {
        Self { failed_attempts: *failed, incompatible: *incompatible, since: At(*since), last: last.into() }
    }
}

impl From<Usage> for UsageView {
    fn from(usage: Usage) -> Self {
        let Usage { writes, bytes, effects_made, effects_skipped, effects_confirmed, effects_failed, step_ms } = usage;
        Self { writes, bytes, effects_made, effects_skipped, effects_confirmed, effects_failed, step_ms }
    }
}
