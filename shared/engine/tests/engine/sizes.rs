//! What a run may weigh, to the last byte, and how its writes are counted.

use stepwell::prelude::*;
use stepwell_core::Phase;
use stepwell_core::history::Segment;
use stepwell_core::limits::CHECKPOINT_BYTES_MAX;
use stepwell_core::write::Write;

use crate::bed::Bed;

/// Goes on with a cursor of this many characters, once.
struct Brim;

#[derive(Serialize, Deserialize)]
enum Fill {
    Up { words: String },
}

impl Workflow for Brim {
    const NAME: &'static str = "brim";
    type Input = usize;
    type State = usize;
    type Step = Fill;
    type Output = ();

    fn begin(&self, chars: usize) -> (Fill, usize) {
        (Fill::Up { words: String::new() }, chars)
    }

    async fn step(&self, Fill::Up { words }: Fill, chars: &mut usize, _: &Cx) -> StepResult<Self> {
        Ok(if words.is_empty() { goto(Fill::Up { words: "w".repeat(*chars) }) } else { complete(()) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_may_be_filled_to_its_last_byte() {
    let bed = Bed::new(Registry::new().with(Brim));
    let refused = async |chars: usize| {
        let run = bed.start::<Brim>(chars).await;
        bed.settle().await;
        match bed.phase(&run).await {
            Phase::Parked => Some(bed.parked(&run).await.to_string()),
            _ => None,
        }
    };
    let (mut fits, mut parks) = (CHECKPOINT_BYTES_MAX - 2_000, CHECKPOINT_BYTES_MAX);
    let mut why = None;
    while parks - fits > 1 {
        let chars = fits.midpoint(parks);
        match refused(chars).await {
            None => fits = chars,
            Some(reason) => (parks, why) = (chars, Some(reason)),
        }
    }
    let why = why.unwrap();
    assert!(
        why.contains(&format!("would have {} bytes, the limit is {CHECKPOINT_BYTES_MAX}", CHECKPOINT_BYTES_MAX + 1)),
        "{why}"
    );
}

/// Notes a line in its log with each step.
struct Noting;

#[derive(Serialize, Deserialize)]
struct Notes {
    left: u32,
    log: Log<String>,
}

impl Workflow for Noting {
    const NAME: &'static str = "noting";
    type Input = u32;
    type State = Notes;
    type Step = ();
    type Output = ();

    fn begin(&self, left: u32) -> ((), Notes) {
        ((), Notes { left, log: Log::new() })
    }

    async fn step(&self, (): (), notes: &mut Notes, _: &Cx) -> StepResult<Self> {
        notes.log.push("a line".repeat(30));
        notes.left -= 1;
        Ok(if notes.left == 0 { complete(()) } else { goto(()) })
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_run_writes_is_counted_entry_by_entry() {
    let bed = Bed::new(Registry::new().with(Noting));
    let run = bed.start::<Noting>(40).await;
    bed.settle().await;
    let (mut commits, mut bytes) = (0, 0);
    for seen in bed.witness.seen() {
        if let Write::Commit(commit) = seen.request.write {
            commits += 1;
            bytes += commit.progress.weight() + commit.segment.as_ref().map_or(0, Segment::weight);
            let entries = commit.appends.iter().flat_map(|append| &append.entries);
            bytes += entries.map(|entry| entry.text().len()).sum::<usize>();
        }
    }
    let counted = usize::try_from(bed.checkpoint(&run).await.progress.usage.bytes).unwrap();
    // It is counted before the count itself has grown.
    assert!((bytes - commits * 24..=bytes).contains(&counted), "{counted} of {bytes} in {commits} commits");
    assert_eq!(bed.checkpoint(&run).await.progress.usage.writes, commits as u64 + 1, "and the acquire");
}

/// Completes with an effect whose result has this many characters.
struct Answers;

impl Workflow for Answers {
    const NAME: &'static str = "answers";
    type Input = usize;
    type State = usize;
    type Step = ();
    type Output = ();

    fn begin(&self, chars: usize) -> ((), usize) {
        ((), chars)
    }

    async fn step(&self, (): (), chars: &mut usize, cx: &Cx) -> StepResult<Self> {
        let answer = "x".repeat(*chars);
        cx.effect("ask").key("it").idempotent().call(async |_| Ok::<_, CallError>(answer)).await?;
        Ok(complete(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_stays_in_the_checkpoint_is_counted_with_it_and_not_again() {
    let counted = async |chars: usize| {
        let bed = Bed::new(Registry::new().with(Answers));
        let run = bed.start::<Answers>(chars).await;
        bed.settle().await;
        bed.checkpoint(&run).await.progress.usage.bytes
    };
    // 1,024 bytes with their quotes is the most that stays, and one byte more than the other.
    let (less, most) = (counted(1_021).await, counted(1_022).await);
    assert!((less + 1..less + 10).contains(&most), "{less}, {most}");
}
