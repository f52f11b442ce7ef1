//! `stepwell workflows`: what this program can run.

use std::fmt;

use serde::Serialize;
use stepwell_core::WorkflowName;
use stepwell_samples::Outside;

use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::workflows::Workflows;

#[derive(Serialize)]
#[serde(transparent)]
struct WorkflowsView(Vec<WorkflowView>);

#[derive(Serialize)]
struct WorkflowView {
    name: WorkflowName,
    version: u32,
    max_steps: u64,
}

pub(super) fn run(workflows: &Workflows, out: Output) -> Result<Exit, CliError> {
    let registry = workflows.registry(&Outside::default())?;
    let hosted = registry.names().filter_map(|name| registry.get(name));
    let view = hosted.map(|workflow| WorkflowView {
        name: workflow.name().clone(),
        version: workflow.version(),
        max_steps: workflow.max_steps(),
    });
    out.data(&WorkflowsView(view.collect()))?;
    Ok(Exit::Done)
}

impl fmt::Display for WorkflowsView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, WorkflowView { name, version, max_steps }) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "\n" };
            write!(f, "{separator}{name:<20} version {version}, at most {max_steps} steps")?;
        }
        Ok(())
    }
}
