//! The arguments of `stepwell dev`.

use std::fmt::Write as _;

use clap::Args;
use stepwell_samples::ready::{self, Ready};

use super::who;

#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// Port on 127.0.0.1; 0 takes any free one
    #[arg(long, value_name = "PORT", default_value_t = 4700)]
    pub(crate) port: u16,
    /// Who everybody on this machine is taken for
    #[arg(long = "as", value_name = "NAME", default_value = "you", value_parser = who)]
    pub(crate) name: String,
    /// A role that they have; give it again for each role [default: admin, and the reviewers of the demo]
    #[arg(long = "role", value_name = "ROLE", value_parser = who)]
    pub(crate) roles: Vec<String>,
    /// Start no run by itself
    #[arg(long)]
    pub(crate) no_demo: bool,
    /// Stop when stdin is closed, so that it does not outlive who started it
    #[arg(long, hide = true)]
    pub(crate) stop_with_stdin: bool,
}

/// Below the help: what to start, to see a run stand so.
pub(crate) fn inputs() -> String {
    let mut text =
        "Inputs to try, in the console at /start or with `start WORKFLOW --input …` (* are started by themselves):\n"
            .to_owned();
    for Ready { workflow, input, leads_to, then, is_shown } in ready::INPUTS {
        let mark = if is_shown { '*' } else { ' ' };
        // A text is written to always.
        let _ = write!(text, "{mark} {workflow} '{input}'\n    {leads_to};\n    {then}\n");
    }
    text
}
