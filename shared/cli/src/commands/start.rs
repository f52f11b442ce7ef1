//! `stepwell start`: starts a run, and waits for its end if asked to.

use std::fmt;

use serde::Serialize;
use stepwell_core::{Checkpoint, Phase, RunId, Status, WorkflowName};
use stepwell_engine::{Client, ClientError, StartRequest, Started};
use stepwell_http::view::Value;

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::input;
use crate::output::{Output, say};
use crate::program;
use crate::view::{Text, harmless};
use crate::workflows::Workflows;

#[derive(Serialize)]
struct StartedView<'a> {
    run: RunId,
    new: bool,
    workflow: &'a WorkflowName,
    #[serde(flatten)]
    end: Option<EndView>,
}

/// Where a run has come to rest.
#[derive(Serialize)]
struct EndView {
    status: Phase,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

pub(super) async fn run(cli: &Cli, args: &args::Start, workflows: &Workflows, out: Output) -> Result<Exit, CliError> {
    let args::Start { workflow, input, key, wait, outside } = args;
    let value = input::read("the input", input.as_deref().unwrap_or("null"))?;
    let registry = workflows.registry(&outside.outside())?;
    let backend = Backend::open(cli).await?;
    let client = backend.client(registry);
    let request = StartRequest { workflow: workflow.clone(), input: value, key: key.clone() };
    let Started { run, new } = client.start(request).await.map_err(|error| match error {
        ClientError::Misfit(_) if input.is_none() => CliError::NoInput(error),
        _ => error.into(),
    })?;
    if !new {
        say(format_args!("run {run} was started before, with this key and input"));
    }
    if !wait {
        // One that was just started needs no look.
        let phase = if new { Phase::Created } else { client.get(&run).await?.progress.status.phase() };
        out.data(&StartedView { run, new, workflow, end: None })?;
        say(hint(&backend, phase));
        return Ok(Exit::Done);
    }
    let end = EndView::wait(&backend, &client, &run).await?;
    let exit = match end.status {
        Phase::Completed => Exit::Done,
        Phase::Parked => Exit::CallAPerson,
        Phase::Created
        | Phase::Running
        | Phase::Waiting
        | Phase::Retrying
        | Phase::Cancelling
        | Phase::Failed
        | Phase::Cancelled => Exit::EndedBadly,
    };
    if let (Some(why), false) = (&end.why, out.is_json()) {
        say(format_args!("run {run} is {}: {}", end.status, harmless(why)));
    }
    out.data(&StartedView { run, new, workflow, end: Some(end) })?;
    Ok(exit)
}

/// What can be done with a run that stands so.
fn hint(backend: &Backend, phase: Phase) -> String {
    let (program, flag) = (program::name(), backend.flag());
    match phase {
        Phase::Created | Phase::Running | Phase::Waiting | Phase::Retrying | Phase::Cancelling => {
            format!("{} moves it, `{program} show{flag}` tells how it stands", backend.mover())
        }
        Phase::Parked => {
            format!("it is parked: `{program} show{flag}` tells why, and what lets it go on")
        }
        Phase::Completed | Phase::Failed | Phase::Cancelled => {
            format!("it has ended, {phase}: `{program} show{flag}` tells how")
        }
    }
}

impl EndView {
    /// Waits until nothing moves the run any more: it has ended, or a person has to look.
    async fn wait(backend: &Backend, client: &Client, run: &RunId) -> Result<Self, CliError> {
        say(format_args!("waiting for the end of run {run}; it is moved by {}", backend.mover()));
        loop {
            let stands = client.get(run).await?;
            if let Some(end) = Self::of(client, &stands).await {
                return Ok(end);
            }
            tokio::time::sleep(backend.look()).await;
        }
    }

    async fn of(client: &Client, stands: &Checkpoint) -> Option<Self> {
        let status = &stands.progress.status;
        let (output, why) = match status {
            Status::Created | Status::Running | Status::Waiting(_) | Status::Retrying { .. } => return None,
            Status::Completed { output, .. } => (Some(Value::load(client, output).await), None),
            Status::Failed { failure, .. } => (None, Some(failure.to_string())),
            Status::Parked { reason, .. } => (None, Some(reason.to_string())),
            Status::Cancelled { .. } => {
                let cancel = stands.cancel.as_ref();
                let by = cancel.map_or("somebody", |cancel| &cancel.by);
                let why = cancel.and_then(|cancel| cancel.why.as_deref()).unwrap_or("no reason given");
                (None, Some(format!("{by} asked for it: {why}")))
            }
        };
        Some(Self { status: status.phase(), output, why })
    }
}

impl fmt::Display for StartedView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end {
            Some(EndView { output: Some(Value::Here(output)), .. }) => f.write_str(output.text()),
            Some(EndView { output: Some(lost), .. }) => Text(lost).fmt(f),
            None | Some(EndView { output: None, .. }) => self.run.fmt(f),
        }
    }
}
