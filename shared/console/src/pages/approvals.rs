//! Approvals: what is asked for, in full, and the answer.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use stepwell_core::{Checkpoint, Timestamp, WorkflowName};
use stepwell_http::Permission;
use stepwell_http::view::{AnswerView, ApprovalView, AuthorityView, OfRun as _, Value};
use stepwell_ports::Clock as _;
use stepwell_ports::system::SystemClock;

use crate::Console;
use crate::address::query;
use crate::answer::Trouble;
use crate::gather::gather;
use crate::parts::form::{Form, button, choice, why_of_choice};
use crate::parts::text::{line, name, plain};
use crate::parts::time::{span, when_at};
use crate::parts::{badge, json};
use crate::shell::{Here, Page};
use crate::who::Viewer;

/// How many bytes of parameters a page reads from blobs. A Lambda function answers with 6 MB at most, and markup is longer.
pub(crate) const PARAMETERS_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// An approval as somebody sees it.
pub(crate) struct Item {
    pub(crate) workflow: WorkflowName,
    pub(crate) approval: ApprovalView,
    /// Whether they may answer approvals of this workflow at all. Whether they may answer this one, the API says.
    pub(crate) may_answer: bool,
    /// Whether they may make links that let somebody answer without an account.
    pub(crate) may_link: bool,
}

pub(crate) struct Model {
    pub(crate) items: Vec<Item>,
    pub(crate) is_first: bool,
    pub(crate) next: Option<String>,
    pub(crate) now: Timestamp,
}

/// Which page of a list.
#[derive(Deserialize)]
pub(crate) struct Asked {
    #[serde(default)]
    pub(crate) after: String,
}

pub(crate) async fn get(
    State(console): State<Console>,
    viewer: Viewer,
    headers: HeaderMap,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Response {
    let made = load(&console, &viewer, asked).await.map(|model| page(&model));
    console.answer(&viewer, Here::Approvals, &headers, made).await
}

async fn load(
    console: &Console,
    viewer: &Viewer,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Model, Trouble> {
    let Query(asked) = asked?;
    let now = SystemClock.now();
    let of = |run: &Checkpoint| ApprovalView::of(run, now).into_iter().filter(ApprovalView::is_open).collect();
    let found = gather(&console.client, viewer, &ApprovalView::STATUSES, &asked.after, of).await?;
    let (mut items, mut left) = (Vec::new(), PARAMETERS_BYTES_MAX);
    for (run, mut approval) in found.items {
        approval.load_within(&console.client, &mut left).await?;
        items.push(Item::of(viewer, &run.workflow, approval));
    }
    Ok(Model { items, is_first: asked.after.is_empty(), next: found.next, now })
}

impl Item {
    pub(crate) fn of(viewer: &Viewer, workflow: &WorkflowName, approval: ApprovalView) -> Self {
        let may_answer = viewer.may(Permission::Answer, workflow);
        let may_link = viewer.may(Permission::Link, workflow);
        Self { workflow: workflow.clone(), approval, may_answer, may_link }
    }
}

/// The page.
pub(crate) fn page(model: &Model) -> Page {
    let Model { items, is_first, next, now } = model;
    let main = html! {
        h1 { "Approvals" }
        p.lead { "What runs ask leave for. An answer holds for exactly these parameters, and once." }
        @if items.is_empty() {
            div.empty {
                @if next.is_some() { p { "None among these runs. There are older runs to look at." } }
                @else { p { "Nobody has to decide anything." } }
                p { "A workflow asks with " code { "wait(…).for_approval(Approval::of(…))" }
                    "; its run then shows here, with what it wants to do." }
            }
        }
        @for item in items { (card(item, *now, true)) }
        (pages("/approvals", *is_first, next.as_deref()))
    };
    let says = format!("{} open approvals", items.len());
    Page { title: "Approvals".into(), here: Here::Approvals, refresh: Some(5), says, main }
}

/// The way to other pages of a list.
pub(crate) fn pages(path: &str, is_first: bool, next: Option<&str>) -> Markup {
    html! {
        nav.pages aria-label="Pages of this list" {
            @if !is_first { a href=(path) { "Back to the beginning" } }
            @if let Some(next) = next { a href={ (path) (query(&[("after", next)])) } rel="next" { "Look at older runs" } }
        }
    }
}

/// One approval, whole. `of_run`: with the run that it is of, since the page is not about that one.
pub(crate) fn card(item: &Item, now: Timestamp, of_run: bool) -> Markup {
    let Item { workflow, approval, .. } = item;
    let ApprovalView { run, step, id, action, parameters, status, by, escalation, .. } = approval;
    let ApprovalView { quorum, allowed, answers, asked_at, expires_at, usable_ms, usable_until, used, .. } = approval;
    let heading = format!("approval-{id}");
    html! {
        article.card id={ "approval-card-" (run) "-" (id) } aria-labelledby=(heading) {
            h2 id=(heading) { (name(action)) " " (badge::approval(status)) }
            @if of_run {
                p { "Asked by " (name(workflow.as_str())) ", run " a href={ "/runs/" (run) } { (name(run.as_str())) } ", at step " (name(step)) }
            }
            h3 { "With these parameters" }
            (json::in_full(parameters))
            dl.facts {
                dt { "Who may decide" } dd { (authorities(by)) }
                @if let Some(escalation) = escalation {
                    dt { "Later, too" } dd { (authorities(&escalation.to)) ", from " (when_at(escalation.at, now)) }
                }
                dt { "Have to allow it" } dd { (quorum) ", have so far: " (allowed) }
                dt { "Asked" } dd { (when_at(*asked_at, now)) }
                @if *status == "open" || *status == "expired" { dt { "Expires" } dd { (when_at(*expires_at, now)) } }
                @if *status == "open" { dt { "Once given, good for" } dd { (span(*usable_ms)) } }
                @if let Some(until) = usable_until { dt { "Good until" } dd { (when_at(*until, now)) } }
                @if let Some(used) = used { dt { "Used for effect" } dd { code { (used.key) } ", " (when_at(used.at, now)) } }
                @if let Some(other) = &approval.replaced_by { dt { "Replaced by" } dd { code { (other) } } }
            }
            @if !answers.is_empty() { (said(answers, now)) }
            @if approval.is_open() {
                @match parameters {
                    Value::Here(_) => { (answer(item)) (link(item)) }
                    Value::Apart { .. } | Value::Lost { .. } => (unseen(item, of_run)),
                }
            }
        }
    }
}

/// Why nothing is decided here: nobody would have read what they allow.
fn unseen(Item { approval, .. }: &Item, of_run: bool) -> Markup {
    let run = &approval.run;
    html! {
        p.note {
            "What is asked is not shown here in full, so it is not decided here. "
            @if of_run { "Look at " a href={ "/runs/" (run) } { "run " (name(run.as_str())) } ", or at what " }
            @else { "See what " }
            code { "stepwell approvals " (name(run.as_str())) } " says."
        }
    }
}

fn authorities(by: &[AuthorityView]) -> Markup {
    html! {
        @for (place, authority) in by.iter().enumerate() {
            @if place > 0 { " or " }
            @match authority {
                AuthorityView::Person(person) => (line(person)),
                AuthorityView::Role(role) => { "anybody with the role " (line(role)) }
            }
        }
    }
}

fn said(answers: &[AnswerView], now: Timestamp) -> Markup {
    html! {
        h3 { "Answers so far" }
        ul {
            @for AnswerView { by, roles, answer, why, at } in answers {
                li {
                    (line(by)) @if !roles.is_empty() { " (" (line(&roles.join(", "))) ")" }
                    ": " (answer) @if let Some(why) = why { ". Why: " (line(why)) } ", " (when_at(*at, now))
                }
            }
        }
    }
}

fn answer(Item { approval, may_answer, .. }: &Item) -> Markup {
    let ApprovalView { run, id, action, .. } = approval;
    if !may_answer {
        return html! { p.note { "Your roles do not let you answer approvals of this workflow." } };
    }
    let form = format!("answer-{run}-{id}");
    let fields = html! {
        @if !approval.awaited { p.note { "The run does not stand still for this right now; an answer is kept for it." } }
        (why_of_choice(&form, "It is kept with the answer. To reject, say why: the run is told."))
    };
    let buttons = html! {
        (choice("decision", "approve", "Approve", false))
        (choice("decision", "reject", "Reject", true))
    };
    let (path, label) = (format!("/v1/runs/{run}/approvals/{id}"), format!("Answer {}", plain(action)));
    Form {
        id: &form,
        path,
        at: None,
        confirm: None,
        then: None,
        done: "Your answer is written.",
        label: &label,
        fields,
        buttons,
    }
    .show()
}

/// A link for a person whom the approval names, where the workflow allows that it is answered through one.
fn link(Item { approval, may_link, .. }: &Item) -> Markup {
    let ApprovalView { run, id, by, escalation, by_link, .. } = approval;
    let all = by.iter().chain(escalation.iter().flat_map(|escalation| &escalation.to));
    // A name that cannot be read as it is would have to be sent unseen.
    let people: Vec<&String> = all
        .filter_map(|authority| match authority {
            AuthorityView::Person(name) => Some(name),
            AuthorityView::Role(_) => None,
        })
        .filter(|name| plain(name) == **name)
        .collect();
    if !(*may_link && *by_link) || people.is_empty() {
        return html! {};
    }
    let form = format!("link-{run}-{id}");
    let fields = html! {
        p.field {
            label for={ (form) "-for" } { "For whom" }
            select id={ (form) "-for" } name="for" aria-describedby={ (form) "-hint" } {
                @for person in people { option value=(person) { (plain(person)) } }
            }
            span.hint id={ (form) "-hint" } { "Whoever has the link can answer as this person, once, without signing in. It is shown once." }
        }
    };
    let form = Form {
        id: &form,
        path: format!("/v1/runs/{run}/approvals/{id}/links"),
        at: None,
        confirm: None,
        then: Some("show"),
        done: "The link, to be sent to that person alone:",
        label: "Make a link",
        fields,
        buttons: button("Make a link"),
    };
    html! {
        div.acts { details.act-box id={ "link-" (run) "-" (id) "-box" } { summary { "Let somebody answer by a link" } (form.show()) } }
    }
}
