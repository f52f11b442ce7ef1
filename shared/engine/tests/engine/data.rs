//! Data: large states, blobs that vanish, logs, keyed effects beyond the ledger.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use stepwell::prelude::*;
use stepwell_core::limits::{CHECKPOINT_BYTES_MAX, INLINE_BYTES_MAX, LEDGER_RECORDS_MAX, VALUE_BYTES_MAX};
use stepwell_core::{BlobRef, Outcome, Payload, Phase, Place, RunId};
use stepwell_ports::BlobStore;
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, minute, one_step, secs};

/// Makes a text of some size in its first step, says how long it is in its second.
struct Text;

#[derive(Serialize, Deserialize)]
enum At {
    Make,
    Say,
}

#[derive(Serialize, Deserialize)]
struct Making {
    size: usize,
    text: String,
    aside: Option<Blob<String>>,
}

impl Workflow for Text {
    const NAME: &'static str = "text";
    type Input = (usize, bool);
    type State = Making;
    type Step = At;
    type Output = (usize, String);

    fn begin(&self, (size, aside): (usize, bool)) -> (At, Making) {
        let text = if aside { "aside".into() } else { String::new() };
        (At::Make, Making { size, text, aside: None })
    }

    fn policy(&self, _: &At) -> StepPolicy {
        StepPolicy::default().retry(RetryPolicy::default().every(secs(10)))
    }

    async fn step(&self, at: At, state: &mut Making, cx: &Cx) -> StepResult<Self> {
        match at {
            At::Make if state.text == "aside" => {
                state.aside = Some(cx.blob("y".repeat(state.size).as_str()).await?);
                Ok(goto(At::Say))
            }
            At::Make => {
                state.text = "x".repeat(state.size);
                Ok(goto(At::Say))
            }
            At::Say => {
                let text = match &state.aside {
                    Some(blob) => cx.load(blob).await?,
                    None => state.text.clone(),
                };
                Ok(complete((text.len(), text)))
            }
        }
    }
}

async fn made(size: usize, aside: bool) -> (Bed, RunId) {
    let bed = Bed::new(Registry::new().with(Text));
    let run = bed.start::<Text>((size, aside)).await;
    bed.turn(&one_step()).await;
    (bed, run)
}

async fn state_blob(bed: &Bed, run: &RunId) -> BlobRef {
    match bed.checkpoint(run).await.progress.place {
        Place::At { state: Payload::Blob(blob), .. } => blob,
        other => panic!("no blob: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_state_goes_through_a_blob_and_back() {
    let (bed, run) = made(100_000, false).await;
    assert!(state_blob(&bed, &run).await.size > 100_000);
    assert!(bed.checkpoint(&run).await.weight() < 2_000);
    bed.settle().await;
    // And so does a large output.
    assert_eq!(bed.output::<(usize, String)>(&run).await, (100_000, "x".repeat(100_000)));
}

#[tokio::test(start_paused = true)]
async fn a_small_state_stays_in_the_checkpoint() {
    let (bed, run) = made(INLINE_BYTES_MAX - 100, false).await;
    let place = bed.checkpoint(&run).await.progress.place;
    assert!(matches!(place, Place::At { state: Payload::Inline(_), .. }), "{place:?}");
}

#[tokio::test(start_paused = true)]
async fn a_state_beyond_the_limit_parks_the_run_and_says_what_to_do() {
    let (bed, run) = made(VALUE_BYTES_MAX, false).await;
    let reason = bed.parked(&run).await;
    assert_eq!(reason.code(), "data");
    let reason = reason.to_string();
    assert!(reason.contains("the limit is 8388608") && reason.contains("keep large values in a Blob"), "{reason}");
    // It stands where it stood: mended code takes it from there.
    bed.resume(&run).await;
    bed.settle().await;
    assert_eq!(bed.story(&run).await, "Make:parked begin:resumed Make:parked");
}

#[tokio::test(start_paused = true)]
async fn a_state_may_fill_the_limit_to_its_last_byte() {
    let (bed, run) = made(VALUE_BYTES_MAX, false).await;
    let reason = bed.parked(&run).await.to_string();
    let size: usize = reason.split(' ').find_map(|word| word.parse().ok()).unwrap();
    let (bed, run) = made(VALUE_BYTES_MAX - (size - VALUE_BYTES_MAX), false).await;
    assert_eq!(state_blob(&bed, &run).await.size, VALUE_BYTES_MAX as u64);
}

#[tokio::test(start_paused = true)]
async fn a_missing_or_altered_state_parks_the_run_until_it_is_restored() {
    for bytes in [None, Some(b"\"shorter\"".to_vec())] {
        let (bed, run) = made(10_000, false).await;
        let blob = state_blob(&bed, &run).await;
        let good = bed.memory.get(&blob).await.unwrap();
        let word = if bytes.is_some() { "was altered" } else { "is missing" };
        bed.memory.damage(&blob, bytes);
        assert_eq!(bed.settle_damaged().await.len(), 1, "the auditor sees it, too");
        let reason = bed.parked(&run).await.to_string();
        assert!(reason.contains(word) && reason.contains(&blob.key), "{reason}");
        bed.resume(&run).await;
        bed.settle_damaged().await;
        assert_eq!(bed.phase(&run).await, Phase::Parked, "resuming alone mends nothing");
        bed.memory.damage(&blob, Some(good));
        bed.resume(&run).await;
        bed.settle().await;
        assert_eq!(bed.output::<(usize, String)>(&run).await.0, 10_000);
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_blob_of_the_author_parks_the_run_until_it_is_restored() {
    let (bed, run) = made(500, true).await;
    let Place::At { state: Payload::Inline(state), .. } = bed.checkpoint(&run).await.progress.place else {
        panic!("not inline")
    };
    let blob: BlobRef = serde_json::from_value(state.parse::<serde_json::Value>().unwrap()["aside"].clone()).unwrap();
    let good = bed.memory.get(&blob).await.unwrap();
    bed.memory.damage(&blob, None);
    assert_eq!(bed.settle_damaged().await.len(), 1, "the auditor sees it, too");
    assert!(bed.parked(&run).await.to_string().contains("is missing"));
    bed.memory.damage(&blob, Some(good));
    bed.resume(&run).await;
    bed.settle().await;
    assert_eq!(bed.output::<(usize, String)>(&run).await, (500, "y".repeat(500)));
}

#[tokio::test(start_paused = true)]
async fn a_blob_store_that_is_away_for_a_while_only_delays_the_run() {
    let (bed, run) = made(50_000, false).await;
    let mut failures = 3;
    let gate = Gate::planned(move |_, call| match call {
        PortCall::GetBlob | PortCall::PutBlob if failures > 0 => {
            failures -= 1;
            Fate::Unavailable
        }
        _ => Fate::Pass,
    });
    bed.settle_with(&bed.engine_behind(&gate, "w")).await;
    assert_eq!(bed.output::<(usize, String)>(&run).await.0, 50_000);
    let story = bed.story(&run).await;
    assert!(story.starts_with("Make:stepped Say:retried"), "{story}");
}

/// Writes a log of many entries, a hundred a step, and reads it back.
struct Logger {
    failures: AtomicU32,
}

#[derive(Serialize, Deserialize)]
enum Line {
    Write,
    Read,
}

impl Workflow for Logger {
    const NAME: &'static str = "logger";
    type Input = u64;
    type State = (u64, Log<String>, Log<u64>);
    type Step = Line;
    type Output = (Vec<String>, Vec<String>, Vec<u64>);

    fn begin(&self, entries: u64) -> (Line, Self::State) {
        (Line::Write, (entries, Log::new(), Log::new()))
    }

    fn policy(&self, _: &Line) -> StepPolicy {
        StepPolicy::default().retry(RetryPolicy::default().every(secs(1)))
    }

    async fn step(&self, at: Line, (left, log, sums): &mut Self::State, cx: &Cx) -> StepResult<Self> {
        match at {
            Line::Write => {
                for number in log.len()..log.len() + 100 {
                    log.push(format!("entry {number}"));
                }
                sums.push(log.len());
                let read = cx.read_last(log, 3).await?;
                assert_eq!(read[2], format!("entry {}", log.len() - 1), "those just pushed are read too");
                if self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
                    return Err(StepError::retry("half way"));
                }
                *left -= 100;
                Ok(goto(if *left == 0 { Line::Read } else { Line::Write }))
            }
            Line::Read => Ok(complete((cx.read(log).await?, cx.read_last(log, 2).await?, cx.read(sums).await?))),
        }
    }
}

async fn logged(entries: u64, failures: u32) -> (Bed, RunId) {
    let bed = Bed::new(Registry::new().with(Logger { failures: failures.into() }));
    let run = bed.start::<Logger>(entries).await;
    bed.settle().await;
    (bed, run)
}

#[tokio::test(start_paused = true)]
async fn a_log_of_two_thousand_entries_is_read_back() {
    let (bed, run) = logged(2_000, 0).await;
    let (all, last, sums): (Vec<String>, Vec<String>, Vec<u64>) = bed.output(&run).await;
    assert_eq!(all, (0..2_000).map(|number| format!("entry {number}")).collect::<Vec<_>>());
    assert_eq!(last, ["entry 1998", "entry 1999"]);
    assert_eq!(sums, (1..=20).map(|hundred| hundred * 100).collect::<Vec<_>>());
    // The checkpoint did not grow with it.
    let heaviest = bed.witness.seen().iter().map(|seen| seen.after.weight()).max().unwrap();
    assert!(heaviest < 3_000, "{heaviest}");
}

#[tokio::test(start_paused = true)]
async fn what_a_failing_step_pushed_does_not_count() {
    let (bed, run) = logged(300, 4).await;
    let (all, _, sums): (Vec<String>, Vec<String>, Vec<u64>) = bed.output(&run).await;
    assert_eq!((all.len(), sums), (300, vec![100, 200, 300]));
    assert!(bed.story(&run).await.contains("retried"));
}

#[tokio::test(start_paused = true)]
async fn a_log_entry_beyond_the_limit_parks_the_run() {
    struct Heavy;
    impl Workflow for Heavy {
        const NAME: &'static str = "heavy";
        type Input = usize;
        type State = (usize, Log<String>);
        type Step = ();
        type Output = ();
        fn begin(&self, chars: usize) -> ((), (usize, Log<String>)) {
            ((), (chars, Log::new()))
        }
        async fn step(&self, (): (), (chars, log): &mut (usize, Log<String>), _cx: &Cx) -> StepResult<Self> {
            log.push("z".repeat(*chars));
            Ok(complete(()))
        }
    }
    let bed = Bed::new(Registry::new().with(Heavy));
    // With its quotes it has just as many bytes as it may.
    let run = bed.start::<Heavy>(VALUE_BYTES_MAX - 2).await;
    bed.settle().await;
    assert_eq!(bed.phase(&run).await, Phase::Completed);
    let run = bed.start::<Heavy>(VALUE_BYTES_MAX).await;
    bed.settle().await;
    let reason = bed.parked(&run).await;
    assert_eq!(reason.code(), "data");
    assert!(reason.to_string().contains("a log entry has 8388610 bytes"), "{reason}");
}

/// Makes keyed effects, one a step, then asks for all of them again.
struct Keyed {
    calls: Arc<Mutex<Vec<u32>>>,
}

#[derive(Serialize, Deserialize)]
enum Key {
    Make(u32),
    Again,
}

impl Keyed {
    async fn ask(&self, cx: &Cx, number: u32) -> Result<String, StepError> {
        let effect = cx.effect("order").key(number).idempotent().with(&number);
        let answer = effect.call(async |_| {
            self.calls.lock().unwrap().push(number);
            Ok::<_, CallError>("receipt ".repeat(200) + &number.to_string())
        });
        Ok(answer.await?)
    }
}

impl Workflow for Keyed {
    const NAME: &'static str = "keyed";
    type Input = u32;
    type State = u32;
    type Step = Key;
    type Output = Vec<String>;

    fn begin(&self, orders: u32) -> (Key, u32) {
        (Key::Make(0), orders)
    }

    async fn step(&self, at: Key, orders: &mut u32, cx: &Cx) -> StepResult<Self> {
        match at {
            Key::Make(number) if number < *orders => {
                self.ask(cx, number).await?;
                Ok(goto(Key::Make(number + 1)))
            }
            Key::Make(_) => Ok(goto(Key::Again)),
            Key::Again => {
                let mut answers = Vec::new();
                for number in 0..*orders {
                    answers.push(self.ask(cx, number).await?.rsplit(' ').next().unwrap().to_owned());
                }
                Ok(complete(answers))
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn keyed_effects_beyond_the_ledger_are_found_again() {
    let orders = u32::try_from(LEDGER_RECORDS_MAX * 2 + 3).unwrap();
    let calls = Arc::default();
    let bed = Bed::new(Registry::new().with(Keyed { calls: Arc::clone(&calls) }));
    let run = bed.start::<Keyed>(orders).await;
    bed.settle().await;
    let answers: Vec<String> = bed.output(&run).await;
    assert_eq!(answers, (0..orders).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(*calls.lock().unwrap(), (0..orders).collect::<Vec<_>>(), "each was called once, in its own step");
    let progress = bed.checkpoint(&run).await.progress;
    assert_eq!((progress.ledger.len(), progress.spilled), (LEDGER_RECORDS_MAX, 19));
    assert_eq!(progress.usage.effects_confirmed, u64::from(orders));
    // Results of that size do not ride in the checkpoint.
    let heaviest = bed.witness.seen().iter().map(|seen| seen.after.weight()).max().unwrap();
    assert!(heaviest < 16_000, "{heaviest}");
}

#[tokio::test(start_paused = true)]
async fn as_long_as_the_ledger_holds_them_keyed_effects_cost_no_read() {
    let orders = u32::try_from(LEDGER_RECORDS_MAX).unwrap();
    let bed = Bed::new(Registry::new().with(Keyed { calls: Arc::default() }));
    let run = bed.start::<Keyed>(orders).await;
    let gate = Gate::open();
    bed.settle_with(&bed.engine_behind(&gate, "w")).await;
    assert_eq!(bed.phase(&run).await, Phase::Completed);
    assert_eq!((gate.count(PortCall::Effect), gate.count(PortCall::Load)), (0, 0));
}

/// Pays, then produces a cursor that no checkpoint can hold.
struct Bulky {
    paid: Arc<AtomicU32>,
}

#[derive(Serialize, Deserialize)]
enum Bulk {
    Pay { words: String },
}

impl Workflow for Bulky {
    const NAME: &'static str = "bulky";
    type Input = ();
    type State = ();
    type Step = Bulk;
    type Output = ();

    fn begin(&self, (): ()) -> (Bulk, ()) {
        (Bulk::Pay { words: String::new() }, ())
    }

    async fn step(&self, _: Bulk, (): &mut (), cx: &Cx) -> StepResult<Self> {
        // The outside forgets the key after an hour.
        let pay = cx.effect("pay").idempotent_for(hours(1));
        pay.call(async |_| {
            self.paid.fetch_add(1, Ordering::Relaxed);
            Ok::<_, CallError>("r".repeat(3_000))
        })
        .await?;
        Ok(goto(Bulk::Pay { words: "w".repeat(CHECKPOINT_BYTES_MAX) }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_beyond_the_limit_parks_the_run_and_forgets_no_effect() {
    let paid = Arc::default();
    let bed = Bed::new(Registry::new().with(Bulky { paid: Arc::clone(&paid) }));
    let run = bed.start::<Bulky>(()).await;
    bed.settle().await;
    let reason = bed.parked(&run).await.to_string();
    assert!(reason.contains("the checkpoint would have"), "{reason}");
    let progress = bed.checkpoint(&run).await.progress;
    let weight = progress.weight();
    assert!(matches!(&progress.journal[..], [pay] if matches!(pay.outcome, Outcome::Succeeded(_))), "{progress:?}");
    // The result went to a blob, since it may be it that takes the room, and counts for all that.
    assert!(progress.usage.bytes > 3_000 + weight as u64 - 24, "{} bytes, {weight} of them now", progress.usage.bytes);
    // Long after the outside has forgotten the key, nobody pays again.
    tokio::time::advance(hours(2)).await;
    bed.resume(&run).await;
    bed.settle().await;
    assert_eq!(paid.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_the_store_will_never_take_parks_the_run_with_what_it_said() {
    let bed = Bed::new(Registry::new().with(Text));
    let run = bed.start::<Text>((10, false)).await;
    let mut commits = 0;
    let gate = Gate::planned(move |_, call| {
        commits += u32::from(call == PortCall::Commit);
        if call == PortCall::Commit && commits == 1 { Fate::Refused } else { Fate::Pass }
    });
    bed.settle_with(&bed.engine_behind(&gate, "w")).await;
    let reason = bed.parked(&run).await;
    assert_eq!((reason.code(), reason.to_string().contains("scripted")), ("data", true), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_even_be_parked_has_its_message_buried() {
    let bed = Bed::new(Registry::new().with(Text));
    bed.start::<Text>((10, false)).await;
    let gate = Gate::planned(|_, call| if call == PortCall::Commit { Fate::Refused } else { Fate::Pass });
    let delivery = bed.receive(secs(1)).await.unwrap();
    bed.work(&bed.engine_behind(&gate, "w"), &delivery, &minute()).await;
    let dead = bed.memory.dead_letters();
    assert_eq!(dead.len(), 1);
    assert!(dead[0].reason.contains("the store refuses this"), "{}", dead[0].reason);
    assert_eq!(gate.count(PortCall::Commit), 2, "as it was, and parked");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_the_store_will_not_touch_has_its_message_buried() {
    let bed = Bed::new(Registry::new().with(Text));
    bed.start::<Text>((10, false)).await;
    let gate = Gate::planned(|_, call| if call == PortCall::Acquire { Fate::Refused } else { Fate::Pass });
    assert_eq!(bed.settle_with(&bed.engine_behind(&gate, "w")).await, 1);
    let dead = bed.memory.dead_letters();
    assert_eq!(dead.len(), 1);
    assert!(dead[0].reason.contains("the store refuses this"), "{}", dead[0].reason);
}

#[tokio::test(start_paused = true)]
async fn a_large_result_is_kept_for_the_retry_without_weighing_on_the_checkpoint() {
    struct Fetch(AtomicU32);
    impl Workflow for Fetch {
        const NAME: &'static str = "fetch";
        type Input = ();
        type State = ();
        type Step = ();
        type Output = usize;
        fn begin(&self, (): ()) -> ((), ()) {
            ((), ())
        }
        async fn step(&self, (): (), (): &mut (), cx: &Cx) -> StepResult<Self> {
            let call = async |_: stepwell::Call<'_>| {
                assert_eq!(self.0.fetch_add(1, Ordering::Relaxed), 0, "called again");
                Ok::<_, CallError>("p".repeat(500_000))
            };
            let page: String = cx.effect("page").read().call(call).await?;
            if cx.attempt() < 3 {
                return Err(StepError::retry_after(secs(1), "not yet"));
            }
            Ok(complete(page.len()))
        }
    }
    let bed = Bed::new(Registry::new().with(Fetch(AtomicU32::new(0))));
    let run = bed.start::<Fetch>(()).await;
    bed.turn(&minute()).await;
    assert!(bed.checkpoint(&run).await.weight() < 2_000);
    bed.settle().await;
    assert_eq!(bed.output::<usize>(&run).await, 500_000);
}

#[tokio::test(start_paused = true)]
async fn a_large_input_goes_through_a_blob() {
    struct Length;
    impl Workflow for Length {
        const NAME: &'static str = "length";
        type Input = String;
        type State = String;
        type Step = ();
        type Output = usize;
        fn begin(&self, input: String) -> ((), String) {
            ((), input)
        }
        async fn step(&self, (): (), text: &mut String, _cx: &Cx) -> StepResult<Self> {
            Ok(complete(text.len()))
        }
    }
    let bed = Bed::new(Registry::new().with(Length));
    let run = bed.start::<Length>("i".repeat(300_000)).await;
    assert!(bed.checkpoint(&run).await.weight() < 1_000);
    bed.settle().await;
    assert_eq!(bed.output::<usize>(&run).await, 300_000);
}

#[tokio::test(start_paused = true)]
async fn what_goes_to_the_store_is_counted_with_its_blobs_and_segments() {
    let (bed, run) = made(100_000, false).await;
    let bytes = bed.checkpoint(&run).await.progress.usage.bytes;
    assert!((100_000..103_000).contains(&bytes), "{bytes}");
}
