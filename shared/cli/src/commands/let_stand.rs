//! `stepwell let-stand`: a person lets an effect stand that could not be taken back.

use std::fmt;

use serde::Serialize;
use stepwell::Registry;
use stepwell_core::RunId;
use stepwell_core::decide::LetStand;

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::view::harmless;

#[derive(Serialize)]
struct LetStandView<'a> {
    run: &'a RunId,
    by: &'a str,
    why: &'a str,
}

pub(super) async fn run(cli: &Cli, args: &args::LetStand, out: Output) -> Result<Exit, CliError> {
    let args::LetStand { run, why, by } = args;
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    client.let_stand(run, &LetStand { by: by.clone(), why: why.clone() }).await?;
    out.data(&LetStandView { run, by, why })?;
    Ok(Exit::Done)
}

impl fmt::Display for LetStandView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, by, .. } = self;
        write!(f, "what run {run} could not take back stands, says {}; the run goes on to its end", harmless(by))
    }
}
