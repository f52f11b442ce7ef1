//! `stepwell start`: starts a run, and waits for its end if asked to.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use stepwell_core::{Checkpoint, Phase, RunId, Status, WorkflowName};
use stepwell_engine::{Client, StartRequest, Started};

use crate::args::{self, Cli};
use crate::backend::{self, Backend};
use crate::errors::{CliError, Exit};
use crate::input;
use crate::output::{Output, say};
use crate::view::Value;
use crate::workflows::Workflows;

/// Between two looks at a run that somebody waits for.
const LOOK: Duration = Duration::from_millis(100);

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
    let input = input::read("the input", input)?;
    let registry = workflows.registry(&outside.outside())?;
    let client = Backend::open(&backend::folder(cli))?.client(registry);
    let request = StartRequest { workflow: workflow.clone(), input, key: key.clone() };
    let Started { run, new } = client.start(request).await?;
    if !new {
        say(format_args!("run {run} was started before, with this key and input"));
    }
    if !wait {
        out.data(&StartedView { run, new, workflow, end: None })?;
        say("`stepwell worker` moves it, `stepwell show` tells how it stands");
        return Ok(Exit::Done);
    }
    let end = EndView::wait(&client, &run).await?;
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
        say(format_args!("run {run} is {}: {why}", end.status));
    }
    out.data(&StartedView { run, new, workflow, end: Some(end) })?;
    Ok(exit)
}

impl EndView {
    /// Waits until nothing moves the run any more: it has ended, or a person has to look.
    async fn wait(client: &Client, run: &RunId) -> Result<Self, CliError> {
        say(format_args!("waiting for the end of run {run}; a worker has to be there: `stepwell worker`"));
        loop {
            let stands = client.get(run).await?;
            if let Some(end) = Self::of(client, &stands).await {
                return Ok(end);
            }
            tokio::time::sleep(LOOK).await;
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
            Some(EndView { output: Some(lost), .. }) => lost.fmt(f),
            None | Some(EndView { output: None, .. }) => self.run.fmt(f),
        }
    }
}
