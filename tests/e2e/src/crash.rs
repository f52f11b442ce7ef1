//! The runner's process killed at each request that it makes for a run, before it went out and after it was carried out.

use std::time::Duration;

use futures_util::future::join_all;
use stepwell_core::Phase;
use stepwell_report::{Report, Table};

use crate::demo::{drive, mails_to, run_of};
use crate::stack::Stack;
use crate::wire::{Point, Trap, When};

/// How long a run may take whose runner is killed.
const MOST: Duration = Duration::from_mins(2);

/// Runs at once. A kill also hurts the runs that share the process, and each loses an attempt.
const AT_ONCE: usize = 4;

/// Points that need not be reached: both sides of two requests.
const MISSED_MAX: usize = 4;

/// What became of one run.
struct Row {
    at: Point,
    when: When,
    caught: bool,
    ended: Result<Phase, String>,
    mails: usize,
}

/// Lets a run go by unhurt to see which requests it makes, then kills at each of them.
pub(crate) async fn check(stack: &Stack, report: &mut Report, on: &str) {
    let (ended, points, _) = one(stack, "crash-none", 0, None).await;
    let kinds = ["UpdateItem", "object PUT", "mail POST"];
    let is_whole = |kind: &&str| points.iter().any(|point| point.operation == *kind);
    report.check(
        &format!("{on}: an unhurt run writes, stores a blob and sends a mail: {ended:?}"),
        ended == Ok(Phase::Completed) && kinds.iter().all(is_whole),
    );
    let places: Vec<(Point, When)> =
        points.into_iter().flat_map(|point| [(point.clone(), When::Before), (point, When::After)]).collect();
    let mut rows = Vec::new();
    for (batch, first) in places.chunks(AT_ONCE).zip((1..).step_by(AT_ONCE)) {
        let runs = batch.iter().zip(first..).map(|((at, when), number)| hurt(stack, number, at.clone(), *when));
        rows.extend(join_all(runs).await);
    }
    let mut table = Table::new(&["killed at", "when", "ended", "mails"]);
    for row in &rows {
        let at = format!("{} {}", row.at.operation, row.at.nth);
        let ended = row.ended.as_ref().map_or_else(Clone::clone, ToString::to_string);
        let ended = if row.caught { ended } else { format!("{ended}, without this request") };
        table.row(&[&at, &format!("{:?}", row.when), &ended, &row.mails.to_string()]);
        report.check(&format!("{on}: {}", row.words()), row.is_right());
    }
    // A run may need a turn less than the one that was looked at, and then makes a request or two less.
    let missed = rows.iter().filter(|row| !row.caught).count();
    let killed_at = |kind: &&str| rows.iter().any(|row| row.caught && row.at.operation == *kind);
    report.check(
        &format!(
            "{on}: killed at all but {missed} of {} points, the table, the bucket and the mail API among them",
            rows.len()
        ),
        missed <= MISSED_MAX && kinds.iter().all(killed_at),
    );
    println!("{on}: the runner killed at each request of a run\n{table}");
    report.figure(&format!("{on}: kills of the runner"), rows.iter().filter(|row| row.caught).count() as u64);
}

/// One run whose runner is killed there.
async fn hurt(stack: &Stack, number: usize, at: Point, when: When) -> Row {
    let key = format!("crash-{number}");
    let (ended, _, caught) = one(stack, &key, number, Some((at.clone(), when))).await;
    Row { at, when, caught, ended, mails: mails_to(stack, &addressee(&key)) }
}

/// Drives one run. Answers how it stands, which requests were made for it, and whether one was killed at.
async fn one(
    stack: &Stack,
    key: &str,
    number: usize,
    at: Option<(Point, When)>,
) -> (Result<Phase, String>, Vec<Point>, bool) {
    let words = vec![run_of(key).to_string(), addressee(key)];
    stack.wire.set(number, Trap { words, at });
    let ended = drive(stack, key, &addressee(key), MOST).await;
    let seen = stack.wire.lift(number);
    (ended, seen.points, seen.caught)
}

fn addressee(key: &str) -> String {
    format!("{key}@example.com")
}

impl Row {
    fn is_right(&self) -> bool {
        self.ended == Ok(Phase::Completed) && self.mails == 1
    }

    fn words(&self) -> String {
        let Self { at: Point { operation, nth }, when, caught, ended, mails } = self;
        let reached = if *caught { "killed" } else { "never reached" };
        format!("{reached} {when:?} {operation} {nth}: {ended:?}, {mails} mails")
    }
}
