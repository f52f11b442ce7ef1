//! `stepwell approvals`: what somebody has to decide, in one run or in all that have not ended.

use stepwell::Registry;
use stepwell_http::view::ApprovalView;

use super::look::{look, say_more};
use crate::args::{self, Cli};
use crate::backend::{Backend, now};
use crate::errors::{CliError, Exit};
use crate::output::{Output, say};
use crate::program::command;
use crate::view::ShownApprovals;

pub(super) async fn run(cli: &Cli, args: &args::Approvals, out: Output) -> Result<Exit, CliError> {
    let backend = Backend::open_existing(cli).await?;
    let (client, now, reviewer) = (backend.client(Registry::new()), now(), args.reviewer());
    let (mut approvals, more) = look::<ApprovalView>(&client, args.run.as_ref(), args.limit, now).await?;
    approvals.retain(|approval| args.all || approval.is_open());
    approvals.retain(|approval| reviewer.as_ref().is_none_or(|reviewer| approval.may_decide(reviewer, now)));
    for approval in &mut approvals {
        approval.load(&client).await;
    }
    if approvals.is_empty() && !out.is_json() {
        let whose = if reviewer.is_some() { " that they may decide" } else { "" };
        let which = match (args.all, &args.run) {
            (true, None) => "no approval of a run that has not ended",
            (true, Some(_)) => "no approval",
            (false, _) => "no approval is open",
        };
        say(format_args!("{which}{whose}"));
    } else {
        out.data(&ShownApprovals { approvals, now, flag: backend.flag() })?;
    }
    if args.all && args.run.is_none() && !out.is_json() {
        let one = command(format_args!("approvals{} RUN --all", backend.flag()));
        say(format_args!("of runs that have not ended; {one} shows those of one that has"));
    }
    if more {
        say_more(args.limit);
    }
    Ok(Exit::Done)
}
