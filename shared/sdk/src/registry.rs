//! Workflows by name, without their types.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use stepwell_core::limits::{VALUE_BYTES_MAX, WAIT_SIGNALS_MAX};
use stepwell_core::{Json, NameError, SignalName, WorkflowName};

use crate::host::{HostedWorkflow, NextPlace, PlaceText, PrepareError, PreparedStep, StepNext, WaitUntil};
use crate::log::{Gathered, gather};
use crate::next::{Kind, Until};
use crate::secret::refuse_secrets;
use crate::signal::{Accepted, read_at_edge};
use crate::workflow::{Incompatible, StepPolicy, Stored};
use crate::{Budget, Cx, StepError, Workflow, redact};

/// The workflows that a program knows. Registering one is one line.
///
/// ```
/// # use stepwell::Registry;
/// # fn adder() -> Registry { Registry::new() }
/// pub fn registry() -> Registry {
///     Registry::new() // .with(MyWorkflow)
/// }
/// ```
#[derive(Clone, Default)]
pub struct Registry {
    pub(crate) workflows: BTreeMap<WorkflowName, Arc<dyn HostedWorkflow>>,
    problems: Vec<RegistryProblem>,
}

/// What is wrong with a registry. An engine does not start with one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryProblem {
    /// Two workflows have one name.
    #[error("two workflows are registered under the name {0}: rename one of them")]
    Twice(WorkflowName),
    /// A name that cannot be used.
    #[error("workflow {workflow:?}: {problem}")]
    Name {
        /// Which workflow.
        workflow: &'static str,
        /// What is wrong with its name, or a signal's.
        problem: NameError,
    },
    /// A signal's name is one of the engine's own.
    #[error("workflow {workflow}: signal {signal} begins with `stepwell.`, as the engine's own do: rename it")]
    Reserved {
        /// Which workflow.
        workflow: &'static str,
        /// Which signal.
        signal: &'static str,
    },
    /// Two signals have one name.
    #[error("workflow {workflow} accepts two signals named {signal}: rename one of them")]
    SignalTwice {
        /// Which workflow.
        workflow: &'static str,
        /// Which signal.
        signal: &'static str,
    },
}

/// How the names of the engine's own signals begin, late evidence among them.
const RESERVED: &str = "stepwell.";

/// A value from outside that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EdgeError {
    /// It is not of the type.
    #[error("{what} of workflow {workflow} does not fit at `{path}`: {problem}")]
    Misfit {
        /// Input or signal.
        what: String,
        /// Of which workflow.
        workflow: WorkflowName,
        /// The field.
        path: String,
        /// What is wrong there.
        problem: String,
    },
    /// The workflow does not accept this signal.
    #[error("workflow {workflow} accepts no signal {signal}; it accepts: {accepted}")]
    NoSuchSignal {
        /// Which workflow.
        workflow: WorkflowName,
        /// The signal.
        signal: SignalName,
        /// What it accepts.
        accepted: String,
    },
    /// It is too large.
    #[error("{what} of workflow {workflow} has {size} bytes, the limit is {VALUE_BYTES_MAX}: pass a reference instead")]
    TooLarge {
        /// Input or signal.
        what: String,
        /// Of which workflow.
        workflow: WorkflowName,
        /// Its size.
        size: usize,
    },
}

impl Registry {
    /// No workflow.
    pub fn new() -> Self {
        Self::default()
    }

    /// This one too.
    #[must_use]
    pub fn with<W: Workflow>(self, workflow: W) -> Self {
        self.with_shared(Arc::new(workflow))
    }

    /// This one too, which somebody else keeps as well: a test that looks at what it holds.
    #[must_use]
    pub fn with_shared<W: Workflow>(mut self, workflow: Arc<W>) -> Self {
        let name = match WorkflowName::new(W::NAME) {
            Ok(name) => name,
            Err(problem) => {
                self.problems.push(RegistryProblem::Name { workflow: W::NAME, problem });
                return self;
            }
        };
        let signals = W::signals().accepted;
        for (at, signal) in signals.iter().enumerate() {
            if signal.name.starts_with(RESERVED) {
                self.problems.push(RegistryProblem::Reserved { workflow: W::NAME, signal: signal.name });
            }
            if let Err(problem) = SignalName::new(signal.name) {
                self.problems.push(RegistryProblem::Name { workflow: W::NAME, problem });
            }
            if signals[..at].iter().any(|before| before.name == signal.name) {
                self.problems.push(RegistryProblem::SignalTwice { workflow: W::NAME, signal: signal.name });
            }
        }
        let hosted = Hosted { name: name.clone(), workflow, signals, budget: W::budget() };
        if self.workflows.insert(name.clone(), Arc::new(hosted)).is_some() {
            self.problems.push(RegistryProblem::Twice(name));
        }
        self
    }

    /// What is wrong with it.
    pub fn problems(&self) -> &[RegistryProblem] {
        &self.problems
    }

    /// The workflow of this name.
    pub fn get(&self, name: &WorkflowName) -> Option<&Arc<dyn HostedWorkflow>> {
        self.workflows.get(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &WorkflowName> {
        self.workflows.keys()
    }
}

struct Hosted<W> {
    name: WorkflowName,
    workflow: Arc<W>,
    signals: Vec<Accepted>,
    budget: Budget,
}

impl<W: Workflow> Hosted<W> {
    fn check(
        &self,
        what: &dyn Fn() -> String,
        value: &Json,
        fits: impl Fn(&Json) -> Result<(), crate::signal::Misfit>,
    ) -> Result<(), EdgeError> {
        let size = value.text().len();
        if size > VALUE_BYTES_MAX {
            return Err(EdgeError::TooLarge { what: what(), workflow: self.name.clone(), size });
        }
        fits(value).map_err(|misfit| EdgeError::Misfit {
            what: what(),
            workflow: self.name.clone(),
            path: redact(misfit.path().to_string()),
            problem: redact(misfit.inner().to_string()),
        })
    }

    /// Step and state of this code's version, and a note when they had to be migrated.
    fn current(&self, cursor: Json, state: Json, version: u32) -> Result<(Json, Json, Option<String>), Incompatible> {
        if version > W::VERSION {
            let (name, code) = (&self.name, W::VERSION);
            let missing = format!("the run is at version {version} of workflow {name}, this code is version {code}");
            return Err(Incompatible::new(missing));
        }
        if version == W::VERSION {
            return Ok((cursor, state, None));
        }
        let unreadable = |error: serde_json::Error| Incompatible::new(format!("cannot be migrated: {error}"));
        let mut stored =
            Stored { step: cursor.parse().map_err(unreadable)?, state: state.parse().map_err(unreadable)? };
        for from in version..W::VERSION {
            stored = W::migrate(from, stored)?;
        }
        let note = format!("migrated from version {version} to {}", W::VERSION);
        Ok((Json::of(&stored.step).map_err(unreadable)?, Json::of(&stored.state).map_err(unreadable)?, Some(note)))
    }
}

impl<W: Workflow> HostedWorkflow for Hosted<W> {
    fn name(&self) -> &WorkflowName {
        &self.name
    }

    fn version(&self) -> u32 {
        W::VERSION
    }

    fn max_steps(&self) -> u64 {
        W::MAX_STEPS
    }

    fn keeps_states(&self) -> bool {
        W::KEEPS_STATES
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn check_input(&self, input: &Json) -> Result<(), EdgeError> {
        self.check(&|| "the input".into(), input, |value| read_at_edge::<W::Input>(value).map(drop))
    }

    fn check_signal(&self, name: &SignalName, payload: &Json) -> Result<(), EdgeError> {
        let Some(signal) = self.signals.iter().find(|signal| signal.name == name.as_str()) else {
            let names: Vec<&str> = self.signals.iter().map(|signal| signal.name).collect();
            let accepted = if names.is_empty() { "none".into() } else { names.join(", ") };
            return Err(EdgeError::NoSuchSignal { workflow: self.name.clone(), signal: name.clone(), accepted });
        };
        self.check(&|| format!("signal {name}"), payload, signal.check)
    }

    fn prepare(&self, place: PlaceText) -> Result<Box<dyn PreparedStep>, PrepareError> {
        self.ready(place).map_err(|error| match error {
            PrepareError::Incompatible(Incompatible { missing }) => {
                PrepareError::Incompatible(Incompatible::new(redact(missing)))
            }
            input @ PrepareError::Input(_) => input,
        })
    }
}

impl<W: Workflow> Hosted<W> {
    fn read_step(&self, cursor: &Json) -> Result<W::Step, PrepareError> {
        read_at_edge::<W::Step>(cursor).map_err(|misfit| self.unknown("step", &misfit))
    }

    fn unknown(&self, what: &str, misfit: &crate::signal::Misfit) -> PrepareError {
        let (name, path, problem) = (&self.name, misfit.path(), misfit.inner());
        let missing = format!("this code of workflow {name} cannot read the run's {what} at `{path}`: {problem}");
        PrepareError::Incompatible(Incompatible::new(missing))
    }

    fn ready(&self, place: PlaceText) -> Result<Box<dyn PreparedStep>, PrepareError> {
        let workflow = Arc::clone(&self.workflow);
        let (at, state, step, note) = match place {
            PlaceText::Fresh { input, at } => {
                self.check_input(&input).map_err(PrepareError::Input)?;
                let misfit =
                    |error: serde_json::Error| PrepareError::Incompatible(Incompatible::new(error.to_string()));
                let (first, state) = workflow.begin(input.parse().map_err(misfit)?);
                let at = at.map_or(Ok(first), |at| self.read_step(&at))?;
                let step = Json::of(&at).ok().and_then(|cursor| cursor.variant());
                (at, state, step, None)
            }
            PlaceText::At { cursor, state, version } => {
                let (cursor, state, note) = self.current(cursor, state, version).map_err(PrepareError::Incompatible)?;
                let at = self.read_step(&cursor)?;
                let state = read_at_edge::<W::State>(&state).map_err(|misfit| self.unknown("state", &misfit))?;
                (at, state, cursor.variant(), note)
            }
        };
        let policy = workflow.policy(&at);
        let step = step.map_or_else(|| "step".into(), redact);
        Ok(Box::new(Prepared { workflow, at, state, step, policy, note }))
    }
}

struct Prepared<W: Workflow> {
    workflow: Arc<W>,
    at: W::Step,
    state: W::State,
    step: String,
    policy: StepPolicy,
    note: Option<String>,
}

#[async_trait]
impl<W: Workflow> PreparedStep for Prepared<W> {
    fn step(&self) -> &str {
        &self.step
    }

    fn policy(&self) -> &StepPolicy {
        &self.policy
    }

    fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    async fn run(self: Box<Self>, cx: Arc<Cx>) -> Result<StepNext, StepError> {
        let Self { workflow, at, mut state, step, policy: self_policy, .. } = *self;
        cx.knows_step
            .get_or_init(|| |step| read_at_edge::<W::Step>(step).map(drop).map_err(|misfit| misfit.to_string()));
        let undoing = cx.visiting.undoing.is_some();
        // Where the run stands while the next effect is taken back is for the engine to say.
        let this = if undoing { Json::of(&at).ok() } else { None };
        let next = workflow.step(at, &mut state, &cx).await?;
        let logs = cx.visiting.logs;
        let place = |at: &W::Step, state: &W::State| -> Result<NextPlace, StepError> {
            let unwritable =
                |error: serde_json::Error| StepError::terminal(format!("step {step}: cannot be stored: {error}"));
            let cursor = plain("the next step", Json::of(at).map_err(unwritable)?)?;
            let gathered = all_plain(gather(&state, logs).map_err(unwritable)?)?;
            let timeout = workflow.policy(at).timeout;
            Ok(NextPlace { cursor, state: gathered.state, appends: gathered.appends, logs: gathered.logs, timeout })
        };
        match next.0 {
            Kind::Goto(at) => Ok(StepNext::Goto(place(&at, &state)?)),
            Kind::Wait { at, on, until, ask } => {
                let place = place(&at, &state)?;
                let ask = ask.map(|ask| ask.into_ask().map(Box::new)).transpose()?;
                Ok(StepNext::Wait { place, on: names::<W>(&on)?, until: until.into(), ask })
            }
            Kind::Undone => {
                let Some(cursor) = this else {
                    return Err(StepError::terminal(format!(
                        "step {step} ended with `undone()`, but takes nothing back"
                    )));
                };
                let unwritable =
                    |error: serde_json::Error| StepError::terminal(format!("step {step}: cannot be stored: {error}"));
                let gathered = all_plain(gather(&state, logs).map_err(unwritable)?)?;
                let (timeout, appends, logs) = (self_policy.timeout, gathered.appends, gathered.logs);
                Ok(StepNext::Undone(NextPlace { cursor, state: gathered.state, appends, logs, timeout }))
            }
            Kind::Complete(_) if undoing => {
                Err(StepError::terminal(format!("step {step} takes an effect back, and has to end with `undone()`")))
            }
            Kind::Complete(output) => {
                let unwritable =
                    |error| StepError::terminal(format!("step {step}: its output cannot be stored: {error}"));
                let gathered = all_plain(gather(&state, logs).map_err(unwritable)?)?;
                let output = plain("the output", Json::of(&output).map_err(unwritable)?)?;
                Ok(StepNext::Complete { output, appends: gathered.appends, logs: gathered.logs })
            }
        }
    }
}

/// What is to be stored, if no secret is in it.
fn plain(what: &str, json: Json) -> Result<Json, StepError> {
    refuse_secrets(what, json.text().as_bytes()).map_err(StepError::terminal)?;
    Ok(json)
}

fn all_plain(gathered: Gathered) -> Result<Gathered, StepError> {
    let Gathered { state, appends, logs } = gathered;
    let state = plain("the state", state)?;
    for entry in appends.iter().flat_map(|append| &append.entries) {
        refuse_secrets("a log entry", entry.text().as_bytes()).map_err(StepError::terminal)?;
    }
    Ok(Gathered { state, appends, logs })
}

/// The names of the signals waited for, if the workflow accepts them: else nobody could ever send them.
fn names<W: Workflow>(on: &[&'static str]) -> Result<Vec<SignalName>, StepError> {
    let accepted = W::signals().accepted;
    if on.len() > WAIT_SIGNALS_MAX {
        return Err(StepError::terminal(format!(
            "a wait for {} signals; at most {WAIT_SIGNALS_MAX} are allowed",
            on.len()
        )));
    }
    on.iter()
        .map(|name| {
            if !accepted.iter().any(|signal| signal.name == *name) {
                let workflow = W::NAME;
                return Err(StepError::terminal(format!(
                    "{workflow} waits for signal {name}, which `signals()` does not name"
                )));
            }
            SignalName::new(name).map_err(StepError::terminal)
        })
        .collect()
}

impl From<Until> for WaitUntil {
    fn from(until: Until) -> Self {
        match until {
            Until::Forever => Self::Forever,
            Until::Time(time) => Self::Time(time),
            Until::After(duration) => Self::After(duration),
        }
    }
}
