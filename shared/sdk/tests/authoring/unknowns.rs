//! Effects that cannot be called again unasked: their intent stands before the call, and what may have happened is asked
//! about, or left to a person.

use core::pin::pin;
use core::task::Poll;
use std::sync::Arc;

use serde_json::json;
use stepwell::host::{ErrorMeans, HostError};
use stepwell::prelude::*;
use stepwell::{Effect, Keyed};
use stepwell_core::{Class, EffectKey, EffectRecord, Failure, FailureKind, Outcome, ParkReason, Scope};

use crate::host::{self, FakeHost, Outside, START, Seen, bare, means, only_record, poll_once, succeeded};

type Answer = Result<u8, CallError>;
type Says = Result<Asked<u8>, CallError>;

const DEADLINE: Duration = seconds(20);
/// How long after its deadline a request may be on its way, unless the author says otherwise.
const SETTLE: Duration = seconds(10);

fn letter(cx: &Cx) -> Effect<'_, Class, Keyed> {
    cx.effect("letter").key("order-7").once()
}

async fn sends(cx: &Cx, outside: &Outside, answer: Answer) -> Result<u8, EffectError> {
    letter(cx).call(|call| outside.ask(call, answer)).await
}

/// A payment; the bank can be asked whether it has happened.
async fn pays(
    cx: &Cx,
    (bank, says): (&Outside, Says),
    (outside, answer): (&Outside, Answer),
) -> Result<u8, EffectError> {
    let pay = cx.effect("pay").key("order-7").reconcile(|call| bank.ask(call, says));
    pay.call(|call| outside.ask(call, answer)).await
}

fn intend(names: &[&str], until: Timestamp) -> host::Asked {
    host::Asked::Intend(names.iter().map(|name| (*name).into()).collect(), until)
}

/// What an attempt has left that was lost in its call.
fn left_open(cx: &Cx, name: &str, class: Class, until: Option<Timestamp>) -> EffectRecord {
    let workflow = stepwell_core::WorkflowName::new("refund").unwrap();
    let key = EffectKey::derive(cx.run(), &workflow, name, Scope::Run("order-7"));
    let outcome = Outcome::Unknown { since: START, evidence: "the call was in flight".into() };
    EffectRecord { attempts: 2, until, ..bare(key, name, class, outcome) }
}

fn open_payment(host: &Arc<FakeHost>) -> EffectRecord {
    left_open(&host.cx(), "pay", Class::Reconcilable, Some(START.plus(DEADLINE)))
}

/// The attempt after one that has left this.
fn after(host: &Arc<FakeHost>, record: &EffectRecord) -> Cx {
    host.visit(|visiting| visiting.journal = vec![record.clone()])
}

/// What a person is asked.
fn question(error: EffectError) -> String {
    let ErrorMeans::Park(ParkReason::UnknownOutcome { what }) = means(error) else { panic!("somebody has to look") };
    what
}

/// The calls that the only record knows of, which was not sent in the end.
fn never_sent(cx: &Cx) -> u32 {
    let record = only_record(cx);
    assert!(matches!(&record.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::NotSent), "{record:?}");
    record.attempts
}

/// The evidence of what may have happened, and how long at least to wait until it is looked at again.
fn tried_again(error: EffectError) -> (String, Option<Duration>) {
    assert!(matches!(error, EffectError::Unknown { .. }), "{error}");
    let ErrorMeans::Retry { failure, at_least, .. } = means(error) else { panic!("it is tried again") };
    (failure.message, at_least)
}

#[tokio::test]
async fn the_intent_stands_before_the_call_and_nothing_else_is_written() {
    let until = START.plus(DEADLINE);
    for (name, class) in [("letter", Class::Once), ("pay", Class::Reconcilable)] {
        let host = FakeHost::new();
        let cx = host.cx();
        let intended = [intend(&[name], until)];
        let call = async |_| {
            assert_eq!(host.asked(), intended, "{name}");
            let record = only_record(&cx);
            assert_eq!((record.class, record.attempts, record.until, record.of_run), (class, 1, Some(until), true));
            assert!(record.is_open(), "{name}: {record:?}");
            Answer::Ok(7)
        };
        let answer = if class == Class::Once {
            letter(&cx).call(call).await
        } else {
            cx.effect("pay").key("order-7").reconcile(async |_| Says::Ok(Asked::Absent)).call(call).await
        };
        assert_eq!((answer.unwrap(), cx.recorded().used().effects_made), (7, 1), "{name}");
        let record = only_record(&cx);
        assert_eq!((record.outcome, record.attempts, record.until), (succeeded(&json!(7)), 1, Some(until)), "{name}");

        // Its result is recorded: no more writes, no more calls, whatever the outside would say now.
        let (cx, outside, bank) = (host.again(&cx), Outside::default(), Outside::default());
        let again = if class == Class::Once {
            sends(&cx, &outside, Ok(8)).await
        } else {
            pays(&cx, (&bank, Ok(Asked::Happened(9))), (&outside, Ok(8))).await
        };
        assert_eq!((again.unwrap(), outside.calls(), bank.calls()), (7, 0, 0), "{name}");
        assert_eq!(host.asked(), intended, "{name}");
    }
}

#[tokio::test]
async fn when_the_intent_finds_the_run_cancelled_nothing_is_called() {
    let (host, outside, bank) = (FakeHost::new(), Outside::default(), Outside::default());
    host.refuse_intents();
    let cx = host.cx();
    let error = sends(&cx, &outside, Ok(7)).await.unwrap_err();
    assert!(matches!(&error, EffectError::Cancelled { name } if name == "letter"), "{error}");
    assert!(matches!(means(error), ErrorMeans::Cancelled(_)));
    assert_eq!((never_sent(&cx), outside.calls()), (0, 0));
    assert_eq!(host.asked(), [intend(&["letter"], START.plus(DEADLINE))]);

    // What may have happened before is asked about, wherever it was recorded. Only one that has not is certified as never sent.
    host.pass(hours(1));
    let before = open_payment(&host);
    let wheres = || [after(&host, &before), host.visit(|visiting| visiting.ledger = vec![before.clone()])];
    for cx in wheres() {
        let error = pays(&cx, (&bank, Says::Ok(Asked::Absent)), (&outside, Ok(7))).await.unwrap_err();
        assert!(matches!(error, EffectError::Cancelled { .. }), "{error}");
        assert_eq!((never_sent(&cx), outside.calls()), (before.attempts, 0));
    }
    for cx in wheres() {
        let says = Asked::CannotTell("the bank is closed".into());
        let error = pays(&cx, (&bank, Says::Ok(says)), (&outside, Ok(7))).await.unwrap_err();
        assert!(matches!(error, EffectError::Unknown { .. }), "{error}");
        assert!(cx.recorded().journal.iter().all(EffectRecord::is_open), "{:?}", cx.recorded());
    }

    // Once it has heard, it does not even write.
    let host = FakeHost::new();
    host.cancel();
    let cx = host.cx();
    let error = sends(&cx, &outside, Ok(7)).await.unwrap_err();
    assert!(matches!(error, EffectError::Cancelled { .. }), "{error}");
    assert_eq!((never_sent(&cx), outside.calls(), host.asked()), (0, 0, vec![]));
}

#[tokio::test]
async fn when_the_intent_cannot_be_written_nothing_is_called() {
    for trouble in [HostError::Lost, HostError::Passing("throttled".into()), HostError::Data("damaged".into())] {
        let (host, outside) = (FakeHost::new(), Outside::default());
        let is_trouble = |error: &EffectError| matches!(error, EffectError::Host(found) if *found == trouble);
        let before = open_payment(&host);
        host.pass(hours(1));
        // The trouble begins after the bank was asked.
        let cx = after(&host, &before);
        let ask = async |_| {
            host.be_in_trouble(trouble.clone());
            Says::Ok(Asked::Absent)
        };
        let pay = cx.effect("pay").key("order-7").reconcile(ask).call(|call| outside.ask(call, Answer::Ok(7)));
        let error = pay.await.unwrap_err();
        assert!(is_trouble(&error), "{error}");
        assert_eq!((only_record(&cx), outside.calls()), (before, 0));

        let cx = host.cx();
        let error = sends(&cx, &outside, Ok(7)).await.unwrap_err();
        assert!(is_trouble(&error), "{error}");
        assert_eq!((cx.recorded().journal, outside.calls()), (vec![], 0));
    }
}

#[tokio::test]
async fn what_a_slow_intent_took_is_the_calls_loss() {
    for (took, left) in [(seconds(5), seconds(15)), (Duration::from_millis(19_999), Duration::from_millis(1))] {
        let (host, outside) = (FakeHost::new(), Outside::default());
        host.renew_slowly();
        let cx = host.cx();
        let mut call = pin!(sends(&cx, &outside, Ok(7)));
        assert!(poll_once(call.as_mut()).is_pending());
        assert_eq!(outside.calls(), 0, "its intent is under way");
        host.pass(took);
        assert_eq!(call.await.unwrap(), 7);
        assert_eq!(outside.seen()[0].deadline, left);
        assert_eq!(only_record(&cx).until, Some(START.plus(DEADLINE)), "as the intent says");
    }
    let (host, outside) = (FakeHost::new(), Outside::default());
    host.renew_slowly();
    let cx = host.cx();
    let mut call = pin!(sends(&cx, &outside, Ok(7)));
    assert!(poll_once(call.as_mut()).is_pending());
    host.pass(DEADLINE);
    let error = call.await.unwrap_err();
    assert!(matches!(error, EffectError::Host(HostError::Passing(_))), "{error}");
    assert_eq!((cx.recorded().journal, outside.calls()), (vec![], 0));
}

#[tokio::test]
async fn a_refusal_is_final_and_what_was_not_done_is_called_again() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    let error = sends(&cx, &outside, Err(CallError::retry("busy"))).await.unwrap_err();
    assert!(matches!(error, EffectError::NotDone { .. }), "{error}");
    assert_eq!(cx.recorded().journal, []);

    let cx = host.again(&cx);
    let refused = sends(&cx, &outside, Err(CallError::refused("no such box").with_code("E7"))).await.unwrap_err();
    let failure = Failure::new(FailureKind::Refused, "no such box").with_code("E7");
    assert_eq!((only_record(&cx).outcome, outside.calls()), (Outcome::Failed(failure), 2));
    let until = START.plus(DEADLINE);
    assert_eq!(host.asked(), [intend(&["letter"], until), intend(&["letter"], until)], "each call has its intent");

    let cx = host.again(&cx);
    let again = sends(&cx, &outside, Ok(7)).await.unwrap_err();
    assert_eq!((again.to_string(), outside.calls(), host.asked().len()), (refused.to_string(), 2, 2));
}

#[tokio::test]
async fn a_call_that_may_have_acted_is_a_persons_question_then_and_ever_after() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let unsettled = async |cx: &Cx, answer: Answer| {
        let error = sends(cx, &outside, answer).await.unwrap_err();
        assert!(matches!(error, EffectError::Unsettled(_)), "{error}");
        question(error)
    };
    let cx = host.cx();
    let what = unsettled(&cx, Err(CallError::unknown("reset"))).await;
    let key = outside.keys()[0].clone();
    assert!(["effect letter", &key, "reset", "act again"].iter().all(|said| what.contains(said)), "{what}");
    let record = only_record(&cx);
    assert_eq!(record.outcome, Outcome::Unknown { since: START, evidence: "reset".into() });

    host.pass(days(400));
    let cx = host.again(&cx);
    let what = unsettled(&cx, Ok(7)).await;
    assert!(["effect letter", &key, "reset", "act again"].iter().all(|said| what.contains(said)), "{what}");
    assert_eq!((only_record(&cx), outside.calls(), host.asked().len()), (record, 1, 1));
}

#[tokio::test]
async fn a_call_without_an_answer_or_dropped_in_flight_is_as_open() {
    for (passes, evidence) in [(DEADLINE, "no answer within 20s"), (seconds(3), "the call was in flight")] {
        let (host, outside) = (FakeHost::new(), Outside::default());
        let cx = host.cx();
        let mut call = Box::pin(letter(&cx).call(|call| outside.ask_in_vain(call)));
        assert!(poll_once(call.as_mut()).is_pending());
        host.pass(passes);
        if let Poll::Ready(result) = poll_once(call.as_mut()) {
            assert!(question(result.unwrap_err()).contains(evidence));
        }
        drop(call);
        let record = only_record(&cx);
        assert_eq!(record.outcome, Outcome::Unknown { since: START, evidence: evidence.into() });
        let cx = host.again(&cx);
        assert!(question(sends(&cx, &outside, Ok(7)).await.unwrap_err()).contains(evidence));
        assert_eq!((only_record(&cx), outside.calls()), (record, 1), "{evidence}");
    }
}

#[tokio::test]
async fn what_another_attempt_left_open_is_not_called_wherever_it_is_recorded() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let open = left_open(&host.cx(), "letter", Class::Once, Some(START.plus(DEADLINE)));
    host.spill(open.clone());
    host.pass(days(1));
    let journal = after(&host, &open);
    let ledger = host.visit(|visiting| visiting.ledger = vec![open.clone()]);
    let spilled = host.visit(|visiting| visiting.has_spilled = true);
    for cx in [journal, ledger, spilled] {
        let before = cx.recorded().journal;
        let what = question(sends(&cx, &outside, Ok(7)).await.unwrap_err());
        assert!(what.contains("the call was in flight") && what.contains(open.key.as_str()), "{what}");
        assert_eq!((cx.recorded().journal, outside.calls()), (before, 0));
    }
    assert_eq!(host.asked(), [host::Asked::Effect], "neither lease nor intent");
}

#[tokio::test]
async fn nothing_is_asked_before_the_call_can_no_longer_land() {
    let tick = Duration::from_millis(1);
    // When the call gives up waiting, how long it may be on its way then, and how long after its start that is over.
    for (until, delay, quiet) in [
        (Some(DEADLINE), None, DEADLINE + SETTLE),
        (Some(DEADLINE), Some(seconds(3)), seconds(23)),
        (Some(DEADLINE), Some(Duration::ZERO), DEADLINE),
        (None, None, SETTLE),
    ] {
        let (host, outside, bank) = (FakeHost::new(), Outside::default(), Outside::default());
        let open = left_open(&host.cx(), "pay", Class::Reconcilable, until.map(|until| START.plus(until)));
        let looks = async |cx: &Cx| {
            let pay = cx.effect("pay").key("order-7").reconcile(|call| bank.ask(call, Says::Ok(Asked::Happened(9))));
            let pay = match delay {
                Some(delay) => pay.settle_delay(delay),
                None => pay,
            };
            pay.call(|call| outside.ask(call, Answer::Ok(7))).await
        };
        let mut passed = Duration::ZERO;
        for at in [Duration::ZERO, quiet / 2, quiet.saturating_sub(tick)] {
            host.pass(at.saturating_sub(passed));
            passed = at.max(passed);
            let cx = after(&host, &open);
            let (evidence, at_least) = tried_again(looks(&cx).await.unwrap_err());
            assert_eq!(at_least, Some(quiet.saturating_sub(passed)), "{passed:?} of {quiet:?}");
            assert!(evidence.contains("the call was in flight"), "{evidence}");
            assert_eq!((only_record(&cx), host.asked()), (open.clone(), vec![]), "{passed:?} of {quiet:?}");
        }
        assert_eq!((bank.calls(), outside.calls()), (0, 0), "{quiet:?}");
        host.pass(tick);
        assert_eq!(looks(&after(&host, &open)).await.unwrap(), 9, "{quiet:?}");
        assert_eq!((bank.calls(), outside.calls()), (1, 0), "{quiet:?}");
    }
}

#[tokio::test]
async fn what_has_happened_is_recorded_and_returned_without_a_call() {
    let (host, outside, bank) = (FakeHost::new(), Outside::default(), Outside::default());
    let open = open_payment(&host);
    host.pass(minutes(1));
    let asked_until = START.plus(minutes(1) + DEADLINE);
    for cx in [after(&host, &open), host.visit(|visiting| visiting.ledger = vec![open.clone()])] {
        let asks = bank.calls();
        assert_eq!(pays(&cx, (&bank, Ok(Asked::Happened(9))), (&outside, Ok(7))).await.unwrap(), 9);
        let asked = Seen { key: open.key.to_string(), attempt: 2, deadline: DEADLINE };
        assert_eq!(bank.seen()[asks..], [asked], "about the call that was made last");
        assert_eq!(host.asked().last(), Some(&host::Asked::Hold(asked_until)), "asking takes time too");
        assert_eq!(only_record(&cx), EffectRecord { outcome: succeeded(&json!(9)), ..open.clone() });
        assert_eq!(cx.recorded().used().effects_made, 0);

        let cx = host.again(&cx);
        assert_eq!(pays(&cx, (&bank, Says::Ok(Asked::Absent)), (&outside, Ok(7))).await.unwrap(), 9);
        assert_eq!((bank.calls(), outside.calls()), (asks + 1, 0));
    }
    assert_eq!(host.asked().len(), 2, "no intent");
}

#[tokio::test]
async fn what_is_absent_is_called_again_under_a_new_intent() {
    let (host, outside, bank) = (FakeHost::new(), Outside::default(), Outside::default());
    let open = open_payment(&host);
    host.pass(minutes(1));
    let (now, until) = (START.plus(minutes(1)), START.plus(minutes(1) + DEADLINE));
    let written = [host::Asked::Hold(until), intend(&["pay"], until)];
    for (answer, outcome) in [
        (Ok(7), Some(succeeded(&json!(7)))),
        (Err(CallError::unknown("reset")), Some(Outcome::Unknown { since: now, evidence: "reset".into() })),
        (Err(CallError::retry("busy")), None),
        (Err(CallError::refused("no funds")), Some(Outcome::Failed(Failure::new(FailureKind::Refused, "no funds")))),
    ] {
        let (asked, calls) = (host.asked().len(), outside.calls());
        let cx = after(&host, &open);
        let _ = pays(&cx, (&bank, Says::Ok(Asked::Absent)), (&outside, answer)).await;
        assert_eq!(host.asked()[asked..], written);
        let seen = Seen { key: open.key.to_string(), attempt: 3, deadline: DEADLINE };
        assert_eq!(outside.seen()[calls..], [seen]);
        let recorded = outcome.map(|outcome| EffectRecord { outcome, attempts: 3, until: Some(until), ..open.clone() });
        assert_eq!(
            cx.recorded().journal,
            recorded.into_iter().collect::<Vec<_>>(),
            "of the earlier call nothing is left"
        );
    }
}

#[tokio::test]
async fn what_nobody_can_tell_stays_open_and_is_asked_about_again() {
    for says in [Ok(Asked::CannotTell("no such ledger".into())), Err(CallError::retry("no such ledger"))] {
        let (host, outside, bank) = (FakeHost::new(), Outside::default(), Outside::default());
        let open = open_payment(&host);
        host.pass(minutes(1));
        let cx = after(&host, &open);
        let (evidence, at_least) = tried_again(pays(&cx, (&bank, says), (&outside, Ok(7))).await.unwrap_err());
        assert!(evidence.contains("the call was in flight") && evidence.contains("no such ledger"), "{evidence}");
        assert_eq!((only_record(&cx), outside.calls(), bank.calls(), at_least), (open, 0, 1, None));

        let cx = host.again(&cx);
        assert_eq!(pays(&cx, (&bank, Ok(Asked::Happened(9))), (&outside, Ok(7))).await.unwrap(), 9);
    }
    // No answer in the time that a call may take.
    let (host, outside) = (FakeHost::new(), Outside::default());
    let open = open_payment(&host);
    host.pass(minutes(1));
    let cx = after(&host, &open);
    let pay = cx.effect("pay").key("order-7").deadline(seconds(4)).reconcile(|_| core::future::pending::<Says>());
    let mut pay = pin!(pay.call(|call| outside.ask(call, Answer::Ok(7))));
    assert!(poll_once(pay.as_mut()).is_pending());
    host.pass(Duration::from_millis(3_999));
    assert!(poll_once(pay.as_mut()).is_pending(), "a millisecond too early");
    host.pass(Duration::from_millis(1));
    let Poll::Ready(Err(error)) = poll_once(pay.as_mut()) else { panic!("its time is up") };
    assert!(tried_again(error).0.contains("no answer in time"));
    assert_eq!((only_record(&cx), outside.calls()), (open, 0));
}

#[tokio::test]
async fn a_payment_of_unknown_outcome_is_not_looked_at_before_it_has_settled() {
    let (host, outside, bank) = (FakeHost::new(), Outside::default(), Outside::default());
    let cx = host.cx();
    let policy = RetryPolicy::default().max_attempts(3);
    let pay =
        cx.effect("pay").key("order-7").retry(policy.clone()).reconcile(|call| bank.ask(call, Says::Ok(Asked::Absent)));
    let call = async |_| {
        host.pass(seconds(5));
        Err::<u8, _>(CallError::unknown("reset").with_code("E1"))
    };
    let error = pay.call(call).await.unwrap_err();
    let failure = Failure::new(FailureKind::Error, "effect pay may have happened: reset").with_code("E1");
    let at_least = Some(seconds(15) + SETTLE);
    assert_eq!(means(error), ErrorMeans::Retry { failure, policy: Some(Box::new(policy)), at_least });
    let record = only_record(&cx);
    assert_eq!(record.outcome, Outcome::Unknown { since: START, evidence: "reset".into() });

    // No sooner, and then it is asked about.
    host.pass(seconds(25));
    let cx = host.again(&cx);
    assert_eq!(pays(&cx, (&bank, Ok(Asked::Happened(9))), (&outside, Ok(7))).await.unwrap(), 9);
    assert_eq!((bank.calls(), outside.calls()), (1, 0));
}

#[tokio::test]
async fn an_attempt_that_was_lost_before_its_intent_has_called_nothing() {
    let (host, outside, bank) = (FakeHost::new(), Outside::default(), Outside::default());
    let cx = host.visit(|visiting| visiting.earlier_try = Some(Timestamp(0)));
    assert_eq!(sends(&cx, &outside, Ok(7)).await.unwrap(), 7);
    assert_eq!(pays(&cx, (&bank, Ok(Asked::Happened(9))), (&outside, Ok(8))).await.unwrap(), 8);
    assert_eq!((outside.calls(), bank.calls()), (2, 0), "there is nothing to ask about");
    assert!(outside.seen().iter().all(|call| call.attempt == 1));
}

#[tokio::test]
async fn of_two_effects_beside_each_other_each_has_its_intent() {
    let (host, outside) = (FakeHost::new(), Outside::default());
    let cx = host.cx();
    let send = async |key: &str, answer: Answer| {
        let until = START.plus(DEADLINE);
        let letter = cx.effect("letter").key(key).once();
        letter
            .call(async |call| {
                assert!(
                    host.asked().contains(&intend(&vec!["letter"; outside.calls() + 1], until)),
                    "{:?}",
                    host.asked()
                );
                outside.ask(call, answer).await
            })
            .await
    };
    let (first, second) = tokio::join!(send("a", Err(CallError::unknown("reset"))), send("b", Ok(2)));
    assert!(question(first.unwrap_err()).contains("reset"));
    assert_eq!((second.unwrap(), outside.calls()), (2, 2));
    let until = START.plus(DEADLINE);
    assert_eq!(host.asked(), [intend(&["letter"], until), intend(&["letter", "letter"], until)]);
    let outcomes: Vec<_> = cx.recorded().journal.into_iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Outcome::Unknown { since: START, evidence: "reset".into() }, succeeded(&json!(2))]);
}
