//! A person pauses a run through the client: at once, or when its step has ended, whoever dies on the way.

use stepwell_core::decide::{Pause, Resume};
use stepwell_core::mailbox::PAUSE;
use stepwell_core::{Json, ParkReason, Phase, Revision, RunId, SignalName};
use stepwell_engine::{ClientError, PauseAnswer, SignalRequest, WorkerSettings};
use stepwell_testkit::crash::{CrashPoint, Side};
use stepwell_testkit::faults::{Fate, Gate, PortCall};

use crate::bed::{Bed, MARK, minute, one_step, secs};
use crate::shop::{Ask, Buy, Do, Does, GO, Kind, Set, Shop, Thing, ask, buy};

const SEAT: Buy = buy(Thing::Seat, Kind::Idempotent);

fn act() -> Pause {
    Pause { by: "ann".into(), why: Some("month end".into()) }
}

async fn pause(set: &Set) -> Result<PauseAnswer, ClientError> {
    set.bed.client().pause(&set.run, &act()).await
}

async fn paused(bed: &Bed, run: &RunId) -> String {
    match bed.parked(run).await {
        ParkReason::Paused { what } => what,
        other => panic!("{other:?}"),
    }
}

const PARKED: PauseAnswer = PauseAnswer { new: true, phase: Phase::Parked };

/// Each live status that nobody holds; what is done to it until it stands so, and what it comes to once it is resumed.
async fn in_each_status() -> Vec<(&'static str, Set, Phase)> {
    let mut found = Vec::new();
    found.push(("created", Set::of(&[Do::Buy(SEAT)]).await, Phase::Completed));
    let set = Set::of(&[Do::Work(1), Do::Buy(SEAT)]).await;
    set.bed.turn(&one_step()).await;
    found.push(("running", set, Phase::Completed));
    for (name, plan) in [
        ("waits for a signal", vec![Do::Wait, Do::Buy(SEAT)]),
        ("waits for a time", vec![Do::Nap(86_400), Do::Buy(SEAT)]),
        ("waits for an approval", vec![Do::Ask(ask(5)), Do::Decide]),
        ("waits for either", vec![Do::Ask(Ask { or_go: true, ..ask(5) }), Do::Decide]),
    ] {
        let set = Set::of(&plan).await;
        set.bed.turn(&minute()).await;
        found.push((name, set, Phase::Waiting));
    }
    let shop = Shop::default();
    shop.will("seat", [Does::Busy]);
    let set = Set::within::<0>(&[Do::Buy(SEAT)], shop).await;
    set.bed.turn(&one_step()).await;
    found.push(("retrying", set, Phase::Completed));
    found
}

#[tokio::test(start_paused = true)]
async fn it_stands_still_at_once_where_nobody_works_on_it() {
    for (name, set, then) in in_each_status().await {
        let before = set.bed.phase(&set.run).await;
        assert_eq!(pause(&set).await.unwrap(), PARKED, "{name}");
        assert_eq!(paused(&set.bed, &set.run).await, "by ann: month end", "{name}");
        // Asked again, nothing changes.
        let again = PauseAnswer { new: false, phase: Phase::Parked };
        let revision = set.bed.checkpoint(&set.run).await.progress.revision;
        assert_eq!(pause(&set).await.unwrap(), again, "{name}");
        set.bed.settle().await;
        let parked = set.bed.checkpoint(&set.run).await;
        assert_eq!(
            (parked.progress.revision, parked.mailbox.letters.len()),
            (revision, 0),
            "{name}: nobody touches it"
        );
        assert_eq!(set.shop.requests().len(), usize::from(before == Phase::Retrying), "{name}");

        set.bed.resume(&set.run).await;
        // Not so long that its time comes.
        let delivery = set.bed.receive(secs(1)).await.expect("it is woken");
        set.bed.work(&set.bed.engine(), &delivery, &minute()).await;
        assert_eq!(set.bed.phase(&set.run).await, then, "{name}");
        assert_eq!(set.bed.witness.violations(), Vec::<String>::new(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_meanwhile_ends_its_wait_once_it_is_resumed() {
    for (name, set, then) in in_each_status().await {
        if then != Phase::Waiting {
            continue;
        }
        pause(&set).await.unwrap();
        match name {
            "waits for a time" => tokio::time::sleep(secs(90_000)).await,
            "waits for an approval" => drop(set.answers("ann", "finance", true).await.unwrap()),
            _ => drop(set.bed.signal(&set.run, GO, ()).await),
        }
        set.bed.settle().await;
        assert_eq!(set.bed.phase(&set.run).await, Phase::Parked, "{name}: it wakes nobody");
        set.bed.resume(&set.run).await;
        set.bed.settle().await;
        assert_eq!(set.bed.phase(&set.run).await, Phase::Completed, "{name}");
    }
    // A timer that has not passed fires at its time, not before.
    let set = Set::of(&[Do::Nap(600), Do::Buy(SEAT)]).await;
    set.bed.turn(&minute()).await;
    tokio::time::sleep(secs(100)).await;
    pause(&set).await.unwrap();
    tokio::time::sleep(secs(100)).await;
    set.bed.resume(&set.run).await;
    let worker = set.bed.worker("w");
    set.bed.until_phase(&set.run, Phase::Completed).await;
    drop(worker);
    assert!(set.bed.elapsed() >= secs(600) && set.bed.elapsed() < secs(602), "{:?}", set.bed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_worked_on_stands_still_when_its_step_has_ended() {
    let ends = [
        ("works", vec![Do::Work(5), Do::Buy(SEAT)]),
        ("calls", vec![Do::Buy(SEAT), Do::Work(1)]),
        ("works last", vec![Do::Work(5)]),
    ];
    for (name, plan) in ends {
        for soft in [minute(), one_step()] {
            let shop = Shop::default();
            shop.will("seat", [Does::Slowly(5)]);
            let set = Set::within::<0>(&plan, shop).await;
            let delivery = set.bed.receive(secs(1)).await.unwrap();
            let engine = set.bed.engine();
            let ((), ack) = tokio::join!(
                async {
                    tokio::time::sleep(secs(2)).await;
                    let answer = pause(&set).await.unwrap();
                    assert_eq!(answer, PauseAnswer { new: true, phase: Phase::Running }, "{name}");
                    assert!(!set.bed.phase(&set.run).await.is_ended(), "{name}");
                },
                set.bed.work(&engine, &delivery, &soft)
            );
            assert_eq!(ack, stepwell_engine::Ack::Delete, "{name}");
            set.bed.settle().await;
            assert_eq!(paused(&set.bed, &set.run).await, "by ann: month end", "{name}");
            // The effect that was on its way has happened, once.
            set.bed.resume(&set.run).await;
            set.bed.settle().await;
            assert_eq!(set.bed.phase(&set.run).await, Phase::Completed, "{name}");
            assert_eq!(set.shop.acted_twice(), Vec::<String>::new(), "{name}");
            assert!(set.shop.requests().len() <= 1, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_step_ends_the_run_all_the_same() {
    // The step after the last thing to do completes the run: slow enough to be asked for while it runs.
    for (plan, phase) in [(vec![Do::Work(5), Do::Fail], Phase::Failed), (vec![Do::Work(5)], Phase::Completed)] {
        let set = Set::of(&plan).await;
        set.bed.turn(&one_step()).await;
        let slow = |_, call| if call == PortCall::Commit { Fate::SlowStart(secs(2)) } else { Fate::Pass };
        let engine = set.bed.engine_behind(&Gate::planned(slow), "w");
        let delivery = set.bed.receive(secs(1)).await.unwrap();
        let time = minute();
        tokio::join!(set.bed.work(&engine, &delivery, &time), async {
            tokio::time::sleep(secs(1)).await;
            assert_eq!(pause(&set).await.unwrap().phase, Phase::Running);
        });
        assert_eq!(set.bed.phase(&set.run).await, phase);
        let refused = pause(&set).await.unwrap_err();
        assert!(matches!(&refused, ClientError::Ended { what: "pause", .. }), "{refused}");
        assert_eq!(set.bed.messages().await, []);
    }
}

#[tokio::test(start_paused = true)]
async fn it_does_not_slip_in_between_a_workers_look_and_its_write() {
    // Each write of the worker is on its way while the request comes.
    let plans = [vec![Do::Wait, Do::Buy(SEAT)], vec![Do::Nap(30), Do::Buy(SEAT)], vec![Do::Buy(SEAT), Do::Wait]];
    let mut tried = 0;
    for (plan, busy) in plans.iter().flat_map(|plan| [(plan, false), (plan, true)]) {
        for number in 1.. {
            let shop = Shop::default();
            if busy {
                shop.will("seat", [Does::Busy]);
            }
            let set = Set::within::<0>(plan, shop).await;
            let gate = Gate::planned(move |call, _| if call == number { Fate::SlowStart(secs(2)) } else { Fate::Pass });
            let settings = WorkerSettings { turn: secs(60), wait: secs(20), ..WorkerSettings::default() };
            let worker = set.bed.worker_behind(&gate, "w", settings);
            while gate.total() < number && set.bed.elapsed() < secs(50) {
                tokio::time::sleep(secs(1) / 10).await;
            }
            if gate.total() < number || number > 20 {
                break;
            }
            let asked = pause(&set).await;
            if asked.is_ok() {
                // Whoever holds it: not for longer than a step takes.
                let parked = |run: &stepwell_core::Checkpoint| run.progress.status.phase() == Phase::Parked;
                set.bed.until(&set.run, |run| parked(run) || run.progress.status.phase().is_ended()).await;
                assert!(set.bed.elapsed() < secs(60), "call {number}: {:?}", set.bed.elapsed());
                let calls = set.shop.requests().len();
                tokio::time::sleep(MARK).await;
                if set.bed.phase(&set.run).await == Phase::Parked {
                    tried += 1;
                    assert_eq!(set.shop.requests().len(), calls, "call {number}: it stands still");
                    assert_eq!(paused(&set.bed, &set.run).await, "by ann: month end");
                    set.bed.resume(&set.run).await;
                }
            }
            set.bed.try_signal(&set.run, GO, (), None).await.ok();
            let ended = set.bed.until(&set.run, |run| run.progress.status.phase().is_ended()).await;
            assert_eq!(ended.progress.status.phase(), Phase::Completed, "call {number}");
            drop(worker);
            assert_eq!(set.shop.acted_twice(), Vec::<String>::new(), "call {number}");
            assert_eq!(set.bed.witness.violations(), Vec::<String>::new(), "call {number}");
        }
    }
    assert!(tried > 20, "{tried}");
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_may_die_at_any_call_and_the_run_stands_still_or_was_never_asked() {
    let mut tried = 0;
    for side in Side::BOTH {
        for call in 1.. {
            let mut came_to_it = false;
            for (name, set, _) in in_each_status().await {
                let gate = Gate::crashing(CrashPoint { call, side });
                let begun = set.bed.now();
                let answer = gate.fuse().while_alive(set.bed.client_behind(&gate).pause(&set.run, &act())).await;
                came_to_it |= gate.total() >= call;
                let point = format!("{name}, {side} call {call}");
                let asked = set.bed.checkpoint(&set.run).await;
                let is_asked = asked.mailbox.pauses().count() == 1 || asked.progress.status.phase() == Phase::Parked;
                assert!(answer.is_none() || is_asked, "{point}");
                let settings = WorkerSettings { sweep_every: secs(15), ..WorkerSettings::default() };
                let worker = set.bed.worker_behind(&Gate::open(), "w", settings);
                if is_asked {
                    tried += 1;
                    let parked = set.bed.until_phase(&set.run, Phase::Parked).await;
                    assert_eq!(parked.mailbox.letters, [], "{point}");
                    assert_eq!(paused(&set.bed, &set.run).await, "by ann: month end", "{point}");
                    let bound = MARK * 2 + secs(60);
                    let took = set.bed.now().since(begun);
                    assert!(took < bound, "{point}: {took:?}");
                    set.bed.resume(&set.run).await;
                    let again = set.bed.until(&set.run, |run| run.progress.status.phase() != Phase::Parked).await;
                    assert_eq!(again.mailbox.pauses().count(), 0, "{point}");
                }
                tokio::time::sleep(secs(1_000)).await;
                let phase = set.bed.phase(&set.run).await;
                assert!(matches!(phase, Phase::Completed | Phase::Waiting), "{point}: {phase}");
                drop(worker);
                assert_eq!(set.bed.witness.violations(), Vec::<String>::new(), "{point}");
            }
            if !came_to_it {
                break;
            }
        }
    }
    assert!(tried > 15, "{tried}");
}

#[tokio::test(start_paused = true)]
async fn a_paused_run_is_cancelled_and_what_it_has_done_is_taken_back() {
    let set = Set::of(&[Do::Buy(SEAT.undo()), Do::Wait]).await;
    set.bed.turn(&minute()).await;
    pause(&set).await.unwrap();
    set.cancel().await;
    set.bed.settle().await;
    let certificate = set.certificate().await;
    assert_eq!((certificate.undone.len(), set.shop.stands()), (1, vec![]));
    // One that is about to end is not paused.
    let set = Set::of(&[Do::Buy(SEAT.undo()), Do::Wait]).await;
    set.bed.turn(&minute()).await;
    set.cancel().await;
    assert!(matches!(pause(&set).await, Err(ClientError::Ended { phase: Phase::Cancelling, .. })));
}

#[tokio::test(start_paused = true)]
async fn nobody_outside_sends_it_as_a_signal_and_long_words_are_refused() {
    let set = Set::of(&[Do::Wait]).await;
    let request = SignalRequest {
        run: set.run.clone(),
        name: SignalName::new(PAUSE).unwrap(),
        payload: Json::of("by the boss").unwrap(),
        id: None,
    };
    let refused = set.bed.client().signal(request).await.unwrap_err();
    assert!(matches!(refused, ClientError::Misfit(_)), "{refused}");
    let long = Pause { by: "a".repeat(2_000), why: None };
    assert!(matches!(set.bed.client().pause(&set.run, &long).await, Err(ClientError::Value(_))));
    assert_eq!(set.bed.checkpoint(&set.run).await.mailbox.seq.0, 0, "nothing was written");
    let nobody = RunId::new("nobody").unwrap();
    assert!(matches!(set.bed.client().pause(&nobody, &act()).await, Err(ClientError::NoSuchRun(_))));
}

/// The request stands in the history with who and why, and so does what lets the run go on.
#[tokio::test(start_paused = true)]
async fn who_did_it_and_why_stands_in_the_history() {
    let set = Set::of(&[Do::Wait]).await;
    set.bed.turn(&minute()).await;
    pause(&set).await.unwrap();
    let resume = Resume { by: "bob".into(), why: Some("month is over".into()) };
    set.bed.client().resume(&set.run, &resume).await.unwrap();
    let history = set.bed.client().history(&set.run, Revision(0)).await.unwrap();
    let notes: Vec<_> = history.iter().filter_map(|entry| entry.entry.more.note.as_deref()).collect();
    assert_eq!(notes, ["paused by ann: month end; resume when it may go on", "by bob: month is over"]);
}
