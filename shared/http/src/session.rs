//! A browser's session: whoever shows a key once gets a signed cookie that stands for it for a while.
//!
//! Nothing is stored. A session ends with its time, with its key, and with the keys that sign; logging out deletes the cookie.

use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header::{HOST, HeaderValue, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use stepwell_core::Timestamp;
use stepwell_core::link::Purpose;
use utoipa::ToSchema;

use crate::access::{Access, Actor, Peer, from_here, unauthenticated};
use crate::limits::peer;
use crate::links::page;
use crate::problem::Problem;
use crate::sent::From;

/// How long a session lasts: a working day.
const LASTS: Duration = Duration::from_hours(8);

/// The cookie, where browsers are held to it that it comes from this host alone, over TLS.
const COOKIE: &str = "__Host-stepwell";

/// The cookie of a host on this machine, which has no TLS.
const COOKIE_HERE: &str = "stepwell";

/// What a person shows to log in.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginBody {
    /// An API key.
    key: String,
    /// The page to go to then: a path of this host.
    #[serde(default)]
    #[schema(nullable = false)]
    next: Option<String>,
}

/// What the cookie holds.
#[derive(Serialize, Deserialize)]
struct Session {
    /// The key's name.
    n: String,
    /// By which the key is known from a later one of the same name.
    m: String,
    /// It is over from then on.
    x: Timestamp,
}

/// Begins a session
///
/// Whoever shows an API key gets a cookie that stands for it, for eight hours and while the key is known here. A form is answered with
/// the way to the next page.
#[utoipa::path(
    post, path = "/v1/session", operation_id = "begin_session", tag = "sessions", security(()),
    request_body(content((LoginBody = "application/json"), (LoginBody = "application/x-www-form-urlencoded"))),
    responses(
        (status = 204, description = "It has begun; the answer sets its cookie"),
        (status = 303, description = "The same, for a form"),
    ),
    extensions(("x-problems" = json!(["unauthenticated", "wrong-origin", "no-sessions", "too-many"]))),
)]
pub(crate) async fn begin(State(access): State<Access>, from: Option<Extension<Peer>>, request: Request) -> Response {
    let sent = From::of(&request);
    let peer = peer(from.as_deref());
    match login(&access, peer, sent, request).await {
        Ok((cookie, next)) => match sent {
            From::Program => (StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response(),
            From::Form => (StatusCode::SEE_OTHER, [(SET_COOKIE, cookie), (LOCATION, next)]).into_response(),
        },
        Err(problem) if sent == From::Form => page::of_problem(&problem),
        Err(problem) => problem.into_response(),
    }
}

/// Ends a session
///
/// The answer deletes its cookie. Nothing else is known of it here.
#[utoipa::path(
    delete, path = "/v1/session", operation_id = "end_session", tag = "sessions", security(()),
    responses((status = 204, description = "It has ended")),
    extensions(("x-problems" = json!(["wrong-origin", "no-sessions"]))),
)]
pub(crate) async fn end(State(access): State<Access>, headers: HeaderMap) -> Result<Response, Problem> {
    from_here(&headers, true, access.origin())?;
    let cookie = format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{}", name(&headers), secure(&headers));
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response())
}

async fn login(
    access: &Access,
    from: Option<Peer>,
    sent: From,
    request: Request,
) -> Result<(HeaderValue, HeaderValue), Problem> {
    let headers = request.headers().clone();
    from_here(&headers, true, access.origin())?;
    access.limiters().may_try(from.as_ref(), access.now())?;
    let LoginBody { key, next } = sent.read(request).await?;
    let Some(signing) = access.signing() else {
        let detail =
            "no keys are set here that could sign a session: show your key with each request, in the header x-api-key";
        return Err(Problem::fix("no-sessions", detail));
    };
    let Some(known) = access.keys().holder(key.trim().as_bytes()) else {
        access.limiters().failed(from, access.now())?;
        return Err(unauthenticated());
    };
    let session = Session { n: known.name().to_owned(), m: known.mark(), x: access.now().plus(LASTS) };
    let session = serde_json::to_vec(&session).map_err(Problem::defect)?;
    let token = signing.seal(Purpose::Session, &session).map_err(Problem::defect)?;
    let (name, secure, age) = (name(&headers), secure(&headers), LASTS.as_secs());
    let cookie = format!("{name}={token}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}");
    let mut cookie = HeaderValue::try_from(cookie).map_err(Problem::defect)?;
    cookie.set_sensitive(true);
    let next = next.filter(|next| is_path(next)).and_then(|next| HeaderValue::try_from(next).ok());
    Ok((cookie, next.unwrap_or(HeaderValue::from_static("/"))))
}

/// Whose session this cookie stands for.
pub(crate) fn read(access: &Access, token: &str) -> Option<Actor> {
    let session = access.signing()?.unseal(Purpose::Session, token).ok()?;
    let Session { n, m, x } = serde_json::from_slice(&session).ok()?;
    let key = access.keys().of_session(&n, &m).filter(|_| access.now() < x)?;
    Some(key.actor())
}

/// The sessions that a request shows.
pub(crate) fn shown(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let name = name(headers);
    let cookies = headers.get_all(axum::http::header::COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
    let cookies = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
    cookies.filter(move |(known, _)| *known == name).map(|(_, token)| token)
}

fn name(headers: &HeaderMap) -> &'static str {
    if is_here(headers) { COOKIE_HERE } else { COOKIE }
}

fn secure(headers: &HeaderMap) -> &'static str {
    if is_here(headers) { "" } else { "; Secure" }
}

/// Whether a browser came here on this machine's own address, where there is no TLS.
fn is_here(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    ["localhost", "127.0.0.1", "[::1]"].into_iter().any(|name| match host.strip_prefix(name) {
        Some(rest) => rest.is_empty() || rest.starts_with(':'),
        None => false,
    })
}

/// Whether this leads to a page of this host. Browsers take a backslash for a slash, and two of them for another host.
fn is_path(next: &str) -> bool {
    next.starts_with('/') && !next[1..].starts_with(['/', '\\']) && next.bytes().all(|byte| matches!(byte, 0x21..=0x7e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_one_of_this_host() {
        for next in ["/", "/runs/r1?at=3", "/a//b"] {
            assert!(is_path(next), "{next}");
        }
        for next in ["", "runs", "//evil", "/\\evil", "https://evil", "javascript:x", "/a b", "/a\nb", "/ü", "\\/evil"]
        {
            assert!(!is_path(next), "{next}");
        }
    }
}
