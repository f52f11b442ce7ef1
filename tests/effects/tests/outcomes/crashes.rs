//! Each class at each crash point: the worker is gone, another takes over, and where nobody can know, a person says.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use stepwell_outcomes::{Held, Outside, Promise, Trouble};
use stepwell_report::Table;
use stepwell_testkit::faults::{Fate, Gate, PortCall};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::bed::{Bed, Rest, dead, in_time};
use crate::person::{self, Settled, Word};

const LEASE: Duration = Duration::from_millis(600);

/// How long the call of the worker that dies may take. The others take all the time they need.
const DEADLINE: Duration = Duration::from_secs(1);

const SETTLE_DELAY: Duration = Duration::from_millis(200);

/// Runs at once.
const AT_ONCE: usize = 24;

/// Where the first worker's attempt goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Point {
    /// It dies before the intent is written; without one, directly after the acquire.
    BeforeIntent,
    /// It dies directly before its request; where there is an intent, directly after that was written.
    AfterIntent,
    /// It dies, its request has arrived, and is never acted on.
    Arrived,
    /// The same, but it is acted on later.
    LandsLater,
    /// It dies before there is a reply.
    Acted,
    /// It dies before it can record the reply.
    Replied,
    /// It dies directly after the record.
    Recorded,
    /// It lives; its connection is cut before the outside acts.
    CutBefore,
    /// It lives; its connection is cut instead of a reply.
    CutAfter,
    /// It lives; there is no reply in time.
    Silence,
}

impl Point {
    const ALL: [Self; 10] = [
        Self::BeforeIntent,
        Self::AfterIntent,
        Self::Arrived,
        Self::LandsLater,
        Self::Acted,
        Self::Replied,
        Self::Recorded,
        Self::CutBefore,
        Self::CutAfter,
        Self::Silence,
    ];

    const fn trouble(self) -> Option<Trouble> {
        match self {
            Self::BeforeIntent | Self::AfterIntent | Self::Replied | Self::Recorded => None,
            Self::Arrived | Self::LandsLater => Some(Trouble::HoldBefore),
            Self::Acted | Self::Silence => Some(Trouble::HoldAfter),
            Self::CutBefore => Some(Trouble::CutBefore),
            Self::CutAfter => Some(Trouble::CutAfter),
        }
    }

    /// The gate of the first worker.
    fn gate(self, promise: Promise) -> Arc<Gate> {
        let record = if promise.needs_intent() { 2 } else { 1 };
        let (call, number, fate) = match self {
            Self::BeforeIntent if promise.needs_intent() => (PortCall::Commit, 1, Fate::DieBefore),
            Self::BeforeIntent => (PortCall::Acquire, 1, Fate::DieAfter),
            Self::AfterIntent if promise.needs_intent() => (PortCall::Commit, 1, Fate::DieAfter),
            Self::Replied => (PortCall::Commit, record, Fate::DieBefore),
            Self::Recorded => (PortCall::Commit, record, Fate::DieAfter),
            Self::AfterIntent
            | Self::Arrived
            | Self::LandsLater
            | Self::Acted
            | Self::CutBefore
            | Self::CutAfter
            | Self::Silence => return Gate::open(),
        };
        let mut seen = 0;
        Gate::planned(move |_, made| {
            seen += u32::from(made == call);
            if made == call && seen == number { fate } else { Fate::Pass }
        })
    }

    /// Whether the worker dies.
    const fn kills(self) -> bool {
        match self {
            Self::BeforeIntent
            | Self::AfterIntent
            | Self::Arrived
            | Self::LandsLater
            | Self::Acted
            | Self::Replied
            | Self::Recorded => true,
            Self::CutBefore | Self::CutAfter | Self::Silence => false,
        }
    }

    /// What the outside comes to have done of the first worker's request.
    const fn acts(self) -> u64 {
        match self {
            Self::BeforeIntent | Self::AfterIntent | Self::Arrived | Self::CutBefore => 0,
            Self::LandsLater | Self::Acted | Self::Replied | Self::Recorded | Self::CutAfter | Self::Silence => 1,
        }
    }

    /// Whether a worker that comes after it can tell from the record alone how the effect stands.
    const fn leaves_the_truth(self, promise: Promise) -> bool {
        match self {
            Self::BeforeIntent => promise.needs_intent(),
            Self::Recorded => true,
            Self::AfterIntent
            | Self::Arrived
            | Self::LandsLater
            | Self::Acted
            | Self::Replied
            | Self::CutBefore
            | Self::CutAfter
            | Self::Silence => false,
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BeforeIntent => "dies before the intent",
            Self::AfterIntent => "dies after the intent",
            Self::Arrived => "dies, its request is never acted on",
            Self::LandsLater => "dies, its request lands later",
            Self::Acted => "dies before there is a reply",
            Self::Replied => "dies with the reply",
            Self::Recorded => "dies after the record",
            Self::CutBefore => "lives, cut before the act",
            Self::CutAfter => "lives, cut after the act",
            Self::Silence => "lives, acted, no reply",
        })
    }
}

/// What the promise asks for: how often the outside acts, and how the run ends without a person.
fn is_kept(promise: Promise, point: Point, played: &Played) -> bool {
    let Played { rest, acts, .. } = played;
    let completed = matches!(rest, Rest::Completed(output) if output.receipt == output.recorded);
    let receipt = matches!(rest, Rest::Completed(output) if output.receipt == *acts);
    let parked = *rest == Rest::Parked("unknown-outcome");
    match promise {
        Promise::Read => completed,
        Promise::Idempotent | Promise::Reconcilable => completed && receipt && *acts == 1,
        Promise::IdempotentFor | Promise::Once if point.leaves_the_truth(promise) => completed && receipt && *acts == 1,
        Promise::IdempotentFor | Promise::Once => parked && *acts == point.acts(),
    }
}

struct Played {
    rest: Rest,
    acts: u64,
    reads: u64,
    asked: usize,
    /// After a person's word, if there was one.
    settled: Option<Settled>,
    wrong: Vec<String>,
}

/// Makes it go wrong, and sees what becomes of the run.
async fn play(outside: &Outside, promise: Promise, point: Point, word: Word) -> Played {
    let bed = Bed::new(outside, promise, LEASE, SETTLE_DELAY).await;
    let held = point.trouble().map(|trouble| outside.trouble(&bed.key, trouble));
    let gate = point.gate(promise);
    let mut act = bed.act(DEADLINE);
    if point == Point::AfterIntent && !promise.needs_intent() {
        act.dies_before_request = Some(gate.fuse().clone());
    }
    let first = bed.worker("first", &gate, act);
    let _working = if point.kills() {
        strike(point, &gate, held.as_ref()).await;
        first.gone().await;
        bed.successor()
    } else {
        first
    };
    if point == Point::LandsLater {
        held.expect("it is held").land();
    }
    let rest = bed.rest().await;
    let seen = outside.seen(&bed.key);
    let mut played =
        Played { rest, acts: seen.acts, reads: seen.reads, asked: seen.asked.len(), settled: None, wrong: Vec::new() };
    if !is_kept(promise, point, &played) {
        let story = bed.story().await;
        played.wrong.push(format!("{:?}, acted {} times: {story}", played.rest, played.acts));
    }
    if matches!(played.rest, Rest::Parked(_)) {
        let settled = person::say(&bed, word).await;
        played.wrong.extend(person::wrong(word, played.acts, &settled));
        played.settled = Some(settled);
    }
    played
}

/// Waits until the first worker is dead, or kills it when its request has come as far as the point says.
async fn strike(point: Point, gate: &Gate, held: Option<&Held>) {
    if let Some(held) = held {
        in_time(&format!("the request ({point})"), held.reached()).await;
        gate.fuse().burn();
    }
    dead(gate.fuse()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_class_keeps_its_promise_at_each_crash_point() {
    let outside = Outside::open().await.unwrap();
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let mut playing = JoinSet::new();
    for (promise, point) in Promise::ALL.into_iter().flat_map(|promise| Point::ALL.map(|point| (promise, point))) {
        // Each of the words only where one is asked for; if it was not to be asked for, that is found out with the first.
        let asks = matches!(promise, Promise::IdempotentFor | Promise::Once) && !point.leaves_the_truth(promise);
        for word in if asks { &Word::ALL[..] } else { &Word::ALL[..1] } {
            let (outside, slots, word) = (outside.clone(), Arc::clone(&slots), *word);
            playing.spawn(async move {
                let _slot = slots.acquire_owned().await.unwrap();
                ((promise, point), (word, play(&outside, promise, point, word).await))
            });
        }
    }
    let mut rows = BTreeMap::<(Promise, Point), Vec<(Word, Played)>>::new();
    while let Some(played) = playing.join_next().await {
        let (row, played) = played.unwrap();
        rows.entry(row).or_default().push(played);
    }
    assert_eq!(rows.len(), 50, "a row is missing");
    let (table, wrong) = told(rows);
    writeln!(std::io::stdout().lock(), "\n{table}").unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The table, and what is wrong.
fn told(rows: BTreeMap<(Promise, Point), Vec<(Word, Played)>>) -> (Table, Vec<String>) {
    let mut wrong = Vec::new();
    let mut table = Table::new(&[
        "class",
        "the first worker",
        "acted",
        "read",
        "asked",
        "the run",
        "a person: succeeded",
        "failed",
        "try again",
    ]);
    for ((promise, point), mut played) in rows {
        played.sort_by_key(|(word, _)| *word);
        wrong.extend(played.iter().flat_map(|(word, played)| {
            played.wrong.iter().map(move |wrong| format!("{promise}, {point} ({word}): {wrong}"))
        }));
        let settled = |word: Word| {
            let settled = played.iter().find(|(said, _)| *said == word).and_then(|(_, played)| played.settled.as_ref());
            settled.map_or_else(String::new, |settled| format!("{}, acted {}", settled.rest, settled.acts))
        };
        let first = &played[0].1;
        table.row(&[
            &promise.to_string(),
            &point.to_string(),
            &first.acts.to_string(),
            &first.reads.to_string(),
            &first.asked.to_string(),
            &first.rest.to_string(),
            &settled(Word::Succeeded),
            &settled(Word::Failed),
            &settled(Word::TryAgain),
        ]);
    }
    (table, wrong)
}
