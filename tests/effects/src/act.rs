//! A workflow with one effect, of each class in turn.

use std::fmt;
use std::future::pending;

use stepwell::prelude::*;
use stepwell_testkit::crash::Fuse;

use crate::{Caller, Memory, WINDOW};

/// The effect's name.
pub const EFFECT: &str = "act";

/// The author's key for it.
pub const ORDER: &str = "order-7";

/// What the outside promises of the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Promise {
    /// Calling again changes nothing.
    Read,
    /// It dedupes by the key, for ever.
    Idempotent,
    /// It dedupes by the key for [`WINDOW`], which is shorter than any take-over.
    IdempotentFor,
    /// It can be asked.
    Reconcilable,
    /// Nothing.
    Once,
}

impl Promise {
    /// Each of them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Idempotent, Self::IdempotentFor, Self::Reconcilable, Self::Once];

    /// Whether a call's intent is written before it.
    pub const fn needs_intent(self) -> bool {
        match self {
            Self::Read | Self::Idempotent | Self::IdempotentFor => false,
            Self::Reconcilable | Self::Once => true,
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Read => "read",
            Self::Idempotent => "idempotent",
            Self::IdempotentFor => "idempotent, window passed",
            Self::Reconcilable => "reconcilable",
            Self::Once => "once",
        })
    }
}

/// The workflow, as one worker has it.
pub struct Act {
    /// Calls the outside.
    pub caller: Caller,
    /// How long a call may take.
    pub deadline: Duration,
    /// After that, how long a request may still be on its way.
    pub settle_delay: Duration,
    /// The worker that dies when it is about to send its request, if one does.
    pub dies_before_request: Option<Fuse>,
}

/// Where a run stands.
#[derive(Serialize, Deserialize)]
pub enum At {
    /// It makes the effect.
    Act,
    /// It makes it again, and gets what is recorded.
    Close,
}

/// What a run knows.
#[derive(Serialize, Deserialize)]
pub struct Known {
    promise: Promise,
    receipt: u64,
}

/// What a run has in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// What the effect answered.
    pub receipt: u64,
    /// What it answered in the next step.
    pub recorded: u64,
}

impl Act {
    async fn act(&self, promise: Promise, cx: &Cx) -> Result<u64, EffectError> {
        let effect = cx.effect(EFFECT).key(ORDER).deadline(self.deadline).with(&promise);
        let act = async |key, memory| {
            self.die_here().await;
            self.caller.act(key, memory).await
        };
        match promise {
            Promise::Read => {
                let read = async |key| {
                    self.die_here().await;
                    self.caller.read(key).await
                };
                effect.read().call(|call| read(call.key())).await
            }
            Promise::Idempotent => effect.idempotent().call(|call| act(call.key(), Memory::Ever)).await,
            Promise::IdempotentFor => effect.idempotent_for(WINDOW).call(|call| act(call.key(), Memory::Window)).await,
            Promise::Reconcilable => {
                let ask = async |key| match self.caller.ask(key).await {
                    Ok(Some(receipt)) => Ok(Asked::Happened(receipt)),
                    Ok(None) => Ok(Asked::Absent),
                    Err(error) => Err(error),
                };
                let effect = effect.reconcile(|call| ask(call.key())).settle_delay(self.settle_delay);
                effect.call(|call| act(call.key(), Memory::None)).await
            }
            Promise::Once => effect.once().call(|call| act(call.key(), Memory::None)).await,
        }
    }

    async fn die_here(&self) {
        if let Some(fuse) = &self.dies_before_request {
            fuse.burn();
            pending::<()>().await;
        }
    }
}

impl Workflow for Act {
    const NAME: &'static str = "act";
    type Input = Promise;
    type State = Known;
    type Step = At;
    type Output = Output;

    fn begin(&self, promise: Promise) -> (At, Known) {
        (At::Act, Known { promise, receipt: 0 })
    }

    fn policy(&self, _: &At) -> StepPolicy {
        // The pause is longer than the window.
        StepPolicy::default().retry(RetryPolicy::default().every(WINDOW * 3 / 2).max_attempts(20))
    }

    async fn step(&self, at: At, known: &mut Known, cx: &Cx) -> StepResult<Self> {
        let receipt = self.act(known.promise, cx).await?;
        match at {
            At::Act => {
                known.receipt = receipt;
                Ok(goto(At::Close))
            }
            At::Close => Ok(complete(Output { receipt: known.receipt, recorded: receipt })),
        }
    }
}
