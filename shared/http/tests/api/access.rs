//! Nobody comes in who is not known.

use axum::body::Body;
use axum::http::{Method, Request};
use stepwell_http::{Access, Actor};

use crate::bed::{Bed, KEY, start};

/// Every route that is not open to all, and one that does not exist.
const ROUTES: [(Method, &str); 14] = [
    (Method::POST, "/v1/runs"),
    (Method::GET, "/v1/runs"),
    (Method::GET, "/v1/runs/RUN"),
    (Method::GET, "/v1/runs/RUN/history"),
    (Method::POST, "/v1/runs/RUN/signals"),
    (Method::POST, "/v1/runs/RUN/cancel"),
    (Method::POST, "/v1/runs/RUN/resume"),
    (Method::POST, "/v1/runs/RUN/effects/00112233445566778899aabbccddeeff/resolve"),
    (Method::POST, "/v1/runs/RUN/let-stand"),
    (Method::GET, "/v1/runs/RUN/approvals"),
    (Method::POST, "/v1/runs/RUN/approvals/0011223344556677"),
    (Method::GET, "/v1/approvals"),
    (Method::GET, "/v1/unknowns"),
    (Method::DELETE, "/v2/anything"),
];

/// A body that each of the routes might take.
fn body(path: &str) -> String {
    match path.rsplit('/').next() {
        Some("runs") => start("?", 1).to_string(),
        Some("signals") => r#"{"name": "answer", "payload": "yes"}"#.into(),
        Some("0011223344556677") => r#"{"decision": "approve"}"#.into(),
        Some("let-stand") => r#"{"why": "it was taken back by hand"}"#.into(),
        Some("resolve") => r#"{"resolution": "try-again", "why": "the bank says so"}"#.into(),
        _ => "{}".into(),
    }
}

#[test]
fn the_list_of_routes_is_whole() {
    let source = include_str!("../../src/lib.rs").split("pub fn router").nth(1).unwrap();
    let methods = source.matches("get(").count() + source.matches("post(").count();
    assert_eq!(methods - 1, ROUTES.len() - 1, "all but health, and all but the one that does not exist");
}

#[tokio::test(start_paused = true)]
async fn each_route_turns_away_whom_it_does_not_know_in_the_same_words() {
    for access in ["", "keys"] {
        let bed = if access.is_empty() { Bed::with(Access::none()) } else { Bed::new() };
        let before = bed.all().await;
        let mut answers = Vec::new();
        for (method, path) in ROUTES {
            let own = |keys: &[&[u8]]| {
                let mut request = Request::builder().method(&method).uri(path.replace("RUN", "r1"));
                for key in keys {
                    request = request.header("x-api-key", *key);
                }
                request.header("content-type", "application/json").body(Body::from(body(path))).unwrap()
            };
            let digest = stepwell_core::Digest::of(KEY.as_bytes()).to_string();
            let prefix = &KEY.as_bytes()[..KEY.len() - 1];
            let long = vec![b'k'; 100_000];
            let shown: [&[&[u8]]; 8] = [
                &[],
                &[b""],
                &[b"a wrong key"],
                &[digest.as_bytes()],
                &[prefix],
                &[&[0xff, 0xfe]],
                &[&long],
                &[KEY.as_bytes(), KEY.as_bytes()],
            ];
            for keys in shown {
                let answer = bed.send(own(keys)).await;
                answer.is_problem(401, "unauthenticated");
                assert!(answer.headers.contains_key("www-authenticate"));
                answers.push(answer.body);
            }
            for name in [" key:ann", "key:ann\u{a0}"] {
                let mut twin = own(&[]);
                twin.extensions_mut().insert(Actor { name: name.into(), roles: vec!["finance".into()] });
                let answer = bed.send(twin).await;
                answer.is_problem(401, "unauthenticated");
                answers.push(answer.body);
            }
            let mut nobody = own(&[]);
            nobody.extensions_mut().insert(Actor { name: String::new(), roles: vec!["finance".into()] });
            bed.send(nobody).await.is_problem(401, "unauthenticated");
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!((bed.gate.total(), bed.all().await), (0, before));
    }
}

#[tokio::test(start_paused = true)]
async fn each_route_lets_in_whom_it_knows() {
    let bed = Bed::new();
    let path = bed.waiting().await;
    for (method, route) in ROUTES {
        let request =
            Request::builder().method(method).uri(route.replace("/v1/runs/RUN", &path)).header("x-api-key", KEY);
        let request = request.header("content-type", "application/json").body(Body::from(body(route))).unwrap();
        let answer = bed.send(request).await;
        assert_ne!(answer.status.as_u16(), 401, "{route}");
        assert!(answer.status.is_success() || matches!(answer.status.as_u16(), 404 | 409), "{answer:?}");
    }
}
