//! Sessions: a cookie stands for a key, for a while, from pages of this host alone.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use axum::response::Response;
use axum::routing::get;
use serde_json::json;
use stepwell_core::link::LinkKeys;
use stepwell_core::{Digest, Timestamp};
use stepwell_engine::Client;
use stepwell_http::{Access, Api, Caller, Limits, Site, pages_guard};
use stepwell_testkit::VirtualClock;
use tower::ServiceExt as _;

use crate::bed::{Bed, start};

const SIGNING: &str = "k1=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const HOST: &str = "runs.example.com";
const ORIGIN: &str = "https://runs.example.com";

fn access(keys: &[(&str, &str, &str)]) -> Access {
    let keys: Vec<String> =
        keys.iter().map(|(name, role, key)| format!("{name}:{role}={}", Digest::of(key.as_bytes()))).collect();
    let clock = Arc::new(VirtualClock::starting_at(Timestamp(4_444_444 * 900_000)));
    let signing = LinkKeys::from_text(SIGNING).unwrap();
    Access::from_text(&keys.join(",")).unwrap().with_clock(clock).with_link_keys(signing).with_limits(Limits::none())
}

fn bed() -> Bed {
    Bed::with(access(&[("ann", "operator", "ann's key"), ("vic", "viewer", "vic's key")]))
}

fn login(host: &str, origin: Option<&str>, key: &str) -> Request<Body> {
    let mut request = Request::post("/v1/session").header("host", host).header("content-type", "application/json");
    if let Some(origin) = origin {
        request = request.header("origin", origin);
    }
    request.body(Body::from(json!({ "key": key }).to_string())).unwrap()
}

/// Name and value of the cookie, and what else is said of it.
fn cookie(response: &Response) -> (String, String) {
    let set = response.headers()["set-cookie"].to_str().unwrap();
    let (pair, rest) = set.split_once(';').unwrap();
    (pair.to_owned(), rest.to_owned())
}

async fn begin(bed: &Bed, key: &str) -> String {
    let response = bed.respond(login(HOST, Some(ORIGIN), key)).await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    cookie(&response).0
}

fn post(cookie: &str, headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::post("/v1/runs").header("host", HOST).header("cookie", cookie);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.header("content-type", "application/json").body(Body::from(start("?", 1).to_string())).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_session_stands_for_its_key() {
    let bed = bed();
    let ann = begin(&bed, "ann's key").await;
    let started = bed.send(post(&ann, &[("origin", ORIGIN)])).await;
    assert_eq!(started.status, StatusCode::CREATED, "{started:?}");
    let vic = begin(&bed, "vic's key").await;
    bed.send(post(&vic, &[("origin", ORIGIN)])).await.is_problem(403, "no-permission");
    let look = |cookie: &str| {
        Request::get("/v1/runs").header("host", HOST).header("cookie", cookie).body(Body::empty()).unwrap()
    };
    assert_eq!(bed.send(look(&vic)).await.status, StatusCode::OK);
    assert_eq!(bed.send(look(&format!("theme=dark; {vic}"))).await.status, StatusCode::OK);
    bed.send(look(&format!("{ann}; {vic}"))).await.is_problem(401, "unauthenticated");
    assert!(!ann.contains("ann's key") && !ann.contains(&Digest::of(b"ann's key").to_string()), "{ann}");
}

#[tokio::test(start_paused = true)]
async fn its_cookie_is_kept_from_scripts_and_other_sites() {
    let bed = bed();
    let response = bed.respond(login(HOST, Some(ORIGIN), "ann's key")).await;
    let (pair, rest) = cookie(&response);
    assert!(pair.starts_with("__Host-stepwell="), "{pair}");
    assert_eq!(rest, " Path=/; Max-Age=28800; HttpOnly; SameSite=Strict; Secure");
    // On the machine itself there is no TLS, so browsers would not send such a cookie.
    let here = bed.respond(login("localhost:8080", Some("http://localhost:8080"), "ann's key")).await;
    let (pair, rest) = cookie(&here);
    assert!(pair.starts_with("stepwell=") && !rest.contains("Secure"), "{pair} {rest}");
    // And what is good there is nothing elsewhere.
    let elsewhere = Request::get("/v1/runs").header("host", HOST).header("cookie", pair).body(Body::empty()).unwrap();
    bed.send(elsewhere).await.is_problem(401, "unauthenticated");
}

#[tokio::test(start_paused = true)]
async fn only_a_page_of_this_host_uses_it() {
    let bed = bed();
    let ann = begin(&bed, "ann's key").await;
    let before = bed.all().await;
    let foreign: [&[(&str, &str)]; 6] = [
        &[],
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "none")],
        &[("origin", ORIGIN), ("sec-fetch-site", "same-site")],
    ];
    for headers in foreign {
        bed.send(post(&ann, headers)).await.is_problem(403, "wrong-origin");
    }
    assert_eq!(bed.all().await, before);
    assert_eq!(bed.send(post(&ann, &[("sec-fetch-site", "same-origin")])).await.status, StatusCode::CREATED);
    // Nor does another site log anybody in, or out.
    for origin in [None, Some("https://evil.example")] {
        bed.send(login(HOST, origin, "ann's key")).await.is_problem(403, "wrong-origin");
    }
    let out = Request::delete("/v1/session")
        .header("host", HOST)
        .header("origin", "https://evil.example")
        .body(Body::empty())
        .unwrap();
    bed.send(out).await.is_problem(403, "wrong-origin");
    let out = Request::delete("/v1/session").header("host", HOST).header("origin", ORIGIN).body(Body::empty()).unwrap();
    let response = bed.respond(out).await;
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert!(cookie(&response).1.contains("Max-Age=0"));
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_time_with_its_key_and_when_it_is_altered() {
    let bed = bed();
    let ann = begin(&bed, "ann's key").await;
    let look = |cookie: &str| {
        Request::get("/v1/runs").header("host", HOST).header("cookie", cookie).body(Body::empty()).unwrap()
    };
    let other_key = Bed::with(access(&[("ann", "operator", "a new key")]));
    other_key.send(look(&ann)).await.is_problem(401, "unauthenticated");
    let altered = format!("{}A", &ann[..ann.len() - 1]);
    let altered = if altered == ann { format!("{}B", &ann[..ann.len() - 1]) } else { altered };
    bed.send(look(&altered)).await.is_problem(401, "unauthenticated");
    // A link is no session, though the same keys sign both.
    tokio::time::advance(Duration::from_hours(8) - Duration::from_secs(1)).await;
    assert_eq!(bed.send(look(&ann)).await.status, StatusCode::OK);
    tokio::time::advance(Duration::from_secs(2)).await;
    bed.send(look(&ann)).await.is_problem(401, "unauthenticated");
}

#[tokio::test(start_paused = true)]
async fn nobody_logs_in_with_a_wrong_key_or_where_nothing_signs() {
    let bed = bed();
    for key in ["", "a guess", &Digest::of(b"ann's key").to_string()] {
        bed.send(login(HOST, Some(ORIGIN), key)).await.is_problem(401, "unauthenticated");
    }
    let none = Bed::with(Access::from_text(&format!("ann:admin={}", Digest::of(b"ann's key"))).unwrap());
    none.send(login(HOST, Some(ORIGIN), "ann's key")).await.is_problem(409, "no-sessions");
}

#[tokio::test(start_paused = true)]
async fn a_form_goes_on_to_a_page_of_this_host_alone() {
    let bed = bed();
    for (next, location) in
        [("%2Fruns%2Fr1%3Fat%3D3", "/runs/r1?at=3"), ("%2F%2Fevil.example", "/"), ("https%3A%2F%2Fevil.example", "/")]
    {
        let form = Request::post("/v1/session").header("host", HOST).header("origin", ORIGIN);
        let form = form.header("content-type", "application/x-www-form-urlencoded");
        let form = form.body(Body::from(format!("key=ann%27s+key&next={next}"))).unwrap();
        let response = bed.respond(form).await;
        assert_eq!((response.status().as_u16(), response.headers()["location"].to_str().unwrap()), (303, location));
    }
    let form = Request::post("/v1/session").header("host", HOST).header("origin", ORIGIN);
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    let response = bed.respond(form.body(Body::from("key=a+guess")).unwrap()).await;
    assert_eq!(
        (response.status().as_u16(), response.headers()["content-type"].to_str().unwrap()),
        (401, "text/html; charset=utf-8")
    );
    assert!(!response.headers().contains_key("set-cookie"));
}

/// Pages behind the guard, as the console has them.
fn pages(bed: &Bed, access: Access) -> Router {
    let client = Client::new(bed.ports.clone(), Arc::new(stepwell::Registry::new()));
    let api = Api { client, access, site: Site::default() };
    let page = get(async |caller: Caller| format!("hello {}", caller.name()));
    Router::new().route("/runs", page.clone()).route("/runs/{run}", page).layer(pages_guard(&api))
}

async fn page(pages: &Router, request: Request<Body>) -> (u16, String, Response<()>) {
    let (parts, body) = pages.clone().oneshot(request).await.unwrap().into_parts();
    let text = to_bytes(body, usize::MAX).await.unwrap();
    let text = String::from_utf8(text.to_vec()).unwrap();
    (parts.status.as_u16(), text, Response::from_parts(parts, ()))
}

#[tokio::test(start_paused = true)]
async fn pages_send_strangers_to_the_login_and_let_others_in() {
    let bed = bed();
    let keys = [("ann", "viewer@desk", "ann's key"), ("fay", "finance", "fay's key")];
    let pages = pages(&bed, access(&keys));
    let run = bed_run(&bed).await;
    let get = |path: &str| Request::get(path.to_owned()).header("host", HOST);
    let (status, _, stranger) = page(&pages, get("/runs?status=parked").body(Body::empty()).unwrap()).await;
    assert_eq!(
        (status, stranger.headers()["location"].to_str().unwrap()),
        (303, "/login?next=/runs%3Fstatus%3Dparked")
    );
    let policy = stranger.headers()["content-security-policy"].to_str().unwrap();
    for needed in
        ["default-src 'none'", "script-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'"]
    {
        assert!(policy.contains(needed) && !policy.contains("unsafe"), "{policy}");
    }
    let (status, text, _) =
        page(&pages, get(&format!("/runs/{run}")).header("x-api-key", "ann's key").body(Body::empty()).unwrap()).await;
    assert_eq!((status, text.as_str()), (200, "hello key:ann"));
    let (status, text, _) =
        page(&pages, get("/runs/nowhere").header("x-api-key", "ann's key").body(Body::empty()).unwrap()).await;
    assert!(status == 404 && text.contains("<html"), "{status} {text}");
    let (status, text, _) =
        page(&pages, get("/runs").header("x-api-key", "fay's key").body(Body::empty()).unwrap()).await;
    assert!(status == 403 && text.contains("<html"), "{status} {text}");
}

async fn bed_run(bed: &Bed) -> String {
    let started = bed.post_as("ann's key", "/v1/runs", &start("?", 1)).await;
    assert_eq!(started.status, StatusCode::CREATED, "{started:?}");
    started.body["run"].as_str().unwrap().to_owned()
}

/// A front asks its host under another name; pages are of the name that people know.
#[tokio::test]
async fn behind_a_front_pages_are_of_the_address_that_is_set() {
    let bed = bed();
    let site = Site { base_url: Some("https://runs.example.com/".into()), ..Site::default() };
    let client = Client::new(bed.ports.clone(), Arc::new(stepwell::Registry::new()));
    let api = Api { client, access: access(&[("ann", "operator", "ann's key")]), site };
    let router = stepwell_http::router(api);
    let answered = async |origin: &str| {
        let request = login("lambda.example.net", Some(origin), "ann's key");
        router.clone().oneshot(request).await.unwrap().status()
    };
    assert_eq!(answered("https://runs.example.com").await, StatusCode::NO_CONTENT);
    assert_eq!(answered("https://lambda.example.net").await, StatusCode::NO_CONTENT, "without the front");
    for other in ["https://evil.example", "http://runs.example.com", "https://runs.example.com.evil.example", "null"] {
        assert_eq!(answered(other).await, StatusCode::FORBIDDEN, "{other}");
    }
}
