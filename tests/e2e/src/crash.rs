//! The runner's process killed at each request that it makes for a run, before it went out and after it was carried out.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use stepwell_core::Phase;
use stepwell_report::{Report, Table};

use crate::demo::{drive, mails_to, run_of};
use crate::stack::Stack;
use crate::wire::{Trap, When};

/// How long a run may take whose runner is killed.
const MOST: Duration = Duration::from_mins(2);

/// Runs at once. A kill also hurts the runs that share the process, and each loses an attempt.
const AT_ONCE: usize = 4;

/// No run makes as many requests.
const REQUESTS_MAX: usize = 60;

/// What became of one run.
struct Row {
    nth: usize,
    when: When,
    /// The request that it was killed at.
    caught: Option<String>,
    ended: Result<Phase, String>,
    mails: usize,
}

impl Row {
    fn is_right(&self) -> bool {
        self.ended == Ok(Phase::Completed) && self.mails == 1
    }
}

/// Goes on until a run makes fewer requests than the one to be killed at.
pub(crate) async fn check(stack: &Stack, report: &mut Report, on: &str) {
    let points = (0..REQUESTS_MAX).flat_map(|nth| [(nth, When::Before), (nth, When::After)]);
    let points: Vec<(usize, When)> = points.collect();
    let mut rows = Vec::new();
    for batch in points.chunks(AT_ONCE) {
        let batch = join_all(batch.iter().map(|(nth, when)| one(stack, *nth, *when))).await;
        let past_the_end = batch.iter().all(|row| row.caught.is_none());
        rows.extend(batch);
        if past_the_end {
            break;
        }
    }
    let mut table = Table::new(&["killed at", "when", "ended", "mails"]);
    let mut kills = BTreeMap::<String, u64>::new();
    for row in &rows {
        let Some(operation) = &row.caught else { continue };
        *kills.entry(operation.clone()).or_default() += 1;
        let ended = row.ended.as_ref().map_or_else(Clone::clone, ToString::to_string);
        table.row(&[&format!("{}: {operation}", row.nth), &format!("{:?}", row.when), &ended, &row.mails.to_string()]);
    }
    println!("{on}: the runner killed at each request of a run\n{table}");
    let wrong: Vec<String> = rows.iter().filter(|row| !row.is_right()).map(Row::words).collect();
    for row in &rows {
        if row.is_right() { report.pass(1) } else { report.fail(format!("{on}: {}", row.words())) }
    }
    let killed: u64 = kills.values().sum();
    report.figure(&format!("{on}: kills of the runner"), killed);
    // A chain, its blobs, its mail, its messages: a run with fewer has not been tried at each of them.
    let tried = ["UpdateItem", "object PUT", "mail POST"].iter().all(|operation| kills.contains_key(*operation));
    report.check(
        &format!("{on}: kills at the table, the bucket and the mail API: {kills:?}"),
        tried && wrong.len() < rows.len(),
    );
}

async fn one(stack: &Stack, nth: usize, when: When) -> Row {
    let key = format!("crash-{nth}-{when:?}").to_lowercase();
    let to = format!("{key}@example.com");
    let number = nth * 2 + usize::from(when == When::After);
    let words = vec![run_of(&key).to_string(), to.clone()];
    stack.wire.set(number, Trap { words, nth, when });
    let ended = drive(stack, &key, &to, MOST).await;
    let caught = stack.wire.lift(number);
    Row { nth, when, caught, ended, mails: mails_to(stack, &to) }
}

impl Row {
    fn words(&self) -> String {
        let Self { nth, when, caught, ended, mails } = self;
        let at = caught.as_deref().unwrap_or("never reached");
        format!("killed {when:?} request {nth} ({at}): {ended:?}, {mails} mails")
    }
}
