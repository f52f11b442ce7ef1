//! # The API, tried with made-up requests
//!
//! **What lives here:** Schemathesis run against the description that the API serves of itself, on three ways to serve it:
//! the program's own server, a server that asks for keys, and the `api` function's process behind Lambda's events, on
//! emulators of AWS. Runs in several states are there, and a worker works, while it asks.
//!
//! **What must not live here:** what one request is answered (that is in the tests of `shared/http`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a suite: its panic is the report, its tables are for people"
)]

mod bridge;
mod lambda;
mod runs;
mod schemathesis;
mod servers;

use std::time::Instant;

use stepwell_report::Report;

use crate::schemathesis::Tried;

/// What opens the servers that ask for a key.
pub(crate) const KEY: &str = "a key for this machine only";

#[tokio::main]
async fn main() {
    let mut report = Report::new("test-api");
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|word| word == name);
    if wanted("dev") {
        let server = servers::dev();
        let tried = schemathesis::run("dev", &server.url, None).await;
        tell(&mut report, &tried);
    }
    if wanted("keys") {
        let server = servers::with_keys().await;
        let tried = schemathesis::run("keys", &server.url, Some(KEY)).await;
        tell(&mut report, &tried);
    }
    if wanted("lambda") {
        let begun = Instant::now();
        let function = lambda::Function::start().await;
        report.figure("lambda: up", begun.elapsed().as_secs_f64()).unit("s");
        let tried = schemathesis::run("lambda", function.url(), Some(KEY)).await;
        tell(&mut report, &tried);
        let (invoked, failed) = function.told();
        report.figure("lambda: requests through the function", invoked);
        report.check("lambda: the function was asked at all", invoked > 0);
        report.check(&format!("lambda: the function answers whatever it is asked: {failed:?}"), failed.is_empty());
    }
    let ok = report.finish().expect("the report is written");
    std::process::exit(i32::from(!ok));
}

/// Each operation that nothing was found on counts as one that passed.
fn tell(report: &mut Report, tried: &Tried) {
    let Tried { on, operations, clean, cases, seconds, errors, undocumented, findings } = tried;
    report.figure(&format!("{on}: operations tried"), *operations);
    report.figure(&format!("{on}: requests judged"), *cases);
    report.figure(&format!("{on}: operations that answered 5xx"), *errors).at_most(0.0);
    report.figure(&format!("{on}: operations with answers that are not described"), *undocumented).at_most(0.0);
    report.figure(&format!("{on}: time"), *seconds).unit("s");
    for finding in findings {
        report.fail(format!("{on}: {finding}"));
    }
    report.pass(*clean);
    report.check(&format!("{on}: operations were tried"), *operations > 0 && *cases > *operations);
}
