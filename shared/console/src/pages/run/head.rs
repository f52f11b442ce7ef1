//! The head of a run's page: where it stands, what it waits for, and what a person can do about that.

use maud::{Markup, html};
use stepwell_core::Timestamp;
use stepwell_http::view::{DetailView, RunView};

use super::acts::{Stands, Subject, helps};
use crate::parts::text::{line, name};
use crate::parts::time::when_at;
use crate::parts::{badge, json};

pub(super) fn show(view: &RunView, subject: &Subject, now: Timestamp) -> Markup {
    html! {
        p.crumbs { a href="/runs" { "Runs" } " / " a href={ "/runs" (crate::address::query(&[("workflow", view.workflow.as_str())])) } { (name(view.workflow.as_str())) } }
        h1 { (name(view.workflow.as_str())) " " span.id { (name(view.run.as_str())) } }
        div.stand #stand {
            p.status { (badge::phase(view.status)) " at step " strong { (name(&view.step)) } ", " (when_at(view.since, now)) }
            (stands(view, now))
            @if let Some(trouble) = &view.trouble {
                div.words { "Attempts of this step that have failed: " (trouble.failed_attempts) ", since " (when_at(trouble.since, now)) ". The last one: " (line(&trouble.last.message)) }
            }
            @if let Some(cancel) = &view.cancel {
                div.words { strong { "Its end was asked for" } " by " (name(&cancel.by)) ", " (when_at(cancel.at, now)) @if let Some(why) = &cancel.why { ". Why: " (line(why)) } }
            }
            @if let Stands::Parked { code } = subject.stands {
                @if let Some(help) = helps(code) { p.help { strong { "What would help: " } (help) } }
                @if code == "unknown-outcome" { p { a href="#unknowns" { "Say how it ended" } } }
            }
        }
    }
}

fn stands(view: &RunView, now: Timestamp) -> Markup {
    html! {
        @match &view.detail {
            DetailView::Created => p { "It is stored and waits for a worker." },
            DetailView::Running => p {
                @match &view.worker {
                    Some(worker) => { "Worker " (name(&worker.id)) " works on it, since " (when_at(worker.since, now)) "." }
                    None => "Its next step waits for a worker.",
                }
            },
            DetailView::Waiting { signals, approval, until, .. } => p {
                "It waits for "
                @if approval.is_some() { "an approval" @if !signals.is_empty() { ", or " } }
                @if !signals.is_empty() { "the signal " @for (place, signal) in signals.iter().enumerate() { @if place > 0 { " or " } code { (name(signal)) } } }
                @if approval.is_none() && signals.is_empty() { "its time" }
                @match until {
                    Some(until) => { ", until " (when_at(*until, now)) "." }
                    None => ", however long that takes.",
                }
            },
            DetailView::Retrying { at } => p { "Its step has failed and is tried again " (when_at(*at, now)) "." },
            DetailView::Parked { code, reason } => div.words { "It stands still until somebody acts: " (line(reason)) " " span.code { "(" code { (code) } ")" } },
            DetailView::Completed { output } => { h2 { "Result" } (json::value(output)) },
            DetailView::Failed(failure) => div.words { strong { "It has failed: " } (line(&failure.message)) " " span.code { "(" (failure.kind) @if let Some(code) = &failure.code { ", " code { (name(code)) } } ")" } },
            DetailView::Cancelled(_) => p { "It was ended on request. Its certificate says what it has done." },
        }
    }
}
