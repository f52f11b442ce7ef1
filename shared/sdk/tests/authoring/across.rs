//! Effects whose key is unique across runs: made by one of them, and the others get its result.

use serde_json::json;
use stepwell::host::{Claim, ErrorMeans, HostError};
use stepwell::prelude::*;
use stepwell::{RunId, fingerprint};
use stepwell_core::{Class, EffectKey, EffectRecord, Failure, FailureKind, Outcome, Scope, WorkflowName};

use crate::host::{Asked, FakeHost, Outside, START, bare, is_misused, means, only_record, succeeded};

async fn pays_back(cx: &Cx, outside: &Outside) -> Result<u8, EffectError> {
    let refund = cx.effect("refund").key("order-7").across_runs().with("order-7").idempotent();
    refund.retry(RetryPolicy::default().max_attempts(9)).call(|call| outside.ask(call, Ok::<_, CallError>(8))).await
}

fn key() -> EffectKey {
    let workflow = WorkflowName::new("refund").unwrap();
    EffectKey::derive(&RunId::new("run-1").unwrap(), &workflow, "refund", Scope::Business("order-7"))
}

fn other() -> RunId {
    RunId::new("run-2").unwrap()
}

/// What the other run knows.
fn theirs(outcome: Outcome) -> EffectRecord {
    let parameters = Some(fingerprint("order-7").unwrap());
    EffectRecord { parameters, ..bare(key(), "refund", Class::Idempotent(None), outcome) }
}

fn of(record: EffectRecord) -> Claim {
    Claim::Of { run: other(), record: Some(Box::new(record)) }
}

async fn told(claim: Claim) -> (Result<u8, EffectError>, Cx) {
    let (host, outside) = (FakeHost::new(), Outside::default());
    host.answer_claims(claim);
    let cx = host.cx();
    let paid = pays_back(&cx, &outside).await;
    assert_eq!((outside.calls(), host.asked()), (0, vec![Asked::Claim]));
    // Only what has happened is written down, as made by nobody here: nothing of it is this run's to take back or to pay.
    let journal = cx.recorded().journal;
    assert_eq!(journal.len(), usize::from(paid.is_ok()), "{journal:?}");
    for record in journal {
        assert!(matches!(record.outcome, Outcome::Succeeded(_)), "{record:?}");
        assert_eq!((record.attempts, record.costs.len(), record.undo, record.approval), (0, 0, None, None));
    }
    (paid, cx)
}

#[tokio::test]
async fn whoever_is_first_makes_it_under_a_key_that_does_not_name_the_run() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    assert_eq!(pays_back(&cx, &outside).await.unwrap(), 8);
    assert_eq!(outside.keys(), [key().to_string()]);
    // Claimed first; then the intent, since other runs look at it before they take it over.
    let until = START.plus(seconds(20));
    assert_eq!(host.asked(), [Asked::Claim, Asked::Intend(vec!["refund".into()], until)]);
    let elsewhere =
        EffectKey::derive(&other(), &WorkflowName::new("refund").unwrap(), "refund", Scope::Business("order-7"));
    assert_eq!(elsewhere, key());

    // Its own record is asked first.
    let again = host.again(&cx);
    assert_eq!((pays_back(&again, &outside).await.unwrap(), outside.calls(), host.asked().len()), (8, 1, 2));
}

#[tokio::test]
async fn another_runs_result_is_this_ones() {
    let record = of(theirs(succeeded(&json!(7))));
    let (paid, cx) = told(record).await;
    assert_eq!((paid.unwrap(), cx.recorded().used().effects_skipped), (7, 1));
}

#[tokio::test]
async fn what_another_run_has_not_made_for_sure_is_asked_for_again() {
    let failed = Outcome::Failed(Failure::new(FailureKind::Refused, "no"));
    let unknown = Outcome::Unknown { since: START, evidence: "reset".into() };
    for (claim, how) in [
        (Claim::Of { run: other(), record: None }, "has not made it yet"),
        (of(theirs(failed)), "was refused"),
        (of(theirs(unknown)), "may have made it"),
        (Claim::TakenBack { run: other() }, "has made it and takes it back"),
    ] {
        let error = told(claim).await.0.unwrap_err();
        assert_eq!(error.to_string(), format!("effect refund is run run-2's, which {how}"));
        let ErrorMeans::Retry { failure, policy: Some(policy), .. } = means(error) else { panic!("it is tried again") };
        assert_eq!((failure.code.as_deref(), policy.max_attempts.get()), (Some("taken"), 9));
    }
}

#[tokio::test]
async fn the_same_key_with_other_parameters_is_an_error() {
    for outcome in [succeeded(&json!(7)), Outcome::Unknown { since: START, evidence: "reset".into() }] {
        let record = EffectRecord { parameters: None, ..theirs(outcome) };
        let error = told(of(record)).await.0.unwrap_err();
        assert!(is_misused(&error, "run run-2 uses the same key with other parameters"), "{error}");
    }
}

#[tokio::test]
async fn a_result_of_another_type_is_an_error() {
    let record = theirs(succeeded(&json!("paid")));
    let error = told(of(record)).await.0.unwrap_err();
    assert!(is_misused(&error, "its recorded result is not of the type asked for"), "{error}");
}

#[tokio::test]
async fn a_claim_that_cannot_be_made_costs_an_attempt_and_a_cancelled_run_makes_none() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    host.be_in_trouble(HostError::Passing("the store is away".into()));
    let error = pays_back(&host.cx(), &outside).await.unwrap_err();
    assert!(matches!(means(error), ErrorMeans::Retry { .. }));
    assert_eq!((outside.calls(), host.asked()), (0, vec![Asked::Claim]));

    let (host, outside) = (FakeHost::new(), Outside::default());
    host.cancel();
    let cx = host.cx();
    let error = pays_back(&cx, &outside).await.unwrap_err();
    assert!(matches!(error, EffectError::Cancelled { .. }), "{error}");
    assert_eq!((outside.calls(), host.asked()), (0, vec![]));
    assert!(!only_record(&cx).may_have_happened());
}
