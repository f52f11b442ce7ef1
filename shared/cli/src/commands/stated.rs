//! What to do when a repair is refused: the commands that show how the run stands, or settle what hinders it.

use stepwell_core::RunId;
use stepwell_core::decide::RepairRefused;
use stepwell_engine::ClientError;

use crate::errors::CliError;
use crate::program::command;

/// The error, with the next command where one helps.
pub(super) fn explained(error: ClientError, run: &RunId, flag: &str) -> CliError {
    let hint = match &error {
        ClientError::NotRepaired { why, .. } => match &**why {
            RepairRefused::Stale { .. } => {
                Some(format!("{} shows how it stands", command(format_args!("show{flag} {run} --history"))))
            }
            RepairRefused::Unsettled { .. } => {
                Some(format!("{} shows all of them", command(format_args!("unknowns{flag} {run}"))))
            }
            RepairRefused::Phase(_)
            | RepairRefused::NotFailed(_)
            | RepairRefused::Ending
            | RepairRefused::NotBegun
            | RepairRefused::Illegal(_) => None,
        },
        ClientError::BadPatch(_) | ClientError::BadStep(_) => Some(format!(
            "{} shows what it knows, and where it stands",
            command(format_args!("show{flag} {run} --state"))
        )),
        // Not about the repair.
        _ => None,
    };
    match hint {
        Some(hint) => CliError::Refused { error, hint },
        None => error.into(),
    }
}
