//! `stepwell signal`: says something to a run.

use std::fmt;

use serde::Serialize;
use stepwell_core::{RunId, SignalId, SignalName};
use stepwell_engine::{SignalAnswer, SignalRequest};
use stepwell_samples::Outside;

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::input;
use crate::output::Output;
use crate::workflows::Workflows;

#[derive(Serialize)]
struct SignalView<'a> {
    run: &'a RunId,
    signal: &'a SignalName,
    id: SignalId,
    new: bool,
}

pub(super) async fn run(cli: &Cli, args: &args::Signal, workflows: &Workflows, out: Output) -> Result<Exit, CliError> {
    let args::Signal { run, name, payload, id } = args;
    let payload = input::read("the signal's payload", payload)?;
    // The workflows are asked what they accept; nothing outside is called.
    let registry = workflows.registry(&Outside::default())?;
    let client = Backend::open_existing(cli).await?.client(registry);
    let request = SignalRequest { run: run.clone(), name: name.clone(), payload, id: id.clone() };
    let SignalAnswer { id, new } = client.signal(request).await?;
    out.data(&SignalView { run, signal: name, id, new })?;
    Ok(Exit::Done)
}

impl fmt::Display for SignalView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, signal, id, new } = self;
        if *new {
            write!(f, "signal {signal} was delivered to run {run} as {id}")
        } else {
            write!(f, "signal {id} had been delivered to run {run} before; nothing was changed")
        }
    }
}
