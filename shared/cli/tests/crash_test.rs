//! `stepwell crash-test`: the matrix of a sample, each world with an outside of its own.

#![allow(clippy::unwrap_used, reason = "a surprise in a test should stop it")]

mod common;

use common::Stepwell;
use serde_json::json;

const BRIEF: [&str; 6] = [
    "crash-test",
    "competitive-brief",
    "--input",
    r#"{"goal": "choose", "vendors": ["velloria"], "to": "board@example.com"}"#,
    "--signal",
    r#"approval={"approved": true, "by": "ann"}"#,
];

#[test]
fn a_sample_that_keeps_what_it_declares() {
    let stepwell = Stepwell::new();
    let args = ["crash-test", "refund", "--input", r#"{"order": "sofa-90000", "reason": "broken"}"#, "--approve"];
    let ran = stepwell.run(&args);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert!(ran.stdout.starts_with("crash test of workflow refund: "), "{ran:?}");
    assert!(ran.stdout.ends_with("\nno surprises\n"), "{ran:?}");
    assert!(!stepwell.data().exists(), "no folder of runs is touched");

    let report = stepwell.json(&args);
    assert_eq!(report["surprises"], json!([]));
    let refund = report["effects"].as_array().unwrap().iter().find(|effect| effect["effect"] == "refund").unwrap();
    // Called again under the same key in some world; paid once in each, or the result would differ.
    assert_eq!((&refund["without_faults"], &refund["most"]), (&json!(1), &json!(2)), "{report}");
    assert!(report["worlds"].as_u64().unwrap() > 60, "{report}");
}

#[test]
fn a_parcel_whose_worker_dies_is_a_question_to_a_person() {
    let stepwell = Stepwell::new();
    let input = r#"{"order": "desk-40000", "town": "Tarnwick", "grams": 900}"#;
    let ran = stepwell.run(&["crash-test", "parcel", "--input", input]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for words in ["ended in a question to a person", "effect pickup (key ", "\n  the worker dies after call "] {
        assert!(ran.stdout.contains(words), "{words:?} is missing: {ran:?}");
    }
}

#[test]
fn a_result_that_tells_of_a_duplicate_is_a_surprise_unless_it_is_meant() {
    let stepwell = Stepwell::new();
    let ran = stepwell.run(&BRIEF);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains(r#"it completes with {"duplicate":true"#), "{ran:?}");
    assert!(ran.stdout.ends_with("\nnot as its author was promised\n"), "{ran:?}");
    let meant = stepwell.json(&[&BRIEF[..], &["--ignore", "/duplicate"]].concat());
    assert_eq!(meant["surprises"], json!([]));
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let stepwell = Stepwell::new();
    stepwell.run(&["crash-test", "nope"]).failed(3, &["error[unknown-workflow]: there is no workflow nope"]);
    stepwell.run(&["crash-test", "refund"]).failed(3, &["the input of workflow refund", "no --input was given"]);
    stepwell.run(&["crash-test", "refund", "--input", "{"]).failed(3, &["error[not-json]: the input is not JSON"]);
    stepwell.run(&[&BRIEF[..5], &["approval"]].concat()).failed(2, &["give a name and what it says"]);
    stepwell.run(&[&BRIEF[..5], &["applause=1"]].concat()).failed(3, &["accepts no signal applause"]);
    // Nobody says whether the brief may be sent: without a deadline there is no end.
    stepwell
        .run(&BRIEF[..4])
        .failed(3, &["error[crash-test]: without any fault", "waits before step Decide for signal"]);
}
