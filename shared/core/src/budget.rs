//! Budgets: what a run and each of its steps may spend. Reserved with an effect's intent, settled with its outcome.
//!
//! What counts is worked out from the effects' records, so nothing is counted twice: an effect that is asked for again under its
//! key replaces its own amounts. A call that may have happened counts with all that was reserved for it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::checkpoint::{Checkpoint, Progress};
use crate::effect::EffectRecord;
use crate::status::Wait;
use crate::time::{Timestamp, millis};

/// Amounts by counter: money in its smallest unit, tokens, whatever the author names.
pub type Amounts = BTreeMap<String, u64>;

/// The counter of effects: each counts one. It counts where a limit for it is set.
pub const EFFECTS: &str = "effects";

/// The counter of a run's attempts at steps, crashed ones included.
pub const ATTEMPTS: &str = "attempts";

/// The counter of a run's age, in milliseconds.
pub const WALL_MS: &str = "wall-ms";

/// What a run and each of its steps may spend, and what becomes of the run when it is spent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Of the whole run.
    pub run: Amounts,
    /// Of each visit of a step.
    pub step: Amounts,
    /// Attempts at steps, in the whole run.
    pub attempts: Option<u64>,
    /// How old the run may become.
    pub wall: Option<Duration>,
    /// What becomes of the run then.
    pub reached: Reached,
}

/// What becomes of a run that has spent its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reached {
    /// It is parked; a person may allow as much again.
    #[default]
    Park,
    /// It fails.
    Fail,
}

/// Of what a budget is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Span {
    /// Of the whole run.
    #[serde(rename = "r")]
    Run,
    /// Of each visit of a step.
    #[serde(rename = "s")]
    Step,
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run => "run",
            Self::Step => "step",
        })
    }
}

/// A budget that does not allow what is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the {span}'s budget of {limit} {counter} does not allow it: {spent} would be spent")]
pub struct OverBudget {
    /// Of what.
    #[serde(rename = "s")]
    pub span: Span,
    /// Which counter.
    #[serde(rename = "c")]
    pub counter: String,
    /// The limit, with what a person has added.
    #[serde(rename = "l")]
    pub limit: u64,
    /// What would be spent.
    #[serde(rename = "u")]
    pub spent: u64,
}

/// What a run has spent, and what a person has added to its budget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// By effects of steps that have ended.
    #[serde(rename = "e", default, skip_serializing_if = "Amounts::is_empty")]
    pub ended: Amounts,
    /// Attempts at steps, but for those that acquires since the last commit have begun. One that a commit goes on to is counted with
    /// that commit: if it crashes, no acquire tells of it.
    #[serde(rename = "a", default, skip_serializing_if = "is_zero")]
    pub attempts: u64,
    /// Added to the run's limits.
    #[serde(rename = "r", default, skip_serializing_if = "Amounts::is_empty")]
    pub more_for_run: Amounts,
    /// The wait that the end of the budget has cut short: resuming goes on with it.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub cut_wait: Option<Box<Wait>>,
    /// Added to the limits of the step that the run stands at.
    #[serde(rename = "s", default, skip_serializing_if = "Amounts::is_empty")]
    pub more_for_step: Amounts,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Spent {
    /// Whether nothing is.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// A person allows it, see [`OverBudget::more`].
    pub(crate) fn allow(&mut self, over: &OverBudget) {
        let more = match over.span {
            Span::Run => &mut self.more_for_run,
            Span::Step => &mut self.more_for_step,
        };
        add(more, &over.counter, over.more());
    }
}

impl OverBudget {
    /// How much more is allowed when a person lets the run go on: as much again as the limit, and what was asked for at least.
    pub fn more(&self) -> u64 {
        self.spent.max(self.limit)
    }
}

impl Budget {
    /// No limit.
    pub fn none() -> Self {
        Self::default()
    }

    /// At most so much on this counter in the whole run.
    ///
    /// ```
    /// use stepwell_core::Budget;
    /// let budget = Budget::none().of_run("cents", 5_000).of_step("tokens", 20_000).attempts(500).or_fail();
    /// ```
    #[must_use]
    pub fn of_run(mut self, counter: &str, at_most: u64) -> Self {
        self.run.insert(counter.to_string(), at_most);
        self
    }

    /// At most so much on this counter in each visit of a step.
    #[must_use]
    pub fn of_step(mut self, counter: &str, at_most: u64) -> Self {
        self.step.insert(counter.to_string(), at_most);
        self
    }

    /// At most so many effects in the whole run. Each then needs an intent: one write more.
    #[must_use]
    pub fn effects(self, at_most: u64) -> Self {
        self.of_run(EFFECTS, at_most)
    }

    /// At most so many attempts at steps in the whole run, crashed ones included. Those of one step are its retry policy's.
    #[must_use]
    pub fn attempts(mut self, at_most: u64) -> Self {
        self.attempts = Some(at_most);
        self
    }

    /// The run becomes at most so old. How long one step may take is its policy's.
    #[must_use]
    pub fn lasting(mut self, at_most: Duration) -> Self {
        self.wall = Some(at_most);
        self
    }

    /// A run that has spent it fails, instead of being parked.
    #[must_use]
    pub fn or_fail(mut self) -> Self {
        self.reached = Reached::Fail;
        self
    }

    /// Whether each effect has to be counted.
    pub fn counts_effects(&self) -> bool {
        self.run.contains_key(EFFECTS) || self.step.contains_key(EFFECTS)
    }

    /// Whether the amounts in this journal are allowed: those of every effect of this visit, those about to be called included.
    ///
    /// # Errors
    /// The first limit that does not allow it.
    pub fn allows(&self, progress: &Progress, journal: &[EffectRecord]) -> Result<(), OverBudget> {
        let spent = progress.spent_with(journal);
        check(Span::Run, &self.run, &progress.spent.more_for_run, &spent)?;
        let mut of_step = Amounts::new();
        for record in journal {
            add_all(&mut of_step, &record.costs);
        }
        check(Span::Step, &self.step, &progress.spent.more_for_step, &of_step)
    }

    /// Whether one more attempt at a step may be made now.
    ///
    /// # Errors
    /// The limit that does not allow it.
    pub fn allows_attempt(&self, held: &Checkpoint, now: Timestamp) -> Result<(), OverBudget> {
        if let Some(limit) = self.attempts {
            check_one(Span::Run, ATTEMPTS, limit, &held.progress.spent.more_for_run, held.attempts())?;
        }
        self.allows_age(held, now)
    }

    /// Whether the run may be as old as it is.
    ///
    /// # Errors
    /// The limit that does not allow it.
    pub fn allows_age(&self, held: &Checkpoint, now: Timestamp) -> Result<(), OverBudget> {
        let Some(limit) = self.wall else { return Ok(()) };
        let age = millis(now.since(held.started_at)).saturating_add(1);
        check_one(Span::Run, WALL_MS, millis(limit), &held.progress.spent.more_for_run, age)
    }

    /// When the run is as old as it may become.
    pub fn ends_at(&self, held: &Checkpoint) -> Option<Timestamp> {
        let more = held.progress.spent.more_for_run.get(WALL_MS).copied().unwrap_or(0);
        self.wall.map(|limit| held.started_at.plus(limit).plus(Duration::from_millis(more)))
    }
}

impl Checkpoint {
    /// Attempts at steps so far: those that crashed, and where the run is held, the one that is made now.
    pub fn attempts(&self) -> u64 {
        self.progress.spent.attempts.saturating_add(u64::from(self.hold.acquires))
    }
}

impl Progress {
    /// What the run has spent, with the effects of the visit that it stands at.
    pub fn spent_with(&self, journal: &[EffectRecord]) -> Amounts {
        let mut spent = self.spent.ended.clone();
        for record in journal {
            // What an earlier visit left open is counted already; its record here takes the place of that one.
            if let Some(before) = self.ledger.iter().find(|before| before.key == record.key) {
                take_all(&mut spent, &before.costs);
            }
            add_all(&mut spent, &record.costs);
        }
        spent
    }
}

fn check(span: Span, limits: &Amounts, more: &Amounts, spent: &Amounts) -> Result<(), OverBudget> {
    let spent = |counter: &str| spent.get(counter).copied().unwrap_or(0);
    limits.iter().try_for_each(|(counter, limit)| check_one(span, counter, *limit, more, spent(counter)))
}

fn check_one(span: Span, counter: &str, limit: u64, more: &Amounts, spent: u64) -> Result<(), OverBudget> {
    let limit = limit.saturating_add(more.get(counter).copied().unwrap_or(0));
    if spent > limit { Err(OverBudget { span, counter: counter.to_string(), limit, spent }) } else { Ok(()) }
}

/// Adds an amount.
pub fn add(amounts: &mut Amounts, counter: &str, amount: u64) {
    let sum = amounts.entry(counter.to_string()).or_default();
    *sum = sum.saturating_add(amount);
}

/// Adds all of these.
pub fn add_all(amounts: &mut Amounts, more: &Amounts) {
    for (counter, amount) in more {
        add(amounts, counter, *amount);
    }
}

/// Takes all of these away again.
pub(crate) fn take_all(amounts: &mut Amounts, less: &Amounts) {
    for (counter, amount) in less {
        if let Some(sum) = amounts.get_mut(counter) {
            *sum = sum.saturating_sub(*amount);
        }
    }
    amounts.retain(|_, sum| *sum > 0);
}
