//! Runs from start to end through the program: started, worked on, spoken to, listed, looked at.

#![allow(clippy::unwrap_used, reason = "a surprise in a test should stop it")]

mod common;

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _, pipe};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use common::{Running, Service, Stepwell, at, finish, park, with_local};
use serde_json::{Value, json};
use stepwell_core::{Digest, Json, Message, ParkReason, RunId, Ticket};
use stepwell_ports::Envelope;

const ADA: &str = r#"{"name": "Ada"}"#;
const BRIEF: &str = r#"{"goal": "choose", "vendors": ["brindlepost", "tarnwick"], "to": "board"}"#;

#[test]
fn hello_is_started_worked_on_and_shown() {
    let stepwell = Stepwell::new();
    let ran = stepwell.run(&["start", "hello", "--input", ADA]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let run = ran.stdout.trim().to_owned();
    let before = stepwell.json(&["show", &run]);
    assert_eq!(
        (&before["status"], &before["step"], &before["input"]),
        (&json!("created"), &json!("begin"), &json!({"name": "Ada"}))
    );

    let mut worker = stepwell.worker(&[]);
    let shown = stepwell.wait_for(&run, "completed");
    assert_eq!(shown["detail"]["completed"]["output"], json!(["Hello, Ada.", "Goodbye, Ada."]));
    assert_eq!((&shown["steps"], &shown["workflow"]), (&json!(2), &json!("hello")));
    let history: Vec<(&Value, &Value)> =
        shown["history"].as_array().unwrap().iter().map(|entry| (&entry["step"], &entry["what"])).collect();
    assert_eq!(history, [(&json!("Greet"), &json!("waited")), (&json!("Leave"), &json!("completed"))]);
    let started = shown["started_at"].as_str().unwrap();
    assert!(started.starts_with("20") && started.ends_with('Z') && started.contains('T'), "{started}");

    worker.close_stdin();
    let report = worker.end();
    assert_eq!(report.code, Some(0), "{report:?}");
    // Its first sweep may have sent a message more, which is harmless.
    let worked_on = |messages| report.stdout.contains(&format!("worked on {messages} messages; 0 given up, 0 cut off"));
    assert!(worked_on(2) || worked_on(3), "{report:?}");

    let text = stepwell.run(&["show", &run, "--history"]).stdout;
    for part in ["hello, version 1", "completed since", "Goodbye, Ada.", "Greet", "Leave"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = stepwell.run(&["show", &run, "--state"]).stdout;
    assert!(text.ends_with("result\n  - Hello, Ada.\n  - Goodbye, Ada.\n"), "{text}");
}

#[test]
fn a_brief_waits_for_its_signal_and_mails_once() {
    let stepwell = Stepwell::new();
    let outside = Outside::start(&stepwell);
    let worker = stepwell.worker(&["--vendors-url", &outside.vendors, "--mail-url", &outside.mail]);

    let run = stepwell.start(&["competitive-brief", "--input", BRIEF, "--key", "q3"]);
    let waiting = stepwell.wait_for(&run, "waiting");
    assert_eq!(waiting["detail"]["waiting"], json!({"signals": ["approval"], "until": null}));
    assert_eq!((&waiting["usage"]["effects_made"], &waiting["steps"]), (&json!(3), &json!(3)));
    let text = stepwell.run(&["show", &run]).stdout;
    assert!(text.contains("signal approval, without a deadline"), "{text}");
    the_draft_can_be_read(&stepwell, &run);

    let decision = stepwell.file("decision.json", r#"{"approved": true, "by": "ada"}"#);
    let sent = stepwell.json(&["signal", &run, "approval", &at(&decision), "--id", "s1"]);
    assert_eq!(sent, json!({"run": run, "signal": "approval", "id": "s1", "new": true}));

    // The same start again, to wait for what it had started.
    let ended = stepwell.json(&["start", "competitive-brief", "--input", BRIEF, "--key", "q3", "--wait"]);
    assert_eq!((&ended["run"], &ended["new"], &ended["status"]), (&json!(run), &json!(false), &json!("completed")));
    assert_eq!((&ended["output"]["mail"], &ended["output"]["vendors"]), (&json!("mail-1"), &json!(2)));
    let shown = stepwell.json(&["show", &run]);
    let email = &shown["effects"][0];
    assert_eq!(
        (&email["name"], &email["class"], &email["of_run"]),
        (&json!("email"), &json!("idempotent"), &json!(true))
    );
    assert_eq!(email["outcome"]["succeeded"]["result"]["id"], "mail-1");

    drop(worker);
    outside.service.signal("TERM");
    let counts = outside.service.end();
    assert_eq!(counts.code, Some(0), "{counts:?}");
    assert_eq!(counts.stdout.trim(), "2 pages served; 1 mail requested, 1 delivered; 0 refunds paid");
}

/// Whoever is to approve the draft sees it, with the notes that it was made of: a blob and a log.
fn the_draft_can_be_read(stepwell: &Stepwell, run: &str) {
    let (short, full) = (stepwell.json(&["show", run]), stepwell.json(&["show", run, "--state"]));
    assert!(short["state"]["draft"]["text"]["k"].is_string(), "{short}");
    let draft = full["state"]["draft"]["text"].as_str().unwrap();
    assert!(draft.contains("choose") && draft.lines().count() > 3, "{draft}");
    assert_eq!(short["state"]["findings"]["len"], 2, "{short}");
    assert_eq!(full["state"]["findings"].as_array().unwrap().len(), 2, "{full}");

    let text = stepwell.run(&["show", run, "--state"]).stdout;
    for line in draft.lines() {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn what_is_long_is_cut_and_what_is_gone_is_said_to_be() {
    let stepwell = Stepwell::new();
    let digest = Digest::of(b"gone").to_string();
    let input = json!({
        "name": "x".repeat(70_000),
        "notes": {"log": 0, "len": 150},
        "page": {"k": format!("r/{digest}"), "n": 4, "h": digest},
    });
    let run = stepwell.start(&["hello", "--input", &input.to_string()]);
    park_without_page(&stepwell, &run, (0..150).map(|number| Json::of(&format!("note {number}")).unwrap()).collect());

    let full = &stepwell.json(&["show", &run, "--state"])["input"];
    assert_eq!(full["name"]["cut"], "the first 65536 of 70000 bytes");
    assert_eq!(full["notes"]["cut"], "the last 100 of 150 entries");
    let notes = full["notes"]["entries"].as_array().unwrap();
    assert_eq!((notes.len(), &notes[0], &notes[99]), (100, &json!("note 50"), &json!("note 149")));
    assert!(full["page"]["unreadable"].as_str().unwrap().contains("missing"), "{}", full["page"]);
}

#[test]
fn a_start_is_repeated_by_its_key() {
    let stepwell = Stepwell::new();
    let start = |input: &str| stepwell.run(&["start", "hello", "--key", "k", "--json", "--input", input]);
    let (first, again) = (start(ADA).json(), start(r#"{ "name":"Ada" }"#).json());
    assert_eq!((&first["new"], &again["new"]), (&json!(true), &json!(false)));
    assert_eq!(first["run"], again["run"]);
    assert!(start(ADA).stderr.contains("`stepwell worker` moves it"));
    start(r#"{"name": "Bob"}"#).failed(3, &["error[key-conflict]", first["run"].as_str().unwrap(), "use a new key"]);
    assert_eq!(stepwell.json(&["list"])["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn an_input_comes_from_stdin_too() {
    let stepwell = Stepwell::new();
    let ran = stepwell.run_with_stdin(&["start", "hello", "--input", "-", "--json"], "{\"name\": \"Eve\"}\n");
    let shown = stepwell.json(&["show", ran.json()["run"].as_str().unwrap()]);
    assert_eq!(shown["input"], json!({"name": "Eve"}));
}

#[test]
fn lists_come_in_pages_and_can_be_narrowed() {
    let stepwell = Stepwell::new();
    let started: BTreeSet<String> = (0..5).map(|_| stepwell.start(&["hello", "--input", ADA])).collect();
    let other = stepwell.start(&["competitive-brief", "--input", BRIEF]);

    let (mut seen, mut after) = (Vec::new(), None::<String>);
    for page in 1..=3 {
        let mut args = vec!["list", "--workflow", "hello", "--limit", "2"];
        args.extend(after.as_deref().into_iter().flat_map(|next| ["--after", next]));
        let listed = stepwell.json(&args);
        let runs = listed["runs"].as_array().unwrap();
        assert!(runs.len() <= 2, "{listed}");
        seen.extend(runs.iter().map(|run| run["run"].as_str().unwrap().to_owned()));
        after = listed["next"].as_str().map(str::to_owned);
        assert_eq!(after.is_some(), page < 3, "{listed}");
    }
    assert_eq!(seen.len(), 5, "no run twice: {seen:?}");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), started);

    assert_eq!(stepwell.json(&["list", "--status", "completed"]), json!({"runs": [], "next": null}));
    let text = stepwell.run(&["list", "--limit", "1"]);
    assert!(text.stdout.contains(&other) && text.stdout.contains("created"), "the newest comes first: {text:?}");
    assert!(text.stderr.contains("there are more: --after "), "{text:?}");
}

#[test]
fn a_cancelled_run_ends_and_takes_no_more_signals() {
    let stepwell = Stepwell::new();
    let run = stepwell.start(&["competitive-brief", "--input", BRIEF, "--key", "k"]);
    let cancelled = stepwell.json(&["cancel", &run, "--why", "not needed"]);
    assert_eq!(
        (&cancelled["new"], &cancelled["by"], &cancelled["why"]),
        (&json!(true), &json!("ada"), &json!("not needed"))
    );
    let again = stepwell.run(&["cancel", &run, "--by", "bob"]);
    assert!(again.stdout.contains("before, by ada") && again.stdout.contains("not needed"), "{again:?}");
    let early = stepwell.run(&["signal", &run, "approval", r#"{"approved": true, "by": "ada"}"#]);
    assert_eq!(early.code, Some(0), "{early:?}");
    assert_eq!(stepwell.json(&["show", &run])["status"], "cancelling");
    assert!(stepwell.run(&["show", &run]).stdout.contains("not consumed yet"));

    let _worker = stepwell.worker(&[]);
    let shown = stepwell.wait_for(&run, "cancelled");
    let text = stepwell.run(&["show", &run]).stdout;
    assert!(text.contains("never consumed") && !text.contains("not consumed yet"), "{text}");
    assert_eq!(shown["detail"]["cancelled"]["confirmed"], 0);
    assert_eq!(shown["detail"]["cancelled"]["uncertain"], json!([]));
    let decision = r#"{"approved": true, "by": "ada"}"#;
    stepwell.run(&["signal", &run, "approval", decision]).failed(3, &["error[ended]", "cancelled", &run]);
    stepwell.run(&["cancel", &run]).failed(3, &["error[ended]", "cancelled", &run]);
    let again = stepwell.run(&["start", "competitive-brief", "--input", BRIEF, "--key", "k"]);
    assert!(again.stderr.contains("it has ended, cancelled") && !again.stderr.contains("moves it"), "{again:?}");
    let waited = stepwell.run(&["start", "competitive-brief", "--input", BRIEF, "--key", "k", "--wait"]);
    waited.failed(1, &["is cancelled", "ada asked for it: not needed"]);
}

#[test]
fn a_parked_run_says_why_and_goes_on_when_resumed() {
    let stepwell = Stepwell::new();
    let start = ["start", "hello", "--input", ADA, "--key", "k"];
    let run = stepwell.start(&start[1..]);
    stepwell.run(&["resume", &run]).failed(3, &["error[not-parked]", "created"]);
    park_without_page(&stepwell, &run, Vec::new());

    let shown = stepwell.json(&["show", &run]);
    assert_eq!((&shown["status"], &shown["detail"]["parked"]["code"]), (&json!("parked"), &json!("data")));
    let text = stepwell.run(&["show", &run]).stdout;
    assert!(text.contains("data: a page is missing; once that is mended, resume"), "{text}");
    assert!(text.contains(&format!("`stepwell resume {run}` lets it go on, once that is mended\n")), "{text}");
    stepwell.run(&[&start[..], &["--wait"]].concat()).failed(5, &["is parked: a page is missing"]);

    let resumed = stepwell.run(&["resume", &run, "--by", "bob", "--why", "page is back"]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let _worker = stepwell.worker(&[]);
    let shown = stepwell.wait_for(&run, "completed");
    assert_eq!(shown["history"][1]["what"], "resumed");
    assert_eq!(shown["history"][1]["note"], "by bob: page is back");
}

#[test]
fn a_message_for_no_run_ends_as_a_dead_letter() {
    let stepwell = Stepwell::new();
    stepwell.start(&["hello", "--input", ADA]);
    let none = stepwell.run(&["dead-letters"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""), "{none:?}");
    assert!(none.stderr.contains("no message was given up"), "{none:?}");
    with_local(&stepwell, async |local| {
        let message = Message { run: RunId::new("nobody").unwrap(), ticket: Ticket(1) };
        local.queue().send(&[Envelope { message, delay: Duration::ZERO }]).await.unwrap();
    });
    let mut worker = stepwell.worker(&[]);
    worker.says("goes to the dead letters");
    worker.close_stdin();
    worker.end();
    let letters = stepwell.json(&["dead-letters"]);
    assert_eq!(letters[0]["message"], r#"{"v":1,"run":"nobody","ticket":1}"#);
    assert!(letters[0]["reason"].as_str().unwrap().contains("there is no such run"), "{letters}");
    assert!(stepwell.run(&["dead-letters"]).stdout.contains("received 1 time: there is no such run"));
}

#[test]
fn a_worker_stops_on_sigterm_and_says_what_it_did() {
    let stepwell = Stepwell::new();
    let worker = stepwell.worker(&["--json"]);
    assert!(worker.ready.starts_with('{'), "logs are JSON: {}", worker.ready);
    worker.signal("TERM");
    let report = worker.end();
    assert_eq!(report.code, Some(0), "{report:?}");
    assert_eq!(report.json()["turns"], 0);
}

#[test]
fn a_second_signal_stops_a_worker_in_the_middle_of_a_step() {
    let stepwell = Stepwell::new();
    let outside = Outside::start(&stepwell);
    outside.slow_down("brindlepost");
    let worker = stepwell.worker(&["--vendors-url", &outside.vendors, "--mail-url", &outside.mail]);
    let run = stepwell.start(&["competitive-brief", "--input", BRIEF]);
    stepwell.wait_for(&run, "running");
    worker.signal("TERM");
    worker.says("a second signal stops at once");
    worker.signal("TERM");
    worker.end().failed(1, &["error[stopped]", "go on when their leases run out"]);
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let stepwell = Stepwell::new();
    stepwell.start(&["hello", "--input", ADA]);
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut list = stepwell.command(&["list"]);
    let mut child = list.stdout(writer).spawn().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn workflows_are_listed_without_any_data() {
    let stepwell = Stepwell::new();
    let workflows = stepwell.json(&["workflows"]);
    let names: Vec<&Value> = workflows.as_array().unwrap().iter().map(|workflow| &workflow["name"]).collect();
    assert_eq!(names, ["competitive-brief", "countdown", "hello", "parcel", "refund"]);
    assert!(!stepwell.data().exists());
    let version = finish(stepwell.command(&["--version"]), "");
    assert!(version.stdout.starts_with("stepwell "), "{version:?}");
}

/// What the brief calls, as the program serves it: the vendors' pages and the mail API.
struct Outside {
    service: Service,
    vendors: String,
    mail: String,
}

impl Outside {
    fn start(stepwell: &Stepwell) -> Self {
        let ports = ["outside", "--vendors-port", "0", "--mail-port", "0", "--shop-port", "0"];
        let service = Service::start(stepwell.command(&ports));
        let urls: Vec<&str> = service.ready.split_whitespace().filter(|word| word.starts_with("http")).collect();
        let vendors = urls[0].strip_suffix("/vendors,").unwrap().to_owned();
        let mail = urls[1].strip_suffix("/v1/mails,").unwrap().to_owned();
        Self { service, vendors, mail }
    }

    /// From now on this page takes longer than anybody waits for it.
    fn slow_down(&self, vendor: &str) {
        let mut stream = TcpStream::connect(self.vendors.strip_prefix("http://").unwrap()).unwrap();
        let body = r#"{"mode": "slow", "ms": 600000}"#;
        let head = format!("PUT /control/{vendor} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n");
        write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// Parks a run, as the engine does when something that it refers to is missing; its first log has these entries.
fn park_without_page(stepwell: &Stepwell, run: &str, entries: Vec<Json>) {
    park(stepwell, run, ParkReason::Data { what: "a page is missing".into() }, Vec::new(), entries);
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_whose_log_cannot_be_written_works_all_the_same() {
    let stepwell = Stepwell::new();
    let run = stepwell.start(&["hello", "--input", ADA]);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    // A turn that is broken off is made up for when its lease is over: so late that this would not wait for it.
    let mut worker = stepwell.command(&["worker", "--stop-with-stdin", "--lease", "10m"]);
    worker.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(full);
    let mut worker = Running(worker.spawn().unwrap());
    stepwell.wait_for(&run, "completed");
    drop(worker.0.stdin.take());
    assert_eq!(worker.wait().code(), Some(0));
}
