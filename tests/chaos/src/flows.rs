//! The workflows that are worked on while processes die, as a user's own project would have them.

use std::net::SocketAddr;

use stepwell::prelude::*;

use crate::outside::{self, Word};

/// How long a worker holds a run after its last sign of life.
pub const LEASE: Duration = Duration::from_millis(500);

/// How long one question to the outside may take. Shorter than a lease, so that a fresh lease covers it as it is.
const DEADLINE: Duration = Duration::from_millis(400);

/// All of them. `me` names the worker to the outside.
pub fn registry(outside: SocketAddr, me: &str) -> Registry {
    Registry::new().with(Asker { outside, me: me.to_owned() }).with(Gatherer).with(Keeper)
}

/// One more of an asker's answers, in order: another order, a missing or a repeated answer gives another sum.
pub fn fold(sum: u64, answer: u64) -> u64 {
    sum.wrapping_mul(31).wrapping_add(answer)
}

/// Asks the outside once a step. Its result depends on every answer and on their order.
pub struct Asker {
    outside: SocketAddr,
    me: String,
}

/// Input of an [`Asker`].
#[derive(Serialize, Deserialize)]
pub struct Questions {
    /// Steps to make.
    pub steps: u64,
    /// Tells apart runs that are otherwise the same.
    pub number: u64,
}

/// State of an [`Asker`].
#[derive(Serialize, Deserialize)]
pub struct Answers {
    steps: u64,
    sum: u64,
}

/// Cursor of an [`Asker`].
#[derive(Serialize, Deserialize)]
pub enum AskAt {
    /// Asks this question.
    Ask(u64),
}

impl Workflow for Asker {
    const NAME: &'static str = "asker";
    type Input = Questions;
    type State = Answers;
    type Step = AskAt;
    type Output = u64;

    fn begin(&self, Questions { steps, .. }: Questions) -> (AskAt, Answers) {
        (AskAt::Ask(0), Answers { steps, sum: 0 })
    }

    async fn step(&self, AskAt::Ask(step): AskAt, state: &mut Answers, cx: &Cx) -> StepResult<Self> {
        let ask = cx.effect("ask").idempotent().with(&step).deadline(DEADLINE);
        let answer = ask
            .call(async |call| {
                let (from, run, key) = (self.me.clone(), cx.run().clone(), call.key().to_owned());
                outside::say(self.outside, &Word::Ask { from, run, step, key }).await
            })
            .await?;
        state.sum = fold(state.sum, answer);
        Ok(if step + 1 == state.steps { complete(state.sum) } else { goto(AskAt::Ask(step + 1)) })
    }

    fn policy(&self, _at: &AskAt) -> StepPolicy {
        // A machine under load may miss a deadline; the run has to go on all the same.
        StepPolicy::default().retry(RetryPolicy::default().max_attempts(1_000).every(Duration::from_millis(50)))
    }
}

/// One part of what a [`Gatherer`] gathers.
pub const PART: Signal<u64> = Signal::new("part");

/// Signals that the run of this number gets: none, one, or some. A run without any is only woken by its start.
pub const fn parts_of(number: u64) -> u64 {
    number % 4
}

/// Waits for signals, takes one a step, and ends with what they said, in the order in which they were consumed.
pub struct Gatherer;

/// Input of a [`Gatherer`].
#[derive(Serialize, Deserialize)]
pub struct Wanted {
    /// Signals to gather.
    pub parts: u64,
}

/// State of a [`Gatherer`].
#[derive(Serialize, Deserialize)]
pub struct Gathered {
    wanted: u64,
    parts: Vec<u64>,
}

/// Cursor of a [`Gatherer`].
#[derive(Serialize, Deserialize)]
pub enum GatherAt {
    /// Waits for the first signal.
    Begin,
    /// Takes one, if there is one.
    Take,
}

impl Workflow for Gatherer {
    const NAME: &'static str = "gatherer";
    type Input = Wanted;
    type State = Gathered;
    type Step = GatherAt;
    type Output = Vec<u64>;

    fn begin(&self, Wanted { parts }: Wanted) -> (GatherAt, Gathered) {
        (GatherAt::Begin, Gathered { wanted: parts, parts: Vec::new() })
    }

    async fn step(&self, at: GatherAt, state: &mut Gathered, cx: &Cx) -> StepResult<Self> {
        if let GatherAt::Take = at {
            if let Some(part) = cx.take(PART).await? {
                state.parts.push(part);
            }
            // Long enough to be killed in, between the taking and the commit.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..20))).await;
        }
        let done = state.parts.len() as u64 >= state.wanted;
        Ok(if done { complete(state.parts.clone()) } else { wait(GatherAt::Take).for_signal(PART).without_deadline() })
    }

    fn signals() -> stepwell::Signals {
        stepwell::Signals::none().and(PART)
    }
}

/// Writes down its input, line by line, in a log, and ends with how many lines there are.
pub struct Keeper;

/// Input of a [`Keeper`].
#[derive(Serialize, Deserialize, PartialEq, Debug)]
pub struct Text {
    /// Lines to write.
    pub lines: u64,
    /// What each says. A long one makes the input a blob.
    pub text: String,
}

/// State of a [`Keeper`].
#[derive(Serialize, Deserialize)]
pub struct Kept {
    wanted: u64,
    text: String,
    lines: Log<String>,
}

/// Cursor of a [`Keeper`].
#[derive(Serialize, Deserialize)]
pub enum KeepAt {
    /// Writes the next line.
    Write,
}

impl Workflow for Keeper {
    const NAME: &'static str = "keeper";
    type Input = Text;
    type State = Kept;
    type Step = KeepAt;
    type Output = u64;

    fn begin(&self, Text { lines, text }: Text) -> (KeepAt, Kept) {
        (KeepAt::Write, Kept { wanted: lines, text, lines: Log::new() })
    }

    async fn step(&self, KeepAt::Write: KeepAt, state: &mut Kept, cx: &Cx) -> StepResult<Self> {
        // The lines so far are there and right, or the run is parked.
        cx.read(&state.lines).await?;
        state.lines.push(state.text.clone());
        Ok(if state.lines.len() == state.wanted { complete(state.lines.len()) } else { goto(KeepAt::Write) })
    }
}
