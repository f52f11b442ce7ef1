//! The dead-letter function: settles what it can, and keeps the rest for a person.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod common;
#[path = "common/work.rs"]
mod work;

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::event::sqs::SqsEvent;
use common::{Bed, DEAD_LETTERS, Newer, batch, failed, id, records, secs};
use stepwell::Registry;
use stepwell_core::{Message, ParkReason, Phase, RunId, Status, Ticket};
use stepwell_lambda::DeadLetters;
use stepwell_local::memory::Memory;
use stepwell_ports::{CheckpointStore, Delivery, Envelope, RunQueue};
use stepwell_testkit::faults::{Fate, Gate, PortCall};
use tokio::sync::Barrier;
use work::{Do, Work, plan};

/// How long the dead-letter queue hides what was received.
const VISIBILITY: Duration = Duration::from_mins(6);

/// A world with a second queue.
struct Letters {
    bed: Bed,
    dead: Arc<Memory>,
}

impl Letters {
    fn new() -> Self {
        let bed = Bed::new(Registry::new().with(Work(Arc::new(Barrier::new(1)))));
        let dead = Arc::new(Memory::new(bed.clock.clone()));
        Self { bed, dead }
    }

    fn function(&self, gate: &Arc<Gate>) -> DeadLetters {
        self.function_on(gate, self.bed.memory.clone())
    }

    fn function_on(&self, gate: &Arc<Gate>, store: Arc<dyn CheckpointStore>) -> DeadLetters {
        DeadLetters { engine: self.bed.engine_on(gate, store), letters: gate.queue(self.dead.clone()) }
    }

    /// A run whose message is gone from its queue, and lies among the dead letters.
    async fn given_up(&self) -> (RunId, Delivery) {
        let run = self.bed.start("work", plan(Do::Take(1), 10, 1)).await;
        let gone = self.bed.receive().await.pop().unwrap();
        self.bed.memory.delete(&[gone.receipt]).await.unwrap();
        let letter = self.letter(&run, 1).await;
        (run, letter)
    }

    async fn letter(&self, run: &RunId, ticket: u64) -> Delivery {
        let message = Message { run: run.clone(), ticket: Ticket(ticket) };
        self.dead.send(&[Envelope { message, delay: Duration::ZERO }]).await.unwrap();
        self.dead.receive(1, VISIBILITY, Duration::ZERO).await.unwrap().pop().unwrap()
    }

    /// In how much time the next letter comes again.
    async fn comes_again(&self) -> Duration {
        let begun = self.bed.elapsed();
        let wait = Duration::from_hours(24);
        assert_eq!(self.dead.receive(1, VISIBILITY, wait).await.unwrap().len(), 1);
        self.bed.elapsed().saturating_sub(begun)
    }
}

/// As a worker has buried it: with the reason.
fn buried(letter: &Delivery) -> SqsEvent {
    records(DEAD_LETTERS, [(letter.receipt.0.as_str(), letter.message.to_text())])
}

#[tokio::test(start_paused = true)]
async fn what_the_queue_gave_up_is_sent_again_if_its_run_is_well() {
    let letters = Letters::new();
    let (run, letter) = letters.given_up().await;
    let response = letters.function(&Gate::open()).look(batch(&[letter])).await;
    assert_eq!(failed(&response), Vec::<String>::new());
    let sent = letters.bed.receive().await;
    assert_eq!((sent.len(), &sent[0].message.run), (1, &run));
}

#[tokio::test(start_paused = true)]
async fn what_was_buried_for_a_reason_parks_its_run() {
    let letters = Letters::new();
    let (run, letter) = letters.given_up().await;
    let response = letters.function(&Gate::open()).look(buried(&letter)).await;
    assert_eq!(failed(&response), Vec::<String>::new());
    let Status::Parked { reason: ParkReason::Data { what }, .. } = letters.bed.checkpoint(&run).await.progress.status
    else {
        panic!("not parked")
    };
    assert!(what.contains("too large"), "{what}");
    assert_eq!(letters.bed.receive().await, []);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_knows_is_put_off_for_hours() {
    let letters = Letters::new();
    let letter = letters.letter(&RunId::new("nobody").unwrap(), 1).await;
    let response = letters.function(&Gate::open()).look(buried(&letter)).await;
    assert_eq!(failed(&response), [id(0)]);
    assert_eq!(letters.comes_again().await, Duration::from_hours(11));
}

#[tokio::test(start_paused = true)]
async fn what_newer_code_has_written_is_put_off_for_hours() {
    let letters = Letters::new();
    let (run, letter) = letters.given_up().await;
    let store = Arc::new(Newer { inner: letters.bed.memory.clone(), run: run.clone() });
    let response = letters.function_on(&Gate::open(), store).look(buried(&letter)).await;
    assert_eq!(failed(&response), [id(0)]);
    assert_eq!(letters.comes_again().await, Duration::from_hours(11));
    assert_eq!(letters.bed.checkpoint(&run).await.progress.status.phase(), Phase::Created);
}

#[tokio::test(start_paused = true)]
async fn when_the_store_is_away_a_letter_comes_again_after_its_visibility() {
    let letters = Letters::new();
    let (_, letter) = letters.given_up().await;
    let gate = Gate::planned(|_, call| if call == PortCall::Load { Fate::Unavailable } else { Fate::Pass });
    assert_eq!(failed(&letters.function(&gate).look(buried(&letter)).await), [id(0)]);
    assert_eq!(gate.count(PortCall::Extend), 0);
    assert_eq!(letters.comes_again().await, VISIBILITY);
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_cannot_be_put_off_stays_all_the_same() {
    let letters = Letters::new();
    let letter = letters.letter(&RunId::new("nobody").unwrap(), 1).await;
    let gate = Gate::planned(|_, call| if call == PortCall::Extend { Fate::Unavailable } else { Fate::Pass });
    assert_eq!(failed(&letters.function(&gate).look(buried(&letter)).await), [id(0)]);
    assert_eq!(letters.comes_again().await, VISIBILITY);
}

#[tokio::test(start_paused = true)]
async fn a_batch_as_lambda_sends_it_is_read_and_each_letter_is_settled_by_itself() {
    let letters = Letters::new();
    let (run, _) = letters.given_up().await;
    let fixture = DEAD_LETTERS.replace("run-1", run.as_str());
    let response = letters.function(&Gate::open()).look(serde_json::from_str(&fixture).unwrap()).await;
    // The first parks its run; nobody knows the second one's; the third is no message of ours.
    let stay = [2, 3].map(|number| format!("2f9d5a1e-0000-4000-8000-00000000000{number}"));
    assert_eq!(failed(&response), stay);
    assert_eq!(letters.bed.checkpoint(&run).await.progress.status.phase(), Phase::Parked);
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_is_seen_twice_is_settled_once() {
    let letters = Letters::new();
    let (run, letter) = letters.given_up().await;
    let function = letters.function(&Gate::open());
    for _ in 0..2 {
        assert_eq!(failed(&function.look(buried(&letter)).await), Vec::<String>::new());
        tokio::time::sleep(secs(1)).await;
    }
    assert_eq!(letters.bed.story(&run).await, "begin:parked");
}
