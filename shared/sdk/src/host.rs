//! What the engine and a workflow say to each other. Authors need none of this.

use core::time::Duration;
use std::sync::Arc;

use async_trait::async_trait;
pub use stepwell_core::approval::{Answer, Approval, ApprovalId, AskApproval, Reviewer};
pub use stepwell_core::budget::{Budget, Reached};
pub use stepwell_core::decide::NotAdmitted;
pub use stepwell_core::write::LogAppend;
pub use stepwell_core::{
    BlobRef, EffectKey, EffectRecord, Failure, Json, Letter, LogId, ParkReason, Payload, RetryPolicy, RunId, SignalId,
    SignalName, Timestamp, Usage, Visit, WorkflowName,
};

use crate::StepPolicy;
pub use crate::cx::StepRecord;
use crate::error::Then;
pub use crate::watch::{Goes, Outgoing, Watch};
use crate::{Cx, StepError};

/// What a step needs from the engine while it runs.
#[async_trait]
pub trait Host: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
    /// Returns after this much time has passed.
    async fn sleep(&self, duration: Duration);
    /// Makes sure that the lease lasts until then.
    async fn hold_until(&self, until: Timestamp) -> Result<(), HostError>;
    /// Writes down what is about to be called, as unknown, and makes sure that the lease lasts until then. `journal` is every
    /// effect of this visit, `key` the one that is about to be called. Calls beside each other share a write.
    async fn intend(&self, journal: Vec<EffectRecord>, key: &EffectKey, until: Timestamp) -> Result<Intent, HostError>;
    /// Makes sure that no other run makes the effect of a key that is unique across runs. One that will never make it is passed over.
    async fn claim(&self, key: &EffectKey) -> Result<Claim, HostError>;
    /// Whether somebody asked to end the run, as far as this worker has heard.
    fn is_cancelled(&self) -> bool;
    /// Stores a blob of this run.
    async fn put_blob(&self, bytes: Vec<u8>) -> Result<BlobRef, HostError>;
    /// Reads a blob.
    async fn get_blob(&self, blob: &BlobRef) -> Result<Vec<u8>, HostError>;
    /// Reads exactly these entries of a log.
    async fn read_log(&self, log: LogId, first: u64, count: u64) -> Result<Vec<Json>, HostError>;
    /// Finds an effect of the run that the checkpoint no longer carries.
    async fn find_effect(&self, key: &EffectKey) -> Result<Option<EffectRecord>, HostError>;
}

/// What became of an intent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// It stands: the call may be made.
    Written,
    /// Somebody has asked for the end of the run: no call may be made.
    Cancelled,
    /// Its approval or the budget does not allow it: no call may be made.
    Refused(NotAdmitted),
}

/// Whose an effect is whose key is unique across runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// This run's: it may make it.
    Mine,
    /// Another's.
    Of {
        /// Which run's.
        run: RunId,
        /// What is known of it there, where it has begun.
        record: Option<Box<EffectRecord>>,
    },
    /// Another's, which has made it and has taken it back, or is about to: its result is worth nothing.
    TakenBack {
        /// Which run's.
        run: RunId,
    },
}

/// Why the engine could not do its part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Another worker holds the run now. The step is to stop.
    #[error("another worker has taken the run over; this one stops")]
    Lost,
    /// It may help to try again later.
    #[error("{0}")]
    Passing(String),
    /// Stored data is missing or damaged, or a value cannot be stored: a person has to look.
    #[error("{0}")]
    Data(String),
}

/// What a step is told about its run.
pub struct Visiting {
    /// Which run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// Which visit of a step this is.
    pub visit: Visit,
    /// Failed attempts of this visit so far.
    pub failed_attempts: u32,
    /// When an earlier attempt, of which nothing is recorded, may have called the outside first.
    pub earlier_try: Option<Timestamp>,
    /// Signals that have arrived.
    pub letters: Vec<Letter>,
    /// Effects of earlier attempts of this visit.
    pub journal: Vec<EffectRecord>,
    /// Effects of the run.
    pub ledger: Vec<EffectRecord>,
    /// Whether the run has effects that are in neither.
    pub has_spilled: bool,
    /// Logs the run has.
    pub logs: u32,
    /// Approvals that were asked for, newest last.
    pub approvals: Vec<Approval>,
    /// The effect that this step takes back, where it does.
    pub undoing: Option<EffectKey>,
    /// Effects that can be taken back so far.
    pub undo_count: usize,
    /// Whether each effect counts against a budget.
    pub counts_effects: bool,
    /// What becomes of the run when its budget is spent.
    pub reached: Reached,
}

/// A workflow without its types, as the engine holds it.
pub trait HostedWorkflow: Send + Sync {
    /// Its name.
    fn name(&self) -> &WorkflowName;
    /// The version of its code.
    fn version(&self) -> u32;
    /// Steps that a run may make.
    fn max_steps(&self) -> u64;
    /// Whether the history keeps what a run knew at each step.
    fn keeps_states(&self) -> bool;
    /// What a run may spend.
    fn budget(&self) -> &Budget;
    /// Checks an input at the edge.
    fn check_input(&self, input: &Json) -> Result<(), crate::EdgeError>;
    /// Checks a signal at the edge.
    fn check_signal(&self, name: &SignalName, payload: &Json) -> Result<(), crate::EdgeError>;
    /// Reads where a run stands, and makes its next step ready to run.
    fn prepare(&self, place: PlaceText) -> Result<Box<dyn PreparedStep>, PrepareError>;
}

/// Where a run stands, loaded.
#[derive(Clone, Debug)]
pub enum PlaceText {
    /// Not begun.
    Fresh {
        /// The input.
        input: Json,
        /// The step to run with the state that the input gives, where that is not the first.
        at: Option<Json>,
    },
    /// At a step.
    At {
        /// The cursor.
        cursor: Json,
        /// The state.
        state: Json,
        /// The version that wrote them.
        version: u32,
    },
}

/// Why a step cannot be made ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrepareError {
    /// The input does not fit.
    Input(crate::EdgeError),
    /// The code does not know this step, state or version.
    Incompatible(crate::Incompatible),
}

/// A step that is ready to run.
#[async_trait]
pub trait PreparedStep: Send {
    /// Its name.
    fn step(&self) -> &str;
    /// Its policy.
    fn policy(&self) -> &StepPolicy;
    /// A migration that was made on the way.
    fn note(&self) -> Option<&str>;
    /// Runs it, once.
    async fn run(self: Box<Self>, cx: Arc<Cx>) -> Result<StepNext, StepError>;
}

/// Where a run goes on, without its types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepNext {
    /// At another step.
    Goto(NextPlace),
    /// At another step, once a signal or a time has come.
    Wait {
        /// Which step.
        place: NextPlace,
        /// Any of these signals.
        on: Vec<SignalName>,
        /// Or this time.
        until: WaitUntil,
        /// Or the answer to this approval, which is asked for.
        ask: Option<Box<AskApproval>>,
    },
    /// The effect that this step takes back is taken back.
    Undone(NextPlace),
    /// The run has its result.
    Complete {
        /// The result.
        output: Json,
        /// What the step appended to logs.
        appends: Vec<LogAppend>,
        /// Logs the run has now.
        logs: u32,
    },
}

/// The next step and the state it finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextPlace {
    /// The cursor.
    pub cursor: Json,
    /// The state.
    pub state: Json,
    /// What the step appended to logs.
    pub appends: Vec<LogAppend>,
    /// Logs the run has now.
    pub logs: u32,
    /// How long the next step may take.
    pub timeout: Duration,
}

/// Until when a run waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitUntil {
    /// For as long as it takes.
    Forever,
    /// Until this time.
    Time(Timestamp),
    /// For this long from the commit on.
    After(Duration),
}

/// What a step's error means for the run, for the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorMeans {
    /// Try again under this policy (`None`: the step's own).
    Retry {
        /// Why.
        failure: Failure,
        /// An effect's own policy.
        policy: Option<Box<RetryPolicy>>,
        /// Not before this much time has passed.
        at_least: Option<Duration>,
    },
    /// The run fails.
    Fail(Failure),
    /// The run is parked.
    Park(ParkReason),
    /// The run is being cancelled: nothing of this attempt counts but its effects.
    Cancelled(Failure),
    /// Another worker has the run: write nothing.
    Lost,
}

impl From<StepError> for ErrorMeans {
    fn from(error: StepError) -> Self {
        let failure = error.failure;
        match error.then {
            Then::Retry { policy, at_least } => Self::Retry { failure, policy, at_least },
            Then::Fail => Self::Fail(failure),
            Then::Park(reason) => Self::Park(reason),
            Then::Cancelled => Self::Cancelled(failure),
            Then::Lost => Self::Lost,
        }
    }
}

impl StepRecord {
    /// What an attempt that never ran has recorded: the effects of those before it.
    pub fn of_earlier(journal: Vec<EffectRecord>) -> Self {
        Self { journal, ..Self::default() }
    }

    /// Signals that it took.
    pub fn taken(&self) -> &[SignalId] {
        &self.taken
    }

    /// What it used.
    pub fn used(&self) -> Usage {
        self.used
    }
}
