//! Wakes what is due, on a schedule.

use std::process::ExitCode;

fn main() -> ExitCode {
    stepwell_lambda::sweeper()
}
