//! The trait that a workflow implements.

use core::fmt;
use core::future::Future;
use core::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use stepwell_core::RetryPolicy;
use stepwell_core::limits::STEPS_MAX_DEFAULT;

use crate::{Budget, Cx, Signals, StepResult};

/// A workflow: a typed state, a typed cursor, and a function from one step to the next. See the crate's example.
pub trait Workflow: Send + Sync + Sized + 'static {
    /// Its name: 1 to 64 letters, digits, `-`, `_`, `.` or `:`. Stored with every run, so it does not change.
    const NAME: &'static str;

    /// Raise it when `Step` or `State` change so that serde alone cannot read the old ones, and write [`Self::migrate`].
    const VERSION: u32 = 1;

    /// Steps that a run may make before it is parked, which stops a loop that nobody meant.
    const MAX_STEPS: u64 = STEPS_MAX_DEFAULT;

    /// Whether the history keeps what the run knew at each step, so that it can be looked at later. Each step then writes what it has
    /// changed of the state once more (a JSON patch, up to [`BACK_BYTES_MAX`](stepwell_core::limits::BACK_BYTES_MAX)), and the
    /// history is stored more often: some bytes, and one more write every few steps. It is paid for by those that want it.
    const KEEPS_STATES: bool = false;

    /// What a run is started with.
    type Input: DeserializeOwned + Send;
    /// What a run knows. Small by design: large values as [`Blob`](crate::Blob), growing lists as [`Log`](crate::Log).
    type State: Serialize + DeserializeOwned + Send;
    /// Where a run stands: usually an enum, a variant a step.
    type Step: Serialize + DeserializeOwned + Send;
    /// What a run ends with.
    type Output: Serialize + Send;

    /// The first step and state. Runs when the run is taken up for the first time; again if that fails.
    fn begin(&self, input: Self::Input) -> (Self::Step, Self::State);

    /// Runs one step. It may run again after a crash, so what touches the outside goes through
    /// [`Cx::effect`](crate::Cx::effect). A change of `state` counts when the step returns `Ok`.
    fn step(&self, at: Self::Step, state: &mut Self::State, cx: &Cx) -> impl Future<Output = StepResult<Self>> + Send;

    /// How a step is retried and how long it may take.
    fn policy(&self, _at: &Self::Step) -> StepPolicy {
        StepPolicy::default()
    }

    /// The signals that runs accept.
    fn signals() -> Signals {
        Signals::none()
    }

    /// What a run may spend, and what becomes of it then. Read anew each time, so a deploy can raise it.
    ///
    /// ```
    /// # use stepwell::prelude::*;
    /// fn budget() -> Budget {
    ///     Budget::none().of_run("cents", 5_000).of_step("tokens", 20_000).effects(200).lasting(days(7))
    /// }
    /// ```
    fn budget() -> Budget {
        Budget::none()
    }

    /// Turns what version `from` stored into what version `from + 1` stores. Called once a version, at the next time that the
    /// run is taken up; recorded in its history.
    ///
    /// # Errors
    /// A run that cannot be migrated is tried again later, then parked with its bytes as they were.
    fn migrate(from: u32, _stored: Stored) -> Result<Stored, Incompatible> {
        Err(Incompatible::new(format!("workflow {} has no migration from version {from}", Self::NAME)))
    }
}

/// How a step is retried and how long it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPolicy {
    /// When an attempt that failed is followed by another.
    pub retry: RetryPolicy,
    /// An attempt that takes longer counts as failed. Default: one minute.
    pub timeout: Duration,
}

impl Default for StepPolicy {
    fn default() -> Self {
        Self { retry: RetryPolicy::default(), timeout: Duration::from_mins(1) }
    }
}

impl StepPolicy {
    /// With this retry policy.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// With this time limit for one attempt.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Step and state as an older version stored them, for [`Workflow::migrate`].
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The cursor.
    pub step: serde_json::Value,
    /// The state.
    pub state: serde_json::Value,
}

/// Stored data that this code cannot go on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incompatible {
    /// What is missing.
    pub missing: String,
}

impl Incompatible {
    /// Says what is missing.
    pub fn new(missing: impl Into<String>) -> Self {
        Self { missing: missing.into() }
    }
}

impl fmt::Display for Incompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.missing)
    }
}

impl std::error::Error for Incompatible {}
