//! Effects that do not end well: what is known of the outside is what is recorded and said.

use core::pin::pin;
use core::task::Poll;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use stepwell::Effect;
use stepwell::host::{ErrorMeans, HostError};
use stepwell::prelude::*;
use stepwell_core::{Class, EffectRecord, Failure, FailureKind, Outcome, ParkReason};

use crate::host::{Asked, FakeHost, Outside, START, means, only_record, poll_once, succeeded};

/// An effect that fails.
async fn fails<K: Send>(effect: Effect<'_, Class, K>, outside: &Outside, error: CallError) -> EffectError {
    effect.call(|call| outside.ask(call, Err::<u8, _>(error))).await.unwrap_err()
}

async fn works<K: Send>(effect: Effect<'_, Class, K>, outside: &Outside) -> Result<u8, EffectError> {
    effect.call(|call| outside.ask(call, Ok::<_, CallError>(7_u8))).await
}

fn unknown(since: Timestamp, evidence: &str) -> Outcome {
    Outcome::Unknown { since, evidence: evidence.into() }
}

#[tokio::test]
async fn a_refusal_is_recorded_and_raised_again_without_a_call() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    let error =
        fails(cx.effect("email").idempotent(), &outside, CallError::refused("no such box").with_code("E7")).await;
    let failure = Failure::new(FailureKind::Refused, "no such box").with_code("E7");
    assert_eq!(only_record(&cx).outcome, Outcome::Failed(failure));

    let cx = host.again(&cx);
    let again = works(cx.effect("email").idempotent(), &outside).await.unwrap_err();
    assert_eq!((error.to_string(), outside.calls()), ("effect email was refused: no such box".into(), 1));
    assert_eq!(again.to_string(), error.to_string());
    assert_eq!(means(again), means(error));
}

#[tokio::test]
async fn what_may_have_happened_keeps_its_first_time_and_its_key() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    let error = fails(cx.effect("email").idempotent(), &outside, CallError::unknown("reset")).await;
    assert_eq!(error.to_string(), "effect email may have happened: reset");
    assert_eq!(only_record(&cx).outcome, unknown(START, "reset"));

    host.pass(seconds(60));
    let cx = host.again(&cx);
    fails(cx.effect("email").idempotent(), &outside, CallError::unknown("no answer")).await;
    let EffectRecord { attempts, outcome, .. } = only_record(&cx);
    assert_eq!((attempts, outcome), (2, unknown(START, "no answer")));

    let cx = host.again(&cx);
    assert_eq!(works(cx.effect("email").idempotent(), &outside).await.unwrap(), 7);
    assert_eq!(only_record(&cx).outcome, succeeded(&json!(7)));
    let seen = outside.seen();
    assert!(seen.iter().all(|call| call.key == seen[0].key), "{seen:?}");
    assert_eq!(seen.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 2, 3]);
}

#[tokio::test]
async fn an_error_that_says_nothing_counts_as_unknown_with_all_its_causes() {
    #[derive(Debug, thiserror::Error)]
    #[error("sending failed")]
    struct Outer(#[source] std::io::Error);
    let host = FakeHost::new();
    let cx = host.cx();
    let call = cx.effect("email").idempotent().call(async |_| Err::<u8, _>(Outer(std::io::Error::other("reset"))));
    let error = call.await.unwrap_err();
    assert_eq!(error.to_string(), "effect email may have happened: sending failed: reset");
    assert_eq!(only_record(&cx).outcome, unknown(START, "sending failed: reset"));
}

#[tokio::test]
async fn what_was_not_done_leaves_no_record() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    let busy = || CallError::retry_after(seconds(9), "busy").with_code("E429");
    let error = fails(cx.effect("email").idempotent(), &outside, busy()).await;
    assert_eq!(error.to_string(), "effect email was not done: busy");
    assert_eq!(cx.recorded().journal, []);
    let failure = Failure::new(FailureKind::Error, "effect email was not done: busy").with_code("E429");
    assert_eq!(means(error), ErrorMeans::Retry { failure, policy: None, at_least: Some(seconds(9)) });
}

#[tokio::test]
async fn a_later_call_that_was_not_done_says_nothing_of_the_first() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    fails(cx.effect("email").idempotent(), &outside, CallError::unknown("reset")).await;
    host.pass(seconds(60));
    let cx = host.again(&cx);
    let busy = CallError::retry_after(seconds(9), "busy").with_code("E429");
    let error = fails(cx.effect("email").idempotent(), &outside, busy).await;
    let text = "effect email may have happened: reset; a later call was not done: busy";
    assert_eq!(error.to_string(), text);
    let failure = Failure::new(FailureKind::Error, text).with_code("E429");
    assert_eq!(means(error), ErrorMeans::Retry { failure, policy: None, at_least: Some(seconds(9)) });
    let record = only_record(&cx);
    assert_eq!((record.attempts, record.outcome), (2, unknown(START, "reset")));
}

#[tokio::test]
async fn a_later_call_that_was_refused_does_not_make_the_first_a_failure() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    fails(cx.effect("email").idempotent(), &outside, CallError::unknown("reset")).await;
    let cx = host.again(&cx);
    let error = fails(cx.effect("email").idempotent(), &outside, CallError::refused("no access")).await;
    let ErrorMeans::Park(ParkReason::UnknownOutcome { what }) = means(error) else { panic!("somebody has to look") };
    assert!(what.contains("reset") && what.contains("no access") && what.contains(&outside.keys()[0]), "{what}");
    assert_eq!(only_record(&cx).outcome, unknown(START, "reset"));
}

#[tokio::test]
async fn a_read_leaves_nothing_open() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    for error in [CallError::unknown("reset"), CallError::retry("busy")] {
        let cx = host.visit(|visiting| visiting.earlier_try = Some(Timestamp(0)));
        let error = fails(cx.effect("fetch").read(), &outside, error).await;
        assert!(matches!(error, EffectError::NotDone { .. }), "{error}");
        assert_eq!(cx.recorded().journal, []);
    }
    let cx = host.visit(|visiting| visiting.earlier_try = Some(Timestamp(0)));
    let error = fails(cx.effect("fetch").read(), &outside, CallError::refused("gone")).await;
    assert!(matches!(error, EffectError::Refused { .. }), "{error}");
}

#[tokio::test]
async fn after_the_window_the_outside_is_not_asked_again() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    fails(cx.effect("email").idempotent_for(hours(1)), &outside, CallError::unknown("reset")).await;
    host.pass(Duration::from_millis(3_599_999));
    let cx = host.again(&cx);
    fails(cx.effect("email").idempotent_for(hours(1)), &outside, CallError::unknown("reset")).await;
    assert_eq!(outside.calls(), 2, "the hour is not over yet");
    // It may land as late as it gives up waiting: the outside has to know the key then, too.
    assert_eq!(only_record(&cx).until, Some(START.plus(hours(1))));

    host.pass(Duration::from_millis(1));
    let asked = host.asked().len();
    let cx = host.again(&cx);
    let error = works(cx.effect("email").idempotent_for(hours(1)), &outside).await.unwrap_err();
    assert!(matches!(error, EffectError::Unsettled(_)), "{error}");
    let ErrorMeans::Park(ParkReason::UnknownOutcome { what }) = means(error) else { panic!("somebody has to look") };
    assert!(what.contains("email") && what.contains("3600 s ago") && what.contains(&outside.keys()[0]), "{what}");
    assert_eq!((outside.calls(), host.asked().len()), (2, asked));
    assert_eq!(only_record(&cx).outcome, unknown(START, "reset"));
}

#[tokio::test]
async fn what_is_deduped_for_ever_or_changes_nothing_is_asked_again_at_any_time() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.visit(|visiting| visiting.earlier_try = Some(Timestamp(0)));
    fails(cx.effect("email").idempotent(), &outside, CallError::unknown("reset")).await;
    host.pass(days(400));
    let cx = host.again(&cx);
    assert_eq!(works(cx.effect("email").idempotent(), &outside).await.unwrap(), 7);
    assert_eq!(works(cx.effect("fetch").read(), &outside).await.unwrap(), 7);
}

#[tokio::test]
async fn an_attempt_that_was_lost_with_its_worker_may_have_called() {
    let outside = Outside::default();
    let lost = Timestamp(START.0 - 5_000);
    let host = FakeHost::new();
    let after_loss = || host.visit(|visiting| visiting.earlier_try = Some(lost));

    let cx = after_loss();
    let error = works(cx.effect("email").idempotent_for(seconds(5)), &outside).await.unwrap_err();
    assert!(matches!(error, EffectError::Unsettled(_)), "{error}");
    assert_eq!(outside.calls(), 0);

    let cx = after_loss();
    fails(cx.effect("email").idempotent_for(seconds(6)), &outside, CallError::unknown("reset")).await;
    assert_eq!(only_record(&cx).outcome, unknown(lost, "reset"));

    let cx = after_loss();
    let error = fails(cx.effect("email").idempotent(), &outside, CallError::retry("busy")).await;
    assert!(error.to_string().contains("worker was lost"), "{error}");
    assert!(matches!(only_record(&cx).outcome, Outcome::Unknown { since, .. } if since == lost));

    // What has a record of its own is not concerned.
    let first = host.cx();
    fails(first.effect("email").idempotent(), &outside, CallError::unknown("reset")).await;
    let cx = host.visit(|visiting| {
        visiting.journal = first.recorded().journal;
        visiting.earlier_try = Some(lost);
    });
    fails(cx.effect("email").idempotent(), &outside, CallError::unknown("reset")).await;
    assert_eq!(only_record(&cx).outcome, unknown(START, "reset"));
}

#[tokio::test]
async fn a_call_beyond_its_deadline_is_dropped_and_may_have_happened() {
    struct Noticed<'a>(&'a AtomicBool);
    impl Drop for Noticed<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (host, outside, dropped) = (FakeHost::new(), Outside::default(), AtomicBool::new(false));
    let cx = host.cx();
    let call = cx.effect("email").idempotent().deadline(seconds(5)).call(async |call| {
        let _noticed = Noticed(&dropped);
        outside.ask_in_vain(call).await
    });
    let mut call = pin!(call);
    assert!(poll_once(call.as_mut()).is_pending());
    host.pass(Duration::from_millis(4_999));
    assert!(poll_once(call.as_mut()).is_pending() && !dropped.load(Ordering::Relaxed), "a millisecond too early");
    host.pass(Duration::from_millis(1));
    let Poll::Ready(result) = poll_once(call.as_mut()) else { panic!("its time is up") };
    assert_eq!(result.unwrap_err().to_string(), "effect email may have happened: no answer within 5s");
    assert!(dropped.load(Ordering::Relaxed));
    assert_eq!(only_record(&cx).outcome, unknown(START, "no answer within 5s"));
}

#[tokio::test]
async fn a_read_beyond_its_deadline_is_simply_not_done() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    let mut call = pin!(cx.effect("fetch").read().call(|call| outside.ask_in_vain(call)));
    assert!(poll_once(call.as_mut()).is_pending());
    host.pass(seconds(20));
    let Poll::Ready(result) = poll_once(call.as_mut()) else { panic!("its time is up") };
    assert_eq!(result.unwrap_err().to_string(), "effect fetch was not done: no answer within 20s");
    assert_eq!(cx.recorded().journal, []);
}

#[tokio::test]
async fn a_step_that_is_dropped_in_a_call_leaves_it_open() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    let drop_in_call = |cx: &Cx| {
        let mut call = Box::pin(cx.effect("email").key("k").idempotent().call(|call| outside.ask_in_vain(call)));
        assert!(poll_once(call.as_mut()).is_pending());
    };
    drop_in_call(&cx);
    let record = only_record(&cx);
    assert_eq!((record.attempts, record.of_run), (1, true));
    assert_eq!(record.outcome, unknown(START, "the call was in flight"));
    assert_eq!(outside.calls(), 1);

    host.pass(seconds(60));
    let cx = host.again(&cx);
    drop_in_call(&cx);
    let record = only_record(&cx);
    assert_eq!((record.attempts, record.outcome), (2, unknown(START, "the call was in flight")));
    assert_eq!(outside.keys()[0], outside.keys()[1]);
}

#[tokio::test]
async fn without_the_lease_nothing_is_dispatched() {
    for trouble in [HostError::Lost, HostError::Passing("throttled".into()), HostError::Data("damaged".into())] {
        let (host, outside) = (FakeHost::new(), Outside::default());
        let cx = host.cx();
        host.be_in_trouble(trouble.clone());
        let error = works(cx.effect("email").idempotent(), &outside).await.unwrap_err();
        assert!(matches!(&error, EffectError::Host(found) if *found == trouble), "{error}");
        assert_eq!((outside.calls(), cx.recorded().journal), (0, vec![]));
        assert_eq!(host.asked(), [Asked::Hold(START.plus(seconds(20)))]);
    }
}

#[tokio::test]
async fn once_the_run_is_cancelled_nothing_is_dispatched_and_what_is_recorded_stays() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    works(cx.effect("fetch").read(), &outside).await.unwrap();
    host.cancel();
    let cx = host.again(&cx);
    assert_eq!(works(cx.effect("fetch").read(), &outside).await.unwrap(), 7);
    let error = works(cx.effect("email").idempotent(), &outside).await.unwrap_err();
    assert!(matches!(&error, EffectError::Cancelled { name } if name == "email"), "{error}");
    assert!(matches!(means(error), ErrorMeans::Cancelled(_)));
    assert_eq!(outside.calls(), 1);
    // What was never sent is written down as that, for the certificate. A read is nothing to certify.
    let error = works(cx.effect("look").read(), &outside).await.unwrap_err();
    assert!(matches!(error, EffectError::Cancelled { .. }), "{error}");
    let [fetch, email] = &cx.recorded().journal[..] else { panic!("{:?}", cx.recorded()) };
    assert_eq!((fetch.name.as_str(), email.name.as_str(), email.attempts), ("fetch", "email", 0));
    assert!(matches!(&email.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::NotSent), "{email:?}");
}

#[tokio::test]
async fn an_effects_own_retry_policy_travels_with_its_error() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let own = RetryPolicy::default().max_attempts(3);
    for error in [CallError::retry("busy"), CallError::unknown("reset")] {
        let cx = host.cx();
        let error = fails(cx.effect("email").idempotent().retry(own.clone()), &outside, error).await;
        let ErrorMeans::Retry { policy: Some(policy), .. } = means(error) else { panic!("no policy") };
        assert_eq!(*policy, own);
    }
}
