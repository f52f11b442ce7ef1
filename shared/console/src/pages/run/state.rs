//! What a run knows: now, and at any step, with what that step has changed.

use maud::{Markup, html};
use stepwell_core::Revision;
use stepwell_engine::StateAt;
use stepwell_http::view::{Content, ContentView, ContentsView};

use super::{Model, Then};
use crate::parts::diff::{diff, table};
use crate::parts::json;
use crate::parts::text::{block, line, name};

pub(super) fn show(model: &Model) -> Markup {
    let Model { view, subject, then, is_asked, .. } = model;
    let newest = subject.revision;
    html! {
        section #state aria-labelledby="state-title" {
            h2 #state-title { @if subject.has_begun || view.state.is_some() { "State" } @else { "Input" } }
            @match then {
                Some(Then::Is(state)) => (around(state, newest, *is_asked)),
                Some(Then::NotThere { at, why }) => (not_there(*at, why, *is_asked)),
                None => (plain(model)),
            }
            (contents(&model.contents))
            (choose(model))
        }
    }
}

/// What the state refers to, for whoever has to read it: the first opened.
fn contents(ContentsView { blobs, left_out, logs }: &ContentsView) -> Markup {
    if blobs.is_empty() && *logs == 0 {
        return html! {};
    }
    let in_full = html! { code { "stepwell show RUN --state" } };
    html! {
        h3 #contents { "What it refers to" }
        @for (place, ContentView { at, content }) in blobs.iter().enumerate() {
            details id={ "content-" (place) } open[place == 0] {
                summary { code { (name(at)) } }
                @match content {
                    Content::Text(text) => (block(text)),
                    Content::Value(json) => (json::here(json, true)),
                    Content::TooLarge { bytes } => p.note {
                        "It has " (bytes) " bytes: too large for a page. " (in_full) " shows the beginning."
                    },
                    Content::Lost { unreadable } => div.note.bad { "It cannot be shown: " (unreadable) "." },
                }
            }
        }
        @if *left_out > 0 { p.note { (left_out) " more are not shown. " (in_full) " has them." } }
        @if *logs > 0 { p.note { "Its logs (" (logs) ") are not shown here. " (in_full) " has their entries." } }
    }
}

fn around(StateAt { revision, step, before, after }: &StateAt, newest: Revision, is_asked: bool) -> Markup {
    let is_newest = *revision == newest;
    html! {
        p {
            @if is_newest { "As it is now, after revision " (revision.0) } @else { "As it was after revision " (revision.0) " of " (newest.0) }
            ", step " strong { (name(step)) } "."
        }
        (json::here(after, is_asked))
        @match before {
            Some(before) => (table(&diff(before, after), &format!("What revision {} has changed", revision.0))),
            None => p.note {
                @if revision.0 == 0 { "It is what the run was started with." }
                @else if revision.0 == 1 { "It is what its first step has made of the input: there is no state before it to compare with." }
                @else { "What it was before was not kept, so there is nothing to compare with. " (how_to_keep()) }
            },
        }
    }
}

fn not_there(at: Revision, why: &str, is_asked: bool) -> Markup {
    html! {
        @if is_asked {
            div.note.bad { "The state after revision " (at.0) " is not there: " (line(why)) }
            p.note { (how_to_keep()) }
        }
    }
}

fn how_to_keep() -> Markup {
    html! {
        "A workflow keeps the way back to earlier states when its code says "
        code { "const KEEPS_STATES: bool = true" } "."
    }
}

/// What the view itself has.
fn plain(model: &Model) -> Markup {
    html! {
        @match model.view.state.as_ref().or(model.view.input.as_ref()) {
            Some(value) => (json::value(value)),
            None => p.note { "It has none." },
        }
    }
}

fn choose(model: &Model) -> Markup {
    let run = &model.view.run;
    let newest = model.subject.revision.0;
    let shown = match &model.then {
        Some(Then::Is(state)) => state.revision.0,
        Some(Then::NotThere { at, .. }) => at.0,
        None => newest,
    };
    let link = |at: u64, words: &str| html! { a href={ "/runs/" (run) "?at=" (at) "#state" } { (words) } };
    html! {
        form.filter method="get" action={ "/runs/" (run) "#state" } aria-label="State at a revision" {
            p.field {
                label for="at" { "State after revision" }
                input #at name="at" type="number" min="0" max=(newest) value=(shown.min(newest)) required;
            }
            p.buttons {
                button type="submit" { "Show it" }
                @if shown > 0 { (link(shown.min(newest.saturating_add(1)) - 1, "One step back")) }
                @if shown < newest { (link(shown + 1, "One step on")) }
                @if model.is_asked { a href={ "/runs/" (run) "#state" } { "Now" } }
            }
        }
    }
}
