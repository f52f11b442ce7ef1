//! Effects that may have happened: listed, shown, and settled by a person.

#![allow(clippy::unwrap_used, reason = "a surprise in a test should stop it")]

mod common;

use std::time::Duration;

use common::{Stepwell, at, park};
use serde_json::{Value, json};
use stepwell_core::{
    Amounts, Class, EffectKey, EffectRecord, Failure, FailureKind, Outcome, ParkReason, RunId, Scope, Timestamp,
    WorkflowName,
};
use stepwell_ports::Clock as _;
use stepwell_ports::system::SystemClock;

const ADA: &str = r#"{"name": "Ada"}"#;
const NO_KEY: &str = "00112233445566778899aabbccddeeff";
const WHY: &str = "it is on the statement";

/// A run that is parked since nobody knows whether these have happened, and their keys.
fn unknown<const N: usize>(stepwell: &Stepwell, effects: [(&str, Class, Duration); N]) -> (String, [String; N]) {
    let run = stepwell.start(&["hello", "--input", ADA]);
    let records = effects.map(|(name, class, left)| record(&run, name, class, left));
    let keys = records.each_ref().map(|record| record.key.to_string());
    let reason = ParkReason::UnknownOutcome { what: "effect pay may have happened".into() };
    park(stepwell, &run, reason, records.into(), Vec::new());
    (run, keys)
}

/// An effect that nobody knows of; its call may be on its way for this much longer.
fn record(run: &str, name: &str, class: Class, left: Duration) -> EffectRecord {
    let (id, workflow) = (RunId::new(run).unwrap(), WorkflowName::new("hello").unwrap());
    let until = if left.is_zero() { Timestamp(1_700_000_020_000) } else { SystemClock.now().plus(left) };
    EffectRecord {
        key: EffectKey::derive(&id, &workflow, name, Scope::Run("order-7")),
        name: name.into(),
        class,
        parameters: None,
        attempts: 1,
        outcome: Outcome::Unknown { since: Timestamp(1_700_000_000_000), evidence: "no answer within 20s".into() },
        until: Some(until),
        of_run: true,
        approval: None,
        costs: Amounts::new(),
        undo: None,
        no_return: false,
        signed_off: None,
    }
}

fn succeeded<'a>(run: &'a str, key: &'a str, result: &'a str) -> [&'a str; 7] {
    ["resolve", run, key, "--succeeded", result, "--why", WHY]
}

#[test]
fn what_may_have_happened_is_listed_and_shown() {
    let stepwell = Stepwell::new();
    stepwell.start(&["hello", "--input", ADA]);
    let none = stepwell.run(&["unknowns"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""), "{none:?}");
    assert!(none.stderr.contains("no effects that may have happened"), "{none:?}");
    assert_eq!(stepwell.json(&["unknowns"]), json!([]));

    let (run, [key]) = unknown(&stepwell, [("pay", Class::Once, Duration::ZERO)]);
    let expected = json!([{
        "run": run, "step": "begin", "effect": "pay", "key": key, "class": "once", "attempts": 1,
        "since": "2023-11-14T22:13:20.000Z", "until": "2023-11-14T22:13:40.000Z", "evidence": "no answer within 20s",
        "parked": true,
    }]);
    assert_eq!(stepwell.json(&["unknowns"]), expected);
    assert_eq!(stepwell.json(&["unknowns", &run]), expected);
    let text = stepwell.run(&["unknowns"]).stdout;
    for part in [
        &format!("pay (once), 1 call, key {key}"),
        &format!("{run}, at step begin, parked for want of an answer"),
        "maybe, since 2023-11-14T22:13:20.000Z\n",
        "no answer within 20s\n",
        &format!(
            "`stepwell resolve {run} {key} (--succeeded JSON | --failed TEXT | --try-again | --sign-off) --why …`"
        ),
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }

    let text = stepwell.run(&["show", &run]).stdout;
    let effect = format!("pay (once), 1 call, key {key}: may have happened since 2023-11-14T22:13:20.000Z: no answer");
    assert!(text.contains(&effect) && text.contains(&format!("`stepwell resolve {run} {key}`")), "{text}");
    assert!(text.contains("its call waited until 2023-11-14T22:13:40.000Z at the latest"), "{text}");
    let outcome = stepwell.json(&["show", &run])["effects"][0]["outcome"]["unknown"].take();
    assert_eq!((&outcome["until"], &outcome["evidence"]), (&expected[0]["until"], &expected[0]["evidence"]));
}

#[test]
fn a_person_settles_it_and_the_run_goes_on() {
    let stepwell = Stepwell::new();
    let (run, [key]) = unknown(&stepwell, [("pay", Class::Once, Duration::ZERO)]);
    let result = stepwell.file("result.json", r#"{"payment": 7}"#);
    let resolved = stepwell.run(&succeeded(&run, &key, &at(&result)));
    assert_eq!(resolved.code, Some(0), "{resolved:?}");
    let said = format!("effect {key} of run {run} is resolved as succeeded, says ada; the run goes on\n");
    assert_eq!(resolved.stdout, said);
    let effect = &stepwell.json(&["show", &run])["effects"][0];
    assert_eq!(effect["outcome"], json!({"succeeded": {"result": {"payment": 7}}}));
    assert_eq!(stepwell.json(&["unknowns", &run]), json!([]));

    let _worker = stepwell.worker(&[]);
    let history = stepwell.wait_for(&run, "completed")["history"].take();
    let note = format!("succeeded by ada: {WHY}");
    assert_eq!((&history[1]["what"], &history[1]["note"]), (&json!("resolved"), &json!(note)));
    let text = stepwell.run(&["show", &run, "--history"]).stdout;
    assert!(text.contains(&format!("pay (once)  {note}")), "{text}");
}

#[test]
fn each_resolution_says_what_it_is() {
    let stepwell = Stepwell::new();
    let resolve = |name: &str, how: &[&str]| -> (Value, Value) {
        let (run, [key]) = unknown(&stepwell, [(name, Class::Reconcilable, Duration::ZERO)]);
        let answer = stepwell.json(&[&["resolve", &run, &key, "--why", WHY, "--by", "bob"], how].concat());
        let [run, key] = [json!(run), json!(key)];
        assert_eq!((&answer["run"], &answer["key"]), (&run, &key));
        assert_eq!((&answer["by"], &answer["why"]), (&json!("bob"), &json!(WHY)));
        assert_eq!(answer.as_object().unwrap().len(), 5, "{answer}");
        let effects = stepwell.json(&["show", run.as_str().unwrap()])["effects"].take();
        (answer["resolution"].clone(), effects)
    };
    let (word, effects) = resolve("a", &["--failed", "the account is closed"]);
    assert_eq!((word, &effects[0]["class"]), (json!("failed"), &json!("reconcilable")));
    assert_eq!(effects[0]["outcome"]["failed"]["message"], "the account is closed");
    assert_eq!(resolve("b", &["--try-again"]), (json!("try-again"), json!([])));
    let (word, effects) = resolve("c", &["--succeeded", "null"]);
    assert_eq!((word, &effects[0]["outcome"]), (json!("succeeded"), &json!({"succeeded": {"result": null}})));
}

#[test]
fn a_run_is_parked_until_the_last_of_its_effects_is_settled() {
    let stepwell = Stepwell::new();
    let both = [("pay", Class::Once, Duration::ZERO), ("mail", Class::Idempotent(Some(1)), Duration::ZERO)];
    let (run, [pay, mail]) = unknown(&stepwell, both);
    assert_eq!(stepwell.json(&["unknowns"]).as_array().unwrap().len(), 2);
    let first = stepwell.run(&succeeded(&run, &pay, "1"));
    let stays = format!("stays parked: 1 other effect may have happened too, see `stepwell unknowns {run}`");
    assert!(first.code == Some(0) && first.stdout.contains(&stays), "{first:?}");
    assert_eq!(stepwell.json(&["unknowns"])[0]["key"], json!(mail));
    let second = stepwell.run(&["resolve", &run, &mail, "--try-again", "--why", WHY]);
    assert!(second.stdout.contains("resolved as try-again, says ada; the run goes on"), "{second:?}");
}

#[test]
fn what_is_on_its_way_waits() {
    let stepwell = Stepwell::new();
    let (run, [key]) = unknown(&stepwell, [("pay", Class::Once, Duration::from_hours(1))]);
    let before = stepwell.json(&["show", &run]);
    stepwell.run(&succeeded(&run, &key, "1")).failed(4, &["error[on-its-way]", "may still land until", &key]);
    assert_eq!(stepwell.json(&["show", &run]), before);
    let text = stepwell.run(&["unknowns", &run]).stdout;
    assert!(text.contains("maybe, since 2023-11-14T22:13:20.000Z; it may still land until 2"), "{text}");
    assert!(!text.contains("stepwell resolve"), "nobody can say yet: {text}");
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let stepwell = Stepwell::new();
    let (run, [key]) = unknown(&stepwell, [("pay", Class::Once, Duration::ZERO)]);
    let before = stepwell.json(&["show", &run, "--history"]);
    let because = ["--why", WHY];
    let usage: [(&[&str], &str); 10] = [
        (&["resolve", &run, &key, "--try-again"], "--why <TEXT>"),
        (&["resolve", &run, &key, "--try-again", "--why", WHY, "--by", " bob"], "blanks around it"),
        (&["resolve", &run, &key, "--try-again", "--why", WHY, "--by", ""], "it says nothing"),
        (&["resolve", &run, &key, "--try-again", "--why", " "], "it says nothing"),
        (&["resolve", &run, &key, "--failed", "", "--why", WHY], "it says nothing"),
        (&["resolve", &run, &key, "--why", WHY], "--succeeded <JSON>|--failed <TEXT>|--try-again|--sign-off"),
        (&["resolve", &run, &key, "--try-again", "--failed", "no", "--why", WHY], "cannot be used with"),
        (&["resolve", &run, "pay", "--try-again", "--why", WHY], "no key of an effect: those are 32 hex"),
        (&["resolve", &run, &key.to_uppercase(), "--try-again", "--why", WHY], "no key of an effect"),
        (&["unknowns", &run, "--limit", "3"], "cannot be used with"),
    ];
    for (args, words) in usage {
        stepwell.run(args).failed(2, &[words]);
    }
    // Whoever does any of these says who they are.
    let acts: [&[&str]; 4] = [
        &["resolve", &run, &key, "--try-again", "--why", WHY],
        &["resume", &run],
        &["let-stand", &run, "--why", WHY],
        &["cancel", &run],
    ];
    for act in acts {
        let mut nobody = stepwell.command(act);
        nobody.env_remove("USER");
        common::finish(nobody, "").failed(2, &["--by <WHO>"]);
    }
    let long = "w".repeat(1_025);
    let refused: [(&[&str], &[&str]); 5] = [
        (&["resolve", &run, NO_KEY, "--try-again"], &["error[not-open]", NO_KEY, &run]),
        (&["resolve", "r1", &key, "--try-again"], &["error[no-such-run]", "there is no run r1"]),
        (&["resolve", &run, &key, "--succeeded", "yes"], &["error[not-json]", "the result is not JSON"]),
        (&["resolve", &run, &key, "--succeeded", "@no/such"], &["error[unreadable]", "the result in file no/such"]),
        (&["resolve", &run, &key, "--failed", &long], &["error[bad-value]", "1024"]),
    ];
    for (args, words) in refused {
        stepwell.run(&[args, &because].concat()).failed(3, words);
    }
    assert_eq!(stepwell.json(&["show", &run, "--history"]), before);

    assert_eq!(stepwell.run(&succeeded(&run, &key, "1")).code, Some(0));
    let ran = stepwell.run(&[&succeeded(&run, &key, "2")[..], &["--json"]].concat());
    ran.failed(3, &["error[not-open]", "it was settled, or the key is wrong"]);
    assert_eq!(ran.json()["error"]["remedy"], "fix-the-input");
}

#[test]
fn parked_runs_come_first_and_a_limit_is_said() {
    let stepwell = Stepwell::new();
    let (first, _) = unknown(&stepwell, [("pay", Class::Once, Duration::ZERO)]);
    let (second, _) = unknown(&stepwell, [("pay", Class::Once, Duration::ZERO)]);
    let read = record(&first, "look", Class::Read, Duration::ZERO);
    let failed = Outcome::Failed(Failure::new(FailureKind::Refused, "no"));
    let refused = EffectRecord { outcome: failed, ..record(&first, "refused", Class::Once, Duration::ZERO) };
    let other = stepwell.start(&["hello", "--input", ADA]);
    park(&stepwell, &other, ParkReason::Data { what: "a page is missing".into() }, vec![read, refused], Vec::new());

    let runs = |args: &[&str]| -> Vec<String> {
        let listed = stepwell.json(&[&["unknowns"], args].concat());
        listed.as_array().unwrap().iter().map(|unknown| unknown["run"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(runs(&[]), [second.clone(), first]);
    assert_eq!(runs(&["--limit", "2"]), [second]);
    let cut = stepwell.run(&["unknowns", "--limit", "2"]);
    assert!(cut.stderr.contains("only 2 runs looked at; there are more: look at more with --limit"), "{cut:?}");
    let whole = stepwell.run(&["unknowns", "--limit", "3"]);
    assert!(whole.code == Some(0) && !whole.stderr.contains("there are more"), "{whole:?}");
}

#[test]
fn a_cancelled_run_waits_for_what_is_uncertain_and_ends_with_what_is_signed_off() {
    let stepwell = Stepwell::new();
    let (run, [key]) = unknown(&stepwell, [("pay", Class::Once, Duration::ZERO)]);
    let cancelled = stepwell.run(&["cancel", &run]);
    let resolve = format!("once it is known: `stepwell resolve {run} {key}`, with how it ended\n");
    let sign_off = format!("if nobody can find out: `stepwell resolve {run} {key} --sign-off --why …`");
    let stays = "is to end, but 1 effect may have happened: it stays parked until it is known how each ended\n";
    for part in [stays, &resolve, &sign_off] {
        assert!(cancelled.code == Some(0) && cancelled.stdout.contains(part), "{part}: {cancelled:?}");
    }
    let again = stepwell.json(&["cancel", &run]);
    assert_eq!(
        (&again["new"], &again["status"], &again["unknowns"][0]["key"]),
        (&json!(false), &json!("parked"), &json!(key))
    );
    let shown = stepwell.run(&["show", &run]).stdout;
    assert!(shown.contains(&resolve) && shown.contains(&sign_off), "{shown}");

    let settled = stepwell.run(&["resolve", &run, &key, "--sign-off", "--why", "the bank has lost its books"]);
    let said = format!("effect {key} of run {run} is resolved as sign-off, says ada; the run goes on to its end\n");
    assert_eq!((settled.code, settled.stdout.as_str()), (Some(0), said.as_str()), "{settled:?}");
    let _worker = stepwell.worker(&[]);
    let ended = stepwell.wait_for(&run, "cancelled");
    let uncertain = &ended["detail"]["cancelled"]["uncertain"][0];
    assert_eq!((&uncertain["key"], &uncertain["signed_off_by"]), (&json!(key), &json!("ada")), "{ended}");
    let text = stepwell.run(&["show", &run]).stdout;
    let certified = format!(
        "pay (once), 1 call, key {key}, may have happened; its call waited until 2023-11-14T22:13:40.000Z at the latest; signed off by ada\n"
    );
    assert!(text.contains(&certified) && !text.contains("stepwell resolve"), "{text}");
    assert_eq!(stepwell.json(&["unknowns", &run]), json!([]));
    stepwell.run(&succeeded(&run, &key, "1")).failed(3, &["error[ended]", "cancelled"]);
}
