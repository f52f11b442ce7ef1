//! Steps as the engine runs them: where a run stands is read, migrated, and written again.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use stepwell::host::{
    ErrorMeans, HostedWorkflow, NextPlace, PlaceText, PrepareError, PreparedStep, StepNext, WaitUntil,
};
use stepwell::prelude::*;
use stepwell::{EdgeError, Incompatible, Stored};
use stepwell_core::write::LogAppend;
use stepwell_core::{Json, LogId, SignalName, WorkflowName};

use crate::host::{FakeHost, json, means};

const APPROVAL: Signal<bool> = Signal::new("approval");
const REMINDER: Signal<()> = Signal::new("reminder");
const NOT_DECLARED: Signal<()> = Signal::new("not-declared");

/// Version 3 of a workflow. Version 1 had no `lines`, version 2 called `Draft` `Write`.
struct Brief;

#[derive(Serialize, Deserialize)]
struct Notes {
    goal: String,
    lines: Log<String>,
}

#[derive(Serialize, Deserialize)]
enum At {
    Draft,
    Decide {
        round: u32,
    },
    End(Ending),
    /// Cannot be written as JSON.
    Pairs(HashMap<(u8, u8), u8>),
}

/// How a step ends, one variant a way.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Ending {
    Complete,
    Until,
    Lasting,
    Either,
    Undeclared,
    TooMany,
    Unwritable,
    Error,
}

impl Workflow for Brief {
    const NAME: &'static str = "brief";
    const VERSION: u32 = 3;
    const MAX_STEPS: u64 = 50;
    type Input = Vec<String>;
    type State = Notes;
    type Step = At;
    type Output = u64;

    fn signals() -> Signals {
        Signals::none().and(APPROVAL).and(REMINDER)
    }

    fn policy(&self, at: &At) -> StepPolicy {
        match at {
            At::Decide { .. } => StepPolicy::default().timeout(seconds(7)).retry(RetryPolicy::none()),
            At::Draft | At::End(_) | At::Pairs(_) => StepPolicy::default(),
        }
    }

    fn migrate(from: u32, mut stored: Stored) -> Result<Stored, Incompatible> {
        match from {
            1 => stored.state["lines"] = json!({}),
            2 if stored.step == json!("Write") => stored.step = json!("Draft"),
            2 => {}
            _ => return Err(Incompatible::new(format!("version {from} was never deployed"))),
        }
        Ok(stored)
    }

    fn begin(&self, input: Vec<String>) -> (At, Notes) {
        (At::Decide { round: 0 }, Notes { goal: input.concat(), lines: Log::new() })
    }

    async fn step(&self, at: At, notes: &mut Notes, cx: &Cx) -> StepResult<Self> {
        notes.lines.push(format!("at {}", cx.now()));
        Ok(match at {
            At::Draft => goto(At::Decide { round: 1 }),
            At::Decide { .. } => wait(At::Draft).for_signal(APPROVAL).without_deadline(),
            At::End(Ending::Complete) | At::Pairs(_) => complete(notes.lines.len()),
            At::End(Ending::Until) => wait(At::Draft).until(Timestamp(5)),
            At::End(Ending::Lasting) => wait(At::Draft).lasting(days(3)),
            At::End(Ending::Either) => wait(At::Draft).for_signal(APPROVAL).or(REMINDER).within(hours(1)),
            At::End(Ending::Undeclared) => wait(At::Draft).for_signal(NOT_DECLARED).until(Timestamp(5)),
            At::End(Ending::TooMany) => {
                let signals = wait(At::Draft).for_signal(APPROVAL);
                (0..16).fold(signals, |signals, _| signals.or(REMINDER)).within(hours(1))
            }
            At::End(Ending::Unwritable) => goto(At::Pairs(HashMap::from([((1, 2), 3)]))),
            At::End(Ending::Error) => return Err(StepError::retry("later")),
        })
    }
}

/// A second version whose author forgot the migration.
struct Forgetful;
impl Workflow for Forgetful {
    const NAME: &'static str = "forgetful";
    const VERSION: u32 = 2;
    type Input = ();
    type State = ();
    type Step = ();
    type Output = ();

    fn begin(&self, (): ()) -> ((), ()) {
        ((), ())
    }

    async fn step(&self, (): (), (): &mut (), _cx: &Cx) -> StepResult<Self> {
        Ok(complete(()))
    }
}

fn hosted<W: Workflow>(workflow: W) -> Arc<dyn HostedWorkflow> {
    let registry = Registry::new().with(workflow);
    Arc::clone(registry.get(&WorkflowName::new(W::NAME).unwrap()).unwrap())
}

fn place(cursor: &Value, state: &Value, version: u32) -> PlaceText {
    PlaceText::At { cursor: json(cursor), state: json(state), version }
}

fn prepared(cursor: &Value, state: &Value, version: u32) -> Result<Box<dyn PreparedStep>, PrepareError> {
    hosted(Brief).prepare(place(cursor, state, version))
}

fn missing(cursor: &Value, state: &Value, version: u32) -> String {
    match prepared(cursor, state, version) {
        Err(PrepareError::Incompatible(Incompatible { missing })) => missing,
        Err(PrepareError::Input(misfit)) => panic!("{misfit}"),
        Ok(step) => panic!("step {} is ready", step.step()),
    }
}

fn state() -> Value {
    json!({"goal": "a tool", "lines": {"log": 4, "len": 6}})
}

async fn ends(ending: &str) -> Result<StepNext, StepError> {
    let step = prepared(&json!({"End": ending}), &state(), 3).unwrap_or_else(|error| panic!("{error:?}"));
    let cx = FakeHost::new().visit(|visiting| visiting.logs = 4);
    step.run(Arc::new(cx)).await
}

/// What a step leaves behind, with the line that it pushed.
fn left_behind(cursor: &Value, timeout: Duration) -> NextPlace {
    let state = text(r#"{"goal":"a tool","lines":{"log":4,"len":7}}"#);
    NextPlace { cursor: json(cursor), state, appends: vec![pushed(LogId(4), 6)], logs: 4, timeout }
}

fn text(json: &str) -> Json {
    Json::from_text(json.into()).unwrap()
}

fn pushed(log: LogId, first: u64) -> LogAppend {
    LogAppend { log, first, entries: vec![json(&json!("at 1970-01-01T00:16:40.000Z"))] }
}

#[tokio::test]
async fn a_run_begins_at_the_first_step_with_its_policy() {
    let workflow = hosted(Brief);
    assert_eq!((workflow.version(), workflow.max_steps()), (3, 50));
    let step = workflow.prepare(PlaceText::Fresh { input: json(&json!(["a ", "tool"])), at: None });
    let step = step.unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!((step.step(), step.note()), ("Decide", None));
    assert_eq!((step.policy().timeout, step.policy().retry.max_attempts.get()), (seconds(7), 1));

    // The log is the run's third, because two are there.
    let cx = FakeHost::new().visit(|visiting| visiting.logs = 2);
    let next = step.run(Arc::new(cx)).await.unwrap();
    let place = NextPlace {
        cursor: json(&json!("Draft")),
        state: text(r#"{"goal":"a tool","lines":{"log":3,"len":1}}"#),
        appends: vec![pushed(LogId(3), 0)],
        logs: 3,
        timeout: minutes(1),
    };
    let on = vec![SignalName::new("approval").unwrap()];
    assert_eq!(next, StepNext::Wait { place, on, until: WaitUntil::Forever, ask: None });
}

#[test]
fn an_input_that_does_not_fit_begins_nothing() {
    let prepared = hosted(Brief).prepare(PlaceText::Fresh { input: json(&json!(["a", 1])), at: None });
    let Err(PrepareError::Input(EdgeError::Misfit { path, .. })) = prepared else { panic!("it began") };
    assert_eq!(path, "[1]");
}

#[tokio::test]
async fn a_step_goes_on_with_what_it_changed_and_the_next_steps_timeout() {
    let step = prepared(&json!("Draft"), &state(), 3).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!((step.step(), step.policy()), ("Draft", &StepPolicy::default()));
    let cx = FakeHost::new().visit(|visiting| visiting.logs = 4);
    let next = step.run(Arc::new(cx)).await.unwrap();
    assert_eq!(next, StepNext::Goto(left_behind(&json!({"Decide": {"round": 1}}), seconds(7))));
}

#[tokio::test]
async fn a_step_waits_for_what_it_names() {
    let place = left_behind(&json!("Draft"), minutes(1));
    let waits = |on: &[&str], until| StepNext::Wait {
        place: place.clone(),
        on: on.iter().map(|name| SignalName::new(name).unwrap()).collect(),
        until,
        ask: None,
    };
    assert_eq!(ends("Until").await.unwrap(), waits(&[], WaitUntil::Time(Timestamp(5))));
    assert_eq!(ends("Lasting").await.unwrap(), waits(&[], WaitUntil::After(days(3))));
    assert_eq!(ends("Either").await.unwrap(), waits(&["approval", "reminder"], WaitUntil::After(hours(1))));
}

#[tokio::test]
async fn a_run_completes_with_its_output_and_the_last_entries_of_its_logs() {
    let next = ends("Complete").await.unwrap();
    let complete = StepNext::Complete { output: json(&json!(7)), appends: vec![pushed(LogId(4), 6)], logs: 4 };
    assert_eq!(next, complete);
}

#[tokio::test]
async fn a_wait_that_nobody_could_end_is_an_error() {
    for (ending, saying) in [
        ("Undeclared", "brief waits for signal not-declared, which `signals()` does not name"),
        ("TooMany", "a wait for 17 signals; at most 16 are allowed"),
        ("Unwritable", "step End: cannot be stored: key must be a string"),
    ] {
        let ErrorMeans::Fail(failure) = means(ends(ending).await.unwrap_err()) else { panic!("no retry helps") };
        assert_eq!(failure.message, saying);
    }
    assert!(matches!(means(ends("Error").await.unwrap_err()), ErrorMeans::Retry { .. }));
}

#[test]
fn a_step_that_this_code_does_not_know_is_named() {
    let missing = missing(&json!({"Publish": {"page": 1}}), &state(), 3);
    let opening = "this code of workflow brief cannot read the run's step at `.`: unknown variant `Publish`";
    assert!(missing.starts_with(opening) && missing.contains("`Draft`"), "{missing}");
}

#[test]
fn a_state_that_does_not_fit_names_the_field() {
    let missing = missing(&json!("Draft"), &json!({"goal": 7, "lines": {}}), 3);
    let opening = "this code of workflow brief cannot read the run's state at `goal`: invalid type";
    assert!(missing.starts_with(opening), "{missing}");
}

#[test]
fn a_newer_version_is_left_alone() {
    let missing = missing(&json!("Draft"), &state(), 4);
    assert_eq!(missing, "the run is at version 4 of workflow brief, this code is version 3");
}

#[tokio::test]
async fn older_versions_are_migrated_one_by_one_and_that_is_noted() {
    for (version, cursor, state, note) in [
        (1, json!("Write"), json!({"goal": "a tool"}), Some("migrated from version 1 to 3")),
        (2, json!("Write"), json!({"goal": "a tool", "lines": {}}), Some("migrated from version 2 to 3")),
        (3, json!("Draft"), json!({"goal": "a tool", "lines": {}}), None),
    ] {
        let step = prepared(&cursor, &state, version).unwrap_or_else(|error| panic!("{error:?}"));
        assert_eq!((step.step(), step.note()), ("Draft", note));
        let next = step.run(Arc::new(FakeHost::new().cx())).await.unwrap();
        let StepNext::Goto(place) = next else { panic!("{next:?}") };
        assert_eq!(place.state.text(), r#"{"goal":"a tool","lines":{"log":1,"len":1}}"#);
    }
}

#[test]
fn a_migration_that_is_missing_is_said() {
    assert_eq!(missing(&json!("Draft"), &state(), 0), "version 0 was never deployed");
    let Err(PrepareError::Incompatible(error)) = hosted(Forgetful).prepare(place(&json!(null), &json!(null), 1)) else {
        panic!("it was migrated")
    };
    assert_eq!(error.to_string(), "workflow forgetful has no migration from version 1");
}
