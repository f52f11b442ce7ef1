//! One run that uses everything, the outside that it talks to, and what has to be true of it in the end, whatever
//! happened to its workers on the way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stepwell::prelude::*;
use stepwell_core::history::EntryKind;
use stepwell_core::{Phase, RunId, Status};
use stepwell_testkit::faults::{Gate, PortCall};

use crate::bed::{Bed, secs};

pub(crate) const ANSWER: Signal<String> = Signal::new("answer");

/// How long the run sleeps between its third step and its last.
pub(crate) const NAP: Duration = Duration::from_mins(3);

/// What the outside has seen, by run.
#[derive(Clone, Default)]
pub(crate) struct Outside {
    seen: Arc<Mutex<BTreeMap<RunId, SeenOutside>>>,
}

#[derive(Clone, Debug, Default)]
struct SeenOutside {
    reads: u32,
    /// Bookings by key: how often each was asked for. The outside makes one of them, and answers the others alike.
    bookings: BTreeMap<String, u32>,
}

impl Outside {
    fn fetch(&self, run: &RunId) -> String {
        self.seen.lock().unwrap().entry(run.clone()).or_default().reads += 1;
        "page ".repeat(1_000)
    }

    fn book(&self, run: &RunId, key: &str) -> String {
        let mut seen = self.seen.lock().unwrap();
        *seen.entry(run.clone()).or_default().bookings.entry(key.to_owned()).or_default() += 1;
        booking(run)
    }
}

fn booking(run: &RunId) -> String {
    format!("booking of {run}")
}

pub(crate) struct Story(pub(crate) Outside);

#[derive(Serialize, Deserialize)]
pub(crate) enum At {
    Gather,
    Book,
    Decide,
    Close,
}

#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Known {
    /// How often each step's change of the state counted.
    steps: Vec<String>,
    log: Log<String>,
    page: Option<Blob<String>>,
    booking: Option<String>,
    answer: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Output {
    steps: Vec<String>,
    log: Vec<String>,
    page_length: usize,
    bookings: [String; 2],
    answer: Option<String>,
}

impl Workflow for Story {
    const NAME: &'static str = "story";
    type Input = ();
    type State = Known;
    type Step = At;
    type Output = Output;

    fn begin(&self, (): ()) -> (At, Known) {
        (At::Gather, Known::default())
    }

    fn policy(&self, _: &At) -> StepPolicy {
        StepPolicy::default().retry(RetryPolicy::default().every(secs(2)).max_attempts(1_000))
    }

    fn signals() -> Signals {
        Signals::none().and(ANSWER)
    }

    async fn step(&self, at: At, known: &mut Known, cx: &Cx) -> StepResult<Self> {
        let book = || {
            let effect = cx.effect("book").key("order-1").idempotent().with(&("order-1", 3));
            effect.call(async |call| Ok::<_, CallError>(self.0.book(cx.run(), call.key())))
        };
        match at {
            At::Gather => {
                let page: String =
                    cx.effect("fetch").read().call(async |_| Ok::<_, CallError>(self.0.fetch(cx.run()))).await?;
                known.page = Some(cx.blob(page.as_str()).await?);
                known.log.push("gathered".into());
                known.steps.push("gather".into());
                Ok(goto(At::Book))
            }
            At::Book => {
                known.booking = Some(book().await?);
                known.log.push("booked".into());
                known.steps.push("book".into());
                Ok(wait(At::Decide).for_signal(ANSWER).within(hours(12)))
            }
            At::Decide => {
                known.answer = cx.take(ANSWER).await?;
                known.log.push("decided".into());
                known.steps.push("decide".into());
                Ok(wait(At::Close).lasting(NAP))
            }
            At::Close => {
                let page = match &known.page {
                    Some(page) => cx.load(page).await?,
                    None => String::new(),
                };
                let bookings = [known.booking.clone().unwrap_or_default(), book().await?];
                let (steps, answer) = (known.steps.clone(), known.answer.clone());
                Ok(complete(Output {
                    steps,
                    log: cx.read(&known.log).await?,
                    page_length: page.len(),
                    bookings,
                    answer,
                }))
            }
        }
    }
}

/// What is wrong with a run that was answered once and not cancelled, if anything.
pub(crate) async fn wrong(bed: &Bed, outside: &Outside, run: &RunId) -> Vec<String> {
    let mut found = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            found.push(format!("{run}: {what}"));
        }
    };
    let checkpoint = bed.checkpoint(run).await;
    let Status::Completed { .. } = &checkpoint.progress.status else {
        return vec![format!("{run}: not completed: {:?}", checkpoint.progress.status)];
    };
    let words = |words: [&str; 3]| words.map(str::to_owned).to_vec();
    let expected = Output {
        steps: words(["gather", "book", "decide"]),
        log: words(["gathered", "booked", "decided"]),
        page_length: 5_000,
        bookings: [booking(run), booking(run)],
        answer: Some("yes".into()),
    };
    let output: Output = bed.output(run).await;
    must(output == expected, format!("the output is {output:?}"));
    ended_once(bed, run, &mut must).await;
    acted_once(outside, run, &mut must);
    let mailbox = &checkpoint.mailbox;
    let consumed = mailbox.letters.is_empty() && mailbox.seen.len() == 1 && mailbox.seq.0 == 1;
    must(consumed, format!("the signal was not consumed once: {mailbox:?}"));
    must(checkpoint.progress.visit.0 == 4, format!("{} steps ended", checkpoint.progress.visit.0));
    must(checkpoint.hold.lease.is_none() && checkpoint.due_at.is_none(), "it is still held or due".into());
    found
}

/// What is wrong with a run that was cancelled, if anything.
pub(crate) async fn wrong_cancelled(bed: &Bed, outside: &Outside, run: &RunId) -> Vec<String> {
    let mut found = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            found.push(format!("{run}: {what}"));
        }
    };
    let checkpoint = bed.checkpoint(run).await;
    let phase = checkpoint.progress.status.phase();
    must(phase == Phase::Cancelled, format!("it is {phase}"));
    must(checkpoint.hold.lease.is_none() && checkpoint.due_at.is_none(), "it is still held or due".into());
    ended_once(bed, run, &mut must).await;
    let bookings = outside.seen.lock().unwrap().get(run).map_or(0, |seen| seen.bookings.len());
    must(bookings <= 1, format!("{bookings} bookings"));
    found
}

/// Each step's end was committed once, and the history has no gap.
async fn ended_once(bed: &Bed, run: &RunId, must: &mut impl FnMut(bool, String)) {
    let history = bed.history(run).await;
    let revisions: Vec<u64> = history.iter().map(|entry| entry.revision.0).collect();
    let last = bed.checkpoint(run).await.progress.revision.0;
    must(revisions == (1..=last).collect::<Vec<_>>(), format!("the history has a gap: {revisions:?}"));
    let mut ends = BTreeMap::<&str, u32>::new();
    for entry in &history {
        match entry.entry.kind {
            EntryKind::Stepped | EntryKind::Waited | EntryKind::Completed => {
                *ends.entry(&entry.entry.step).or_default() += 1;
            }
            EntryKind::LookedUp
            | EntryKind::Intended
            | EntryKind::Resolved
            | EntryKind::Retried
            | EntryKind::Parked
            | EntryKind::Resumed
            | EntryKind::Answered
            | EntryKind::Undoing
            | EntryKind::Undone
            | EntryKind::LetStand
            | EntryKind::Edited
            | EntryKind::Moved
            | EntryKind::Reopened
            | EntryKind::Failed
            | EntryKind::Cancelled => {}
        }
    }
    must(ends.values().all(|ends| *ends == 1), format!("a step ended twice: {ends:?}"));
}

/// However often it was asked, the outside saw one key.
fn acted_once(outside: &Outside, run: &RunId, must: &mut impl FnMut(bool, String)) {
    let seen = outside.seen.lock().unwrap().get(run).cloned().unwrap_or_default();
    must(seen.bookings.len() == 1, format!("bookings: {:?}", seen.bookings));
    must(seen.reads >= 1, "nothing was read".into());
}

/// What is wrong with the world once its runs have ended, if anything: more messages left than this, messages that make
/// others, dead letters, writes that no schedule may make.
pub(crate) async fn wrong_at_rest(bed: &Bed, most_left: u32) -> Vec<String> {
    let mut found = bed.witness.violations();
    let gate = Gate::open();
    let left = bed.settle_with(&bed.engine_behind(&gate, "last")).await;
    if left > most_left {
        found.push(format!("{left} messages were left"));
    }
    if gate.count(PortCall::Send) > 0 {
        found.push("a message of an ended run made another".into());
    }
    let dead = bed.memory.dead_letters();
    if !dead.is_empty() {
        found.push(format!("dead letters: {dead:?}"));
    }
    found
}
