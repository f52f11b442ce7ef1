//! A request that stalls: its worker loses the lease meanwhile, another takes over, and then the request lands.

use std::sync::Arc;
use std::time::Duration;

use stepwell_core::history::EntryKind;
use stepwell_core::{Checkpoint, Fence, SignalId, Status};
use stepwell_engine::Ack;
use stepwell_outcomes::{Held, Output, Outside, Promise, SuspendableClock, Trouble};
use stepwell_testkit::faults::{Fate, Gate, PortCall};
use tokio::task::JoinHandle;

use crate::bed::{Bed, Rest, Working, in_time};
use crate::person::{self, FOUND, Word};

const LEASE: Duration = Duration::from_millis(1_200);

/// Of the worker that stalls. A third of the lease passes well before it.
const DEADLINE: Duration = Duration::from_millis(1_100);

/// Well longer than a take-over takes after the deadline.
const SETTLE_DELAY: Duration = Duration::from_secs(2);

/// Why the first worker loses its lease with a request under way.
#[derive(Clone, Copy, PartialEq)]
enum Cause {
    /// It reaches the store no more, and gives the request up at its deadline.
    CutOff,
    /// Its machine is suspended, so that its deadline does not come.
    Suspended,
}

/// A run whose first worker has a request on the wire, and is stuck.
struct Stall {
    bed: Bed,
    held: Held,
    gate: Arc<Gate>,
    clock: Arc<SuspendableClock>,
    turn: JoinHandle<Ack>,
    _successor: Working,
}

impl Stall {
    async fn of(promise: Promise, cause: Cause) -> Self {
        Self::taken_over_by(promise, cause, Bed::successor).await
    }

    async fn taken_over_by(promise: Promise, cause: Cause, successor: impl FnOnce(&Bed) -> Working) -> Self {
        let outside = Outside::open().await.unwrap();
        let bed = Bed::new(&outside, promise, LEASE, SETTLE_DELAY).await;
        let held = outside.trouble(&bed.key, Trouble::HoldBefore);
        let (gate, clock) = (Gate::open(), Arc::new(SuspendableClock::default()));
        let turn = bed.turn(&gate, clock.clone(), bed.act(DEADLINE));
        in_time("the request", held.reached()).await;
        match cause {
            Cause::CutOff => gate.replan(|_, _| Fate::Unavailable),
            Cause::Suspended => clock.suspend(),
        }
        let successor = successor(&bed);
        Self { bed, held, gate, clock, turn, _successor: successor }
    }

    /// Waits until the successor has the run, and this holds of it.
    async fn taken_over(&self, what: &str, holds: impl Fn(&Status) -> bool) -> Checkpoint {
        let holds = |run: &Checkpoint| run.hold.fence > Fence(1) && holds(&run.progress.status);
        self.bed.until(what, holds).await
    }

    /// The request lands, and the first worker's turn comes to its end: it leaves its message.
    async fn lands(&mut self) {
        self.held.land();
        let ack = in_time("the end of the stalled turn", &mut self.turn).await.unwrap();
        assert_eq!(ack, Ack::Leave);
    }

    async fn completes_with(&self, receipt: u64) {
        let output = Output { receipt, recorded: receipt };
        assert_eq!(self.bed.rest().await, Rest::Completed(output), "{}", self.bed.story().await);
    }

    /// How often the outside acted, in how many requests, and how often it was asked.
    fn seen(&self) -> (u64, u64, usize) {
        let seen = self.bed.outside.seen(&self.bed.key);
        (seen.acts, seen.requests, seen.asked.len())
    }

    /// Nobody but the run itself has settled it: the evidence was told once, and is consumed.
    async fn was_settled_by_evidence(&self) {
        let mailbox = self.bed.checkpoint().await.mailbox;
        assert!(mailbox.letters.is_empty(), "not consumed: {:?}", mailbox.letters);
        let told: Vec<&str> = mailbox.seen.iter().map(SignalId::as_str).collect();
        assert_eq!(told, [format!("evidence-{}-1-1", self.bed.key)]);
        assert!(!self.bed.history().await.iter().any(|entry| entry.entry.kind == EntryKind::Resolved));
    }
}

fn is_parked(status: &Status) -> bool {
    matches!(status, Status::Parked { .. })
}

fn is_retrying(status: &Status) -> bool {
    matches!(status, Status::Retrying { .. })
}

fn is_completed(status: &Status) -> bool {
    matches!(status, Status::Completed { .. })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_outside_dedupes_is_called_again_and_acts_once() {
    let play = async |cause| {
        let mut stall = Stall::of(Promise::Idempotent, cause).await;
        stall.taken_over("the result", is_completed).await;
        assert_eq!(stall.seen(), (1, 2, 0));
        stall.lands().await;
        stall.completes_with(1).await;
        assert_eq!(stall.seen(), (1, 2, 0));
        assert_eq!(stall.bed.story().await, "stepped completed");
    };
    tokio::join!(play(Cause::CutOff), play(Cause::Suspended));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_be_asked_about_is_asked_when_the_request_can_no_longer_land() {
    let mut stall = Stall::of(Promise::Reconcilable, Cause::CutOff).await;
    let early = stall.taken_over("the successor's first look", is_retrying).await;
    let gives_up = early.progress.journal.iter().find_map(|record| record.until).expect("the intent says until when");
    assert_eq!(stall.seen(), (0, 1, 0), "it was asked too early");
    // After its worker has given it up, before the settle delay is over.
    stall.lands().await;
    stall.completes_with(1).await;
    assert_eq!(stall.seen(), (1, 1, 1));
    let asked = stall.bed.outside.seen(&stall.bed.key).asked;
    assert!(asked[0] >= gives_up.plus(SETTLE_DELAY), "asked at {}, until {gives_up}", asked[0]);
    assert_eq!(stall.bed.story().await, "intended retried stepped completed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_be_asked_about_need_not_be_when_its_worker_still_learns_the_answer() {
    let mut stall = Stall::of(Promise::Reconcilable, Cause::Suspended).await;
    stall.taken_over("the successor's first look", is_retrying).await;
    stall.lands().await;
    stall.completes_with(1).await;
    assert_eq!(stall.seen(), (1, 1, 0));
    stall.was_settled_by_evidence().await;
    assert_eq!(stall.bed.story().await, "intended retried stepped completed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_parked_for_a_call_goes_on_when_its_worker_learns_the_answer_at_its_commit() {
    let mut stall = Stall::of(Promise::Once, Cause::Suspended).await;
    stall.taken_over("the question to a person", is_parked).await;
    assert_eq!(stall.seen(), (0, 1, 0));
    stall.lands().await;
    assert_eq!(stall.gate.count(PortCall::Renew), 0, "it was to learn it from its commit");
    goes_on_by_itself(&stall).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_parked_for_a_call_goes_on_when_its_worker_learns_the_answer_after_its_renewal() {
    let mut stall = Stall::of(Promise::Once, Cause::Suspended).await;
    stall.taken_over("the question to a person", is_parked).await;
    // Its machine goes on: it finds out that the run is another's while the request is still under way.
    stall.clock.resume();
    stall.bed.until("a renewal", |_| stall.gate.count(PortCall::Renew) > 0).await;
    // Its answer is there when it sleeps until it looks at its call again.
    let sleeps = stall.clock.sleeps();
    stall.bed.until("the renewal's refusal", |_| stall.clock.sleeps() > sleeps).await;
    stall.lands().await;
    assert_eq!(stall.gate.count(PortCall::Commit), 1, "after its intent it has nothing to commit");
    goes_on_by_itself(&stall).await;
}

async fn goes_on_by_itself(stall: &Stall) {
    stall.completes_with(1).await;
    assert_eq!(stall.seen(), (1, 1, 0));
    stall.was_settled_by_evidence().await;
    assert_eq!(stall.bed.story().await, "intended parked resumed stepped completed");
    let history = stall.bed.history().await;
    let resumed = history.iter().find_map(|entry| entry.entry.more.note.clone().filter(|note| note.contains("late")));
    assert!(resumed.is_some_and(|note| note.contains("late evidence")), "the history does not say why it went on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_parked_for_a_call_that_nobody_hears_of_waits_for_a_person() {
    let mut stall = Stall::of(Promise::Once, Cause::CutOff).await;
    stall.taken_over("the question to a person", is_parked).await;
    stall.lands().await;
    assert_eq!(stall.bed.rest().await, Rest::Parked("unknown-outcome"));
    assert_eq!(stall.seen(), (1, 1, 0));
    let settled = person::say(&stall.bed, Word::Succeeded).await;
    assert_eq!(person::wrong(Word::Succeeded, 1, &settled), None);
    stall.completes_with(FOUND).await;
    assert_eq!(stall.seen(), (1, 1, 0));
    assert_eq!(stall.bed.story().await, "intended parked resolved stepped completed");
}

/// The answer comes after the successor has looked for one, and before its park commit is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_while_the_successor_parks_is_read() {
    let slow = |_, call| match call {
        PortCall::Commit => Fate::SlowStart(Duration::from_millis(600)),
        _ => Fate::Pass,
    };
    let parks = Gate::planned(slow);
    let successor = |bed: &Bed| bed.worker("successor", &parks, bed.act(crate::bed::UNHURRIED));
    let mut stall = Stall::taken_over_by(Promise::Once, Cause::Suspended, successor).await;
    stall.bed.until("the successor's commit is under way", |_| parks.count(PortCall::Commit) > 0).await;
    stall.lands().await;
    stall.completes_with(1).await;
    assert_eq!(stall.seen(), (1, 1, 0));
    stall.was_settled_by_evidence().await;
    assert_eq!(stall.bed.story().await, "intended retried stepped completed");
}
