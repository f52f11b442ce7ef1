//! `stepwell cancel`: asks for the end of a run.

use std::fmt;

use serde::Serialize;
use stepwell::Registry;
use stepwell_core::{CancelRequest, RunId};
use stepwell_engine::CancelAnswer;

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::view::At;

#[derive(Serialize)]
struct CancelView<'a> {
    run: &'a RunId,
    new: bool,
    by: String,
    why: Option<String>,
    at: At,
}

pub(super) async fn run(cli: &Cli, args: &args::Cancel, out: Output) -> Result<Exit, CliError> {
    let args::Cancel { run, act } = args;
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    let CancelAnswer { request, new } = client.cancel(run, &act.by, act.why.clone()).await?;
    let CancelRequest { by, why, at } = request;
    out.data(&CancelView { run, new, by, why, at: At(at) })?;
    Ok(Exit::Done)
}

impl fmt::Display for CancelView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, new, by, why, at } = self;
        if *new {
            return write!(f, "run {run} is to end; a worker ends it before its next effect");
        }
        let why = why.as_deref().unwrap_or("no reason given");
        write!(f, "the end of run {run} had been asked for before, by {by} at {at}: {why}; that request stands")
    }
}
