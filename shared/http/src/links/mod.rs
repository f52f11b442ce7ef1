//! Signed links: whoever holds one may do one thing to one run, without an account.
//!
//! Opening a link shows what is asked, and changes nothing: mail scanners open every link. Only what the page's form sends does it.

mod answer;
mod make;
pub(crate) mod page;
mod signal;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use axum::response::{IntoResponse, Response};
use stepwell_core::link::{Link, LinkError, Target};
use stepwell_engine::Client;

use crate::access::Access;
use crate::problem::Problem;
use crate::sent::From;

pub(crate) use make::{__path_make, make};

/// The token that the path has, if it can be read.
type Token = Result<Path<String>, PathRejection>;

/// What a link's page looks like. The address changes with it, so it may be kept.
pub(crate) async fn style() -> ([(HeaderName, &'static str); 2], &'static str) {
    let kept = "public, max-age=31536000, immutable";
    ([(CONTENT_TYPE, "text/css; charset=utf-8"), (CACHE_CONTROL, kept)], page::STYLE)
}

/// Shows what a link is for. Changes nothing.
pub(crate) async fn show(State(client): State<Client>, State(access): State<Access>, token: Token) -> Response {
    let shown = match read(&access, token) {
        Ok(Link { run, target: Target::Approval { id, fingerprint, person, maker }, expires, .. }) => {
            answer::show(&client, &access, &run, &answer::Asked { id, fingerprint, person, maker }, expires).await
        }
        Ok(Link { run, target: Target::Signal { name, visit }, expires, .. }) => {
            signal::show(&client, &run, &name, visit, expires).await
        }
        Err(problem) => Err(problem),
    };
    shown.unwrap_or_else(|problem| page::of_problem(&problem))
}

/// Does what a link is for.
pub(crate) async fn act(
    State(client): State<Client>,
    State(access): State<Access>,
    token: Token,
    request: Request,
) -> Response {
    let from = From::of(&request);
    let done = match read(&access, token) {
        Ok(Link { run, target: Target::Approval { id, fingerprint, person, maker }, .. }) => {
            answer::act(&client, &access, &run, answer::Asked { id, fingerprint, person, maker }, from, request).await
        }
        Ok(link) => signal::act(&client, link, from, request).await,
        Err(problem) => Err(problem),
    };
    match (done, from) {
        (Ok(response), _) => response,
        (Err(problem), From::Form) => page::of_problem(&problem),
        (Err(problem), From::Program) => problem.into_response(),
    }
}

fn read(access: &Access, token: Token) -> Result<Link, Problem> {
    let Path(token) = token.map_err(|_| Problem::fix("bad-link", LinkError::Unreadable.to_string()))?;
    let Some(keys) = access.signing() else { return Err(Problem::fix("bad-link", LinkError::UnknownKey.to_string())) };
    keys.verify(&token, access.now()).map_err(|error| {
        let code = match error {
            LinkError::Unreadable | LinkError::UnknownKey | LinkError::Altered => "bad-link",
            LinkError::Expired { .. } => "link-expired",
        };
        Problem::fix(code, error.to_string())
    })
}

/// Nothing comes of the link any more.
fn over(detail: impl Into<String>) -> Problem {
    Problem::fix("link-over", detail)
}

/// It has done what it was for.
fn used(detail: impl Into<String>) -> Problem {
    Problem::fix("link-used", detail)
}

/// A link outlives its run: whoever holds one is not told that of a run there is nothing.
fn gone(error: stepwell_engine::ClientError) -> Problem {
    match error {
        stepwell_engine::ClientError::NoSuchRun(_) => over("the run that this link is for is no longer there"),
        error => error.into(),
    }
}
