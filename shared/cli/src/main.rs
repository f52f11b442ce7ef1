//! The program `stepwell`. All of it is in the library beside this file.

use std::process::ExitCode;

fn main() -> ExitCode {
    stepwell_cli::main()
}
