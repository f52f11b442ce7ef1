//! Taking signals out of the mailbox.

use serde_json::json;
use stepwell::LinkKeys;
use stepwell::host::ErrorMeans;
use stepwell::prelude::*;
use stepwell_core::link::Target;
use stepwell_core::{Failure, FailureKind, ParkReason, Visit};

use crate::host::{FakeHost, inline, letter, means};

const FEEDBACK: Signal<String> = Signal::new("feedback");
const REVIEW: Signal<Review> = Signal::new("review");

#[derive(Debug, PartialEq, Deserialize)]
struct Review {
    remarks: Vec<Remark>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Remark {
    line: u32,
}

#[tokio::test]
async fn signals_of_one_kind_are_taken_in_the_order_of_their_arrival() {
    let cx = FakeHost::new().visit(|visiting| {
        visiting.letters = vec![
            letter("s1", "review", inline(&json!({"remarks": []}))),
            letter("s2", "feedback", inline(&json!("first"))),
            letter("s3", "feedback", inline(&json!("second"))),
        ];
    });
    assert_eq!(cx.take(FEEDBACK).await.unwrap().as_deref(), Some("first"));
    assert_eq!(cx.take(FEEDBACK).await.unwrap().as_deref(), Some("second"));
    assert_eq!(cx.take(FEEDBACK).await.unwrap(), None);
    let recorded = cx.recorded();
    assert_eq!(recorded.taken().iter().map(ToString::to_string).collect::<Vec<_>>(), ["s2", "s3"]);
}

#[tokio::test]
async fn what_an_attempt_took_is_there_for_the_next_one() {
    let host = FakeHost::new();
    for _ in 0..2 {
        let cx = host.visit(|visiting| visiting.letters = vec![letter("s1", "feedback", inline(&json!("again")))]);
        assert_eq!(cx.take(FEEDBACK).await.unwrap().as_deref(), Some("again"));
    }
}

#[tokio::test]
async fn an_empty_mailbox_has_nothing_to_take() {
    let cx = FakeHost::new().cx();
    assert_eq!(cx.take(FEEDBACK).await.unwrap(), None);
    assert!(cx.recorded().taken().is_empty());
}

#[tokio::test]
async fn a_payload_that_does_not_fit_names_the_field_and_ends_the_run() {
    let payload = inline(&json!({"remarks": [{"line": 1}, {"line": "two"}]}));
    let cx = FakeHost::new().visit(|visiting| visiting.letters = vec![letter("s1", "review", payload)]);
    let ErrorMeans::Fail(Failure { kind: FailureKind::Terminal, message, .. }) =
        means(cx.take(REVIEW).await.unwrap_err())
    else {
        panic!("no retry helps")
    };
    assert!(message.starts_with("signal review (s1) does not fit at `remarks[1].line`: invalid type"), "{message}");
}

#[tokio::test]
async fn a_large_payload_is_read_from_its_blob() {
    let host = FakeHost::new();
    let payload = host.shelve(r#"{"remarks": [{"line": 3}]}"#);
    let cx = host.visit(|visiting| visiting.letters = vec![letter("s1", "review", payload.clone())]);
    assert_eq!(cx.take(REVIEW).await.unwrap(), Some(Review { remarks: vec![Remark { line: 3 }] }));

    host.lose_blobs();
    let cx = host.visit(|visiting| visiting.letters = vec![letter("s1", "review", payload)]);
    let ErrorMeans::Park(ParkReason::Data { what }) = means(cx.take(REVIEW).await.unwrap_err()) else {
        panic!("somebody has to look")
    };
    assert!(what.contains("is missing"), "{what}");
}

#[tokio::test]
async fn a_callback_url_is_for_this_run_visit_and_signal_and_the_same_signal_each_time() {
    let keys = LinkKeys::from_text(&format!("k1={}", "5e".repeat(32))).unwrap();
    let host = FakeHost::new();
    let link = |visit: u64, signal: Signal<String>| {
        let cx = host.visit(|visiting| visiting.visit = Visit(visit));
        let url = cx.callback_url(&keys, "https://runs.example.com/", signal, hours(1)).unwrap();
        let token = url.strip_prefix("https://runs.example.com/links/").unwrap().to_owned();
        let link = keys.verify(&token, cx.now()).unwrap();
        assert_eq!((&link.run, link.expires), (cx.run(), cx.now().plus(hours(1))));
        assert!(keys.verify(&token, link.expires).is_err(), "it expires");
        link
    };
    let first = link(3, FEEDBACK);
    assert!(matches!(&first.target, Target::Signal { name, visit: Visit(3) } if name.as_str() == "feedback"));
    assert_eq!(first, link(3, FEEDBACK), "an attempt that is repeated makes the very same one");
    for other in [link(4, FEEDBACK), link(3, Signal::new("other"))] {
        assert_ne!(first.signal_id().unwrap(), other.signal_id().unwrap());
    }
}
