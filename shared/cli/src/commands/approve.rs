//! `stepwell approve` and `stepwell reject`: a person answers an approval.

use std::fmt;

use stepwell::Registry;
use stepwell_core::Reviewer;
use stepwell_core::decide::Approve;
use stepwell_engine::ApproveAnswer;
use stepwell_http::view::{AnsweredView, StandsView};

use crate::args::{self, Cli};
use crate::backend::{Backend, now};
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::view::{Text, harmless};

pub(super) async fn approve(cli: &Cli, args: &args::Approve, out: Output) -> Result<Exit, CliError> {
    answer(cli, &args.answer, true, args.why.clone(), out).await
}

pub(super) async fn reject(cli: &Cli, args: &args::Reject, out: Output) -> Result<Exit, CliError> {
    answer(cli, &args.answer, false, Some(args.why.clone()), out).await
}

async fn answer(
    cli: &Cli,
    args: &args::Answer,
    allows: bool,
    why: Option<String>,
    out: Output,
) -> Result<Exit, CliError> {
    let args::Answer { run, approval, by, roles } = args;
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    let reviewer = Reviewer { name: by.clone(), roles: roles.clone() };
    let act = Approve { approval: approval.clone(), reviewer, allows, why };
    let ApproveAnswer { new } = client.approve(run, &act).await?;
    // It is written: whether the run can be looked at now changes nothing.
    let after = client.get(run).await.ok();
    out.data(&Text(&AnsweredView::of(run.clone(), act, new, after.as_ref(), now())))?;
    Ok(Exit::Done)
}

impl fmt::Display for Text<'_, AnsweredView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AnsweredView { run, approval, new, answer, by, stands, .. } = self.0;
        let by = harmless(by);
        if *new {
            write!(f, "approval {approval} of run {run} is {answer} by {by}")?;
        } else {
            write!(f, "approval {approval} of run {run} had been {answer} by {by} before; nothing was changed")?;
        }
        match stands {
            Some(StandsView { status: "open", quorum, allowed }) => {
                write!(f, "; {allowed} of {quorum} have allowed it, so it stays open")
            }
            Some(StandsView { status, .. }) if status == answer => write!(f, "; the run goes on with that"),
            Some(StandsView { status, .. }) => write!(f, "; it is {status} now"),
            None => Ok(()),
        }
    }
}
