//! `stepwell resume`: lets a parked run go on.

use std::fmt;

use serde::Serialize;
use stepwell::Registry;
use stepwell_core::RunId;
use stepwell_core::decide::Resume;

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::view::harmless;

#[derive(Serialize)]
struct ResumeView<'a> {
    run: &'a RunId,
    by: &'a str,
    why: Option<&'a str>,
}

pub(super) async fn run(cli: &Cli, args: &args::Resume, out: Output) -> Result<Exit, CliError> {
    let args::Resume { run, act } = args;
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    client.resume(run, &Resume { by: act.by.clone(), why: act.why.clone() }).await?;
    out.data(&ResumeView { run, by: &act.by, why: act.why.as_deref() })?;
    Ok(Exit::Done)
}

impl fmt::Display for ResumeView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} goes on; its history says that {} has resumed it", self.run, harmless(self.by))
    }
}
