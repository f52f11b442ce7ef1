//! Budgets: what a run and its steps may spend, and what becomes of it when that is spent.

use stepwell::{Registry, Workflow, hours};
use stepwell_core::budget::{ATTEMPTS, EFFECTS, OverBudget, Span, WALL_MS};
use stepwell_core::{Amounts, FailureKind, ParkReason, Phase, WorkflowName};
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{T0, minute, secs};
use crate::shop::{Buy, Do, Does, GO, Kind, Order, Set, Shop, Thing, budget_of, buy};

const SEAT: Buy = buy(Thing::Seat, Kind::Idempotent);
const ROOM: Buy = buy(Thing::Room, Kind::Idempotent);

fn over(span: Span, counter: &str, limit: u64, spent: u64) -> OverBudget {
    OverBudget { span, counter: counter.into(), limit, spent }
}

async fn parked(set: &Set) -> OverBudget {
    match set.bed.parked(&set.run).await {
        ParkReason::Budget(over) => over,
        other => panic!("parked for another reason: {other}"),
    }
}

async fn settled<const B: usize>(plan: &[Do], shop: Shop) -> Set {
    let set = Set::within::<B>(plan, shop).await;
    set.bed.settle().await;
    set
}

/// What steps that have ended have cost.
async fn spent(set: &Set) -> Amounts {
    set.bed.checkpoint(&set.run).await.progress.spent.ended
}

fn cents(amount: u64) -> Amounts {
    Amounts::from([("cents".into(), amount)])
}

#[tokio::test(start_paused = true)]
async fn what_would_be_too_much_is_not_called_and_a_person_may_allow_as_much_again() {
    let set = settled::<1>(&[Do::Buy(SEAT.costs(60, None)), Do::Buy(ROOM.costs(60, None))], Shop::default()).await;
    assert_eq!(parked(&set).await, over(Span::Run, "cents", 100, 120));
    assert_eq!((set.shop.requests(), spent(&set).await), (vec!["seat"], cents(60)));
    set.bed.resume(&set.run).await;
    set.bed.settle().await;
    assert_eq!((set.bed.phase(&set.run).await, set.shop.requests()), (Phase::Completed, vec!["seat", "room"]));
    assert_eq!(spent(&set).await, cents(120));
    assert_eq!(set.bed.witness.violations(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_a_call_says_it_has_cost_makes_room() {
    let set = settled::<1>(&[Do::Buy(SEAT.costs(60, Some(40))), Do::Buy(ROOM.costs(60, None))], Shop::default()).await;
    assert_eq!((set.bed.phase(&set.run).await, spent(&set).await), (Phase::Completed, cents(100)));
}

#[tokio::test(start_paused = true)]
async fn what_was_not_done_or_refused_costs_nothing_and_what_acts_once_costs_once() {
    for (does, seat) in [(Does::Busy, 60), (Does::Misses, 60), (Does::Loses, 60), (Does::Refuses, 0)] {
        let shop = Shop::default();
        shop.will("seat", [does.clone()]);
        let set = settled::<1>(&[Do::Try(SEAT.costs(60, None)), Do::Buy(SEAT.costs(60, None))], shop.clone()).await;
        // Refused is refused: asked again it costs nothing either.
        assert_eq!(spent(&set).await, if seat == 0 { Amounts::new() } else { cents(seat) });
        assert_eq!(shop.acted_twice(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_have_happened_counts_fully() {
    let shop = Shop::default();
    shop.will("seat", [Does::Loses]);
    let plan = [Do::Try(SEAT.costs(60, Some(1))), Do::Buy(ROOM.costs(60, None))];
    let set = settled::<1>(&plan, shop).await;
    assert_eq!(parked(&set).await, over(Span::Run, "cents", 100, 120));
    assert_eq!(set.shop.requests(), ["seat"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_to_fail_then_fails_and_takes_back_what_it_has_done() {
    let plan = [Do::Buy(SEAT.undo().costs(99, None)), Do::Buy(ROOM.costs(60, None))];
    let set = settled::<2>(&plan, Shop::default()).await;
    let failure = set.bed.failure(&set.run).await;
    assert_eq!(failure.kind, FailureKind::Budget);
    assert!(
        failure.message.contains("the run's budget of 100 cents does not allow it: 159 would be spent"),
        "{failure}"
    );
    // What takes back is not held up by what it costs.
    assert_eq!((set.shop.requests(), spent(&set).await), (vec!["seat", "seat-back"], cents(100)));
}

#[tokio::test(start_paused = true)]
async fn of_calls_beside_each_other_those_are_made_that_fit() {
    for (number, limit) in [(1, over(Span::Run, "cents", 100, 120)), (3, over(Span::Step, "cents", 60, 120))] {
        let plan = [Do::Both(SEAT.costs(60, None), ROOM.costs(60, None))];
        let set = match number {
            1 => settled::<1>(&plan, Shop::default()).await,
            _ => settled::<3>(&plan, Shop::default()).await,
        };
        assert_eq!((parked(&set).await, set.shop.requests()), (limit, vec!["seat"]));
        set.bed.resume(&set.run).await;
        set.bed.settle().await;
        // The first is on record: only the second is called now.
        assert_eq!((set.bed.phase(&set.run).await, set.shop.requests()), (Phase::Completed, vec!["seat", "room"]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_steps_budget_begins_anew_with_each_step() {
    let plan = [
        Do::Buy(SEAT.costs(60, None)),
        Do::Buy(ROOM.costs(60, None)),
        Do::Buy(buy(Thing::Car, Kind::Once).costs(61, None)),
    ];
    let set = settled::<3>(&plan, Shop::default()).await;
    assert_eq!((parked(&set).await, set.shop.requests()), (over(Span::Step, "cents", 60, 61), vec!["seat", "room"]));
    assert_eq!(spent(&set).await, cents(120));
}

#[tokio::test(start_paused = true)]
async fn effects_are_counted_reads_too() {
    let plan = [Do::Buy(buy(Thing::Seat, Kind::Read)), Do::Buy(SEAT), Do::Buy(ROOM)];
    let plan = [plan[0].clone(), Do::Buy(buy(Thing::Car, Kind::Once)), plan[2].clone()];
    let set = settled::<4>(&plan, Shop::default()).await;
    assert_eq!((parked(&set).await, set.shop.requests()), (over(Span::Run, EFFECTS, 2, 3), vec!["seat", "car"]));
}

#[tokio::test(start_paused = true)]
async fn attempts_are_counted_crashed_ones_too() {
    let shop = Shop::default();
    shop.will("seat", [Does::Busy, Does::Busy]);
    let set = Set::within::<5>(&[Do::Buy(SEAT), Do::Buy(ROOM), Do::Buy(buy(Thing::Car, Kind::Once))], shop).await;
    // The first worker dies before it has done anything.
    let gate = Gate::planned(|_, call| if call == PortCall::Acquire { Fate::DieAfter } else { Fate::Pass });
    let delivery = set.bed.receive(secs(1)).await.unwrap();
    let (engine, time) = (set.bed.engine_behind(&gate, "dies"), minute());
    assert!(gate.fuse().while_alive(engine.turn(&delivery.message, &time)).await.is_none());
    set.bed.settle().await;
    assert_eq!(parked(&set).await, over(Span::Run, ATTEMPTS, 4, 5));
    // One crashed, two failed, one worked.
    assert_eq!(set.shop.requests(), ["seat", "seat", "seat"]);
    set.bed.resume(&set.run).await;
    set.bed.settle().await;
    assert_eq!((set.bed.phase(&set.run).await, set.shop.requests().len()), (Phase::Completed, 5));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_lived_long_enough_is_woken_and_parked() {
    for plan in [[Do::Wait], [Do::Nap(7_200)]] {
        let set = Set::within::<6>(&plan, Shop::default()).await;
        let _worker = set.bed.worker("w");
        set.bed.until_phase(&set.run, Phase::Waiting).await;
        tokio::time::sleep(secs(3_590)).await;
        assert_eq!(set.bed.phase(&set.run).await, Phase::Waiting);
        set.bed.until_phase(&set.run, Phase::Parked).await;
        let OverBudget { counter, limit, .. } = parked(&set).await;
        assert_eq!((counter.as_str(), limit), (WALL_MS, 3_600_000));
        let age = set.bed.now().since(T0);
        assert!(age >= hours(1) && age < hours(1) + secs(5), "{age:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_the_end_of_the_budget_has_cut_goes_on_when_the_run_is_resumed() {
    let napping = Set::within::<6>(&[Do::Nap(7_200)], Shop::default()).await;
    let _worker = napping.bed.worker("w");
    napping.bed.until_phase(&napping.run, Phase::Parked).await;
    napping.bed.resume(&napping.run).await;
    napping.bed.until_phase(&napping.run, Phase::Completed).await;
    let age = napping.bed.now().since(T0);
    assert!(age >= hours(2) && age < hours(2) + secs(5), "{age:?}");

    let waiting = Set::within::<6>(&[Do::Wait], Shop::default()).await;
    let _worker = waiting.bed.worker("w");
    waiting.bed.until_phase(&waiting.run, Phase::Parked).await;
    waiting.bed.resume(&waiting.run).await;
    tokio::time::sleep(secs(60)).await;
    assert_eq!(waiting.bed.phase(&waiting.run).await, Phase::Waiting);
    waiting.bed.signal(&waiting.run, GO, ()).await;
    waiting.bed.until_phase(&waiting.run, Phase::Completed).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_lived_long_enough_fails_if_it_is_to() {
    let set = Set::within::<7>(&[Do::Buy(SEAT.undo()), Do::Wait], Shop::default()).await;
    let _worker = set.bed.worker("w");
    tokio::time::sleep(hours(1)).await;
    set.bed.until_phase(&set.run, Phase::Failed).await;
    assert_eq!(set.bed.failure(&set.run).await.kind, FailureKind::Budget);
    assert_eq!(set.shop.stands(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_deployment_may_raise_it() {
    let set =
        settled::<1>(&[Do::Buy(SEAT.costs(60, None)), Do::Wait, Do::Buy(ROOM.costs(60, None))], Shop::default()).await;
    let bed = set.bed.deployed(Registry::new().with(Order::<1, 8>(set.shop.clone())));
    bed.signal(&set.run, GO, ()).await;
    bed.settle().await;
    assert_eq!((bed.phase(&set.run).await, spent(&set).await), (Phase::Completed, cents(120)));
    assert_eq!(Order::<1, 8>::budget(), budget_of(8));
    // Who shows a run beside its budget asks the client, whose program may not know the workflow.
    let order = WorkflowName::new(Order::<1, 8>::NAME).unwrap();
    assert_eq!(bed.client().budget(&order), Some(&budget_of(8)));
    assert_eq!(bed.client().budget(&WorkflowName::new("unknown").unwrap()), None);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_parked_over_it_can_be_cancelled() {
    let plan = [Do::Buy(SEAT.undo().costs(60, None)), Do::Buy(ROOM.costs(60, None))];
    let set = settled::<1>(&plan, Shop::default()).await;
    parked(&set).await;
    set.cancel().await;
    set.bed.settle().await;
    assert_eq!((set.certificate().await.undone.len(), set.shop.stands()), (1, vec![]));
}
