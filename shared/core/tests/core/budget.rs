//! What a run may spend: the limits hold whatever crashes, is tried again, or is made beside each other, and nothing is counted twice.

use core::time::Duration;
use std::collections::BTreeSet;

use crate::make::dice::{Dice, rolls};
use crate::make::{
    self, RULES, T0, acquire, amended, at, at_work, committed, end, failure, handed_off, held, keyed, moment, place,
    standing, succeeded, taken_up, turned, unknown, waiting, with_letter,
};
use crate::spending::{LeftOut, World};
use proptest::prelude::*;
use stepwell_core::budget::{Span, Spent};
use stepwell_core::decide::{
    Approve, Approved, Resolution, Resume, Rules, StepEnd, StepOutcome, Then, Turn, approve, commit, resume, turn,
};
use stepwell_core::{
    Amounts, Budget, Checkpoint, Class, EffectRecord, FailureKind, Outcome, OverBudget, ParkReason, Phase, Progress,
    RetryPolicy, Status, Timestamp,
};

fn live(left_out: LeftOut, rolls: &[u64]) -> Result<BTreeSet<&'static str>, String> {
    let seed = rolls.iter().fold(7, |seed: u64, roll| seed.wrapping_mul(31).wrapping_add(*roll));
    let mut world = World::new(left_out, Dice(seed));
    for roll in rolls {
        world.act(Dice(*roll))?;
    }
    Ok(world.seen)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_limit_is_passed_and_nothing_is_counted_twice(rolls in prop::collection::vec(any::<u64>(), 0..160)) {
        live(LeftOut::Nothing, &rolls).map_err(TestCaseError::fail)?;
    }
}

/// A world is worth its time only if it goes everywhere.
#[test]
fn the_worlds_go_everywhere() {
    let mut seen = BTreeSet::new();
    for seed in 0..500 {
        seen.extend(live(LeftOut::Nothing, &rolls(seed, 120)).expect("nothing is wrong"));
    }
    let expected = [
        "allowed more",
        "asked a person",
        "asked about, and called again",
        "beside another",
        "called again under its key",
        "completed",
        "crashed",
        "crashed after a call",
        "failed",
        "not admitted",
        "parked as poison",
        "parked for attempts",
        "parked for cents",
        "read again",
        "sign-off",
        "succeeded",
        "try-again",
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}

/// With a rule left out, the same search finds what it is for.
#[test]
fn each_rule_is_needed() {
    for (left_out, found) in [
        (LeftOut::Admission, "its limit is"),
        (LeftOut::Sunk, "the records count"),
        (LeftOut::Intent, "the records count"),
    ] {
        let wrong = (0..2_000).find_map(|seed| live(left_out, &rolls(seed, 120)).err());
        let wrong = wrong.unwrap_or_else(|| panic!("{left_out:?}: nothing is wrong"));
        assert!(wrong.contains(found), "{left_out:?}: {wrong}");
    }
}

fn amounts(of: &[(&str, u64)]) -> Amounts {
    of.iter().map(|(counter, amount)| ((*counter).to_owned(), *amount)).collect()
}

fn costing(record: EffectRecord, cents: u64) -> EffectRecord {
    EffectRecord { costs: amounts(&[("cents", cents)]), ..record }
}

#[test]
fn a_limit_is_reached_and_not_passed_and_the_first_that_says_no_is_named() {
    let mut progress: Progress = held(Status::Running).progress;
    progress.spent = Spent { ended: amounts(&[("cents", 90), ("tokens", 5)]), ..Spent::default() };
    let lost = Outcome::Unknown { since: T0, evidence: "lost".into() };
    progress.ledger = vec![costing(keyed("pay", "p", lost), 20)];
    let over = |span, counter: &str, limit, spent| OverBudget { span, counter: counter.into(), limit, spent };
    let again = keyed("pay", "p", Outcome::Succeeded(make::inline(&serde_json::json!("ok"))));
    let of_run = Budget::none().of_run("cents", 100);
    let of_step = Budget::none().of_step("cents", 10);
    let cases = [
        ("nothing is limited", Budget::none(), vec![costing(succeeded("a"), 999)], None),
        ("up to the limit", of_run.clone(), vec![costing(succeeded("a"), 10)], None),
        ("beyond", of_run.clone(), vec![costing(succeeded("a"), 11)], Some(over(Span::Run, "cents", 100, 101))),
        (
            "together",
            of_run.clone(),
            vec![costing(succeeded("a"), 6), costing(succeeded("b"), 5)],
            Some(over(Span::Run, "cents", 100, 101)),
        ),
        ("in place of what was reserved before", of_run.clone(), vec![costing(again.clone(), 30)], None),
        ("beyond even so", of_run, vec![costing(again.clone(), 31)], Some(over(Span::Run, "cents", 100, 101))),
        ("a step up to its limit", of_step.clone(), vec![costing(succeeded("a"), 10)], None),
        ("a step beyond", of_step, vec![costing(succeeded("a"), 11)], Some(over(Span::Step, "cents", 10, 11))),
        ("another counter", Budget::none().of_run("tokens", 4), vec![], Some(over(Span::Run, "tokens", 4, 5))),
        (
            "a failed one too, if it says that it cost",
            Budget::none().of_step("cents", 1),
            vec![costing(make::effect("a", Class::Read, Outcome::Failed(failure("no"))), 2)],
            Some(over(Span::Step, "cents", 1, 2)),
        ),
    ];
    for (name, budget, journal, expected) in cases {
        assert_eq!(budget.allows(&progress, &journal).err(), expected, "{name}");
    }
    let said = over(Span::Run, "cents", 100, 101).to_string();
    assert_eq!(said, "the run's budget of 100 cents does not allow it: 101 would be spent");
}

/// Attempts of a run whose workers crash in every step, the steps that a commit goes on to included.
#[test]
fn attempts_that_crash_are_attempts() {
    let budget = Budget::none().attempts(4);
    let step = |run: &Checkpoint, now| assert_eq!(turn(run, &budget, RULES, now).unwrap(), Turn::Step, "at {now}");
    let mut run = acquire(&make::started(), T0).unwrap();
    step(&run, T0);
    run = acquire(&run, at(31_000)).unwrap();
    step(&run, at(31_000));
    let goto = end(StepOutcome::Goto { place: place("Draft") });
    let decision = commit(&run, goto, RULES, moment(at(31_000)), true).unwrap();
    assert_eq!(decision.then, Then::Continue);
    run = committed(&run, at(31_000), decision.commit);
    // In the same turn, and it crashes; then another.
    step(&run, at(31_000));
    run = acquire(&run, at(62_000)).unwrap();
    assert_eq!(run.attempts(), 4);
    step(&run, at(62_000));
    run = acquire(&run, at(93_000)).unwrap();
    let over = OverBudget { span: Span::Run, counter: "attempts".into(), limit: 4, spent: 5 };
    let Turn::Write(decision) = turn(&run, &budget, RULES, at(93_000)).unwrap() else { panic!("a fifth attempt") };
    let parked = committed(&run, at(93_000), decision.commit);
    assert_eq!(parked.progress.status, Status::Parked { reason: ParkReason::Budget(over), at: at(93_000) });
    assert_eq!(parked.progress.spent.attempts, 4, "the fifth was not made");

    // Five more, and not one of the crashed is forgotten.
    let resumed = resumed(&parked, at(100_000));
    let mut made = 0;
    run = acquire(&resumed, at(100_000)).unwrap();
    while turn(&run, &budget, Rules { acquires_max: 99, ..RULES }, run.hold.lease.clone().unwrap().since).unwrap()
        == Turn::Step
    {
        made += 1;
        let now = at(100_000 + made * 31_000);
        run = acquire(&run, now).unwrap();
    }
    assert_eq!(made, 5);
}

fn resumed(parked: &Checkpoint, now: Timestamp) -> Checkpoint {
    let (amend, _) = resume(parked, &Resume { by: "ann".into(), why: None }, now).unwrap();
    amended(parked, now, amend)
}

#[test]
fn neither_poison_nor_a_persons_act_forgets_crashed_attempts() {
    let mut run = acquire(&make::started(), T0).unwrap();
    for crashes in 1..=5_u64 {
        run = acquire(&run, at(crashes * 31_000)).unwrap();
    }
    let parked = committed(&run, at(155_000), turned(&run, at(155_000)).commit);
    assert_eq!(parked.progress.status.phase(), Phase::Parked);
    assert_eq!(parked.attempts(), 5);

    let mut run = acquire(&standing(Status::Running), T0).unwrap();
    run.progress.journal = vec![unknown("fax", Class::Once)];
    let (after, _) = make::told(&run, "fax", Resolution::TryAgain, at(31_000));
    assert_eq!((after.hold.acquires, after.attempts()), (0, 1));
}

#[test]
fn a_run_that_lasts_too_long_is_parked_and_resumed_for_as_long_again() {
    let minutes = Duration::from_mins;
    let budget = Budget::none().lasting(minutes(10));
    let after = |minutes: u64| at(minutes * 60_000);
    let run = acquire(&standing(Status::Running), after(9)).unwrap();
    assert_eq!(turn(&run, &budget, RULES, Timestamp(after(10).0 - 1)).unwrap(), Turn::Step);
    assert_eq!(budget.ends_at(&run), Some(after(10)));
    let Turn::Write(decision) = turn(&run, &budget, RULES, after(10)).unwrap() else { panic!("it goes on") };
    let parked = committed(&run, after(10), decision.commit);
    assert!(matches!(&parked.progress.status, Status::Parked { reason: ParkReason::Budget(_), .. }), "{parked:?}");
    // Nobody looks for an hour.
    let run = acquire(&resumed(&parked, after(70)), after(70)).unwrap();
    assert_eq!(turn(&run, &budget, RULES, after(79)).unwrap(), Turn::Step);
    assert!(matches!(turn(&run, &budget, RULES, after(81)).unwrap(), Turn::Write(_)), "ten more minutes");
}

fn written(run: &Checkpoint, budget: &Budget, now: Timestamp) -> Checkpoint {
    let Turn::Write(decision) = turn(run, budget, RULES, now).unwrap() else { panic!("it steps") };
    committed(run, now, decision.commit)
}

/// A run that waits on makes no attempt.
#[test]
fn a_wait_outlives_spent_attempts() {
    for (budget, over) in
        [(Budget::none().attempts(0), Phase::Parked), (Budget::none().attempts(0).or_fail(), Phase::Failed)]
    {
        let run = with_letter(&held(waiting(&["go"], Some(at(60_000)))), "s1", "other");
        assert_eq!(written(&run, &budget, at(1)).progress.status.phase(), Phase::Waiting, "{budget:?}");
        assert_eq!(written(&run, &budget, at(60_000)).progress.status.phase(), over, "{budget:?}");
    }
}

/// Resuming a run whose wait was cut short must not run its step too early.
#[test]
fn a_wait_that_the_end_of_the_budget_cuts_short_goes_on_when_it_is_resumed() {
    let budget = Budget::none().lasting(Duration::from_secs(30));
    let run = held(waiting(&["go"], Some(at(90_000))));
    assert_eq!(written(&run, &budget, at(29_999)).progress.status.phase(), Phase::Waiting);
    let failed = written(&run, &budget.clone().or_fail(), at(30_000));
    assert_eq!(failed.progress.status.phase(), Phase::Failed);
    let parked = written(&run, &budget, at(30_000));
    assert!(matches!(parked.progress.status, Status::Parked { reason: ParkReason::Budget(_), .. }));

    let goes_on = resumed(&parked, at(40_000));
    assert!(goes_on.is_due(at(40_000)), "somebody has to look what has come meanwhile");
    let again = written(&acquire(&goes_on, at(40_000)).unwrap(), &budget, at(40_000));
    let Status::Waiting(wait) = &again.progress.status else { panic!("{again:?}") };
    assert_eq!((wait.until, wait.on.len()), (Some(at(90_000)), 1));
    assert_eq!(again.progress.spent.cut_wait, None);

    // Its letter has come while it was parked.
    let run = acquire(&resumed(&with_letter(&parked, "s1", "go"), at(40_000)), at(40_000)).unwrap();
    assert_eq!(turn(&run, &budget, RULES, at(40_000)).unwrap(), Turn::Step);
    // What was over when the budget was is not waited for again.
    let over = written(&held(waiting(&["go"], Some(at(20_000)))), &budget, at(30_000));
    assert_eq!(resumed(&over, at(40_000)).progress.status, Status::Running);
}

#[test]
fn an_approval_that_was_decided_while_its_run_was_parked_is_not_waited_for() {
    let budget = Budget::none().lasting(Duration::ZERO);
    let mut run = make::asked(make::refund());
    run.hold.lease = Some(make::lease(T0, at(30_000)));
    let parked = written(&run, &budget, at(1));
    assert_eq!(resumed(&parked, at(2)).progress.status.phase(), Phase::Waiting);
    let ann = stepwell_core::Reviewer { name: "ann".into(), roles: vec![] };
    let approval = parked.progress.approvals[0].id.clone();
    let act = Approve { approval, reviewer: ann, allows: true, why: None };
    let Approved::New(amend, None) = approve(&parked, &act, at(2)).unwrap() else { panic!("it is woken") };
    assert_eq!(resumed(&amended(&parked, at(2), *amend), at(3)).progress.status, Status::Running);
}

/// A run that sleeps is looked at when its budget ends, and that is no end of its wait.
#[test]
fn a_sleeping_run_is_looked_at_when_its_budget_ends() {
    let rules = Rules { run_ends: Some(at(60_000)), ..RULES };
    for (until, wakes) in [(None, at(60_000)), (Some(at(90_000)), at(60_000)), (Some(at(9_000)), at(9_000))] {
        let run = at_work();
        let wait = StepOutcome::Wait { place: place("Send"), on: vec![make::signal("x")], until, ask: None };
        let decision = commit(&run, end(wait), rules, moment(T0), true).unwrap();
        let Then::HandOff(Some(send)) = decision.then else { panic!("{:?}", decision.then) };
        assert_eq!(T0.plus(send.delay), wakes, "{until:?}");
        let waits = committed(&run, T0, decision.commit);
        assert_eq!((waits.wakes_at(), waits.is_due(wakes)), (Some(wakes), true), "{until:?}");
        let Status::Waiting(wait) = &waits.progress.status else { panic!("{waits:?}") };
        assert_eq!((wait.until, wait.is_over(at(60_000))), (until, until.is_some_and(|until| until <= at(60_000))));
    }
}

#[test]
fn a_run_may_fail_instead_and_not_before_what_is_open_is_settled() {
    let budget = Budget::none().attempts(1).or_fail();
    let run = |journal| {
        let mut run = at_work();
        (run.progress.journal, run.progress.spent.attempts) = (journal, 1);
        run
    };
    let failed = |run: &Checkpoint| {
        let Turn::Write(decision) = turn(run, &budget, RULES, T0).unwrap() else { panic!("it steps") };
        committed(run, T0, decision.commit)
    };
    let ended = failed(&run(vec![succeeded("mail")]));
    let Status::Failed { failure, .. } = &ended.progress.status else { panic!("{ended:?}") };
    assert_eq!((failure.kind, ended.progress.usage.effects_confirmed), (FailureKind::Budget, 1));
    assert_eq!(failure.message, "the run's budget of 1 attempts does not allow it: 2 would be spent");

    let parked = failed(&run(vec![unknown("fax", Class::Once)]));
    assert!(make::parked_for(&parked).contains("effect fax"));
    let (after, woken) = make::told(&parked, "fax", Resolution::Failed("never left".into()), T0);
    assert!(woken);
    assert_eq!(failed(&acquire(&after, T0).unwrap()).progress.status.phase(), Phase::Failed);
}

#[test]
fn resuming_allows_as_much_again_and_a_steps_allowance_ends_with_the_step() {
    for (span, limit, spent, more) in [(Span::Run, 10, 12, 12), (Span::Step, 10, 12, 12), (Span::Run, 10, 4, 10)] {
        let over = OverBudget { span, counter: "cents".into(), limit, spent };
        let parked = standing(Status::Parked { reason: ParkReason::Budget(over), at: T0 });
        let run = resumed(&parked, at(5));
        let Spent { more_for_run, more_for_step, .. } = &run.progress.spent;
        let (given, other) =
            if span == Span::Run { (more_for_run, more_for_step) } else { (more_for_step, more_for_run) };
        assert_eq!((given, other), (&amounts(&[("cents", more)]), &Amounts::new()), "{span}");
        let next = handed_off(&acquire(&run, at(5)).unwrap(), at(6));
        assert_eq!(next.progress.spent.more_for_step, Amounts::new(), "{span}");
        assert_eq!(next.progress.spent.more_for_run, *more_for_run, "{span}");
    }
}

/// What a person says did not happen has cost nothing; what happened has cost what was reserved, whoever says so.
#[test]
fn what_a_person_says_is_settled() {
    let word = || Resolution::Succeeded(make::inline(&serde_json::json!("ok")));
    let failed = || Resolution::Failed("never left".into());
    for in_ledger in [false, true] {
        for (class, resolution, left) in [
            (Class::Once, word(), 7),
            (Class::Once, failed(), 0),
            (Class::Once, Resolution::TryAgain, 0),
            (Class::Once, Resolution::SignOff, 7),
            (Class::Idempotent(None), failed(), 0),
            // It is called again under its key, and may cost then.
            (Class::Idempotent(None), Resolution::TryAgain, 7),
        ] {
            let name = format!("{class:?}, {}, in the ledger {in_ledger}", resolution.as_str());
            let mut run = standing(Status::Running);
            let record = costing(unknown("fax", class), 7);
            run.progress.spent.ended = amounts(&[("cents", if in_ledger { 10 } else { 3 })]);
            let records = if in_ledger { &mut run.progress.ledger } else { &mut run.progress.journal };
            records.push(record);
            let (after, _) = make::told(&run, "fax", resolution, at(5));
            let spent = after.progress.spent_with(&after.progress.journal);
            assert_eq!(spent, amounts(&[("cents", 3 + left)]), "{name}");
        }
    }
}

/// What takes effects back is not held up by what they have cost, nor by how often they were tried.
#[test]
fn a_run_that_takes_back_spends_what_it_needs() {
    let budget = Budget::none().attempts(0).of_run("cents", 0).lasting(Duration::ZERO);
    let mut run = at_work();
    let undo = Some(stepwell_core::Json::of("Undo").unwrap());
    let paid =
        EffectRecord { undo, ..costing(keyed("pay", "p", Outcome::Succeeded(make::inline(&serde_json::json!(1)))), 5) };
    let fail = StepEnd { effects: vec![paid], ..end(StepOutcome::Fail { failure: failure("no") }) };
    run = committed(&run, T0, commit(&run, fail, RULES, moment(T0), false).unwrap().commit);
    let held = acquire(&run, T0).unwrap();
    assert_eq!(turn(&held, &budget, RULES, T0).unwrap(), Turn::Step);
    let refund = costing(keyed("refund", "p", Outcome::Unknown { since: T0, evidence: "in flight".into() }), 5);
    let admitted = stepwell_core::decide::admit(&held, std::slice::from_ref(&refund), &refund.key, 1, &budget, T0);
    assert_eq!(admitted, Ok(()));
}

/// A run that was over its budget, cancelled: that ends it all the same.
#[test]
fn a_cancelled_run_ends_whatever_it_has_spent() {
    let over = OverBudget { span: Span::Run, counter: "cents".into(), limit: 1, spent: 2 };
    let parked = make::with_cancel(&standing(Status::Parked { reason: ParkReason::Budget(over), at: T0 }));
    let (amend, _) = stepwell_core::decide::cancel_parked(&parked, at(1)).unwrap().unwrap();
    assert_eq!(amended(&parked, at(1), amend).progress.status.phase(), Phase::Cancelled);
    let retry = StepOutcome::Retry { failure: failure("busy"), policy: RetryPolicy::default(), at_least: None };
    let run = at_work();
    let retried = committed(&run, T0, commit(&run, end(retry), RULES, moment(T0), false).unwrap().commit);
    assert_eq!(taken_up(&make::with_cancel(&retried), at(1)).progress.status.phase(), Phase::Cancelled);
}

#[test]
fn effects_are_counted_where_either_span_limits_them() {
    assert!(!Budget::none().of_run("cents", 1).of_step("tokens", 1).counts_effects());
    assert!(Budget::none().effects(3).counts_effects());
    assert!(Budget::none().of_step("effects", 3).counts_effects());
    let both = Budget::none().of_step("tokens", 1).effects(3);
    assert_eq!(both, Budget::none().of_step("tokens", 1).of_run("effects", 3), "one limit beside the other");
}

#[test]
fn what_is_taken_off_to_nothing_is_not_listed() {
    let mut progress: Progress = held(Status::Running).progress;
    progress.spent = Spent { ended: amounts(&[("cents", 20), ("tokens", 5)]), ..Spent::default() };
    let lost = Outcome::Unknown { since: T0, evidence: "lost".into() };
    progress.ledger = vec![costing(keyed("pay", "p", lost), 20)];
    let free = keyed("pay", "p", Outcome::Succeeded(make::inline(&serde_json::json!("ok"))));
    assert_eq!(progress.spent_with(&[free]), amounts(&[("tokens", 5)]));
}
