//! The stored form, name by name: a change of what is written fails here first. Stored runs outlive the code, so a changed
//! name is a new format, not a new golden file. After adding to the form on purpose: `UPDATE=1 cargo test --test golden`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod make;

use core::time::Duration;
use std::{fs, path::Path};

use make::{
    RULES, T0, acquire, at, committed, effect, end, failure, inline, keyed, moment, place, signal, started, succeeded,
    unknown, with_cancel, with_letter,
};
use serde_json::{Value, json};
use stepwell_core::checkpoint::Usage;
use stepwell_core::decide::{Resolution, Resolve, StepEnd, StepOutcome, Turn, commit, intend, resolve, turn};
use stepwell_core::stored::{Unknown, decode, encode};
use stepwell_core::write::Write;
use stepwell_core::{
    BlobRef, Checkpoint, Class, Digest, EffectRecord, Failure, FailureKind, MailboxSeq, Outcome, ParkReason, Payload,
    Place, RetryPolicy, Status, Wait,
};

/// The run after its first step, still held.
fn stepped() -> Checkpoint {
    let held = acquire(&started(), at(10)).unwrap();
    let end = StepEnd { step: "begin".into(), ..end(StepOutcome::Goto { place: place("Draft") }) };
    ended(&held, end)
}

fn ended(held: &Checkpoint, end: StepEnd) -> Checkpoint {
    let decision = commit(held, end, RULES, moment(at(40)), true).unwrap();
    committed(held, at(40), decision.commit)
}

fn waiting() -> Checkpoint {
    let on = vec![signal("approved"), signal("rejected")];
    let until = Some(at(3_600_000));
    let used = Usage { writes: 2, bytes: 900, effects_made: 3, effects_skipped: 1, ..Usage::default() };
    let paid = keyed("pay", "order-7", Outcome::Failed(failure("declined").with_code("card")));
    let effects = vec![succeeded("mail"), EffectRecord { parameters: Some(Digest::of(b"7 EUR")), ..paid }];
    let wait = StepOutcome::Wait { place: place("Decide"), on, until };
    let run = ended(&with_letter(&stepped(), "s0", "other"), StepEnd { effects, used, logs: 2, ..end(wait) });
    let signalled = with_letter(&run, "s1", "other");
    let held = acquire(&signalled, at(50)).unwrap();
    let Turn::Write(decision) = turn(&held, RULES, at(50)).unwrap() else { panic!("the step would run") };
    with_letter(&committed(&held, at(50), decision.commit), "s2", "approved")
}

fn retrying() -> Checkpoint {
    let policy = RetryPolicy::default().every(Duration::from_secs(5));
    let retry = |kind, message| {
        let policy = policy.clone();
        StepOutcome::Retry { failure: Failure::new(kind, message), policy, at_least: None }
    };
    let strange = ended(&stepped(), end(retry(FailureKind::Incompatible, "no step Draft")));
    let again = acquire(&strange, at(5_040)).unwrap();
    let effects = vec![unknown("post", Class::Idempotent(Some(60_000))), unknown("look", Class::Read)];
    ended(&again, StepEnd { effects, ..end(retry(FailureKind::Timeout, "too slow")) })
}

/// In the middle of a step that is about to call.
fn intended() -> Checkpoint {
    let (held, until) = (stepped(), at(20_050));
    let paid = EffectRecord { of_run: true, until: Some(until), ..unknown("pay", Class::Reconcilable) };
    let sent = EffectRecord { of_run: true, until: Some(at(9_000)), ..unknown("letter", Class::Once) };
    let commit = intend(&held, vec![succeeded("mail"), paid, sent], until, RULES, at(50)).unwrap();
    committed(&held, at(50), commit)
}

/// A person has said of one effect that it did not happen; the other is still open.
fn resolved() -> Checkpoint {
    let park = StepOutcome::Park { reason: ParkReason::Data { what: "blob k is missing".into() } };
    let effects = vec![unknown("pay", Class::Reconcilable), unknown("letter", Class::Once)];
    let parked = ended(&stepped(), StepEnd { effects: effects.clone(), ..end(park) });
    let (key, resolution) = (effects[1].key.clone(), Resolution::Failed("never left".into()));
    let act = Resolve { key, resolution, by: "ann".into(), why: "still in the tray".into() };
    let (amend, _) = resolve(&parked, &act, at(60)).unwrap();
    make::write(&parked, at(60), Write::Amend(Box::new(amend))).unwrap()
}

fn parked() -> Checkpoint {
    let missing = "workflow brief has no step Draft".to_string();
    let park = StepOutcome::Park { reason: ParkReason::Incompatible { missing } };
    with_cancel(&ended(&stepped(), StepEnd { effects: vec![succeeded("mail")], ..end(park) }))
}

fn completed() -> Checkpoint {
    let output = Payload::Blob(BlobRef::of(&make::run(), b"{}"));
    let end = StepEnd { consumed: vec![make::signal_id("s1")], ..end(StepOutcome::Complete { output }) };
    ended(&with_letter(&stepped(), "s1", "go"), end)
}

fn failed() -> Checkpoint {
    let failure = Failure::new(FailureKind::Terminal, "no such vendor").with_code("vendor");
    ended(&stepped(), end(StepOutcome::Fail { failure }))
}

fn cancelled() -> Checkpoint {
    let effects = vec![
        succeeded("mail"),
        effect("look", Class::Read, Outcome::Failed(failure("gone"))),
        unknown("post", Class::Idempotent(None)),
    ];
    ended(&with_cancel(&stepped()), StepEnd { effects, ..end(StepOutcome::Goto { place: place("Send") }) })
}

#[test]
fn stored_checkpoints() {
    for (name, run) in [
        ("fresh", started()),
        ("held", stepped()),
        ("waiting", waiting()),
        ("intended", intended()),
        ("resolved", resolved()),
        ("retrying", retrying()),
        ("parked", parked()),
        ("completed", completed()),
        ("failed", failed()),
        ("cancelled", cancelled()),
    ] {
        let stored: Value = serde_json::from_slice(&encode(&run, &Unknown::new()).unwrap()).unwrap();
        let golden = golden(name, &stored);
        let (read, unknown) = decode(golden.to_string().as_bytes()).unwrap();
        assert_eq!(read, run, "{name}: what is stored already is no longer read as it was written");
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
    }
}

/// The names of what only some runs have: every park reason, status and failure.
#[test]
fn stored_names() {
    let reasons = [
        ParkReason::Poison { acquires: 5 },
        ParkReason::Incompatible { missing: "-".into() },
        ParkReason::StepLimit { limit: 9 },
        ParkReason::Data { what: "-".into() },
        ParkReason::UnknownOutcome { what: "-".into() },
    ];
    let kinds = [
        FailureKind::Error,
        FailureKind::Terminal,
        FailureKind::Panic,
        FailureKind::Timeout,
        FailureKind::Refused,
        FailureKind::Input,
        FailureKind::Incompatible,
    ];
    let wait = Wait { on: vec![], until: None, seen: MailboxSeq(0) };
    let fresh = Place::Fresh { input: inline(&json!(1)) };
    let names = json!({
        "park reasons": reasons,
        "failure kinds": kinds,
        "classes": [Class::Read, Class::Idempotent(None), Class::Idempotent(Some(7)), Class::Reconcilable, Class::Once],
        "statuses": [Status::Created, Status::Running, Status::Retrying { at: T0 }, Status::Waiting(wait)],
        "places": [fresh, place("Draft")],
    });
    golden("names", &names);
}

/// Compares with the golden file of this name, or writes it when `UPDATE` is set. Answers what the file holds.
fn golden(name: &str, value: &Value) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.json"));
    let text = serde_json::to_string_pretty(value).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, format!("{text}\n")).expect("the golden file can be written");
    }
    let golden: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap_or_default()).unwrap_or_default();
    assert!(golden == *value, "{name}: the stored form has changed, set UPDATE to accept it; it is now\n{text}");
    golden
}
