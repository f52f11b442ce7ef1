//! One order, whichever run makes it: effects whose key is unique across runs.

use std::sync::{Arc, Mutex};

use stepwell::prelude::*;
use stepwell_core::decide::Resolution;
use stepwell_core::limits::LEDGER_RECORDS_MAX;
use stepwell_core::{Phase, RunId};
use stepwell_testkit::crash::{CrashPoint, Side};
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, minute, one_step, secs};
use crate::shop::{Buy, Do, Does, Kind, Order, Set, Shop, Thing, buy, happened};

const SEAT: Buy = buy(Thing::Seat, Kind::Idempotent).across();
const CAR: Buy = buy(Thing::Car, Kind::Once).across();

async fn another(set: &Set, plan: &[Do]) -> RunId {
    set.bed.start::<Order>(plan).await
}

/// One step of this run. Messages of others come again later.
async fn turn_of(set: &Set, run: &RunId) {
    loop {
        let delivery = set.bed.receive(secs(1)).await.unwrap();
        if delivery.message.run == *run {
            set.bed.work(&set.bed.engine(), &delivery, &one_step()).await;
            return;
        }
    }
}

/// Why a run is tried again.
async fn trouble(set: &Set, run: &RunId) -> String {
    let progress = set.bed.checkpoint(run).await.progress;
    progress.trouble.expect("it has no trouble").last.to_string()
}

#[tokio::test(start_paused = true)]
async fn the_second_run_gets_the_first_ones_result() {
    for what in [SEAT, CAR] {
        let set = Set::settled(&[Do::Buy(what)], Shop::default()).await;
        let second = another(&set, &[Do::Buy(what), Do::Buy(what)]).await;
        set.bed.settle().await;
        let first: Vec<String> = set.bed.output(&set.run).await;
        let both: Vec<String> = set.bed.output(&second).await;
        assert_eq!((both, set.shop.requests().len()), ([first.clone(), first].concat(), 1));
    }
}

#[tokio::test(start_paused = true)]
async fn two_runs_at_once_act_once() {
    for what in [SEAT, CAR] {
        let shop = Shop::default();
        shop.will("seat", [Does::Slowly(3)]);
        shop.will("car", [Does::Slowly(3)]);
        let set = Set::within::<0>(&[Do::Buy(what)], shop).await;
        let second = another(&set, &[Do::Buy(what)]).await;
        let _workers = (set.bed.worker("a"), set.bed.worker("b"));
        for run in [&set.run, &second] {
            set.bed.until_phase(run, Phase::Completed).await;
        }
        assert_eq!((set.shop.requests().len(), set.shop.acted_twice()), (1, vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_first_was_refused_the_second_may_ask_for() {
    let shop = Shop::default();
    shop.will("car", [Does::Refuses]);
    let set = Set::settled(&[Do::Buy(CAR)], shop).await;
    assert_eq!(set.bed.phase(&set.run).await, Phase::Failed);
    let second = another(&set, &[Do::Buy(CAR)]).await;
    set.bed.settle().await;
    assert_eq!((set.bed.phase(&second).await, set.shop.requests().len()), (Phase::Completed, 2));
    // It is the second's now.
    let third = another(&set, &[Do::Buy(CAR)]).await;
    set.bed.settle().await;
    assert_eq!((set.bed.phase(&third).await, set.shop.requests().len()), (Phase::Completed, 2));
}

#[tokio::test(start_paused = true)]
async fn what_the_first_never_sent_the_second_sends() {
    let set = Set::of(&[Do::Buy(CAR)]).await;
    // Its claim stands; its intent comes after the cancellation.
    let slow = |_, call| if call == PortCall::Commit { Fate::SlowStart(secs(1)) } else { Fate::Pass };
    let gate = Gate::planned(slow);
    let engine = set.bed.engine_behind(&gate, "w");
    let delivery = set.bed.receive(secs(1)).await.unwrap();
    let time = minute();
    tokio::join!(set.bed.work(&engine, &delivery, &time), async {
        tokio::time::sleep(secs(1) / 2).await;
        set.cancel().await;
    });
    set.bed.settle().await;
    assert_eq!((set.certificate().await.never_sent.len(), gate.count(PortCall::Claim)), (1, 1));
    let second = another(&set, &[Do::Buy(CAR)]).await;
    set.bed.settle().await;
    assert_eq!((set.bed.phase(&second).await, set.shop.requests().len()), (Phase::Completed, 1));
}

#[tokio::test(start_paused = true)]
async fn while_the_firsts_outcome_is_open_the_second_waits() {
    for resolution in [happened("car"), Resolution::Failed("not theirs".into())] {
        let shop = Shop::default();
        let acts_anew = matches!(resolution, Resolution::Failed(_));
        shop.will("car", [if acts_anew { Does::Misses } else { Does::Loses }]);
        let set = Set::settled(&[Do::Buy(CAR)], shop).await;
        let second = another(&set, &[Do::Buy(CAR)]).await;
        set.bed.turn(&one_step()).await;
        let why = trouble(&set, &second).await;
        assert!(why.contains(&format!("effect car is run {}'s, which may have made it", set.run)), "{why}");
        set.resolve(resolution).await;
        assert_eq!((set.bed.phase(&second).await, set.shop.acted_twice()), (Phase::Completed, vec![]));
        assert_eq!(set.shop.requests().len(), 1 + usize::from(acts_anew));
    }
}

#[tokio::test(start_paused = true)]
async fn the_second_does_not_wait_for_ever_and_does_not_act() {
    let shop = Shop::default();
    shop.will("car", [Does::Loses]);
    let set = Set::settled(&[Do::Buy(CAR)], shop).await;
    let second = another(&set, &[Do::Buy(CAR)]).await;
    set.bed.settle().await;
    let failure = set.bed.failure(&second).await;
    assert_eq!((failure.code.as_deref(), set.shop.requests().len()), (Some("taken"), 1));

    // Signed off, it may have happened still.
    set.cancel().await;
    set.resolve(Resolution::SignOff).await;
    assert_eq!(set.bed.phase(&set.run).await, Phase::Cancelled);
    let third = another(&set, &[Do::Buy(CAR)]).await;
    set.bed.settle().await;
    assert_eq!((set.bed.failure(&third).await.code.as_deref(), set.shop.requests().len()), (Some("taken"), 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nothing_is_recorded_of_is_never_taken_over() {
    let set = Set::of(&[Do::Buy(SEAT)]).await;
    let gate = Gate::open();
    set.shop.will("seat", [Does::Kills(gate.fuse().clone())]);
    let delivery = set.bed.receive(secs(1)).await.unwrap();
    let (engine, time) = (set.bed.engine_behind(&gate, "dies"), minute());
    assert!(gate.fuse().while_alive(engine.turn(&delivery.message, &time)).await.is_none());
    set.cancel().await;
    set.bed.settle().await;
    // What its worker may have done is known, though it has died in the call.
    assert_eq!(set.bed.parked(&set.run).await.code(), "unknown-outcome");
    let second = another(&set, &[Do::Buy(SEAT)]).await;
    set.bed.turn(&one_step()).await;
    assert!(trouble(&set, &second).await.contains("which may have made it"));
    set.resolve(happened("seat")).await;
    assert_eq!((set.bed.phase(&second).await, set.shop.requests().len()), (Phase::Completed, 1));
}

/// Its claim stands, its intent is on its way, and nothing is recorded: for all that the second can see, it may call at any moment.
#[tokio::test(start_paused = true)]
async fn while_the_first_is_about_to_call_the_second_waits() {
    let set = Set::of(&[Do::Buy(SEAT)]).await;
    let gate = Gate::planned(|_, call| if call == PortCall::Commit { Fate::SlowStart(secs(1)) } else { Fate::Pass });
    let engine = set.bed.engine_behind(&gate, "w");
    let delivery = set.bed.receive(secs(1)).await.unwrap();
    let time = minute();
    let (_, second) = tokio::join!(set.bed.work(&engine, &delivery, &time), async {
        tokio::time::sleep(secs(1) / 2).await;
        assert_eq!(set.bed.checkpoint(&set.run).await.progress.journal, [], "nothing is recorded");
        let second = another(&set, &[Do::Buy(SEAT)]).await;
        let (looks, delivery) = (Gate::open(), set.bed.receive(secs(1)).await.unwrap());
        set.bed.work(&set.bed.engine_behind(&looks, "v"), &delivery, &one_step()).await;
        let why = trouble(&set, &second).await;
        assert!(why.contains("which has not made it yet"), "{why}");
        assert_eq!(looks.count(PortCall::Effect), 0, "nothing of it lies beside its checkpoint");
        assert_eq!(set.shop.requests().len(), 0);
        second
    });
    set.bed.settle().await;
    assert_eq!((set.bed.phase(&set.run).await, set.bed.phase(&second).await), (Phase::Completed, Phase::Completed));
    assert_eq!(set.shop.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_first_has_taken_back_is_nobodys_result() {
    let shop = Shop::default();
    let set = Set::within::<0>(&[Do::Buy(SEAT.undo()), Do::Fail], shop).await;
    set.bed.turn(&one_step()).await;
    set.bed.turn(&one_step()).await;
    assert_eq!(set.shop.stands(), ["seat"]);
    for _ in ["while it is about to", "when it has"] {
        let second = another(&set, &[Do::Buy(SEAT)]).await;
        turn_of(&set, &second).await;
        assert!(trouble(&set, &second).await.contains("which has made it and takes it back"));
        set.bed.settle().await;
        assert_eq!(set.bed.failure(&second).await.code.as_deref(), Some("taken"));
    }
    assert_eq!((set.shop.requests(), set.shop.stands()), (vec!["seat", "seat-back"], vec![]));
}

#[tokio::test(start_paused = true)]
async fn the_firsts_worker_may_die_at_any_of_its_calls() {
    for side in Side::BOTH {
        for call in 1.. {
            let gate = Gate::crashing(CrashPoint { call, side });
            let set = Set::of(&[Do::Buy(SEAT)]).await;
            let delivery = set.bed.receive(secs(1)).await.unwrap();
            let (engine, time) = (set.bed.engine_behind(&gate, "dies"), minute());
            gate.fuse().while_alive(set.bed.work(&engine, &delivery, &time)).await;
            if gate.total() < call {
                assert!(call > 4, "too few points were tried");
                break;
            }
            let second = another(&set, &[Do::Buy(SEAT)]).await;
            let _worker = set.bed.worker("w");
            let point = format!("{side} call {call}");
            for run in [&set.run, &second] {
                let ended = set.bed.until(run, |checkpoint| checkpoint.progress.status.phase().is_ended()).await;
                let code = match &ended.progress.status {
                    stepwell_core::Status::Failed { failure, .. } => failure.code.clone(),
                    _ => None,
                };
                // The second may have given up while the first was dead; it never acts then.
                let gave_up = *run == second && code.as_deref() == Some("taken");
                assert!(gave_up || ended.progress.status.phase() == Phase::Completed, "{point}: {ended:?}");
            }
            assert_eq!((set.shop.acted_twice(), set.shop.stands()), (vec![], vec!["seat".into()]), "{point}");
            assert_eq!(set.bed.witness.violations(), Vec::<String>::new());
        }
    }
}

/// Pays for the order, once whichever run asks; then, if it is told to, books a seat and sends as many letters as a ledger has room
/// for, until its budget is spent.
struct Crowded(Arc<Mutex<Vec<String>>>);

#[derive(Serialize, Deserialize)]
enum At {
    Pay,
    Crowd,
    Back,
}

impl Crowded {
    fn done(&self, what: &str) -> Result<u32, CallError> {
        self.0.lock().map_err(|_| CallError::retry("a test has panicked"))?.push(what.to_owned());
        Ok(7)
    }
}

impl Workflow for Crowded {
    const NAME: &'static str = "crowded";
    type Input = bool;
    type State = bool;
    type Step = At;
    type Output = u32;

    fn begin(&self, crowds: bool) -> (At, bool) {
        (At::Pay, crowds)
    }

    fn budget() -> Budget {
        Budget::none().of_run("cents", 10)
    }

    async fn step(&self, at: At, crowds: &mut bool, cx: &Cx) -> StepResult<Self> {
        match at {
            At::Pay => {
                let pay = cx.effect("pay").key("order-7").once().across_runs();
                let paid = pay.call(async |_| self.done("pay")).await?;
                Ok(if *crowds { goto(At::Crowd) } else { complete(paid) })
            }
            At::Crowd => {
                let seat = cx.effect("seat").key("order-7").idempotent().undo(&At::Back);
                seat.call(async |_| self.done("seat")).await?;
                for number in 0..LEDGER_RECORDS_MAX {
                    cx.effect("letter").key(number).idempotent().call(async |_| self.done("letter")).await?;
                }
                let dear = cx.effect("dear").key("order-7").idempotent().costs("cents", 99);
                dear.call(async |_| self.done("dear")).await?;
                Ok(complete(1))
            }
            At::Back => {
                let result = cx.result_to_undo::<u32>().await?;
                let back = cx.effect("seat-back").idempotent();
                back.call(async |_| self.done(&format!("back of {result:?}"))).await?;
                Ok(undone())
            }
        }
    }
}

/// A parked run whose ledger is full when it is cancelled: what there is no room for is found beside the checkpoint.
#[tokio::test(start_paused = true)]
async fn what_a_cancelled_run_with_a_full_ledger_has_made_no_other_run_makes() {
    let books = Arc::default();
    let bed = Bed::new(Registry::new().with(Crowded(Arc::clone(&books))));
    let first = bed.start::<Crowded>(true).await;
    bed.settle().await;
    assert_eq!(bed.parked(&first).await.code(), "budget");
    bed.client().cancel(&first, "ann", None).await.unwrap();
    bed.settle().await;
    let progress = bed.checkpoint(&first).await.progress;
    assert_eq!((progress.status.phase(), progress.ledger.len()), (Phase::Cancelled, LEDGER_RECORDS_MAX));
    // The payment and the seat.
    assert_eq!(progress.spilled, 2);
    let second = bed.start::<Crowded>(false).await;
    bed.settle().await;
    assert_eq!(bed.output::<u32>(&second).await, 7);
    let done = books.lock().unwrap().clone();
    assert_eq!(done.iter().filter(|what| *what == "pay").count(), 1, "{done:?}");
    assert_eq!((done.last().map(String::as_str), done.len()), (Some("back of Some(7)"), LEDGER_RECORDS_MAX + 3));
    assert_eq!(bed.witness.violations(), Vec::<String>::new());
}
