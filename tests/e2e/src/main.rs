//! # The deployed whole
//!
//! **What lives here:** `infra/template.yaml` deployed to emulators of AWS with the bootstraps that `make build` has made,
//! and driven from outside: over HTTP, through the queue, under SIGKILL, in great number.
//!
//! **What must not live here:** anything that a part's own tests can show.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a suite: its panic is the report, its tables are for people"
)]

mod cold;
mod crash;
mod demo;
mod many;
mod process;
mod refund;
mod stack;
mod wire;

use std::time::{Duration, Instant};

use stepwell_localaws::Kind;
use stepwell_report::Report;

use crate::crash::Story;
use crate::stack::Stack;

#[tokio::main]
async fn main() {
    let mut report = Report::new("e2e");
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let kinds =
        Kind::under_test().into_iter().filter(|kind| asked.is_empty() || asked.iter().any(|word| kind.word() == word));
    for kind in kinds {
        let on = kind.word();
        let begun = Instant::now();
        let stack = Stack::deploy(kind).await;
        report.figure(&format!("{on}: up and deployed"), begun.elapsed().as_secs_f64()).unit("s");
        demo::check(&stack, &mut report, on).await;
        refund::check(&stack, &mut report, on).await;
        if kind == Kind::MiniStack {
            cold::check(&stack, &mut report).await;
        }
        many::check(&stack, &mut report, on, Duration::from_mins(8)).await;
        // A killed runner's messages come again when their visibility is over; the template's is a minute and more.
        stack.set_visibility(3).await;
        crash::check(&stack, &mut report, on, Story::Brief).await;
        if kind == Kind::MiniStack {
            // The same engine and the same table on both.
            crash::check(&stack, &mut report, on, Story::Refund).await;
        }
    }
    let ok = report.finish().expect("the report is written");
    std::process::exit(i32::from(!ok));
}
