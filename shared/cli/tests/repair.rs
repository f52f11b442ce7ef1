//! Runs that are held up and repaired by hand: paused, edited, moved, tried again, given up, and looked at as they were.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a surprise in a test should stop it")]

mod common;

use common::{Service, Stepwell, at};
use serde_json::{Value, json};
use stepwell_samples::outside::{World, WorldOptions};
use tokio::runtime::Runtime;

const ADA: &str = r#"{"name": "Ada"}"#;
const WHY: &str = "it was typed wrong";
const LIGHTER: &str = r#"[{"op": "replace", "path": "/grams", "value": 1200}]"#;

/// The outside, a folder of runs, and a worker between them.
struct Set {
    stepwell: Stepwell,
    world: World,
    _worker: Service,
    _runtime: Runtime,
}

impl Set {
    fn start() -> Self {
        let runtime = Runtime::new().unwrap();
        let world = runtime.block_on(World::start(WorldOptions::default())).unwrap();
        let stepwell = Stepwell::new();
        let outside = world.addresses();
        let worker = stepwell.worker(&["--mail-url", &outside.mail_url, "--shop-url", &outside.shop_url]);
        Self { stepwell, world, _worker: worker, _runtime: runtime }
    }

    fn parcel(&self, order: &str, town: &str, grams: u64) -> String {
        self.stepwell.start(&["parcel", "--input", &json!({"order": order, "town": town, "grams": grams}).to_string()])
    }
}

fn revision(stepwell: &Stepwell, run: &str) -> String {
    stepwell.json(&["show", run])["revision"].as_u64().unwrap().to_string()
}

fn last(shown: &Value) -> (&str, &str) {
    let last = shown["history"].as_array().unwrap().last().unwrap();
    (last["what"].as_str().unwrap(), last["note"].as_str().unwrap_or_default())
}

#[test]
fn a_paused_run_stands_still_until_it_is_resumed() {
    let stepwell = Stepwell::new();
    let run = stepwell.start(&["hello", "--input", ADA]);
    let paused = stepwell.json(&["pause", &run, "--by", "bob", "--why", "wait for the boss"]);
    assert_eq!(
        (&paused["run"], &paused["new"], &paused["status"], &paused["by"], &paused["why"]),
        (&json!(run), &json!(true), &json!("parked"), &json!("bob"), &json!("wait for the boss"))
    );
    let again = stepwell.run(&["pause", &run]);
    assert!(again.code == Some(0) && again.stdout.contains("stands still already"), "{again:?}");
    let shown = stepwell.json(&["show", &run, "--history"]);
    assert_eq!((&shown["status"], &shown["detail"]["parked"]["code"]), (&json!("parked"), &json!("paused")), "{shown}");
    assert!(shown["detail"]["parked"]["reason"].as_str().unwrap().contains("bob: wait for the boss"), "{shown}");
    let text = stepwell.run(&["show", &run]).stdout;
    assert!(text.contains(&format!("`stepwell resume {run}` lets it go on\n")), "{text}");

    let _worker = stepwell.worker(&[]);
    assert_eq!(stepwell.run(&["resume", &run]).code, Some(0));
    stepwell.wait_for(&run, "completed");
    stepwell.run(&["pause", &run]).failed(3, &["error[ended]", "completed", &run]);
    stepwell.run(&["pause", "r1"]).failed(3, &["error[no-such-run]"]);
}

#[test]
fn an_edit_mends_what_was_typed_wrong_and_stays_on_record() {
    let set = Set::start();
    let run = set.parcel("vase-3000", "Tarnwick", 120_000);
    let parked = set.stepwell.wait_for(&run, "parked");
    assert_eq!(parked["detail"]["parked"]["code"], "budget", "{parked}");
    let (stated, text) = (parked["revision"].as_u64().unwrap().to_string(), set.stepwell.run(&["show", &run]).stdout);
    for verb in ["edit", "move", "discard"] {
        assert!(text.contains(&format!("`stepwell {verb} {run} --revision {stated} ")), "{verb}: {text}");
    }

    let patch = set.stepwell.file("patch.json", LIGHTER);
    let edit = ["edit", &run, "--revision", &stated, "--patch", &at(&patch), "--why", WHY];
    let edited = set.stepwell.json(&edit);
    let next = parked["revision"].as_u64().unwrap() + 1;
    assert_eq!((&edited["revision"], &edited["value"]["grams"]), (&json!(next), &json!(1_200)), "{edited}");
    assert_eq!((&edited["by"], &edited["why"]), (&json!("ada"), &json!(WHY)));
    let shown = set.stepwell.json(&["show", &run, "--history"]);
    assert_eq!((&shown["status"], last(&shown)), (&json!("parked"), ("edited", "by ada: it was typed wrong")));

    // Whoever has looked before that edit is told so, and nothing is changed.
    let again = set.stepwell.run(&edit);
    again.failed(3, &["error[stale]", &format!("at revision {next}, not at {stated}"), "`stepwell show"]);
    assert_eq!(set.stepwell.json(&["show", &run, "--history"]), shown);

    let state = set.stepwell.json(&["state", &run]);
    let told = (&state["revision"], &state["before"]["grams"], &state["after"]["grams"]);
    assert_eq!(told, (&json!(next), &json!(120_000), &json!(1_200)), "{state}");
    let text = set.stepwell.run(&["state", &run, "--at", &next.to_string()]).stdout;
    assert!(text.contains("  grams: 1200\n") && text.ends_with("changed\n  /grams: 120000 -> 1200\n"), "{text}");

    set.stepwell.json(&["resume", &run]);
    set.stepwell.wait_for(&run, "completed");
    assert_eq!(set.world.pickups().len(), 1);
}

#[test]
fn an_edit_that_does_not_fit_changes_nothing() {
    let stepwell = Stepwell::new();
    let run = stepwell.start(&["hello", "--input", ADA]);
    let edit = |patch: &str| stepwell.run(&["edit", &run, "--revision", "0", "--patch", patch, "--why", WHY]);
    edit("[]").failed(3, &["error[not-parked]", "created", "pause it first"]);
    stepwell.json(&["pause", &run]);
    let stated = revision(&stepwell, &run);
    let before = stepwell.json(&["show", &run, "--history"]);
    let edit = |patch: &str| stepwell.run(&["edit", &run, "--revision", &stated, "--patch", patch, "--why", WHY]);
    let ran = edit(r#"[{"op": "replace", "path": "/age", "value": 1}]"#);
    ran.failed(3, &["error[bad-patch]", "cannot be applied", &format!("`stepwell show {run} --state`")]);
    edit(r#"{"name": "Bob"}"#).failed(3, &["error[bad-patch]", "no JSON patch (RFC 6902)"]);
    edit(r#"[{"op": "replace", "path": "/name", "value": 7}]"#).failed(3, &["error[misfit]", "does not fit at `name`"]);
    edit("[{").failed(3, &["error[not-json]", "the patch is not JSON"]);
    edit("@no/such").failed(3, &["error[unreadable]", "the patch in file no/such"]);
    let usage: [(&[&str], &str); 4] = [
        (&["edit", &run, "--patch", "[]", "--why", WHY], "--revision <N>"),
        (&["edit", &run, "--revision", "1", "--patch", "[]"], "--why <TEXT>"),
        (&["edit", &run, "--revision", "latest", "--patch", "[]", "--why", WHY], "no revision of a run"),
        (&["edit", &run, "--revision", "1", "--patch", "[]", "--why", " "], "it says nothing"),
    ];
    for (args, words) in usage {
        stepwell.run(args).failed(2, &[words]);
    }
    assert_eq!(stepwell.json(&["show", &run, "--history"]), before);

    // The input is what a run knows that has not begun.
    let patch = r#"[{"op": "replace", "path": "/name", "value": "Bob"}]"#;
    let edited = stepwell.run_with_stdin(&["edit", &run, "--revision", &stated, "--patch", "-", "--why", WHY], patch);
    assert!(edited.stdout.ends_with("it knows now: {\"name\":\"Bob\"}\n"), "{edited:?}");
    let _worker = stepwell.worker(&[]);
    stepwell.json(&["resume", &run]);
    let shown = stepwell.wait_for(&run, "completed");
    assert_eq!(shown["detail"]["completed"]["output"][0], "Hello, Bob.");
}

#[test]
fn a_run_is_moved_to_another_step() {
    let set = Set::start();
    let run = set.parcel("vase-3000", "Tarnwick", 120_000);
    set.stepwell.wait_for(&run, "parked");
    let stated = revision(&set.stepwell, &run);
    let moved =
        |to: &str| set.stepwell.run(&["move", &run, "--revision", &stated, "--to", to, "--why", "sent by hand"]);
    moved("Nowhere").failed(3, &["error[bad-step]", "Nowhere", "`stepwell show"]);
    moved("{Tell").failed(3, &["error[not-json]", "the step is not JSON"]);
    let told = moved("Tell");
    assert!(told.code == Some(0) && told.stdout.contains("at step Tell, and stays parked"), "{told:?}");
    let shown = set.stepwell.json(&["show", &run, "--history"]);
    assert_eq!(
        (&shown["step"], &shown["status"], last(&shown).0),
        (&json!("Tell"), &json!("parked"), "moved"),
        "{shown}"
    );
    moved(r#""Book""#).failed(3, &["error[stale]"]);

    // That step needs what the one before would have found: somebody gives it.
    let stated = revision(&set.stepwell, &run);
    let patch = r#"[{"op": "replace", "path": "/pickup", "value": {"pickup": "by hand"}}]"#;
    set.stepwell.json(&["edit", &run, "--revision", &stated, "--patch", patch, "--why", "sent by hand"]);
    set.stepwell.json(&["resume", &run]);
    let ended = set.stepwell.wait_for(&run, "completed");
    assert_eq!(ended["detail"]["completed"]["output"]["pickup"], "by hand");
    assert_eq!(set.world.pickups(), []);

    let fresh = set.stepwell.start(&["hello", "--input", ADA]);
    set.stepwell.wait_for(&fresh, "completed");
    set.stepwell
        .run(&["move", &fresh, "--revision", "2", "--to", "Greet", "--why", WHY])
        .failed(3, &["error[not-parked]", "completed"]);
}

#[test]
fn what_may_have_happened_is_settled_before_a_run_is_moved_or_given_up() {
    let set = Set::start();
    let run = set.parcel("lamp-4500", "Farhaven", 1_200);
    set.stepwell.wait_for(&run, "parked");
    let stated = revision(&set.stepwell, &run);
    let words = ["error[unsettled]", "effect pickup", &format!("`stepwell unknowns {run}`")];
    set.stepwell.run(&["move", &run, "--revision", &stated, "--to", "Tell", "--why", WHY]).failed(3, &words);
    set.stepwell.run(&["discard", &run, "--revision", &stated, "--why", WHY]).failed(3, &words);
    let text = set.stepwell.run(&["show", &run]).stdout;
    assert!(
        text.contains("`stepwell edit ") && !text.contains("`stepwell move ") && !text.contains("`stepwell discard ")
    );
}

#[test]
fn a_run_that_is_given_up_ends_as_failed() {
    let stepwell = Stepwell::new();
    let run = stepwell.start(&["hello", "--input", ADA]);
    stepwell.json(&["pause", &run]);
    let stated = revision(&stepwell, &run);
    let early = stepwell.run(&["move", &run, "--revision", &stated, "--to", "Leave", "--why", WHY]);
    early.failed(3, &["error[not-begun]", "edit its input"]);
    stepwell.run(&["discard", &run, "--revision", "99", "--why", WHY]).failed(3, &["error[stale]"]);
    let discarded = stepwell.run(&["discard", &run, "--revision", &stated, "--why", WHY, "--by", "bob"]);
    assert!(discarded.stdout.contains("is given up by bob: it has failed"), "{discarded:?}");
    let shown = stepwell.json(&["show", &run]);
    assert_eq!(
        (&shown["status"], &shown["detail"]["failed"]["kind"]),
        (&json!("failed"), &json!("discarded")),
        "{shown}"
    );
    stepwell.run(&["discard", &run, "--revision", "99", "--why", WHY]).failed(3, &["error["]);
}

#[test]
fn a_failed_run_is_tried_again_where_it_has_failed() {
    let set = Set::start();
    let run = set.parcel("desk-40000", "Fernpass", 900);
    set.stepwell.run(&["retry", &run]).failed(3, &["error[not-failed]"]);
    set.stepwell.wait_for(&run, "failed");
    let text = set.stepwell.run(&["show", &run]).stdout;
    assert!(text.contains(&format!("`stepwell retry {run}` lets it go on where it has failed")), "{text}");
    let retried = set.stepwell.json(&["retry", &run, "--by", "bob", "--why", "the road is open"]);
    assert_eq!(retried, json!({"run": run, "by": "bob", "why": "the road is open"}));
    let shown = set.stepwell.wait_for(&run, "completed");
    let notes: Vec<_> =
        shown["history"].as_array().unwrap().iter().filter(|entry| entry["what"] == "reopened").collect();
    assert_eq!((notes.len(), &notes[0]["note"]), (1, &json!("by bob: the road is open")), "{shown}");
    assert_eq!(set.world.pickups().len(), 1);
}

#[test]
fn what_was_taken_back_is_not_tried_again() {
    let set = Set::start();
    set.world.set_shop(stepwell_samples::outside::shop::ShopBehaviour::Refuse);
    let input = r#"{"order": "vase-3000", "reason": "broken"}"#;
    let run = set.stepwell.start(&["refund", "--input", input]);
    set.stepwell.wait_for(&run, "failed");
    set.stepwell.run(&["retry", &run]).failed(3, &["error[taken-back]", "start a new one"]);
    assert!(!set.stepwell.run(&["show", &run]).stdout.contains("`stepwell retry "));
}

#[test]
fn a_state_is_there_where_it_was_kept_and_said_not_to_be_elsewhere() {
    let set = Set::start();
    let run = set.parcel("lamp-4500", "Tarnwick", 1_200);
    set.stepwell.wait_for(&run, "completed");
    let history = set.stepwell.json(&["show", &run, "--history"])["history"].take();
    let booked = history.as_array().unwrap().iter().find(|entry| entry["step"] == "Book" && entry["what"] == "stepped");
    let at = booked.unwrap()["revision"].to_string();
    let state = set.stepwell.json(&["state", &run, "--at", &at]);
    assert_eq!((&state["step"], &state["before"]["pickup"]), (&json!("Book"), &json!(null)), "{state}");
    assert_eq!(state["after"]["pickup"], json!({"pickup": "pickup-1"}), "{state}");
    set.stepwell.run(&["state", &run, "--at", "99"]).failed(3, &["error[not-kept]", "99"]);

    let plain = set.stepwell.start(&["hello", "--input", ADA]);
    set.stepwell.wait_for(&plain, "completed");
    assert_eq!(set.stepwell.run(&["state", &plain]).code, Some(0));
    set.stepwell.run(&["state", &plain, "--at", "0"]).failed(3, &["error[not-kept]", "keeps no states"]);
}

#[test]
fn lists_can_be_narrowed_to_a_time() {
    let stepwell = Stepwell::new();
    let first = stepwell.start(&["hello", "--input", ADA]);
    let started = stepwell.json(&["show", &first])["started_at"].as_str().unwrap().to_owned();
    let listed = |args: &[&str]| -> Vec<String> {
        let listed = stepwell.json(&[&["list"], args].concat());
        listed["runs"].as_array().unwrap().iter().map(|run| run["run"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed(&["--from", &started]), std::slice::from_ref(&first));
    assert_eq!(listed(&["--before", &started]), [""; 0]);
    assert_eq!(listed(&["--from", "2020-01-01", "--before", "2999-01-01"]), [first]);
    assert_eq!(listed(&["--from", "2999-01-01T00:00:00Z"]), [""; 0]);
    stepwell.run(&["list", "--from", "yesterday"]).failed(2, &["2026-11-30T14:05:00Z"]);
}

#[test]
fn each_act_says_who_and_names_what_is_not_there() {
    let stepwell = Stepwell::new();
    let stated = ["--revision", "1", "--why", WHY];
    let acts: [Vec<&str>; 5] = [
        vec!["pause", "r1"],
        vec!["retry", "r1"],
        [&["edit", "r1", "--patch", "[]"], &stated[..]].concat(),
        [&["move", "r1", "--to", "Leave"], &stated[..]].concat(),
        [&["discard", "r1"], &stated[..]].concat(),
    ];
    let look = vec!["state", "r1"];
    for act in acts.iter().chain([&look]) {
        stepwell.run(act).failed(3, &["error[no-folder]", "give another folder, or start a run first"]);
    }
    assert!(!stepwell.data().exists(), "asking makes no folder");
    stepwell.start(&["hello", "--input", ADA]);
    for act in acts.iter().chain([&look]) {
        stepwell.run(act).failed(3, &["error[no-such-run]", "there is no run r1"]);
    }
    for act in &acts {
        let mut nobody = stepwell.command(act);
        nobody.env_remove("USER");
        common::finish(nobody, "").failed(2, &["--by <WHO>"]);
    }
}
