//! Turns: how far one goes, how it hands off, what it costs.

use std::time::Duration;

use stepwell::prelude::*;
use stepwell_core::history::EntryKind;
use stepwell_core::write::Write;
use stepwell_core::{FailureKind, Phase, Revision, Ticket, limits};
use stepwell_engine::{Ack, StopFlag, TurnTime};
use stepwell_ports::CheckpointStore;
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, T0, message, minute, one_step, secs};

/// Counts down, a step each.
struct Countdown;

#[derive(Serialize, Deserialize)]
struct Input {
    steps: u32,
    /// Seconds that each takes.
    each: u64,
}

#[derive(Serialize, Deserialize)]
enum At {
    Count,
}

impl Workflow for Countdown {
    const NAME: &'static str = "countdown";
    type Input = Input;
    type State = Input;
    type Step = At;
    type Output = String;

    fn begin(&self, input: Input) -> (At, Input) {
        (At::Count, input)
    }

    async fn step(&self, _: At, left: &mut Input, _cx: &Cx) -> StepResult<Self> {
        tokio::time::sleep(Duration::from_secs(left.each)).await;
        left.steps -= 1;
        Ok(if left.steps == 0 { complete("done".into()) } else { goto(At::Count) })
    }
}

fn bed() -> Bed {
    Bed::new(Registry::new().with(Countdown))
}

#[tokio::test(start_paused = true)]
async fn steps_run_in_one_turn_while_the_soft_budget_lasts() {
    let bed = bed();
    let run = bed.start::<Countdown>(Input { steps: 9, each: 10 }).await;
    assert_eq!(bed.turn(&TurnTime::of(secs(35))).await, Ack::Delete);
    let checkpoint = bed.checkpoint(&run).await;
    // Further steps start at 10, 20 and 30 seconds, none at 40.
    assert_eq!(checkpoint.progress.revision, Revision(4));
    assert_eq!(bed.elapsed(), secs(40));
    assert_eq!((checkpoint.progress.ticket, checkpoint.hold.lease), (Ticket(2), None));
    bed.settle().await;
    assert_eq!(bed.output::<String>(&run).await, "done");
}

#[tokio::test(start_paused = true)]
async fn no_step_is_started_that_may_not_end_before_the_hard_deadline() {
    let bed = bed();
    let run = bed.start::<Countdown>(Input { steps: 9, each: 10 }).await;
    // A step may take a minute: after ten seconds one more fits, after twenty none.
    let budget = TurnTime { hard: Some(T0.plus(secs(70))), ..TurnTime::of(secs(1_000)) };
    assert_eq!(bed.turn(&budget).await, Ack::Delete);
    assert_eq!(bed.checkpoint(&run).await.progress.revision, Revision(2));
}

#[tokio::test(start_paused = true)]
async fn one_step_runs_even_when_there_is_no_time_for_another() {
    let bed = bed();
    let run = bed.start::<Countdown>(Input { steps: 9, each: 10 }).await;
    let budget = TurnTime { hard: Some(T0.plus(secs(10))), ..TurnTime::of(Duration::ZERO) };
    assert_eq!(bed.turn(&budget).await, Ack::Delete);
    assert_eq!(bed.story(&run).await, "Count:stepped");
}

#[tokio::test(start_paused = true)]
async fn a_step_does_not_outlive_its_process() {
    let bed = bed();
    let run = bed.start::<Countdown>(Input { steps: 1, each: 50 }).await;
    let budget = TurnTime { hard: Some(T0.plus(secs(45))), ..minute() };
    assert_eq!(bed.turn(&budget).await, Ack::Delete);
    assert_eq!(bed.elapsed(), secs(45));
    let checkpoint = bed.checkpoint(&run).await;
    assert_eq!((checkpoint.progress.status.phase(), checkpoint.hold.lease), (Phase::Retrying, None));
    let failure = checkpoint.progress.trouble.unwrap().last;
    assert_eq!(failure.kind, FailureKind::Timeout);
    for word in ["after 45s", "own time-out is 60s", "longer time-out", "stepwell worker"] {
        assert!(failure.message.contains(word), "{word}: {failure}");
    }
    // Where a process lasts longer, it ends.
    bed.settle().await;
    assert_eq!(bed.story(&run).await, "Count:retried Count:completed");
}

#[tokio::test(start_paused = true)]
async fn a_step_that_ends_in_the_last_moment_has_ended() {
    let bed = bed();
    let run = bed.start::<Countdown>(Input { steps: 1, each: 45 }).await;
    let budget = TurnTime { hard: Some(T0.plus(secs(45))), ..minute() };
    assert_eq!(bed.turn(&budget).await, Ack::Delete);
    assert_eq!(bed.story(&run).await, "Count:completed");
}

#[tokio::test(start_paused = true)]
async fn a_hard_end_after_the_steps_own_time_changes_nothing() {
    let bed = bed();
    let run = bed.start::<Countdown>(Input { steps: 1, each: 100 }).await;
    let budget = TurnTime { hard: Some(T0.plus(secs(60))), ..minute() };
    assert_eq!(bed.turn(&budget).await, Ack::Delete);
    let failure = bed.checkpoint(&run).await.progress.trouble.unwrap().last;
    assert!(failure.message.starts_with("the step took longer than 60s"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_the_run_hand_off_after_its_step() {
    let bed = bed();
    let run = bed.start::<Countdown>(Input { steps: 9, each: 10 }).await;
    let budget = minute();
    let stop: StopFlag = budget.stop.clone();
    let (ack, ()) = tokio::join!(bed.turn(&budget), async {
        tokio::time::sleep(secs(15)).await;
        stop.set();
    });
    assert_eq!(ack, Ack::Delete);
    let checkpoint = bed.checkpoint(&run).await;
    assert_eq!((checkpoint.progress.revision, checkpoint.progress.ticket), (Revision(2), Ticket(2)));
}

#[tokio::test(start_paused = true)]
async fn a_hand_off_sends_one_message_with_the_next_ticket() {
    let bed = bed();
    bed.start::<Countdown>(Input { steps: 9, each: 1 }).await;
    assert_eq!(bed.turn(&one_step()).await, Ack::Delete);
    assert_eq!(bed.messages().await, [(Ticket(2), Duration::ZERO)]);
}

#[tokio::test(start_paused = true)]
async fn an_old_message_is_stale_and_the_one_before_the_current_stands_in_for_it() {
    let bed = bed();
    let run = bed.start::<Countdown>(Input { steps: 9, each: 1 }).await;
    for _ in 0..2 {
        bed.turn(&one_step()).await;
    }
    bed.messages().await;
    let gate = Gate::open();
    let engine = bed.engine_behind(&gate, "w");
    // Ticket 3 is the current one. Its message is gone, as if its sender had died before the send.
    assert_eq!(engine.turn(&message(&run, 1), &minute()).await, Ack::Delete);
    assert_eq!(gate.count(PortCall::Send), 0);
    assert_eq!(engine.turn(&message(&run, 2), &minute()).await, Ack::Delete);
    assert_eq!(bed.messages().await, [(Ticket(3), Duration::ZERO)]);
    assert_eq!(bed.checkpoint(&run).await.progress.revision, Revision(2));
}

#[tokio::test(start_paused = true)]
async fn a_hand_off_whose_message_cannot_be_sent_keeps_its_own() {
    let bed = bed();
    let run = bed.start::<Countdown>(Input { steps: 2, each: 1 }).await;
    let gate = Gate::planned(|_, call| if call == PortCall::Send { Fate::Unavailable } else { Fate::Pass });
    let delivery = bed.receive(secs(1)).await.unwrap();
    assert_eq!(bed.work(&bed.engine_behind(&gate, "w"), &delivery, &one_step()).await, Ack::Leave);
    assert_eq!(bed.checkpoint(&run).await.progress.ticket, Ticket(2));
    // It comes again when its visibility has run out, and stands in for the one that was not sent.
    bed.settle().await;
    let ended = bed.history(&run).await.pop().unwrap();
    assert_eq!((ended.entry.kind, ended.at), (EntryKind::Completed, T0.plus(bed.rules.lease / 2 + secs(1))));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_lands_a_second_time_changes_nothing() {
    let bed = bed();
    let run = bed.start::<Countdown>(Input { steps: 5, each: 10 }).await;
    // The reply to the second commit is lost, so it is sent again; the first try lands in the fourth step.
    let mut commits = 0;
    let gate = Gate::planned(move |_, call| {
        commits += u32::from(call == PortCall::Commit);
        if call == PortCall::Commit && commits == 2 { Fate::Late(secs(15)) } else { Fate::Pass }
    });
    let delivery = bed.receive(secs(1)).await.unwrap();
    assert_eq!(bed.work(&bed.engine_behind(&gate, "w"), &delivery, &minute()).await, Ack::Delete);
    assert_eq!(bed.story(&run).await, ["Count:stepped"; 4].join(" ") + " Count:completed");
    assert_eq!(bed.witness.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_meets_a_live_lease_comes_again_when_it_has_run_out() {
    let bed = bed();
    let run = bed.start::<Countdown>(Input { steps: 1, each: 8 }).await;
    let holding = tokio::spawn({
        let bed = bed.clone();
        async move { bed.turn(&minute()).await }
    });
    tokio::time::sleep(secs(2)).await;
    assert_eq!(bed.engine().turn(&message(&run, 1), &minute()).await, Ack::Delete);
    assert_eq!(holding.await.unwrap(), Ack::Delete);
    let messages = bed.messages().await;
    let [(Ticket(1), after)] = messages[..] else { panic!("{messages:?}") };
    // The lease lasts until second 30, the step has ended at second 8; a little jitter spreads many.
    assert!((secs(22)..secs(23)).contains(&after), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_steps_in_one_turn_are_a_hundred_and_two_writes_and_no_read() {
    let bed = bed();
    let gate = Gate::open();
    let run = bed.client_behind(&gate).start(crate::bed::request::<Countdown>(Input { steps: 100, each: 0 })).await;
    let run = run.unwrap().run;
    let engine = bed.engine_behind(&gate, "w");
    let delivery = bed.receive(secs(1)).await.unwrap();
    assert_eq!(bed.work(&engine, &delivery, &minute()).await, Ack::Delete);
    assert_eq!(bed.output::<String>(&run).await, "done");
    let counts = [PortCall::Start, PortCall::Acquire, PortCall::Commit, PortCall::Send].map(|call| gate.count(call));
    assert_eq!(counts, [1, 1, 100, 1]);
    // And nothing else: no load, no renewal, no blob.
    assert_eq!(gate.total(), 103);
    // The holder's own writes are those that the run has counted.
    assert_eq!(bed.checkpoint(&run).await.progress.usage.writes, 101);
}

#[tokio::test(start_paused = true)]
async fn history_leaves_the_checkpoint_in_full_segments() {
    let bed = bed();
    let run = bed.start::<Countdown>(Input { steps: 100, each: 0 }).await;
    bed.settle().await;
    let segments = bed.memory.history(&run, Revision(0), limits::PAGE_MAX).await.unwrap();
    let tail = bed.checkpoint(&run).await.progress.tail;
    let entries: usize = segments.iter().map(|segment| segment.entries.len()).sum();
    assert_eq!(entries + tail.entries.len(), 100);
    assert!(segments.len() >= 100 / limits::TAIL_ENTRIES_MAX, "{} segments", segments.len());
    assert!(
        segments.iter().all(|segment| segment.entries.len() > 3),
        "a segment for every few entries is a write each"
    );
    // A segment rides with a commit: it is no write of its own.
    let commits = bed.witness.seen().into_iter().filter(|seen| matches!(seen.request.write, Write::Commit(_)));
    assert_eq!(commits.count(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_message_for_a_run_that_has_ended_is_deleted() {
    let bed = bed();
    let run = bed.start::<Countdown>(Input { steps: 1, each: 0 }).await;
    bed.settle().await;
    assert_eq!(bed.phase(&run).await, Phase::Completed);
    let before = bed.witness.seen().len();
    for ticket in [1, 2] {
        assert_eq!(bed.engine().turn(&message(&run, ticket), &minute()).await, Ack::Delete);
    }
    assert_eq!(bed.witness.seen().len(), before);
    assert_eq!(bed.messages().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_run_is_buried_with_the_reason() {
    let bed = bed();
    let run = stepwell_core::RunId::new("nobody").unwrap();
    let Ack::Bury(reason) = bed.engine().turn(&message(&run, 1), &minute()).await else { panic!("not buried") };
    assert!(reason.contains("no such run"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_ticket_that_was_never_given_is_left_for_a_person() {
    let bed = bed();
    let run = bed.start::<Countdown>(Input { steps: 1, each: 0 }).await;
    assert_eq!(bed.engine().turn(&message(&run, 7), &minute()).await, Ack::Leave);
    assert_eq!(bed.checkpoint(&run).await.progress.revision, Revision(0));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_makes_more_steps_than_it_may_is_parked_and_can_be_let_on() {
    struct Endless;
    impl Workflow for Endless {
        const NAME: &'static str = "endless";
        const MAX_STEPS: u64 = 5;
        type Input = ();
        type State = u32;
        type Step = At;
        type Output = ();
        fn begin(&self, (): ()) -> (At, u32) {
            (At::Count, 0)
        }
        async fn step(&self, _: At, steps: &mut u32, _cx: &Cx) -> StepResult<Self> {
            *steps += 1;
            Ok(goto(At::Count))
        }
    }
    let bed = Bed::new(Registry::new().with(Endless));
    let run = bed.start::<Endless>(()).await;
    bed.settle().await;
    assert_eq!(bed.parked(&run).await.code(), "step-limit");
    assert_eq!(bed.checkpoint(&run).await.progress.visit.0, 5);
    bed.resume(&run).await;
    bed.settle().await;
    assert_eq!(bed.parked(&run).await.code(), "step-limit");
    assert_eq!(bed.checkpoint(&run).await.progress.visit.0, 10);
}
