//! What a step says and stores, while there is a secret.

use std::sync::Arc;
use std::time::Duration;

use stepwell::host::{ErrorMeans, PlaceText, PrepareError};
use stepwell::prelude::*;
use stepwell::{Incompatible, Stored};
use stepwell_core::limits::FAILURE_MESSAGE_BYTES_MAX;
use stepwell_core::{Json, Outcome, WorkflowName};

use crate::host::FakeHost;

const KEY: &str = "k-authoring-0815";

fn secret() -> Secret {
    Secret::new("api-key", KEY.into()).unwrap()
}

#[test]
fn errors_do_not_show_it() {
    let key = secret();
    let said = format!("401 for {}", key.expose());
    for error in [
        StepError::terminal(&said),
        StepError::retry(&said),
        StepError::retry_after(Duration::ZERO, &said),
        StepError::terminal("x").with_code(&*said),
        StepError::from(std::io::Error::other(said.clone())),
    ] {
        let shown = format!("{error} {error:?} {:?}", ErrorMeans::from(StepError::terminal(&error)));
        assert!(shown.contains("401 for [secret api-key]") && !shown.contains(KEY), "{shown}");
    }
    for error in [
        CallError::retry(&said),
        CallError::refused(&said),
        CallError::unknown(&said),
        CallError::unknown("x").with_code(&*said),
        CallError::from(std::io::Error::other(said.clone())),
    ] {
        let shown = format!("{error:?}");
        assert!(shown.contains("401 for [secret api-key]") && !shown.contains(KEY), "{shown}");
    }
    // One that is cut at its end keeps no part of the secret there.
    let mut long = (FAILURE_MESSAGE_BYTES_MAX - 40..FAILURE_MESSAGE_BYTES_MAX)
        .map(|length| StepError::terminal(format!("{}{KEY}", "x".repeat(length))).to_string());
    assert!(long.all(|shown| !shown.contains("k-auth")));
}

#[tokio::test]
async fn the_outcome_of_a_call_does_not_hold_it() {
    let (host, key) = (FakeHost::new(), secret());
    let cx = host.cx();
    let said = || format!("no answer to {}", key.expose());
    let unknown = cx.effect("unknown").idempotent().call(async |_| Err::<(), _>(CallError::unknown(said()))).await;
    let refused = cx.effect("refused").idempotent().call(async |_| Err::<(), _>(CallError::refused(said()))).await;
    let result = cx.effect("result").idempotent().call(async |_| Ok::<_, CallError>(said())).await;
    let shown = format!("{unknown:?} {refused:?} {result:?} {:?}", cx.recorded());
    assert!(!shown.contains(KEY), "{shown}");
    let problem = result.unwrap_err().to_string();
    assert!(problem.contains("effect result: its result holds secret api-key in plain"), "{problem}");
    // It has happened, and what it answered is not known to the run.
    let journal = cx.recorded().journal;
    assert!(matches!(journal[2].outcome, Outcome::Unknown { .. }), "{journal:?}");
}

#[tokio::test]
async fn a_blob_does_not_hold_it() {
    let (host, key) = (FakeHost::new(), secret());
    let error = host.cx().blob::<str, String>(&format!("a page with {}", key.expose())).await.unwrap_err();
    assert!(error.to_string().contains("a blob holds secret api-key in plain"), "{error}");
    assert!(matches!(ErrorMeans::from(error), ErrorMeans::Fail(_)));
}

/// Says what it is given in everything it says of itself.
struct Echo {
    key: Secret,
}

impl Workflow for Echo {
    const NAME: &'static str = "echo";
    const VERSION: u32 = 2;
    type Input = u8;
    type State = String;
    type Step = String;
    type Output = ();

    fn begin(&self, _: u8) -> (String, String) {
        ("first".into(), String::new())
    }

    async fn step(&self, _: String, _: &mut String, _: &Cx) -> StepResult<Self> {
        Ok(goto(self.key.expose().clone()))
    }

    fn migrate(_: u32, stored: Stored) -> Result<Stored, Incompatible> {
        Err(Incompatible::new(format!("nobody migrates {}", stored.state)))
    }
}

#[tokio::test]
async fn what_does_not_fit_is_not_shown_with_it() {
    let registry = Registry::new().with(Echo { key: secret() });
    let echo = registry.get(&WorkflowName::new("echo").unwrap()).unwrap();
    let text = Json::of(KEY).unwrap();
    let misfit = echo.check_input(&text).unwrap_err().to_string();
    assert!(misfit.contains("[secret api-key]") && !misfit.contains(KEY), "{misfit}");

    let old = PlaceText::At { cursor: text.clone(), state: text.clone(), version: 1 };
    let Err(PrepareError::Incompatible(what)) = echo.prepare(old) else { panic!("it is migrated") };
    assert_eq!(what.missing, "nobody migrates \"[secret api-key]\"");

    let first = echo.prepare(PlaceText::Fresh { input: Json::of(&1).unwrap(), at: None }).unwrap();
    let error = first.run(Arc::new(FakeHost::new().cx())).await.unwrap_err().to_string();
    assert!(error.contains("the next step holds secret api-key in plain"), "{error}");
}
