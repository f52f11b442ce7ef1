//! What a person does to a run that does not go on as it should: pauses it, tries it again, edits what it knows, moves it, gives it up.
//!
//! An edit, a move and a giving up are made against what was looked at: the header `If-Match` has the run's revision.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use stepwell_core::decide::{Pause, Repair, Resume};
use stepwell_core::{Json, Revision};
use stepwell_engine::{Client, Edit, MoveTo};
use utoipa::{IntoParams, ToSchema};

use crate::access::By;
use crate::problem::Problem;
use crate::request::{Against, Asked, Body, Known, OfRun, REVISION_MAX, says_nothing};
use crate::runs::ActBody;
use crate::schema;
use crate::view::{DiscardedView, EditedView, MovedView, PauseView, ResumeView, StateView};
use crate::watch::tagged;

/// Asks a run to stand still
///
/// It is parked at once, or when the step that a worker is at has ended. It goes on when it is resumed.
#[utoipa::path(
    post, path = "/v1/runs/{run}/pause", operation_id = "pause_run", tag = "repair",
    params(OfRun), request_body = ActBody,
    responses((status = 200, description = "It stands still, or will", body = PauseView)),
    extensions(("x-problems" = json!(["ended", "mailbox-full"]))),
)]
pub(crate) async fn pause(
    State(client): State<Client>,
    By(by): By,
    OfRun(run): OfRun,
    Body(ActBody { why }): Body<ActBody>,
) -> Result<Answer<PauseView>, Problem> {
    let act = Pause { by, why };
    let answer = client.pause(&run, &act).await?;
    let Pause { by, why } = act;
    Ok(Answer(PauseView::of(run, answer, by, why)))
}

/// Lets a failed run go on where it stands
///
/// Only one that has taken nothing back.
#[utoipa::path(
    post, path = "/v1/runs/{run}/retry", operation_id = "retry_run", tag = "repair",
    params(OfRun), request_body = ActBody,
    responses((status = 200, description = "It goes on", body = ResumeView)),
    extensions(("x-problems" = json!(["ended", "not-failed", "taken-back"]))),
)]
pub(crate) async fn retry(
    State(client): State<Client>,
    By(by): By,
    OfRun(run): OfRun,
    Body(ActBody { why }): Body<ActBody>,
) -> Result<Answer<ResumeView>, Problem> {
    let act = Resume { by, why };
    client.retry(&run, &act).await?;
    let Resume { by, why } = act;
    Ok(Answer(ResumeView { run, by, why, allowed: None }))
}

/// An edit of what a run knows.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditBody {
    #[schema(value_type = schema::Why)]
    why: String,
    /// What to change: a JSON patch (RFC 6902).
    #[schema(value_type = Vec<schema::PatchOperation>)]
    patch: Json,
}

/// Edits what a parked or failed run knows
///
/// That is its state, or its input while it has not begun. It is parked afterwards.
#[utoipa::path(
    post, path = "/v1/runs/{run}/edit", operation_id = "edit_run", tag = "repair",
    params(OfRun, Against), request_body = EditBody,
    responses((status = 200, description = "What it knows now", body = EditedView)),
    extensions(("x-problems" = json!(["ended", "not-parked", "taken-back", "bad-patch", "unknown-workflow"]))),
)]
pub(crate) async fn edit(
    State(client): State<Client>,
    By(by): By,
    OfRun(run): OfRun,
    Against(at): Against,
    Body(EditBody { why, patch }): Body<EditBody>,
) -> Result<Answer<EditedView>, Problem> {
    has_reason(&why)?;
    let edited = client.edit(&run, Edit { at, patch, by: by.clone(), why: why.clone() }).await?;
    Ok(Answer(EditedView::of(run, edited, by, why)))
}

/// A move of a run to another step.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveBody {
    #[schema(value_type = schema::Why)]
    why: String,
    /// The step, as the workflow's cursor is written: a name, or an object with one.
    #[schema(value_type = Value)]
    to: Json,
}

/// Moves a parked or failed run to another step
///
/// It is parked afterwards, and runs that step when it is resumed.
#[utoipa::path(
    post, path = "/v1/runs/{run}/move", operation_id = "move_run", tag = "repair",
    params(OfRun, Against), request_body = MoveBody,
    responses((status = 200, description = "Where it stands now", body = MovedView)),
    extensions(("x-problems" = json!(
        ["ended", "not-parked", "not-begun", "taken-back", "unsettled", "bad-step", "unknown-workflow"]
    ))),
)]
pub(crate) async fn move_to(
    State(client): State<Client>,
    By(by): By,
    OfRun(run): OfRun,
    Against(at): Against,
    Body(MoveBody { why, to }): Body<MoveBody>,
) -> Result<Answer<MovedView>, Problem> {
    has_reason(&why)?;
    let act = MoveTo { at, to, by, why };
    let revision = client.move_to(&run, act.clone()).await?;
    Ok(Answer(MovedView::of(run, act, revision)))
}

/// An act that needs a reason.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReasonBody {
    #[schema(value_type = schema::Why)]
    pub(crate) why: String,
}

/// Gives a parked run up
///
/// It ends as failed. What it has done stands, nothing is taken back.
#[utoipa::path(
    post, path = "/v1/runs/{run}/discard", operation_id = "discard_run", tag = "repair",
    params(OfRun, Against), request_body = ReasonBody,
    responses((status = 200, description = "It has ended", body = DiscardedView)),
    extensions(("x-problems" = json!(["ended", "not-parked", "taken-back", "unsettled"]))),
)]
pub(crate) async fn discard(
    State(client): State<Client>,
    By(by): By,
    OfRun(run): OfRun,
    Against(at): Against,
    Body(ReasonBody { why }): Body<ReasonBody>,
) -> Result<Answer<DiscardedView>, Problem> {
    has_reason(&why)?;
    let act = Repair { at, by, why };
    client.discard(&run, &act).await?;
    Ok(Answer(DiscardedView::of(run, act)))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StateAsked {
    /// Around the commit that made this revision; 0 for what the run was started with.
    #[param(inline, value_type = schema::Revision)]
    at: u64,
}

/// Shows what a run knew at a revision
///
/// The newest is always there; older ones are where the workflow keeps its states.
#[utoipa::path(
    get, path = "/v1/runs/{run}/state", operation_id = "run_state", tag = "repair", params(OfRun, StateAsked, Known),
    responses(
        (status = 200, description = "What it knew before and after", body = StateView),
        (status = 304, description = "It is as the caller knows"),
    ),
    extensions(("x-problems" = json!(["not-kept"]))),
)]
pub(crate) async fn state(
    State(client): State<Client>,
    OfRun(run): OfRun,
    Asked(StateAsked { at }): Asked<StateAsked>,
    known: Known,
) -> Result<Response, Problem> {
    if at > REVISION_MAX {
        return Err(Problem::fix("bad-query", format!("at: a revision is at most {REVISION_MAX}")));
    }
    let state = client.state_at(&run, Revision(at)).await?;
    tagged(&known, &StateView::of(run, state))
}

fn has_reason(why: &str) -> Result<(), Problem> {
    if says_nothing(why) {
        return Err(Problem::fix("misfit", "`why` says nothing: it goes into the history, for whoever looks later"));
    }
    Ok(())
}
