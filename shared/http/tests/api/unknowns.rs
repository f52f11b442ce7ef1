//! What may have happened is listed, and a person settles it.

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::bed::{ACTOR, Answer, Bed, PAY_DEADLINE, id_of};

async fn unknowns(bed: &Bed, query: &str) -> Value {
    let page = bed.get(&format!("/v1/unknowns{query}")).await;
    assert_eq!(page.status, StatusCode::OK, "{page:?}");
    page.body
}

async fn resolve(bed: &Bed, path: &str, key: &Value, body: &Value) -> Answer {
    bed.post_json(&format!("{path}/effects/{}/resolve", key.as_str().unwrap()), body).await
}

fn paid(result: &Value) -> Value {
    json!({"resolution": "succeeded", "result": result, "why": "it is on the statement"})
}

#[tokio::test(start_paused = true)]
async fn what_may_have_happened_is_told_with_all_that_is_known() {
    let bed = Bed::new();
    bed.waiting().await;
    let path = bed.unknown(&["ann"]).await;
    let shown = bed.get(&path).await.body;
    let (since, until) = ("2096-10-02T08:00:00.000Z", "2096-10-02T08:00:30.000Z");
    let expected = json!({
        "run": id_of(&path).as_str(), "step": "begin", "effect": "pay", "key": shown["effects"][0]["key"],
        "class": "once", "attempts": 1, "since": since, "until": until, "evidence": "the line broke", "parked": true,
    });
    assert_eq!(unknowns(&bed, "").await, json!({"unknowns": [expected], "next": null}));
    let unknown = json!({"since": since, "until": until, "evidence": "the line broke"});
    assert_eq!(shown["effects"][0]["outcome"], json!({"unknown": unknown}));
    assert_eq!(shown["detail"]["parked"]["code"], "unknown-outcome");
}

#[tokio::test(start_paused = true)]
async fn a_person_says_that_it_happened() {
    let bed = Bed::new();
    for result in [json!("p-7"), json!(null)] {
        let path = bed.unknown(&["ann"]).await;
        let before = bed.calls();
        let key = unknowns(&bed, "").await["unknowns"][0]["key"].take();
        let resolved = resolve(&bed, &path, &key, &paid(&result)).await;
        assert_eq!(resolved.status, StatusCode::OK, "{resolved:?}");
        let (run, why) = (id_of(&path), "it is on the statement");
        let answer = json!({"run": run.as_str(), "key": key, "resolution": "succeeded", "by": ACTOR, "why": why});
        assert_eq!(resolved.body, answer);
        bed.settle().await;
        assert_eq!(bed.get(&path).await.body["detail"], json!({"completed": {"output": [result]}}));
        assert_eq!((bed.calls(), unknowns(&bed, "").await), (before, json!({"unknowns": [], "next": null})));
        let history = bed.get(&format!("{path}/history")).await.body["history"].take();
        let kinds: Vec<&str> =
            history.as_array().unwrap().iter().map(|entry| entry["what"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["intended", "parked", "resolved", "completed"]);
        assert_eq!(history[2]["note"], format!("succeeded by {ACTOR}: {why}"));
        assert_eq!(history[2]["effects"][0]["outcome"], "succeeded");
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_says_that_it_did_not_happen() {
    let bed = Bed::new();
    let path = bed.unknown(&["ann"]).await;
    let key = unknowns(&bed, "").await["unknowns"][0]["key"].take();
    let again = json!({"resolution": "try-again", "why": "it is not on the statement", "message": null});
    let resolved = resolve(&bed, &path, &key, &again).await;
    assert_eq!((resolved.status, &resolved.body["resolution"]), (StatusCode::OK, &json!("try-again")), "{resolved:?}");
    bed.settle().await;
    assert_eq!((bed.calls(), bed.get(&path).await.body["status"].take()), (2, json!("parked")));

    tokio::time::advance(PAY_DEADLINE).await;
    let refused = json!({"resolution": "failed", "message": "the account is closed", "why": "the bank has called"});
    assert_eq!(resolve(&bed, &path, &key, &refused).await.status, StatusCode::OK);
    bed.settle().await;
    let failed = bed.get(&path).await.body["detail"]["failed"].take();
    assert!(failed["message"].as_str().unwrap().contains("the account is closed"), "{failed}");
    assert_eq!(bed.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_run_goes_on_when_the_last_of_its_effects_is_settled() {
    let bed = Bed::new();
    let path = bed.unknown(&["ann", "bob"]).await;
    let found = unknowns(&bed, "").await["unknowns"].take();
    assert_eq!(found.as_array().unwrap().len(), 2, "{found}");
    for (at, left, status) in [(1, 1, "parked"), (0, 0, "running")] {
        let settled = resolve(&bed, &path, &found[at]["key"], &paid(&json!(format!("p-{at}")))).await;
        assert_eq!(settled.status, StatusCode::OK, "{settled:?}");
        assert_eq!(unknowns(&bed, "").await["unknowns"].as_array().unwrap().len(), left);
        assert_eq!(bed.get(&path).await.body["status"], status);
    }
    bed.settle().await;
    assert_eq!(bed.get(&path).await.body["detail"], json!({"completed": {"output": ["p-0", "p-1"]}}));
}

#[tokio::test(start_paused = true)]
async fn nobody_settles_what_is_on_its_way_or_settled() {
    let bed = Bed::new();
    let path = bed.paying(&["ann"]).await;
    let key = unknowns(&bed, "").await["unknowns"][0]["key"].take();
    let before = bed.all().await;
    let early = resolve(&bed, &path, &key, &paid(&json!("p-7"))).await;
    early.is_problem(409, "on-its-way");
    // The bed is years ahead of the machine, so this is the most that is ever said.
    assert_eq!(early.headers["retry-after"], "900");
    let other = json!("0123456789abcdef0123456789abcdef");
    resolve(&bed, &path, &other, &paid(&json!("p-7"))).await.is_problem(409, "not-open");
    assert_eq!(bed.all().await, before);

    tokio::time::advance(PAY_DEADLINE).await;
    assert_eq!(resolve(&bed, &path, &key, &paid(&json!("p-7"))).await.status, StatusCode::OK);
    let before = bed.get(&path).await.body;
    resolve(&bed, &path, &key, &paid(&json!("p-8"))).await.is_problem(409, "not-open");
    assert_eq!(
        bed.get(&path).await.body,
        before,
        "it only gets another message, as the first one may never have been sent"
    );
}

#[tokio::test(start_paused = true)]
async fn unknowns_come_in_pages_of_runs() {
    let bed = Bed::new();
    let mut expected = Vec::new();
    for number in 0..11 {
        bed.waiting().await;
        expected.push(id_of(&bed.unknown(&[&format!("n{number}"), "x"]).await).to_string());
    }
    bed.answered("yes").await;
    for limit in [1, 3, 10, 1_000] {
        let (mut seen, mut after, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let page = unknowns(&bed, &format!("?limit={limit}{after}")).await;
            let found = page["unknowns"].as_array().unwrap();
            assert!(found.len() <= 2 * limit, "{page}");
            seen.extend(found.iter().map(|unknown| unknown["run"].as_str().unwrap().to_owned()));
            pages += 1;
            match page["next"].as_str() {
                Some(next) => after = format!("&after={}", next.replace('%', "%25").replace('|', "%7C")),
                None => break,
            }
        }
        assert_eq!(seen.len(), 22);
        seen.dedup();
        seen.reverse();
        assert_eq!(seen, expected, "each run once, newest first, by pages of {limit}");
        // Eleven runs are parked and eleven wait; one that has ended is not looked at.
        assert!(pages >= 22_usize.div_ceil(limit) && pages <= 22 / limit + 1, "{pages} pages of {limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_ends_once_what_nobody_finds_out_is_signed_off() {
    let bed = Bed::new();
    let path = bed.unknown(&["ann"]).await;
    let found = unknowns(&bed, "").await["unknowns"].take();
    let cancelled = bed.post_json(&format!("{path}/cancel"), &json!({"why": "enough"})).await;
    assert_eq!((cancelled.status, &cancelled.body["new"]), (StatusCode::OK, &json!(true)), "{cancelled:?}");
    assert_eq!((&cancelled.body["status"], &cancelled.body["unknowns"]), (&json!("parked"), &found));
    bed.settle().await;
    assert_eq!(bed.get(&path).await.body["status"], "parked", "it does not end while that is open");

    let key = &found[0]["key"];
    let sign_off = json!({"resolution": "sign-off", "why": "the bank has lost its books"});
    let settled = resolve(&bed, &path, key, &sign_off).await;
    assert_eq!((settled.status, &settled.body["resolution"]), (StatusCode::OK, &json!("sign-off")), "{settled:?}");
    bed.settle().await;
    let shown = bed.get(&path).await.body;
    let uncertain = json!([{
        "name": "pay", "class": "once", "outcome": "unknown", "attempts": 1, "key": key, "until": found[0]["until"],
        "signed_off_by": ACTOR,
    }]);
    let certificate = json!({
        "confirmed": 0, "failed": 0, "uncertain": uncertain, "never_sent": [], "undone": [], "stands": [],
        "unfinished_step": "begin",
    });
    assert_eq!(shown["detail"]["cancelled"], certificate, "{shown}");
    assert_eq!(unknowns(&bed, "").await, json!({"unknowns": [], "next": null}));
    assert_eq!(bed.calls(), 1);
    resolve(&bed, &path, key, &paid(&json!("p-7"))).await.is_problem(409, "ended");
}
