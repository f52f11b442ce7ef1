//! Dead letters: the run is looked at before anybody believes that it is dead.

use std::time::Duration;

use stepwell::prelude::*;
use stepwell_core::history::EntryKind;
use stepwell_core::{ParkReason, Phase, Ticket};
use stepwell_engine::{Ack, LetterAck};
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, count, message, minute, one_step, secs};

/// Two steps of ten seconds each.
struct Walk;

#[derive(Serialize, Deserialize)]
enum At {
    First,
    Second,
}

impl Workflow for Walk {
    const NAME: &'static str = "walk";
    type Input = ();
    type State = ();
    type Step = At;
    type Output = ();

    fn begin(&self, (): ()) -> (At, ()) {
        (At::First, ())
    }

    async fn step(&self, at: At, (): &mut (), _: &Cx) -> StepResult<Self> {
        tokio::time::sleep(secs(10)).await;
        Ok(match at {
            At::First => goto(At::Second),
            At::Second => complete(()),
        })
    }
}

const REASON: Option<&str> = Some("the store refuses this");

fn bed() -> Bed {
    Bed::new(Registry::new().with(Walk))
}

#[tokio::test(start_paused = true)]
async fn a_healthy_run_whose_only_message_was_given_up_goes_on() {
    let bed = bed();
    let run = bed.start::<Walk>(()).await;
    bed.messages().await;
    assert_eq!(bed.engine().dead_letter(&message(&run, 1), None).await, LetterAck::Delete);
    bed.settle().await;
    assert_eq!(bed.phase(&run).await, Phase::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_buried_message_parks_its_run_which_a_person_resumes() {
    let bed = bed();
    let run = bed.start::<Walk>(()).await;
    bed.turn(&one_step()).await;
    bed.messages().await;
    assert_eq!(bed.engine().dead_letter(&message(&run, 2), REASON).await, LetterAck::Delete);
    let ParkReason::Data { what } = bed.parked(&run).await else { panic!("parked for something else") };
    assert!(what.contains("the store refuses this"), "{what}");
    // The same letter again: nothing more is said.
    assert_eq!(bed.engine().dead_letter(&message(&run, 2), REASON).await, LetterAck::Delete);
    assert_eq!(count(&bed.history(&run).await, EntryKind::Parked), 1);
    assert_eq!(bed.messages().await, []);
    bed.resume(&run).await;
    bed.settle().await;
    assert_eq!(bed.story(&run).await, "First:stepped Second:parked Second:resumed Second:completed");
    assert_eq!(bed.witness.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_somebody_holds_is_not_parked() {
    let bed = bed();
    let run = bed.start::<Walk>(()).await;
    let (engine, budget) = (bed.engine(), minute());
    tokio::join!(bed.turn(&budget), async {
        tokio::time::sleep(secs(1)).await;
        assert_eq!(engine.dead_letter(&message(&run, 1), REASON).await, LetterAck::Delete);
    });
    // What was sent comes after the lease, and has nothing to say.
    assert_eq!(bed.story(&run).await, "First:stepped Second:completed");
    bed.settle().await;
    assert_eq!(bed.story(&run).await, "First:stepped Second:completed");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_taken_between_look_and_write_is_not_parked() {
    let bed = bed();
    let run = bed.start::<Walk>(()).await;
    let gate = Gate::planned(|_, call| if call == PortCall::Amend { Fate::SlowStart(secs(5)) } else { Fate::Pass });
    let (engine, budget) = (bed.engine_behind(&gate, "letters"), minute());
    let letter = message(&run, 1);
    let (looked, ack) = tokio::join!(engine.dead_letter(&letter, REASON), async {
        tokio::time::sleep(secs(1)).await;
        bed.turn(&budget).await
    });
    assert_eq!((looked, ack), (LetterAck::Delete, Ack::Delete));
    assert_eq!(gate.count(PortCall::Load), 2, "refused, so it looked again");
    bed.settle().await;
    assert_eq!(bed.story(&run).await, "First:stepped Second:completed");
}

#[tokio::test(start_paused = true)]
async fn what_has_ended_or_moved_on_is_deleted() {
    let bed = bed();
    let run = bed.start::<Walk>(()).await;
    bed.settle().await;
    for reason in [None, REASON] {
        assert_eq!(bed.engine().dead_letter(&message(&run, 1), reason).await, LetterAck::Delete);
    }
    assert_eq!(bed.messages().await, []);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_believed_or_read_is_kept() {
    let bed = bed();
    let run = bed.start::<Walk>(()).await;
    let nobody = message(&stepwell_core::RunId::new("nobody").unwrap(), 1);
    for (letter, word) in [(nobody, "no such run"), (message(&run, 9), "ticket 9")] {
        let LetterAck::Keep(why) = bed.engine().dead_letter(&letter, REASON).await else { panic!("not kept") };
        assert!(why.contains(word), "{why}");
    }
    for call in [PortCall::Load, PortCall::Amend] {
        let gate = Gate::planned(move |_, made| if made == call { Fate::Refused } else { Fate::Pass });
        let ack = bed.engine_behind(&gate, "w").dead_letter(&message(&run, 1), REASON).await;
        assert!(matches!(ack, LetterAck::Keep(_)), "{call}: {ack:?}");
    }
    assert_eq!(bed.phase(&run).await, Phase::Created);
}

#[tokio::test(start_paused = true)]
async fn when_store_or_queue_are_away_the_letter_is_looked_at_later() {
    let bed = bed();
    let run = bed.start::<Walk>(()).await;
    bed.messages().await;
    for (call, reason) in [(PortCall::Load, None), (PortCall::Send, None), (PortCall::Amend, REASON)] {
        let gate = Gate::planned(move |_, made| if made == call { Fate::Unavailable } else { Fate::Pass });
        let ack = bed.engine_behind(&gate, "w").dead_letter(&message(&run, 1), reason).await;
        assert_eq!(ack, LetterAck::Leave, "{call}");
    }
    assert_eq!(bed.phase(&run).await, Phase::Created);
    assert_eq!(bed.messages().await, []);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_does_not_park_twice() {
    let bed = bed();
    let run = bed.start::<Walk>(()).await;
    let mut lost = 0;
    let gate = Gate::planned(move |_, call| {
        lost += u32::from(call == PortCall::Amend);
        if call == PortCall::Amend && lost == 1 { Fate::LostAfter } else { Fate::Pass }
    });
    let ack = bed.engine_behind(&gate, "w").dead_letter(&message(&run, 1), REASON).await;
    assert_eq!(ack, LetterAck::Delete);
    assert_eq!(bed.story(&run).await, "begin:parked");
}

#[tokio::test(start_paused = true)]
async fn a_letter_of_the_message_before_sends_the_current_one() {
    let bed = bed();
    let run = bed.start::<Walk>(()).await;
    bed.turn(&one_step()).await;
    bed.messages().await;
    assert_eq!(bed.engine().dead_letter(&message(&run, 1), REASON).await, LetterAck::Delete);
    assert_eq!(bed.messages().await, [(Ticket(2), Duration::ZERO)]);
}
