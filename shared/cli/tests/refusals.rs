//! Every bad input: which exit code, which words.

#![allow(clippy::unwrap_used, reason = "a surprise in a test should stop it")]

mod common;

use std::fs;
use std::net::TcpListener;

use common::{Ran, Stepwell, at, finish, names, program};
use serde_json::json;

const ADA: &str = r#"{"name": "Ada"}"#;
const BRIEF: &str = r#"{"goal": "choose", "vendors": [], "to": "board"}"#;
const VALUE_BYTES_MAX: usize = 8 * 1024 * 1024;

#[test]
fn help_lists_every_command_and_every_exit_code() {
    let stepwell = Stepwell::new();
    let help = stepwell.run(&["--help"]);
    assert_eq!(help.code, Some(0));
    let commands = [
        "demo",
        "dev",
        "worker",
        "start",
        "list",
        "show",
        "signal",
        "cancel",
        "pause",
        "resume",
        "retry",
        "edit",
        "move",
        "discard",
        "state",
        "approvals",
        "approve",
        "reject",
        "link",
        "let-stand",
        "unknowns",
        "resolve",
        "dead-letters",
        "doctor",
        "workflows",
        "outside",
    ];
    let lines: Vec<&str> = help.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for command in commands {
        assert!(lines.contains(&command), "{command}: {}", help.stdout);
        let own = stepwell.run(&[command, "--help"]);
        assert!(own.code == Some(0) && own.stdout.contains("--json"), "{own:?}");
    }
    for code in ["0", "1", "2", "3", "4", "5"] {
        assert!(lines.contains(&code), "{code}: {}", help.stdout);
    }
    assert!(!help.stdout.contains("stop-with-stdin") && !help.stdout.contains('\u{1b}'));
}

#[test]
fn wrong_arguments_are_told_apart_from_wrong_requests() {
    let stepwell = Stepwell::new();
    let cases: [(&[&str], &str); 9] = [
        (&[], "Usage: stepwell"),
        (&["strat"], "similar subcommands exist: 'state', 'start'"),
        (&["start", "no pe"], "workflow name \"no pe\" holds ' '"),
        (&["show", ""], "run id is empty"),
        (&["list", "--limit", "0"], "at least 1 is needed"),
        (&["list", "--limit", "1001"], "at most 1000 are possible"),
        (&["list", "--status", "cancelling"], "possible values: created, running"),
        (&["worker", "--lease", "1ms"], "would run out during a slow write"),
        (&["demo", "--vendors", "7"], "7 is not in 1..=6"),
    ];
    for (args, words) in cases {
        let dir = tempfile::tempdir().unwrap();
        let mut command = program(dir.path());
        command.args(args);
        finish(command, "").failed(2, &[words]);
    }
    let ran = stepwell.run(&["list", "--limit", "0", "--json"]);
    assert_eq!((ran.code, &ran.json()["error"]["code"]), (Some(2), &json!("usage")));
}

#[test]
fn aws_has_to_be_built_in_and_to_be_named() {
    let dir = tempfile::tempdir().unwrap();
    let with_aws = |args: &[&str]| {
        let mut command = program(dir.path());
        // A folder that the environment names is no second place.
        command.args(args).arg("--aws").env("STEPWELL_DATA", "elsewhere");
        for variable in ["TABLE", "QUEUE_URL", "DEAD_LETTER_URL", "BUCKET"] {
            command.env_remove(format!("STEPWELL_{variable}"));
        }
        finish(command, "")
    };
    let reads: [&[&str]; 4] = [&["list"], &["show", "r1"], &["start", "hello", "--input", ADA], &["worker"]];
    let words: &[&str] = if cfg!(feature = "aws") {
        &["error[no-settings]", "STEPWELL_TABLE, STEPWELL_QUEUE_URL, STEPWELL_DEAD_LETTER_URL, STEPWELL_BUCKET"]
    } else {
        &["error[without-aws]", "built without AWS", "`cargo build -p stepwell-cli --features aws`"]
    };
    for args in reads {
        with_aws(args).failed(3, words);
    }
    let here = if cfg!(feature = "aws") { "error[only-here]" } else { "error[without-aws]" };
    for command in ["demo", "outside"] {
        with_aws(&[command]).failed(3, &[here]);
    }
    for args in [["--data", "x", "list"], ["list", "--data", "x"]] {
        with_aws(&args).failed(2, &["--aws and --data name two places", "Usage: stepwell"]);
    }
    assert_eq!(names(dir.path()), Vec::<String>::new(), "nothing was made");
}

#[test]
fn an_input_that_does_not_fit_names_the_field() {
    let stepwell = Stepwell::new();
    let start = |workflow: &str, input: &str| stepwell.run(&["start", workflow, "--input", input]);
    start("hullo", ADA).failed(
        3,
        &["error[unknown-workflow]", "there is no workflow hullo", "competitive-brief, countdown, hello, parcel"],
    );
    start("hello", r#"{"name": 7}"#)
        .failed(3, &["error[misfit]", "workflow hello does not fit at `name`", "expected a string"]);
    start("competitive-brief", r#"{"goal": "g", "vendors": ["a", 2], "to": "b"}"#)
        .failed(3, &["error[misfit]", "does not fit at `vendors[1]`"]);
    let none = stepwell.run(&["start", "hello"]);
    none.failed(3, &["error[misfit]", "workflow hello does not fit", "; no --input was given"]);
    assert!(!start("hello", "null").stderr.contains("no --input was given"));
    start("hello", "{name: Ada}")
        .failed(3, &["error[not-json]", "the input is not JSON", "line 1 column 2", "quote it"]);
    start("hello", "").failed(3, &["error[not-json]", "it is empty"]);
    start("hello", "@no/such/file")
        .failed(3, &["error[unreadable]", "the input in file no/such/file", "check the path"]);
    let binary = stepwell.file("binary", [0xff, 0xfe]);
    start("hello", &at(&binary)).failed(3, &["error[not-json]", "not UTF-8"]);
    assert!(!stepwell.data().exists() || stepwell.json(&["list"])["runs"] == json!([]), "nothing was started");
}

#[test]
fn an_input_over_the_limit_is_refused_and_one_at_the_limit_is_not() {
    let stepwell = Stepwell::new();
    let value = |bytes: usize| format!(r#"{{"name":"{}"}}"#, "x".repeat(bytes - r#"{"name":""}"#.len()));
    let (fits, over) =
        (stepwell.file("fits", value(VALUE_BYTES_MAX)), stepwell.file("over", value(VALUE_BYTES_MAX + 1)));
    stepwell.run(&["start", "hello", "--input", &at(&over)]).failed(3, &["error[too-large]", "8388608 bytes"]);
    let run = stepwell.start(&["hello", "--input", &at(&fits)]);
    let text = stepwell.run(&["show", &run]).stdout;
    assert!(text.contains("8388608 bytes, all of it with --json") && text.len() < 2_000, "it is cut: {}", text.len());
}

#[test]
fn what_is_not_there_is_said_so() {
    let stepwell = Stepwell::new();
    let key = "0".repeat(32);
    let asks: [&[&str]; 10] = [
        &["list"],
        &["show", "r1"],
        &["signal", "r1", "approval"],
        &["cancel", "r1"],
        &["resume", "r1"],
        &["resolve", "r1", &key, "--try-again", "--why", "the bank says so"],
        &["unknowns", "r1"],
        &["unknowns"],
        &["dead-letters"],
        &["doctor"],
    ];
    for ask in asks {
        stepwell.run(ask).failed(3, &["error[no-folder]", "give another folder, or start a run first"]);
    }
    assert!(!stepwell.data().exists(), "asking makes no folder");
    fs::create_dir(stepwell.data()).unwrap();
    for ask in asks {
        stepwell.run(ask).failed(3, &["error[no-folder]", "there are no runs in the folder"]);
    }
    assert_eq!(names(&stepwell.data()), Vec::<String>::new(), "asking makes no database");
    stepwell.start(&["hello", "--input", ADA]);
    for ask in &asks[1..7] {
        stepwell.run(ask).failed(3, &["error[no-such-run]", "there is no run r1"]);
    }
    let ran = stepwell.run(&["show", "r1", "--json"]);
    let error = &ran.json()["error"];
    assert_eq!((ran.code, &error["code"], &error["remedy"]), (Some(3), &json!("no-such-run"), &json!("fix-the-input")));
    assert_eq!(error["message"], "there is no run r1; `stepwell list` shows those there are");
}

#[test]
fn signals_are_checked_at_the_edge() {
    let stepwell = Stepwell::new();
    let run = stepwell.start(&["competitive-brief", "--input", BRIEF]);
    let signal = |name: &str, payload: &str| stepwell.run(&["signal", &run, name, payload]);
    signal("approve", "true").failed(3, &["accepts no signal approve; it accepts: approval"]);
    signal("approval", r#"{"approved": "yes", "by": "ada"}"#)
        .failed(3, &["error[misfit]", "does not fit at `approved`"]);
    signal("approval", "yes").failed(3, &["error[not-json]", "the signal's payload is not JSON"]);
    assert_eq!(stepwell.json(&["show", &run])["signals"], json!([]));

    // Nobody consumes them here: the mailbox fills up.
    let decision = r#"{"approved": true, "by": "ada"}"#;
    for number in 0..64 {
        let sent = stepwell.run(&["signal", &run, "approval", decision, "--id", &format!("s{number}")]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
    }
    let again = stepwell.json(&["signal", &run, "approval", decision, "--id", "s7"]);
    assert_eq!(again["new"], json!(false), "a repeated signal is no second one");
    signal("approval", decision).failed(4, &["error[mailbox-full]", "try again later"]);
    let shown = stepwell.json(&["show", &run]);
    assert_eq!((shown["signals"].as_array().unwrap().len(), &shown["signals"][63]["id"]), (64, &json!("s63")));
}

#[test]
fn a_page_that_no_query_gave_is_refused() {
    let stepwell = Stepwell::new();
    stepwell.start(&["hello", "--input", ADA]);
    stepwell.run(&["list", "--after", "elsewhere"]).failed(3, &["error[refused]", "begin with its first page"]);
}

#[test]
fn a_folder_that_cannot_be_used_is_named() {
    let stepwell = Stepwell::new();
    let file = stepwell.file("file", "");
    let start = |data: &str| {
        let mut command = program(file.parent().unwrap());
        command.args(["start", "hello", "--input", ADA, "--data", data]);
        finish(command, "")
    };
    // True for the superuser, too: a file holds no folder.
    let below = file.join("below").display().to_string();
    start(&below).failed(3, &["error[bad-folder]", &below, "on a local disk that this user may write"]);
    start(&file.display().to_string()).failed(3, &["error[bad-folder]"]);
}

#[test]
fn damaged_data_calls_for_a_person() {
    let stepwell = Stepwell::new();
    let run = stepwell.start(&["hello", "--input", r#"{"name": "Grace"}"#]);
    let database = stepwell.data().join("stepwell.db");
    let sound = fs::read(&database).unwrap();
    let with = |content: &[u8]| -> Ran {
        fs::write(&database, content).unwrap();
        stepwell.run(&["show", &run])
    };

    let mut altered = sound.clone();
    let at = sound.windows(5).rposition(|bytes| bytes == b"Grace").unwrap();
    altered[at] = b'T';
    with(&altered).failed(5, &["error[damaged]", &run, "a person has to look"]);
    with(&sound[..50]).failed(5, &["error[damaged]", "stepwell.db", "restore it from a backup"]);
    with(b"").failed(5, &["error[damaged]", "it is empty"]);
    with(b"not a database, but a text that somebody has put there, long enough to be one")
        .failed(3, &["error[foreign-file]", "nothing was changed"]);
    assert_eq!(with(&sound).code, Some(0));

    fs::remove_file(&database).unwrap();
    fs::write(stepwell.data().join("blobs/left"), "a draft").unwrap();
    stepwell.run(&["list"]).failed(5, &["error[damaged]", "it is gone, but its blobs are still there"]);
    stepwell.run(&["start", "hello", "--input", ADA]).failed(5, &["error[damaged]", "move the folder away"]);
    assert!(!database.exists(), "nothing was made");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let stepwell = Stepwell::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ran = stepwell.run(&["outside", "--vendors-port", "0", "--shop-port", "0", "--mail-port", &port]);
    ran.failed(3, &["error[port-in-use]", &port, "mail API", "choose another port"]);
}

#[test]
fn a_url_that_is_none_is_named() {
    let stepwell = Stepwell::new();
    let ran = stepwell.run(&["worker", "--mail-url", "mail"]);
    ran.failed(3, &["error[bad-url]", "\"mail\" is no base URL"]);
}
