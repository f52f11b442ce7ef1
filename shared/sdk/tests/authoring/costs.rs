//! What effects cost: reserved with the intent, settled with what the call says, and released where it did not happen.

use core::pin::pin;

use serde_json::json;
use stepwell::host::{ErrorMeans, NotAdmitted, Reached};
use stepwell::prelude::*;
use stepwell::{Effect, Keyed};
use stepwell_core::budget::{OverBudget, Span};
use stepwell_core::{Amounts, Class, EffectRecord, FailureKind, ParkReason};

use crate::host::{FakeHost, Outside, means, only_record, poll_once, succeeded};

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Succeeded,
    Refused,
    NotDone,
    Unknown,
    /// Its step is dropped while it is under way.
    InFlight,
}

const ENDS: [End; 5] = [End::Succeeded, End::Refused, End::NotDone, End::Unknown, End::InFlight];

type Classify = fn(Effect<'_, stepwell::Unclassified, Keyed>) -> Effect<'_, Class, Keyed>;

const CLASSES: [Classify; 3] = [|effect| effect.read(), |effect| effect.idempotent(), |effect| effect.once()];

/// Asks a model, at ten tokens at most; it says what it has cost, or does not.
async fn asks(cx: &Cx, classify: Classify, end: End, says: Option<u64>) -> Result<u8, EffectError> {
    let effect = classify(cx.effect("ask").key("q").costs("tokens", 10));
    let call = effect.call(async |call| {
        if let Some(tokens) = says {
            call.spent("tokens", tokens);
        }
        match end {
            End::Succeeded => Ok(7),
            End::Refused => Err(CallError::refused("no")),
            End::NotDone => Err(CallError::retry("busy")),
            End::Unknown => Err(CallError::unknown("reset")),
            End::InFlight => std::future::pending().await,
        }
    });
    if end == End::InFlight {
        assert!(poll_once(pin!(call)).is_pending());
        return Ok(0);
    }
    call.await
}

fn tokens(amount: u64) -> Amounts {
    if amount == 0 { Amounts::new() } else { Amounts::from([("tokens".into(), amount)]) }
}

fn costs(cx: &Cx) -> Option<Amounts> {
    cx.recorded().journal.first().map(|record| record.costs.clone())
}

#[tokio::test]
async fn each_end_settles_what_was_reserved() {
    for (at, classify) in CLASSES.into_iter().enumerate() {
        for end in ENDS {
            for says in [None, Some(3), Some(0)] {
                let host = FakeHost::new();
                let cx = host.cx();
                asks(&cx, classify, end, says).await.ok();
                let expected = match end {
                    End::Succeeded => Some(tokens(says.unwrap_or(10))),
                    End::Refused => Some(tokens(says.unwrap_or(0))),
                    // It did not happen, and nothing is recorded of it.
                    End::NotDone => None,
                    // It may have cost all of it, whatever it has said so far.
                    End::Unknown | End::InFlight => Some(tokens(10)),
                };
                assert_eq!(costs(&cx), expected, "class {at}, {end:?}, says {says:?}");
                let [intent] = &host.intended()[..] else { panic!("what costs something has an intent") };
                assert_eq!((&intent[0].costs, intent[0].is_unknown()), (&tokens(10), true));
            }
        }
    }
}

#[tokio::test]
async fn what_acts_once_costs_once_and_a_read_that_may_have_happened_costs_again() {
    for (classify, sum) in [(CLASSES[0], 10), (CLASSES[1], 0)] {
        for end in [End::Unknown, End::InFlight] {
            let host = FakeHost::new();
            let first = host.cx();
            asks(&first, classify, end, None).await.ok();

            let again = host.again(&first);
            asks(&again, classify, End::Succeeded, Some(3)).await.unwrap();
            assert_eq!(costs(&again), Some(tokens(sum + 3)), "{end:?}");
            // Reserved is the sum, too.
            assert_eq!(host.intended()[1][0].costs, tokens(sum + 10));
        }
    }
    // What did not happen the second time has still cost the first.
    for (end, kept) in [(End::NotDone, 10), (End::Refused, 10), (End::Unknown, 20)] {
        let host = FakeHost::new();
        let first = host.cx();
        asks(&first, CLASSES[0], End::Unknown, None).await.unwrap_err();
        let again = host.again(&first);
        asks(&again, CLASSES[0], end, None).await.unwrap_err();
        assert_eq!(costs(&again), Some(tokens(kept)), "{end:?}");
    }
}

#[tokio::test]
async fn what_a_call_says_twice_adds_up_and_costs_of_several_counters_stand_side_by_side() {
    let host = FakeHost::new();
    let cx = host.cx();
    let effect = cx.effect("ask").read().costs("tokens", 10).costs("cents", 5).costs("cents", 1);
    let told = effect.call(async |call| {
        call.spent("tokens", 2);
        call.spent("tokens", 2);
        Ok::<_, CallError>(7)
    });
    told.await.unwrap();
    let expected = Amounts::from([("tokens".into(), 4), ("cents".into(), 6)]);
    assert_eq!(only_record(&cx).costs, expected);
}

#[tokio::test]
async fn an_effect_that_costs_nothing_has_no_intent_unless_effects_are_counted() {
    for (counts_effects, intents, costs) in
        [(false, 0, Amounts::new()), (true, 1, Amounts::from([("effects".into(), 1)]))]
    {
        let (host, outside) = (FakeHost::new(), Outside::default());
        let cx = host.visit(|visiting| visiting.counts_effects = counts_effects);
        let fetch = cx.effect("fetch").read();
        fetch.call(|call| outside.ask(call, Ok::<_, CallError>(7))).await.unwrap();
        assert_eq!((host.intended().len(), only_record(&cx).costs), (intents, costs));
    }
}

#[tokio::test]
async fn an_effect_that_the_budget_does_not_allow_is_not_made_and_the_run_is_parked_or_fails() {
    let over = OverBudget { span: Span::Run, counter: "tokens".into(), limit: 5, spent: 10 };
    let words = "the run's budget of 5 tokens does not allow it: 10 would be spent";
    for reached in [Reached::Park, Reached::Fail] {
        let host = FakeHost::new();
        host.admit_nothing(NotAdmitted::OverBudget(over.clone()));
        let cx = host.visit(|visiting| visiting.reached = reached);
        let error = asks(&cx, CLASSES[1], End::Succeeded, None).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        match (means(error), reached) {
            (ErrorMeans::Park(ParkReason::Budget(why)), Reached::Park) => assert_eq!(why, over),
            (ErrorMeans::Fail(failure), Reached::Fail) => assert_eq!(failure.kind, FailureKind::Budget),
            other => panic!("{other:?}"),
        }
        assert_eq!(cx.recorded().journal, Vec::<EffectRecord>::new());
        assert_eq!(cx.recorded().used().effects_made, 0);
    }
}

async fn pays(cx: &Cx, answer: Result<u8, CallError>) -> Result<u8, EffectError> {
    let effect = cx.effect("pay").key("q").costs("cents", 9);
    let effect = effect.reconcile(async |_| Ok::<_, CallError>(stepwell::Asked::Happened(7)));
    effect.call(async |_| answer).await
}

#[tokio::test]
async fn a_result_that_is_found_out_later_costs_what_was_reserved() {
    let host = FakeHost::new();
    let first = host.cx();
    pays(&first, Err(CallError::unknown("reset"))).await.unwrap_err();
    host.pass(hours(1));
    let again = host.again(&first);
    assert_eq!(pays(&again, Ok(8)).await.unwrap(), 7);
    let record = only_record(&again);
    assert_eq!((record.costs, record.outcome), (Amounts::from([("cents".into(), 9)]), succeeded(&json!(7))));
}
