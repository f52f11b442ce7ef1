//! A workflow whose steps do what a test asks of them.

use std::sync::Arc;

use stepwell::prelude::*;
use tokio::sync::Barrier;

use crate::common::secs;

/// What each step does.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Do {
    /// Takes so many seconds.
    Take(u64),
    Panic,
    /// Waits until as many steps as the barrier is for are at it at once.
    Meet,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) each: Do,
    /// How many seconds a step may take.
    pub(crate) timeout: u64,
    pub(crate) steps: u32,
}

pub(crate) fn plan(each: Do, timeout: u64, steps: u32) -> Plan {
    Plan { each, timeout, steps }
}

#[derive(Clone)]
pub(crate) struct Work(pub(crate) Arc<Barrier>);

#[derive(Serialize, Deserialize)]
pub(crate) enum At {
    Work { timeout: u64 },
}

impl Workflow for Work {
    const NAME: &'static str = "work";
    type Input = Plan;
    type State = Plan;
    type Step = At;
    type Output = ();

    fn begin(&self, plan: Plan) -> (At, Plan) {
        (At::Work { timeout: plan.timeout }, plan)
    }

    fn policy(&self, At::Work { timeout }: &At) -> StepPolicy {
        StepPolicy::default().timeout(secs(*timeout)).retry(RetryPolicy::default().every(secs(1)))
    }

    async fn step(&self, At::Work { timeout }: At, plan: &mut Plan, _: &Cx) -> StepResult<Self> {
        match plan.each {
            Do::Take(seconds) => tokio::time::sleep(secs(seconds)).await,
            Do::Panic => panic!("it panics"),
            Do::Meet => {
                self.0.wait().await;
            }
        }
        plan.steps -= 1;
        Ok(if plan.steps == 0 { complete(()) } else { goto(At::Work { timeout }) })
    }
}
