//! `stepwell retry`: lets a failed run go on where it has failed.

use std::fmt;

use serde::Serialize;
use stepwell::Registry;
use stepwell_core::decide::Resume;
use stepwell_http::view::ResumeView;

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::view::harmless;

#[derive(Serialize)]
#[serde(transparent)]
struct Retried(ResumeView);

pub(super) async fn run(cli: &Cli, args: &args::Retry, out: Output) -> Result<Exit, CliError> {
    let args::Retry { run, act } = args;
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    let act = Resume { by: act.by.clone(), why: act.why.clone() };
    client.retry(run, &act).await?;
    out.data(&Retried(ResumeView { run: run.clone(), by: act.by, why: act.why, allowed: None }))?;
    Ok(Exit::Done)
}

impl fmt::Display for Retried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResumeView { run, by, why: _, allowed: _ } = &self.0;
        write!(f, "run {run} goes on where it has failed; its history says that {} has let it", harmless(by))
    }
}
