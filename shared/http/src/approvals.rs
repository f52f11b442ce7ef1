//! Approvals: which there are, and a person's answer to one.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use stepwell_core::decide::Approve;
use stepwell_core::{Json, RunId};
use stepwell_engine::{ApproveAnswer, Client};
use stepwell_ports::Clock as _;
use stepwell_ports::system::SystemClock;

use crate::access::Answering;
use crate::pages::{self, Found, PageAsked};
use crate::problem::Problem;
use crate::request::{Asked, Body, OfApproval, OfRun, says_nothing};
use crate::view::{AnsweredView, ApprovalView, OfRun as _};

/// Bytes of parameters in one answer. A Lambda function answers with 6 MB at most, in which quotes count double.
const PARAMETERS_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// Those of a page of runs, and where it goes on.
#[derive(Serialize)]
pub(crate) struct ApprovalsView {
    approvals: Vec<Json>,
    next: Option<String>,
}

pub(crate) async fn list(
    State(client): State<Client>,
    Asked(asked): Asked<PageAsked>,
) -> Result<Answer<ApprovalsView>, Problem> {
    let Found { items, next } = pages::look(&client, asked, SystemClock.now(), ApprovalView::is_open).await?;
    Ok(Answer(ApprovalsView { approvals: items, next }))
}

#[derive(Serialize)]
pub(crate) struct OfRunView {
    run: RunId,
    approvals: Vec<ApprovalView>,
}

pub(crate) async fn of_run(State(client): State<Client>, OfRun(run): OfRun) -> Result<Answer<OfRunView>, Problem> {
    let mut approvals = ApprovalView::of(&client.get(&run).await?, SystemClock.now());
    let mut left = PARAMETERS_BYTES_MAX;
    // The newest is the one that is decided on.
    for approval in approvals.iter_mut().rev() {
        approval.load_within(&client, &mut left).await?;
    }
    Ok(Answer(OfRunView { run, approvals }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerBody {
    decision: Word,
    why: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Approve,
    Reject,
}

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
