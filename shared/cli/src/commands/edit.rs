//! `stepwell edit`: changes what a parked or failed run knows.

use std::fmt;

use stepwell_engine::Edit;
use stepwell_http::view::EditedView;
use stepwell_samples::Outside;

use super::stated::explained;
use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::input;
use crate::output::Output;
use crate::program::command;
use crate::view::{Here, Text};
use crate::workflows::Workflows;

pub(super) async fn run(cli: &Cli, args: &args::Edit, workflows: &Workflows, out: Output) -> Result<Exit, CliError> {
    let args::Edit { stated: args::Stated { run, revision }, patch, because: args::Because { why, by } } = args;
    let patch = input::read("the patch", patch)?;
    // The workflows are asked what they can read; nothing outside is called.
    let registry = workflows.registry(&Outside::default())?;
    let backend = Backend::open_existing(cli).await?;
    let (client, flag) = (backend.client(registry), backend.flag());
    let act = Edit { at: *revision, patch, by: by.clone(), why: why.clone() };
    let edited = client.edit(run, act).await.map_err(|error| explained(error, run, flag))?;
    out.data(&Here { view: EditedView::of(run.clone(), edited, by.clone(), why.clone()), flag })?;
    Ok(Exit::Done)
}

impl fmt::Display for Here<EditedView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EditedView { run, revision, value, .. } = &self.view;
        let resume = command(format_args!("resume{} {run}", self.flag));
        write!(
            f,
            "run {run} is at revision {revision} and stays parked: {resume} lets it go on\nit knows now: {}",
            Text(value)
        )
    }
}
