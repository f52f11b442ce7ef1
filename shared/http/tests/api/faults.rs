//! What is behind the API fails: the caller hears what to do, and nothing of what is behind it.

use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use stepwell_testkit::faults::{Fate, PortCall};

use crate::bed::{Answer, Bed, request, start};

#[track_caller]
fn is_retry(answer: &Answer, code: &str) {
    answer.is_problem(503, code);
    assert_eq!((&answer.body["remedy"], answer.body["reference"].as_str().map(str::len)), (&json!("retry"), Some(32)));
}

async fn ask(bed: &Bed, method: Method, path: &str, body: &Value) -> Answer {
    let request = request(method, path).header("content-type", "application/json");
    bed.send(request.body(Body::from(body.to_string())).unwrap()).await
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_worth_another_try() {
    let bed = Bed::new();
    let path = bed.waiting().await;
    let parked = bed.answered("turn").await;
    let unknown = bed.unknown(&["ann"]).await;
    let key = bed.get(&unknown).await.body["effects"][0]["key"].as_str().unwrap().to_owned();
    let before = bed.all().await;
    for (fate, code) in [(Fate::Unavailable, "unavailable"), (Fate::Throttled, "busy")] {
        bed.gate.replan(move |_, _| fate);
        for (method, path, body) in [
            (Method::POST, "/v1/runs".to_owned(), start("?", 1)),
            (Method::GET, "/v1/runs".to_owned(), json!(null)),
            (Method::GET, path.clone(), json!(null)),
            (Method::GET, format!("{path}/history"), json!(null)),
            (Method::POST, format!("{path}/signals"), json!({"name": "answer", "payload": "x"})),
            (Method::POST, format!("{path}/cancel"), json!({})),
            (Method::POST, format!("{parked}/resume"), json!({})),
            (
                Method::POST,
                format!("{unknown}/effects/{key}/resolve"),
                json!({"resolution": "try-again", "why": "the bank says so"}),
            ),
            (Method::GET, "/v1/unknowns".to_owned(), json!(null)),
        ] {
            is_retry(&ask(&bed, method, &path, &body).await, code);
        }
    }
    bed.gate.replan(|_, _| Fate::Pass);
    assert_eq!(bed.all().await, before);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_may_have_happened_is_safe_to_repeat_with_its_key() {
    let bed = Bed::new();
    let own = || {
        let request = request(Method::POST, "/v1/runs").header("content-type", "application/json");
        request.header("idempotency-key", "k").body(Body::from(start("?", 1).to_string())).unwrap()
    };
    bed.gate.replan(|_, call| if call == PortCall::Start { Fate::LostAfter } else { Fate::Pass });
    is_retry(&bed.send(own()).await, "maybe-written");
    bed.gate.replan(|_, call| if call == PortCall::Send { Fate::Unavailable } else { Fate::Pass });
    let unsent = bed.send(own()).await;
    is_retry(&unsent, "not-sent");
    bed.gate.replan(|_, _| Fate::Pass);
    let again = bed.send(own()).await;
    assert_eq!((again.status, bed.started().await), (StatusCode::OK, 1));
    unsent.says(again.body["run"].as_str().unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_output_that_cannot_be_read_now_is_no_half_answer() {
    let bed = Bed::new();
    let path = bed.answered(&"x".repeat(10_000)).await;
    bed.gate.replan(|_, call| if call == PortCall::GetBlob { Fate::Unavailable } else { Fate::Pass });
    is_retry(&bed.get(&path).await, "unavailable");
    bed.gate.replan(|_, _| Fate::Pass);
    assert_eq!(bed.get(&path).await.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn what_the_store_refuses_for_good_is_no_defect() {
    let bed = Bed::new();
    bed.gate.replan(|_, _| Fate::Refused);
    let refused = bed.post_json("/v1/runs", &start("?", 1)).await;
    refused.is_problem(422, "refused");
    assert!(refused.body["reference"].is_string(), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_problem_that_tells_nothing() {
    let bed = Bed::new();
    bed.gate.replan(|_, _| panic!("s3cret"));
    for answer in [bed.get("/v1/runs").await, bed.post_json("/v1/runs", &start("?", 1)).await] {
        answer.is_problem(500, "defect");
        assert_eq!(answer.body["remedy"], "call-a-person");
        assert!(answer.body["reference"].is_string() && !answer.body.to_string().contains("s3cret"), "{answer:?}");
    }
    bed.gate.replan(|_, _| Fate::Pass);
    assert_eq!(bed.get("/v1/runs").await.status, StatusCode::OK);
}
