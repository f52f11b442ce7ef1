//! `stepwell doctor`: looks whether runs can be worked on here, and says what to mend.

use crate::args::Cli;
use crate::backend;
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::view::{FindingsView, Standing};

pub(super) async fn run(cli: &Cli, out: Output) -> Result<Exit, CliError> {
    let findings = FindingsView::from(backend::examine(cli).await?);
    out.data(&findings)?;
    Ok(match findings.status {
        Standing::Ok | Standing::Unknown | Standing::Warn => Exit::Done,
        Standing::Fail => Exit::CallAPerson,
    })
}
