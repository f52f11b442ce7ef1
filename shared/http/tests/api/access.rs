//! Nobody comes in who is not known, and what is shown leaks nowhere.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::json;
use stepwell_core::link::LinkKeys;
use stepwell_core::{Digest, Timestamp};
use stepwell_http::{Access, Actor, Limits, Needs, Peer, ROUTES, Rate};
use stepwell_testkit::VirtualClock;

use crate::bed::{Bed, KEY, start};

/// Every route that is not open to all, and one that does not exist.
fn routes() -> Vec<(Method, String)> {
    let known = ROUTES.iter().filter(|(.., needs)| matches!(needs, Needs::May(_)));
    let path = |pattern: &str| {
        let path = pattern.replace("{run}", "RUN").replace("{id}", "0011223344556677");
        path.replace("{key}", "00112233445566778899aabbccddeeff")
    };
    let mut routes: Vec<_> = known.map(|(method, pattern, _)| (method.parse().unwrap(), path(pattern))).collect();
    routes.push((Method::DELETE, "/v2/anything".into()));
    routes
}

#[tokio::test(start_paused = true)]
async fn each_route_turns_away_whom_it_does_not_know_in_the_same_words() {
    for access in ["", "keys"] {
        let keys = format!("ann:admin={}", Digest::of(KEY.as_bytes()));
        let access = if access.is_empty() { Access::none() } else { Access::from_text(&keys).unwrap() };
        let bed = Bed::with(access.with_limits(Limits::none()));
        let before = bed.all().await;
        let mut answers = Vec::new();
        for (method, path) in routes() {
            let own = |headers: &[(&str, &[u8])]| {
                let mut request = Request::builder().method(&method).uri(path.replace("RUN", "r1"));
                for (name, value) in headers {
                    request = request.header(*name, *value);
                }
                request.header("content-type", "application/json").body(Body::from("{}")).unwrap()
            };
            let digest = Digest::of(KEY.as_bytes()).to_string();
            let prefix = &KEY.as_bytes()[..KEY.len() - 1];
            let long = vec![b'k'; 100_000];
            let bearer = format!("Bearer {KEY}");
            let shown: [&[(&str, &[u8])]; 16] = [
                &[],
                &[("x-api-key", b"")],
                &[("x-api-key", b"a wrong key")],
                &[("x-api-key", digest.as_bytes())],
                &[("x-api-key", prefix)],
                &[("x-api-key", &[0xff, 0xfe])],
                &[("x-api-key", &long)],
                &[("x-api-key", KEY.as_bytes()), ("x-api-key", KEY.as_bytes())],
                // One that is good does not help one that may be somebody else's.
                &[("x-api-key", KEY.as_bytes()), ("authorization", b"Bearer x.y.z")],
                &[("x-api-key", KEY.as_bytes()), ("cookie", b"__Host-stepwell=x")],
                &[("authorization", bearer.as_bytes())],
                &[("authorization", b"Bearer ")],
                &[("authorization", b"Basic YW5uOmE=")],
                &[("authorization", b"AWS4-HMAC-SHA256 Credential=x")],
                &[("cookie", b"__Host-stepwell=x.y.z; stepwell=x.y.z")],
                &[("authorization", &[0xff, 0xfe])],
            ];
            for headers in shown {
                let answer = bed.send(own(headers)).await;
                answer.is_problem(401, "unauthenticated");
                assert!(answer.headers.contains_key("www-authenticate"));
                answers.push(answer.body);
            }
            for name in [" key:ann", "key:ann\u{a0}", ""] {
                let mut twin = own(&[]);
                twin.extensions_mut().insert(Actor { name: name.into(), roles: vec!["admin".into()] });
                let answer = bed.send(twin).await;
                answer.is_problem(401, "unauthenticated");
                answers.push(answer.body);
            }
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!((bed.gate.total(), bed.all().await), (0, before));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_is_changed_without_a_gap() {
    let keys = |keys: &[&str]| {
        let keys: Vec<String> = keys.iter().map(|key| format!("ann:admin={}", Digest::of(key.as_bytes()))).collect();
        Bed::with(Access::from_text(&keys.join(",")).unwrap())
    };
    let body = json!({"why": "enough"});
    let both = keys(&["old", "new", KEY]);
    let path = both.waiting().await;
    for key in ["old", "new"] {
        assert_eq!(both.post_as(key, &format!("{path}/cancel"), &body).await.status, 200, "{key}");
    }
    let after = keys(&["new"]);
    after.post_as("old", "/v1/runs", &start("?", 1)).await.is_problem(401, "unauthenticated");
    assert_eq!(after.post_as("new", "/v1/runs", &start("?", 1)).await.status, 201);
}

fn clock() -> Arc<VirtualClock> {
    Arc::new(VirtualClock::starting_at(Timestamp(4_444_444 * 900_000)))
}

fn rate(burst: u32, seconds: u64) -> Rate {
    Rate { burst: NonZeroU32::new(burst).unwrap(), one_more_every: Duration::from_secs(seconds) }
}

#[tokio::test(start_paused = true)]
async fn each_caller_has_a_measure_of_its_own() {
    let keys = format!("ann:admin={},bob:viewer={}", Digest::of(KEY.as_bytes()), Digest::of(b"bob"));
    let limits = Limits { calls: Some(rate(3, 10)), ..Limits::none() };
    let bed = Bed::with(Access::from_text(&keys).unwrap().with_clock(clock()).with_limits(limits));
    for _ in 0..3 {
        assert_eq!(bed.get("/v1/runs").await.status, 200);
    }
    let before = bed.gate.total();
    let answer = bed.get("/v1/runs").await;
    answer.is_problem(429, "too-many");
    let after: u64 = answer.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((9..=11).contains(&after), "{after}");
    assert_eq!(bed.gate.total(), before);
    let bob = Request::get("/v1/runs").header("x-api-key", "bob").body(Body::empty()).unwrap();
    assert_eq!(bed.send(bob).await.status, 200);
    tokio::time::advance(Duration::from_secs(after)).await;
    assert_eq!(bed.get("/v1/runs").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn whoever_guesses_at_keys_is_not_listened_to_for_a_while() {
    let keys = format!("ann:admin={}", Digest::of(KEY.as_bytes()));
    let limits = Limits { failures: Some(rate(3, 10)), ..Limits::none() };
    let bed = Bed::with(Access::from_text(&keys).unwrap().with_clock(clock()).with_limits(limits));
    let ask = |key: &str, from: &str| {
        let request = Request::get("/v1/runs").header("x-api-key", key).extension(Peer(from.into()));
        bed.send(request.body(Body::empty()).unwrap())
    };
    for _ in 0..3 {
        ask("wrong", "203.0.113.7").await.is_problem(401, "unauthenticated");
    }
    ask("wrong", "203.0.113.7").await.is_problem(429, "too-many");
    // Not even what is right tells it apart now.
    ask(KEY, "203.0.113.7").await.is_problem(429, "too-many");
    assert_eq!(ask(KEY, "203.0.113.8").await.status, 200);
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(ask(KEY, "203.0.113.7").await.status, 200);
    // Where nobody knows who asks, whoever is right comes in all the same.
    let nowhere = |key: &str| bed.send(Request::get("/v1/runs").header("x-api-key", key).body(Body::empty()).unwrap());
    for _ in 0..3 {
        nowhere("wrong").await.is_problem(401, "unauthenticated");
    }
    nowhere("wrong").await.is_problem(429, "too-many");
    assert_eq!(nowhere(KEY).await.status, 200);
}

fn local() -> Bed {
    Bed::with(Access::local(Actor::named("local:ann").with_role("admin"), 8080))
}

fn to(host: &str, method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header("host", host)
}

#[tokio::test(start_paused = true)]
async fn on_its_own_machine_it_answers_to_that_name_alone() {
    let bed = local();
    for host in ["localhost:8080", "LOCALHOST:8080", "127.0.0.1:8080", "[::1]:8080"] {
        assert_eq!(
            bed.send(to(host, Method::GET, "/v1/runs").body(Body::empty()).unwrap()).await.status,
            200,
            "{host}"
        );
    }
    let hosts = [
        "evil.example:8080",
        "localhost",
        "localhost:80",
        "localhost:80800",
        "localhost.evil.example:8080",
        "127.0.0.2:8080",
        "",
    ];
    for host in hosts {
        for path in ["/v1/runs", "/v1/health", "/links/x", "/nowhere"] {
            let answer = bed.send(to(host, Method::GET, path).body(Body::empty()).unwrap()).await;
            answer.is_problem(403, "wrong-host");
        }
    }
    let two = to("localhost:8080", Method::GET, "/v1/runs").header("host", "evil.example:8080");
    bed.send(two.body(Body::empty()).unwrap()).await.is_problem(403, "wrong-host");
    let none = Request::get("/v1/runs").body(Body::empty()).unwrap();
    bed.send(none).await.is_problem(403, "wrong-host");
    let whole = to("localhost:8080", Method::GET, "http://evil.example:8080/v1/runs").body(Body::empty()).unwrap();
    bed.send(whole).await.is_problem(403, "wrong-host");
    // A session that began at another port of this machine: browsers send its cookie along.
    let foreign = to("localhost:8080", Method::GET, "/v1/runs").header("cookie", "stepwell=of-another-program");
    assert_eq!(bed.respond(foreign.body(Body::empty()).unwrap()).await.status(), 200);
    let shown = to("localhost:8080", Method::GET, "/v1/runs").header("x-api-key", "a guess");
    bed.send(shown.body(Body::empty()).unwrap()).await.is_problem(401, "unauthenticated");
}

#[tokio::test(start_paused = true)]
async fn no_page_of_another_site_can_make_a_request_there() {
    let bed = local();
    let post = |headers: &[(&str, &str)]| {
        let mut request = to("localhost:8080", Method::POST, "/v1/runs").header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        bed.send(request.body(Body::from(start("?", 1).to_string())).unwrap())
    };
    let before = bed.all().await;
    let foreign: [&[(&str, &str)]; 8] = [
        &[("origin", "https://evil.example")],
        &[("origin", "null")],
        &[("origin", "http://localhost:3000")],
        &[("origin", "http://localhost:8080.evil.example")],
        &[("sec-fetch-site", "cross-site")],
        &[("sec-fetch-site", "same-site")],
        &[("origin", "http://localhost:8080"), ("sec-fetch-site", "cross-site")],
        &[("origin", "http://localhost:8080"), ("origin", "https://evil.example")],
    ];
    for headers in foreign {
        post(headers).await.is_problem(403, "wrong-origin");
    }
    assert_eq!(bed.all().await, before);
    let own: [&[(&str, &str)]; 3] = [
        &[],
        &[("origin", "http://localhost:8080"), ("sec-fetch-site", "same-origin")],
        &[("sec-fetch-site", "same-origin")],
    ];
    for headers in own {
        assert_eq!(post(headers).await.status, 201, "{headers:?}");
    }
    // A form of another site cannot say that it is JSON.
    let form = to("localhost:8080", Method::POST, "/v1/runs").header("content-type", "text/plain");
    let form = form.body(Body::from(start("?", 1).to_string())).unwrap();
    bed.send(form).await.is_problem(415, "wrong-type");
}

#[test]
fn nothing_that_opens_anything_is_shown() {
    let (key, signing) = ("s3cret-key", "5ec4e7".repeat(12));
    let text = format!("ann:admin={}", Digest::of(key.as_bytes()));
    let access =
        Access::from_text(&text).unwrap().with_link_keys(LinkKeys::from_text(&format!("k1={signing}")).unwrap());
    let shown = format!("{access:?}");
    assert!(shown.contains("ann") && shown.contains("k1"), "{shown}");
    for secret in [key, &signing, &Digest::of(key.as_bytes()).to_string()] {
        assert!(!shown.contains(&secret[..10]), "{shown}");
    }
}
