//! `stepwell state`: what a run knew after a revision, and what that changed.

use std::fmt;

use stepwell::Registry;
use stepwell_http::view::StateView;

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::view::{Text, differences, harmless, write_tree};

pub(super) async fn run(cli: &Cli, args: &args::StateOf, out: Output) -> Result<Exit, CliError> {
    let args::StateOf { run, at } = args;
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    let stands = client.get(run).await?;
    let state = client.state_of(&stands, at.unwrap_or(stands.progress.revision)).await?;
    out.data(&Text(&StateView::of(run.clone(), state)))?;
    Ok(Exit::Done)
}

impl fmt::Display for Text<'_, StateView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StateView { run, revision, step, before, after } = self.0;
        write!(f, "run {run} after revision {revision}, step {}", harmless(step))?;
        write_tree(f, after)?;
        match before {
            None => write!(f, "\nwhat it knew before was not kept"),
            Some(before) => differences(f, before, after),
        }
    }
}
