//! `stepwell approve` and `stepwell reject`: a person answers an approval.

use std::fmt;

use serde::Serialize;
use stepwell::Registry;
use stepwell_core::decide::{Approve, ApproveRefused};
use stepwell_core::{ApprovalId, Phase, Reviewer, RunId};
use stepwell_engine::{ApproveAnswer, Client, ClientError};
use stepwell_http::view::{AnsweredView, ApprovalView, OfRun as _, StandsView};

use crate::args::{self, Cli};
use crate::backend::{Backend, now};
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::program::command;
use crate::view::{escalates, harmless};

#[derive(Serialize)]
struct ShownAnswer {
    #[serde(flatten)]
    answer: AnsweredView,
    /// How the run stands now, for people.
    #[serde(skip)]
    phase: Option<Phase>,
    /// What a command needs, to mean this place.
    #[serde(skip)]
    flag: &'static str,
}

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
    let backend = Backend::open_existing(cli).await?;
    let (client, flag) = (backend.client(Registry::new()), backend.flag());
    let reviewer = Reviewer { name: by.clone(), roles: roles.clone() };
    let act = Approve { approval: approval.clone(), reviewer, allows, why };
    let ApproveAnswer { new } = match client.approve(run, &act).await {
        Ok(answer) => answer,
        Err(error) => return Err(refused(error, &client, run, approval, flag).await),
    };
    // It is written: whether the run can be looked at now changes nothing.
    let after = client.get(run).await.ok();
    let phase = after.as_ref().map(|after| after.phase(now()));
    let answer = AnsweredView::of(run.clone(), act, new, after.as_ref(), now());
    out.data(&ShownAnswer { answer, phase, flag })?;
    Ok(Exit::Done)
}

/// Why an answer was not taken, and what to do then.
async fn refused(error: ClientError, client: &Client, run: &RunId, approval: &ApprovalId, flag: &str) -> CliError {
    let all = || command(format_args!("approvals{flag} {run} --all"));
    let hint = match &error {
        ClientError::Ended { .. } => Some(format!("{} shows what became of its approvals", all())),
        ClientError::NotTaken { why, .. } => match &**why {
            ApproveRefused::NoSuch(_) => Some(format!("{} shows those it keeps", all())),
            ApproveRefused::NoAuthority { .. } => later(client, run, approval).await,
            ApproveRefused::Ended(_)
            | ApproveRefused::Replaced { .. }
            | ApproveRefused::Expired { .. }
            | ApproveRefused::Decided { .. }
            | ApproveRefused::Illegal(_) => None,
        },
        // Not about the approval.
        _ => None,
    };
    match hint {
        Some(hint) => CliError::Refused { error, hint },
        None => error.into(),
    }
}

/// Who may decide later, too.
async fn later(client: &Client, run: &RunId, approval: &ApprovalId) -> Option<String> {
    let approvals = ApprovalView::of(&client.get(run).await.ok()?, now());
    let approval = approvals.iter().find(|known| known.id == *approval)?;
    escalates(approval, now()).map(|words| words.to_string())
}

impl fmt::Display for ShownAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answer: AnsweredView { run, approval, new, answer, by, stands, .. }, phase, flag } = self;
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
            Some(StandsView { status, .. }) if status != answer => write!(f, "; it is {status} now"),
            Some(_) => match phase {
                Some(Phase::Parked) => {
                    let show = command(format_args!("show{flag} {run}"));
                    write!(f, "; the run is parked, and finds this once it goes on: {show} tells what lets it")
                }
                Some(_) if *new => write!(f, "; the run goes on with that"),
                Some(_) | None => Ok(()),
            },
            None => Ok(()),
        }
    }
}
