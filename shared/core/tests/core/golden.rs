//! The stored form, name by name: a change of what is written fails here first. Stored runs outlive the code, so a changed
//! name is a new format, not a new golden file. After adding to the form on purpose: `UPDATE=1 cargo test -p stepwell-core golden`.

use core::time::Duration;
use std::{fs, path::Path};

use crate::make::{
    self, RULES, T0, acquire, amended, at, committed, effect, end, failure, inline, keyed, moment, place, signal,
    signed_off, started, succeeded, taken_up, unknown, with_cancel, with_letter,
};
use serde_json::{Value, json};
use stepwell_core::budget::{Span, Spent};
use stepwell_core::checkpoint::Usage;
use stepwell_core::decide::{
    Approve, Approved, LetStand, Resolution, Resolve, Resume, StepEnd, StepOutcome, Turn, approve, commit, intend,
    let_stand, resolve, resume, turn,
};
use stepwell_core::stored::{Unknown, decode, encode};
use stepwell_core::write::Write;
use stepwell_core::{
    Amounts, BlobRef, Budget, Cause, Checkpoint, Class, Digest, EffectRecord, Failure, FailureKind, Json, MailboxSeq,
    Outcome, OverBudget, ParkReason, Payload, Place, RetryPolicy, Reviewer, Status, Wait,
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
    let wait = StepOutcome::Wait { place: place("Decide"), on, until, ask: None };
    let run = ended(&with_letter(&stepped(), "s0", "other"), StepEnd { effects, used, logs: 2, ..end(wait) });
    let signalled = with_letter(&run, "s1", "other");
    let held = acquire(&signalled, at(50)).unwrap();
    let Turn::Write(decision) = turn(&held, &Budget::none(), RULES, at(50)).unwrap() else {
        panic!("the step would run")
    };
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
    let goto = end(StepOutcome::Goto { place: place("Send") });
    let parked = ended(&with_cancel(&stepped()), StepEnd { effects, ..goto });
    taken_up(&signed_off(&parked, at(50)), at(60))
}

fn asked() -> Checkpoint {
    let wait =
        StepOutcome::Wait { place: place("Refund"), on: vec![], until: None, ask: Some(Box::new(make::refund())) };
    ended(&stepped(), end(wait))
}

fn answered() -> Checkpoint {
    let run = asked();
    let reviewer = Reviewer { name: "bob".into(), roles: vec!["finance".into()] };
    let approval = run.progress.approvals[0].id.clone();
    let act = Approve { approval, reviewer, allows: true, why: Some("known customer".into()) };
    let Approved::New(amend, _) = approve(&run, &act, at(60)).unwrap() else { panic!("said before") };
    amended(&run, at(60), *amend)
}

/// An approval is used and an amount reserved with the intent of an effect that can be taken back.
fn used() -> Checkpoint {
    let held = acquire(&answered(), at(70)).unwrap();
    let pay = keyed("refund", "order-7", Outcome::Unknown { since: at(70), evidence: "in flight".into() });
    let pay = EffectRecord {
        parameters: Some(Digest::of(b"7, 900")),
        approval: Some(held.progress.approvals[0].id.clone()),
        costs: Amounts::from([("cents".into(), 900)]),
        undo: Some(Json::of(&json!({"Charge": {"order": 7}})).unwrap()),
        until: Some(at(20_070)),
        ..pay
    };
    committed(&held, at(70), intend(&held, vec![pay], at(20_070), RULES, at(70)).unwrap())
}

/// Two effects of an earlier step, the later of them the point of no return.
fn with_undo(name: &str) -> EffectRecord {
    let undo = Some(Json::of(&json!({"Undo": name})).unwrap());
    EffectRecord { undo, ..keyed(name, "order-7", Outcome::Succeeded(inline(&json!("ok")))) }
}

fn reserved() -> Checkpoint {
    let sent = EffectRecord { no_return: true, ..with_undo("label") };
    let effects = vec![sent, with_undo("reserve"), with_undo("charge")];
    ended(&stepped(), StepEnd { effects, ..end(StepOutcome::Goto { place: place("Ship") }) })
}

fn undoing() -> Checkpoint {
    let failure = Failure::new(FailureKind::Terminal, "sold out");
    let failed = ended(&reserved(), end(StepOutcome::Fail { failure }));
    ended(&acquire(&failed, at(50)).unwrap(), end(StepOutcome::Undone { place: place("Ship") }))
}

/// A cancelled run with everything that a certificate can list.
fn certified() -> Checkpoint {
    let not_sent = Outcome::Failed(Failure::new(FailureKind::NotSent, "cancelled first"));
    let effects = vec![unknown("fax", Class::Once), EffectRecord { attempts: 0, ..keyed("mail", "m", not_sent) }];
    let run = with_cancel(&acquire(&make::handed_off(&reserved(), at(45)), at(50)).unwrap());
    let again = acquire(&run, at(40_000)).unwrap();
    let parked = ended(&again, StepEnd { effects, ..end(StepOutcome::Fail { failure: failure("no") }) });
    let undoing = acquire(&taken_up(&signed_off(&parked, at(50_000)), at(50_001)), at(50_002)).unwrap();
    let stuck = ended(&undoing, end(StepOutcome::Fail { failure: failure("no such charge") }));
    let act = LetStand { by: "ann".into(), why: "paid back by hand".into() };
    let (amend, _) = let_stand(&stuck, &act, at(60_000)).unwrap();
    let mut run = acquire(&amended(&stuck, at(60_000), amend), at(60_001)).unwrap();
    for _ in ["reserve", "label"] {
        run = ended(&run, end(StepOutcome::Undone { place: place("Ship") }));
    }
    run
}

/// Parked for its budget, resumed once and parked for another.
fn over_budget() -> Checkpoint {
    let costs = Amounts::from([("cents".into(), 900)]);
    let effects = vec![EffectRecord { costs, ..succeeded("mail") }];
    let over =
        |span, counter: &str| ParkReason::Budget(OverBudget { span, counter: counter.into(), limit: 5, spent: 7 });
    let park = |run: &Checkpoint, reason| {
        ended(run, StepEnd { effects: effects.clone(), ..end(StepOutcome::Park { reason }) })
    };
    let resumed = |run: &Checkpoint, now| {
        let (amend, _) = resume(run, &Resume { by: "ann".into(), why: None }, now).unwrap();
        acquire(&amended(run, now, amend), now).unwrap()
    };
    let stepped =
        ended(&stepped(), StepEnd { effects: effects.clone(), ..end(StepOutcome::Goto { place: place("Ship") }) });
    let of_step = resumed(&park(&stepped, over(Span::Step, "cents")), at(50));
    let of_run = resumed(&park(&of_step, over(Span::Run, "cents")), at(60));
    park(&of_run, over(Span::Run, "attempts"))
}

/// Its wait is cut short by the end of its budget.
fn cut_short() -> Checkpoint {
    let rules = stepwell_core::decide::Rules { run_ends: Some(at(60)), ..RULES };
    let wait = StepOutcome::Wait { place: place("Decide"), on: vec![signal("go")], until: None, ask: None };
    let decision = commit(&stepped(), end(wait), rules, moment(at(50)), true).unwrap();
    let waits = committed(&stepped(), at(50), decision.commit);
    let held = acquire(&waits, at(60)).unwrap();
    let budget = Budget::none().lasting(Duration::from_millis(60));
    let Turn::Write(decision) = turn(&held, &budget, RULES, at(60)).unwrap() else { panic!("the step would run") };
    committed(&held, at(60), decision.commit)
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
        ("asked", asked()),
        ("answered", answered()),
        ("used", used()),
        ("undoing", undoing()),
        ("certified", certified()),
        ("over-budget", over_budget()),
        ("cut-short", cut_short()),
    ] {
        let stored: Value = serde_json::from_slice(&encode(&run, &Unknown::new()).unwrap()).unwrap();
        let golden = golden(name, &stored);
        let (read, unknown) = decode(golden.to_string().as_bytes()).unwrap();
        assert_eq!(read, run, "{name}: what is stored already is no longer read as it was written");
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
    }
}

/// What code of before approvals, budgets and compensations has written, left as it was: nothing of it is lost or changed by
/// being read and written again.
#[test]
fn what_earlier_code_has_stored_is_read_as_it_was() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/earlier");
    let mut files = 0;
    for file in fs::read_dir(path).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let stored: Value = serde_json::from_str(&text).unwrap();
        let (read, unknown) = decode(text.as_bytes()).unwrap();
        assert!(unknown.is_empty(), "{}: {unknown:?}", path.display());
        let again: Value = serde_json::from_slice(&encode(&read, &Unknown::new()).unwrap()).unwrap();
        assert_eq!(again, stored, "{}", path.display());
        files += 1;
    }
    assert_eq!(files, 10);
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
        ParkReason::Budget(OverBudget { span: Span::Run, counter: "cents".into(), limit: 9, spent: 10 }),
        ParkReason::Undo { what: "-".into() },
        ParkReason::Paused { what: "-".into() },
    ];
    let kinds = [
        FailureKind::Error,
        FailureKind::Terminal,
        FailureKind::Panic,
        FailureKind::Timeout,
        FailureKind::Refused,
        FailureKind::Input,
        FailureKind::Incompatible,
        FailureKind::Budget,
        FailureKind::NotSent,
    ];
    let wait = Wait { on: vec![], approval: None, until: None, budget_ends: None, seen: MailboxSeq(0) };
    let fresh = Place::Fresh { input: inline(&json!(1)), at: None };
    let undone_first = fresh.with_step(Json::of("Undo").unwrap());
    let mut by_link = asked().progress.approvals;
    by_link[0].by_link = true;
    let more = Spent { more_for_run: Amounts::from([("cents".into(), 9)]), ..Spent::default() };
    let names = json!({
        "approvals by link": by_link,
        "spent": [Spent::default(), more],
        "park reasons": reasons,
        "failure kinds": kinds,
        "classes": [Class::Read, Class::Idempotent(None), Class::Idempotent(Some(7)), Class::Reconcilable, Class::Once],
        "statuses": [Status::Created, Status::Running, Status::Retrying { at: T0 }, Status::Waiting(wait)],
        "places": [fresh, place("Draft"), undone_first],
        "spans": [Span::Run, Span::Step],
        "causes": [Cause::Failed(failure("-")), Cause::Cancelled],
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
