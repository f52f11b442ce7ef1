//! Pages as answers: what a browser must not do with them, and nothing at all when it has the page already.

use axum::extract::rejection::QueryRejection;
use axum::http::header::{ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use maud::{Markup, html};
use stepwell_core::Digest;
use stepwell_engine::{ClientError, Remedy};

use crate::shell::{Around, Here, Page, document, notice};

/// A page that cannot be shown.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// There is none at this address.
    NoSuchPage,
    /// What was asked cannot be read.
    BadQuery(String),
    /// The engine says why.
    Client(ClientError),
}

impl From<QueryRejection> for Trouble {
    fn from(rejection: QueryRejection) -> Self {
        Self::BadQuery(rejection.body_text())
    }
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// A page, unless the browser has it.
pub(crate) fn shown(page: &Page, around: Around<'_>, asked: &HeaderMap) -> Response {
    let body = document(page, around).into_string();
    let tag = format!("\"{}\"", Digest::of(body.as_bytes()).short(32));
    let known = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    // A proxy that packs answers marks their tags as weak.
    if known.flat_map(|value| value.split(',')).any(|value| value.trim().trim_start_matches("W/") == tag) {
        return (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response();
    }
    ([(ETAG, tag)], Html(body)).into_response()
}

/// Why there is no page, as one.
pub(crate) fn trouble(trouble: &Trouble, here: Here, around: Around<'_>) -> Response {
    let (status, page) = read(trouble, here);
    (status, Html(document(&page, around).into_string())).into_response()
}

fn read(trouble: &Trouble, here: Here) -> (StatusCode, Page) {
    let to_runs = html! { p { a href="/runs" { "See the newest runs" } } };
    match trouble {
        Trouble::NoSuchPage => {
            let words = "There is nothing at this address. It may be mistyped, or cut off on its way.";
            (StatusCode::NOT_FOUND, notice("No such page", here, words, &to_runs))
        }
        Trouble::BadQuery(words) => (StatusCode::BAD_REQUEST, notice("This cannot be read", here, words, &to_runs)),
        Trouble::Client(error) => of_client(error, here, &to_runs),
    }
}

fn of_client(error: &ClientError, here: Here, to_runs: &Markup) -> (StatusCode, Page) {
    if let ClientError::NoSuchRun(run) = error {
        let words = format!("There is no run {run} here. The id may be mistyped, or be of another stack.");
        return (StatusCode::NOT_FOUND, notice("No such run", here, &words, to_runs));
    }
    match error.remedy() {
        Remedy::FixTheInput => {
            (StatusCode::BAD_REQUEST, notice("This cannot be done", here, &error.to_string(), to_runs))
        }
        Remedy::Retry => {
            tracing::warn!(%error, "a page cannot be shown now");
            let words = "What lies behind the console does not answer right now. Nothing was changed.";
            let help =
                html! { p { "Load the page again in a moment. If that goes on, look at the log of the console." } };
            (StatusCode::SERVICE_UNAVAILABLE, notice("Not available right now", here, words, &help))
        }
        Remedy::CallAPerson => {
            tracing::error!(%error, "a page cannot be shown");
            let words = "What is stored cannot be used, or the program has a defect. Nothing was changed.";
            let help = html! { p { "The log of the console says what it is: a person has to look." } };
            (StatusCode::INTERNAL_SERVER_ERROR, notice("Something is wrong here", here, words, &help))
        }
    }
}
