//! Start: a workflow, its input, and the key that makes a second start the same run.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use maud::html;
use stepwell_core::WorkflowName;
use stepwell_http::Permission;

use crate::Console;
use crate::parts::form::{Form, Goes, JsonField, button};
use crate::shell::{Here, Page};
use crate::who::Viewer;

pub(crate) struct Model {
    /// Those that whoever looks may start.
    pub(crate) workflows: Vec<WorkflowName>,
    /// Whether there are others.
    pub(crate) are_others: bool,
}

pub(crate) async fn get(State(console): State<Console>, viewer: Viewer, headers: HeaderMap) -> Response {
    let seen = console.workflows(&viewer);
    let workflows: Vec<WorkflowName> =
        seen.iter().filter(|workflow| viewer.may(Permission::Operate, workflow)).cloned().collect();
    let are_others = workflows.len() < seen.len();
    let made = Ok(page(&Model { workflows, are_others }));
    console.answer(&viewer, Here::Start, &headers, made).await
}

/// The page.
pub(crate) fn page(Model { workflows, are_others }: &Model) -> Page {
    let main = html! {
        h1 { "Start a run" }
        @if workflows.is_empty() {
            div.empty {
                @if *are_others { p { "Your roles do not let you start runs: the role " code { "operator" } " does." } }
                @else { p { "This program knows no workflow: register one with " code { "Registry::new().with(…)" } "." } }
            }
        } @else { (form(workflows)) }
    };
    Page { title: "Start a run".into(), here: Here::Start, refresh: None, says: String::new(), main }
}

fn form(workflows: &[WorkflowName]) -> maud::Markup {
    let input = JsonField {
        form: "start",
        name: "input",
        label: "Input, as JSON",
        hint: "What the workflow takes. If it does not fit, you are told where, and nothing is started.",
        text: "{}",
        goes: Goes::Plain,
    };
    let fields = html! {
        p.field {
            label for="start-workflow" { "Workflow" }
            select #start-workflow name="workflow" required {
                @for name in workflows { option value=(name) { (name) } }
            }
        }
        (input.show())
        p.field {
            label for="start-key" { "Idempotency key" }
            input #start-key name="key" type="text" maxlength="255" spellcheck="false" data-header="Idempotency-Key"
                data-fill="uuid" aria-describedby="start-key-hint";
            span.hint #start-key-hint { "A second start with the same key and input is the same run. Give your own, such as an order's number, where there must be one run for it." }
        }
    };
    let form = Form {
        id: "start",
        path: "/v1/runs".into(),
        at: None,
        confirm: None,
        then: Some("run"),
        done: "The run is started.",
        label: "Start a run",
        fields,
        buttons: button("Start"),
    };
    form.show()
}
