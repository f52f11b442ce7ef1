//! Why a world, or a crash test, cannot be had.

use stepwell_core::SignalName;
use stepwell_engine::{ClientError, EngineError};

/// Why something could not be done in a world.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The workflows cannot be registered: two have one name, say.
    #[error(transparent)]
    Registry(#[from] EngineError),
    /// It was refused: an unknown workflow, an input or a signal that does not fit.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A value of the test's cannot be written as JSON.
    #[error("{what} cannot be written as JSON: {source}")]
    Value {
        /// Which.
        what: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The run did not come to rest.
    #[error("{0}")]
    Restless(String),
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum CrashTestError {
    /// What was given does not fit the workflow.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The workflow, or its outside, could not be made.
    #[error("the workflow and its outside could not be made: {0}")]
    Outside(String),
    /// Without faults it does not end, so there is nothing to compare with.
    #[error("without any fault, the run of workflow {workflow} {why}")]
    NoEnd {
        /// Which workflow.
        workflow: String,
        /// How it stands, and what to do.
        why: String,
    },
    /// Without faults the run never waited for this signal, so it was not sent.
    #[error(
        "without any fault, the run never waited for signal {0}: leave it out, or look at the step that should wait for it"
    )]
    NeverSent(SignalName),
    /// The author's own check fails without faults.
    #[error("without any fault, the check of the outside fails: {0}")]
    Check(String),
    /// The system gives no runtime or thread.
    #[error("no world can be run: {0}")]
    Runtime(#[from] std::io::Error),
}

impl From<ClientError> for CrashTestError {
    fn from(error: ClientError) -> Self {
        Self::World(error.into())
    }
}
