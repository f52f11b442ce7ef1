//! Looks at what the queue has given up.

use std::process::ExitCode;

fn main() -> ExitCode {
    stepwell_lambda::dead_letter()
}
