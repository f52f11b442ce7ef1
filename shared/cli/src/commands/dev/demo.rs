//! The runs that are there from the start: one that waits for an approval, and one for each other state that a person meets.

use serde::Serialize;
use stepwell_core::{Json, RunId, WorkflowName};
use stepwell_engine::{Client, ClientError, StartRequest};
use stepwell_samples::ready::Ready;

use crate::errors::CliError;

/// A run of the demo, and what it is there for.
#[derive(Debug, Serialize)]
pub(super) struct DemoRun {
    pub(super) run: RunId,
    pub(super) workflow: &'static str,
    pub(super) leads_to: &'static str,
    pub(super) then: &'static str,
}

/// Starts those that are shown. Each has its input for a key: the next time it is the same run, whatever has become of it.
pub(super) async fn start(client: &Client, inputs: &'static [Ready]) -> Result<Vec<DemoRun>, CliError> {
    let mut runs = Vec::new();
    for Ready { workflow, input, leads_to, then, .. } in inputs.iter().filter(|ready| ready.is_shown) {
        let name = WorkflowName::new(*workflow).map_err(ClientError::from)?;
        let json = Json::from_text((*input).to_owned()).map_err(|error| ClientError::Value(error.to_string()))?;
        let request = StartRequest { workflow: name, input: json, key: Some(format!("dev: {input}")) };
        let run = client.start(request).await?.run;
        runs.push(DemoRun { run, workflow, leads_to, then });
    }
    Ok(runs)
}
