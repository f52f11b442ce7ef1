//! What surrounds every page: a panic becomes a page, headers say what a browser must not do, the log has a line.

use std::panic::AssertUnwindSafe;

use axum::extract::{MatchedPath, Request};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{Html, IntoResponse as _, Response};
use futures_util::FutureExt as _;
use maud::html;
use stepwell_http::page_headers;

use crate::shell::{Around, Here, document, notice};

pub(crate) async fn surround(request: Request, next: Next) -> Response {
    // The pattern, not the path: what a stranger asks for does not belong into the log.
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answer.unwrap_or_else(|_| {
        tracing::error!("a page panicked");
        let words = "The program has a defect. Nothing was changed; its log says more.";
        let page = notice("Something is wrong here", Here::Elsewhere, words, &html! {});
        let body = document(&page, Around { name: None, counts: None }).into_string();
        (StatusCode::INTERNAL_SERVER_ERROR, Html(body)).into_response()
    });
    page_headers(response.headers_mut());
    let status = response.status().as_u16();
    tracing::info!(route = route.as_deref().unwrap_or("none"), status, "answered");
    response
}
