//! What surrounds every answer: a panic becomes a problem, headers say what a browser must not do, the log has a line.

use std::panic::AssertUnwindSafe;

use axum::extract::{MatchedPath, Request};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use crate::problem::Problem;

/// The answers are data about runs: not to be kept, shown as a page, framed, or guessed the type of.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

/// What pages need on top, or otherwise. Scripts, styles and pictures are files of this host: text that a run holds can be none of them.
const PAGE_HEADERS: [(HeaderName, HeaderValue); 6] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
             form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
    ),
    // Not "no-referrer": with it a form would not say where it comes from, and no session could be begun.
    (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Sets the headers that pages need, where they are not set otherwise.
pub fn page_headers(headers: &mut HeaderMap) {
    for (name, value) in PAGE_HEADERS {
        headers.entry(name).or_insert(value);
    }
}

pub(crate) async fn surround(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    // The pattern, not the path: what a stranger asks for does not belong into the log.
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answer.unwrap_or_else(|_| Problem::defect("a handler panicked").into_response());
    for (name, value) in HEADERS {
        // A route that needs another one sets it itself.
        response.headers_mut().entry(name).or_insert(value);
    }
    let status = response.status().as_u16();
    tracing::info!(%method, route = route.as_deref().unwrap_or("none"), status, "answered");
    response
}
