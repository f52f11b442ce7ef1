//! What each route does when all is well.

use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::json;
use stepwell_core::Digest;
use stepwell_http::{Access, Actor};

use crate::bed::{ACTOR, Bed, KEY, id_of, request, start};
use crate::cashier::asking;

async fn start_with_key(bed: &Bed, key: &str, body: String) -> crate::bed::Answer {
    let request = request(Method::POST, "/v1/runs").header("content-type", "application/json; charset=UTF-8");
    bed.send(request.header("idempotency-key", key).body(Body::from(body)).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn a_key_starts_one_run() {
    let bed = Bed::new();
    let first = start_with_key(&bed, "q3", start("?", 1).to_string()).await;
    assert_eq!(first.status, StatusCode::CREATED);
    let run = first.body["run"].as_str().unwrap();
    assert_eq!(first.body, json!({"run": run, "new": true, "workflow": "desk"}));
    assert_eq!(first.headers["location"], format!("/v1/runs/{run}"));
    let second = start_with_key(&bed, "q3", start("?", 1).to_string()).await;
    assert_eq!(second.status, StatusCode::OK);
    assert_eq!(second.body, json!({"run": run, "new": false, "workflow": "desk"}));
    assert_eq!(second.headers["location"], first.headers["location"]);
    let before = bed.all().await;
    start_with_key(&bed, "q3", start("!", 1).to_string()).await.is_problem(409, "key-conflict");
    assert_eq!(bed.all().await, before);
    let longest = start_with_key(&bed, &"k".repeat(255), start("?", 1).to_string()).await;
    assert_eq!((longest.status, bed.started().await), (StatusCode::CREATED, 2));
}

#[tokio::test(start_paused = true)]
async fn without_a_key_each_start_is_a_run() {
    let bed = Bed::new();
    let (first, second) = (bed.waiting().await, bed.waiting().await);
    assert_ne!(first, second);
    assert_eq!(bed.started().await, 2);
}

#[tokio::test(start_paused = true)]
async fn lists_go_page_by_page_and_by_status() {
    let bed = Bed::new();
    let mut paths = vec![bed.answered("yes").await, bed.waiting().await, bed.waiting().await];
    paths.reverse();
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = bed.get(&format!("/v1/runs?limit=1&workflow=desk{after}")).await;
        assert_eq!(page.status, StatusCode::OK, "{page:?}");
        let runs = page.body["runs"].as_array().unwrap();
        assert!(runs.len() <= 1);
        seen.extend(runs.iter().map(|run| format!("/v1/runs/{}", run["run"].as_str().unwrap())));
        match page.body["next"].as_str() {
            Some(next) => after = format!("&after={}", next.replace('%', "%25").replace('|', "%7C")),
            None => break,
        }
    }
    assert_eq!(seen, paths);
    let completed = bed.get("/v1/runs?status=completed").await;
    assert_eq!(completed.body["runs"].as_array().unwrap().len(), 1);
    assert_eq!(completed.body["runs"][0]["status"], "completed");
    assert_eq!(completed.body["runs"][0]["started_at"], "2096-10-02T07:00:00.000Z");
    assert_eq!(bed.get("/v1/runs?workflow=other").await.body, json!({"runs": [], "next": null}));
}

#[tokio::test(start_paused = true)]
async fn lists_are_of_the_time_that_is_asked_for() {
    let bed = Bed::new();
    let first = id_of(&bed.waiting().await);
    tokio::time::advance(core::time::Duration::from_mins(1)).await;
    let second = id_of(&bed.waiting().await);
    let runs = bed.get("/v1/runs").await.body["runs"].take();
    let (late, early) = (runs[0]["started_at"].as_str().unwrap(), runs[1]["started_at"].as_str().unwrap());
    let east = late.replace("T08:", "T10:").replace('Z', "%2B02:00");
    let west = late.replace("T08:", "t06:").replace('Z', "-02:00");
    assert_ne!(late, west);
    for (query, expected) in [
        (format!("from={early}"), vec![&second, &first]),
        (format!("from={late}"), vec![&second]),
        (format!("from={east}"), vec![&second]),
        (format!("from={west}"), vec![&second]),
        (format!("before={late}"), vec![&first]),
        (format!("from={early}&before={late}"), vec![&first]),
        (format!("before={early}"), vec![]),
        ("from=0000-01-01T00:00:00Z".into(), vec![&second, &first]),
        ("before=1969-12-31T23:59:59.999999999z".into(), vec![]),
        ("from=9999-12-31T23:59:59Z".into(), vec![]),
    ] {
        let page = bed.get(&format!("/v1/runs?{query}")).await;
        let found: Vec<_> =
            page.body["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap()).collect();
        assert_eq!(found, expected.iter().map(|run| run.as_str()).collect::<Vec<_>>(), "{query}");
    }
}

/// Whoever may see the runs of some workflows is shown those alone, in every list.
#[tokio::test(start_paused = true)]
async fn lists_are_of_what_the_caller_may_see() {
    let of = |key: &str| Digest::of(key.as_bytes());
    let keys = format!("ann:admin={},one:viewer@till={}", of(KEY), of("one"));
    let keys = format!("{keys},two:viewer@desk+operator@till={}", of("two"));
    let bed = Bed::with(Access::from_text(&keys).unwrap());
    let desk = id_of(&bed.waiting().await);
    let till = id_of(&bed.unknown(&["ann"]).await);
    asking(&bed, "a note", 1).await;
    let list = async |key: &str, path: &str| {
        let request = axum::http::Request::get(path).header("x-api-key", key).body(Body::empty()).unwrap();
        let mut body = bed.send(request).await.body;
        let items = body.as_object_mut().unwrap().values_mut().find(|field| field.is_array()).unwrap().take();
        let names =
            items.as_array().unwrap().iter().map(|item| item.get("run").unwrap_or(item).as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let (desk, till) = (desk.to_string(), till.to_string());
    for (key, workflows, runs) in
        [("one", vec!["till"], vec![till.clone()]), ("two", vec!["desk", "till"], vec![till.clone(), desk.clone()])]
    {
        assert_eq!(list(key, "/v1/workflows").await, workflows);
        assert_eq!(list(key, "/v1/runs").await, runs);
        assert_eq!(list(key, "/v1/unknowns").await, std::slice::from_ref(&till));
        for hidden in ["/v1/approvals", "/v1/runs?workflow=cashier"] {
            assert_eq!(list(key, hidden).await, Vec::<String>::new(), "{hidden}");
        }
    }
    assert_eq!((list(KEY, "/v1/runs").await.len(), list(KEY, "/v1/approvals").await.len()), (3, 1));
    let before = bed.all().await;
    for workflow in ["desk", "cashier", "none"] {
        let refused = bed.post_as("two", "/v1/runs", &json!({"workflow": workflow, "input": null})).await;
        refused.is_problem(403, "no-permission");
    }
    assert_eq!(bed.all().await, before);
    let started = bed.post_as("two", "/v1/runs", &json!({"workflow": "till", "input": ["bob"]})).await;
    assert_eq!(started.status, StatusCode::CREATED, "{started:?}");
}

#[tokio::test(start_paused = true)]
async fn workflows_are_listed_by_name() {
    let bed = Bed::new();
    let listed = bed.get("/v1/workflows").await;
    assert_eq!((listed.status, listed.body), (StatusCode::OK, json!({"workflows": ["cashier", "desk", "till"]})));
    assert_eq!(bed.gate.total(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_is_shown_as_it_stands() {
    let bed = Bed::new();
    let path = bed.waiting().await;
    let shown = bed.get(&path).await;
    assert_eq!(shown.status, StatusCode::OK, "{shown:?}");
    assert_eq!(shown.body["run"], id_of(&path).as_str());
    assert_eq!(shown.body["status"], "waiting");
    assert_eq!(shown.body["detail"], json!({"waiting": {"signals": ["answer"], "until": null}}));
    assert_eq!(shown.body["state"], json!({"text": "?", "times": 1}));
    let sent = json!({"name": "answer", "payload": "yes", "id": "s1"});
    bed.post_json(&format!("{path}/signals"), &sent).await;
    let held = bed.get(&path).await.body;
    assert_eq!((&held["signals"][0]["id"], &held["signals"][0]["payload"]), (&json!("s1"), &json!("yes")));
    bed.settle().await;
    let done = bed.get(&path).await.body;
    assert_eq!((&done["status"], &done["signals"]), (&json!("completed"), &json!([])));
    assert_eq!(done["detail"], json!({"completed": {"output": "yes"}}));
}

#[tokio::test(start_paused = true)]
async fn a_large_output_is_read_and_a_huge_one_is_left_where_it_is() {
    let bed = Bed::new();
    for (answer, shown) in [("x".repeat(100_000), true), ("x".repeat(3_000_000), false)] {
        let path = bed.answered(&answer).await;
        let detail = bed.get(&path).await.body["detail"]["completed"]["output"].take();
        let expected = if shown { json!(answer) } else { json!({"stored_apart": 3_000_002}) };
        assert!(detail == expected, "{}", detail.to_string().len());
    }
}

#[tokio::test(start_paused = true)]
async fn failures_and_certificates_are_shown() {
    let bed = Bed::new();
    let failed = bed.answered("fail").await;
    let failure = json!({"kind": "terminal", "code": "closed", "message": "the desk is closed"});
    assert_eq!(bed.get(&failed).await.body["detail"], json!({"failed": failure}));
    let cancelled = bed.waiting().await;
    bed.post_json(&format!("{cancelled}/cancel"), &json!({})).await;
    bed.settle().await;
    let certificate = json!({
        "confirmed": 0, "failed": 0, "uncertain": [], "never_sent": [], "undone": [], "stands": [],
        "unfinished_step": "Answered",
    });
    assert_eq!(bed.get(&cancelled).await.body["detail"], json!({"cancelled": certificate}));
}

#[tokio::test(start_paused = true)]
async fn a_history_is_told_from_a_revision_on() {
    let bed = Bed::new();
    let path = bed.answered("yes").await;
    let whole = bed.get(&format!("{path}/history")).await;
    assert_eq!((whole.status, &whole.body["next"]), (StatusCode::OK, &json!(null)), "{whole:?}");
    let entries = whole.body["history"].as_array().unwrap();
    let steps: Vec<_> = entries.iter().map(|entry| entry["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["Ask", "Answered"]);
    let last = entries[1]["revision"].as_u64().unwrap();
    let rest = bed.get(&format!("{path}/history?from={last}")).await;
    assert_eq!(rest.body["history"], json!([entries[1]]));
    let beyond = bed.get(&format!("{path}/history?from={}", i64::MAX)).await;
    assert_eq!(beyond.body, json!({"run": id_of(&path).as_str(), "history": [], "next": null}));
}

#[tokio::test(start_paused = true)]
async fn a_signal_is_delivered_once() {
    let bed = Bed::new();
    let path = bed.waiting().await;
    let sent = json!({"name": "answer", "payload": "yes", "id": "s1"});
    let first = bed.post_json(&format!("{path}/signals"), &sent).await;
    let run = id_of(&path);
    assert_eq!(first.status, StatusCode::ACCEPTED);
    assert_eq!(first.body, json!({"run": run.as_str(), "signal": "answer", "id": "s1", "new": true}));
    let again = bed.post_json(&format!("{path}/signals"), &sent).await;
    assert_eq!((again.status, &again.body["new"]), (StatusCode::ACCEPTED, &json!(false)));
    let other = json!({"name": "answer", "payload": "no", "id": "s1"});
    bed.post_json(&format!("{path}/signals"), &other).await.is_problem(409, "signal-conflict");
    let unnamed = bed.post_json(&format!("{path}/signals"), &json!({"name": "answer", "payload": "no"})).await;
    assert!(unnamed.body["id"].as_str().is_some_and(|id| !id.is_empty()), "{unnamed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_says_who_has_asked_for_it() {
    let bed = Bed::new();
    let path = bed.waiting().await;
    let first = bed.post_json(&format!("{path}/cancel"), &json!({"why": "too late"})).await;
    assert_eq!(first.status, StatusCode::OK, "{first:?}");
    assert_eq!((&first.body["new"], &first.body["by"]), (&json!(true), &json!(ACTOR)));
    assert_eq!(bed.get(&path).await.body["status"], "cancelling");
    let second = bed.post_json(&format!("{path}/cancel"), &json!({"why": null})).await;
    assert_eq!((&second.body["new"], &second.body["why"]), (&json!(false), &json!("too late")));
    bed.settle().await;
    assert_eq!(bed.get(&path).await.body["status"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_parked_run_is_resumed_by_whom_the_host_vouches_for() {
    let bed = Bed::with(Access::none());
    let own = |method, path: &str, body: &str| {
        let request = axum::http::Request::builder()
            .method(method)
            .uri(path)
            .extension(Actor::named("role:desk").with_role("operator"));
        request.header("content-type", "application/json").body(Body::from(body.to_owned())).unwrap()
    };
    let started = bed.send(own(Method::POST, "/v1/runs", &start("?", 1).to_string())).await;
    let path = started.headers["location"].to_str().unwrap().to_owned();
    bed.settle().await;
    let turn = r#"{"name": "answer", "payload": "turn"}"#;
    bed.send(own(Method::POST, &format!("{path}/signals"), turn)).await;
    bed.settle().await;
    let parked = bed.send(own(Method::GET, &path, "")).await;
    assert_eq!(
        (&parked.body["status"], &parked.body["detail"]["parked"]["code"]),
        (&json!("parked"), &json!("step-limit"))
    );
    let resumed = bed.send(own(Method::POST, &format!("{path}/resume"), r#"{"why": "once more"}"#)).await;
    assert_eq!(resumed.status, StatusCode::OK, "{resumed:?}");
    let allowed = json!({"of": "run", "counter": "steps", "added": 5, "limit": 10});
    let expected = json!({"run": id_of(&path).as_str(), "by": "role:desk", "why": "once more", "allowed": allowed});
    assert_eq!(resumed.body, expected);
    let history = bed.send(own(Method::GET, &format!("{path}/history"), "")).await.body["history"].take();
    let note = history.as_array().unwrap().last().unwrap()["note"].as_str().unwrap().to_owned();
    assert!(note.contains("role:desk") && note.contains("once more"), "{note}");
}

#[tokio::test(start_paused = true)]
async fn health_says_ok_and_touches_nothing() {
    let bed = Bed::with(Access::none());
    for key in ["", KEY] {
        let request = axum::http::Request::builder().uri("/v1/health").header("x-api-key", key);
        let answer = bed.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!((answer.status, answer.body), (StatusCode::OK, json!({"status": "ok"})));
    }
    assert_eq!(bed.gate.total(), 0);
}
