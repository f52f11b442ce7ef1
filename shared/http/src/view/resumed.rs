//! What a person's resuming a parked run came to.

use serde::Serialize;
use stepwell_core::budget::{OverBudget, Span};
use stepwell_core::{Amounts, Checkpoint, ParkReason, RunId, Status};
use utoipa::ToSchema;

use crate::schema;

/// A run that was resumed.
#[derive(Debug, Serialize, ToSchema)]
pub struct ResumeView {
    /// Which.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// By whom.
    pub by: String,
    /// Why.
    #[schema(required = true)]
    pub why: Option<String>,
    /// What it may spend now, where it was parked since that was spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AllowedView)]
    pub allowed: Option<AllowedView>,
}

/// What a run may spend now.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct AllowedView {
    /// Of what it is: `run`, or this visit of the `step`.
    pub of: &'static str,
    /// Which counter: one of its budget, or its `steps`.
    pub counter: String,
    /// How much was added.
    pub added: u64,
    /// The limit now.
    pub limit: u64,
}

impl AllowedView {
    /// What was added, by how the run stood before and stands after, if that can be read. `None`: it was not parked for that.
    pub fn of(before: &Checkpoint, after: Option<&Checkpoint>) -> Option<Self> {
        match &before.progress.status {
            Status::Parked { reason: ParkReason::Budget(over), .. } => Some(Self::of_budget(over, before, after)),
            Status::Parked { reason: ParkReason::StepLimit { limit }, .. } => {
                let limit_now = before.progress.visit.0.saturating_add(*limit);
                Some(Self { of: "run", counter: "steps".into(), added: *limit, limit: limit_now })
            }
            Status::Parked {
                reason:
                    ParkReason::UnknownOutcome { .. }
                    | ParkReason::Poison { .. }
                    | ParkReason::Incompatible { .. }
                    | ParkReason::Data { .. }
                    | ParkReason::Undo { .. }
                    | ParkReason::Paused { .. },
                ..
            }
            | Status::Created
            | Status::Running
            | Status::Waiting(_)
            | Status::Retrying { .. }
            | Status::Completed { .. }
            | Status::Failed { .. }
            | Status::Cancelled { .. } => None,
        }
    }

    fn of_budget(over: &OverBudget, before: &Checkpoint, after: Option<&Checkpoint>) -> Self {
        let OverBudget { span, counter, limit, spent } = over;
        let more = |run: &Checkpoint| {
            let amounts: &Amounts = match span {
                Span::Run => &run.progress.spent.more_for_run,
                Span::Step => &run.progress.spent.more_for_step,
            };
            amounts.get(counter).copied().unwrap_or(0)
        };
        // A step that has ended since has no budget any more: then it is what resuming adds at least.
        let added = after.map_or(0, |after| more(after).saturating_sub(more(before)));
        let added = if added == 0 { *limit.max(spent) } else { added };
        let of = match span {
            Span::Run => "run",
            Span::Step => "step",
        };
        Self { of, counter: counter.clone(), added, limit: limit.saturating_add(added) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use stepwell_core::decide::{self, Resume};
    use stepwell_core::write::{Start, Write, WriteRequest, apply};
    use stepwell_core::{Digest, Json, Payload, Timestamp, WorkflowName, WriteId};

    use super::*;

    fn parked(reason: ParkReason) -> Checkpoint {
        let (run, workflow) = (RunId::new("r1").unwrap(), WorkflowName::new("shop").unwrap());
        let input = Payload::Inline(Json::of(&()).unwrap());
        let start = Start { workflow, version: 1, input, input_digest: Digest::of(b"null"), step_limit: 9 };
        let request = WriteRequest { run, id: WriteId(1), now: Timestamp(0), write: Write::Start(Box::new(start)) };
        let mut run = apply(None, &request).unwrap();
        run.progress.status = Status::Parked { reason, at: Timestamp(0) };
        run
    }

    /// What is told is what the engine has decided, and not a second opinion.
    #[test]
    fn it_is_what_resuming_has_added() {
        for span in [Span::Run, Span::Step] {
            let over = OverBudget { span, counter: "cents".into(), limit: 100, spent: 700 };
            let before = parked(ParkReason::Budget(over));
            let act = Resume { by: "ada".into(), why: None };
            let (amend, _) = decide::resume(&before, &act, Timestamp(5)).unwrap();
            let after = Checkpoint { progress: amend.progress, ..before.clone() };
            let of = if span == Span::Run { "run" } else { "step" };
            let expected = AllowedView { of, counter: "cents".into(), added: 700, limit: 800 };
            assert_eq!(AllowedView::of(&before, Some(&after)).as_ref(), Some(&expected));
            assert_eq!(AllowedView::of(&before, None), Some(expected));
        }
        let before = parked(ParkReason::StepLimit { limit: 9 });
        let (amend, _) = decide::resume(&before, &Resume { by: "ada".into(), why: None }, Timestamp(5)).unwrap();
        let steps = AllowedView::of(&before, None).unwrap();
        assert_eq!((steps.counter.as_str(), steps.added, steps.limit), ("steps", 9, amend.progress.step_limit));
        assert_eq!(AllowedView::of(&parked(ParkReason::Poison { acquires: 5 }), None), None);
    }
}
