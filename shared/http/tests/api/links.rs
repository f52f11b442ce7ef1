//! Links: a person without an account answers once, a program calls back once, and nobody else does anything.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request};
use serde_json::{Value, json};
use stepwell_core::link::{Link, LinkKeys, Nonce, Target};
use stepwell_core::{Digest, RunId, SignalName, Timestamp, Visit};
use stepwell_http::{Access, Limits, Rate};
use stepwell_testkit::VirtualClock;

use crate::bed::{Bed, KEY, id_of};
use crate::cashier::{BY_LINK, FAY, MAIL, asking};

const SIGNING: &str = "k1=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const START: Timestamp = Timestamp(4_444_444 * 900_000);

fn access() -> Access {
    let keys =
        format!("ann:admin={},{FAY}:approver+finance={}", Digest::of(KEY.as_bytes()), Digest::of(FAY.as_bytes()));
    let access = Access::from_text(&keys).unwrap().with_clock(Arc::new(VirtualClock::starting_at(START)));
    access.with_link_keys(LinkKeys::from_text(SIGNING).unwrap()).with_limits(Limits::none())
}

fn bed() -> Bed {
    Bed::with(access())
}

/// What a browser sees.
struct Page {
    status: u16,
    headers: HeaderMap,
    text: String,
}

async fn send(bed: &Bed, request: Request<Body>) -> Page {
    let (parts, body) = bed.respond(request).await.into_parts();
    let text = String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap();
    Page { status: parts.status.as_u16(), headers: parts.headers, text }
}

async fn open(bed: &Bed, path: &str) -> Page {
    send(bed, Request::get(path).body(Body::empty()).unwrap()).await
}

async fn press(bed: &Bed, path: &str, form: &str) -> Page {
    let request = Request::post(path).header("content-type", "application/x-www-form-urlencoded");
    send(bed, request.body(Body::from(form.to_owned())).unwrap()).await
}

async fn call(bed: &Bed, path: &str, body: &str) -> (u16, Value) {
    let request =
        Request::post(path).header("content-type", "application/json").body(Body::from(body.to_owned())).unwrap();
    let page = send(bed, request).await;
    (page.status, serde_json::from_str(&page.text).unwrap_or_default())
}

/// A run that asks, and the path of a link to answer.
async fn linked(bed: &Bed, note: &str, quorum: u32) -> (String, String, String) {
    let (run, approval) = asking(bed, &format!("{BY_LINK} {note}"), quorum).await;
    let link = link(bed, &approval, json!({ "for": MAIL })).await;
    (run, approval, link)
}

async fn link(bed: &Bed, approval: &str, body: Value) -> String {
    let made = bed.post_json(&format!("{approval}/links"), &body).await;
    assert_eq!(made.status, 201, "{made:?}");
    let url = made.body["url"].as_str().unwrap();
    url.strip_prefix("https://runs.example.com").unwrap_or_else(|| panic!("{url}")).to_owned()
}

#[tokio::test(start_paused = true)]
async fn opening_a_link_shows_what_is_asked_and_changes_nothing() {
    let bed = bed();
    let (_, _, link) = linked(&bed, "worth it", 1).await;
    let before = bed.all().await;
    let page = open(&bed, &link).await;
    assert_eq!(page.status, 200, "{}", page.text);
    for shown in ["refund", "worth it", "90000", MAIL, "2096-", "Approve", "Reject"] {
        assert!(page.text.contains(shown), "{shown}: {}", page.text);
    }
    assert!(!page.text.contains("<script") && !page.text.contains("style="), "{}", page.text);
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert_eq!(
        policy,
        "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    );
    assert_eq!(page.headers["referrer-policy"], "no-referrer");
    assert_eq!(page.headers["cache-control"], "no-store");
    let style = page.text.split("stylesheet\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let style = open(&bed, style).await;
    assert!(style.status == 200 && style.headers["content-type"].to_str().unwrap().starts_with("text/css"));
    // Scanners of mail do all of these.
    for method in [Method::HEAD, Method::GET, Method::OPTIONS, Method::PUT, Method::DELETE] {
        let request = Request::builder().method(method.clone()).uri(&link).body(Body::empty()).unwrap();
        assert!(matches!(send(&bed, request).await.status, 200 | 405), "{method}");
    }
    assert_eq!(bed.all().await, before);
}

#[tokio::test(start_paused = true)]
async fn a_person_without_an_account_answers_once() {
    let bed = bed();
    let (run, approval, link) = linked(&bed, "worth it", 1).await;
    let page = press(&bed, &link, "decision=approve&why=it+is+fair").await;
    assert!(page.status == 200 && page.text.contains("approved"), "{}", page.text);
    let shown = bed.get(&format!("{run}/approvals")).await.body;
    let answer = &shown["approvals"][0]["answers"][0];
    assert_eq!((&answer["by"], &answer["roles"], &answer["answer"]), (&json!(MAIL), &json!([]), &json!("approved")));
    assert_eq!(answer["why"], "by a link that key:ann made: it is fair");
    // The run goes on, and the link does nothing more, neither the same nor the contrary.
    let after = bed.all().await;
    for form in ["decision=approve", "decision=approve&why=it+is+fair", "decision=reject&why=no"] {
        let again = press(&bed, &link, form).await;
        assert!(again.status == 409 && again.text.contains("was used"), "{} {}", again.status, again.text);
    }
    assert_eq!(open(&bed, &link).await.status, 409);
    assert_eq!(call(&bed, &link, r#"{"decision":"approve"}"#).await.1["code"], "link-used");
    // Nor does a second link for the same person.
    bed.post_json(&format!("{approval}/links"), &json!({ "for": MAIL })).await.is_problem(409, "no-links");
    assert_eq!(bed.all().await, after);
    bed.settle().await;
    assert_eq!(bed.get(&run).await.body["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn a_program_answers_in_json() {
    let bed = bed();
    let (_, _, link) = linked(&bed, "worth it", 2).await;
    for (body, code) in [
        ("{}", "misfit"),
        (r#"{"decision": "approve", "by": "key:ann"}"#, "misfit"),
        (r#"{"decision": "reject"}"#, "misfit"),
        (r#"{"decision": "reject", "why": " "}"#, "misfit"),
        ("decision=approve", "not-json"),
    ] {
        let (status, answer) = call(&bed, &link, body).await;
        assert!(answer["code"] == code && (400..500).contains(&status), "{body}: {answer}");
    }
    let (status, answer) = call(&bed, &link, r#"{"decision": "reject", "why": "too much"}"#).await;
    assert_eq!((status, &answer["by"], &answer["answer"]), (200, &json!(MAIL), &json!("rejected")), "{answer}");
    assert_eq!(answer["why"], "by a link that key:ann made: too much");
    let untyped = Request::post(&link).body(Body::from("decision=approve")).unwrap();
    assert_eq!(send(&bed, untyped).await.status, 409, "it was used");
}

#[tokio::test(start_paused = true)]
async fn a_form_that_does_not_fit_changes_nothing() {
    let bed = bed();
    let (_, _, link) = linked(&bed, "worth it", 1).await;
    let before = bed.all().await;
    let long = format!("decision=approve&why={}", "n".repeat(1_000));
    let huge = format!("decision=approve&why={}", "n".repeat(300_000));
    for (form, status) in [
        ("", 422),
        ("decision=maybe", 422),
        ("decision=reject", 422),
        ("decision=reject&why=+", 422),
        ("decision=approve&by=key%3Aann", 422),
        ("decision=approve&decision=reject", 422),
        (&long, 422),
        (&huge, 413),
        ("%ff=%00", 422),
    ] {
        let page = press(&bed, &link, form).await;
        assert_eq!(page.status, status, "{}: {}", &form[..form.len().min(60)], page.text);
    }
    assert_eq!(bed.all().await, before);
}

#[tokio::test(start_paused = true)]
async fn links_are_made_for_whom_the_approval_names_where_the_workflow_allows_it() {
    let bed = bed();
    let (_, approval) = asking(&bed, "by hand", 1).await;
    bed.post_json(&format!("{approval}/links"), &json!({ "for": "key:ann" })).await.is_problem(409, "no-links");
    let (_, approval) = asking(&bed, &format!("{BY_LINK} x"), 1).await;
    for stranger in ["", "eve@example.org", "finance", "role finance", "BEA@example.org"] {
        bed.post_json(&format!("{approval}/links"), &json!({ "for": stranger })).await.is_problem(409, "no-links");
    }
    for (body, code) in [
        (json!({}), "misfit"),
        (json!({"for": MAIL, "expires_in_seconds": 0}), "misfit"),
        (json!({"for": MAIL, "expires_in_seconds": -1}), "misfit"),
        (json!({"for": MAIL, "run": "r1"}), "misfit"),
    ] {
        bed.post_json(&format!("{approval}/links"), &body).await.is_problem(422, code);
    }
    let elsewhere = approval.rsplit_once('/').unwrap().0;
    let elsewhere = format!("{elsewhere}/0011223344556677/links");
    bed.post_json(&elsewhere, &json!({ "for": MAIL })).await.is_problem(404, "no-such-approval");
    // It never outlives what it is for.
    let of = async |body: Value| bed.post_json(&format!("{approval}/links"), &body).await.body["expires_at"].clone();
    let (whole, long, short) = (
        of(json!({ "for": MAIL })).await,
        of(json!({"for": MAIL, "expires_in_seconds": u64::MAX})).await,
        of(json!({"for": MAIL, "expires_in_seconds": 60})).await,
    );
    assert!(whole == long && short.as_str() < whole.as_str(), "{whole} {long} {short}");
    let unsigned = Bed::with(crate::cashier::access());
    let (_, approval) = asking(&unsigned, &format!("{BY_LINK} x"), 1).await;
    unsigned.post_json(&format!("{approval}/links"), &json!({ "for": MAIL })).await.is_problem(409, "no-links");
}

#[tokio::test(start_paused = true)]
async fn what_was_altered_has_expired_or_is_of_another_run_does_nothing() {
    let bed = bed();
    let (_, approval, one) = linked(&bed, "one", 1).await;
    let (_, _, other) = linked(&bed, "other", 1).await;
    let short = link(&bed, &approval, json!({"for": MAIL, "expires_in_seconds": 60})).await;
    let before = bed.all().await;
    let parts = |path: &str| path["/links/".len()..].split('.').map(str::to_owned).collect::<Vec<_>>();
    let (of_one, of_other) = (parts(&one), parts(&other));
    let elsewhere = LinkKeys::from_text(&SIGNING.replace("k1=00", "k1=ff")).unwrap();
    let link =
        |target: Target| Link { run: id_of("r1"), target, expires: Timestamp(u64::MAX), nonce: Nonce::of([1; 16]) };
    let signal = || Target::Signal { name: SignalName::new("change").unwrap(), visit: Visit(0) };
    for path in [
        format!("/links/{}.{}.{}", of_one[0], of_other[1], of_one[2]),
        format!("/links/{}.{}.{}", of_one[0], of_one[1], of_other[2]),
        format!("/links/k2.{}.{}", of_one[1], of_one[2]),
        one[..one.len() - 1].to_owned(),
        format!("{one}%00"),
        "/links/x".into(),
        format!("/links/{}", "A".repeat(10_000)),
        format!("/links/{}", elsewhere.sign(&link(signal())).unwrap()),
    ] {
        let (shown, pressed) = (open(&bed, &path).await, press(&bed, &path, "decision=approve").await);
        assert_eq!((shown.status, pressed.status), (403, 403), "{path}");
        assert_eq!(call(&bed, &path, r#"{"decision":"approve"}"#).await.1["code"], "bad-link", "{path}");
        assert!(!shown.text.contains(&of_one[1][..40]) && !pressed.text.contains("refund"), "{}", shown.text);
    }
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!((open(&bed, &short).await.status, press(&bed, &short, "decision=approve").await.status), (410, 410));
    assert_eq!(call(&bed, &short, r#"{"decision":"approve"}"#).await.1["code"], "link-expired");
    assert_eq!(bed.all().await, before);
    assert_eq!(open(&bed, &one).await.status, 200);
    // With the approval, the longest of its links has expired too.
    tokio::time::advance(Duration::from_hours(72)).await;
    assert_eq!((open(&bed, &one).await.status, press(&bed, &one, "decision=approve").await.status), (410, 410));
    assert_eq!(bed.all().await, before);
}

#[tokio::test(start_paused = true)]
async fn nobody_decides_by_link_what_is_no_longer_asked() {
    let bed = bed();
    let (run, approval, link) = linked(&bed, "one", 1).await;
    assert_eq!(bed.post_as(FAY, &approval, &json!({"decision": "reject", "why": "no"})).await.status, 200);
    assert_eq!((open(&bed, &link).await.status, press(&bed, &link, "decision=approve").await.status), (410, 410));
    bed.settle().await;
    assert_ne!(bed.get(&run).await.body["status"], "completed");
    let (run, _, link) = linked(&bed, "two", 1).await;
    assert_eq!(
        bed.post_json(&format!("{run}/signals"), &json!({"name": "change", "payload": "by link three"})).await.status,
        202
    );
    bed.settle().await;
    let replaced = press(&bed, &link, "decision=approve").await;
    assert_eq!(replaced.status, 410, "{}", replaced.text);
    let (run, _, link) = linked(&bed, "four", 1).await;
    assert_eq!(bed.post_json(&format!("{run}/cancel"), &json!({"why": "enough"})).await.status, 200);
    assert_eq!((open(&bed, &link).await.status, press(&bed, &link, "decision=approve").await.status), (410, 410));
    // A link to what was asked in other words, or by somebody whom nobody names, was never given out; were it, it would do nothing.
    let (run, approval, _) = linked(&bed, "five", 1).await;
    let keys = LinkKeys::from_text(SIGNING).unwrap();
    let id = stepwell_core::ApprovalId::parse(approval.rsplit('/').next().unwrap()).unwrap();
    let forged = |fingerprint: Digest, person: &str, run: RunId| {
        let target = Target::Approval { id: id.clone(), fingerprint, person: person.into(), maker: "key:ann".into() };
        let link = Link { run, target, expires: Timestamp(u64::MAX), nonce: Nonce::of([1; 16]) };
        format!("/links/{}", keys.sign(&link).unwrap())
    };
    let shown = bed.get(&format!("{run}/approvals")).await.body;
    let fingerprint: Digest = serde_json::from_value(shown["approvals"][0]["fingerprint"].clone()).unwrap();
    let before = bed.all().await;
    for (link, status) in [
        (forged(Digest::of(b"else"), MAIL, id_of(&run)), 410),
        (forged(fingerprint, "eve@example.org", id_of(&run)), 403),
        (forged(fingerprint, "role finance", id_of(&run)), 403),
        (forged(fingerprint, MAIL, id_of("nowhere")), 410),
    ] {
        assert_eq!(
            (open(&bed, &link).await.status, press(&bed, &link, "decision=approve").await.status),
            (status, status)
        );
    }
    assert_eq!(bed.all().await, before);
}

#[tokio::test(start_paused = true)]
async fn hostile_text_is_shown_as_text() {
    let bed = bed();
    let note =
        "<script>alert(1)</script> \"' & \u{202e}tfel\u{0} </pre><form action=//evil> ".to_owned() + &"x".repeat(2_000);
    let (_, _, link) = linked(&bed, &note, 1).await;
    let page = open(&bed, &link).await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{}", page.text);
    for bad in ["<script", "<form action", "\u{202e}", "\0"] {
        assert!(!page.text.contains(bad), "{bad:?}: {}", page.text);
    }
    assert_eq!((page.text.matches("<form").count(), page.text.matches("</pre>").count()), (1, 1));
    assert!(page.text.contains(r"\u202etfel\u0000"), "{}", page.text);
    let why = "why=%3Cimg+src%3Dx+onerror%3Dalert%281%29%3E%00%E2%80%AE";
    let page = press(&bed, &link, &format!("decision=approve&{why}")).await;
    assert!(page.status < 500 && !page.text.contains("<img") && !page.text.contains('\0'), "{}", page.text);
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_to_be_read_there_is_not_decided_there() {
    let bed = bed();
    let (_, _, link) = linked(&bed, &"x".repeat(300_000), 1).await;
    let before = bed.all().await;
    assert_eq!((open(&bed, &link).await.status, press(&bed, &link, "decision=approve").await.status), (409, 409));
    assert_eq!(bed.all().await, before);
    // What lies apart but can be read is shown whole.
    let (_, _, link) = linked(&bed, &"y".repeat(100_000), 1).await;
    let page = open(&bed, &link).await;
    assert!(page.status == 200 && page.text.contains(&"y".repeat(100_000)));
}

/// What is stored of the run: a signal that comes again may wake it again, which changes nothing.
async fn run_alone(bed: &Bed) -> String {
    bed.all().await.split_once('\n').unwrap().1.to_owned()
}

/// The path of a link that sends the signal that the desk waits for.
fn callback(run: &str, name: &str, visit: u64, nonce: u8) -> String {
    let target = Target::Signal { name: SignalName::new(name).unwrap(), visit: Visit(visit) };
    let expires = START.plus(Duration::from_hours(100));
    let link = Link { run: id_of(run), target, expires, nonce: Nonce::of([nonce; 16]) };
    format!("/links/{}", LinkKeys::from_text(SIGNING).unwrap().sign(&link).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_program_calls_back_once() {
    let bed = bed();
    let path = bed.waiting().await;
    let link = callback(&path, "answer", 0, 1);
    let before = bed.all().await;
    assert_eq!(open(&bed, &link).await.status, 200);
    for (body, status) in [("", 400), ("{", 400), ("yes", 400)] {
        assert_eq!(call(&bed, &link, body).await.0, status, "{body}");
    }
    let untyped = Request::post(&link).body(Body::from(r#""yes""#)).unwrap();
    assert_eq!(send(&bed, untyped).await.status, 415);
    assert_eq!(bed.all().await, before);
    let (status, sent) = call(&bed, &link, r#""yes""#).await;
    assert_eq!((status, &sent["new"], &sent["signal"]), (202, &json!(true), &json!("answer")), "{sent}");
    let after = run_alone(&bed).await;
    // One that was cut off and comes again is told that it has arrived; another one in its place is not taken.
    assert_eq!(call(&bed, &link, r#""yes""#).await.1["new"], false);
    assert_eq!(call(&bed, &link, r#""no""#).await.1["code"], "signal-conflict");
    assert_eq!(press(&bed, &link, "payload=%22yes%22").await.status, 409);
    assert_eq!(run_alone(&bed).await, after);
    bed.settle().await;
    assert_eq!(bed.get(&path).await.body["status"], "completed");
    assert_eq!((open(&bed, &link).await.status, call(&bed, &link, r#""yes""#).await.0), (410, 410));
}

#[tokio::test(start_paused = true)]
async fn a_callback_is_good_for_its_visit_and_the_next() {
    let bed = bed();
    let path = bed.waiting().await;
    let visit = bed.get(&path).await.body;
    let before = bed.all().await;
    // The desk waits in the visit after the one in which it was asked.
    for late in [2, 3, u64::MAX] {
        assert_eq!(call(&bed, &callback(&path, "answer", late, 2), r#""yes""#).await.0, 410, "{late}: {visit}");
    }
    let unknown = call(&bed, &callback(&path, "no-such", 1, 3), r#""yes""#).await;
    assert_eq!((unknown.0, &unknown.1["code"]), (422, &json!("unknown-signal")));
    assert_eq!(bed.all().await, before);
    assert_eq!(press(&bed, &callback(&path, "answer", 1, 4), "payload=%22turn%22").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn links_have_a_measure_of_their_own() {
    let limits = Limits { links: Some(Rate::new(2, Duration::from_secs(10))), ..Limits::none() };
    let bed = Bed::with(access().with_limits(limits));
    let (_, _, link) = linked(&bed, "worth it", 1).await;
    assert_eq!((open(&bed, &link).await.status, open(&bed, &link).await.status), (200, 200));
    let page = press(&bed, &link, "decision=approve").await;
    assert!(page.status == 429 && page.headers.contains_key("retry-after"), "{}", page.text);
    assert_eq!(bed.get("/v1/runs").await.status, 200);
    tokio::time::advance(Duration::from_secs(11)).await;
    assert_eq!(press(&bed, &link, "decision=approve").await.status, 200);
}
