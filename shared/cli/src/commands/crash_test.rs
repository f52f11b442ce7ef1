//! `stepwell crash-test`: what a workflow does outside when its worker dies, at each call that it makes.

use std::time::Duration;

use stepwell_samples::outside::{World, WorldOptions};
use stepwell_testing::{CrashTestError, WorldError, crash_registered};
use tokio::runtime::Handle;

use crate::args;
use crate::errors::{CliError, Exit};
use crate::input;
use crate::output::Output;
use crate::workflows::Workflows;

/// The outside of the samples is beside us: one that has not answered by then never will.
const PATIENCE: Duration = Duration::from_millis(250);

pub(super) async fn run(args: &args::CrashTest, workflows: &Workflows, out: Output) -> Result<Exit, CliError> {
    let args::CrashTest { workflow, input, signals, approve, ignored, at_most } = args;
    if !workflows.are_samples() {
        return Err(CliError::CrashesOwn);
    }
    let value = input::read("the input", input.as_deref().unwrap_or("null"))?;
    let runtime = Handle::current();
    // A world of its own for each: what one has delivered is unknown in the next.
    let make = move || {
        let outside = runtime.block_on(World::start(WorldOptions::default())).map_err(|error| error.to_string())?;
        let registry = stepwell_samples::registry(&outside.addresses()).map_err(|error| error.to_string())?;
        Ok((registry, outside))
    };
    let mut test = crash_registered(workflow.clone(), make).input(value).patience(PATIENCE).at_most(*at_most);
    for (name, payload) in signals {
        test = test.signal_named(name.clone(), input::read(&format!("signal {name}"), payload)?);
    }
    for pointer in ignored {
        test = test.ignoring(pointer);
    }
    if *approve {
        test = test.approving();
    }
    let ran = tokio::task::spawn_blocking(move || test.run()).await;
    let report = ran.map_err(|error| CliError::System { doing: "run the crash test".into(), source: error.into() })?;
    let report = report.map_err(|error| match error {
        CrashTestError::World(WorldError::Client(error @ stepwell_engine::ClientError::Misfit(_)))
            if input.is_none() =>
        {
            CliError::NoInput(error)
        }
        CrashTestError::World(WorldError::Client(error)) => error.into(),
        error => CliError::CrashTest(error),
    })?;
    out.data(&report)?;
    Ok(if report.surprises.is_empty() { Exit::Done } else { Exit::EndedBadly })
}
