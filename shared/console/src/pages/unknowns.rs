//! Unknowns: effects that may have happened, and a person's word on how each ended.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use maud::{Markup, html};
use stepwell_core::{Checkpoint, Timestamp, WorkflowName};
use stepwell_http::Permission;
use stepwell_http::view::{OfRun as _, UnknownView};
use stepwell_ports::Clock as _;
use stepwell_ports::system::SystemClock;

use crate::Console;
use crate::answer::Trouble;
use crate::gather::gather;
use crate::pages::approvals::{Asked, pages};
use crate::parts::badge;
use crate::parts::form::{Form, Goes, JsonField, button, why};
use crate::parts::text::{line, name, plain};
use crate::parts::time::when_at;
use crate::shell::{Here, Page};
use crate::who::Viewer;

/// An effect as somebody sees it.
pub(crate) struct Item {
    pub(crate) workflow: WorkflowName,
    pub(crate) unknown: UnknownView,
    pub(crate) may_operate: bool,
}

pub(crate) struct Model {
    pub(crate) items: Vec<Item>,
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
    console.answer(&viewer, Here::Unknowns, &headers, made).await
}

async fn load(
    console: &Console,
    viewer: &Viewer,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Model, Trouble> {
    let Query(asked) = asked?;
    let now = SystemClock.now();
    let of = |run: &Checkpoint| UnknownView::of(run, now);
    let found = gather(&console.client, viewer, &UnknownView::STATUSES, &asked.after, of).await?;
    let item = |(run, unknown): (Arc<Checkpoint>, UnknownView)| {
        let may_operate = viewer.may(Permission::Operate, &run.workflow);
        Item { workflow: run.workflow.clone(), unknown, may_operate }
    };
    let items = found.items.into_iter().map(item).collect();
    Ok(Model { items, is_first: asked.after.is_empty(), next: found.next, now })
}

/// The page.
pub(crate) fn page(model: &Model) -> Page {
    let Model { items, is_first, next, now } = model;
    let main = html! {
        h1 { "Unknowns" }
        p.lead { "Calls that may have happened: nobody has heard back, and asking again could act twice. Find out, such as from the provider's own record, and say so here." }
        @if items.is_empty() {
            div.empty {
                @if next.is_some() { p { "None among these runs. There are older runs to look at." } }
                @else { p { "Nothing is unknown: of every call it is known how it ended." } }
            }
        }
        @for item in items { (card(item, *now, true)) }
        (pages("/unknowns", *is_first, next.as_deref()))
    };
    let says = format!("{} effects that may have happened", items.len());
    Page { title: "Unknowns".into(), here: Here::Unknowns, refresh: Some(5), says, main }
}

/// One effect that may have happened.
pub(crate) fn card(item: &Item, now: Timestamp, of_run: bool) -> Markup {
    let Item { workflow, unknown, may_operate } = item;
    let UnknownView { run, step, effect, key, class, attempts, since, until, evidence, parked } = unknown;
    let heading = format!("unknown-{run}-{key}");
    html! {
        article.card id={ "unknown-card-" (run) "-" (key) } aria-labelledby=(heading) {
            h2 id=(heading) { (name(effect)) " " (badge::outcome("unknown")) }
            @if of_run {
                p { "Of " (name(workflow.as_str())) ", run " a href={ "/runs/" (run) } { (name(run.as_str())) } ", at step " (name(step)) }
            }
            dl.facts {
                dt { "What is known" } dd { (line(evidence)) }
                dt { "Since" } dd { (when_at(*since, now)) }
                dt { "Calls" } dd { (attempts) ", " (what_is_promised(class)) }
                @if let Some(until) = until {
                    dt { "May still land until" } dd { (when_at(*until, now)) }
                }
                dt { "Key at the other side" } dd { code { (key) } }
            }
            @if *parked { p { strong { "The run stands still until somebody says." } } }
            @if until.is_some_and(|until| until.0 > now) {
                p.note { "The call may still land: say how it ended once it no longer can." }
            }
            @if *may_operate { (resolve(unknown)) } @else { p.note { "Your roles do not let you say how it ended." } }
        }
    }
}

/// What the outside promises about being asked twice.
fn what_is_promised(class: &str) -> Markup {
    let words = match class {
        "read" => "asking again changes nothing",
        "idempotent" => "the other side acts once for each key, for a time",
        "reconcilable" => "the other side can be asked whether it has happened",
        "once" => "a second call acts a second time",
        _ => "",
    };
    html! { (class) @if !words.is_empty() { ": " (words) } }
}

/// One of the ways in which it may have ended.
fn way(form: &str, value: &str, words: &str, more: &Markup, confirm: Option<&str>) -> Markup {
    let id = format!("{form}-{value}");
    html! {
        div.way {
            input id=(id) type="radio" name="resolution" value=(value) required data-confirm=[confirm];
            label for=(id) { (words) }
            div.more data-when=(value) { (more) }
        }
    }
}

fn resolve(UnknownView { run, effect, key, .. }: &UnknownView) -> Markup {
    let form = format!("resolve-{run}-{key}");
    let result = JsonField {
        form: &form,
        name: "result",
        label: "What it answered, as JSON",
        hint: "The step goes on with this, as if the call had answered it. It has to be of the shape that the step expects: another one fails the run.",
        text: "",
        goes: Goes::Plain,
    };
    // It is asked for by the script, and only where it belongs: what a browser holds to be missing has to be seen.
    let message = html! {
        p.field {
            label for={ (form) "-message" } { "What the step is to be told" }
            input id={ (form) "-message" } name="message" type="text" maxlength="1024";
        }
    };
    let fields = html! {
        fieldset {
            legend { "How did it end?" }
            (way(&form, "succeeded", "It has happened", &result.show(), None))
            (way(&form, "failed", "It has not happened, and will not", &message, None))
            (way(&form, "try-again", "It has not happened: call again", &html! {}, Some("The call will be made again. If it has happened after all, it acts a second time.")))
            (way(&form, "sign-off", "Nobody will find out: the run may end with it unknown", &html! {}, Some("This signs the effect off as uncertain, under your name. It is not called again.")))
        }
        (why(&form, true, "What says so, such as the provider's own record."))
    };
    let (path, label) = (format!("/v1/runs/{run}/effects/{key}/resolve"), format!("Say how {} ended", plain(effect)));
    let done = "It is written how the effect ended.";
    let buttons = button("Say so");
    html! {
        div.acts { details.act-box id={ (form) "-box" } {
            summary { "Say how it ended" }
            (Form { id: &form, path, at: None, confirm: None, then: None, done, label: &label, fields, buttons }.show())
        } }
    }
}
