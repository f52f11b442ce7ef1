//! Large values: blobs and logs.

use serde_json::json;
use stepwell::host::{ErrorMeans, HostError};
use stepwell::prelude::*;
use stepwell_core::{LogId, ParkReason};

use crate::host::{Asked, FakeHost, json, means};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Finding {
    vendor: String,
    price: Option<u32>,
}

/// The log as the state of a later step has it.
fn stored<T: serde::de::DeserializeOwned>(len: u64) -> Log<T> {
    serde_json::from_value(json!({"log": 1, "len": len})).unwrap()
}

/// A host whose log 1 holds 0, 1, 2, …
fn counting(len: u64) -> std::sync::Arc<FakeHost> {
    let host = FakeHost::new();
    host.store_log(LogId(1), (0..len).map(|number| json(&json!(number))));
    host
}

fn parked(error: StepError) -> String {
    match means(error) {
        ErrorMeans::Park(ParkReason::Data { what }) => what,
        other => panic!("somebody has to look: {other:?}"),
    }
}

#[tokio::test]
async fn a_blob_is_read_as_what_was_stored() {
    let host = FakeHost::new();
    let cx = host.cx();
    let finding = Finding { vendor: "a".into(), price: Some(5) };
    let whole: Blob<Finding> = cx.blob(&finding).await.unwrap();
    let text: Blob<String> = cx.blob("borrowed text").await.unwrap();
    let list: Blob<Vec<u8>> = cx.blob(&[1_u8, 2, 3][..]).await.unwrap();
    assert_eq!(cx.load(&whole).await.unwrap(), finding);
    assert_eq!(cx.load(&text).await.unwrap(), "borrowed text");
    assert_eq!(cx.load(&list).await.unwrap(), [1, 2, 3]);
    assert_eq!(list.size(), "[1,2,3]".len() as u64);
    assert_eq!(cx.recorded().used().bytes, whole.size() + text.size() + list.size());

    // The state only has the reference, and it leads there in a later step.
    let state = serde_json::to_string(&text).unwrap();
    assert!(!state.contains("borrowed"), "{state}");
    let text: Blob<String> = serde_json::from_str(&state).unwrap();
    assert_eq!(host.cx().load(&text).await.unwrap(), "borrowed text");
}

#[tokio::test]
async fn a_blob_that_is_missing_or_does_not_fit_parks_the_run() {
    let host = FakeHost::new();
    let cx = host.cx();
    let text: Blob<String> = cx.blob("text").await.unwrap();
    let as_number: Blob<u8> = serde_json::from_value(json!(text)).unwrap();
    let what = parked(cx.load(&as_number).await.unwrap_err());
    assert!(what.starts_with("blob run-1/") && what.contains("does not fit"), "{what}");

    host.lose_blobs();
    let what = parked(cx.load(&text).await.unwrap_err());
    assert!(what.starts_with("blob run-1/") && what.ends_with("is missing"), "{what}");
}

#[tokio::test]
async fn a_blob_store_that_is_away_for_a_while_costs_an_attempt() {
    let host = FakeHost::new();
    let cx = host.cx();
    host.be_in_trouble(HostError::Passing("throttled".into()));
    let stored: Result<Blob<String>, StepError> = cx.blob("text").await;
    assert!(matches!(means(stored.unwrap_err()), ErrorMeans::Retry { .. }));
}

#[tokio::test]
async fn a_log_is_read_from_its_first_entry_to_those_of_this_step() {
    let host = FakeHost::new();
    let finding = |vendor: &str| Finding { vendor: vendor.into(), price: None };
    let entries = ["a", "b"].map(|vendor| json(&json!(finding(vendor))));
    host.store_log(LogId(1), entries);
    let mut log = stored::<Finding>(2);
    log.push(finding("c"));
    assert_eq!(log.len(), 3);
    assert_eq!(host.cx().read(&log).await.unwrap(), ["a", "b", "c"].map(finding));
}

#[tokio::test]
async fn only_what_the_state_counts_is_part_of_a_log() {
    // The third entry was stored by an attempt whose commit was refused.
    let host = counting(3);
    let mut log = stored::<u64>(2);
    log.push(9);
    assert_eq!(host.cx().read(&log).await.unwrap(), [0, 1, 9]);
}

#[tokio::test]
async fn a_log_that_was_never_stored_asks_for_nothing() {
    let host = FakeHost::new();
    let mut log = Log::new();
    assert_eq!(host.cx().read(&log).await.unwrap(), [0_u8; 0]);
    log.push(1_u8);
    assert_eq!(host.cx().read_last(&log, 5).await.unwrap(), [1]);
    assert_eq!(host.asked(), []);
}

#[tokio::test]
async fn the_last_entries_are_read_without_the_ones_before() {
    let host = counting(10);
    let mut log = stored::<u64>(10);
    log.push(10);
    log.push(11);
    for (count, expected) in [(0, 12..12), (1, 11..12), (2, 10..12), (3, 9..12), (12, 0..12), (99, 0..12)] {
        let cx = host.cx();
        assert_eq!(cx.read_last(&log, count).await.unwrap(), expected.collect::<Vec<_>>(), "the last {count}");
    }
    assert_eq!(host.asked()[0], Asked::Log { first: 9, count: 1 }, "pending entries are not asked for");
}

#[tokio::test]
async fn a_long_log_is_read_in_pages() {
    let host = counting(2_500);
    let read = host.cx().read(&stored::<u64>(2_500)).await.unwrap();
    assert_eq!(read, (0..2_500).collect::<Vec<_>>());
    let pages = [(0, 1_000), (1_000, 1_000), (2_000, 500)].map(|(first, count)| Asked::Log { first, count });
    assert_eq!(host.asked(), pages);
}

#[tokio::test]
async fn an_entry_that_is_missing_or_does_not_fit_parks_the_run() {
    let host = counting(2);
    let what = parked(host.cx().read(&stored::<u64>(3)).await.unwrap_err());
    assert!(what.contains("log 1 has no entries"), "{what}");

    host.store_log(LogId(1), [json(&json!("two"))]);
    let what = parked(host.cx().read_last(&stored::<u64>(3), 1).await.unwrap_err());
    assert!(what.starts_with("entry 2 of log 1 does not fit"), "{what}");
}
