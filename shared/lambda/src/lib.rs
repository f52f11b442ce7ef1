//! # stepwell-lambda: the engine inside AWS Lambda
//!
//! **What lives here:** what each of the four functions does with its events ([`Messages`], [`DeadLetters`], [`sweep`],
//! [`respond`]), how long a batch may take, and how such a process begins: logs, settings, clients. It is the only crate
//! that names the Lambda runtime.
//!
//! **What must not live here:** decisions about a run (`stepwell-core`), what AWS is asked (`stepwell-aws`), routes
//! (`stepwell-http`), and workflows: a function brings them along.
//!
//! | function | entry | event | answer |
//! | --- | --- | --- | --- |
//! | runner | [`runner`] | a batch of the queue | the messages that have to come again |
//! | sweeper | [`sweeper`] | a schedule; what it says does not matter | nothing |
//! | dead-letter | [`dead_letter`] | a batch of the dead-letter queue | the letters that stay |
//! | api | [`api`] | an HTTP request | its response |
//!
//! Nothing has to be done about a process that dies in the middle of a batch: the queue brings back all its messages, and
//! each goes through the protocol's table.
//!
//! ## How a process ends that cannot begin
//!
//! One event says everything that is wrong, and the exit status says of what kind: 78 for settings or workflows that cannot
//! be used, 70 for a runtime that has ended.

mod api;
mod batch;
mod dead_letters;
mod jwks;
mod logs;
mod messages;
mod process;
mod settings;
mod sweep;

use std::error::Error;
use std::process::ExitCode;

use stepwell::Registry;

pub use api::respond;
pub use dead_letters::DeadLetters;
pub use jwks::Jwks;
pub use messages::Messages;
pub use process::warm;
pub use sweep::sweep;

/// Works on runs: the queue's messages, a batch at a time, until Lambda ends the process.
///
/// An error instead of a registry is told along with everything else that is wrong.
pub fn runner<E: Error>(registry: Result<Registry, E>) -> ExitCode {
    process::run(process::threads(), messages::serve(registry))
}

/// Wakes what is due, each time that a schedule says so.
pub fn sweeper() -> ExitCode {
    process::run(process::one_thread(), sweep::serve())
}

/// Looks at what the queue has given up.
pub fn dead_letter() -> ExitCode {
    process::run(process::one_thread(), dead_letters::serve())
}

/// Serves the API. The workflows say which inputs and signals are taken; no step runs here.
///
/// An error instead of a registry is told along with everything else that is wrong.
pub fn api<E: Error>(registry: Result<Registry, E>) -> ExitCode {
    process::run(process::one_thread(), api::serve(registry))
}
