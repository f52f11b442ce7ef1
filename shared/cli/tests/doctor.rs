//! `stepwell doctor` and `stepwell audit` on a folder.

#![allow(clippy::unwrap_used, reason = "a surprise in a test should stop it")]

mod common;

use std::fs;

use common::{Stepwell, names, with_local};
use serde_json::{Value, json};
use stepwell_core::write::{Start, Write, WriteRequest};
use stepwell_core::{Digest, Json, Message, Payload, RunId, Ticket, WorkflowName, WriteId};
use stepwell_local::{Local, Options};
use stepwell_ports::system::SystemClock;
use stepwell_ports::{Clock as _, Envelope};

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

/// Two runs, of which one was altered on disk, and which.
fn with_a_damaged_run() -> (Stepwell, String) {
    let stepwell = Stepwell::new();
    let run = stepwell.start(&["hello", "--input", r#"{"name": "Grace"}"#]);
    stepwell.start(&["hello", "--input", r#"{"name": "Ada"}"#]);
    let database = stepwell.data().join("stepwell.db");
    let mut content = fs::read(&database).unwrap();
    let at = content.windows(5).rposition(|bytes| bytes == b"Grace").unwrap();
    content[at] = b'T';
    fs::write(&database, &content).unwrap();
    (stepwell, run)
}

#[test]
fn a_run_that_is_damaged_is_named_and_the_others_are_read() {
    let (stepwell, run) = with_a_damaged_run();
    let database = stepwell.data().join("stepwell.db");
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

#[test]
fn an_audit_of_runs_that_are_well_gives_their_figures() {
    let stepwell = Stepwell::new();
    stepwell.run(&["audit"]).failed(3, &["no runs in the folder"]);
    let first = stepwell.start(&["hello", "--input", r#"{"name": "Ada"}"#]);
    let worker = stepwell.worker(&[]);
    let ended = stepwell.start(&["hello", "--input", r#"{"name": "Grace"}"#]);
    for run in [&first, &ended] {
        stepwell.wait_for(run, "completed");
    }
    worker.signal("TERM");
    worker.end();
    let ran = stepwell.run(&["audit"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stdout.starts_with("2 runs, ") && ran.stdout.ends_with("nothing is wrong\n"), "{ran:?}");
    let report = stepwell.json(&["audit", "--workflow", "hello", "--grace", "1h"]);
    let well = json!({"runs": 2, "live": 0, "wake": {}, "unknowns": 0, "blobs": 0, "found": 0, "findings": []});
    assert_eq!(report, well);
    stepwell.run(&["audit", "--workflow", "helo"]).failed(3, &["no run of workflow helo was found", "--workflow"]);
    stepwell.run(&["audit", "--grace", "soon"]).failed(2, &["give a time such as"]);
}

#[test]
fn an_audit_finds_a_blob_that_somebody_has_deleted_or_altered() {
    let stepwell = Stepwell::new();
    let long = "x".repeat(10_000);
    let run = stepwell.start(&["hello", "--input", &json!({ "name": long }).to_string()]);
    assert_eq!(stepwell.json(&["audit"])["blobs"], json!(1));
    let dir = stepwell.data().join("blobs").join(&run);
    let blob = dir.join(&names(&dir)[0]);
    fs::write(&blob, "short").unwrap();
    let ran = stepwell.run(&["audit", "--json"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    let finding = &ran.json()["findings"][0];
    assert_eq!(
        (&finding["run"], &finding["code"], &finding["invariant"]),
        (&json!(run), &json!("altered-blob"), &json!(9))
    );
    assert!(finding["remedy"].as_str().unwrap().contains("restore"), "{finding}");
    fs::remove_file(&blob).unwrap();
    let ran = stepwell.run(&["audit"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(
        ran.stdout.contains("missing-blob") && ran.stdout.contains("-> ") && ran.stdout.ends_with("1 finding\n"),
        "{ran:?}"
    );
}

#[test]
fn an_audit_names_a_run_that_is_damaged_and_shows_nothing_of_it() {
    let (stepwell, run) = with_a_damaged_run();
    let ran = stepwell.run(&["audit"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(ran.stdout.contains("unreadable") && ran.stdout.contains(&run), "{ran:?}");
    assert!(ran.stdout.contains("2 runs, 1 not ended") && !ran.stdout.contains("Trace"), "{ran:?}");
}

#[test]
fn an_audit_finds_a_run_that_everybody_has_forgotten() {
    let stepwell = Stepwell::new();
    with_local(&stepwell, async |local| {
        let input = Payload::Inline(Json::of(&json!({"name": "Ada"})).unwrap());
        let start = Start {
            workflow: WorkflowName::new("hello").unwrap(),
            version: 1,
            input,
            input_digest: Digest::of(b"x"),
            step_limit: 9,
        };
        let (run, write) = (RunId::new("forgotten").unwrap(), Write::Start(Box::new(start)));
        let now = stepwell_core::Timestamp(SystemClock.now().0 - 2 * 3_600_000);
        local.store().write(&WriteRequest { run, id: WriteId(1), now, write }).await.unwrap();
    });
    let ran = stepwell.run(&["audit", "--json"]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    let report = ran.json();
    assert_eq!((&report["findings"][0]["code"], &report["found"]), (&json!("forgotten"), &json!(1)));
    assert_eq!(report["wake"], json!({"message": 1}));
    assert_eq!(stepwell.json(&["audit", "--grace", "2h"])["found"], json!(0));
}
