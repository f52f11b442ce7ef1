//! Parked: runs that stand still until a person acts, with the reason and what would help; and those that have failed.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use maud::{Markup, html};
use stepwell_core::{Checkpoint, Phase, Status, Timestamp};
use stepwell_ports::system::SystemClock;
use stepwell_ports::{Clock as _, ListQuery};

use crate::Console;
use crate::answer::Trouble;
use crate::gather::{gather, load as load_runs};
use crate::pages::approvals::{Asked, pages};
use crate::pages::run::acts::{Stands, Subject, acts, helps};
use crate::pages::run::subject;
use crate::parts::badge;
use crate::parts::text::{line, name};
use crate::parts::time::when;
use crate::shell::{Here, Page};
use crate::who::Viewer;

/// Failed runs that are shown below.
const FAILED: usize = 10;

/// One run that stands still.
pub(crate) struct Item {
    pub(crate) subject: Subject,
    pub(crate) workflow: String,
    pub(crate) step: String,
    /// Why, for people.
    pub(crate) reason: String,
    pub(crate) since: Timestamp,
}

pub(crate) struct Model {
    pub(crate) parked: Vec<Item>,
    pub(crate) failed: Vec<Item>,
    pub(crate) is_first: bool,
    pub(crate) next: Option<String>,
    pub(crate) now: Timestamp,
}

pub(crate) async fn get(
    State(console): State<Console>,
    viewer: Viewer,
    headers: HeaderMap,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Response {
    let made = load(&console, &viewer, asked).await.map(|model| page(&model));
    console.answer(&viewer, Here::Parked, &headers, made).await
}

async fn load(
    console: &Console,
    viewer: &Viewer,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Model, Trouble> {
    let Query(asked) = asked?;
    let of = |run: &Checkpoint| read(run, run.progress.status.phase() == Phase::Parked).into_iter().collect();
    let found = gather(&console.client, viewer, &[Phase::Parked], &asked.after, of).await?;
    let mut parked = Vec::new();
    for (run, (reason, since)) in found.items {
        parked.push(item(console, viewer, &run, reason, since).await);
    }
    let mut failed = Vec::new();
    if asked.after.is_empty() {
        let query = ListQuery { phase: Some(Phase::Failed), limit: FAILED, ..ListQuery::default() };
        let newest = console.client.list(&query).await?;
        for run in load_runs(&console.client, viewer, &newest.items).await? {
            if let Some((reason, since)) = read(&run, run.progress.status.phase() == Phase::Failed) {
                failed.push(item(console, viewer, &run, reason, since).await);
            }
        }
    }
    Ok(Model { parked, failed, is_first: asked.after.is_empty(), next: found.next, now: SystemClock.now() })
}

/// Why a run stands still, and since when. It may have gone on since it was listed.
fn read(run: &Checkpoint, is_wanted: bool) -> Option<(String, Timestamp)> {
    match &run.progress.status {
        Status::Parked { reason, at } => is_wanted.then(|| (reason.to_string(), *at)),
        Status::Failed { failure, at } => is_wanted.then(|| (failure.to_string(), *at)),
        Status::Created
        | Status::Running
        | Status::Waiting(_)
        | Status::Retrying { .. }
        | Status::Completed { .. }
        | Status::Cancelled { .. } => None,
    }
}

async fn item(console: &Console, viewer: &Viewer, run: &Checkpoint, reason: String, since: Timestamp) -> Item {
    let subject = subject(console, viewer, run).await;
    Item { subject, workflow: run.workflow.to_string(), step: run.progress.place.step(), reason, since }
}

/// The page.
pub(crate) fn page(model: &Model) -> Page {
    let Model { parked, failed, is_first, next, now } = model;
    let main = html! {
        h1 { "Parked" }
        p.lead { "Runs that stand still until somebody acts. Nothing of them is lost, and nothing happens meanwhile." }
        @if parked.is_empty() {
            div.empty {
                p { "No run is parked: nothing waits for you here." }
                p { "A run is parked when going on could do harm: an effect that may have happened, a budget that is spent, code that does not know its step." }
            }
        }
        @if !parked.is_empty() { h2 { "Parked now" } }
        @for item in parked { (card(item, *now)) }
        (pages("/parked", *is_first, next.as_deref()))
        @if !failed.is_empty() {
            h2 { "Failed last" }
            p.lead { "The newest runs that have failed for good. Where nothing was taken back, one can go on from the step at which it has failed." }
            @for item in failed { (card(item, *now)) }
        }
    };
    let says = format!("{} parked runs", parked.len());
    Page { title: "Parked runs".into(), here: Here::Parked, refresh: Some(5), says, main }
}

fn card(Item { subject, workflow, step, reason, since }: &Item, now: Timestamp) -> Markup {
    let run = &subject.run;
    let heading = format!("parked-{run}");
    html! {
        article.card id={ "parked-card-" (run) } aria-labelledby=(heading) {
            h3 id=(heading) {
                a href={ "/runs/" (run) } { (name(workflow)) " " (name(run.as_str())) } " "
                @match subject.stands {
                    Stands::Parked { code } => { (badge::phase(Phase::Parked)) " " code { (code) } }
                    Stands::Failed { .. } => (badge::phase(Phase::Failed)),
                    Stands::Live | Stands::Ended => {}
                }
            }
            dl.facts {
                dt { "Why" } dd { (line(reason)) }
                dt { "At step" } dd { (line(step)) }
                dt { "Since" } dd { (when(*since, now)) }
                @if let Stands::Parked { code } = subject.stands {
                    @if let Some(help) = helps(code) { dt { "What would help" } dd { (help) } }
                    @if code == "unknown-outcome" { dt { "Where" } dd { a href={ "/runs/" (run) "#unknowns" } { "Say how it ended" } } }
                }
            }
            (acts(subject))
        }
    }
}
