//! A person pauses a run, edits what it knows, moves it, gives it up, and lets a failed one go on.

use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::bed::{ACTOR, Answer, Bed, id_of, request};
use crate::refusals::{Case, bad_bodies};

/// Sends an act against this revision, if one is given.
async fn act(bed: &Bed, path: &str, against: Option<&str>, body: impl Into<Body>) -> Answer {
    let mut request = request(Method::POST, path).header("content-type", "application/json");
    if let Some(tag) = against {
        request = request.header("if-match", tag);
    }
    bed.send(request.body(body.into()).unwrap()).await
}

async fn tag(bed: &Bed, path: &str) -> String {
    bed.get(path).await.headers["etag"].to_str().unwrap().to_owned()
}

/// A run that waits, was paused, and the path to it.
async fn paused(bed: &Bed) -> String {
    let path = bed.waiting().await;
    let answer = bed.post_json(&format!("{path}/pause"), &json!({"why": "it is to be looked at"})).await;
    assert_eq!((answer.status, &answer.body["status"]), (StatusCode::OK, &json!("parked")), "{answer:?}");
    path
}

/// Nobody but the worker can park a run whose step it is at: until then it is told that this was asked for.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_held_tells_that_it_will_be_paused() {
    let bed = Bed::new();
    let path = bed.waiting().await;
    bed.post_json(&format!("{path}/signals"), &json!({"name": "answer", "payload": "yes"})).await;
    bed.hold(&id_of(&path)).await;
    let asked = bed.post_json(&format!("{path}/pause"), &json!({"why": "lunch"})).await;
    assert_eq!(
        (asked.status, &asked.body["new"], &asked.body["status"]),
        (StatusCode::OK, &json!(true), &json!("running"))
    );
    let shown = bed.get(&path).await.body;
    assert_eq!(shown["pausing"]["what"], format!("by {ACTOR}: lunch"), "{shown}");
    let signals: Vec<&Value> = shown["signals"].as_array().unwrap().iter().map(|signal| &signal["name"]).collect();
    assert_eq!(signals, ["answer"], "what the engine sends is no signal of the run's");
}

fn edit(patch: &Value) -> String {
    json!({"why": "a typing error", "patch": patch}).to_string()
}

async fn notes(bed: &Bed, path: &str) -> Vec<(String, String)> {
    let history = bed.get(&format!("{path}/history")).await.body["history"].take();
    let word = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    history.as_array().unwrap().iter().map(|entry| (word(entry, "what"), word(entry, "note"))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_paused_run_stands_still_until_it_is_resumed() {
    let bed = Bed::new();
    let path = bed.waiting().await;
    let first = bed.post_json(&format!("{path}/pause"), &json!({"why": "lunch"})).await;
    let expected = json!({"run": id_of(&path).as_str(), "new": true, "status": "parked", "by": ACTOR, "why": "lunch"});
    assert_eq!((first.status, first.body), (StatusCode::OK, expected));
    let before = bed.all().await;
    let again = bed.post_json(&format!("{path}/pause"), &json!({})).await;
    assert_eq!((again.status, &again.body["new"], bed.all().await), (StatusCode::OK, &json!(false), before));
    let shown = bed.get(&path).await.body;
    assert_eq!(shown["detail"]["parked"]["code"], "paused", "{shown}");
    assert!(shown["detail"]["parked"]["reason"].as_str().unwrap().contains(&format!("by {ACTOR}: lunch")), "{shown}");
    bed.post_json(&format!("{path}/signals"), &json!({"name": "answer", "payload": "yes"})).await;
    bed.settle().await;
    assert_eq!(bed.get(&path).await.body["status"], "parked");
    assert_eq!(bed.post_json(&format!("{path}/resume"), &json!({})).await.status, StatusCode::OK);
    bed.settle().await;
    assert_eq!(bed.get(&path).await.body["detail"], json!({"completed": {"output": "yes"}}));
    bed.post_json(&format!("{path}/pause"), &json!({})).await.is_problem(409, "ended");
}

#[tokio::test(start_paused = true)]
async fn an_edit_is_made_against_what_was_looked_at() {
    let bed = Bed::new();
    let path = paused(&bed).await;
    let edit_path = format!("{path}/edit");
    let seen = tag(&bed, &path).await;
    let change =
        edit(&json!([{"op": "test", "path": "/times", "value": 1}, {"op": "replace", "path": "/times", "value": 3}]));
    let edited = act(&bed, &edit_path, Some(&seen), change.clone()).await;
    let revision = edited.body["revision"].as_u64().unwrap();
    let expected = json!({
        "run": id_of(&path).as_str(), "revision": revision, "value": {"text": "?", "times": 3}, "by": ACTOR,
        "why": "a typing error",
    });
    assert_eq!((edited.status, edited.body), (StatusCode::OK, expected));
    let shown = bed.get(&path).await;
    assert_eq!((&shown.body["status"], &shown.body["state"]["times"]), (&json!("parked"), &json!(3)));
    assert_eq!(shown.body["revision"], revision);
    assert!(shown.headers["etag"].to_str().unwrap().starts_with(&format!("\"{revision}.")), "{shown:?}");

    let before = bed.all().await;
    act(&bed, &edit_path, Some(&seen), change.clone()).await.is_problem(412, "stale");
    act(&bed, &edit_path, Some(&format!("\"{}\"", revision + 1)), change.clone()).await.is_problem(412, "stale");
    act(&bed, &edit_path, None, change.clone()).await.is_problem(428, "no-precondition");
    assert_eq!(bed.all().await, before);
    // The revision alone will do.
    let change = edit(&json!([{"op": "replace", "path": "/times", "value": 2}]));
    assert_eq!(act(&bed, &edit_path, Some(&format!("\"{revision}\"")), change).await.status, StatusCode::OK);
    bed.post_json(&format!("{path}/signals"), &json!({"name": "answer", "payload": "yes"})).await;
    assert_eq!(bed.post_json(&format!("{path}/resume"), &json!({})).await.status, StatusCode::OK);
    bed.settle().await;
    assert_eq!(bed.get(&path).await.body["detail"], json!({"completed": {"output": "yesyes"}}));
    let told = notes(&bed, &path).await;
    let (_, note) = told.iter().find(|(what, _)| what == "edited").unwrap();
    assert!(note.contains(ACTOR) && note.contains("a typing error"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_is_moved_to_another_step() {
    let bed = Bed::new();
    let path = paused(&bed).await;
    let to = |to: Value| json!({"why": "ask once more", "to": to}).to_string();
    let (move_path, seen) = (format!("{path}/move"), tag(&bed, &path).await);
    let before = bed.all().await;
    for nowhere in [json!("Nowhere"), json!(null), json!(7), json!({"Ask": 1}), json!(["Ask"]), json!("<script>")] {
        act(&bed, &move_path, Some(&seen), to(nowhere)).await.is_problem(422, "bad-step");
    }
    act(&bed, &move_path, Some("\"99\""), to(json!("Ask"))).await.is_problem(412, "stale");
    assert_eq!(bed.all().await, before);
    let moved = act(&bed, &move_path, Some(&seen), to(json!("Turn"))).await;
    let expected = json!({
        "run": id_of(&path).as_str(), "revision": moved.body["revision"], "step": "Turn", "by": ACTOR, "why": "ask once more",
    });
    assert_eq!((moved.status, &moved.body), (StatusCode::OK, &expected));
    let shown = bed.get(&path).await.body;
    assert_eq!((&shown["status"], &shown["step"]), (&json!("parked"), &json!("Turn")));
    assert_eq!(notes(&bed, &path).await.last().unwrap().0, "moved");
}

#[tokio::test(start_paused = true)]
async fn a_run_is_given_up() {
    let bed = Bed::new();
    let path = paused(&bed).await;
    let body = json!({"why": "nobody needs it"}).to_string();
    let before = bed.all().await;
    act(&bed, &format!("{path}/discard"), None, body.clone()).await.is_problem(428, "no-precondition");
    act(&bed, &format!("{path}/discard"), Some("\"99\""), body.clone()).await.is_problem(412, "stale");
    assert_eq!(bed.all().await, before);
    let given_up = act(&bed, &format!("{path}/discard"), Some(&tag(&bed, &path).await), body).await;
    let expected = json!({"run": id_of(&path).as_str(), "by": ACTOR, "why": "nobody needs it"});
    assert_eq!((given_up.status, given_up.body), (StatusCode::OK, expected));
    let shown = bed.get(&path).await.body;
    assert_eq!(
        (&shown["status"], &shown["detail"]["failed"]["kind"]),
        (&json!("failed"), &json!("discarded")),
        "{shown}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_goes_on_where_it_stands() {
    let bed = Bed::new();
    let path = bed.answered("fail").await;
    assert_eq!(bed.get(&path).await.body["status"], "failed");
    let retried = bed.post_json(&format!("{path}/retry"), &json!({"why": "the desk is open"})).await;
    let expected = json!({"run": id_of(&path).as_str(), "by": ACTOR, "why": "the desk is open"});
    assert_eq!((retried.status, retried.body), (StatusCode::OK, expected));
    assert_ne!(bed.get(&path).await.body["status"], "failed");
    let told = notes(&bed, &path).await;
    let (what, note) = told.last().unwrap();
    assert!(what == "reopened" && note.contains("the desk is open"), "{told:?}");
    let waiting = bed.waiting().await;
    let before = bed.all().await;
    bed.post_json(&format!("{waiting}/retry"), &json!({})).await.is_problem(409, "not-failed");
    assert_eq!(bed.all().await, before);
}

#[tokio::test(start_paused = true)]
async fn what_a_run_knew_is_told_where_it_was_kept() {
    let bed = Bed::new();
    let path = paused(&bed).await;
    let newest = tag(&bed, &path).await.trim_matches('"').split('.').next().unwrap().parse::<u64>().unwrap();
    let state = bed.get(&format!("{path}/state?at={newest}")).await;
    let known = json!({"text": "?", "times": 1});
    let expected = json!({
        "run": id_of(&path).as_str(), "revision": newest, "step": "Answered", "before": known, "after": known,
    });
    assert_eq!((state.status, state.body), (StatusCode::OK, expected));
    for gone in ["0".to_owned(), (newest + 1).to_string(), i64::MAX.to_string()] {
        bed.get(&format!("{path}/state?at={gone}")).await.is_problem(404, "not-kept");
    }
    bed.get("/v1/runs/r1/state?at=0").await.is_problem(404, "no-such-run");
    for wrong in ["", "?at=", "?at=-1", "?at=x", "?at=1.0", "?at=9223372036854775808", "?at=1&at=1", "?at=1&of=2"] {
        bed.get(&format!("{path}/state{wrong}")).await.is_problem(400, "bad-query");
    }
}

#[tokio::test(start_paused = true)]
async fn a_history_is_read_from_either_end() {
    let bed = Bed::new();
    let path = bed.answered("turn").await;
    let whole = bed.get(&format!("{path}/history")).await.body["history"].take();
    let whole = whole.as_array().unwrap();
    assert!(whole.len() >= 5, "{whole:?}");
    for limit in [1, 2, 1_000] {
        for (field, first) in [("from", "0".to_owned()), ("before", i64::MAX.to_string())] {
            let (mut seen, mut next, mut pages) = (Vec::new(), Some(first), 0);
            while let Some(at) = next {
                let page = bed.get(&format!("{path}/history?{field}={at}&limit={limit}")).await.body;
                let entries = page["history"].as_array().unwrap().clone();
                assert!(entries.len() <= limit, "{page}");
                if field == "from" {
                    seen.extend(entries);
                } else {
                    seen.splice(0..0, entries).for_each(drop);
                }
                next = page["next"].as_u64().map(|next| next.to_string());
                pages += 1;
            }
            assert_eq!((&seen, pages), (whole, whole.len().div_ceil(limit)), "{field} {limit}");
        }
    }
    for wrong in
        ["from=1&before=2", "before=-1", "before=", "before=9223372036854775808", "limit=0", "limit=1001", "limit="]
    {
        bed.get(&format!("{path}/history?{wrong}")).await.is_problem(400, "bad-query");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_repaired_stays_as_it_is() {
    let bed = Bed::new();
    let live = bed.waiting().await;
    let done = bed.answered("yes").await;
    let unsettled = bed.unknown(&["ann"]).await;
    let before = bed.all().await;
    let moved = json!({"why": "x", "to": "Ask"}).to_string();
    let (patch, given_up) = (edit(&json!([])), json!({"why": "x"}).to_string());
    for (path, status, code) in
        [(&live, 409, "not-parked"), (&done, 409, "not-parked"), (&"/v1/runs/r1".to_owned(), 404, "no-such-run")]
    {
        for (verb, body) in [("edit", &patch), ("move", &moved), ("discard", &given_up)] {
            act(&bed, &format!("{path}/{verb}"), Some("\"1\""), body.clone()).await.is_problem(status, code);
        }
    }
    let seen = tag(&bed, &unsettled).await;
    act(&bed, &format!("{unsettled}/discard"), Some(&seen), given_up).await.is_problem(409, "unsettled");
    act(&bed, &format!("{unsettled}/move"), Some(&seen), json!({"why": "x", "to": "Pay"}).to_string())
        .await
        .is_problem(409, "not-begun");
    assert_eq!((bed.all().await, bed.calls()), (before, 1));
}

#[tokio::test(start_paused = true)]
async fn patches_that_cannot_be_applied() {
    let bed = Bed::new();
    let path = paused(&bed).await;
    let (edit_path, seen) = (format!("{path}/edit"), tag(&bed, &path).await);
    let before = bed.all().await;
    for patch in [
        json!(null),
        json!({}),
        json!("x"),
        json!([null]),
        json!([{}]),
        json!([{"op": "replace"}]),
        json!([{"op": "replace", "path": "/times"}]),
        json!([{"op": "destroy", "path": "/times"}]),
        json!([{"op": "replace", "path": "times", "value": 2}]),
        json!([{"op": "replace", "path": "/none", "value": 2}]),
        json!([{"op": "remove", "path": "/none"}]),
        json!([{"op": "test", "path": "/times", "value": 9}, {"op": "replace", "path": "/times", "value": 2}]),
        json!([{"op": "replace", "path": "/times", "value": 2}, {"op": "remove", "path": "/none"}]),
        json!([{"op": "replace", "path": "/times", "value": "many"}]),
        json!([{"op": "remove", "path": "/text"}]),
        json!([{"op": "replace", "path": "", "value": null}]),
        json!([{"op": "move", "from": "/text", "path": "/text/x"}]),
    ] {
        let answer = act(&bed, &edit_path, Some(&seen), edit(&patch)).await;
        answer.is_problem(422, "bad-patch");
        assert_eq!(bed.all().await, before, "{patch}");
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_and_preconditions_that_are_none() {
    let bed = Bed::new();
    let path = paused(&bed).await;
    let seen = tag(&bed, &path).await;
    let before = bed.all().await;
    let long = "w".repeat(1_025);
    for (verb, rest) in [("edit", r#""patch": []"#), ("move", r#""to": "Ask""#), ("discard", "")] {
        let with = |why: &str| if rest.is_empty() { format!("{{{why}}}") } else { format!("{{{why}, {rest}}}") };
        let mut cases: Vec<Case<'_>> = bad_bodies();
        cases.extend([
            (if rest.is_empty() { "{}".into() } else { format!("{{{rest}}}") }, 422, "misfit", "`why`"),
            (with(r#""why": null"#), 422, "misfit", "`why`"),
            (with(r#""why": 7"#), 422, "misfit", "`why`"),
            (with(r#""why": """#), 422, "misfit", "`why` says nothing"),
            (with(r#""why": " \n\u0000\ufeff\u001f""#), 422, "misfit", "`why` says nothing"),
            (with(&format!(r#""why": "{long}""#)), 422, "bad-value", "1024"),
            (with(r#""why": "x", "by": "root""#), 422, "misfit", "`by`"),
            (with(r#""why": "x", "at": 1"#), 422, "misfit", "`at`"),
            (with(r#""why": "x", "why": "y""#), 422, "misfit", "duplicate"),
        ]);
        if !rest.is_empty() {
            cases.push((r#"{"why": "x"}"#.into(), 422, "misfit", "missing field"));
        }
        for (body, status, code, words) in cases {
            let answer = act(&bed, &format!("{path}/{verb}"), Some(&seen), body.clone()).await;
            answer.is_problem(status, code);
            answer.says(words);
            assert_eq!(bed.all().await, before, "{verb} {body}");
        }
        for wrong in [
            "1",
            "",
            "\"\"",
            "\"x\"",
            "W/\"1\"",
            "*",
            "\"1\", \"2\"",
            "\"-1\"",
            "\"1.<b>\"",
            "\"9999999999999999999\"",
            "\"1",
            "\"1 \"",
        ] {
            let answer = act(&bed, &format!("{path}/{verb}"), Some(wrong), with(r#""why": "x""#)).await;
            answer.is_problem(400, "bad-header");
        }
        let twice = request(Method::POST, &format!("{path}/{verb}")).header("content-type", "application/json");
        let twice = twice.header("if-match", &seen).header("if-match", &seen).body(Body::from(with(r#""why": "x""#)));
        bed.send(twice.unwrap()).await.is_problem(400, "bad-header");
    }
    for (verb, case) in [("pause", "{\"why\": 7}"), ("retry", "{\"by\": \"root\"}")] {
        act(&bed, &format!("{path}/{verb}"), None, case).await.is_problem(422, "misfit");
    }
    assert_eq!(bed.all().await, before);
}

#[tokio::test(start_paused = true)]
async fn hostile_words_of_a_repair_are_data() {
    let bed = Bed::new();
    let path = paused(&bed).await;
    let text = "</script><script>alert(1)</script>\u{0}\u{202e}\r\nX: 1\u{1b}[2J \u{1f600}";
    let body = json!({"why": text, "patch": [{"op": "replace", "path": "/text", "value": text}]}).to_string();
    let edited = act(&bed, &format!("{path}/edit"), Some(&tag(&bed, &path).await), body).await;
    assert_eq!((&edited.body["why"], &edited.body["value"]["text"]), (&json!(text), &json!(text)), "{edited:?}");
    assert_eq!(bed.get(&path).await.body["state"]["text"], text);
    let told = notes(&bed, &path).await;
    assert!(told.last().unwrap().1.contains(text), "{told:?}");
}
