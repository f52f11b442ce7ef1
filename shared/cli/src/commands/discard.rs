//! `stepwell discard`: gives a parked run up.

use std::fmt;

use stepwell::Registry;
use stepwell_core::decide::Repair;
use stepwell_http::view::DiscardedView;

use super::stated::explained;
use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::view::{Text, harmless};

pub(super) async fn run(cli: &Cli, args: &args::Discard, out: Output) -> Result<Exit, CliError> {
    let args::Discard { stated: args::Stated { run, revision }, because: args::Because { why, by } } = args;
    let backend = Backend::open_existing(cli).await?;
    let client = backend.client(Registry::new());
    let act = Repair { at: *revision, by: by.clone(), why: why.clone() };
    client.discard(run, &act).await.map_err(|error| explained(error, run, backend.flag()))?;
    out.data(&Text(&DiscardedView::of(run.clone(), act)))?;
    Ok(Exit::Done)
}

impl fmt::Display for Text<'_, DiscardedView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DiscardedView { run, by, .. } = self.0;
        write!(f, "run {run} is given up by {}: it has failed, and what it has done stands", harmless(by))
    }
}
