//! A workflow gives its secret away in every way it can, on the AWS backend. Then every item of the table, every object, every message,
//! every page of the API and every event of the log is searched for it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

#[path = "../../../shared/engine/tests/secrets/leaks.rs"]
mod leaks;

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use leaks::{check, leak_all};
use stepwell_core::Digest;
use stepwell_engine::{Client, Ports};
use stepwell_http::{Access, Api, Site};
use stepwell_localaws::{Emulators, Resources};
use stepwell_ports::ListQuery;
use stepwell_ports::system::SystemClock;
use stepwell_testkit::{Capture, SeededIds};
use tower::ServiceExt;

const KEY: &str = "a key for this machine only";

type Written = Vec<(String, Vec<u8>)>;

async fn items(made: &Resources) -> Written {
    let mut pages = made.dynamodb.scan().table_name(&made.settings.table).into_paginator().items().send();
    let mut found = Vec::new();
    while let Some(item) = pages.next().await {
        let item = item.unwrap();
        // Texts and bytes as they are, without the escapes of a debugger.
        for (name, value) in item {
            let bytes = match (value.as_s(), value.as_b()) {
                (Ok(text), _) => text.clone().into_bytes(),
                (_, Ok(blob)) => blob.as_ref().to_vec(),
                _ => format!("{value:?}").into_bytes(),
            };
            found.push((format!("item attribute {name}"), bytes));
        }
    }
    found
}

async fn objects(made: &Resources) -> Written {
    let bucket = &made.settings.bucket;
    let listed = made.s3.list_objects_v2().bucket(bucket).send().await.unwrap();
    let mut found = Vec::new();
    for object in listed.contents.unwrap_or_default() {
        let key = object.key.unwrap();
        let got = made.s3.get_object().bucket(bucket).key(&key).send().await.unwrap();
        found.push((format!("object {key}"), got.body.collect().await.unwrap().to_vec()));
    }
    found
}

async fn messages(made: &Resources) -> Written {
    let mut found = Vec::new();
    for url in [&made.settings.queue_url, &made.settings.dead_letter_url] {
        let got = made.sqs.receive_message().queue_url(url).max_number_of_messages(10).send().await.unwrap();
        let messages = got.messages.unwrap_or_default().into_iter();
        found.extend(messages.map(|message| ("message".to_owned(), format!("{message:?}").into_bytes())));
    }
    found
}

/// What the API shows of every run.
async fn pages(ports: Ports) -> Written {
    let query = ListQuery { limit: 100, ..ListQuery::default() };
    let runs = ports.store.list(&query).await.unwrap().items;
    let access = Access::from_text(&format!("ann:viewer={}", Digest::of(KEY.as_bytes()))).unwrap();
    let client = Client::new(ports, Arc::new(leaks::registry()));
    let router = stepwell_http::router(Api { client, access, site: Site::default() });
    let mut found = Vec::new();
    let of_runs =
        runs.iter().flat_map(|run| ["", "/history", "/approvals"].map(|part| format!("/v1/runs/{}{part}", run.run)));
    for path in of_runs.chain(["/v1/runs", "/v1/unknowns", "/v1/approvals"].map(str::to_owned)) {
        let request = Request::get(&path).header("x-api-key", KEY).body(Body::empty()).unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        found.push((path, to_bytes(answer.into_body(), usize::MAX).await.unwrap().to_vec()));
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_secret_covers_reaches_aws() {
    let log = Capture::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let panics = Capture::default();
    let printed = panics.clone();
    std::panic::set_hook(Box::new(move |panic| printed.write(panic)));
    let emulators = Emulators::start();
    let made = Resources::make(&emulators).await;
    let ports = Ports {
        store: made.aws.store(),
        queue: made.aws.queue(),
        blobs: made.aws.blobs(),
        clock: Arc::new(SystemClock),
        ids: Arc::new(SeededIds::new(1)),
    };
    let told = leak_all(ports.clone()).await;
    drop(std::panic::take_hook());

    let mut written = items(&made).await;
    assert!(written.len() > 100, "the table was not read: {} attributes", written.len());
    written.extend(objects(&made).await);
    written.extend(messages(&made).await);
    written.extend(pages(ports).await);
    assert!(log.text().contains("turn ended"), "the log was not captured");
    written.push(("log".into(), log.text().into_bytes()));
    written.push(("panics".into(), panics.text().into_bytes()));
    check(&told, &written);
}
