//! Workflows by name: what is checked when they are registered, and at the edge.

use serde_json::json;
use stepwell::host::HostedWorkflow;
use stepwell::prelude::*;
use stepwell::{EdgeError, RegistryProblem};
use stepwell_core::limits::VALUE_BYTES_MAX;
use stepwell_core::{NameError, SignalName, WorkflowName};

use crate::host::json;

/// A workflow whose names a test chooses.
struct Named<const WORKFLOW: usize, const SIGNALS: usize>;

const WORKFLOWS: [&str; 3] = ["brief", "audit", "no spaces"];
const SIGNALS: [&[&str]; 5] =
    [&[], &["approval", "feedback"], &["approval", "approval"], &["ok", "-not"], &["stepwell.evidence"]];

#[derive(Deserialize)]
struct Request {
    #[allow(dead_code, reason = "only its type matters")]
    vendors: Vec<String>,
}

impl<const WORKFLOW: usize, const SIGNAL: usize> Workflow for Named<WORKFLOW, SIGNAL> {
    const NAME: &'static str = WORKFLOWS[WORKFLOW];
    type Input = Request;
    type State = ();
    type Step = ();
    type Output = ();

    fn signals() -> Signals {
        SIGNALS[SIGNAL].iter().fold(Signals::none(), |signals, name| signals.and(Signal::<Vec<u8>>::new(name)))
    }

    fn begin(&self, _request: Request) -> ((), ()) {
        ((), ())
    }

    async fn step(&self, _at: (), _state: &mut (), _cx: &Cx) -> StepResult<Self> {
        Ok(complete(()))
    }
}

fn brief<const SIGNALS: usize>() -> std::sync::Arc<dyn HostedWorkflow> {
    let registry = Registry::new().with(Named::<0, SIGNALS>);
    std::sync::Arc::clone(registry.get(&WorkflowName::new("brief").unwrap()).unwrap())
}

fn signal(name: &str) -> SignalName {
    SignalName::new(name).unwrap()
}

#[test]
fn workflows_are_found_by_name_and_listed_sorted() {
    let registry = Registry::new().with(Named::<0, 1>).with(Named::<1, 0>);
    assert_eq!(registry.problems(), []);
    assert_eq!(registry.names().map(WorkflowName::as_str).collect::<Vec<_>>(), ["audit", "brief"]);
    let workflow = registry.get(&WorkflowName::new("audit").unwrap()).unwrap();
    assert_eq!((workflow.name().as_str(), workflow.version(), workflow.max_steps()), ("audit", 1, 1_000_000));
    assert!(registry.get(&WorkflowName::new("other").unwrap()).is_none());
}

#[test]
fn two_workflows_under_one_name_are_a_problem() {
    let registry = Registry::new().with(Named::<0, 0>).with(Named::<1, 0>).with(Named::<0, 1>);
    let [problem] = registry.problems() else { panic!("{:?}", registry.problems()) };
    assert_eq!(*problem, RegistryProblem::Twice(WorkflowName::new("brief").unwrap()));
    assert_eq!(problem.to_string(), "two workflows are registered under the name brief: rename one of them");
}

#[test]
fn a_name_that_cannot_be_stored_is_a_problem() {
    let registry = Registry::new().with(Named::<2, 0>);
    let [problem @ RegistryProblem::Name { workflow: "no spaces", problem: NameError::Character { .. } }] =
        registry.problems()
    else {
        panic!("{:?}", registry.problems())
    };
    assert!(problem.to_string().contains("workflow name \"no spaces\" holds ' '"), "{problem}");
    assert_eq!(registry.names().count(), 0);
}

#[test]
fn a_signals_name_is_checked_too() {
    let registry = Registry::new().with(Named::<0, 2>);
    assert_eq!(registry.problems(), [RegistryProblem::SignalTwice { workflow: "brief", signal: "approval" }]);
    let registry = Registry::new().with(Named::<0, 3>);
    let [problem @ RegistryProblem::Name { workflow: "brief", problem: NameError::Start { .. } }] = registry.problems()
    else {
        panic!("{:?}", registry.problems())
    };
    assert!(problem.to_string().contains("signal name \"-not\""), "{problem}");
    // The engine's own names: nobody outside may tell a run how its effects ended.
    let registry = Registry::new().with(Named::<0, 4>);
    let reserved = RegistryProblem::Reserved { workflow: "brief", signal: "stepwell.evidence" };
    assert_eq!(registry.problems(), [reserved]);
}

#[test]
fn an_input_that_does_not_fit_names_the_field() {
    let workflow = brief::<0>();
    workflow.check_input(&json(&json!({"vendors": ["a"]}))).unwrap();
    let error = workflow.check_input(&json(&json!({"vendors": [7]}))).unwrap_err();
    assert!(matches!(&error, EdgeError::Misfit { path, .. } if path == "vendors[0]"), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with("the input of workflow brief does not fit at `vendors[0]`: invalid type"), "{text}");
    let text = workflow.check_input(&json(&json!({}))).unwrap_err().to_string();
    assert!(text.contains("missing field `vendors`"), "{text}");
}

#[test]
fn a_value_over_the_limit_is_refused_with_its_size() {
    let workflow = brief::<1>();
    // Two quotes and the brackets of the list around it.
    let text = |chars: usize| json(&json!({"vendors": ["x".repeat(chars)]}));
    let around = text(0).text().len();
    workflow.check_input(&text(VALUE_BYTES_MAX - around)).unwrap();
    let error = workflow.check_input(&text(VALUE_BYTES_MAX - around + 1)).unwrap_err();
    assert!(matches!(error, EdgeError::TooLarge { size, .. } if size == VALUE_BYTES_MAX + 1), "{error}");
    let long = json(&json!("x".repeat(VALUE_BYTES_MAX)));
    let text = workflow.check_signal(&signal("approval"), &long).unwrap_err().to_string();
    assert!(text.starts_with("signal approval of workflow brief has 8388610 bytes"), "{text}");
}

#[test]
fn a_signal_that_is_not_accepted_is_answered_with_those_that_are() {
    let error = brief::<1>().check_signal(&signal("aproval"), &json(&json!([]))).unwrap_err();
    assert_eq!(error.to_string(), "workflow brief accepts no signal aproval; it accepts: approval, feedback");
    let error = brief::<0>().check_signal(&signal("approval"), &json(&json!([]))).unwrap_err();
    assert_eq!(error.to_string(), "workflow brief accepts no signal approval; it accepts: none");
}

#[test]
fn a_signal_that_does_not_fit_names_the_field() {
    let workflow = brief::<1>();
    workflow.check_signal(&signal("feedback"), &json(&json!([1, 2]))).unwrap();
    let error = workflow.check_signal(&signal("feedback"), &json(&json!([1, 256]))).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("signal feedback of workflow brief does not fit at `[1]`"), "{text}");
}
