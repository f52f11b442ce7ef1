//! `stepwell cancel`: asks for the end of a run.

use std::fmt;

use stepwell::Registry;
use stepwell_engine::CancelAnswer;
use stepwell_http::view::{CancelAnswerView, CancelView};

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::view::Text;

pub(super) async fn run(cli: &Cli, args: &args::Cancel, out: Output) -> Result<Exit, CliError> {
    let args::Cancel { run, act } = args;
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    let CancelAnswer { request, new } = client.cancel(run, &act.by, act.why.clone()).await?;
    out.data(&Text(&CancelAnswerView { run: run.clone(), new, request: (&request).into() }))?;
    Ok(Exit::Done)
}

impl fmt::Display for Text<'_, CancelAnswerView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CancelAnswerView { run, new, request: CancelView { by, why, at } } = self.0;
        if *new {
            return write!(f, "run {run} is to end; a worker ends it before its next effect");
        }
        let why = why.as_deref().unwrap_or("no reason given");
        write!(f, "the end of run {run} had been asked for before, by {by} at {at}: {why}; that request stands")
    }
}
