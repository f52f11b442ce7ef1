//! What a run takes back, and a person's word on what it cannot.

use axum::http::StatusCode;
use serde_json::json;

use crate::bed::{ACTOR, Bed, id_of};
use crate::cashier::{FAY, access, asking};
use crate::refusals::{bad_bodies, refuses};

#[tokio::test(start_paused = true)]
async fn a_failed_run_tells_what_it_has_taken_back() {
    let bed = Bed::with(access());
    let (path, approval) = asking(&bed, "a note", 1).await;
    let live = bed.get(&path).await.body;
    let key = &live["effects"][0]["key"];
    let stack = json!([{"name": "reserve", "class": "idempotent", "key": key, "attempts": 1, "step": "Unreserve"}]);
    assert_eq!((&live["undo"], &live["undoing"]), (&stack, &json!(null)), "{live}");
    assert_eq!(
        (&live["effects"][0]["undo"], &live["effects"][0]["costs"]),
        (&json!("Unreserve"), &json!({"cents": 90_000}))
    );

    bed.post_as(FAY, &approval, &json!({"decision": "reject", "why": "too much"})).await;
    bed.settle().await;
    let failed = bed.get(&path).await.body;
    assert_eq!(failed["status"], "failed");
    let failure = json!({"kind": "terminal", "code": null, "message": "key:fay says no: too much"});
    assert_eq!(failed["detail"], json!({"failed": failure}));
    let until = failed["undoing"]["undone"][0]["until"].as_str();
    let undone = json!([
        {"name": "reserve", "class": "idempotent", "outcome": "succeeded", "attempts": 1, "key": key, "until": until.unwrap()}
    ]);
    let undoing = json!({
        "cause": {"failed": failure}, "step": "Pay", "undone": undone, "stands": [], "left": [], "never_sent": [],
    });
    assert_eq!((&failed["undoing"], &failed["undo"]), (&undoing, &json!(null)), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_has_it_in_its_certificate() {
    let bed = Bed::with(access());
    let (path, _) = asking(&bed, "a note", 1).await;
    let open = async || bed.get("/v1/approvals").await.body["approvals"].as_array().unwrap().len();
    assert_eq!(open().await, 1);
    assert_eq!(bed.post_json(&format!("{path}/cancel"), &json!({})).await.body["status"], "cancelling");
    assert_eq!(open().await, 0, "nothing comes of an answer any more");
    bed.settle().await;
    let shown = bed.get(&path).await.body;
    let certificate = &shown["detail"]["cancelled"];
    assert_eq!((&certificate["undone"][0]["name"], &certificate["stands"]), (&json!("reserve"), &json!([])), "{shown}");
    assert!(shown.get("undoing").is_none() && shown.get("undo").is_none(), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_person_lets_stand_what_cannot_be_taken_back() {
    let bed = Bed::with(access());
    let (path, approval) = asking(&bed, "stuck", 1).await;
    let let_stand = format!("{path}/let-stand");
    let before = bed.all().await;
    bed.post_json(&let_stand, &json!({"why": "it is sold"})).await.is_problem(409, "not-undoing");
    assert_eq!(bed.all().await, before);

    bed.post_as(FAY, &approval, &json!({"decision": "reject", "why": "too much"})).await;
    bed.settle().await;
    let parked = bed.get(&path).await.body;
    assert_eq!(
        (&parked["status"], &parked["detail"]["parked"]["code"]),
        (&json!("parked"), &json!("undo")),
        "{parked}"
    );
    assert_eq!((&parked["undoing"]["left"][0]["name"], &parked["undoing"]["undone"]), (&json!("reserve"), &json!([])));
    let mut cases = bad_bodies();
    cases.extend([
        (r"{}".into(), 422, "misfit", "`why`"),
        (r#"{"why": null}"#.into(), 422, "misfit", "`why`"),
        (r#"{"why": " \n"}"#.into(), 422, "misfit", "`why` says nothing"),
        (format!(r#"{{"why": "{}"}}"#, "w".repeat(1_025)), 422, "bad-value", "1024"),
        (r#"{"why": "it is sold", "by": "root"}"#.into(), 422, "misfit", "`by`"),
    ]);
    refuses(&bed, &let_stand, &cases).await;

    let stands = bed.post_json(&let_stand, &json!({"why": "it is sold"})).await;
    let (left, until) = (&parked["undoing"]["left"][0], stands.body["effect"]["until"].as_str());
    let effect = json!({
        "name": "reserve", "class": "idempotent", "outcome": "succeeded", "attempts": 1, "key": left["key"],
        "until": until.unwrap(), "note": format!("by {ACTOR}: it is sold"),
    });
    let expected = json!({"run": id_of(&path).as_str(), "effect": effect, "by": ACTOR, "why": "it is sold"});
    assert_eq!((stands.status, stands.body), (StatusCode::OK, expected));
    bed.settle().await;
    let ended = bed.get(&path).await.body;
    assert_eq!(ended["status"], "failed");
    let let_stand = &ended["undoing"]["stands"][0];
    assert_eq!(let_stand["name"], "reserve", "{ended}");
    assert_eq!(let_stand["note"], format!("by {ACTOR}: it is sold"), "{ended}");
    assert_eq!(ended["undoing"]["left"], json!([]));
}
