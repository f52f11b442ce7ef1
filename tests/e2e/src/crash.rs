//! The runner's process killed at each request that it makes for a run, before it went out and after it was carried out.

use std::time::Duration;

use futures_util::future::join_all;
use stepwell_core::Phase;
use stepwell_report::{Report, Table};

use crate::stack::Stack;
use crate::wire::{Point, Trap, When};
use crate::{demo, refund};

/// How long a run may take whose runner is killed.
const MOST: Duration = Duration::from_mins(2);

/// Runs at once. A kill also hurts the runs that share the process, and each loses an attempt.
const AT_ONCE: usize = 4;

/// Points that need not be reached: both sides of two requests.
const MISSED_MAX: usize = 4;

/// What the killed runner was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Story {
    /// Reads, writes, is approved by a signal, sends a mail.
    Brief,
    /// Is approved by a person, pays once per order, can be taken back.
    Refund,
}

impl Story {
    const fn name(self) -> &'static str {
        match self {
            Self::Brief => "brief",
            Self::Refund => "refund",
        }
    }

    /// Requests that a run cannot do without.
    const fn kinds(self) -> [&'static str; 3] {
        match self {
            Self::Brief => ["UpdateItem", "object PUT", "mail POST"],
            Self::Refund => ["UpdateItem", "shop POST", "mail POST"],
        }
    }

    /// What tells this run's requests from others'.
    fn words(self, key: &str) -> Vec<String> {
        match self {
            Self::Brief => vec![demo::run_of(key).to_string(), addressee(key)],
            Self::Refund => vec![refund::run_of(key).to_string(), order(key)],
        }
    }

    async fn drive(self, stack: &Stack, key: &str) -> Result<Phase, String> {
        match self {
            Self::Brief => demo::drive(stack, key, &addressee(key), MOST).await,
            Self::Refund => refund::drive(stack, key, &order(key), MOST).await,
        }
    }

    /// How often the outside has done what it must do once.
    fn acts(self, stack: &Stack, key: &str) -> Vec<usize> {
        match self {
            Self::Brief => vec![demo::mails_to(stack, &addressee(key))],
            Self::Refund => {
                let order = order(key);
                let mails = demo::mails_to(stack, &format!("{order}@example.com"));
                vec![refund::paid_for(stack, &order), mails]
            }
        }
    }
}

fn addressee(key: &str) -> String {
    format!("{key}@example.com")
}

fn order(key: &str) -> String {
    format!("{key}-90000")
}

/// What became of one run.
struct Row {
    at: Point,
    when: When,
    caught: bool,
    ended: Result<Phase, String>,
    acts: Vec<usize>,
}

/// Lets a run go by unhurt to see which requests it makes, then kills at each of them.
pub(crate) async fn check(stack: &Stack, report: &mut Report, on: &str, story: Story) {
    let (on, kinds) = (format!("{on}, {}", story.name()), story.kinds());
    let (ended, points, _) = one(stack, story, &format!("{}-none", story.name()), 0, None).await;
    let is_whole = |kind: &&str| points.iter().any(|point| point.operation == *kind);
    report.check(
        &format!("{on}: an unhurt run makes {kinds:?}: {ended:?}"),
        ended == Ok(Phase::Completed) && kinds.iter().all(is_whole),
    );
    let places: Vec<(Point, When)> =
        points.into_iter().flat_map(|point| [(point.clone(), When::Before), (point, When::After)]).collect();
    let mut rows = Vec::new();
    for (batch, first) in places.chunks(AT_ONCE).zip((1..).step_by(AT_ONCE)) {
        let runs = batch.iter().zip(first..).map(|((at, when), number)| hurt(stack, story, number, at.clone(), *when));
        rows.extend(join_all(runs).await);
    }
    let mut table = Table::new(&["killed at", "when", "ended", "acted"]);
    for row in &rows {
        let at = format!("{} {}", row.at.operation, row.at.nth);
        let ended = row.ended.as_ref().map_or_else(Clone::clone, ToString::to_string);
        let ended = if row.caught { ended } else { format!("{ended}, without this request") };
        table.row(&[&at, &format!("{:?}", row.when), &ended, &format!("{:?}", row.acts)]);
        report.check(&format!("{on}: {}", row.words()), row.is_right());
    }
    // A run may need a turn less than the one that was looked at, and then makes a request or two less.
    let missed = rows.iter().filter(|row| !row.caught).count();
    let killed_at = |kind: &&str| rows.iter().any(|row| row.caught && row.at.operation == *kind);
    report.check(
        &format!("{on}: killed at all but {missed} of {} points, each of {kinds:?} among them", rows.len()),
        missed <= MISSED_MAX && kinds.iter().all(killed_at),
    );
    println!("{on}: the runner killed at each request of a run\n{table}");
    report.figure(&format!("{on}: kills of the runner"), rows.iter().filter(|row| row.caught).count() as u64);
}

/// One run whose runner is killed there.
async fn hurt(stack: &Stack, story: Story, number: usize, at: Point, when: When) -> Row {
    let key = format!("{}-{number}", story.name());
    let (ended, _, caught) = one(stack, story, &key, number, Some((at.clone(), when))).await;
    Row { at, when, caught, ended, acts: story.acts(stack, &key) }
}

/// Drives one run. Answers how it stands, which requests were made for it, and whether one was killed at.
async fn one(
    stack: &Stack,
    story: Story,
    key: &str,
    number: usize,
    at: Option<(Point, When)>,
) -> (Result<Phase, String>, Vec<Point>, bool) {
    stack.wire.set(number, Trap { words: story.words(key), at });
    let ended = story.drive(stack, key).await;
    let seen = stack.wire.lift(number);
    (ended, seen.points, seen.caught)
}

impl Row {
    fn is_right(&self) -> bool {
        self.ended == Ok(Phase::Completed) && self.acts.iter().all(|acts| *acts == 1)
    }

    fn words(&self) -> String {
        let Self { at: Point { operation, nth }, when, caught, ended, acts } = self;
        let reached = if *caught { "killed" } else { "never reached" };
        format!("{reached} {when:?} {operation} {nth}: {ended:?}, acted {acts:?}")
    }
}
