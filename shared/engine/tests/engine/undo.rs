//! What a run has done is taken back when it fails or is cancelled: newest first, each once, or a person says that it stands.

use stepwell_core::decide::Resolution;
use stepwell_core::history::EntryKind;
use stepwell_core::mailbox::EVIDENCE;
use stepwell_core::undo::Cause;
use stepwell_core::write::{Write, WriteRequest};
use stepwell_core::{EffectRecord, FailureKind, Json, Letter, Outcome, Payload, Phase, SignalId, SignalName, WriteId};
use stepwell_engine::ClientError;
use stepwell_ports::{CheckpointStore, Written};
use stepwell_testkit::faults::{Fate, Gate};

use crate::bed::{count, minute, one_step};
use crate::shop::{Buy, Do, Does, Kind, Set, Shop, Thing, buy, happened};

const SEAT: Buy = buy(Thing::Seat, Kind::Idempotent).undo();
const ROOM: Buy = buy(Thing::Room, Kind::Reconcilable).undo();
const CAR: Buy = buy(Thing::Car, Kind::Once).undo();

fn trip() -> [Do; 4] {
    [Do::Buy(SEAT), Do::Buy(ROOM), Do::Buy(CAR), Do::Fail]
}

async fn names(set: &Set, of: impl Fn(&stepwell_core::undo::Undoing) -> Vec<String>) -> Vec<String> {
    set.bed.checkpoint(&set.run).await.progress.undoing.as_deref().map(of).unwrap_or_default()
}

async fn undone(set: &Set) -> Vec<String> {
    names(set, |undoing| undoing.undone.iter().map(|effect| effect.name.clone()).collect()).await
}

async fn stands(set: &Set) -> Vec<String> {
    names(set, |undoing| undoing.stands.iter().map(|effect| effect.name.clone()).collect()).await
}

#[tokio::test(start_paused = true)]
async fn a_run_that_fails_takes_back_what_it_has_done_newest_first() {
    let set = Set::settled(&trip(), Shop::default()).await;
    let failure = set.bed.failure(&set.run).await;
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Terminal, "sold out"));
    let requests = ["seat", "room", "car", "car-back", "room-back", "seat-back"];
    assert_eq!((set.shop.requests(), set.shop.stands()), (requests.to_vec(), vec![]));
    assert_eq!(undone(&set).await, ["car", "room", "seat"]);
    // Each was told what it takes back.
    let results = ["a car", "a room", "a seat"].map(|result| Some(result.to_owned()));
    assert_eq!(set.shop.books().results, results);
    let history = set.bed.history(&set.run).await;
    assert_eq!((count(&history, EntryKind::Undoing), count(&history, EntryKind::Undone)), (1, 3));
    let mut notes = history.iter().rev().filter(|entry| entry.entry.kind == EntryKind::Undone);
    let last = notes.next().and_then(|entry| entry.entry.more.note.clone()).unwrap();
    assert!(last.starts_with("seat (key ") && last.ends_with(") is taken back"), "{last}");
    assert_eq!(set.bed.messages().await, []);
    assert_eq!(set.bed.witness.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_completes_or_did_nothing_takes_nothing_back() {
    let set = Set::settled(&trip()[..3], Shop::default()).await;
    assert_eq!(
        (set.bed.phase(&set.run).await, set.shop.stands()),
        (Phase::Completed, vec!["car".into(), "room".into(), "seat".into()])
    );
    let set = Set::settled(&[Do::Fail], Shop::default()).await;
    assert_eq!((set.bed.phase(&set.run).await, undone(&set).await), (Phase::Failed, vec![]));
}

#[tokio::test(start_paused = true)]
async fn what_the_very_step_has_done_that_fails_is_taken_back_too_though_the_run_has_not_begun() {
    let shop = Shop::default();
    shop.will("room", [Does::Refuses]);
    let set = Set::settled(&[Do::Both(SEAT, ROOM)], shop).await;
    assert_eq!(set.bed.failure(&set.run).await.kind, FailureKind::Refused);
    // What was refused has not happened.
    assert_eq!((set.shop.requests(), undone(&set).await), (vec!["seat", "room", "seat-back"], vec!["seat".into()]));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cancelled_takes_back_what_it_has_done() {
    let set = Set::settled(&[Do::Buy(SEAT), Do::Buy(ROOM), Do::Wait], Shop::default()).await;
    set.cancel().await;
    set.bed.settle().await;
    let certificate = set.certificate().await;
    let undone: Vec<&str> = certificate.undone.iter().map(|effect| effect.name.as_str()).collect();
    assert_eq!((undone, set.shop.stands()), (vec!["room", "seat"], vec![]));
    // Both, and what took them back.
    assert_eq!((certificate.confirmed, certificate.uncertain, certificate.stands), (4, vec![], vec![]));
    assert_eq!(set.bed.messages().await, []);
}

#[tokio::test(start_paused = true)]
async fn after_a_point_of_no_return_what_came_before_stands() {
    let set = Set::settled(&[Do::Buy(SEAT), Do::Buy(ROOM.no_return()), Do::Buy(CAR), Do::Fail], Shop::default()).await;
    assert_eq!(set.bed.phase(&set.run).await, Phase::Failed);
    assert_eq!((undone(&set).await, set.shop.stands()), (vec!["car".into(), "room".into()], vec!["seat".into()]));
}

#[tokio::test(start_paused = true)]
async fn what_is_tried_again_while_it_is_taken_back_acts_once() {
    for does in [Does::Busy, Does::Misses, Does::Loses] {
        let shop = Shop::default();
        shop.will("room-back", [does.clone(), does]);
        let set = Set::settled(&trip(), shop).await;
        assert_eq!(
            (set.bed.phase(&set.run).await, set.shop.stands(), set.shop.acted_twice()),
            (Phase::Failed, vec![], vec![])
        );
        assert_eq!(undone(&set).await, ["car", "room", "seat"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_taken_back_is_a_persons() {
    let shop = Shop::default();
    shop.will("room-back", [Does::Refuses, Does::Refuses]);
    let set = Set::settled(&trip(), shop).await;
    let reason = set.bed.parked(&set.run).await;
    assert_eq!(reason.code(), "undo");
    let said = reason.to_string();
    for part in ["effect room (key ", "stands (and before it: seat)", "sold out"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!((undone(&set).await, set.shop.stands()), (vec!["car".into()], vec!["room".into(), "seat".into()]));

    // Resumed, it asks again, and is refused again.
    set.bed.resume(&set.run).await;
    set.bed.settle().await;
    assert_eq!(set.bed.parked(&set.run).await.code(), "undo");

    set.let_stand().await.unwrap();
    set.bed.settle().await;
    assert_eq!(set.bed.failure(&set.run).await.message, "sold out");
    assert_eq!((undone(&set).await, stands(&set).await), (vec!["car".into(), "seat".into()], vec!["room".into()]));
    assert_eq!(set.shop.stands(), ["room"]);
    let undoing = set.bed.checkpoint(&set.run).await.progress.undoing.unwrap();
    assert_eq!(undoing.stands[0].note.as_deref(), Some("by ann: called them"));
    assert!(matches!(undoing.cause, Cause::Failed(_)));
    assert_eq!(count(&set.bed.history(&set.run).await, EntryKind::LetStand), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_cancelled_run_could_not_take_back_is_in_its_certificate() {
    let shop = Shop::default();
    shop.will("seat-back", [Does::Refuses]);
    let set = Set::settled(&[Do::Buy(SEAT), Do::Buy(ROOM), Do::Wait], shop).await;
    set.cancel().await;
    set.bed.settle().await;
    assert_eq!(set.bed.parked(&set.run).await.code(), "undo");
    set.let_stand().await.unwrap();
    set.bed.settle().await;
    let certificate = set.certificate().await;
    let name = |effects: &[stepwell_core::undo::CertifiedEffect]| effects[0].name.clone();
    assert_eq!((name(&certificate.undone), name(&certificate.stands)), ("room".into(), "seat".into()));
}

#[tokio::test(start_paused = true)]
async fn only_a_run_that_is_parked_over_it_lets_anything_stand() {
    let set = Set::settled(&[Do::Buy(SEAT), Do::Wait], Shop::default()).await;
    let refused = set.let_stand().await.unwrap_err();
    assert!(matches!(&refused, ClientError::NotUndoing { phase: Phase::Waiting, .. }), "{refused}");
    assert_eq!(refused.code(), "not-undoing");
    set.cancel().await;
    set.bed.settle().await;
    assert!(matches!(set.let_stand().await, Err(ClientError::NotUndoing { phase: Phase::Cancelled, .. })));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_back_while_an_effect_is_open() {
    for (resolution, undoes, result) in [
        (happened("car"), vec!["car", "seat"], Some("a car")),
        (Resolution::Failed("not theirs".into()), vec!["seat"], Some("a seat")),
        (Resolution::SignOff, vec!["car", "seat"], None),
    ] {
        let shop = Shop::default();
        shop.will("car", [Does::Loses]);
        let set = Set::settled(&[Do::Buy(SEAT), Do::Buy(CAR), Do::Fail], shop).await;
        assert_eq!(set.bed.parked(&set.run).await.code(), "unknown-outcome");
        assert_eq!(set.shop.requests(), ["seat", "car"]);
        let succeeds = matches!(resolution, Resolution::Succeeded(_));
        set.resolve(resolution).await;
        let failure = set.bed.failure(&set.run).await;
        assert_eq!(
            (failure.message == "sold out", undone(&set).await),
            (succeeds, undoes.iter().map(ToString::to_string).collect())
        );
        // Signed off, it may have happened: it is taken back, and nobody knows what it answered.
        assert_eq!(set.shop.books().results[0].as_deref(), result);
    }
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_did_not_happen_is_not_taken_back() {
    let shop = Shop::default();
    shop.will("seat", std::iter::repeat_n(Does::Busy, 6));
    let set = Set::settled(&[Do::Buy(ROOM), Do::Buy(SEAT)], shop).await;
    assert!(set.bed.failure(&set.run).await.message.contains("no attempts left"));
    assert_eq!((undone(&set).await, set.shop.stands()), (vec!["room".into()], vec![]));
}

/// Fails, and has still to take back its room and its seat.
async fn undoing() -> Set {
    let set = Set::of(&[Do::Buy(SEAT), Do::Buy(ROOM), Do::Fail]).await;
    for _ in 0..3 {
        set.bed.turn(&one_step()).await;
    }
    assert!(set.bed.checkpoint(&set.run).await.progress.undoing.is_some());
    set
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_does_not_stop_what_takes_back() {
    let set = undoing().await;
    set.cancel().await;
    set.bed.settle().await;
    // It has failed before anybody asked for its end.
    assert_eq!((set.bed.failure(&set.run).await.message.as_str(), undone(&set).await.len()), ("sold out", 2));
    assert_eq!(set.shop.stands(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn nor_does_one_that_comes_in_any_of_its_writes() {
    let mut tried = 0;
    for number in 1.. {
        let set = undoing().await;
        // The write is on its way while the run is cancelled.
        let gate = Gate::planned(
            move |call, _| if call == number { Fate::SlowStart(stepwell::seconds(2)) } else { Fate::Pass },
        );
        let engine = set.bed.engine_behind(&gate, "w");
        let delivery = set.bed.receive(stepwell::seconds(1)).await.unwrap();
        let time = minute();
        tokio::join!(set.bed.work(&engine, &delivery, &time), async {
            while gate.total() < number && !set.bed.phase(&set.run).await.is_ended() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            set.bed.client().cancel(&set.run, "ann", None).await.ok();
        });
        set.bed.settle().await;
        if gate.total() < number {
            break;
        }
        tried += 1;
        let what = format!("call {number}, a {}", gate.calls()[usize::try_from(number).unwrap() - 1]);
        assert_eq!(set.bed.failure(&set.run).await.message, "sold out", "{what}");
        assert_eq!((set.shop.stands(), set.shop.acted_twice()), (vec![], vec![]), "{what}");
        let calls = set.shop.requests();
        assert_eq!(calls, ["seat", "room", "room-back", "seat-back"], "{what}");
    }
    assert!(tried >= 3, "{tried}");
}

#[tokio::test(start_paused = true)]
async fn an_effect_of_what_takes_back_that_may_have_happened_is_settled_first() {
    let shop = Shop::default();
    shop.will("room-back", std::iter::repeat_n(Does::Loses, 6));
    let set = Set::settled(&[Do::Buy(SEAT), Do::Buy(ROOM), Do::Fail], shop).await;
    assert_eq!(set.bed.parked(&set.run).await.code(), "unknown-outcome");
    assert!(matches!(set.open().await.outcome, Outcome::Unknown { .. }));
    // It is open: it cannot be let stand as if nothing had happened.
    set.resolve(happened("room-back")).await;
    assert_eq!(
        (set.bed.phase(&set.run).await, undone(&set).await),
        (Phase::Failed, vec!["room".into(), "seat".into()])
    );
}

#[tokio::test(start_paused = true)]
async fn what_takes_back_and_may_have_happened_cannot_be_let_stand_unsettled() {
    let shop = Shop::default();
    shop.will("room-back", std::iter::repeat_n(Does::Loses, 6));
    let set = Set::settled(&[Do::Buy(ROOM), Do::Fail], shop).await;
    let refused = set.let_stand().await.unwrap_err();
    assert!(matches!(&refused, ClientError::NotUndoing { phase: Phase::Parked, .. }), "{refused}");
    set.bed.settle().await;
    assert_eq!(set.bed.parked(&set.run).await.code(), "unknown-outcome");
}

/// What is heard of it later changes nothing of the order in which things were done.
#[tokio::test(start_paused = true)]
async fn what_late_evidence_settles_is_taken_back_in_its_turn() {
    let shop = Shop::default();
    shop.will("car", [Does::Loses]);
    let set = Set::settled(&[Do::Both(CAR, SEAT), Do::Fail], shop).await;
    assert_eq!(set.bed.parked(&set.run).await.code(), "unknown-outcome");
    let progress = set.bed.checkpoint(&set.run).await.progress;
    let [car, other] = &progress.journal[..] else { panic!("{:?}", progress.journal) };
    assert_eq!((car.name.as_str(), other.name.as_str()), ("car", "seat"));
    let outcome = Outcome::Succeeded(Payload::Inline(Json::of("a car").unwrap()));
    let payload = Payload::Inline(Json::of(&EffectRecord { outcome, ..car.clone() }).unwrap());
    let (id, name) = (SignalId::new("evidence-1").unwrap(), SignalName::new(EVIDENCE).unwrap());
    let letter = Letter { id, name, payload, at: set.bed.now() };
    let (run, now) = (set.run.clone(), set.bed.now());
    let request = WriteRequest { run, id: WriteId(1_888), now, write: Write::Signal(Box::new(letter)) };
    assert!(matches!(set.bed.memory.write(&request).await, Ok(Written::Applied(_))));
    set.bed.resume(&set.run).await;
    set.bed.settle().await;
    assert_eq!(set.bed.failure(&set.run).await.message, "sold out");
    assert_eq!((undone(&set).await, set.shop.stands()), (vec!["seat".into(), "car".into()], vec![]));
    assert_eq!(set.shop.requests(), ["car", "seat", "seat-back", "car-back"]);
}
