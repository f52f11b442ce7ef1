//! Visitors: who asks for pages, and what they get.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use stepwell_core::Digest;
use stepwell_http::Access;
use tower::ServiceExt;

use crate::bed::Bed;

/// May do everything, and is of the finance department.
pub(crate) const ANN: &str = "ann's key of many letters";
/// May look.
pub(crate) const EVE: &str = "eve's key of many letters";
/// Operates `desk`, and sees nothing else.
pub(crate) const SAM: &str = "sam's key of many letters";

pub(crate) fn access() -> Access {
    let of = |key: &str| Digest::of(key.as_bytes());
    let keys = format!("ann:admin+finance={},eve:viewer={},sam:operator@desk={}", of(ANN), of(EVE), of(SAM));
    Access::from_text(&keys).unwrap()
}

/// An answer.
pub(crate) struct Seen {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

pub(crate) fn app(bed: &Bed) -> Router {
    bed.app(access())
}

pub(crate) async fn ask(app: &Router, request: Request<Body>) -> Seen {
    let response = app.clone().oneshot(request).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    Seen { status, headers, body: String::from_utf8(bytes.to_vec()).unwrap() }
}

pub(crate) async fn get_as(app: &Router, key: &str, path: &str) -> Seen {
    ask(app, Request::get(path).header("x-api-key", key).body(Body::empty()).unwrap()).await
}

/// A page that is there, and whole.
#[track_caller]
pub(crate) fn is_page(seen: &Seen) {
    assert_eq!(seen.status, StatusCode::OK, "{}", seen.body);
    is_html(seen);
}

#[track_caller]
pub(crate) fn is_html(seen: &Seen) {
    assert_eq!(seen.headers["content-type"], "text/html; charset=utf-8");
    let policy = seen.headers["content-security-policy"].to_str().unwrap();
    for part in ["default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(part) && !policy.contains("unsafe"), "{policy}");
    }
    assert_eq!(
        (&seen.headers["x-content-type-options"], &seen.headers["cache-control"]),
        (&"nosniff".parse().unwrap(), &"no-store".parse().unwrap())
    );
    crate::check::is_sound(&seen.body);
}

#[track_caller]
pub(crate) fn has(seen: &Seen, parts: &[&str]) {
    for part in parts {
        assert!(seen.body.contains(part), "{part} in {}", seen.body);
    }
}

#[track_caller]
pub(crate) fn has_not(seen: &Seen, parts: &[&str]) {
    for part in parts {
        assert!(!seen.body.contains(part), "{part} in {}", seen.body);
    }
}
