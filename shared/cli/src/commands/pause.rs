//! `stepwell pause`: asks a run to stand still.

use std::fmt;

use stepwell::Registry;
use stepwell_core::Phase;
use stepwell_core::decide::Pause;
use stepwell_http::view::PauseView;

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::program::command;
use crate::view::{Here, harmless};

pub(super) async fn run(cli: &Cli, args: &args::Pause, out: Output) -> Result<Exit, CliError> {
    let args::Pause { run, act } = args;
    let backend = Backend::open_existing(cli).await?;
    let client = backend.client(Registry::new());
    let act = Pause { by: act.by.clone(), why: act.why.clone() };
    let answer = client.pause(run, &act).await?;
    out.data(&Here { view: PauseView::of(run.clone(), answer, act.by, act.why), flag: backend.flag() })?;
    Ok(Exit::Done)
}

impl fmt::Display for Here<PauseView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PauseView { run, new, by, status, .. } = &self.view;
        let resume = command(format_args!("resume{} {run}", self.flag));
        match (new, status) {
            (false, _) => write!(f, "run {run} stands still already; nothing was changed: {resume} lets it go on"),
            (true, Phase::Parked) => {
                write!(f, "run {run} stands still, asked by {}: {resume} lets it go on", harmless(by))
            }
            (true, _) => write!(f, "run {run} stands still when its step has ended, asked by {}", harmless(by)),
        }
    }
}
