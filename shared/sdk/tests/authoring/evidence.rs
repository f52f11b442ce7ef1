//! Late evidence: what a worker that has lost the run has still learned of an effect comes as a letter, and is the truth where
//! nothing else is known.

use serde_json::json;
use stepwell::prelude::*;
use stepwell_core::mailbox::EVIDENCE;
use stepwell_core::{
    Class, EffectKey, EffectRecord, Failure, FailureKind, Json, Letter, Outcome, Payload, Scope, Visit, WorkflowName,
};

use crate::host::{FakeHost, Outside, START, bare, inline, letter, only_record, succeeded};

fn record(class: Class, outcome: Outcome) -> EffectRecord {
    let (run, workflow) = (stepwell::RunId::new("run-1").unwrap(), WorkflowName::new("refund").unwrap());
    let key = EffectKey::derive(&run, &workflow, "pay", Scope::Run("order-7"));
    EffectRecord { until: Some(START), ..bare(key, "pay", class, outcome) }
}

fn open(class: Class) -> EffectRecord {
    record(class, Outcome::Unknown { since: START, evidence: "the call was in flight".into() })
}

fn refused() -> Outcome {
    Outcome::Failed(Failure::new(FailureKind::Refused, "no funds"))
}

fn evidence(id: &str, record: &EffectRecord) -> Letter {
    letter(id, EVIDENCE, Payload::Inline(Json::of(record).unwrap()))
}

/// Makes the effect again. The outside would answer 7.
async fn pays(cx: &Cx, class: Class, outside: &Outside) -> Result<u8, EffectError> {
    let pay = cx.effect("pay").key("order-7");
    let ok = Ok::<u8, CallError>(7);
    match class {
        Class::Read => pay.read().call(|call| outside.ask(call, ok)).await,
        Class::Idempotent(None) => pay.idempotent().call(|call| outside.ask(call, ok)).await,
        Class::Idempotent(Some(window)) => {
            let pay = pay.idempotent_for(Duration::from_millis(window));
            pay.call(|call| outside.ask(call, ok)).await
        }
        Class::Reconcilable => {
            let pay = pay.reconcile(async |_| Ok::<_, CallError>(Asked::CannotTell("the bank is shut".into())));
            pay.call(|call| outside.ask(call, ok)).await
        }
        Class::Once => pay.once().call(|call| outside.ask(call, ok)).await,
    }
}

fn taken(cx: &Cx) -> Vec<String> {
    cx.recorded().taken().iter().map(ToString::to_string).collect()
}

const ACTING: [Class; 4] = [Class::Once, Class::Reconcilable, Class::Idempotent(None), Class::Idempotent(Some(1))];

#[tokio::test]
async fn late_evidence_settles_what_is_unknown_and_tells_what_was_never_written() {
    for class in ACTING {
        for known in ["in the journal", "in the ledger", "nowhere"] {
            let (host, outside) = (FakeHost::new(), Outside::default());
            host.pass(hours(1));
            let told = record(class, succeeded(&json!(9)));
            let cx = host.visit(|visiting| {
                visiting.letters = vec![evidence("e1", &told)];
                visiting.earlier_try = Some(START);
                match known {
                    "in the journal" => visiting.journal = vec![open(class)],
                    "in the ledger" => visiting.ledger = vec![open(class)],
                    _ => {}
                }
            });
            assert_eq!(pays(&cx, class, &outside).await.unwrap(), 9, "{class:?}, {known}");
            assert_eq!((only_record(&cx), outside.calls(), host.asked()), (told, 0, vec![]), "{class:?}, {known}");
            assert_eq!(taken(&cx), ["e1"], "{class:?}, {known}: it is consumed with the step");
        }
    }
}

#[tokio::test]
async fn late_evidence_of_a_refusal_is_a_refusal() {
    for class in ACTING {
        let (host, outside) = (FakeHost::new(), Outside::default());
        let cx = host.visit(|visiting| {
            (visiting.journal, visiting.letters) = (vec![open(class)], vec![evidence("e1", &record(class, refused()))]);
        });
        let error = pays(&cx, class, &outside).await.unwrap_err();
        assert_eq!((error.to_string(), outside.calls()), ("effect pay was refused: no funds".into(), 0), "{class:?}");
    }
}

#[tokio::test]
async fn what_is_settled_stays_as_it_is_whoever_says_otherwise() {
    for (class, in_ledger) in ACTING.into_iter().flat_map(|class| [(class, true), (class, false)]) {
        let (host, outside) = (FakeHost::new(), Outside::default());
        let settled = record(class, succeeded(&json!(5)));
        let others = [record(class, refused()), record(class, succeeded(&json!(9))), open(class)];
        let cx = host.visit(|visiting| {
            let records = if in_ledger { &mut visiting.ledger } else { &mut visiting.journal };
            records.push(settled.clone());
            visiting.letters =
                ["e1", "e2", "e3"].into_iter().zip(&others).map(|(id, told)| evidence(id, told)).collect();
        });
        assert_eq!(cx.recorded().journal, if in_ledger { vec![] } else { vec![settled] }, "{class:?}");
        assert_eq!((pays(&cx, class, &outside).await.unwrap(), outside.calls()), (5, 0), "{class:?}");
        assert_eq!(taken(&cx), ["e1", "e2", "e3"], "{class:?}: and none of it is left lying");
    }
    // The first that tells of it is believed.
    let host = FakeHost::new();
    let (first, second) = (record(Class::Once, succeeded(&json!(1))), record(Class::Once, refused()));
    let cx = host.visit(|visiting| {
        visiting.journal = vec![open(Class::Once)];
        visiting.letters = vec![evidence("e1", &first), evidence("e2", &second)];
    });
    assert_eq!(only_record(&cx), first);
}

#[tokio::test]
async fn what_is_no_evidence_is_ignored_and_consumed() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let told = record(Class::Once, succeeded(&json!(9)));
    let shelved = host.shelve(Json::of(&told).unwrap().text());
    let cx = host.visit(|visiting| {
        visiting.journal = vec![open(Class::Once)];
        visiting.letters = vec![
            letter("e1", EVIDENCE, inline(&json!("garbage"))),
            letter("e2", EVIDENCE, inline(&json!({"k": told.key.as_str(), "n": "pay"}))),
            letter("e3", EVIDENCE, shelved),
            // Another name, though it reads like evidence.
            letter("s1", "paid", Payload::Inline(Json::of(&told).unwrap())),
        ];
    });
    assert_eq!((only_record(&cx), taken(&cx)), (open(Class::Once), vec!["e1".into(), "e2".into(), "e3".into()]));
    assert!(matches!(pays(&cx, Class::Once, &outside).await, Err(EffectError::Unsettled(_))));
    assert_eq!(outside.calls(), 0);
}

#[tokio::test]
async fn evidence_of_a_visit_that_is_over_waits_in_the_journal_to_be_folded() {
    let host = FakeHost::new();
    let mut told = record(Class::Idempotent(None), succeeded(&json!(9)));
    let (run, workflow) = (stepwell::RunId::new("run-1").unwrap(), WorkflowName::new("refund").unwrap());
    (told.key, told.of_run) = (EffectKey::derive(&run, &workflow, "pay", Scope::Visit(Visit(0))), false);
    let left = EffectRecord { outcome: open(told.class).outcome, ..told.clone() };
    let cx = host.visit(|visiting| {
        (visiting.ledger, visiting.letters) = (vec![left], vec![evidence("e1", &told)]);
    });
    assert_eq!((only_record(&cx), taken(&cx)), (told, vec!["e1".into()]));
}
