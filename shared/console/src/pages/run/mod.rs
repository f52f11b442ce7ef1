//! One run: where it stands, what would help, what has happened, what it knows and has done.

pub(crate) mod acts;
mod chart;
mod ended;
mod head;
mod history;
mod possessions;
mod state;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use stepwell_core::decide::repair::known;
use stepwell_core::{Checkpoint, Json, Payload, Phase, Place, Revision, RunId, Status, Timestamp};
use stepwell_engine::{HistoryPage, StateAt};
use stepwell_http::Permission;
use stepwell_http::view::{ContentsView, OfRun as _, Reach, RunView, UnknownView, Value};
use stepwell_ports::Clock as _;
use stepwell_ports::system::SystemClock;

use self::acts::{May, Stands, Subject};
use crate::Console;
use crate::answer::Trouble;
use crate::pages::{approvals, unknowns};
use crate::parts::text::name;
use crate::shell::{Here, Page};
use crate::who::Viewer;

/// Entries of history on a page.
const ENTRIES: usize = 200;

/// The largest value that is read from its blob for a page.
const VALUE_BYTES_MAX: u64 = 256 * 1024;

/// What was asked for, as it stands in the address. What is empty was not.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Asked {
    /// The revision whose state to show.
    #[serde(default)]
    at: String,
    /// The revision before which the history ends.
    #[serde(default)]
    before: String,
}

/// The state at a step, where somebody has asked for one.
pub(crate) enum Then {
    /// Here it is.
    Is(StateAt),
    /// It is not there, and why.
    NotThere { at: Revision, why: String },
}

pub(crate) struct Model {
    pub(crate) view: RunView,
    pub(crate) subject: Subject,
    pub(crate) approvals: Vec<approvals::Item>,
    pub(crate) unknowns: Vec<unknowns::Item>,
    pub(crate) history: HistoryPage,
    /// Whether the history goes on after this page.
    pub(crate) is_newest: bool,
    /// The state at the revision that was asked for, or around the newest.
    pub(crate) then: Option<Then>,
    pub(crate) is_asked: bool,
    /// What the state as it is now refers to.
    pub(crate) contents: ContentsView,
    pub(crate) raw: Option<Json>,
    pub(crate) now: Timestamp,
}

pub(crate) async fn get(
    State(console): State<Console>,
    viewer: Viewer,
    headers: HeaderMap,
    run: Result<Path<String>, PathRejection>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Response {
    let made = match (run, asked) {
        (Ok(Path(run)), Ok(Query(asked))) => load(&console, &viewer, &run, &asked).await.map(|model| page(&model)),
        (Err(_), _) => Err(Trouble::NoSuchPage),
        (_, Err(rejection)) => Err(rejection.into()),
    };
    console.answer(&viewer, Here::Runs, &headers, made).await
}

async fn load(console: &Console, viewer: &Viewer, run: &str, asked: &Asked) -> Result<Model, Trouble> {
    let run = RunId::new(run).map_err(|_| Trouble::NoSuchPage)?;
    let (at, before) = (revision("at", &asked.at)?, revision("before", &asked.before)?);
    let client = &console.client;
    let (checkpoint, now) = (client.get(&run).await?, SystemClock.now());
    // The guard has asked already; whoever forgets it shows nothing.
    if !viewer.may(Permission::Look, &checkpoint.workflow) {
        return Err(stepwell_engine::ClientError::NoSuchRun(run).into());
    }
    let mut view = RunView::load(client, &checkpoint, client.budget(&checkpoint.workflow), now, Reach::Answer).await?;
    let subject = subject(console, viewer, &checkpoint).await;
    let raw = Json::of(&view).ok();
    let (mut approvals, mut left) = (Vec::new(), approvals::PARAMETERS_BYTES_MAX);
    let mut kept: Vec<_> = core::mem::take(&mut view.approvals).into_iter().rev().collect();
    // What is decided on first: what was decided can be left out.
    kept.sort_by_key(|approval| !approval.is_open());
    for mut approval in kept {
        approval.load_within(client, &mut left).await?;
        approvals.push(approvals::Item::of(viewer, &checkpoint.workflow, approval));
    }
    let may_operate = subject.may.operate;
    let item = |unknown| unknowns::Item { workflow: checkpoint.workflow.clone(), unknown, may_operate };
    let unknowns = UnknownView::of(&checkpoint, now).into_iter().map(item).collect();
    let history = client.history_of(&checkpoint, before, ENTRIES).await?;
    let is_newest = before.is_none_or(|before| before > checkpoint.progress.revision);
    let (then, is_asked) = (then(console, &checkpoint, at).await?, at.is_some());
    let contents = match &then {
        Some(Then::Is(state)) if !is_asked => ContentsView::load(client, &run, &state.after).await,
        Some(Then::Is(_) | Then::NotThere { .. }) | None => ContentsView::default(),
    };
    Ok(Model { view, subject, approvals, unknowns, history, is_newest, then, is_asked, contents, raw, now })
}

/// A number in the address.
fn revision(name: &str, text: &str) -> Result<Option<Revision>, Trouble> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse().ok().filter(|number: &u64| i64::try_from(*number).is_ok());
    let words = || Trouble::BadQuery(format!("{name}: {text} is no revision. Give a number from the run's history."));
    number.map(|number| Some(Revision(number))).ok_or_else(words)
}

/// The state around a step: the one that was asked for, or the newest when it is at hand.
async fn then(console: &Console, run: &Checkpoint, at: Option<Revision>) -> Result<Option<Then>, Trouble> {
    let is_small = match known(run) {
        Payload::Inline(_) => true,
        Payload::Blob(blob) => blob.size <= VALUE_BYTES_MAX,
    };
    let Some(revision) = at.or_else(|| is_small.then_some(run.progress.revision)) else { return Ok(None) };
    match console.client.state_of(run, revision).await {
        Ok(state) => Ok(Some(Then::Is(state))),
        Err(error) if error.code() == "not-kept" => Ok(Some(Then::NotThere { at: revision, why: error.to_string() })),
        // Nobody has asked: the rest is shown all the same.
        Err(_) if at.is_none() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What acts need to know of a run.
pub(crate) async fn subject(console: &Console, viewer: &Viewer, run: &Checkpoint) -> Subject {
    let is_ending = run.is_ending();
    let signals = match &run.progress.status {
        Status::Waiting(wait) => wait.on.iter().map(ToString::to_string).collect(),
        Status::Created
        | Status::Running
        | Status::Retrying { .. }
        | Status::Parked { .. }
        | Status::Completed { .. }
        | Status::Failed { .. }
        | Status::Cancelled { .. } => Vec::new(),
    };
    let stands = match &run.progress.status {
        Status::Created | Status::Running | Status::Waiting(_) | Status::Retrying { .. } => Stands::Live,
        Status::Parked { reason, .. } => Stands::Parked { code: reason.code() },
        Status::Failed { .. } => Stands::Failed { can_go_on: !is_ending },
        Status::Completed { .. } | Status::Cancelled { .. } => Stands::Ended,
    };
    let knows = match stands {
        Stands::Parked { .. } | Stands::Failed { can_go_on: true } => Some(value(console, known(run)).await),
        Stands::Live | Stands::Ended | Stands::Failed { can_go_on: false } => None,
    };
    Subject {
        run: run.run.clone(),
        revision: run.progress.revision,
        stands,
        is_ending,
        signals,
        knows,
        has_begun: matches!(run.progress.place, Place::At { .. }),
        may: May {
            operate: viewer.may(Permission::Operate, &run.workflow),
            repair: viewer.may(Permission::Repair, &run.workflow),
        },
    }
}

async fn value(console: &Console, payload: &Payload) -> Value {
    match payload {
        Payload::Blob(blob) if blob.size > VALUE_BYTES_MAX => Value::Apart { stored_apart: blob.size },
        Payload::Inline(_) | Payload::Blob(_) => {
            Reach::Answer.output(&console.client, payload).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "a value cannot be read now");
                Value::Lost { unreadable: "it cannot be read right now; load the page again in a moment".into() }
            })
        }
    }
}

/// The page.
pub(crate) fn page(model: &Model) -> Page {
    let Model { view, subject, approvals, unknowns, raw, now, .. } = model;
    let open = approvals.iter().filter(|item| item.approval.is_open());
    let closed: Vec<_> = approvals.iter().filter(|item| !item.approval.is_open()).collect();
    let main = html! {
        (head::show(view, subject, *now))
        @for item in open { (approvals::card(item, *now, false)) }
        @if !unknowns.is_empty() {
            section #unknowns aria-labelledby="unknowns-title" {
                h2 #unknowns-title { "Effects that may have happened" }
                @for item in unknowns { (unknowns::card(item, *now, false)) }
            }
        }
        (acts::acts(subject))
        (ended::show(view, *now))
        (chart::show(model))
        (state::show(model))
        (possessions::show(view, *now))
        @if !closed.is_empty() {
            section aria-labelledby="closed-title" {
                h2 #closed-title { "Approvals that were decided" }
                @for item in closed { (approvals::card(item, *now, false)) }
            }
        }
        (history::show(model))
        (raw_json(raw.as_ref(), view))
    };
    let says = format!("Run {} is {}", view.run, view.status);
    let refresh = Some(if view.status.is_ended() { 30 } else { 3 });
    let title = format!("{} {} · {}", view.workflow, view.run, view.status);
    Page { title, here: Here::Runs, refresh, says, main }
}

fn raw_json(raw: Option<&Json>, view: &RunView) -> Markup {
    html! {
        section aria-labelledby="raw-title" {
            h2 #raw-title { "Raw" }
            p { "As the API shows it: " a href={ "/v1/runs/" (view.run) } { code { "GET /v1/runs/" (name(view.run.as_str())) } } }
            @if let Some(json) = raw {
                details #raw { summary { "Show the JSON" } pre.json tabindex="0" { bdi { (crate::parts::json::pretty(json.text())) } } }
            }
        }
    }
}

/// Whether a run of this phase may still change by itself.
pub(crate) const fn is_live(phase: Phase) -> bool {
    match phase {
        Phase::Created | Phase::Running | Phase::Waiting | Phase::Retrying | Phase::Cancelling => true,
        Phase::Parked | Phase::Completed | Phase::Failed | Phase::Cancelled => false,
    }
}
