//! `stepwell resume`: lets a parked run go on.

use std::fmt;

use stepwell::Registry;
use stepwell_core::decide::Resume;
use stepwell_http::view::{AllowedView, ResumeView};

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::view::{Text, harmless, unit};

pub(super) async fn run(cli: &Cli, args: &args::Resume, out: Output) -> Result<Exit, CliError> {
    let args::Resume { run, act } = args;
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    let before = client.get(run).await?;
    client.resume(run, &Resume { by: act.by.clone(), why: act.why.clone() }).await?;
    // It is written: whether the run can be looked at now changes nothing.
    let after = client.get(run).await.ok();
    let allowed = AllowedView::of(&before, after.as_ref());
    out.data(&Text(&ResumeView { run: run.clone(), by: act.by.clone(), why: act.why.clone(), allowed }))?;
    Ok(Exit::Done)
}

impl fmt::Display for Text<'_, ResumeView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ResumeView { run, by, why: _, allowed } = self.0;
        write!(f, "run {run} goes on; its history says that {} has resumed it", harmless(by))?;
        let Some(AllowedView { of, counter, added, limit }) = allowed else { return Ok(()) };
        let counter = unit(counter, *added);
        write!(f, "; {added} more {} are allowed, {limit} in all in the {of}", harmless(counter))
    }
}
