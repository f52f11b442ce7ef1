//! A workflow of as many steps as its input says, which calls nothing: to see and to measure what a step costs.

use stepwell::prelude::*;

/// Where to count down from: the input.
#[derive(Debug, Serialize, Deserialize)]
pub struct From {
    /// The number of steps. 0 counts as 1.
    pub from: u32,
}

/// What the run knows.
#[derive(Debug, Serialize, Deserialize)]
pub struct Count {
    left: u32,
    steps: u32,
}

/// Where the run stands.
#[derive(Debug, Serialize, Deserialize)]
pub enum At {
    /// One number.
    Count,
}

/// The workflow `countdown`. Its result is how many steps it took.
#[derive(Clone, Copy, Debug)]
pub struct Countdown;

impl Workflow for Countdown {
    const NAME: &'static str = "countdown";
    type Input = From;
    type State = Count;
    type Step = At;
    type Output = u32;

    fn begin(&self, From { from }: From) -> (At, Count) {
        (At::Count, Count { left: from.max(1), steps: 0 })
    }

    async fn step(&self, At::Count: At, count: &mut Count, _cx: &Cx) -> StepResult<Self> {
        count.left -= 1;
        count.steps += 1;
        Ok(if count.left == 0 { complete(count.steps) } else { goto(At::Count) })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::drive::{Drive, Stop};

    #[tokio::test]
    async fn it_takes_one_step_a_number() {
        let mut run = Drive::start(&Registry::new().with(Countdown), "countdown", &json!({"from": 3}));
        assert_eq!(run.go().await, Stop::Completed(json!(3)));
        assert_eq!(run.steps(), ["Count", "Count", "Count"]);
    }

    #[tokio::test]
    async fn from_nothing_it_still_takes_a_step() {
        let mut run = Drive::start(&Registry::new().with(Countdown), "countdown", &json!({"from": 0}));
        assert_eq!(run.go().await, Stop::Completed(json!(1)));
    }
}
