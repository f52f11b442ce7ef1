//! Runs: start, list, show, history, signal, cancel, resume, let stand.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{HeaderName, LOCATION};
use serde::{Deserialize, Serialize};
use stepwell_core::decide::{LetStand, Resume};
use stepwell_core::limits::PAGE_MAX;
use stepwell_core::{Json, Phase, Revision, RunId, SignalId, SignalName, WorkflowName};
use stepwell_engine::{Client, ClientError, SignalAnswer, SignalRequest, StartRequest, Started};
use stepwell_ports::system::SystemClock;
use stepwell_ports::{Clock, ListQuery, StoreError};

use crate::access::By;
use crate::problem::Problem;
use crate::request::{Asked, Body, IdempotencyKey, OfRun, says_nothing};
use crate::view::{
    AllowedView, CancelAnswerView, EntryView, HistoryView, LetStandView, PageView, Reach, ResumeView, RunView,
};

/// Runs of a page when nobody says how many.
const PAGE_DEFAULT: usize = 50;

/// Bytes of history in one answer. A Lambda function answers with 6 MB at most, in which quotes count double.
const HISTORY_BYTES_MAX: usize = 1024 * 1024;

/// No run gets as far; a store need not know larger numbers.
const REVISION_MAX: u64 = i64::MAX as u64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartBody {
    workflow: WorkflowName,
    input: Json,
}

#[derive(Serialize)]
pub(crate) struct StartedView {
    run: RunId,
    new: bool,
    workflow: WorkflowName,
}

pub(crate) async fn start(
    State(client): State<Client>,
    IdempotencyKey(key): IdempotencyKey,
    Body(StartBody { workflow, input }): Body<StartBody>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Answer<StartedView>), Problem> {
    let request = StartRequest { workflow: workflow.clone(), input, key };
    let Started { run, new } = client.start(request).await?;
    let status = if new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, [(LOCATION, format!("/v1/runs/{run}"))], Answer(StartedView { run, new, workflow })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListAsked {
    workflow: Option<WorkflowName>,
    status: Option<Phase>,
    limit: Option<usize>,
    after: Option<String>,
}

pub(crate) async fn list(
    State(client): State<Client>,
    Asked(ListAsked { workflow, status, limit, after }): Asked<ListAsked>,
) -> Result<Answer<PageView>, Problem> {
    let limit = limit.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&limit) {
        return Err(Problem::fix("bad-query", format!("limit: ask for 1 to {PAGE_MAX} runs, and go on with `next`")));
    }
    if status == Some(Phase::Cancelling) {
        return Err(Problem::fix("bad-query", "status: `cancelling` shows only in a single run; lists do not know it"));
    }
    let query = ListQuery { workflow, phase: status, limit, after };
    match client.list(&query).await {
        Ok(page) => Ok(Answer(page.into())),
        Err(ClientError::Store(StoreError::Invalid(_))) if query.after.is_some() => Err(Problem::fix(
            "bad-query",
            "after: no page of this query has given this `next`; begin with its first page",
        )),
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn show(State(client): State<Client>, OfRun(run): OfRun) -> Result<Answer<RunView>, Problem> {
    let checkpoint = client.get(&run).await?;
    let budget = client.budget(&checkpoint.workflow);
    // Leases are compared with the machine's time, as workers do.
    Ok(Answer(RunView::load(&client, &checkpoint, budget, SystemClock.now(), Reach::Answer).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryAsked {
    from: Option<u64>,
}

pub(crate) async fn history(
    State(client): State<Client>,
    OfRun(run): OfRun,
    Asked(HistoryAsked { from }): Asked<HistoryAsked>,
) -> Result<Answer<HistoryView>, Problem> {
    let from = from.unwrap_or_default();
    if from > REVISION_MAX {
        return Err(Problem::fix("bad-query", format!("from: a revision is at most {REVISION_MAX}")));
    }
    let (mut history, mut bytes, mut next) = (Vec::new(), 0, None);
    for entry in client.history(&run, Revision(from)).await? {
        let shown = Json::of(&EntryView::from(&entry)).map_err(Problem::defect)?;
        bytes += shown.text().len();
        if history.len() == PAGE_MAX || bytes > HISTORY_BYTES_MAX {
            next = Some(entry.revision.0);
            break;
        }
        history.push(shown);
    }
    Ok(Answer(HistoryView { run, history, next }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalBody {
    name: SignalName,
    payload: Json,
    id: Option<SignalId>,
}

#[derive(Serialize)]
pub(crate) struct SignalAnswerView {
    run: RunId,
    signal: SignalName,
    id: SignalId,
    new: bool,
}

pub(crate) async fn signal(
    State(client): State<Client>,
    OfRun(run): OfRun,
    Body(SignalBody { name, payload, id }): Body<SignalBody>,
) -> Result<(StatusCode, Answer<SignalAnswerView>), Problem> {
    let request = SignalRequest { run: run.clone(), name: name.clone(), payload, id };
    let SignalAnswer { id, new } = client.signal(request).await?;
    Ok((StatusCode::ACCEPTED, Answer(SignalAnswerView { run, signal: name, id, new })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ActBody {
    why: Option<String>,
}

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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LetStandBody {
    why: String,
}

pub(crate) async fn let_stand(
    State(client): State<Client>,
    By(by): By,
    OfRun(run): OfRun,
    Body(LetStandBody { why }): Body<LetStandBody>,
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
