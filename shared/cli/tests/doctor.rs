//! `stepwell doctor` on a folder.

#![allow(clippy::unwrap_used, reason = "a surprise in a test should stop it")]

mod common;

use std::fs;

use common::{Stepwell, names};
use serde_json::{Value, json};
use stepwell_core::{Message, RunId, Ticket};
use stepwell_local::{Local, Options};
use stepwell_ports::Envelope;
use stepwell_ports::system::SystemClock;

const MINUTE: std::time::Duration = std::time::Duration::from_mins(1);

/// Each finding of this report, by its check.
fn status(report: &Value, check: &str) -> Vec<Value> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings.filter(|finding| finding["check"] == check).map(|finding| finding["status"].clone()).collect()
}

#[test]
fn a_folder_that_is_well() {
    let stepwell = Stepwell::new();
    stepwell.start(&["hello", "--input", r#"{"name": "Ada"}"#]);
    let ran = stepwell.run(&["doctor"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("1 run read and sound"), "{ran:?}");
    assert!(ran.stdout.ends_with("0 to mend, 0 to think about, 0 not seen, 4 as they should be\n"), "{ran:?}");
    let report = stepwell.json(&["doctor"]);
    assert_eq!(report["status"], json!("ok"));
    assert_eq!(
        report["findings"][1],
        json!({"check": "runs", "status": "ok",
        "found": "1 run read and sound; logs, histories and blobs were not read", "mend": null})
    );
    assert_eq!(names(&stepwell.data().join("blobs")), Vec::<String>::new(), "nothing is left behind");
}

#[tokio::test]
async fn a_message_that_was_given_up_is_a_warning() {
    let stepwell = Stepwell::new();
    let local = Local::open(&stepwell.data(), std::sync::Arc::new(SystemClock), Options::default()).unwrap();
    let message = Message { run: RunId::new("r1").unwrap(), ticket: Ticket(1) };
    local.queue().send(&[Envelope { message, delay: std::time::Duration::ZERO }]).await.unwrap();
    let got = local.queue().receive(1, MINUTE, MINUTE).await.unwrap();
    local.queue().bury(&got[0], "no such run").await.unwrap();
    drop(local);
    let report = stepwell.json(&["doctor"]);
    assert_eq!((&report["status"], status(&report, "dead-letters")), (&json!("warn"), vec![json!("warn")]));
    let ran = stepwell.run(&["doctor"]);
    assert!(ran.stdout.contains("1 message given up") && ran.stdout.contains("`stepwell dead-letters`"), "{ran:?}");
}

#[test]
fn a_run_that_is_damaged_is_named_and_the_others_are_read() {
    let stepwell = Stepwell::new();
    let run = stepwell.start(&["hello", "--input", r#"{"name": "Grace"}"#]);
    stepwell.start(&["hello", "--input", r#"{"name": "Ada"}"#]);
    let database = stepwell.data().join("stepwell.db");
    let mut content = fs::read(&database).unwrap();
    let at = content.windows(5).rposition(|bytes| bytes == b"Grace").unwrap();
    content[at] = b'T';
    fs::write(&database, &content).unwrap();
    let ran = stepwell.run(&["doctor", "--json"]);
    assert_eq!(ran.code, Some(5), "{ran:?}");
    let report = ran.json();
    assert_eq!(report["status"], json!("fail"));
    assert_eq!(status(&report, "runs"), [json!("fail"), json!("ok")]);
    let finding = &report["findings"][1];
    assert!(finding["found"].as_str().unwrap().contains(&run) && finding["mend"].is_string(), "{report}");
    assert!(report["findings"][2]["found"].as_str().unwrap().starts_with("1 run read and sound"), "{report}");

    fs::write(&database, b"").unwrap();
    let ran = stepwell.run(&["doctor", "--json"]);
    assert_eq!((ran.code, status(&ran.json(), "folder")), (Some(5), vec![json!("fail")]));
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_that_takes_no_blob_fails() {
    let stepwell = Stepwell::new();
    stepwell.start(&["hello", "--input", r#"{"name": "Ada"}"#]);
    let blobs = stepwell.data().join("blobs");
    fs::remove_dir(&blobs).unwrap();
    // Nobody, the superuser among them, can make a file there.
    std::os::unix::fs::symlink("/proc", &blobs).unwrap();
    let ran = stepwell.run(&["doctor", "--json"]);
    assert_eq!((ran.code, status(&ran.json(), "disk")), (Some(5), vec![json!("fail")]), "{ran:?}");
}
