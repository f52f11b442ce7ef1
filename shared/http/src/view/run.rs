//! One run: where it stands, what it waits for, what it has done.

use std::time::Duration;

use serde::Serialize;
use stepwell_core::mailbox::{EVIDENCE, PAUSE};
use stepwell_core::{
    ApprovalId, Budget, CancelRequest, Checkpoint, Failure, Lease, Letter, Payload, Phase, Place, Progress, RunId,
    Status, Timestamp, Trouble, Usage, Wait, WorkflowName,
};
use stepwell_engine::{CancelAnswer, Client, ClientError};
use utoipa::ToSchema;

use super::{
    ApprovalView, At, BudgetView, CertificateView, EffectView, OfRun as _, Reach, UndoView, UndoingView, UnknownView,
    Value,
};
use crate::schema;

/// One run.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunView {
    /// Which it is.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// Its workflow.
    #[schema(value_type = schema::WorkflowName)]
    pub workflow: WorkflowName,
    /// The version of the workflow that its state is of.
    pub version: u32,
    /// Commits so far. An edit is made against it.
    #[schema(value_type = schema::Revision)]
    pub revision: u64,
    /// Where it stands.
    #[schema(value_type = schema::Phase)]
    pub status: Phase,
    /// The step that it is at.
    pub step: String,
    /// Steps that have ended.
    pub steps: u64,
    /// Steps after which it stops and waits for a person.
    pub step_limit: u64,
    /// When it was started.
    pub started_at: At,
    /// When it came to stand as it does: its last commit, or its start.
    pub since: At,
    /// When it goes on by itself, if it waits for a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = At)]
    pub wakes_at: Option<At>,
    /// Who works on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = WorkerView)]
    pub worker: Option<WorkerView>,
    /// What only its status has.
    pub detail: DetailView,
    /// The request to cancel it that stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = CancelView)]
    pub cancel: Option<CancelView>,
    /// The first request to pause it that was not carried out yet: it stands still when its step has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = PausingView)]
    pub pausing: Option<PausingView>,
    /// What has gone wrong in its step so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = TroubleView)]
    pub trouble: Option<TroubleView>,
    /// Approvals that were asked for, oldest first.
    pub approvals: Vec<ApprovalView>,
    /// What is taken back if the run fails or is cancelled now, the next first. Effects of the step that runs come on top when
    /// it has ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub undo: Vec<UndoView>,
    /// What is being taken back, or was. Of a cancelled run, its certificate says that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = UndoingView)]
    pub undoing: Option<UndoingView>,
    /// What it has spent, and may spend.
    pub budget: BudgetView,
    /// The input while the run has not begun, then the state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    pub input: Option<Value>,
    /// The state, once the run has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    pub state: Option<Value>,
    /// Signals that were not consumed yet.
    pub signals: Vec<SignalView>,
    /// Effects of this visit of the step, then those that are kept for the whole run.
    pub effects: Vec<EffectView>,
    /// How many older effects are stored apart.
    pub effects_stored_apart: u64,
    /// What it has used.
    pub usage: UsageView,
}

/// Who works on a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorkerView {
    /// The worker.
    pub id: String,
    /// Since when it holds the run without a break.
    pub since: At,
    /// Until when.
    pub lease_until: At,
}

/// What only some statuses have.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DetailView {
    /// It has not begun.
    Created,
    /// It can go on.
    Running,
    /// It waits.
    Waiting {
        /// The signals that it waits for, any of them.
        signals: Vec<String>,
        /// The approval whose answer it waits for.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = schema::ApprovalId)]
        approval: Option<ApprovalId>,
        /// Until when it waits.
        #[schema(required = true)]
        until: Option<At>,
    },
    /// Its step has failed, and is tried again.
    Retrying {
        /// When.
        at: At,
    },
    /// It stands still until a person acts.
    Parked {
        /// Why, for programs.
        code: &'static str,
        /// Why, for people.
        reason: String,
    },
    /// It has ended as it should.
    Completed {
        /// With this.
        output: Value,
    },
    /// It has failed for good.
    Failed(FailureView),
    /// It was cancelled.
    Cancelled(CertificateView),
}

/// Why something failed.
#[derive(Debug, Serialize, ToSchema)]
pub struct FailureView {
    /// What kind of failure it is.
    pub kind: &'static str,
    /// The workflow's own code for it.
    #[schema(required = true)]
    pub code: Option<String>,
    /// The reason, for people.
    pub message: String,
}

/// A request to cancel a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct CancelView {
    /// Who asked.
    pub by: String,
    /// Why.
    #[schema(required = true)]
    pub why: Option<String>,
    /// When.
    pub at: At,
}

/// A request to pause a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct PausingView {
    /// Who asked, and why, in words.
    pub what: String,
    /// When.
    pub at: At,
}

/// What became of a request to cancel: the one that stands, and whether that is this one.
#[derive(Debug, Serialize, ToSchema)]
pub struct CancelAnswerView {
    /// The run that is to end.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// Whether nobody had asked before.
    pub new: bool,
    /// The request that stands.
    #[serde(flatten)]
    pub request: CancelView,
    /// How the run stands now. Left out when that could not be read: the request stands all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = schema::Phase)]
    pub status: Option<Phase>,
    /// Effects that may have happened: the run does not end before each is settled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknowns: Vec<UnknownView>,
}

impl CancelAnswerView {
    /// What became of a request, and how the run stands now if that can be read.
    pub fn of(run: RunId, answer: &CancelAnswer, after: Option<&Checkpoint>, now: Timestamp) -> Self {
        let CancelAnswer { request, new } = answer;
        let status = after.map(|after| after.phase(now));
        let unknowns = after.map(|after| UnknownView::of(after, now)).unwrap_or_default();
        Self { run, new: *new, request: request.into(), status, unknowns }
    }
}

/// What has gone wrong in a step so far.
#[derive(Debug, Serialize, ToSchema)]
pub struct TroubleView {
    /// Attempts of the step that have failed.
    pub failed_attempts: u32,
    /// Turns by code that does not know the run's workflow, version or step.
    pub incompatible: u32,
    /// When the first failed.
    pub since: At,
    /// The last failure.
    pub last: FailureView,
}

/// A signal that was not consumed yet.
#[derive(Debug, Serialize, ToSchema)]
pub struct SignalView {
    /// Which it is.
    pub id: String,
    /// Its name in the workflow.
    pub name: String,
    /// When it was delivered.
    pub at: At,
    /// What it says.
    pub payload: Value,
}

/// What a run has used.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsageView {
    /// Conditional writes of its checkpoint by workers.
    pub writes: u64,
    /// Bytes handed to the store.
    pub bytes: u64,
    /// Effects that were called.
    pub effects_made: u64,
    /// Effects that were answered from the record instead.
    pub effects_skipped: u64,
    /// Effects that have happened.
    pub effects_confirmed: u64,
    /// Effects that the outside refused for good.
    pub effects_failed: u64,
    /// Time in steps, in milliseconds.
    pub step_ms: u64,
}

impl RunView {
    /// A run as it stands now, with the values that are within reach, beside what its workflow may spend where that is known.
    ///
    /// # Errors
    /// With [`Reach::Answer`], when its output cannot be read now.
    pub async fn load(
        client: &Client,
        run: &Checkpoint,
        budget: Option<&Budget>,
        now: Timestamp,
        reach: Reach,
    ) -> Result<Self, ClientError> {
        let progress = &run.progress;
        let (input, state) = match &progress.place {
            Place::Fresh { input, at: _ } => (Some(reach.other(client, input).await), None),
            Place::At { state, .. } => (None, Some(reach.other(client, state).await)),
        };
        let mut signals = Vec::new();
        // What the engine itself sends to runs is no signal of theirs.
        for letter in run.mailbox.letters.iter().filter(|letter| !is_of_engine(letter)) {
            signals.push(SignalView::load(client, letter, reach).await);
        }
        let mut effects = Vec::new();
        for record in progress.journal.iter().chain(&progress.ledger) {
            effects.push(EffectView::load(client, record, reach).await);
        }
        let mut approvals = ApprovalView::of(run, now);
        if reach == Reach::All {
            for approval in &mut approvals {
                approval.load(client).await;
            }
        }
        let undoing = UndoingView::of(run);
        let undo = if undoing.is_some() { Vec::new() } else { UndoView::of(run) };
        let until = if progress.status.phase().is_ended() { since(run) } else { now };
        Ok(Self {
            run: run.run.clone(),
            workflow: run.workflow.clone(),
            version: progress.version,
            revision: progress.revision.0,
            status: run.phase(now),
            step: progress.place.step(),
            steps: progress.visit.0,
            step_limit: progress.step_limit,
            started_at: At(run.started_at),
            since: At(since(run)),
            wakes_at: run.wakes_at().map(At),
            worker: run.hold.lease.as_ref().filter(|lease| lease.until > now).map(WorkerView::from),
            detail: DetailView::load(client, &progress.status, reach).await?,
            cancel: run.cancel.as_ref().map(CancelView::from),
            pausing: run.mailbox.pauses().next().map(PausingView::from),
            trouble: progress.trouble.as_ref().map(TroubleView::from),
            approvals,
            undo,
            undoing,
            budget: BudgetView::of(run, budget, until),
            input,
            state,
            signals,
            effects,
            effects_stored_apart: progress.spilled,
            usage: progress.usage.into(),
        })
    }
}

fn is_of_engine(letter: &Letter) -> bool {
    matches!(letter.name.as_str(), EVIDENCE | PAUSE)
}

/// When the run came to stand as it does: its last commit, or its start.
fn since(run: &Checkpoint) -> Timestamp {
    let Progress { tail, .. } = &run.progress;
    let last = tail.entries.last();
    last.map_or(run.started_at, |last| tail.at.plus(Duration::from_millis(last.at)))
}

impl DetailView {
    async fn load(client: &Client, status: &Status, reach: Reach) -> Result<Self, ClientError> {
        Ok(match status {
            Status::Created => Self::Created,
            Status::Running => Self::Running,
            Status::Waiting(Wait { on, approval, until, budget_ends: _, seen: _ }) => Self::Waiting {
                signals: on.iter().map(ToString::to_string).collect(),
                approval: approval.clone(),
                until: until.map(At),
            },
            Status::Retrying { at } => Self::Retrying { at: At(*at) },
            Status::Parked { reason, .. } => Self::Parked { code: reason.code(), reason: reason.to_string() },
            Status::Completed { output, .. } => Self::Completed { output: reach.output(client, output).await? },
            Status::Failed { failure, .. } => Self::Failed(failure.into()),
            Status::Cancelled { certificate, .. } => Self::Cancelled(certificate.into()),
        })
    }
}

impl SignalView {
    async fn load(client: &Client, letter: &Letter, reach: Reach) -> Self {
        let Letter { id, name, payload, at } = letter;
        let payload = reach.other(client, payload).await;
        Self { id: id.to_string(), name: name.to_string(), at: At(*at), payload }
    }
}

impl From<&Letter> for PausingView {
    fn from(Letter { payload, at, .. }: &Letter) -> Self {
        let what = match payload {
            Payload::Inline(json) => json.parse().ok(),
            Payload::Blob(_) => None,
        };
        Self { what: what.unwrap_or_else(|| "by somebody".to_owned()), at: At(*at) }
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
