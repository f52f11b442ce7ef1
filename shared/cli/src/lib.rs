//! # stepwell-cli: the program `stepwell`
//!
//! **What lives here:** the one binary: its arguments (`args`), where runs are (`backend`: a folder, or with the feature
//! `aws` a stack on AWS), its commands (`commands`, a file each), what they show to people (`view`), the only place that
//! prints (`output`), and what each exit code means (`errors`).
//!
//! **What must not live here:** anything about how a run moves (that is the engine's), anything a workflow author needs, and
//! the JSON of what both this program and the API show (that is `stepwell_http::view`).
//! A command takes arguments, asks `stepwell_engine::Client` or starts a `Worker`, and shows the answer.
//!
//! Data goes to stdout, words for people to stderr. With `--json`, stdout is exactly one JSON object or array, an error
//! included: `{"error": {"code", "message", "remedy"}}`.

mod args;
mod backend;
mod commands;
mod errors;
mod input;
mod links;
mod logs;
mod output;
mod program;
mod stop;
mod view;
mod workflows;

use std::process::ExitCode;

use stepwell::Registry;

use crate::args::Cli;
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::workflows::Workflows;

/// The program `stepwell`, with the sample workflows: takes the arguments of this process, and says how it has ended.
pub fn main() -> ExitCode {
    start(&Workflows::Samples)
}

/// The same program with your workflows: the whole `main` of a project of one's own.
///
/// ```no_run
/// # fn registry() -> stepwell::Registry { stepwell::Registry::new() }
/// fn main() -> std::process::ExitCode {
///     stepwell_cli::main_with(registry())
/// }
/// ```
pub fn main_with(registry: Registry) -> ExitCode {
    start(&Workflows::Own(registry))
}

fn start(workflows: &Workflows) -> ExitCode {
    let cli = match Cli::parse_for(workflows) {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    let out = Output::new(cli.json);
    logs::start(&cli);
    let ended = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let ended = runtime.block_on(commands::run(&cli, workflows, &out));
            // A thread may still wait for a line from a terminal; nobody waits for that thread.
            runtime.shutdown_background();
            ended
        }
        Err(source) => Err(CliError::System { doing: "start the runtime".into(), source }),
    };
    let exit = ended.unwrap_or_else(|error| {
        out.error(&error);
        error.exit()
    });
    Exit::into(exit)
}
