//! The commands, a file each.

mod approvals;
mod approve;
mod audit;
mod cancel;
mod crash_test;
mod dead_letters;
mod demo;
mod dev;
mod discard;
mod doctor;
mod edit;
mod let_stand;
mod link;
mod list;
mod look;
mod move_to;
mod outside;
mod pause;
mod resolve;
mod resume;
mod retry;
mod show;
mod signal;
mod start;
mod state;
mod stated;
mod unknowns;
mod worker;
mod workflows;

use crate::args::{Cli, Command};
use crate::backend;
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::workflows::Workflows;

/// Does what was asked for.
pub(crate) async fn run(cli: &Cli, workflows: &Workflows, out: &Output) -> Result<Exit, CliError> {
    backend::check(cli)?;
    match &cli.command {
        Command::Demo(_) if cli.aws => Err(CliError::OnlyHere("demo")),
        Command::Dev(_) if cli.aws => Err(CliError::OnlyHere("dev")),
        Command::Outside(_) if cli.aws => Err(CliError::OnlyHere("outside")),
        Command::CrashTest(_) if cli.aws => Err(CliError::OnlyHere("crash-test")),
        Command::Demo(_) if !workflows.are_samples() => Err(CliError::NotHere("demo")),
        Command::Outside(_) if !workflows.are_samples() => Err(CliError::NotHere("outside")),
        Command::Demo(args) => demo::run(cli, args, *out).await,
        Command::Dev(args) => dev::run(cli, args, workflows, *out).await,
        Command::Worker(args) => worker::run(cli, args, workflows, *out).await,
        Command::Start(args) => start::run(cli, args, workflows, *out).await,
        Command::List(args) => list::run(cli, args, *out).await,
        Command::Show(args) => show::run(cli, args, workflows, *out).await,
        Command::Signal(args) => signal::run(cli, args, workflows, *out).await,
        Command::Cancel(args) => cancel::run(cli, args, *out).await,
        Command::Pause(args) => pause::run(cli, args, *out).await,
        Command::Resume(args) => resume::run(cli, args, *out).await,
        Command::Retry(args) => retry::run(cli, args, *out).await,
        Command::Edit(args) => edit::run(cli, args, workflows, *out).await,
        Command::Move(args) => move_to::run(cli, args, workflows, *out).await,
        Command::Discard(args) => discard::run(cli, args, *out).await,
        Command::State(args) => state::run(cli, args, *out).await,
        Command::Link(args) => link::run(cli, args, *out).await,
        Command::Approvals(args) => approvals::run(cli, args, *out).await,
        Command::Approve(args) => approve::approve(cli, args, *out).await,
        Command::Reject(args) => approve::reject(cli, args, *out).await,
        Command::LetStand(args) => let_stand::run(cli, args, *out).await,
        Command::Unknowns(args) => unknowns::run(cli, args, *out).await,
        Command::Resolve(args) => resolve::run(cli, args, *out).await,
        Command::DeadLetters(args) => dead_letters::run(cli, args, *out).await,
        Command::Audit(args) => audit::run(cli, args, *out).await,
        Command::Doctor => doctor::run(cli, *out).await,
        Command::Workflows => workflows::run(workflows, *out),
        Command::CrashTest(args) => crash_test::run(args, workflows, *out).await,
        Command::Outside(args) => outside::run(args, *out).await,
    }
}
