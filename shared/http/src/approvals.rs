//! Approvals: which there are, and a person's answer to one.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use stepwell_core::decide::Approve;
use stepwell_core::{Json, RunId};
use stepwell_engine::{ApproveAnswer, Client};
use stepwell_ports::Clock as _;
use stepwell_ports::system::SystemClock;
use utoipa::ToSchema;

use crate::access::{Answering, Caller};
use crate::pages::{self, Found, PageAsked};
use crate::problem::Problem;
use crate::request::{Asked, Body, Known, OfApproval, OfRun, says_nothing};
use crate::schema;
use crate::view::{AnsweredView, ApprovalView, OfRun as _};
use crate::watch::tagged;

/// Bytes of parameters in one answer. A Lambda function answers with 6 MB at most, in which quotes count double.
const PARAMETERS_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Those of a page of runs, and where it goes on.
#[derive(Serialize, ToSchema)]
pub(crate) struct ApprovalsView {
    #[schema(value_type = Vec<ApprovalView>)]
    approvals: Vec<Json>,
    /// Where the next page begins, if there is one.
    #[schema(required = true)]
    next: Option<String>,
}

/// Lists approvals that are open, of runs that have not ended
///
/// A page is a page of runs: it may hold nothing, or several of one run. The last one is the one whose `next` is `null`.
#[utoipa::path(
    get, path = "/v1/approvals", operation_id = "list_approvals", tag = "approvals", params(PageAsked, Known),
    responses(
        (status = 200, description = "Those of a page of runs", body = ApprovalsView),
        (status = 304, description = "It is as the caller knows"),
    ),
)]
pub(crate) async fn list(
    State(client): State<Client>,
    caller: Caller,
    Asked(asked): Asked<PageAsked>,
    known: Known,
) -> Result<Response, Problem> {
    let Found { items, next } = pages::look(&client, &caller, asked, SystemClock.now(), ApprovalView::is_open).await?;
    tagged(&known, &ApprovalsView { approvals: items, next })
}

/// The approvals of a run.
#[derive(Serialize, ToSchema)]
#[schema(as = ApprovalsOfRunView)]
pub(crate) struct OfRunView {
    #[schema(value_type = schema::RunId)]
    run: RunId,
    /// All that it keeps, oldest first.
    approvals: Vec<ApprovalView>,
}

/// Shows the approvals of a run, whatever became of them
#[utoipa::path(
    get, path = "/v1/runs/{run}/approvals", operation_id = "run_approvals", tag = "approvals", params(OfRun, Known),
    responses(
        (status = 200, description = "Its approvals", body = OfRunView),
        (status = 304, description = "They are as the caller knows"),
    ),
)]
pub(crate) async fn of_run(State(client): State<Client>, OfRun(run): OfRun, known: Known) -> Result<Response, Problem> {
    let mut approvals = ApprovalView::of(&client.get(&run).await?, SystemClock.now());
    let mut left = PARAMETERS_BYTES_MAX;
    // The newest is the one that is decided on.
    for approval in approvals.iter_mut().rev() {
        approval.load_within(&client, &mut left).await?;
    }
    tagged(&known, &OfRunView { run, approvals })
}

/// An answer to an approval.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerBody {
    decision: Word,
    /// Why; where it is rejected, that has to be said.
    #[schema(value_type = Option<schema::Why>)]
    why: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = DecisionWord)]
enum Word {
    Approve,
    Reject,
}

/// Answers an approval
///
/// Who answers is whom the credentials name, with the roles that they have.
#[utoipa::path(
    post, path = "/v1/runs/{run}/approvals/{id}", operation_id = "answer_approval", tag = "approvals",
    params(OfApproval), request_body = AnswerBody,
    responses((status = 200, description = "The answer, and how the approval stands", body = AnsweredView)),
    extensions(("x-problems" = json!(["no-authority", "no-such-approval", "ended", "decided", "replaced", "expired"]))),
)]
pub(crate) async fn answer(
    State(client): State<Client>,
    Answering(reviewer): Answering,
    OfApproval(run, approval): OfApproval,
    Body(AnswerBody { decision, why }): Body<AnswerBody>,
) -> Result<Answer<AnsweredView>, Problem> {
    match &why {
        None if decision == Word::Reject => {
            return Err(Problem::fix("misfit", "`why` is missing: the run is told why it may not"));
        }
        Some(why) if says_nothing(why) => return Err(Problem::fix("misfit", "`why` says nothing")),
        None | Some(_) => {}
    }
    let act = Approve { approval, reviewer, allows: decision == Word::Approve, why };
    let ApproveAnswer { new } = client.approve(&run, &act).await?;
    // It is written: whether the run can be looked at now changes nothing.
    let after = client.get(&run).await.ok();
    Ok(Answer(AnsweredView::of(run, act, new, after.as_ref(), SystemClock.now())))
}
