//! The pages of links: server HTML without any script. All that they show is text.

use std::sync::LazyLock;

use axum::http::StatusCode;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use stepwell_core::{Digest, RunId, SignalName, Timestamp};

use crate::problem::Problem;
use crate::view::{AnsweredView, ApprovalView, At, Value, is_seen, pretty};

/// The style of all of them.
pub(super) const STYLE: &str = include_str!("style.css");

/// Nothing but that style, and forms to this host.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

static STYLE_PATH: LazyLock<String> =
    LazyLock::new(|| format!("/links/style.css?{}", Digest::of(STYLE.as_bytes()).short(16)));

/// What is asked, and the form that answers.
pub(super) fn ask(approval: &ApprovalView, person: &str, expires: Timestamp) -> Response {
    let body = html! {
        p { "You are asked as " strong { (text(person)) } ". Nothing has happened yet: it happens when you press one of the buttons." }
        (asked(approval))
        dl {
            dt { "This link works until" } dd { (time(expires)) }
            dt { "Run" } dd { code { (text(approval.run.as_str())) } }
        }
        form method="post" {
            label for="why" { "Why " span.hint { "(needed to reject; the run is told)" } }
            textarea #why name="why" rows="3" maxlength="800" {}
            div.buttons {
                button.yes type="submit" name="decision" value="approve" { "Approve" }
                button.no type="submit" name="decision" value="reject" { "Reject" }
            }
        }
    };
    page(StatusCode::OK, "Please decide", &body)
}

/// What was answered.
pub(super) fn answered(approval: &ApprovalView, answered: &AnsweredView) -> Response {
    let body = html! {
        p { "You have " strong { (answered.answer) } " this as " strong { (text(&answered.by)) } ". The link has done its work, and does nothing more." }
        @if let Some(stands) = &answered.stands {
            p { "The approval is " strong { (stands.status) } ": " (stands.allowed) " of " (stands.quorum) " have allowed it." }
        }
        (asked(approval))
    };
    page(StatusCode::OK, "Thank you", &body)
}

/// Which signal is sent, and the form that sends it.
pub(super) fn signal(run: &RunId, name: &SignalName, expires: Timestamp) -> Response {
    let body = html! {
        p { "This sends the signal " strong { (text(name.as_str())) } " to a run that waits. Nothing has happened yet." }
        dl {
            dt { "Run" } dd { code { (text(run.as_str())) } }
            dt { "This link works until" } dd { (time(expires)) }
        }
        form method="post" {
            label for="payload" { "What it says " span.hint { "(JSON)" } }
            textarea #payload name="payload" rows="5" required spellcheck="false" {}
            div.buttons { button.yes type="submit" { "Send" } }
        }
        p.hint { "A program sends the JSON itself: a POST to this address with Content-Type: application/json." }
    };
    page(StatusCode::OK, "Send a signal", &body)
}

/// That it was sent.
pub(super) fn sent(run: &RunId, name: &SignalName) -> Response {
    let body = html! {
        p { "The signal " strong { (text(name.as_str())) } " has arrived at run " code { (text(run.as_str())) } ". The link has done its work, and does nothing more." }
    };
    page(StatusCode::OK, "Thank you", &body)
}

/// Why nothing happens.
pub(crate) fn of_problem(problem: &Problem) -> Response {
    let body = html! {
        p { (text(problem.detail())) }
        @if let Some(reference) = problem.reference() {
            p.hint { "Reference: " code { (text(reference)) } }
        }
    };
    let mut response = page(problem.status(), problem.title(), &body);
    response.headers_mut().extend(problem.header());
    response
}

fn asked(approval: &ApprovalView) -> Markup {
    html! {
        h2 { bdi { (text(&approval.action)) } }
        pre dir="ltr" tabindex="0" aria-label="Parameters" { (text(&parameters(&approval.parameters))) }
    }
}

/// To the letter: who reads other numbers than those that are asked for allows something else.
fn parameters(parameters: &Value) -> String {
    match parameters {
        Value::Here(json) => pretty(json.text()),
        Value::Apart { .. } | Value::Lost { .. } => String::new(),
    }
}

fn page(status: StatusCode, title: &str, body: &Markup) -> Response {
    let html = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="robots" content="noindex";
                title { (title) " · Stepwell" }
                link rel="stylesheet" href=(*STYLE_PATH);
            }
            body { main { h1 { (title) } (body) } }
        }
    };
    let kind = (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    (status, [kind, (CONTENT_SECURITY_POLICY, POLICY)], html.into_string()).into_response()
}

fn time(at: Timestamp) -> Markup {
    let at = At(at).to_string();
    html! { time datetime=(at) { (at) } }
}

/// Text as it is read: marks that cannot be seen, or that turn the direction of what follows, are spelled out. Else what a person
/// allows would not be what they read.
fn text(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\n' | '\t') || is_seen(c) {
            seen.push(c);
        } else {
            seen.extend(c.escape_unicode());
        }
    }
    seen
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use stepwell_core::Json;

    use super::*;

    #[test]
    fn numbers_are_shown_as_they_are_asked_for() {
        for number in ["123456789012345678901234567890", "0.10", "1e400", "9007199254740993"] {
            let json = Json::from_text(format!("{{\"cents\":{number}}}")).unwrap();
            let shown = parameters(&Value::Here(json));
            assert_eq!(shown, format!("{{\n  \"cents\": {number}\n}}"));
        }
    }

    #[test]
    fn marks_that_deceive_are_spelled_out() {
        assert_eq!(text("a\u{202e}b\0c\u{200b}d\u{e0041}\r"), r"a\u{202e}b\u{0}c\u{200b}d\u{e0041}\u{d}");
        assert_eq!(text("Größe: 7 €\n\t日本語 עברית"), "Größe: 7 €\n\t日本語 עברית");
    }
}
