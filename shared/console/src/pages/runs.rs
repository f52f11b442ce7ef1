//! Runs: the newest first, by workflow, status and start.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;
use stepwell_core::{Phase, RunId, Timestamp, WorkflowName};
use stepwell_http::Permission;
use stepwell_ports::system::SystemClock;
use stepwell_ports::{Clock as _, ListQuery, RunSummary, StoreError};

use crate::Console;
use crate::address::{query, read_time};
use crate::answer::Trouble;
use crate::parts::badge;
use crate::parts::text::{name, plain};
use crate::parts::time::when;
use crate::shell::{Here, Page};
use crate::who::Viewer;

/// Runs of a page.
const RUNS: usize = 50;

/// What was asked for, as it stands in the address. What is empty was not.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Asked {
    #[serde(default)]
    workflow: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    from: String,
    #[serde(default)]
    before: String,
    #[serde(default)]
    after: String,
    /// A run to go to.
    #[serde(default)]
    run: String,
}

pub(crate) struct Model {
    pub(crate) asked: Asked,
    pub(crate) workflows: Vec<WorkflowName>,
    pub(crate) runs: Vec<RunSummary>,
    pub(crate) next: Option<String>,
    pub(crate) now: Timestamp,
}

pub(crate) async fn get(
    State(console): State<Console>,
    viewer: Viewer,
    headers: HeaderMap,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Response {
    let made = match asked {
        Ok(Query(Asked { run, .. })) if !run.trim().is_empty() => match RunId::new(run.trim()) {
            Ok(run) => return Redirect::to(&format!("/runs/{run}")).into_response(),
            Err(error) => Err(Trouble::BadQuery(format!("{error}: copy the id as it stands in a list or a log"))),
        },
        Ok(Query(asked)) => load(&console, &viewer, asked).await.map(|model| page(&model)),
        Err(rejection) => Err(rejection.into()),
    };
    console.answer(&viewer, Here::Runs, &headers, made).await
}

async fn load(console: &Console, viewer: &Viewer, asked: Asked) -> Result<Model, Trouble> {
    let list = asked.read()?;
    let paged = list.after.is_some();
    let found = match console.client.list(&list).await {
        Err(stepwell_engine::ClientError::Store(StoreError::Invalid(_))) if paged => {
            return Err(Trouble::BadQuery("This is no page of these runs: begin with the first.".into()));
        }
        found => found?,
    };
    let runs = found.items.into_iter().filter(|run| viewer.may(Permission::Look, &run.workflow)).collect();
    Ok(Model { asked, workflows: console.workflows(viewer), runs, next: found.next, now: SystemClock.now() })
}

impl Asked {
    fn read(&self) -> Result<ListQuery, Trouble> {
        let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        let workflow = given(&self.workflow).map(WorkflowName::new).transpose();
        let workflow = workflow.map_err(|error| Trouble::BadQuery(error.to_string()))?;
        let status = given(&self.status).map(|word| {
            let known = Phase::parse(&word).filter(|phase| *phase != Phase::Cancelling);
            known.ok_or_else(|| Trouble::BadQuery(format!("There is no status {word} that runs are listed by.")))
        });
        let time = |name: &str, text: &str| {
            let read = given(text).map(|text| {
                let words = format!("{name}: {text} is no time. Give it in UTC, such as 2026-11-30T18:00.");
                read_time(&text).ok_or(Trouble::BadQuery(words))
            });
            read.transpose()
        };
        let (phase, started_from, started_before) =
            (status.transpose()?, time("from", &self.from)?, time("before", &self.before)?);
        Ok(ListQuery { workflow, phase, started_from, started_before, limit: RUNS, after: given(&self.after) })
    }

    fn is_filtered(&self) -> bool {
        [&self.workflow, &self.status, &self.from, &self.before].iter().any(|text| !text.trim().is_empty())
    }

    fn address(&self, after: &str) -> String {
        let pairs = [
            ("workflow", &*self.workflow),
            ("status", &self.status),
            ("from", &self.from),
            ("before", &self.before),
            ("after", after),
        ];
        format!("/runs{}", query(&pairs))
    }
}

/// The page.
pub(crate) fn page(model: &Model) -> Page {
    let Model { asked, workflows, runs, next, now } = model;
    let main = html! {
        h1 { "Runs" }
        (filter(asked, workflows))
        @if runs.is_empty() { (nothing(asked)) } @else { (table(runs, *now)) }
        nav.pages aria-label="Pages of runs" {
            @if !asked.after.is_empty() { a href=(asked.address("")) { "Newest runs" } }
            @if let Some(next) = next { a href=(asked.address(next)) rel="next" { "Older runs" } }
        }
    };
    let newest = runs.first().map(|run| format!(", the newest is {}", run.phase)).unwrap_or_default();
    let says = format!("{} runs{newest}", runs.len());
    Page { title: "Runs".into(), here: Here::Runs, refresh: Some(5), says, main }
}

fn filter(asked: &Asked, workflows: &[WorkflowName]) -> Markup {
    let is_other = !asked.workflow.is_empty() && workflows.iter().all(|name| name.as_str() != asked.workflow);
    html! {
        div.filters {
            form.filter method="get" action="/runs" role="search" aria-label="Filter runs" {
                p.field {
                    label for="workflow" { "Workflow" }
                    select #workflow name="workflow" {
                        option value="" { "all" }
                        @for known in workflows {
                            option value=(known) selected[known.as_str() == asked.workflow] { (known) }
                        }
                        @if is_other { option value=(plain(&asked.workflow)) selected { (plain(&asked.workflow)) } }
                    }
                }
                p.field {
                    label for="status" { "Status" }
                    select #status name="status" {
                        option value="" { "all" }
                        @for phase in Phase::ALL.into_iter().filter(|phase| *phase != Phase::Cancelling) {
                            option value=(phase) selected[phase.as_str() == asked.status] { (phase) }
                        }
                    }
                }
                p.field {
                    label for="from" { "Started from (UTC)" }
                    input #from name="from" type="datetime-local" value=(plain(&asked.from));
                }
                p.field {
                    label for="before" { "Started before (UTC)" }
                    input #before name="before" type="datetime-local" value=(plain(&asked.before));
                }
                p.buttons {
                    button type="submit" { "Filter" }
                    @if asked.is_filtered() { a href="/runs" { "Clear" } }
                }
            }
            form.filter method="get" action="/runs" aria-label="Go to a run" {
                p.field {
                    label for="run" { "Run id" }
                    input #run name="run" type="text" required autocomplete="off" spellcheck="false" maxlength="64";
                }
                p.buttons { button type="submit" { "Go to it" } }
            }
        }
    }
}

fn nothing(asked: &Asked) -> Markup {
    html! {
        div.empty {
            @if asked.is_filtered() || !asked.after.is_empty() {
                p { "No run is like that. " a href="/runs" { "See all of them" } "." }
            } @else {
                p { "Nothing has been started yet." }
                p { a href="/start" { "Start a run here" } ", or from a shell:" }
                pre { "stepwell start hello --input '{\"name\": \"Ada\"}'" }
            }
        }
    }
}

fn table(runs: &[RunSummary], now: Timestamp) -> Markup {
    html! {
        table.cards {
            caption { "Runs, newest first" }
            thead {
                tr {
                    th scope="col" { "Run" }
                    th scope="col" { "Workflow" }
                    th scope="col" { "Status" }
                    th scope="col" { "Started" }
                    th scope="col" { "Goes on by itself" }
                }
            }
            tbody {
                @for RunSummary { run, workflow, phase, started_at, wakes_at } in runs {
                    tr id={ "run-" (run) } {
                        th scope="row" { a.id href={ "/runs/" (run) } { (name(run.as_str())) } }
                        td data-label="Workflow" { (name(workflow.as_str())) }
                        td data-label="Status" { (badge::phase(*phase)) }
                        td data-label="Started" { (when(*started_at, now)) }
                        td data-label="Goes on by itself" {
                            @match wakes_at { Some(at) => (when(*at, now)), None => span.absent { "—" } }
                        }
                    }
                }
            }
        }
    }
}
