//! Logs, on stderr: events with fields, never a payload. `STEPWELL_LOG` says which.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::args::{Cli, Command};

/// Starts them. A worker and the outside tell what they do; the other commands only what went wrong.
pub(crate) fn start(cli: &Cli) {
    let usual = match cli.command {
        Command::Worker(_) | Command::Outside(_) => "info",
        // It says what it does in words; that it is ready is for programs.
        Command::Dev(_) => "warn,stepwell_cli=info",
        // What goes wrong does so on purpose.
        Command::CrashTest(_) => "off",
        Command::Demo(_)
        | Command::Start(_)
        | Command::List(_)
        | Command::Show(_)
        | Command::Signal(_)
        | Command::Cancel(_)
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Retry(_)
        | Command::Edit(_)
        | Command::Move(_)
        | Command::Discard(_)
        | Command::State(_)
        | Command::Link(_)
        | Command::Approvals(_)
        | Command::Approve(_)
        | Command::Reject(_)
        | Command::LetStand(_)
        | Command::DeadLetters(_)
        | Command::Doctor
        | Command::Unknowns(_)
        | Command::Resolve(_)
        | Command::Audit(_)
        | Command::Workflows => "warn",
    };
    // Credentials are looked for in many places, and each that has none says so at length. `doctor` says it in one line.
    let usual = format!("{usual},aws_config=error");
    let filter = EnvFilter::try_from_env("STEPWELL_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let colours = anstream::AutoStream::choice(&io::stderr()) != anstream::ColorChoice::Never;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(colours);
    // Where a line cannot be written (its disk is full), saying so on the same stderr would panic, in the middle of a turn.
    let logs = logs.log_internal_errors(false);
    if cli.json {
        logs.json().init();
    } else {
        logs.init();
    }
}
