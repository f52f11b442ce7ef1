//! `stepwell let-stand`: a person lets an effect stand that could not be taken back.

use std::fmt;

use stepwell::Registry;
use stepwell_core::decide::LetStand;
use stepwell_http::view::LetStandView;

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::view::{Text, harmless};

pub(super) async fn run(cli: &Cli, args: &args::LetStand, out: Output) -> Result<Exit, CliError> {
    let args::LetStand { run, why, by } = args;
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    let act = LetStand { by: by.clone(), why: why.clone() };
    client.let_stand(run, &act).await?;
    // It is written: whether the run can be looked at now changes nothing.
    let after = client.get(run).await.ok();
    out.data(&Text(&LetStandView::of(run.clone(), act, after.as_ref())))?;
    Ok(Exit::Done)
}

impl fmt::Display for Text<'_, LetStandView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LetStandView { run, effect, by, why: _ } = self.0;
        match effect {
            Some(effect) => write!(f, "effect {} of run {run}", harmless(&effect.name))?,
            None => write!(f, "what run {run} could not take back")?,
        }
        write!(f, " stands, says {}; the run goes on to its end", harmless(by))
    }
}
