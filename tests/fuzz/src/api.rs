//! A request to the API.

use std::cell::LazyCell;

use axum::body::to_bytes;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Method, StatusCode};
use serde_json::Value;
use stepwell_core::stored::{Unknown, decode, encode};
use stepwell_core::{Checkpoint, invariants};
use tower::ServiceExt as _;

use crate::cases::case;
use crate::request::{Asked, Who};
use crate::world::World;

thread_local! {
    static WORLD: LazyCell<World> = LazyCell::new(World::new);
}

/// Turns of work after a request that was granted.
const TURNS: usize = 8;

/// No request breaks the program; what is refused, or only looks, changes nothing; what is granted leaves every run whole.
pub fn api(bytes: &[u8]) {
    let Some(asked) = Asked::read(bytes) else { return };
    WORLD.with(|world| {
        world.renew();
        world.runtime.block_on(ask(world, &asked));
    });
}

async fn ask(world: &World, asked: &Asked<'_>) {
    let words = case(world, asked.case).await;
    let Some(request) = asked.request(&words) else { return };
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let before = world.all().await;
    let response = world.app(asked.who == Who::Local).oneshot(request).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let body = to_bytes(response.into_body(), usize::MAX).await.expect("an answer is whole");
    let said = String::from_utf8_lossy(&body).into_owned();
    answered(status, &headers, &method, &path, &said);
    let after = world.all().await;
    let may_change = match asked.who {
        Who::Local => true,
        Who::Viewer | Who::Nobody => asked.has_link(),
    };
    if status.as_u16() >= 400 || method.is_safe() || !may_change {
        assert_eq!(after, before, "{status} {method} {path} has changed something: {said}");
        return;
    }
    after.1.iter().for_each(whole);
    world.work(TURNS).await;
    world.all().await.1.iter().for_each(whole);
}

/// The answer is of a form that callers know.
fn answered(status: StatusCode, headers: &HeaderMap, method: &Method, path: &str, said: &str) {
    assert!(!status.is_server_error() || status == StatusCode::SERVICE_UNAVAILABLE, "{status} {method} {path}: {said}");
    let kind = headers.get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap()).unwrap_or_default();
    let is_page = path.starts_with("/links/") && kind.starts_with("text/html");
    if *method == Method::HEAD || is_page {
        return;
    }
    if kind.starts_with("application/json") {
        serde_json::from_str::<Value>(said).expect("the answer is JSON");
    }
    if status.as_u16() >= 400 {
        assert_eq!(kind, "application/problem+json", "{status} {method} {path}: {said}");
        let problem: Value = serde_json::from_str(said).expect("a problem is JSON");
        assert_eq!(problem["status"], status.as_u16());
        assert!(problem["code"].is_string() && problem["title"].is_string(), "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.len() <= 1_100), "{problem}");
        assert!(matches!(problem["remedy"].as_str(), Some("retry" | "fix-the-input" | "call-a-person")), "{problem}");
    }
}

fn whole(run: &Checkpoint) {
    assert_eq!(invariants::check(run), Ok(()));
    let stored = encode(run, &Unknown::new()).expect("it can be stored");
    assert_eq!(decode(&stored).expect("it can be read").0, *run);
}
