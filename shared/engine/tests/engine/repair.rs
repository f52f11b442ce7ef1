//! A person repairs a run through the client: what it knows, where it stands, whether it goes on. What it has done is never done again.

use serde_json::{Value, json};
use stepwell_core::decide::{Pause, Repair, RepairRefused, Resolution, Resume};
use stepwell_core::history::EntryKind;
use stepwell_core::{FailureKind, Json, Phase, Revision, RunId};
use stepwell_engine::{ClientError, Edit, Edited, MoveTo};
use stepwell_testkit::crash::{CrashPoint, Side};
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, count, minute, secs};
use crate::shop::{Buy, Do, Does, Kind, Order, Set, Shop, Thing, buy, happened};

const SEAT: Buy = buy(Thing::Seat, Kind::Idempotent);
const CAR: Buy = buy(Thing::Car, Kind::Once);

pub(crate) fn who() -> Resume {
    Resume { by: "ann".into(), why: Some("they are back".into()) }
}

pub(crate) async fn at(bed: &Bed, run: &RunId) -> Revision {
    bed.checkpoint(run).await.progress.revision
}

pub(crate) async fn edit_of(bed: &Bed, run: &RunId, patch: Value) -> Edit {
    Edit { at: at(bed, run).await, patch: Json::of(&patch).unwrap(), by: "ann".into(), why: "was wrong".into() }
}

pub(crate) async fn edit(bed: &Bed, run: &RunId, patch: Value) -> Result<Edited, ClientError> {
    bed.client().edit(run, edit_of(bed, run, patch).await).await
}

async fn move_of(bed: &Bed, run: &RunId, to: Value) -> MoveTo {
    MoveTo { at: at(bed, run).await, to: Json::of(&to).unwrap(), by: "ann".into(), why: "skip it".into() }
}

pub(crate) async fn move_to(bed: &Bed, run: &RunId, to: Value) -> Result<Revision, ClientError> {
    bed.client().move_to(run, move_of(bed, run, to).await).await
}

async fn discard(bed: &Bed, run: &RunId) -> Result<(), ClientError> {
    let act = Repair { at: at(bed, run).await, by: "ann".into(), why: "no use".into() };
    bed.client().discard(run, &act).await
}

pub(crate) async fn pause(bed: &Bed, run: &RunId) {
    bed.client().pause(run, &Pause { by: "ann".into(), why: None }).await.unwrap();
}

pub(crate) async fn last(bed: &Bed, run: &RunId) -> (EntryKind, String) {
    let entry = bed.history(run).await.pop().unwrap().entry;
    (entry.kind, entry.more.note.unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn a_run_is_moved_to_a_step_that_the_workflow_knows() {
    let set = Set::settled(&[Do::Buy(SEAT), Do::Wait, Do::Buy(CAR)], Shop::default()).await;
    let (bed, run) = (&set.bed, &set.run);
    assert_eq!(move_to(bed, run, json!({"Do": 2})).await.unwrap_err().code(), "not-parked");
    pause(bed, run).await;
    for unknown in [json!("Fly"), json!({"Do": "two"}), json!(null), json!([]), json!({"Do": 1, "Undo": "Seat"})] {
        let refused = move_to(bed, run, unknown.clone()).await.unwrap_err();
        assert_eq!(refused.code(), "bad-step", "{unknown}: {refused}");
    }
    let stale = MoveTo { at: Revision(1), ..move_of(bed, run, json!({"Do": 2})).await };
    assert_eq!(bed.client().move_to(run, stale).await.unwrap_err().code(), "stale");
    let revision = move_to(bed, run, json!({"Do": 2})).await.unwrap();
    assert_eq!((revision, bed.parked(run).await.code()), (at(bed, run).await, "paused"));
    assert_eq!(last(bed, run).await, (EntryKind::Moved, "from Do to Do, by ann: skip it".into()));
    bed.settle().await;
    assert_eq!(set.shop.requests(), ["seat"], "it stands still");
    bed.resume(run).await;
    bed.settle().await;
    // Nobody has sent what it waited for.
    assert_eq!(
        (bed.output::<Vec<String>>(run).await, set.shop.requests()),
        (vec!["a seat".into(), "a car".into()], vec!["seat", "car"])
    );
    assert_eq!(bed.checkpoint(run).await.progress.usage.effects_confirmed, 2);
}

#[tokio::test(start_paused = true)]
async fn back_at_a_step_it_finds_what_it_has_done_and_does_it_once() {
    let set = Set::settled(&[Do::Buy(SEAT.undo()), Do::Both(CAR, SEAT), Do::Wait, Do::Fail], Shop::default()).await;
    let (bed, run) = (&set.bed, &set.run);
    for _ in 0..3 {
        pause(bed, run).await;
        move_to(bed, run, json!({"Do": 0})).await.unwrap();
        bed.resume(run).await;
        bed.settle().await;
        assert_eq!(bed.phase(run).await, Phase::Waiting);
    }
    assert_eq!(set.shop.requests(), ["seat", "car"]);
    assert_eq!(bed.witness.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_may_have_happened_is_settled_before_it_is_left_behind() {
    for (resolution, requests) in [(happened("car"), 1), (Resolution::SignOff, 1), (Resolution::Failed("no".into()), 1)]
    {
        let shop = Shop::default();
        shop.will("car", [Does::Loses]);
        let set = Set::settled(&[Do::Nap(1), Do::Buy(CAR), Do::Nap(1)], shop).await;
        let (bed, run) = (&set.bed, &set.run);
        assert_eq!(bed.parked(run).await.code(), "unknown-outcome");
        let refused = move_to(bed, run, json!({"Do": 2})).await.unwrap_err();
        assert!(
            matches!(&refused, ClientError::NotRepaired { why, .. } if matches!(**why, RepairRefused::Unsettled { .. }))
        );
        assert_eq!((refused.code(), discard(bed, run).await.unwrap_err().code()), ("unsettled", "unsettled"));
        // Told, it goes on at once: a person who wants to move it stops it first.
        set.try_resolve(resolution).await.unwrap();
        pause(bed, run).await;
        move_to(bed, run, json!({"Do": 2})).await.unwrap();
        bed.resume(run).await;
        bed.settle().await;
        assert_eq!((bed.phase(run).await, set.shop.requests().len()), (Phase::Completed, requests));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_given_up_has_failed_and_tries_again_if_it_is_told_to() {
    let set = Set::settled(&[Do::Buy(SEAT.undo()), Do::Wait], Shop::default()).await;
    let (bed, run) = (&set.bed, &set.run);
    assert_eq!(discard(bed, run).await.unwrap_err().code(), "not-parked");
    pause(bed, run).await;
    discard(bed, run).await.unwrap();
    let failure = bed.failure(run).await;
    assert_eq!(failure.kind, FailureKind::Discarded);
    assert_eq!(failure.message, "discarded by ann: no use; what it has done stands: seat");
    assert_eq!((set.shop.stands(), set.shop.requests()), (vec!["seat".to_owned()], vec!["seat"]));
    assert_eq!(discard(bed, run).await.unwrap_err().code(), "not-parked");
    assert_eq!(bed.messages().await, []);

    bed.client().retry(run, &who()).await.unwrap();
    assert_eq!(last(bed, run).await, (EntryKind::Reopened, "by ann: they are back".into()));
    bed.settle().await;
    assert_eq!(bed.phase(run).await, Phase::Waiting, "it waits on");
    bed.signal(run, crate::shop::GO, ()).await;
    bed.settle().await;
    assert_eq!((bed.phase(run).await, set.shop.requests()), (Phase::Completed, vec!["seat"]));
    assert_eq!(bed.checkpoint(run).await.progress.usage.effects_confirmed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_goes_on_where_it_stands() {
    let shop = Shop::default();
    shop.will("car", std::iter::repeat_n(Does::Busy, 13));
    let set = Set::settled(&[Do::Buy(SEAT), Do::Both(buy(Thing::Room, Kind::Once), CAR)], shop).await;
    let (bed, run) = (&set.bed, &set.run);
    for cars in [12, 14] {
        assert!(bed.failure(run).await.message.contains("no attempts left"));
        assert_eq!(bed.checkpoint(run).await.progress.usage.effects_confirmed, 2, "the seat and the room");
        bed.client().retry(run, &who()).await.unwrap();
        bed.settle().await;
        assert_eq!(set.shop.requests().iter().filter(|name| **name == "car").count(), cars);
    }
    assert_eq!(bed.phase(run).await, Phase::Completed);
    assert_eq!(bed.checkpoint(run).await.progress.usage.effects_confirmed, 3);
    assert_eq!(set.shop.requests().iter().filter(|name| **name != "car").count(), 2, "what was done is done");
    assert_eq!(count(&bed.history(run).await, EntryKind::Reopened), 2);
    assert_eq!(bed.client().retry(run, &who()).await.unwrap_err().code(), "not-failed");
    assert_eq!(bed.witness.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_taken_back_what_it_did_is_over() {
    let set = Set::settled(&[Do::Buy(SEAT.undo()), Do::Fail], Shop::default()).await;
    let (bed, run) = (&set.bed, &set.run);
    assert_eq!(bed.client().retry(run, &who()).await.unwrap_err().code(), "taken-back");
    assert_eq!(edit(bed, run, json!([])).await.unwrap_err().code(), "taken-back");
    assert_eq!(move_to(bed, run, json!({"Do": 0})).await.unwrap_err().code(), "taken-back");
}

/// An act of a person that may be cut short.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Edit,
    Move,
    Discard,
    Retry,
}

async fn does(set: &Set, act: Act, gate: &std::sync::Arc<Gate>) -> Option<Result<(), ClientError>> {
    let (bed, run) = (&set.bed, &set.run);
    let client = bed.client_behind(gate);
    let patch = json!([{"op": "add", "path": "/did/-", "value": "by hand"}]);
    let (edit, moves) = (edit_of(bed, run, patch).await, move_of(bed, run, json!({"Do": 1})).await);
    let act = async {
        match act {
            Act::Edit => client.edit(run, edit).await.map(drop),
            Act::Move => client.move_to(run, moves).await.map(drop),
            Act::Discard => client.discard(run, &Repair { at: moves.at, by: "ann".into(), why: "no use".into() }).await,
            Act::Retry => client.retry(run, &who()).await,
        }
    };
    gate.fuse().while_alive(act).await
}

/// Whoever does it dies at one of their calls, or does not hear the answer: it is done once or not at all, and a run that goes on is
/// found by the sweeper.
#[tokio::test(start_paused = true)]
async fn whoever_repairs_it_may_die_at_any_call() {
    let mut tried = 0;
    for act in [Act::Edit, Act::Move, Act::Discard, Act::Retry] {
        let crashes = |call| Side::BOTH.map(|side| (format!("{side}"), Gate::crashing(CrashPoint { call, side })));
        let lost = |call| {
            let lost = move |number, _| if number == call { Fate::LostAfter } else { Fate::Pass };
            [("lost".to_owned(), Gate::planned(lost))]
        };
        for (what, gate) in (1..5).flat_map(|call| crashes(call).into_iter().chain(lost(call))) {
            let shop = Shop::default();
            shop.will("car", [Does::Refuses]);
            let set =
                Set::settled(&[Do::Buy(SEAT), Do::Nap(1), Do::Try(CAR), Do::Nap(1), Do::Buy(SEAT), Do::Fail], shop)
                    .await;
            let (bed, run) = (&set.bed, &set.run);
            assert_eq!((bed.phase(run).await, set.shop.requests()), (Phase::Failed, vec!["seat", "car"]));
            if act == Act::Discard {
                edit(bed, run, json!([])).await.unwrap();
            }
            let before = at(bed, run).await;
            let answer = does(&set, act, &gate).await;
            let point = format!("{act:?}, {what} after {:?}", gate.calls());
            let is_done = at(bed, run).await == before.next();
            assert!(is_done || at(bed, run).await == before, "{point}: once");
            assert!(!matches!(answer, Some(Ok(()))) || is_done, "{point}");
            tried += usize::from(answer.is_none());
            if !is_done {
                does(&set, act, &Gate::open()).await.unwrap().unwrap();
            }
            if act == Act::Retry {
                let worker = bed.worker("w");
                let gone_on = bed.until(run, |run| run.progress.revision > before.next()).await;
                assert_eq!(gone_on.progress.status.phase(), Phase::Failed, "{point}: it fails again");
                assert_eq!(gone_on.progress.revision, before.next().next(), "{point}");
                drop(worker);
            } else {
                bed.settle().await;
                assert_eq!(at(bed, run).await, before.next(), "{point}: it stands still");
            }
            assert_eq!(set.shop.requests(), ["seat", "car"], "{point}");
            assert_eq!(bed.checkpoint(run).await.progress.usage.effects_confirmed, 1, "{point}");
            assert_eq!(bed.witness.violations(), Vec::<String>::new(), "{point}");
        }
    }
    assert!(tried > 10, "{tried}");
}

#[tokio::test(start_paused = true)]
async fn an_effect_across_runs_is_made_once_whichever_of_both_comes_first() {
    for first_comes_back_first in [true, false] {
        let what = buy(Thing::Car, Kind::Once).across();
        let shop = Shop::default();
        // Not now: it has not happened, and nothing is recorded of it.
        shop.will("car", std::iter::repeat_n(Does::Busy, 6));
        let set = Set::settled(&[Do::Buy(what)], shop).await;
        assert!(set.bed.failure(&set.run).await.message.contains("no attempts left"));
        let retry = async || set.bed.client().retry(&set.run, &who()).await.unwrap();
        if first_comes_back_first {
            retry().await;
        }
        let second = set.bed.start::<Order>([Do::Buy(what)]).await;
        set.bed.settle().await;
        if !first_comes_back_first {
            retry().await;
            set.bed.settle().await;
        }
        for run in [&set.run, &second] {
            assert_eq!(set.bed.output::<Vec<String>>(run).await, ["a car"], "{first_comes_back_first}");
        }
        assert_eq!((set.shop.acted_twice(), set.shop.requests().len()), (vec![], 7), "{first_comes_back_first}");
    }
}

/// The second run looks at the first, which has failed without making the effect, and takes it over; the first is tried again
/// meanwhile.
#[tokio::test(start_paused = true)]
async fn an_effect_across_runs_is_made_once_though_its_first_run_comes_back() {
    for delay in [0, 1, 3, 5] {
        let what = buy(Thing::Car, Kind::Once).across();
        let shop = Shop::default();
        // Refused for now: it has not happened, and nothing is recorded of it.
        shop.will("car", std::iter::repeat_n(Does::Busy, 6));
        let set = Set::settled(&[Do::Buy(what)], shop).await;
        assert!(set.bed.failure(&set.run).await.message.contains("no attempts left"));
        set.shop.will("car", [Does::Slowly(3), Does::Slowly(3)]);
        let second = set.bed.start::<Order>([Do::Buy(what)]).await;
        let slow = move |number, call| {
            let is_second = call == PortCall::Claim && number > 0;
            if is_second { Fate::SlowStart(secs(delay)) } else { Fate::Pass }
        };
        let gate = Gate::planned(slow);
        let (slow_engine, engine, time) = (set.bed.engine_behind(&gate, "b"), set.bed.engine(), minute());
        let delivery = set.bed.receive(secs(1)).await.unwrap();
        tokio::join!(set.bed.work(&slow_engine, &delivery, &time), async {
            // Between its look and its claim.
            while gate.count(PortCall::Load) == 0 {
                tokio::time::sleep(secs(1) / 100).await;
            }
            set.bed.client().retry(&set.run, &who()).await.unwrap();
            let delivery = set.bed.receive(secs(1)).await.unwrap();
            set.bed.work(&engine, &delivery, &time).await;
        });
        set.bed.settle().await;
        let calls = set.shop.requests().iter().filter(|name| **name == "car").count();
        assert_eq!((set.shop.acted_twice(), calls), (vec![], 7), "delay {delay}");
        let (first, second) = (set.bed.phase(&set.run).await, set.bed.phase(&second).await);
        assert!(first == Phase::Completed || second == Phase::Completed, "delay {delay}: {first}, {second}");
    }
}
