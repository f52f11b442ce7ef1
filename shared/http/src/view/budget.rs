//! What a run has spent, and what it may spend.

use std::collections::BTreeSet;

use serde::Serialize;
use stepwell_core::budget::{ATTEMPTS, Reached, Span, WALL_MS, add_all};
use stepwell_core::time::millis;
use stepwell_core::{Amounts, Budget, Checkpoint, Timestamp};
use utoipa::ToSchema;

/// What a run has spent of its budget. The limits are there where the program knows the workflow.
#[derive(Debug, Serialize, ToSchema)]
pub struct BudgetView {
    /// What becomes of the run when it is spent, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = &'static str)]
    pub then: Option<&'static str>,
    /// Each counter on which something was spent, or is limited.
    pub counters: Vec<CounterView>,
}

/// One counter.
#[derive(Debug, Serialize, ToSchema)]
pub struct CounterView {
    /// Of what it is: `run`, or this visit of the `step`.
    pub of: &'static str,
    /// Its name.
    pub counter: String,
    /// What was spent, calls that may have happened included.
    pub spent: u64,
    /// What may be spent, with what a person has added.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64)]
    pub limit: Option<u64>,
    /// What a person has added.
    #[serde(skip_serializing_if = "is_zero")]
    pub added: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this signature")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl BudgetView {
    /// What a run has spent, beside what its workflow allows. `until` is now, or when it ended.
    pub(super) fn of(run: &Checkpoint, budget: Option<&Budget>, until: Timestamp) -> Self {
        let progress = &run.progress;
        let mut of_run = progress.spent_with(&progress.journal);
        of_run.insert(ATTEMPTS.into(), progress.spent.attempts);
        let mut of_step = Amounts::new();
        progress.journal.iter().for_each(|record| add_all(&mut of_step, &record.costs));

        let (mut run_limits, mut step_limits) =
            budget.map(|budget| (budget.run.clone(), budget.step.clone())).unwrap_or_default();
        run_limits.extend(budget.and_then(|budget| budget.attempts).map(|limit| (ATTEMPTS.to_owned(), limit)));
        if let Some(wall) = budget.and_then(|budget| budget.wall) {
            run_limits.insert(WALL_MS.into(), millis(wall));
            of_run.insert(WALL_MS.into(), millis(until.since(run.started_at)));
        }
        // A step that has ended has no budget any more.
        if progress.status.phase().is_ended() {
            step_limits.clear();
        }
        let mut counters = read(Span::Run, &of_run, &run_limits, &progress.spent.more_for_run);
        counters.extend(read(Span::Step, &of_step, &step_limits, &progress.spent.more_for_step));
        let then = budget.filter(|budget| **budget != Budget::none()).map(|budget| match budget.reached {
            Reached::Park => "park",
            Reached::Fail => "fail",
        });
        Self { then, counters }
    }
}

fn read(span: Span, spent: &Amounts, limits: &Amounts, more: &Amounts) -> Vec<CounterView> {
    let names: BTreeSet<&String> = [spent, limits, more].into_iter().flat_map(Amounts::keys).collect();
    let of = match span {
        Span::Run => "run",
        Span::Step => "step",
    };
    let amount = |amounts: &Amounts, name: &String| amounts.get(name).copied().unwrap_or(0);
    let counter = |name: &String| {
        let added = amount(more, name);
        let limit = limits.get(name).map(|limit| limit.saturating_add(added));
        CounterView { of, counter: name.clone(), spent: amount(spent, name), limit, added }
    };
    let is_told = |view: &CounterView| view.spent > 0 || view.limit.is_some() || view.added > 0;
    names.into_iter().map(counter).filter(is_told).collect()
}
