//! Every route with every role and none, held against the one table.

use std::collections::BTreeSet;

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request};
use serde_json::{Value, json};
use stepwell_http::{Actor, BuiltIn, Needs, Permission, ROUTES, permissions_table};

use crate::bed::{Bed, request, start};

const APPROVAL: &str = "0011223344556677";
const EFFECT: &str = "00112233445566778899aabbccddeeff";

/// The routes that need a permission.
fn guarded() -> impl Iterator<Item = (Method, &'static str, Permission)> {
    ROUTES.iter().filter_map(|(method, pattern, needs)| match needs {
        Needs::May(permission) => Some((method.parse().unwrap(), *pattern, *permission)),
        Needs::Nothing | Needs::Token | Needs::Login => None,
    })
}

/// A request that each of the routes might take.
fn ask(method: &Method, pattern: &str, run: &str, actor: Option<Actor>) -> Request<Body> {
    let path = pattern.replace("{run}", run).replace("{id}", APPROVAL).replace("{key}", EFFECT);
    let path = if path.ends_with("/state") { format!("{path}?at=0") } else { path };
    let body = match pattern.rsplit('/').next().unwrap() {
        "runs" => start("?", 1),
        "signals" => json!({"name": "answer", "payload": "yes"}),
        "{id}" => json!({"decision": "approve"}),
        "links" => json!({"for": "bea@example.org"}),
        "let-stand" | "discard" => json!({"why": "it was done by hand"}),
        "resolve" => json!({"resolution": "try-again", "why": "the bank says so"}),
        "edit" => json!({"why": "a slip", "patch": []}),
        "move" => json!({"why": "a slip", "to": "Ask"}),
        _ => json!({}),
    };
    let mut request = Request::builder().method(method).uri(path).header("if-match", "\"1\"");
    if let Some(actor) = actor {
        request = request.extension(actor);
    }
    if method == Method::POST {
        request = request.header("content-type", "application/json");
    }
    request.body(Body::from(if method == Method::GET { String::new() } else { body.to_string() })).unwrap()
}

/// Its status and its code, if it is a problem.
async fn answer(bed: &Bed, request: Request<Body>) -> (u16, String) {
    let response = bed.respond(request).await;
    let status = response.status().as_u16();
    // A stream of events never ends.
    if status < 400 {
        return (status, String::new());
    }
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

fn as_role(role: &str) -> Actor {
    Actor::named("somebody").with_role(role)
}

#[tokio::test(start_paused = true)]
async fn each_route_lets_in_the_roles_that_the_table_says_and_no_other() {
    let (mut allowed, mut refused) = (0, 0);
    for (method, pattern, permission) in guarded() {
        for role in BuiltIn::ALL {
            let bed = Bed::new();
            let run = run_of(&bed).await;
            let before = bed.all().await;
            let (status, code) = answer(&bed, ask(&method, pattern, &run, Some(as_role(role.as_str())))).await;
            let at = format!("{method} {pattern} as {}: {status} {code}", role.as_str());
            if role.allows(permission) {
                assert!(
                    !matches!(code.as_str(), "no-permission" | "unauthenticated" | "no-such-route" | "wrong-method"),
                    "{at}"
                );
                assert!(status < 500, "{at}");
                allowed += 1;
            } else {
                assert_eq!((status, code.as_str()), (403, "no-permission"), "{at}");
                assert_eq!(bed.all().await, before, "{at}");
                refused += 1;
            }
        }
    }
    assert!(allowed > 60 && refused > 20 && allowed + refused == guarded().count() * 4, "{allowed} {refused}");
}

#[tokio::test(start_paused = true)]
async fn nobody_and_whoever_has_other_roles_alone_gets_nowhere() {
    let bed = Bed::new();
    let run = run_of(&bed).await;
    let (before, asked) = (bed.all().await, bed.gate.total());
    for (method, pattern, _) in guarded() {
        let nobody = answer(&bed, ask(&method, pattern, &run, None)).await;
        assert_eq!(nobody, (401, "unauthenticated".into()), "{method} {pattern}");
        for roles in [vec![], vec!["finance"], vec!["Admin", "administrator", "admin@"], vec!["finance@desk"]] {
            let actor = roles.iter().fold(Actor::named("fay"), |actor, role| actor.with_role(*role));
            let other = answer(&bed, ask(&method, pattern, &run, Some(actor))).await;
            assert_eq!(other, (403, "no-permission".into()), "{method} {pattern} {roles:?}");
        }
    }
    assert_eq!(bed.all().await, before);
    assert_eq!(bed.gate.total(), asked, "nothing was looked at");
}

#[tokio::test(start_paused = true)]
async fn a_role_of_one_workflow_is_good_for_its_runs_alone() {
    for (method, pattern, permission) in guarded().filter(|(_, pattern, _)| pattern.contains("{run}")) {
        let role = match permission {
            Permission::Look => "viewer",
            Permission::Operate | Permission::Repair => "operator",
            Permission::Link => "admin",
            Permission::Answer => "approver",
        };
        let bed = Bed::new();
        let run = run_of(&bed).await;
        let before = bed.all().await;
        let ask = |run: &str, role: &str| ask(&method, pattern, run, Some(as_role(role)));
        let at = format!("{method} {pattern} as {role}");
        // Of another workflow: as if there were no such run.
        let other = answer(&bed, ask(&run, &format!("{role}@till"))).await;
        assert_eq!(other, (404, "no-such-run".into()), "{at}");
        assert_eq!(answer(&bed, ask("nowhere", &format!("{role}@till"))).await, other, "{at}");
        // Of this one, but with a lesser role.
        if permission != Permission::Look {
            assert_eq!(answer(&bed, ask(&run, "viewer@desk")).await, (403, "no-permission".into()), "{at}");
        }
        assert_eq!(bed.all().await, before, "{at}");
        let (status, code) = answer(&bed, ask(&run, &format!("{role}@desk"))).await;
        assert!(!matches!(code.as_str(), "no-permission" | "no-such-run" | "unauthenticated"), "{at}: {status} {code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_of_one_workflow_starts_and_lists_that_alone() {
    let bed = Bed::new();
    run_of(&bed).await;
    let method = Method::POST;
    let own = answer(&bed, ask(&method, "/v1/runs", "", Some(as_role("operator@desk")))).await;
    assert_eq!(own.0, 201, "{own:?}");
    let before = bed.all().await;
    let other = answer(&bed, ask(&method, "/v1/runs", "", Some(as_role("operator@till")))).await;
    assert!(matches!(other.0, 403 | 404 | 422), "{other:?}");
    assert_eq!(bed.all().await, before);
    let list = |role: &str| {
        let request = Request::get("/v1/runs?workflow=desk").extension(as_role(role));
        bed.respond(request.body(Body::empty()).unwrap())
    };
    let seen = to_bytes(list("viewer@desk").await.into_body(), usize::MAX).await.unwrap();
    assert!(String::from_utf8_lossy(&seen).contains("desk"), "{seen:?}");
    let seen = to_bytes(list("viewer@till").await.into_body(), usize::MAX).await.unwrap();
    assert!(!String::from_utf8_lossy(&seen).contains("\"run\""), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn the_table_and_the_router_have_the_same_routes() {
    let bed = Bed::new();
    let document = bed.get("/v1/openapi.json").await.body;
    let described = document["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().keys().map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    let table = ROUTES.iter().map(|(method, pattern, _)| format!("{method} {pattern}"));
    // Pages of links are for people, and stand in no description.
    let table: BTreeSet<String> = table.filter(|route| !route.contains("/links/")).collect();
    assert_eq!(described.collect::<BTreeSet<_>>(), table);
    let patterns: BTreeSet<(&str, &str)> = ROUTES.iter().map(|(method, pattern, _)| (*method, *pattern)).collect();
    assert_eq!(patterns.len(), ROUTES.len(), "each stands there once");
}

#[tokio::test(start_paused = true)]
async fn other_methods_and_paths_are_closed_to_everybody() {
    let bed = Bed::new();
    let patterns: BTreeSet<&str> = ROUTES.iter().map(|(_, pattern, _)| *pattern).collect();
    for pattern in patterns {
        let path =
            pattern.replace("{run}", "r1").replace("{id}", APPROVAL).replace("{key}", EFFECT).replace("{token}", "x");
        let known: BTreeSet<&str> =
            ROUTES.iter().filter(|(_, own, _)| *own == pattern).map(|(method, ..)| *method).collect();
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE"] {
            if known.contains(method) {
                continue;
            }
            let request = request(method.parse().unwrap(), &path).header("content-type", "application/json");
            let response = bed.respond(request.body(Body::from("{}")).unwrap()).await;
            assert_eq!(response.status(), 405, "{method} {pattern}");
            let allowed: BTreeSet<&str> =
                response.headers()["allow"].to_str().unwrap().split(',').filter(|m| *m != "HEAD").collect();
            assert_eq!(allowed, known, "{method} {pattern}");
        }
    }
    for path in
        ["/", "/v1", "/v1/", "/v1/keys", "/v1/runs/", "/v2/runs", "/v1/runs/r1/x", "/links", "/links/", "/links/a/b"]
    {
        bed.get(path).await.is_problem(404, "no-such-route");
    }
}

#[test]
fn the_docs_show_the_table() {
    let docs = include_str!("../../PERMISSIONS.md");
    let shown = docs.split_once("<!-- table -->\n").unwrap().1.split_once("<!-- end -->").unwrap().0;
    let right = permissions_table();
    assert!(shown == right, "write this into shared/http/PERMISSIONS.md:\n{right}");
}

async fn run_of(bed: &Bed) -> String {
    bed.waiting().await.rsplit('/').next().unwrap().to_owned()
}
