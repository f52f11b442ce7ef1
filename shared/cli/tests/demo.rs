//! `stepwell demo`, as `make run` and `make crash` run it: with nobody at a terminal.

#![allow(clippy::unwrap_used, reason = "a surprise in a test should stop it")]

mod common;

use common::{Service, Stepwell, finish, names, program};
use serde_json::{Value, json};

/// What both demos promise.
fn completed(summary: &Value) {
    assert_eq!(summary["status"], "completed", "{summary}");
    assert_eq!(summary["problems"], json!([]), "{summary}");
    assert_eq!(summary["mails_delivered"], 1, "{summary}");
    // Three vendors, a draft, a decision, a mail.
    assert_eq!(summary["steps"], 6, "{summary}");
    assert_eq!((&summary["effects_made"], &summary["effects_skipped"]), (&json!(5), &json!(0)), "{summary}");
    assert_eq!(summary["written_by"], "template, offline", "{summary}");
    assert!(summary["bytes_written"].as_u64().unwrap() > 1_000, "{summary}");
    assert!(summary["seconds"].as_f64().unwrap() > 0.0, "{summary}");
}

#[test]
fn it_completes_with_one_mail_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo = program(dir.path());
    demo.args(["demo", "--json"]);
    let ran = finish(demo, "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let summary = ran.json();
    completed(&summary);
    assert_eq!((&summary["mails_requested"], &summary["crashed"]), (&json!(1), &json!(false)), "{summary}");
    assert_eq!(summary["data"], Value::Null);
    assert_eq!(names(dir.path()), Vec::<String>::new(), "the temporary folder should be gone");
    for told in ["Research", "Draft", "Decide", "Send", "nobody is at a terminal", "approved = true"] {
        assert!(ran.stderr.contains(told), "{told}: {}", ran.stderr);
    }
}

#[test]
fn a_killed_worker_costs_a_second_request_and_no_second_mail() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo = program(dir.path());
    demo.args(["demo", "--crash", "--json"]);
    let ran = finish(demo, "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let summary = ran.json();
    completed(&summary);
    assert_eq!((&summary["mails_requested"], &summary["crashed"]), (&json!(2), &json!(true)), "{summary}");
    assert!(ran.stderr.contains("killed the worker with SIGKILL"), "{}", ran.stderr);
    assert_eq!(names(dir.path()), Vec::<String>::new(), "the temporary folder should be gone");
}

#[test]
fn a_terminal_that_closes_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo = program(dir.path());
    demo.args(["demo", "--crash"]);
    // From here on it waits for the dead worker's lease.
    let demo = Service::start_until(demo, "killed the worker");
    demo.signal("HUP");
    demo.end().failed(1, &["error[stopped]"]);
    assert_eq!(names(dir.path()), Vec::<String>::new(), "the temporary folder should be gone");
}

#[test]
fn a_kept_folder_can_be_looked_at() {
    let stepwell = Stepwell::new();
    let ran = stepwell.run(&["demo", "--vendors", "1"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("kept in") && ran.stdout.contains("1 requested, 1 delivered"), "{}", ran.stdout);
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stderr.contains('\u{1b}'), "colours belong on a terminal only");

    let listed = stepwell.json(&["list"]);
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1);
    let shown = stepwell.json(&["show", listed["runs"][0]["run"].as_str().unwrap(), "--history"]);
    assert_eq!(shown["status"], "completed");
    let steps: Vec<&str> =
        shown["history"].as_array().unwrap().iter().map(|entry| entry["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["Research", "Draft", "Decide", "Send"]);
    let log = std::fs::read_to_string(stepwell.data().join("worker.log")).unwrap();
    assert!(log.contains("is ready") && log.contains("has worked on"), "{log}");
}

#[test]
fn keep_keeps_the_temporary_folder_and_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo = program(dir.path());
    demo.args(["demo", "--keep", "--vendors", "1", "--json"]);
    let summary = finish(demo, "").json();
    let kept = names(dir.path());
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert_eq!(summary["data"], json!(dir.path().join(&kept[0])));
}
