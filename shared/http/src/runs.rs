//! Runs: start, list, show, history, signal, cancel, resume, let stand.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{HeaderName, LOCATION};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use stepwell_core::decide::{LetStand, Resume};
use stepwell_core::limits::PAGE_MAX;
use stepwell_core::{Json, Phase, Revision, RunId, SignalId, SignalName, WorkflowName};
use stepwell_engine::{Client, ClientError, HistoryPage, SignalAnswer, SignalRequest, StartRequest, Started};
use stepwell_ports::system::SystemClock;
use stepwell_ports::{Clock, ListQuery, StoreError};
use utoipa::{IntoParams, ToSchema};

use crate::access::{By, Caller, Permission};
use crate::pages::only;
use crate::problem::Problem;
use crate::repair::ReasonBody;
use crate::request::{Asked, Body, IdempotencyKey, Known, Moment, OfRun, REVISION_MAX, says_nothing};
use crate::schema;
use crate::view::{AllowedView, CancelAnswerView, EntryView, HistoryView, LetStandView, PageView, ResumeView, RunView};
use crate::watch::{WaitAsked, tagged, until_ended};

/// Runs of a page when nobody says how many.
const PAGE_DEFAULT: usize = 50;

/// Bytes of history in one answer. A Lambda function answers with 6 MB at most, in which quotes count double.
const HISTORY_BYTES_MAX: usize = 1024 * 1024;

/// A run to start.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartBody {
    #[schema(value_type = schema::WorkflowName)]
    workflow: WorkflowName,
    /// What the workflow begins with.
    #[schema(value_type = Value)]
    input: Json,
}

/// A run that was started, now or before.
#[derive(Serialize, ToSchema)]
pub(crate) struct StartedView {
    #[schema(value_type = schema::RunId)]
    run: RunId,
    /// Whether this request has started it; `false` when its key had done so before.
    new: bool,
    #[schema(value_type = schema::WorkflowName)]
    workflow: WorkflowName,
    /// How it stands, where the caller has waited and it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = RunView)]
    stands: Option<Box<RunView>>,
}

/// Starts a run
///
/// With `Idempotency-Key`, once. With `wait`, it is answered when the run has ended, or when the time is over.
#[utoipa::path(
    post, path = "/v1/runs", operation_id = "start_run", tag = "runs",
    params(WaitAsked, IdempotencyKey), request_body = StartBody,
    responses(
        (status = 201, description = "It was started; where the caller has waited, it has ended", body = StartedView,
            headers(("Location" = String, description = "The run"))),
        (status = 200, description = "It was started before, with the same key; where the caller has waited, it has ended",
            body = StartedView, headers(("Location" = String, description = "The run"))),
        (status = 202, description = "It was started, and has not ended within the time", body = StartedView,
            headers(("Location" = String, description = "The run"))),
    ),
    extensions(("x-problems" = json!(["key-conflict", "unknown-workflow"]))),
)]
pub(crate) async fn start(
    State(client): State<Client>,
    caller: Caller,
    Asked(asked): Asked<WaitAsked>,
    IdempotencyKey(key): IdempotencyKey,
    Body(StartBody { workflow, input }): Body<StartBody>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Answer<StartedView>), Problem> {
    let wait = asked.read()?;
    if !caller.may(Permission::Operate, Some(&workflow)) {
        let detail = format!("this needs a role that may `operate` for workflow {workflow}");
        return Err(Problem::fix("no-permission", detail));
    }
    let request = StartRequest { workflow: workflow.clone(), input, key };
    let Started { run, new } = client.start(request).await?;
    let stands = match wait {
        // It is started: whether the run can be looked at now changes nothing.
        Some(wait) => until_ended(&client, &run, wait).await.ok().map(Box::new),
        None => None,
    };
    let has_ended = stands.as_ref().is_some_and(|run| run.status.is_ended());
    let status = match (wait, new) {
        (Some(_), _) if !has_ended => StatusCode::ACCEPTED,
        (_, true) => StatusCode::CREATED,
        (_, false) => StatusCode::OK,
    };
    Ok((status, [(LOCATION, format!("/v1/runs/{run}"))], Answer(StartedView { run, new, workflow, stands })))
}

/// What can be started here.
#[derive(Serialize, ToSchema)]
pub(crate) struct WorkflowsView {
    #[schema(value_type = Vec<schema::WorkflowName>)]
    workflows: Vec<WorkflowName>,
}

/// Lists the workflows that can be started here
#[utoipa::path(
    get, path = "/v1/workflows", operation_id = "list_workflows", tag = "about", params(Known),
    responses(
        (status = 200, description = "Their names", body = WorkflowsView),
        (status = 304, description = "They are as the caller knows"),
    ),
)]
pub(crate) async fn workflows(State(client): State<Client>, caller: Caller, known: Known) -> Result<Response, Problem> {
    let seen = client.workflows().into_iter().filter(|workflow| caller.may(Permission::Look, Some(workflow)));
    tagged(&known, &WorkflowsView { workflows: seen.cloned().collect() })
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListAsked {
    /// Those of this workflow.
    #[param(inline, required = false, value_type = schema::WorkflowName)]
    workflow: Option<WorkflowName>,
    /// Those that stand so.
    #[param(inline, required = false, value_type = schema::ListedPhase)]
    status: Option<Phase>,
    /// Those that were started at this time or later.
    #[param(inline, required = false, value_type = schema::Time)]
    from: Option<Moment>,
    /// Those that were started before this time.
    #[param(inline, required = false, value_type = schema::Time)]
    before: Option<Moment>,
    /// How many at most; 50 when it is not said.
    #[param(minimum = 1, maximum = 1000, required = false, value_type = u64)]
    limit: Option<usize>,
    /// The `next` of the page before.
    #[param(required = false, value_type = String)]
    after: Option<String>,
}

/// Lists runs, newest first
///
/// A page may hold fewer than were asked for: the last one is the one whose `next` is `null`.
#[utoipa::path(
    get, path = "/v1/runs", operation_id = "list_runs", tag = "runs", params(ListAsked, Known),
    responses(
        (status = 200, description = "A page of runs", body = PageView),
        (status = 304, description = "It is as the caller knows"),
    ),
)]
pub(crate) async fn list(
    State(client): State<Client>,
    caller: Caller,
    Asked(ListAsked { workflow, status, from, before, limit, after }): Asked<ListAsked>,
    known: Known,
) -> Result<Response, Problem> {
    let limit = limit.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(Problem::fix("bad-query", format!("limit: ask for 1 to {PAGE_MAX} runs, and go on with `next`")));
    }
    if status == Some(Phase::Cancelling) {
        return Err(Problem::fix("bad-query", "status: `cancelling` shows only in a single run; lists do not know it"));
    }
    let (started_from, started_before) = (from.map(|Moment(at)| at), before.map(|Moment(at)| at));
    let workflow = workflow.or_else(|| only(&caller));
    let query = ListQuery { workflow, phase: status, started_from, started_before, limit, after };
    match client.list(&query).await {
        Ok(mut page) => {
            page.items.retain(|run| caller.may(Permission::Look, Some(&run.workflow)));
            tagged(&known, &PageView::from(page))
        }
        Err(ClientError::Store(StoreError::Invalid(_))) if query.after.is_some() => Err(Problem::fix(
            "bad-query",
            "after: no page of this query has given this `next`; begin with its first page",
        )),
        Err(error) => Err(error.into()),
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryAsked {
    /// From this revision on.
    #[param(inline, required = false, value_type = schema::Revision)]
    from: Option<u64>,
    /// Those last before this revision, instead; the greatest there is gives the newest.
    #[param(inline, required = false, value_type = schema::Revision)]
    before: Option<u64>,
    /// How many at most; 1000 when it is not said.
    #[param(minimum = 1, maximum = 1000, required = false, value_type = u64)]
    limit: Option<usize>,
}

/// Tells what has happened to a run, oldest first
///
/// `next` is the `from` of the page that follows; where `before` is given, the `before` of the page that precedes.
#[utoipa::path(
    get, path = "/v1/runs/{run}/history", operation_id = "run_history", tag = "runs",
    params(OfRun, HistoryAsked, Known),
    responses(
        (status = 200, description = "Some of it, and where it goes on", body = HistoryView),
        (status = 304, description = "It is as the caller knows"),
    ),
)]
pub(crate) async fn history(
    State(client): State<Client>,
    OfRun(run): OfRun,
    Asked(HistoryAsked { from, before, limit }): Asked<HistoryAsked>,
    known: Known,
) -> Result<Response, Problem> {
    let limit = limit.unwrap_or(PAGE_MAX);
    if !(1..=PAGE_MAX).contains(&limit) {
        let detail = format!("limit: ask for 1 to {PAGE_MAX} entries, and go on with `next`");
        return Err(Problem::fix("bad-query", detail));
    }
    if from.max(before).is_some_and(|revision| revision > REVISION_MAX) {
        return Err(Problem::fix("bad-query", format!("from, before: a revision is at most {REVISION_MAX}")));
    }
    let (HistoryPage { entries, mut next }, backwards) = match (from, before) {
        (Some(_), Some(_)) => return Err(Problem::fix("bad-query", "from, before: give one of the two")),
        (None, Some(before)) => (client.history_before(&run, Some(Revision(before)), limit).await?, true),
        (from, None) => (client.history_page(&run, Revision(from.unwrap_or_default()), limit).await?, false),
    };
    let mut shown = Vec::new();
    for entry in &entries {
        shown.push((entry.revision, Json::of(&EntryView::from(entry)).map_err(Problem::defect)?));
    }
    // What does not fit is for another page. One entry always does.
    if backwards {
        shown.reverse();
    }
    let mut bytes = 0;
    let fits = shown.iter().take_while(|(_, entry)| {
        bytes += entry.text().len();
        bytes <= HISTORY_BYTES_MAX
    });
    let fits = fits.count().max(1);
    if fits < shown.len() {
        next = Some(if backwards { shown[fits - 1].0 } else { shown[fits].0 });
        shown.truncate(fits);
    }
    if backwards {
        shown.reverse();
    }
    let history = shown.into_iter().map(|(_, entry)| entry).collect();
    tagged(&known, &HistoryView { run, history, next: next.map(|Revision(next)| next) })
}

/// A signal to send.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalBody {
    #[schema(value_type = schema::SignalName)]
    name: SignalName,
    /// What it says.
    #[schema(value_type = Value)]
    payload: Json,
    /// Made up when it is not given.
    #[schema(value_type = Option<schema::SignalId>)]
    id: Option<SignalId>,
}

/// A signal that was delivered, now or before.
#[derive(Serialize, ToSchema)]
pub(crate) struct SignalAnswerView {
    #[schema(value_type = schema::RunId)]
    run: RunId,
    #[schema(value_type = schema::SignalName)]
    signal: SignalName,
    #[schema(value_type = schema::SignalId)]
    id: SignalId,
    /// Whether this request has delivered it.
    new: bool,
}

/// Sends a run a signal
#[utoipa::path(
    post, path = "/v1/runs/{run}/signals", operation_id = "signal_run", tag = "runs",
    params(OfRun), request_body = SignalBody,
    responses((status = 202, description = "It lies in the run's mailbox, now or before", body = SignalAnswerView)),
    extensions(("x-problems" = json!(["ended", "signal-conflict", "mailbox-full", "unknown-workflow", "unknown-signal"]))),
)]
pub(crate) async fn signal(
    State(client): State<Client>,
    OfRun(run): OfRun,
    Body(SignalBody { name, payload, id }): Body<SignalBody>,
) -> Result<(StatusCode, Answer<SignalAnswerView>), Problem> {
    let request = SignalRequest { run: run.clone(), name: name.clone(), payload, id };
    let SignalAnswer { id, new } = client.signal(request).await?;
    Ok((StatusCode::ACCEPTED, Answer(SignalAnswerView { run, signal: name, id, new })))
}

/// An act that needs no reason.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActBody {
    /// Why.
    #[schema(value_type = Option<schema::Words>)]
    pub(crate) why: Option<String>,
}

/// Asks for the end of a run
///
/// The first request stands. The run ends when its step has, and when each effect is known or signed off.
#[utoipa::path(
    post, path = "/v1/runs/{run}/cancel", operation_id = "cancel_run", tag = "runs",
    params(OfRun), request_body = ActBody,
    responses((status = 200, description = "The request that stands", body = CancelAnswerView)),
    extensions(("x-problems" = json!(["ended"]))),
)]
pub(crate) async fn cancel(
    State(client): State<Client>,
    By(by): By,
    OfRun(run): OfRun,
    Body(ActBody { why }): Body<ActBody>,
) -> Result<Answer<CancelAnswerView>, Problem> {
    let answer = client.cancel(&run, &by, why).await?;
    // It is written: whether the run can be looked at now changes nothing.
    let after = client.get(&run).await.ok();
    Ok(Answer(CancelAnswerView::of(run, &answer, after.as_ref(), SystemClock.now())))
}

/// Lets a parked run go on
#[utoipa::path(
    post, path = "/v1/runs/{run}/resume", operation_id = "resume_run", tag = "runs",
    params(OfRun), request_body = ActBody,
    responses((status = 200, description = "It goes on", body = ResumeView)),
    extensions(("x-problems" = json!(["not-parked"]))),
)]
pub(crate) async fn resume(
    State(client): State<Client>,
    By(by): By,
    OfRun(run): OfRun,
    Body(ActBody { why }): Body<ActBody>,
) -> Result<Answer<ResumeView>, Problem> {
    let (before, act) = (client.get(&run).await?, Resume { by, why });
    client.resume(&run, &act).await?;
    // It is written: whether the run can be looked at now changes nothing.
    let after = client.get(&run).await.ok();
    let (Resume { by, why }, allowed) = (act, AllowedView::of(&before, after.as_ref()));
    Ok(Answer(ResumeView { run, by, why, allowed }))
}

/// Lets an effect stand that could not be taken back
#[utoipa::path(
    post, path = "/v1/runs/{run}/let-stand", operation_id = "let_stand", tag = "unknowns",
    params(OfRun), request_body = ReasonBody,
    responses((status = 200, description = "It stands", body = LetStandView)),
    extensions(("x-problems" = json!(["not-undoing"]))),
)]
pub(crate) async fn let_stand(
    State(client): State<Client>,
    By(by): By,
    OfRun(run): OfRun,
    Body(ReasonBody { why }): Body<ReasonBody>,
) -> Result<Answer<LetStandView>, Problem> {
    if says_nothing(&why) {
        return Err(Problem::fix("misfit", "`why` says nothing: give what was done instead, or why it may stand"));
    }
    let act = LetStand { by, why };
    client.let_stand(&run, &act).await?;
    // It is written: whether the run can be looked at now changes nothing.
    let after = client.get(&run).await.ok();
    Ok(Answer(LetStandView::of(run, act, after.as_ref())))
}
