//! Approvals are listed, and answered by those who may decide: whom the credentials name, never the body.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use stepwell_core::Timestamp;
use stepwell_http::Actor;

use crate::bed::{Answer, Bed, id_of};
use crate::cashier::{EVE, FAY, GUS, access, asking, refund};
use crate::refusals::{bad_bodies, refuses};

const A_DAY: core::time::Duration = core::time::Duration::from_hours(24);

fn approve() -> Value {
    json!({"decision": "approve"})
}

fn reject() -> Value {
    json!({"decision": "reject", "why": "too much"})
}

async fn open(bed: &Bed, query: &str) -> Value {
    let page = bed.get(&format!("/v1/approvals{query}")).await;
    assert_eq!(page.status, StatusCode::OK, "{page:?}");
    page.body
}

/// Makes sure that an answer is refused so, and that nothing has changed.
async fn refused(bed: &Bed, key: &str, path: &str, body: &Value, status: u16, code: &str) -> Answer {
    let before = bed.all().await;
    let answer = bed.post_as(key, path, body).await;
    answer.is_problem(status, code);
    assert_eq!(bed.all().await, before, "{code}");
    answer
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_is_told_with_all_that_is_known() {
    let bed = Bed::with(access());
    bed.waiting().await;
    let (path, approval) = asking(&bed, "a note", 2).await;
    let id = approval.rsplit('/').next().unwrap();
    let page = open(&bed, "").await;
    let found = &page["approvals"][0];
    let expected = json!({
        "run": id_of(&path).as_str(), "step": "Pay", "id": id, "action": "refund", "parameters": refund("a note", 2),
        "fingerprint": found["fingerprint"], "version": 1, "status": "open", "awaited": true, "by_link": false,
        "by": [{"role": "finance"}, {"person": "key:ann"}],
        "escalation": {"at": "2096-10-03T08:00:00.000Z", "to": [{"role": "cfo"}]},
        "quorum": 2, "allowed": 0, "answers": [],
        "asked_at": "2096-10-02T08:00:00.000Z", "expires_at": "2096-10-05T08:00:00.000Z", "usable_ms": 86_400_000,
    });
    assert_eq!(page, json!({"approvals": [expected], "next": null}));
    assert_eq!(found["fingerprint"].as_str().unwrap().len(), 64);
    assert_eq!(bed.get(&format!("{path}/approvals")).await.body["approvals"], page["approvals"]);
    let shown = bed.get(&path).await.body;
    assert_eq!(shown["approvals"], page["approvals"]);
    let waits = json!({"signals": ["change"], "approval": id, "until": "2096-10-05T08:00:00.000Z"});
    assert_eq!(shown["detail"], json!({"waiting": waits}));
}

#[tokio::test(start_paused = true)]
async fn as_many_as_have_to_allow_it() {
    let bed = Bed::with(access());
    let (path, approval) = asking(&bed, "a note", 2).await;
    let first = bed.post_as(FAY, &approval, &json!({"decision": "approve", "why": "it was broken"})).await;
    let id = approval.rsplit('/').next().unwrap();
    let expected = json!({
        "run": id_of(&path).as_str(), "approval": id, "new": true, "answer": "approved", "by": "key:fay",
        "roles": ["finance"], "why": "it was broken", "stands": {"status": "open", "quorum": 2, "allowed": 1},
    });
    assert_eq!((first.status, first.body), (StatusCode::OK, expected));
    let before = bed.all().await;
    let again = bed.post_as(FAY, &approval, &approve()).await;
    assert_eq!((again.status, &again.body["new"]), (StatusCode::OK, &json!(false)), "{again:?}");
    assert_eq!(bed.all().await, before);

    let second = bed.post_as(GUS, &approval, &approve()).await;
    assert_eq!(second.body["stands"], json!({"status": "approved", "quorum": 2, "allowed": 2}), "{second:?}");
    bed.settle().await;
    let shown = bed.get(&path).await.body;
    assert_eq!(shown["status"], "completed", "{shown}");
    let used = &shown["approvals"][0];
    assert_eq!((&used["status"], &used["answers"][0]["why"]), (&json!("used"), &json!("it was broken")));
    let effects = shown["effects"].as_array().unwrap();
    let paid = effects.iter().find(|effect| effect["name"] == "refund").unwrap();
    assert_eq!((&paid["approval"], &used["used"]["key"]), (&json!(id), &paid["key"]), "{shown}");
    assert_eq!(open(&bed, "").await, json!({"approvals": [], "next": null}));
    let history = bed.get(&format!("{path}/history")).await.body["history"].take();
    let answered: Vec<&str> = history
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["what"] == "answered")
        .map(|entry| entry["note"].as_str().unwrap())
        .collect();
    assert_eq!(answered.len(), 2, "{history}");
    assert!(
        answered[0].contains("by key:fay (finance): it was broken")
            && answered[1].contains("by key:gus (finance, cfo)"),
        "{answered:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_named_person_and_one_to_whom_it_was_escalated_may_decide() {
    let bed = Bed::with(access());
    let (_, approval) = asking(&bed, "a note", 1).await;
    assert_eq!(bed.post_json(&approval, &approve()).await.body["stands"]["status"], "approved");

    // A caller whom the host vouches for has the roles that the host says.
    let (_, approval) = asking(&bed, "another", 1).await;
    let as_actor = async |roles: &[&str]| {
        let roles = roles.iter().map(ToString::to_string).collect();
        let request = Request::post(&approval).extension(Actor { name: "arn:aws:iam::1:user/ida".into(), roles });
        let request = request.header("content-type", "application/json").header("x-api-key", FAY);
        bed.send(request.body(Body::from(approve().to_string())).unwrap()).await
    };
    as_actor(&["cfo"]).await.is_problem(403, "no-permission");
    as_actor(&["approver"]).await.is_problem(403, "no-authority");
    as_actor(&["approver", "cfo"]).await.is_problem(403, "no-authority");
    tokio::time::advance(A_DAY).await;
    let escalated = as_actor(&["approver", "cfo"]).await;
    assert_eq!((escalated.status, &escalated.body["by"]), (StatusCode::OK, &json!("arn:aws:iam::1:user/ida")));
}

#[tokio::test(start_paused = true)]
async fn who_may_not_decide_changes_nothing() {
    let bed = Bed::with(access());
    let (_, approval) = asking(&bed, "a note", 1).await;
    for body in [approve(), reject()] {
        let answer = refused(&bed, EVE, &approval, &body, 403, "no-authority").await;
        answer.says("key:eve may not decide");
        answer.says("role finance or key:ann");
    }
    // Nobody says who they are in a body, or in a header.
    let mut claims = approve();
    (claims["by"], claims["roles"]) = (json!("key:ann"), json!(["finance"]));
    refused(&bed, EVE, &approval, &claims, 422, "misfit").await;
    let before = bed.all().await;
    let request = Request::post(&approval).header("x-api-key", EVE).header("content-type", "application/json");
    let request = request.header("x-actor", "key:ann").header("x-roles", "finance").header("x-user", "key:ann");
    let answer = bed.send(request.body(Body::from(approve().to_string())).unwrap()).await;
    answer.is_problem(403, "no-authority");
    assert_eq!(bed.all().await, before);
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_stays_so_and_the_answer_that_stands_is_told() {
    let bed = Bed::with(access());
    let (path, approval) = asking(&bed, "a note", 1).await;
    assert_eq!(bed.post_as(FAY, &approval, &reject()).await.body["answer"], "rejected");
    for (key, body) in [(FAY, approve()), (GUS, approve()), (GUS, reject())] {
        let late = refused(&bed, key, &approval, &body, 409, "decided").await;
        let mut first = late.body["first"].clone();
        assert!(first["at"].take().is_string(), "{late:?}");
        let said = json!({"by": "key:fay", "roles": ["finance"], "answer": "rejected", "why": "too much", "at": null});
        assert_eq!(first, said);
    }
    bed.settle().await;
    assert_eq!(bed.get(&path).await.body["status"], "failed");
    refused(&bed, GUS, &approval, &approve(), 409, "ended").await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_bound_to_what_was_asked() {
    let bed = Bed::with(access());
    let (path, approval) = asking(&bed, "a note", 1).await;
    let (other, _) = asking(&bed, "another", 1).await;
    let id = approval.rsplit('/').next().unwrap();
    refused(&bed, FAY, &format!("{other}/approvals/{id}"), &approve(), 404, "no-such-approval").await;
    refused(&bed, FAY, &format!("/v1/runs/r1/approvals/{id}"), &approve(), 404, "no-such-run").await;
    for none in [
        "refund",
        "..",
        "%00",
        &id.to_uppercase().replace(|c: char| c.is_ascii_digit(), "A"),
        &id[1..],
        &format!("{id}0"),
        "%2F",
    ] {
        refused(&bed, FAY, &format!("{path}/approvals/{none}"), &approve(), 400, "bad-name").await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_changed_since_has_to_be_looked_at_again() {
    let bed = Bed::with(access());
    let (path, approval) = asking(&bed, "a note", 2).await;
    assert_eq!(bed.post_as(FAY, &approval, &approve()).await.status, StatusCode::OK);
    bed.post_json(&format!("{path}/signals"), &json!({"name": "change", "payload": "another"})).await;
    bed.settle().await;
    let approvals = bed.get(&format!("{path}/approvals")).await.body["approvals"].take();
    let (old, new) = (&approvals[0], &approvals[1]);
    assert_eq!((&old["status"], &old["replaced_by"]), (&json!("replaced"), &new["id"]), "{approvals}");
    assert_eq!((&new["allowed"], &new["parameters"]["note"]), (&json!(0), &json!("another")), "{approvals}");
    assert_eq!(open(&bed, "").await["approvals"], json!([new]));
    for body in [approve(), reject()] {
        refused(&bed, GUS, &approval, &body, 409, "replaced").await.says(new["id"].as_str().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn too_late_is_too_late() {
    let bed = Bed::with(access());
    let (_, approval) = asking(&bed, "a note", 1).await;
    tokio::time::advance(3 * A_DAY).await;
    refused(&bed, FAY, &approval, &approve(), 409, "expired").await.says("expired at");
    // By the machine's clock, what was asked for long ago is expired too, and no longer listed.
    let bed = Bed::at(access(), Timestamp(1_000_000_000_000));
    let (old, _) = asking(&bed, "a note", 1).await;
    assert_eq!(open(&bed, "").await, json!({"approvals": [], "next": null}));
    assert_eq!(bed.get(&format!("{old}/approvals")).await.body["approvals"][0]["status"], "expired");
}

#[tokio::test(start_paused = true)]
async fn bodies_that_do_not_fit() {
    let bed = Bed::with(access());
    let (_, approval) = asking(&bed, "a note", 1).await;
    let mut cases = bad_bodies();
    cases.extend([
        (r"{}".into(), 422, "misfit", "decision"),
        (r#"{"decision": "yes"}"#.into(), 422, "misfit", "`decision`"),
        (r#"{"decision": "Approve"}"#.into(), 422, "misfit", "`decision`"),
        (r#"{"decision": true}"#.into(), 400, "not-json", "line 1 column 14"),
        (r#"{"decision": "approve", "decision": "reject"}"#.into(), 422, "misfit", "duplicate"),
        (r#"{"decision": "reject"}"#.into(), 422, "misfit", "`why` is missing"),
        (r#"{"decision": "reject", "why": null}"#.into(), 422, "misfit", "`why` is missing"),
        (r#"{"decision": "reject", "why": " \t"}"#.into(), 422, "misfit", "`why` says nothing"),
        (r#"{"decision": "approve", "why": ""}"#.into(), 422, "misfit", "`why` says nothing"),
        (r#"{"decision": "approve", "why": 7}"#.into(), 422, "misfit", "`why`"),
        (format!(r#"{{"decision": "approve", "why": "{}"}}"#, "w".repeat(1_025)), 422, "bad-value", "1024"),
        (r#"{"decision": "approve", "by": "root"}"#.into(), 422, "misfit", "`by`"),
    ]);
    refuses(&bed, &approval, &cases).await;
}

#[tokio::test(start_paused = true)]
async fn open_approvals_come_in_pages_of_runs() {
    let bed = Bed::with(access());
    let mut expected = Vec::new();
    for number in 0..5 {
        bed.waiting().await;
        expected.push(id_of(&asking(&bed, &format!("n{number}"), 1).await.0).to_string());
    }
    for limit in [1, 3, 1_000] {
        let (mut seen, mut after) = (Vec::new(), String::new());
        loop {
            let page = open(&bed, &format!("?limit={limit}{after}")).await;
            let found = page["approvals"].as_array().unwrap();
            seen.extend(found.iter().map(|approval| approval["run"].as_str().unwrap().to_owned()));
            match page["next"].as_str() {
                Some(next) => after = format!("&after={}", next.replace('%', "%25").replace('|', "%7C")),
                None => break,
            }
        }
        seen.reverse();
        assert_eq!(seen, expected, "each run once, newest first, by pages of {limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn large_parameters_are_there_for_who_has_to_decide() {
    let bed = Bed::with(access());
    let note = "ü".repeat(100_000);
    let (path, _) = asking(&bed, &note, 1).await;
    let whole = bed.get(&format!("{path}/approvals")).await.body["approvals"][0]["parameters"].take();
    assert_eq!(whole, refund(&note, 1));
    let size = json!({"stored_apart": refund(&note, 1).to_string().len()});
    assert_eq!(open(&bed, "").await["approvals"][0]["parameters"], size);
}

#[tokio::test(start_paused = true)]
async fn what_was_spent_is_told_beside_what_may_be() {
    let bed = Bed::with(access());
    let (path, _) = asking(&bed, "a note", 1).await;
    let counters = json!([
        {"of": "run", "counter": "attempts", "spent": 2, "limit": 90},
        {"of": "run", "counter": "cents", "spent": 90_000, "limit": 100_000},
        {"of": "step", "counter": "tokens", "spent": 0, "limit": 50},
    ]);
    assert_eq!(bed.get(&path).await.body["budget"], json!({"then": "fail", "counters": counters}));
    let waiting = bed.get(&bed.waiting().await).await.body["budget"].take();
    assert_eq!(waiting, json!({"counters": [{"of": "run", "counter": "attempts", "spent": 1}]}));
}

#[tokio::test(start_paused = true)]
async fn hostile_words_are_data() {
    let bed = Bed::with(access());
    let text = "'; DROP TABLE runs; --<script>alert(1)</script>\u{0}\u{1b}[2J\r\nX-Evil: 1\u{202e}{\"$ne\":1}";
    let (path, approval) = asking(&bed, text, 2).await;
    let answered = bed.post_as(FAY, &approval, &json!({"decision": "approve", "why": text})).await;
    assert_eq!(answered.body["why"], text);
    let shown = bed.get(&format!("{path}/approvals")).await;
    assert_eq!(shown.body["approvals"][0]["parameters"]["note"], text);
    assert_eq!(shown.body["approvals"][0]["answers"][0]["why"], text);
    assert_eq!(shown.headers["content-type"], "application/json");
}
