//! What the program shows of runs as JSON, and what the API answers: the same, byte for byte.

#![allow(clippy::unwrap_used, reason = "a surprise in a test should stop it")]

mod common;

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use common::{Stepwell, park, with_local};
use stepwell::Registry;
use stepwell_core::{
    Amounts, Class, Digest, EffectKey, EffectRecord, Failure, FailureKind, Json, Outcome, ParkReason, Payload, RunId,
    Scope, Timestamp, WorkflowName,
};
use stepwell_engine::{Client, Ports};
use stepwell_http::{Access, Api, Site};
use stepwell_ports::system::{SystemClock, SystemIds};
use tower::ServiceExt as _;

const KEY: &str = "a key of many letters";

#[test]
fn the_program_and_the_api_show_a_run_in_the_same_words() {
    let stepwell = Stepwell::new();
    let start = || stepwell.start(&["hello", "--input", r#"{"name": "Ada"}"#]);
    let (created, cancelling, parked) = (start(), start(), start());
    stepwell.json(&["cancel", &cancelling, "--why", "not needed"]);
    let null = || Payload::Inline(Json::of(&()).unwrap());
    let failure = || Failure::new(FailureKind::Error, "no such card").with_code("card");
    let unknown = || Outcome::Unknown { since: Timestamp(1_700_000_000_123), evidence: "no answer".into() };
    let effects = vec![
        effect(&parked, "mail", Class::Idempotent(Some(9_000)), Outcome::Succeeded(null())),
        effect(&parked, "pay", Class::Once, unknown()),
        effect(&parked, "refund", Class::Reconcilable, Outcome::Failed(failure())),
    ];
    let reason = ParkReason::UnknownOutcome { what: "effect pay may have happened".into() };
    park(&stepwell, &parked, reason, effects, Vec::new());

    for run in [&created, &cancelling, &parked] {
        // The entity tag begins with the revision.
        let (tag, shown) = answer(&stepwell, &format!("/v1/runs/{run}"));
        let revision = tag.trim_start_matches('"').split('.').next().unwrap();
        assert_eq!(shown.matches(&format!(r#""revision":{revision},"#)).count(), 1, "{shown}");
        assert_eq!(told(&stepwell, &["show", run]), shown);
    }
    assert_eq!(told(&stepwell, &["list", "--limit", "2"]), answered(&stepwell, "/v1/runs?limit=2"));
    let (told_open, open) = (told(&stepwell, &["unknowns"]), answered(&stepwell, "/v1/unknowns"));
    assert!(told_open.contains("no answer"), "{told_open}");
    assert_eq!(format!(r#"{{"unknowns":{told_open},"next":null}}"#), open);
}

/// An effect of a run; its last call is long over.
fn effect(run: &str, name: &str, class: Class, outcome: Outcome) -> EffectRecord {
    let (run, workflow) = (RunId::new(run).unwrap(), WorkflowName::new("hello").unwrap());
    EffectRecord {
        key: EffectKey::derive(&run, &workflow, name, Scope::Run("order-7")),
        name: name.into(),
        class,
        parameters: None,
        attempts: 1,
        outcome,
        until: Some(Timestamp(1_700_000_020_000)),
        of_run: true,
        approval: None,
        costs: Amounts::new(),
        undo: None,
        no_return: false,
        signed_off: None,
    }
}

fn told(stepwell: &Stepwell, args: &[&str]) -> String {
    let ran = stepwell.run(&[args, &["--json"]].concat());
    assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
    ran.stdout.trim_end().to_owned()
}

fn answered(stepwell: &Stepwell, path: &str) -> String {
    answer(stepwell, path).1
}

/// The entity tag, and the body.
fn answer(stepwell: &Stepwell, path: &str) -> (String, String) {
    with_local(stepwell, async |local| {
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
        let ports = Ports { store: local.store(), queue: local.queue(), blobs: local.blobs(), clock, ids };
        let access = Access::from_text(&format!("ann:viewer={}", Digest::of(KEY.as_bytes()))).unwrap();
        let client = Client::new(ports, Arc::new(Registry::new()));
        let app = stepwell_http::router(Api { client, access, site: Site::default() });
        let request = Request::get(path).header("x-api-key", KEY).body(Body::empty()).unwrap();
        let response = app.oneshot(request).await.unwrap();
        assert!(response.status().is_success(), "{path}: {}", response.status());
        let tag = response.headers().get("etag").map(|tag| tag.to_str().unwrap().to_owned()).unwrap_or_default();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (tag, String::from_utf8(body.into()).unwrap())
    })
}
