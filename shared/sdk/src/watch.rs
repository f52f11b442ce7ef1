//! Seeing what goes to the outside, at the moment when it goes: for tests of workflows.

use std::sync::Arc;

use async_trait::async_trait;
use stepwell_core::{Budget, Class, Digest, EffectKey, Json, SignalName, WorkflowName};

use crate::host::{HostedWorkflow, PlaceText, PrepareError, PreparedStep, StepNext};
use crate::known::Known;
use crate::{Cx, EdgeError, Registry, StepError, StepPolicy};

/// Sees what effects send to the outside. See [`Registry::watched`].
pub trait Watch: Send + Sync {
    /// An author's closure is called next. What this gives back is dropped once what that closure began has ended, or was dropped.
    fn goes_out(&self, outgoing: &Outgoing<'_>) -> Option<Box<dyn Send>>;

    /// What that closure began has ended by itself, with an answer or an error. What is dropped without this was cut off: its worker
    /// died, or its time was up, and how far it had come nobody knows.
    fn ended(&self, _outgoing: &Outgoing<'_>) {}
}

/// What goes to the outside.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// A call, or a question about an earlier one.
    pub what: Goes,
    /// The effect's name.
    pub name: &'a str,
    /// Its key.
    pub key: &'a EffectKey,
    /// Its class.
    pub class: Class,
    /// Digest of its parameters, where the author gave them.
    pub parameters: Option<Digest>,
}

/// Why something goes to the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    /// To act, or to read.
    Call,
    /// To ask whether an earlier call has happened.
    Ask,
}

impl Registry {
    /// The same workflows; this sees what their effects send to the outside. For tests: a registry without one pays nothing for it.
    #[must_use]
    pub fn watched(mut self, watch: &Arc<dyn Watch>) -> Self {
        for workflow in self.workflows.values_mut() {
            *workflow = Arc::new(Watched { workflow: Arc::clone(workflow), watch: Arc::clone(watch) });
        }
        self
    }
}

impl Known<'_> {
    /// Tells whoever watches, if anybody does.
    pub(crate) fn goes_out(&self, what: Goes) -> Option<Box<dyn Send>> {
        self.cx.watch.get()?.goes_out(&self.outgoing(what))
    }

    /// What was told of is over. `ended`: by itself, and not because its time was up.
    pub(crate) fn over(&self, what: Goes, watched: Option<Box<dyn Send>>, ended: bool) {
        if let Some(watch) = self.cx.watch.get().filter(|_| ended) {
            watch.ended(&self.outgoing(what));
        }
        drop(watched);
    }

    fn outgoing(&self, what: Goes) -> Outgoing<'_> {
        let Self { name, key, class, parameters, .. } = *self;
        Outgoing { what, name, key, class, parameters }
    }
}

struct Watched {
    workflow: Arc<dyn HostedWorkflow>,
    watch: Arc<dyn Watch>,
}

impl HostedWorkflow for Watched {
    fn name(&self) -> &WorkflowName {
        self.workflow.name()
    }

    fn version(&self) -> u32 {
        self.workflow.version()
    }

    fn max_steps(&self) -> u64 {
        self.workflow.max_steps()
    }

    fn keeps_states(&self) -> bool {
        self.workflow.keeps_states()
    }

    fn budget(&self) -> &Budget {
        self.workflow.budget()
    }

    fn check_input(&self, input: &Json) -> Result<(), EdgeError> {
        self.workflow.check_input(input)
    }

    fn check_signal(&self, name: &SignalName, payload: &Json) -> Result<(), EdgeError> {
        self.workflow.check_signal(name, payload)
    }

    fn prepare(&self, place: PlaceText) -> Result<Box<dyn PreparedStep>, PrepareError> {
        let step = self.workflow.prepare(place)?;
        Ok(Box::new(WatchedStep { step, watch: Arc::clone(&self.watch) }))
    }
}

struct WatchedStep {
    step: Box<dyn PreparedStep>,
    watch: Arc<dyn Watch>,
}

#[async_trait]
impl PreparedStep for WatchedStep {
    fn step(&self) -> &str {
        self.step.step()
    }

    fn policy(&self) -> &StepPolicy {
        self.step.policy()
    }

    fn note(&self) -> Option<&str> {
        self.step.note()
    }

    async fn run(self: Box<Self>, cx: Arc<Cx>) -> Result<StepNext, StepError> {
        let Self { step, watch } = *self;
        cx.watch.get_or_init(|| watch);
        step.run(cx).await
    }
}
