//! Effects that end well: one call, one record, one identity.

use core::future::{pending, ready};
use core::time::Duration;
use std::collections::HashMap;

use serde_json::json;
use stepwell::Effect;
use stepwell::prelude::*;
use stepwell_core::limits::JOURNAL_RECORDS_MAX;
use stepwell_core::{Class, EffectKey, EffectRecord, Outcome, Scope, Visit, WorkflowName};
use tokio::sync::Barrier;

use crate::host::{
    Asked, FakeHost, Outside, START, Seen, bare, inline, is_misused, means, only_record, poll_once, succeeded,
};

type Done<T> = Result<T, CallError>;

/// An effect with an answer.
async fn made<K: Send>(effect: Effect<'_, Class, K>, outside: &Outside, answer: u8) -> Result<u8, EffectError> {
    effect.call(|call| outside.ask(call, Done::Ok(answer))).await
}

#[tokio::test]
async fn each_class_is_called_once_recorded_and_answered_from_the_record_afterwards() {
    type Classify = fn(Effect<'_, stepwell::Unclassified>) -> Effect<'_, Class>;
    let classes: [(Class, Classify); 3] = [
        (Class::Read, |effect| effect.read()),
        (Class::Idempotent(None), |effect| effect.idempotent()),
        (Class::Idempotent(Some(3_600_000)), |effect| effect.idempotent_for(hours(1))),
    ];
    for (class, classify) in classes {
        let (host, outside) = (FakeHost::new(), Outside::default());
        let cx = host.cx();
        assert_eq!(made(classify(cx.effect("fetch")), &outside, 7).await.unwrap(), 7);
        let record = only_record(&cx);
        assert_eq!((record.name.as_str(), record.class, record.attempts, record.of_run), ("fetch", class, 1, false));
        assert_eq!((record.outcome, record.parameters), (succeeded(&json!(7)), None));
        assert_eq!(cx.recorded().used().effects_made, 1);

        let cx = host.again(&cx);
        // The outside would answer 8 by now.
        assert_eq!(made(classify(cx.effect("fetch")), &outside, 8).await.unwrap(), 7);
        assert_eq!(outside.calls(), 1);
        let used = cx.recorded().used();
        assert_eq!((used.effects_made, used.effects_skipped), (0, 1));
        assert_eq!(only_record(&cx).outcome, succeeded(&json!(7)));
    }
}

#[tokio::test]
async fn a_call_is_told_its_key_its_number_and_its_deadline() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    made(cx.effect("fetch").read(), &outside, 1).await.unwrap();
    made(cx.effect("other").read().deadline(seconds(5)), &outside, 1).await.unwrap();
    let [first, second] = &outside.seen()[..] else { panic!("two calls") };
    let key = EffectKey::derive(cx.run(), &workflow(), "fetch", Scope::Visit(Visit(1)));
    assert_eq!(*first, Seen { key: key.to_string(), attempt: 1, deadline: seconds(20) });
    assert_eq!(second.deadline, seconds(5));
}

#[tokio::test]
async fn the_lease_covers_the_deadline_before_anything_is_dispatched() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    let held = [Asked::Hold(START.plus(seconds(5)))];
    let call = async |_| {
        assert_eq!(host.asked(), held);
        Done::Ok(1_u8)
    };
    cx.effect("fetch").read().deadline(seconds(5)).call(call).await.unwrap();

    // A recorded result needs no lease.
    let cx = host.again(&cx);
    made(cx.effect("fetch").read().deadline(minutes(9)), &outside, 1).await.unwrap();
    assert_eq!(host.asked(), held);
}

#[tokio::test]
async fn an_effect_without_a_key_belongs_to_one_visit_of_its_step() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    for visit in [1, 2] {
        let cx = host.visit(|visiting| visiting.visit = Visit(visit));
        made(cx.effect("fetch").read(), &outside, 1).await.unwrap();
        made(cx.effect("email").key("order-7").idempotent(), &outside, 1).await.unwrap();
        made(cx.effect("email").key("order-8").idempotent(), &outside, 1).await.unwrap();
        made(cx.effect("refund").key("order-7").idempotent(), &outside, 1).await.unwrap();
        let of_run: Vec<bool> = cx.recorded().journal.iter().map(|record| record.of_run).collect();
        assert_eq!(of_run, [false, true, true, true]);
    }
    let keys = outside.keys();
    let (first, second) = keys.split_at(4);
    assert_ne!(first[0], second[0], "a loop that comes back reads anew");
    assert_eq!(first[1..], second[1..], "the author's keys mean the same for the whole run");
    let mut distinct = first.to_vec();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 4, "{first:?}");
}

#[tokio::test]
async fn an_effect_of_the_run_is_found_in_the_ledger() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let recorded = recorded_email();
    let cx = host.visit(|visiting| {
        visiting.visit = Visit(9);
        visiting.ledger = vec![recorded.clone()];
        visiting.has_spilled = true;
    });
    assert_eq!(made(cx.effect("email").key("order-7").idempotent(), &outside, 8).await.unwrap(), 7);
    assert_eq!(outside.calls(), 0);
    // It is in this step's account of things only if the step did something.
    assert_eq!((cx.recorded().journal, host.asked()), (vec![], vec![]));
}

#[tokio::test]
async fn an_effect_of_the_run_that_the_checkpoint_no_longer_carries_is_asked_for() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    host.spill(recorded_email());
    let cx = host.visit(|visiting| visiting.has_spilled = true);
    assert_eq!(made(cx.effect("email").key("order-7").idempotent(), &outside, 8).await.unwrap(), 7);
    assert_eq!((outside.calls(), host.asked()), (0, vec![Asked::Effect]));

    made(cx.effect("email").key("order-8").idempotent(), &outside, 8).await.unwrap();
    assert_eq!(outside.calls(), 1, "what is not found is called");

    // Neither for a run that has spilled nothing, nor for an effect of a visit.
    let asked = host.asked().len();
    made(host.cx().effect("email").key("order-7").idempotent(), &outside, 8).await.unwrap();
    made(host.visit(|visiting| visiting.has_spilled = true).effect("fetch").read(), &outside, 8).await.unwrap();
    assert!(!host.asked()[asked..].contains(&Asked::Effect), "{:?}", host.asked());
}

#[tokio::test]
async fn a_result_that_lies_in_a_blob_is_read() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let outcome = Outcome::Succeeded(host.shelve("7"));
    let cx = host.visit(|visiting| visiting.journal = vec![EffectRecord { outcome, ..recorded_fetch() }]);
    assert_eq!(made(cx.effect("fetch").read(), &outside, 8).await.unwrap(), 7);
    assert_eq!(outside.calls(), 0);
}

#[tokio::test]
async fn other_parameters_under_the_same_key_are_an_error_and_no_second_call() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    made(cx.effect("email").key("order-7").idempotent().with(&json!({"to": "a", "cents": 5})), &outside, 1)
        .await
        .unwrap();
    let in_ledger = host.visit(|visiting| visiting.ledger = cx.recorded().journal);
    for cx in [&cx, &host.again(&cx), &in_ledger] {
        let email = || cx.effect("email").key("order-7").idempotent();
        made(email().with(&json!({"cents": 5, "to": "a"})), &outside, 2).await.unwrap();
        let error = made(email().with(&json!({"to": "b", "cents": 5})), &outside, 2).await.unwrap_err();
        assert!(is_misused(&error, "other parameters") && error.to_string().contains("email"), "{error}");
    }
    assert_eq!(outside.calls(), 1);
}

#[tokio::test]
async fn parameters_that_have_no_fingerprint_are_refused_before_the_call() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    let over = (1_u64 << 53) + 1;
    let error = made(cx.effect("email").with(&over).idempotent(), &outside, 1).await.unwrap_err();
    assert!(is_misused(&error, "9007199254740993"), "{error}");
    assert_eq!((outside.calls(), cx.recorded().journal), (0, vec![]));
}

#[tokio::test]
async fn a_recorded_result_of_another_type_is_never_handed_out() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let outcome = Outcome::Succeeded(inline(&json!("seven")));
    let cx = host.visit(|visiting| visiting.journal = vec![EffectRecord { outcome, ..recorded_fetch() }]);
    let error = made(cx.effect("fetch").read(), &outside, 8).await.unwrap_err();
    assert!(is_misused(&error, "not of the type") && is_misused(&error, "new name"), "{error}");
    assert_eq!(outside.calls(), 0);
}

#[tokio::test]
async fn a_result_that_is_no_json_leaves_the_record_open() {
    let host = FakeHost::new();
    let cx = host.cx();
    let call = cx.effect("fetch").idempotent().call(async |_| Done::Ok(HashMap::from([((1_u8, 2_u8), 3_u8)])));
    let error = call.await.unwrap_err();
    assert!(is_misused(&error, "cannot be written as JSON"), "{error}");
    assert!(matches!(only_record(&cx).outcome, Outcome::Unknown { .. }));
}

#[tokio::test]
async fn a_name_that_is_called_twice_in_a_step_needs_a_key_or_parameters() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    made(cx.effect("fetch").read(), &outside, 1).await.unwrap();
    let error = made(cx.effect("fetch").read(), &outside, 2).await.unwrap_err();
    assert!(is_misused(&error, "called twice") && is_misused(&error, ".key(..)"), "{error}");
    assert_eq!(outside.calls(), 1);
    // An attempt later it is the same.
    let cx = host.again(&cx);
    made(cx.effect("fetch").read(), &outside, 1).await.unwrap();
    assert!(is_misused(&made(cx.effect("fetch").read(), &outside, 2).await.unwrap_err(), "called twice"));

    for _ in 0..2 {
        assert_eq!(made(cx.effect("keyed").key(1).read(), &outside, 3).await.unwrap(), 3);
        assert_eq!(made(cx.effect("fixed").with("a").read(), &outside, 4).await.unwrap(), 4);
    }
    assert_eq!(outside.calls(), 3);
}

#[tokio::test]
async fn of_two_calls_at_once_under_one_key_only_one_is_made() {
    let host = FakeHost::new();
    let cx = host.cx();
    let charge = |answer: u8| {
        cx.effect("charge").key("order").idempotent().call(move |_| async move {
            tokio::task::yield_now().await;
            Done::Ok(answer)
        })
    };
    let (first, second) = tokio::join!(charge(1), charge(2));
    assert_eq!(first.unwrap(), 1);
    let error = second.unwrap_err();
    assert!(is_misused(&error, "in flight"), "{error}");
    assert_eq!(only_record(&cx).outcome, succeeded(&json!(1)));
    // Once it has landed, its result is there for whoever asks.
    assert_eq!(charge(3).await.unwrap(), 1);
}

#[tokio::test]
async fn of_two_calls_at_once_only_one_is_made_though_the_lease_is_renewed_meanwhile() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    host.renew_slowly();
    let cx = host.cx();
    let charge = || cx.effect("charge").key("order").idempotent();
    let (first, second) = tokio::join!(made(charge(), &outside, 1), made(charge(), &outside, 2));
    assert_eq!((first.unwrap(), outside.calls()), (1, 1));
    assert!(is_misused(&second.unwrap_err(), "in flight"));
    assert_eq!(only_record(&cx).outcome, succeeded(&json!(1)));
}

#[tokio::test]
async fn a_call_that_was_dropped_in_flight_may_be_made_again() {
    let host = FakeHost::new();
    let cx = host.cx();
    let mut stalled = Box::pin(cx.effect("charge").key("order").idempotent().call(|_| pending::<Done<u8>>()));
    assert!(poll_once(stalled.as_mut()).is_pending());
    drop(stalled);
    let again = cx.effect("charge").key("order").idempotent().call(|_| ready(Done::Ok(2_u8)));
    assert_eq!(again.await.unwrap(), 2);
}

#[tokio::test]
async fn an_effect_that_failed_may_be_called_again_in_the_same_step() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    let failing = cx.effect("fetch").read().call(|call| outside.ask(call, Err::<u8, _>(CallError::retry("busy"))));
    failing.await.unwrap_err();
    assert_eq!(made(cx.effect("fetch").read(), &outside, 2).await.unwrap(), 2);
}

#[tokio::test]
async fn several_effects_are_in_flight_at_once() {
    let host = FakeHost::new();
    let cx = host.cx();
    // Neither returns before both have been called.
    let together = Barrier::new(2);
    let call = async |answer: u8| {
        together.wait().await;
        Done::Ok(answer)
    };
    let left = cx.effect("left").read().call(|_| call(1));
    let right = cx.effect("right").idempotent().call(|_| call(2));
    let (left, right) = tokio::join!(left, right);
    assert_eq!((left.unwrap(), right.unwrap()), (1, 2));
    let outcomes: Vec<Outcome> = cx.recorded().journal.into_iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [succeeded(&json!(1)), succeeded(&json!(2))]);
}

#[tokio::test]
async fn a_call_borrows_its_key_the_workflow_and_the_state() {
    struct Mailer(String);
    impl Mailer {
        async fn send(&self, key: &str, text: &str) -> Done<String> {
            tokio::task::yield_now().await;
            Ok(format!("{} {} {text}", self.0, key.len()))
        }
    }
    let (mailer, text) = (Mailer("sent".into()), String::from("hello"));
    let host = FakeHost::new();
    let cx = host.cx();
    let plain = cx.effect("plain").idempotent().call(|call| mailer.send(call.key(), &text)).await.unwrap();
    let block = cx.effect("block").idempotent().call(|call| {
        let key = call.key();
        let (mailer, text) = (&mailer, &text);
        async move { mailer.send(key, text).await }
    });
    assert_eq!((plain.as_str(), block.await.unwrap().as_str()), ("sent 32 hello", "sent 32 hello"));
}

#[tokio::test]
async fn a_step_has_room_for_256_effects_and_says_so_before_the_next_call() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    for item in 0..JOURNAL_RECORDS_MAX {
        made(cx.effect("item").key(item).idempotent(), &outside, 1).await.unwrap();
    }
    let error = made(cx.effect("item").key("more").idempotent(), &outside, 1).await.unwrap_err();
    assert!(is_misused(&error, "256") && is_misused(&error, "split the step"), "{error}");
    assert!(matches!(means(error), stepwell::host::ErrorMeans::Fail(_)));
    assert_eq!(outside.calls(), 256);
    // Those that are there still answer.
    made(cx.effect("item").key(0).idempotent(), &outside, 1).await.unwrap();
}

#[tokio::test]
async fn the_time_and_the_attempt_are_the_engines() {
    let host = FakeHost::new();
    let cx = host.visit(|visiting| visiting.failed_attempts = 2);
    assert_eq!((cx.attempt(), cx.now(), cx.run().as_str()), (3, START, "run-1"));
    host.pass(Duration::from_millis(5));
    assert_eq!(cx.now(), Timestamp(START.0 + 5));
    assert!(!cx.is_cancelled());
    host.cancel();
    assert!(cx.is_cancelled());
}

fn workflow() -> WorkflowName {
    WorkflowName::new("refund").unwrap()
}

fn recorded_fetch() -> EffectRecord {
    record("fetch", Scope::Visit(Visit(1)), false)
}

fn recorded_email() -> EffectRecord {
    record("email", Scope::Run("order-7"), true)
}

fn record(name: &str, scope: Scope<'_>, of_run: bool) -> EffectRecord {
    let key = EffectKey::derive(FakeHost::new().cx().run(), &workflow(), name, scope);
    EffectRecord { of_run, ..bare(key, name, Class::Idempotent(None), succeeded(&json!(7))) }
}
