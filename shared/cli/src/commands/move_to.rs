//! `stepwell move`: moves a parked or failed run to another step.

use std::fmt;

use stepwell_core::Json;
use stepwell_engine::MoveTo;
use stepwell_http::view::MovedView;
use stepwell_samples::Outside;

use super::stated::explained;
use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::program::command;
use crate::view::{Here, harmless};
use crate::workflows::Workflows;

pub(super) async fn run(cli: &Cli, args: &args::MoveTo, workflows: &Workflows, out: Output) -> Result<Exit, CliError> {
    let args::MoveTo { stated: args::Stated { run, revision }, to, because: args::Because { why, by } } = args;
    // The workflows are asked which steps they know; nothing outside is called.
    let registry = workflows.registry(&Outside::default())?;
    let backend = Backend::open_existing(cli).await?;
    let (client, flag) = (backend.client(registry), backend.flag());
    let act = MoveTo { at: *revision, to: step(to)?, by: by.clone(), why: why.clone() };
    let revision = client.move_to(run, act.clone()).await.map_err(|error| explained(error, run, flag))?;
    out.data(&Here { view: MovedView::of(run.clone(), act, revision), flag })?;
    Ok(Exit::Done)
}

/// JSON, or a step's name as it reads: a shell takes quotes away.
fn step(given: &str) -> Result<Json, CliError> {
    Json::from_text(given.trim().to_owned()).or_else(|problem| {
        let is_name = given.chars().all(|letter| letter.is_alphanumeric() || letter == '_') && !given.is_empty();
        let not_json = || CliError::NotJson { what: "the step".into(), problem: problem.to_string() };
        if is_name { Json::of(&given).map_err(|_| not_json()) } else { Err(not_json()) }
    })
}

impl fmt::Display for Here<MovedView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MovedView { run, revision, step, .. } = &self.view;
        let resume = command(format_args!("resume{} {run}", self.flag));
        let step = harmless(step);
        write!(f, "run {run} is at revision {revision}, at step {step}, and stays parked: {resume} lets it go on there")
    }
}
