//! A cancelled run whose effects may have happened: each is asked about, settled or signed off before the run ends.

use std::time::Duration;

use stepwell_core::decide::Resolution;
use stepwell_core::undo::CertifiedEffect;
use stepwell_core::{Certificate, Phase};
use stepwell_engine::ClientError;
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{GRACE, minute, secs};
use crate::shop::{Do, Does, Kind, Set, Shop, Thing, buy, happened};

const ONCE: Do = Do::Buy(buy(Thing::Car, Kind::Once));
const ASKED: Do = Do::Buy(buy(Thing::Room, Kind::Reconcilable));
const SEAT: Do = Do::Buy(buy(Thing::Seat, Kind::Idempotent).undo());

fn names(effects: &[CertifiedEffect]) -> Vec<&str> {
    effects.iter().map(|effect| effect.name.as_str()).collect()
}

fn lists(certificate: &Certificate) -> [Vec<&str>; 4] {
    [&certificate.uncertain, &certificate.never_sent, &certificate.undone, &certificate.stands].map(|list| names(list))
}

/// A run whose car may have been bought, and that nobody wants any more.
async fn open_and_cancelled(does: Does) -> Set {
    let shop = Shop::default();
    shop.will("car", [does]);
    let set = Set::settled(&[SEAT, ONCE], shop).await;
    assert_eq!(set.bed.parked(&set.run).await.code(), "unknown-outcome");
    set.cancel().await;
    set.bed.settle().await;
    assert_eq!(set.bed.audit(GRACE).await.unknowns, 1);
    // It is asked for, and has to wait.
    let checkpoint = set.bed.checkpoint(&set.run).await;
    assert_eq!((checkpoint.phase(set.bed.now()), checkpoint.cancel.is_some()), (Phase::Parked, true));
    assert_eq!(set.shop.requests(), ["seat", "car"]);
    set
}

#[tokio::test(start_paused = true)]
async fn a_persons_word_settles_it_and_the_run_ends_with_that() {
    for (resolution, confirmed, failed, never_sent) in [
        (happened("car"), 3, 0, vec![]),
        (Resolution::Failed("not theirs".into()), 2, 1, vec![]),
        // Nobody tries again: the run is cancelled.
        (Resolution::TryAgain, 2, 0, vec!["car"]),
    ] {
        let set = open_and_cancelled(Does::Loses).await;
        set.resolve(resolution).await;
        let certificate = set.certificate().await;
        assert_eq!(lists(&certificate), [vec![], never_sent, vec!["seat"], vec![]]);
        // The seat, what took it back, and maybe the car.
        assert_eq!((certificate.confirmed, certificate.failed), (confirmed, failed));
        assert_eq!(set.shop.requests(), ["seat", "car", "seat-back"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_will_ever_know_is_signed_off_and_listed() {
    let set = open_and_cancelled(Does::Misses).await;
    let open = set.open().await;
    set.resolve(Resolution::SignOff).await;
    let certificate = set.certificate().await;
    assert_eq!(lists(&certificate), [vec!["car"], vec![], vec!["seat"], vec![]]);
    let car = &certificate.uncertain[0];
    assert_eq!((car.attempts, car.until, car.key.as_ref()), (1, open.until, Some(&open.key)));
    assert_eq!(car.signed_off_by.as_deref(), Some("ann"));
    let story = set.bed.story(&set.run).await;
    assert!(story.ends_with("Do:parked Do:resolved Do:undoing Undo:intended Undo:undone"), "{story}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_still_land_is_not_settled_yet() {
    let shop = Shop::default();
    shop.will("car", [Does::Misses]);
    let set = Set::within::<0>(&[ONCE], shop).await;
    set.bed.turn(&minute()).await;
    set.cancel().await;
    let refused = set.try_resolve(Resolution::SignOff).await.unwrap_err();
    assert!(matches!(refused, ClientError::OnItsWay { .. }), "{refused}");
    tokio::time::advance(secs(10)).await;
    set.resolve(Resolution::SignOff).await;
    assert_eq!(names(&set.certificate().await.uncertain), ["car"]);
}

#[tokio::test(start_paused = true)]
async fn resuming_settles_nothing() {
    let set = open_and_cancelled(Does::Loses).await;
    set.bed.resume(&set.run).await;
    set.bed.settle().await;
    assert_eq!((set.bed.parked(&set.run).await.code(), set.shop.requests()), ("unknown-outcome", vec!["seat", "car"]));
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_during_the_call_waits_for_what_comes_of_it() {
    for (does, phase) in [(Does::Slowly(5), Phase::Cancelled), (Does::Slowly(60), Phase::Parked)] {
        let shop = Shop::default();
        shop.will("car", [does]);
        let set = Set::within::<0>(&[ONCE], shop).await;
        let time = minute();
        tokio::join!(set.bed.turn(&time), async {
            tokio::time::sleep(secs(2)).await;
            set.cancel().await;
        });
        set.bed.settle().await;
        assert_eq!(set.bed.phase(&set.run).await, phase);
        if phase == Phase::Cancelled {
            assert_eq!(set.certificate().await.confirmed, 1);
        }
    }
}

/// Has asked for a room, has heard nothing, and is cancelled before it can ask about it.
async fn unheard(does: Does, mute: bool) -> Set {
    let shop = Shop::default();
    shop.will("room", [does]);
    shop.books().mute = mute;
    let set = Set::within::<0>(&[SEAT, ASKED, Do::Wait], shop).await;
    set.bed.turn(&minute()).await;
    assert_eq!(set.bed.phase(&set.run).await, Phase::Retrying);
    set.cancel().await;
    set.bed.settle().await;
    set
}

#[tokio::test(start_paused = true)]
async fn what_can_be_asked_about_is_asked_about_and_not_called() {
    let set = unheard(Does::Loses, false).await;
    let certificate = set.certificate().await;
    assert_eq!(lists(&certificate), [vec![], vec![], vec!["seat"], vec![]]);
    // The seat, the room, and what took the seat back.
    assert_eq!((certificate.confirmed, set.shop.stands()), (3, vec!["room".into()]));
    assert_eq!((set.shop.requests(), set.shop.asked_about()), (vec!["seat", "room", "seat-back"], 1));

    let set = unheard(Does::Misses, false).await;
    let certificate = set.certificate().await;
    assert_eq!(lists(&certificate), [vec![], vec!["room"], vec!["seat"], vec![]]);
    assert_eq!((certificate.confirmed, certificate.failed, set.shop.asked_about()), (2, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn an_outside_that_cannot_tell_is_asked_for_a_while_then_a_person_is() {
    let set = unheard(Does::Loses, true).await;
    assert_eq!(set.bed.parked(&set.run).await.code(), "unknown-outcome");
    // Under the step's own policy: of its six attempts the first was the call, and the second came before that could no longer land.
    assert_eq!((set.shop.asked_about(), set.shop.requests()), (4, vec!["seat", "room"]));
    set.resolve(happened("room")).await;
    let certificate = set.certificate().await;
    assert_eq!(lists(&certificate), [vec![], vec![], vec!["seat"], vec![]]);
    assert_eq!(certificate.confirmed, 3);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_cancellation_came_before_was_never_sent() {
    for kind in [Kind::Once, Kind::Reconcilable] {
        let set = Set::of(&[Do::Buy(buy(Thing::Car, kind))]).await;
        let slow = |_, call| if call == PortCall::Commit { Fate::SlowStart(secs(1)) } else { Fate::Pass };
        let engine = set.bed.engine_behind(&Gate::planned(slow), "w");
        let delivery = set.bed.receive(secs(1)).await.unwrap();
        let time = minute();
        tokio::join!(set.bed.work(&engine, &delivery, &time), async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            set.cancel().await;
        });
        set.bed.settle().await;
        let certificate = set.certificate().await;
        assert_eq!(lists(&certificate), [vec![], vec!["car"], vec![], vec![]]);
        assert_eq!((certificate.never_sent[0].attempts, certificate.failed), (0, 0));
        assert_eq!(set.shop.requests().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_step_has_left_open_is_settled_too() {
    let shop = Shop::default();
    shop.will("car", [Does::Loses]);
    let set = Set::settled(&[Do::Try(buy(Thing::Car, Kind::Once)), Do::Wait], shop).await;
    assert_eq!(set.bed.phase(&set.run).await, Phase::Waiting);
    set.cancel().await;
    set.bed.settle().await;
    assert_eq!(set.bed.parked(&set.run).await.code(), "unknown-outcome");
    set.resolve(Resolution::SignOff).await;
    assert_eq!(names(&set.certificate().await.uncertain), ["car"]);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_ends_the_run_with_an_effect_open_ends_as_cancelled() {
    let shop = Shop::default();
    shop.will("car", [Does::Slowly(60)]);
    let set = Set::within::<0>(&[Do::Try(buy(Thing::Car, Kind::Once))], shop).await;
    let time = minute();
    tokio::join!(set.bed.turn(&time), async {
        tokio::time::sleep(secs(2)).await;
        set.cancel().await;
    });
    set.bed.settle().await;
    assert_eq!(set.bed.parked(&set.run).await.code(), "unknown-outcome");
    set.resolve(happened("car")).await;
    assert_eq!(set.certificate().await.confirmed, 1);
    assert_eq!(set.bed.witness.violations(), Vec::<String>::new());
}

/// The write that would park it comes after the cancellation, and is not made; the step that asks instead makes no other call.
#[tokio::test(start_paused = true)]
async fn a_cancellation_that_comes_before_a_decided_write_is_known_to_the_step_that_runs_then() {
    let shop = Shop::default();
    shop.will("room", [Does::Loses]);
    shop.will("seat", std::iter::repeat_n(Does::Busy, 4));
    shop.books().mute = true;
    let both = [Do::Both(buy(Thing::Room, Kind::Reconcilable), buy(Thing::Seat, Kind::Idempotent))];
    let set = Set::within::<5>(&both, shop).await;
    for _ in 0..4 {
        set.bed.turn(&minute()).await;
    }
    let before = set.bed.checkpoint(&set.run).await.progress;
    assert_eq!((before.status.phase(), before.spent.attempts), (Phase::Retrying, 4));
    assert_eq!(set.shop.requests().len(), 5);

    let slow = |_, call| if call == PortCall::Commit { Fate::SlowStart(secs(1)) } else { Fate::Pass };
    let gate = Gate::planned(slow);
    let engine = set.bed.engine_behind(&gate, "w");
    let delivery = set.bed.receive(minute().soft).await.unwrap();
    let time = minute();
    tokio::join!(set.bed.work(&engine, &delivery, &time), async {
        tokio::time::sleep(secs(1) / 2).await;
        set.shop.books().mute = false;
        set.cancel().await;
    });
    // The refused one, and the one that was written instead.
    assert_eq!(gate.count(PortCall::Commit), 2);
    set.bed.settle().await;
    let certificate = set.certificate().await;
    assert_eq!((certificate.confirmed, lists(&certificate)), (1, [vec![], vec!["seat"], vec![], vec![]]));
    assert_eq!((set.shop.requests().len(), set.shop.stands()), (5, vec!["room".into()]));
}
