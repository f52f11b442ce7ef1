//! What each error means for the run: the table in the docs of `StepError`, row by row. (What is missing or does not fit: see
//! `values`.)

use stepwell::host::{ErrorMeans, HostError};
use stepwell::prelude::*;
use stepwell_core::{Failure, FailureKind, ParkReason};

use crate::host::means;

#[derive(Debug, thiserror::Error)]
#[error("{said}")]
struct Caused {
    said: &'static str,
    source: Option<Box<Caused>>,
}

fn caused(chain: &[&'static str]) -> Caused {
    let (said, causes) = chain.split_first().unwrap();
    Caused { said, source: (!causes.is_empty()).then(|| Box::new(caused(causes))) }
}

fn failure(kind: FailureKind, message: &str) -> Failure {
    Failure::new(kind, message)
}

fn retry(message: &str, at_least: Option<Duration>) -> ErrorMeans {
    ErrorMeans::Retry { failure: failure(FailureKind::Error, message), policy: None, at_least }
}

#[test]
fn any_error_is_retried_with_all_its_causes_in_the_message() {
    fn step() -> Result<(), StepError> {
        Err(caused(&["reading prices", "line 7", "no number"]))?;
        Ok(())
    }
    assert_eq!(means(step().unwrap_err()), retry("reading prices: line 7: no number", None));
}

#[test]
fn a_cause_that_the_message_repeats_is_not_said_twice() {
    let error = caused(&["reading prices: line 7", "line 7", "no number"]);
    assert_eq!(means(error), retry("reading prices: line 7: no number", None));
}

#[test]
fn a_step_says_itself_what_its_error_means() {
    assert_eq!(means(StepError::retry("later")), retry("later", None));
    assert_eq!(means(StepError::retry_after(seconds(9), "later")), retry("later", Some(seconds(9))));
    let terminal = StepError::terminal("nobody answered");
    assert_eq!(terminal.to_string(), "terminal: nobody answered");
    assert_eq!(means(terminal), ErrorMeans::Fail(failure(FailureKind::Terminal, "nobody answered")));
    let coded = means(StepError::terminal("too late").with_code("E1"));
    assert_eq!(coded, ErrorMeans::Fail(failure(FailureKind::Terminal, "too late").with_code("E1")));
}

#[test]
fn an_effect_that_was_not_done_or_may_have_happened_is_retried_under_its_own_policy() {
    let policy = || Some(Box::new(RetryPolicy::none()));
    let (name, code, at_least) = ("email".to_string(), Some("E429".to_string()), Some(seconds(9)));
    let not_done = EffectError::NotDone {
        name: name.clone(),
        message: "busy".into(),
        code: code.clone(),
        at_least,
        policy: policy(),
    };
    let failure = failure(FailureKind::Error, "effect email was not done: busy").with_code("E429");
    assert_eq!(means(not_done), ErrorMeans::Retry { failure, policy: policy(), at_least });

    let unknown = EffectError::Unknown { name, evidence: "reset".into(), code, at_least, policy: policy() };
    let failure = Failure::new(FailureKind::Error, "effect email may have happened: reset").with_code("E429");
    assert_eq!(means(unknown), ErrorMeans::Retry { failure, policy: policy(), at_least });
}

#[test]
fn a_refused_effect_ends_the_run() {
    let refused = EffectError::Refused { name: "email".into(), message: "no such box".into(), code: Some("E7".into()) };
    let failure = failure(FailureKind::Refused, "effect email was refused: no such box").with_code("E7");
    assert_eq!(means(refused), ErrorMeans::Fail(failure));
}

#[test]
fn a_refused_effect_that_the_step_handles_ends_nothing() {
    fn step(asked: Result<u8, EffectError>) -> Result<u8, StepError> {
        match asked {
            Err(EffectError::Refused { .. }) => Ok(0),
            other => Ok(other?),
        }
    }
    let refused = EffectError::Refused { name: "email".into(), message: "no such box".into(), code: None };
    assert_eq!(step(Err(refused)).unwrap(), 0);
    let cancelled = step(Err(EffectError::Cancelled { name: "email".into() })).unwrap_err();
    assert!(matches!(means(cancelled), ErrorMeans::Cancelled(_)));
}

#[test]
fn what_only_a_person_can_settle_parks_the_run() {
    let reason = ParkReason::UnknownOutcome { what: "effect email may have happened".into() };
    assert_eq!(means(EffectError::Unsettled(reason.clone())), ErrorMeans::Park(reason));
}

#[test]
fn a_misused_effect_ends_the_run() {
    let misused = EffectError::Misused { name: "email".into(), problem: "other parameters".into() };
    assert_eq!(means(misused), ErrorMeans::Fail(failure(FailureKind::Terminal, "effect email: other parameters")));
}

#[test]
fn the_engines_own_troubles_are_no_failures_of_the_run() {
    assert_eq!(means(EffectError::Host(HostError::Lost)), ErrorMeans::Lost);
    assert_eq!(means(EffectError::Host(HostError::Passing("throttled".into()))), retry("throttled", None));
    let what = "blob b is missing".to_string();
    assert_eq!(means(EffectError::Host(HostError::Data(what.clone()))), ErrorMeans::Park(ParkReason::Data { what }));
    let cancelled = EffectError::Cancelled { name: "email".into() };
    let message = "effect email was not dispatched: the run is being cancelled";
    assert_eq!(means(cancelled), ErrorMeans::Cancelled(failure(FailureKind::Error, message)));
}
