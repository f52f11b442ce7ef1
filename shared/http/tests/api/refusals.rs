//! Each kind of bad input: refused by name, and nothing has changed.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{Method, StatusCode};
use serde_json::json;
use stepwell_http::BODY_BYTES_MAX;

use crate::bed::{Answer, Bed, KEY, request, start};

/// A body, what it is refused with, and a word of why.
pub(crate) type Case<'a> = (String, u16, &'a str, &'a str);

/// Sends each to this path; nothing may come of any.
pub(crate) async fn refuses(bed: &Bed, path: &str, cases: &[Case<'_>]) {
    let before = bed.all().await;
    for (body, status, code, words) in cases {
        let answer = bed.post(path, body.clone()).await;
        answer.is_problem(*status, code);
        answer.says(words);
        assert_eq!(bed.all().await, before, "{body}");
    }
}

/// What no route takes as a body.
pub(crate) fn bad_bodies<'a>() -> Vec<Case<'a>> {
    vec![
        (String::new(), 400, "not-json", "EOF"),
        ("nonsense".into(), 400, "not-json", "line 1 column 2"),
        (" {".into(), 400, "not-json", "EOF"),
        (r#"["desk", {"text": "?", "times": 1}]"#.into(), 422, "misfit", "no object"),
        (r#"["answer", "x", null]"#.into(), 422, "misfit", "no object"),
        ("[null]".into(), 422, "misfit", "no object"),
        (" null".into(), 422, "misfit", "no object"),
        ("\"x\" 1".into(), 400, "not-json", "trailing"),
        (r#"{"by": "root"}"#.into(), 422, "misfit", "`by`"),
        (format!(r#"{{"{}": 1}}"#, "<script>".repeat(1_000)), 422, "misfit", "<script>"),
        ("[".repeat(100_000), 400, "not-json", "EOF"),
        (format!(r#"{{"why": "{}"}}"#, "x".repeat(BODY_BYTES_MAX)), 413, "too-large", "4194304"),
    ]
}

/// Names that are none, as JSON.
const BAD_NAMES: [&str; 8] =
    [r#""""#, r#""..""#, r#""../etc""#, r#""a/b""#, r#""a\u0000b""#, r#""<img src=x>""#, r#""ü""#, "7"];

#[tokio::test(start_paused = true)]
async fn starts() {
    let bed = Bed::new();
    let mut cases = bad_bodies();
    for name in BAD_NAMES {
        cases.push((format!(r#"{{"workflow": {name}, "input": null}}"#), 422, "misfit", "`workflow`"));
    }
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let long = format!(r#"{{"workflow": "{}", "input": null}}"#, "w".repeat(65));
    cases.extend([
        (format!("{}\n{{}}", start("?", 1)), 400, "not-json", "line 2"),
        (r#"{"workflow": "desk"}"#.into(), 422, "misfit", "input"),
        (r#"{"input": null}"#.into(), 422, "misfit", "workflow"),
        (r#"{"workflow": "desk", "workflow": "desk", "input": 1}"#.into(), 422, "misfit", "duplicate"),
        (r#"{"workflow": "desk", "input": 1, "key": "k"}"#.into(), 422, "misfit", "`key`"),
        (r#"{"workflow": "desk", "input": nul}"#.into(), 400, "not-json", "line 1"),
        (long, 422, "misfit", "65 characters"),
        (r#"{"workflow": "other", "input": null}"#.into(), 422, "unknown-workflow", "desk"),
        (r#"{"workflow": "desk", "input": null}"#.into(), 422, "misfit", "input"),
        (r#"{"workflow": "desk", "input": {"text": 7, "times": 1}}"#.into(), 422, "misfit", "`text`"),
        (r#"{"workflow": "desk", "input": {"text": "\ud800", "times": 1}}"#.into(), 422, "misfit", "`text`"),
        (format!(r#"{{"workflow": "desk", "input": {deep}}}"#), 422, "misfit", "input"),
        (r#"{"workflow": "desk", "input": {"text": "", "times": 1, "more": 1e999}}"#.into(), 422, "bad-value", ""),
    ]);
    refuses(&bed, "/v1/runs", &cases).await;
    assert_eq!(bed.started().await, 0);
}

#[tokio::test(start_paused = true)]
async fn keys_of_starts() {
    let bed = Bed::new();
    let long = "k".repeat(256);
    let bad: [&[&[u8]]; 5] = [&[b""], &[b"  "], &[long.as_bytes()], &["schlüssel".as_bytes()], &[b"a", b"a"]];
    for keys in bad {
        let mut request = request(Method::POST, "/v1/runs").header("content-type", "application/json");
        for key in keys {
            request = request.header("idempotency-key", *key);
        }
        let answer = bed.send(request.body(Body::from(start("?", 1).to_string())).unwrap()).await;
        answer.is_problem(400, "bad-header");
    }
    assert_eq!(bed.gate.total(), 0);
}

#[tokio::test(start_paused = true)]
async fn signals() {
    let bed = Bed::new();
    let path = format!("{}/signals", bed.waiting().await);
    let mut cases = bad_bodies();
    for name in BAD_NAMES {
        cases.push((format!(r#"{{"name": {name}, "payload": "x"}}"#), 422, "misfit", "`name`"));
        cases.push((format!(r#"{{"name": "answer", "payload": "x", "id": {name}}}"#), 422, "misfit", "`id`"));
    }
    cases.extend([
        (r#"{"name": "answer", "payload": "x"}x"#.into(), 400, "not-json", "trailing"),
        (r#"{"name": "answer"}"#.into(), 422, "misfit", "payload"),
        (r#"{"payload": "x"}"#.into(), 422, "misfit", "name"),
        (r#"{"name": "answer", "payload": 7}"#.into(), 422, "misfit", "answer"),
        (r#"{"name": "other", "payload": "x"}"#.into(), 422, "unknown-signal", "answer"),
        (r#"{"name": "answer", "payload": "x", "by": "root"}"#.into(), 422, "misfit", "`by`"),
    ]);
    refuses(&bed, &path, &cases).await;
}

#[tokio::test(start_paused = true)]
async fn cancellations_and_resumptions() {
    let bed = Bed::new();
    let path = bed.answered("turn").await;
    let long = json!({"why": "w".repeat(1_025)}).to_string();
    let mut cases = bad_bodies();
    cases.extend([
        (r#"{"why": "x"} {}"#.into(), 400, "not-json", "trailing"),
        (r#"{"why": 7}"#.into(), 422, "misfit", "`why`"),
        (r#"{"why": "x", "by": "root"}"#.into(), 422, "misfit", "`by`"),
        (long, 422, "bad-value", "1024"),
    ]);
    refuses(&bed, &format!("{path}/cancel"), &cases).await;
    refuses(&bed, &format!("{path}/resume"), &cases).await;
}

#[tokio::test(start_paused = true)]
async fn resolutions() {
    let bed = Bed::new();
    let path = bed.unknown(&["ann"]).await;
    let key = bed.get(&path).await.body["effects"][0]["key"].as_str().unwrap().to_owned();
    let with = |more: &str| format!(r#"{{"why": "the bank says so", {more}}}"#);
    let long = "w".repeat(1_025);
    let mut cases = bad_bodies();
    cases.extend([
        (r#"{"resolution": "try-again"}"#.into(), 422, "misfit", "`why`"),
        (r#"{"resolution": "try-again", "why": null}"#.into(), 422, "misfit", "`why`"),
        (r#"{"resolution": "try-again", "why": " \n"}"#.into(), 422, "misfit", "`why` says nothing"),
        (format!(r#"{{"resolution": "try-again", "why": "{long}"}}"#), 422, "bad-value", "1024"),
        (r#"{"why": "the bank says so"}"#.into(), 422, "misfit", "resolution"),
        (with(r#""resolution": "maybe""#), 422, "misfit", "`resolution`"),
        (with(r#""resolution": "TryAgain""#), 422, "misfit", "`resolution`"),
        (with(r#""resolution": "succeeded""#), 422, "misfit", "`result` is missing"),
        (with(r#""resolution": "succeeded", "result": nul"#), 400, "not-json", "line 1"),
        (with(r#""resolution": "succeeded", "result": 1, "message": "no""#), 422, "misfit", "`message` belongs"),
        (with(r#""resolution": "failed""#), 422, "misfit", "`message` is missing"),
        (with(r#""resolution": "failed", "message": " ""#), 422, "misfit", "`message` says nothing"),
        (with(r#""resolution": "failed", "message": 7"#), 422, "misfit", "`message`"),
        (with(r#""resolution": "failed", "message": "no", "result": null"#), 422, "misfit", "`result` belongs"),
        (with(&format!(r#""resolution": "failed", "message": "{long}""#)), 422, "bad-value", "1024"),
        (with(r#""resolution": "try-again", "result": 1"#), 422, "misfit", "`result` belongs"),
        (with(r#""resolution": "try-again", "message": "no""#), 422, "misfit", "`message` belongs"),
        (with(r#""resolution": "sign-off", "result": 1"#), 422, "misfit", "`result` belongs"),
        (with(r#""resolution": "sign-off", "message": "no""#), 422, "misfit", "`message` belongs"),
        (with(r#""resolution": "try-again", "by": "root""#), 422, "misfit", "`by`"),
    ]);
    refuses(&bed, &format!("{path}/effects/{key}/resolve"), &cases).await;
    let (before, upper, short, long) = (bed.all().await, key.to_uppercase(), &key[1..], format!("{key}0"));
    for none in ["pay", "..", "%00", &upper, short, &long, "%2F", "%ff"] {
        let answer = bed.post(&format!("{path}/effects/{none}/resolve"), with(r#""resolution": "try-again""#)).await;
        answer.is_problem(400, "bad-name");
    }
    assert_eq!((bed.calls(), bed.all().await), (1, before));
}

#[tokio::test(start_paused = true)]
async fn bodies_of_another_type() {
    let bed = Bed::new();
    let before = bed.all().await;
    let types: [&[&str]; 7] = [
        &[],
        &[""],
        &["text/plain"],
        &["application/x-www-form-urlencoded"],
        &["application/json; charset=latin1"],
        &["application/jsonx"],
        &["application/json", "text/plain"],
    ];
    let resolve = format!("/v1/runs/r1/effects/{}/resolve", "0".repeat(32));
    let approve = format!("/v1/runs/r1/approvals/{}", "0".repeat(16));
    let verbs = ["signals", "cancel", "pause", "resume", "retry", "edit", "move", "discard", "let-stand"];
    let acts = verbs.map(|verb| format!("/v1/runs/r1/{verb}"));
    for path in acts.into_iter().chain(["/v1/runs".into(), approve, resolve]) {
        for kinds in types {
            let mut request = request(Method::POST, &path).header("if-match", "\"1\"");
            for kind in kinds {
                request = request.header("content-type", *kind);
            }
            let answer = bed.send(request.body(Body::from(start("?", 1).to_string())).unwrap()).await;
            answer.is_problem(415, "wrong-type");
        }
    }
    assert_eq!((bed.gate.total(), bed.all().await), (0, before));
}

#[tokio::test(start_paused = true)]
async fn queries() {
    let bed = Bed::new();
    let path = bed.waiting().await;
    let before = bed.all().await;
    for (query, words) in [
        ("limit=0", "1 to 1000"),
        ("limit=1001", "1 to 1000"),
        ("limit=-1", "limit"),
        ("limit=", "limit"),
        ("limit=1&limit=2", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("status=Running", "status"),
        ("status=cancelling", "cancelling"),
        ("status=", "status"),
        ("workflow=", "workflow"),
        ("workflow=..", "workflow"),
        ("workflow=a%00b", "workflow"),
        ("workflow=%3Cscript%3E", "workflow"),
        ("from=yesterday", "RFC 3339"),
        ("from=", "RFC 3339"),
        ("from=1700000000", "RFC 3339"),
        ("from=2026-10-02", "RFC 3339"),
        ("from=2026-10-02T08:00:00", "RFC 3339"),
        ("from=2026-10-02%2008:00:00Z", "RFC 3339"),
        ("from=2026-10-02T08:00Z", "RFC 3339"),
        ("from=2026-13-02T08:00:00Z", "RFC 3339"),
        ("from=2026-02-30T08:00:00Z", "RFC 3339"),
        ("from=2026-10-02T08:00:00Z%5BUTC%5D", "RFC 3339"),
        ("from=2026-10-02T08:00:00%2B0200", "RFC 3339"),
        ("from=2026-10-02T08:00:00%2B02", "RFC 3339"),
        ("from=2026-10-02T08:00:00,5Z", "RFC 3339"),
        ("before=%2B002026-10-02T08:00:00Z", "RFC 3339"),
        ("before=2026-10-02T08:00:00Z%00", "RFC 3339"),
        ("before=2026-10-02T08:00:00Z&before=2026-10-02T08:00:00Z", "before"),
        ("after=nonsense", "after"),
        ("after=", "after"),
        ("after=%00", "after"),
        ("order=up", "order"),
    ] {
        let answer = bed.get(&format!("/v1/runs?{query}")).await;
        answer.is_problem(400, "bad-query");
        answer.says(words);
    }
    for (query, words) in [
        ("limit=0", "1 to 1000"),
        ("limit=1001", "1 to 1000"),
        ("limit=x", "limit"),
        ("after=", "after"),
        ("after=parked", "after"),
        ("after=completed:", "after"),
        ("after=parked:nonsense", "after"),
        ("after=%00:", "after"),
        ("run=r1", "run"),
    ] {
        for list in ["unknowns", "approvals"] {
            let answer = bed.get(&format!("/v1/{list}?{query}")).await;
            answer.is_problem(400, "bad-query");
            answer.says(words);
        }
    }
    for query in
        ["from=-1", "from=x", "from=", "from=9223372036854775808", "from=18446744073709551616", "to=1", "from=1&from=2"]
    {
        bed.get(&format!("{path}/history?{query}")).await.is_problem(400, "bad-query");
    }
    assert_eq!(bed.all().await, before);
}

/// All that can be asked of one run, each well-formed.
async fn ask_all(bed: &Bed, path: &str) -> Vec<Answer> {
    let answer = json!({"resolution": "try-again", "why": "the bank says so"});
    vec![
        bed.get(path).await,
        bed.get(&format!("{path}/history")).await,
        bed.post_json(&format!("{path}/signals"), &json!({"name": "answer", "payload": "x"})).await,
        bed.post_json(&format!("{path}/cancel"), &json!({})).await,
        bed.post_json(&format!("{path}/resume"), &json!({})).await,
        bed.post_json(&format!("{path}/effects/{}/resolve", "0".repeat(32)), &answer).await,
        bed.post_json(&format!("{path}/let-stand"), &json!({"why": "it was taken back by hand"})).await,
        bed.post_json(&format!("{path}/approvals/{}", "0".repeat(16)), &json!({"decision": "approve"})).await,
        bed.get(&format!("{path}/approvals")).await,
        bed.post_json(&format!("{path}/pause"), &json!({})).await,
        bed.post_json(&format!("{path}/retry"), &json!({})).await,
        bed.get(&format!("{path}/state?at=1")).await,
        bed.get(&format!("{path}/history?before=1")).await,
    ]
}

#[tokio::test(start_paused = true)]
async fn ids_that_are_none() {
    let bed = Bed::new();
    let long = "r".repeat(65);
    for id in [
        "..",
        ".",
        "%2e%2e",
        "a%00b",
        "%00",
        "..%2F..%2Fetc",
        "a%2Fb",
        "-x",
        ":x",
        "%20",
        "%ff",
        "a%0d%0ab",
        "%3Cb%3E",
        &long,
    ] {
        for answer in ask_all(&bed, &format!("/v1/runs/{id}")).await {
            answer.is_problem(400, "bad-name");
        }
    }
    assert_eq!(bed.gate.total(), 0);
}

#[tokio::test(start_paused = true)]
async fn runs_that_do_not_exist_or_have_ended() {
    let bed = Bed::new();
    for answer in ask_all(&bed, "/v1/runs/r1").await {
        answer.is_problem(404, "no-such-run");
    }
    let path = bed.answered("yes").await;
    let before = bed.all().await;
    let answers = ask_all(&bed, &path).await;
    assert_eq!((answers[0].status, answers[1].status), (StatusCode::OK, StatusCode::OK));
    answers[2].is_problem(409, "ended");
    answers[3].is_problem(409, "ended");
    answers[4].is_problem(409, "not-parked");
    answers[5].is_problem(409, "ended");
    answers[6].is_problem(409, "not-undoing");
    answers[7].is_problem(409, "ended");
    assert_eq!((answers[8].status, &answers[8].body["approvals"]), (StatusCode::OK, &json!([])));
    answers[9].is_problem(409, "ended");
    answers[10].is_problem(409, "not-failed");
    assert_eq!(bed.all().await, before);
}

#[tokio::test(start_paused = true)]
async fn a_full_mailbox_says_when_to_come_again() {
    let bed = Bed::new();
    let path = format!("{}/signals", bed.waiting().await);
    let letter = json!({"name": "answer", "payload": "x"});
    for _ in 0..stepwell_core::limits::MAILBOX_LETTERS_MAX {
        assert_eq!(bed.post_json(&path, &letter).await.status, StatusCode::ACCEPTED);
    }
    let full = bed.post_json(&path, &letter).await;
    full.is_problem(429, "mailbox-full");
    assert_eq!(full.body["remedy"], "retry");
}

#[tokio::test(start_paused = true)]
async fn routes_and_methods_that_do_not_exist() {
    let bed = Bed::new();
    for path in [
        "/",
        "/v1",
        "/v1/runs/",
        "/v1/runs/r1/",
        "/v1/runs/r1/steps",
        "/v1//runs",
        "/v1/runs/r1/../r2/x",
        "/v2/runs",
        "//",
    ] {
        bed.get(path).await.is_problem(404, "no-such-route");
    }
    for (method, path, allowed) in [
        (Method::DELETE, "/v1/runs", "GET,HEAD,POST"),
        (Method::PUT, "/v1/runs/r1", "GET,HEAD"),
        (Method::GET, "/v1/runs/r1/cancel", "POST"),
        (Method::GET, "/v1/runs/r1/effects/x/resolve", "POST"),
        (Method::POST, "/v1/unknowns", "GET,HEAD"),
        (Method::POST, "/v1/approvals", "GET,HEAD"),
        (Method::PUT, "/v1/runs/r1/approvals", "GET,HEAD"),
        (Method::GET, "/v1/runs/r1/approvals/0011223344556677", "POST"),
        (Method::OPTIONS, "/v1/runs/r1/signals", "POST"),
        (Method::POST, "/v1/health", "GET,HEAD"),
    ] {
        let answer = bed.send(request(method, path).body(Body::empty()).unwrap()).await;
        answer.is_problem(405, "wrong-method");
        let sorted = |methods: &str| methods.split(',').map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(sorted(answer.headers["allow"].to_str().unwrap()), sorted(allowed), "{path}");
    }
    assert_eq!(bed.gate.total(), 0);
}

#[tokio::test(start_paused = true)]
async fn hostile_text_is_data() {
    let bed = Bed::new();
    let text = "'; DROP TABLE runs; --<script>alert(1)</script>\u{0}\u{1b}[2J\r\nX-Evil: 1\u{202e}{\"$ne\":1}";
    let started = bed.post_json("/v1/runs", &start(text, 1)).await;
    assert_eq!(started.status, StatusCode::CREATED, "{started:?}");
    bed.settle().await;
    let path = started.headers["location"].to_str().unwrap().to_owned();
    assert_eq!(bed.get(&path).await.body["state"]["text"], text);
    let cancelled = bed.post_json(&format!("{path}/cancel"), &json!({"why": text})).await;
    assert_eq!(cancelled.body["why"], text);
    let other = bed.answered(text).await;
    let shown = bed.get(&other).await;
    assert_eq!(shown.body["detail"]["completed"]["output"], text);
    assert_eq!(shown.headers["content-type"], "application/json");
    assert!(!shown.body.to_string().contains(KEY));
}
