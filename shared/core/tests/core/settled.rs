//! Nothing that a run has done or waits for is lost or counted twice on the way to its end.

use core::time::Duration;

use crate::make::steps::{
    decided, done, fail, goto, in_hand, lost, named, parks, retry, stack, take_back, then, undoable, undone,
};
use crate::make::{
    self, RULES, T0, acquire, amended, asked, at, at_work, certificate, committed, end, failure, held, keyed, moment,
    place, refund, standing, taken_up, told, turned, unknown, waiting, with_cancel, with_letter,
};
use stepwell_core::budget::Span;
use stepwell_core::decide::{
    Approve, Approved, DeadLetter, Decision, LetStand, Resolution, Resume, Rules, Send, StepOutcome, Then, Turn,
    approve, cancel_parked, commit, dead_letter, let_stand, resume, turn,
};
use stepwell_core::history::{EntryKind, LineOutcome};
use stepwell_core::limits::LEDGER_RECORDS_MAX;
use stepwell_core::{
    AskApproval, Authority, Budget, CertifiedEffect, Checkpoint, Class, EffectRecord, Message, OverBudget, ParkReason,
    Phase, RetryPolicy, Reviewer, Standing, Status, Timestamp,
};

/// So many effects of the run that are known to have happened.
fn many(count: usize) -> Vec<EffectRecord> {
    (0..count).map(|number| keyed(&format!("mail-{number}"), "m", done())).collect()
}

fn waits_for(signals: &[&str], ask: Option<AskApproval>) -> StepOutcome {
    let on = signals.iter().map(|name| make::signal(name)).collect();
    StepOutcome::Wait { place: place("Ask"), on, until: None, ask: ask.map(Box::new) }
}

fn certified(effects: &[CertifiedEffect]) -> Vec<&str> {
    effects.iter().map(|effect| effect.name.as_str()).collect()
}

fn ann() -> LetStand {
    LetStand { by: "ann".into(), why: "by hand".into() }
}

fn resumed(run: &Checkpoint, now: Timestamp) -> Checkpoint {
    let (amend, _) = resume(run, &Resume { by: "ann".into(), why: None }, now).unwrap();
    amended(run, now, amend)
}

/// A run with as many effects in its ledger as that holds; the oldest can be taken back.
fn full() -> Checkpoint {
    let run = then(&then(&at_work(), goto(), vec![undoable("reserve", done())]), goto(), many(LEDGER_RECORDS_MAX - 1));
    assert_eq!((run.progress.ledger.len(), run.progress.spilled), (LEDGER_RECORDS_MAX, 0));
    run
}

#[test]
fn a_parked_run_with_something_to_take_back_is_woken_by_its_cancellation_and_nothing_of_its_ledger_is_lost() {
    let parked = with_cancel(&then(&full(), parks(), vec![undoable("charge", done()), keyed("fax", "f", done())]));
    let (amend, send) = cancel_parked(&parked, at(9)).unwrap().unwrap();
    let woken = amended(&parked, at(9), amend);
    assert_eq!(woken.progress.ticket, parked.progress.ticket.next());
    assert_eq!(send, Some(Send { ticket: woken.progress.ticket, delay: Duration::ZERO }));
    assert_eq!((&woken.progress.status, woken.progress.undoing.is_some()), (&Status::Running, false));
    let entry = woken.progress.tail.entries.last().unwrap();
    assert_eq!((entry.kind, entry.more.note.as_deref()), (EntryKind::Resumed, Some("by ann: changed her mind")));
    assert_eq!((&woken.progress.journal, &woken.progress.ledger), (&parked.progress.journal, &parked.progress.ledger));
    assert_eq!(woken.progress.undo, parked.progress.undo);

    // The turn that begins to take back is a commit: what the ledger has no room for is stored by it.
    let held = acquire(&woken, at(9)).unwrap();
    let commit = turned(&held, at(9)).commit;
    assert_eq!((named(&commit.spill), commit.progress.spilled), (vec!["reserve", "mail-0"], 2));
    let undoing = committed(&held, at(9), commit);
    let mut kept = named(&undoing.progress.ledger);
    assert_eq!((kept.len(), kept.pop(), kept.pop()), (LEDGER_RECORDS_MAX, Some("fax"), Some("charge")));
    let certificate = certificate(&take_back(undoing));
    assert_eq!(certified(&certificate.undone), ["charge", "reserve"]);
    assert_eq!((certificate.confirmed, certificate.failed), (LEDGER_RECORDS_MAX as u64 + 2, 0));
}

#[test]
fn a_parked_run_with_nothing_to_take_back_and_nothing_open_ends_with_its_cancellation() {
    let run = then(&at_work(), goto(), many(LEDGER_RECORDS_MAX));
    let parked = with_cancel(&then(&run, parks(), vec![keyed("fax", "f", done())]));
    let (amend, send) = cancel_parked(&parked, at(9)).unwrap().unwrap();
    let ended = amended(&parked, at(9), amend);
    assert_eq!((send, certificate(&ended).confirmed), (None, LEDGER_RECORDS_MAX as u64 + 1));
    assert_eq!((&ended.progress.ledger, &ended.progress.journal), (&parked.progress.ledger, &parked.progress.journal));
    // A point of no return in its last step leaves nothing to take back either.
    let point = EffectRecord { no_return: true, ..keyed("mail", "m", done()) };
    let parked = with_cancel(&then(&then(&at_work(), goto(), vec![undoable("reserve", done())]), parks(), vec![point]));
    let (amend, send) = cancel_parked(&parked, at(9)).unwrap().unwrap();
    assert_eq!((send, amended(&parked, at(9), amend).progress.status.phase()), (None, Phase::Cancelled));
}

#[test]
fn letting_an_effect_stand_keeps_the_journal_and_the_ledger() {
    let undoing = then(&full(), fail(), vec![undoable("charge", done())]);
    let stuck = then(&undoing, fail(), vec![keyed("phone", "p", done()), keyed("fax", "f", done())]);
    assert_eq!((stuck.progress.ledger.len(), stuck.progress.spilled), (LEDGER_RECORDS_MAX, 1));
    let (amend, _) = let_stand(&stuck, &ann(), at(10)).unwrap();
    let after = amended(&stuck, at(10), amend);
    assert_eq!((&after.progress.ledger, &after.progress.journal), (&stuck.progress.ledger, &stuck.progress.journal));
    assert_eq!((after.progress.spilled, stack(&after)), (1, vec!["reserve"]));
    let ended = take_back(after);
    let undoing = ended.progress.undoing.unwrap();
    assert_eq!((certified(&undoing.stands), certified(&undoing.undone)), (vec!["charge"], vec!["reserve"]));
    // Those in the ledger, the charge, the call and the fax: each once.
    assert_eq!(ended.progress.usage.effects_confirmed, LEDGER_RECORDS_MAX as u64 + 3);

    // The run ends with the last one.
    let undoing = then(&then(&at_work(), goto(), vec![undoable("reserve", done())]), fail(), vec![]);
    let stuck = then(&undoing, fail(), vec![keyed("phone", "p", done())]);
    let (amend, _) = let_stand(&stuck, &ann(), at(10)).unwrap();
    let ended = amended(&stuck, at(10), amend);
    assert_eq!((ended.progress.status.phase(), ended.progress.usage.effects_confirmed), (Phase::Failed, 2));
    assert_eq!((named(&ended.progress.ledger), named(&ended.progress.journal)), (vec!["reserve"], vec!["phone"]));
}

#[test]
fn each_record_that_the_ledger_has_no_room_for_is_counted_once() {
    let two = then(&at_work(), goto(), vec![undoable("reserve", done()), undoable("charge", done())]);
    let surplus = |decision: &Decision| (decision.commit.spill.len() as u64, decision.commit.progress.spilled);
    let undoing = in_hand(&then(&two, fail(), vec![]));
    let nearly = in_hand(&then(&undoing, undone(), vec![]));
    let cancelled = with_cancel(&two);
    for (name, decision) in [
        ("on to another step", decided(&in_hand(&two), goto(), many(20))),
        ("a failure begins to take back", decided(&in_hand(&two), fail(), many(20))),
        ("a cancellation does, after its step", decided(&cancelled, goto(), many(20))),
        ("and in the middle of one", decided(&cancelled, retry(RetryPolicy::default()), many(20))),
        ("one of two is taken back", decided(&undoing, undone(), many(20))),
        ("the last is", decided(&nearly, undone(), many(20))),
    ] {
        assert_eq!(surplus(&decision), (6, 6), "{name}");
    }
    let nothing = with_cancel(&at_work());
    assert_eq!(surplus(&decided(&nothing, goto(), many(20))), (4, 4), "nothing is to be taken back");
}

const BUDGET: Duration = Duration::from_secs(1);

/// A run with something to take back, whose wait was cut by the end of its budget.
fn cut() -> Checkpoint {
    let run = then(&at_work(), goto(), vec![undoable("reserve", done())]);
    let mut run = then(&run, waits_for(&["answer"], None), vec![]);
    let Status::Waiting(wait) = &mut run.progress.status else { panic!("{run:?}") };
    wait.budget_ends = Some(at(2_000));
    let held = acquire(&run, at(5_000)).unwrap();
    let turn = turn(&held, &Budget::none().lasting(BUDGET), RULES, at(5_000)).unwrap();
    let Turn::Write(decision) = turn else { panic!("{turn:?}") };
    let parked = committed(&held, at(5_000), decision.commit);
    assert!(parked.progress.spent.cut_wait.is_some(), "resuming goes on with it");
    parked
}

#[test]
fn a_wait_that_was_cut_is_over_once_the_run_takes_back() {
    let parked = with_cancel(&cut());
    let (amend, _) = cancel_parked(&parked, at(6_000)).unwrap().unwrap();
    let undoing = taken_up(&amended(&parked, at(6_000), amend), at(6_000));
    assert_eq!((undoing.progress.place.step().as_str(), &undoing.progress.spent.cut_wait), ("Undo", &None));
    // What cannot be taken back parks it; resumed, it does not wait for what nobody needs any more.
    let held = acquire(&undoing, at(7_000)).unwrap();
    let stuck = committed(&held, at(7_000), commit(&held, end(fail()), RULES, moment(at(7_000)), true).unwrap().commit);
    assert_eq!(stuck.progress.status.phase(), Phase::Parked);
    let run = resumed(&stuck, at(8_000));
    assert_eq!(run.progress.status, Status::Running);
    let held = acquire(&run, at(8_000)).unwrap();
    assert_eq!(turn(&held, &Budget::none().lasting(BUDGET), RULES, at(8_000)).unwrap(), Turn::Step);
    assert_eq!(held.progress.place.step(), "Undo");
}

/// Whoever sends a signal or asks for the end may die before the message: the mark that it has left is all that remembers it.
#[test]
fn an_amendment_of_a_run_that_is_due_leaves_it_a_mark_that_is_near() {
    let open = || vec![EffectRecord { class: Class::Once, ..keyed("fax", "f", lost()) }];
    let asks = || then(&held(Status::Running), waits_for(&["go"], Some(AskApproval { quorum: 2, ..refund() })), open());
    let listens = || then(&held(Status::Running), waits_for(&["go"], None), open());
    for (name, before, is_answer) in
        [("asks, answered", asks(), true), ("asks, resolved", asks(), false), ("listens, resolved", listens(), false)]
    {
        let after =
            |run: &Checkpoint| if is_answer { answers(run) } else { told(run, "fax", Resolution::SignOff, at(10)).0 };
        let cancelled = with_cancel(&before);
        for (why, due) in [("cancelled", cancelled), ("signalled", with_letter(&before, "s1", "go"))] {
            // Nothing is left to be approved in a run that is to end.
            if is_answer && due.cancel.is_some() {
                continue;
            }
            let after = after(&due);
            assert!(after.is_due(at(10)), "{name}, {why}");
            assert!(after.due_at.is_some_and(|mark| mark <= at(10).next_mark()), "{name}, {why}: {:?}", after.due_at);
        }
        // One that is not is looked at when its own time comes, if it has one.
        let after = after(&before);
        assert_eq!((after.is_due(at(10)), after.due_at), (false, before.due_at), "{name}");
    }
}

fn answers(run: &Checkpoint) -> Checkpoint {
    let reviewer = Reviewer { name: "ann".into(), roles: vec![] };
    let act = Approve { approval: run.progress.approvals[0].id.clone(), reviewer, allows: true, why: None };
    let Approved::New(amend, _) = approve(run, &act, at(10)).unwrap() else { panic!("said before") };
    amended(run, at(10), *amend)
}

#[test]
fn asking_other_people_for_the_same_is_asking_anew() {
    let escalates = |to: &str| Some((Duration::from_hours(4), vec![Authority::Role(to.into())]));
    for (what, ask) in [
        ("others", AskApproval { by: vec![Authority::Role("cfo".into())], ..refund() }),
        ("fewer", AskApproval { by: vec![Authority::Person("ann".into())], ..refund() }),
        ("two of them", AskApproval { quorum: 2, ..refund() }),
        ("others, later on", AskApproval { escalation: escalates("ceo"), ..refund() }),
        ("nobody else, later on", AskApproval { escalation: None, ..refund() }),
    ] {
        for (how, before) in [("open", asked(refund())), ("given", answers(&asked(refund())))] {
            let mut run = before.clone();
            // It goes on for another reason than the answer.
            run.progress.status = Status::Running;
            let held = acquire(&run, at(20)).unwrap();
            let wait = waits_for(&[], Some(ask.clone()));
            let after =
                committed(&held, at(20), commit(&held, end(wait), RULES, moment(at(20)), false).unwrap().commit);
            let [first, second] = &after.progress.approvals[..] else { panic!("{what}, {how}: {after:?}") };
            assert_eq!(first.standing(at(21)), Standing::Replaced(second.id.clone()), "{what}, {how}");
            assert_eq!((second.standing(at(21)), second.quorum), (Standing::Open, ask.quorum), "{what}, {how}");
            assert_eq!((&second.by, second.answers.len()), (&ask.by, 0), "{what}, {how}");
            let Status::Waiting(wait) = &after.progress.status else { panic!("{what}, {how}: {after:?}") };
            assert_eq!(wait.approval.as_ref(), Some(&second.id), "{what}, {how}");
        }
    }
}

#[test]
fn what_was_taken_back_or_stands_is_certified_with_what_is_known_of_it() {
    let told_of = |effects: &[CertifiedEffect]| -> Vec<_> {
        let told = |effect: &CertifiedEffect| (effect.name.clone(), effect.outcome, effect.signed_off_by.clone());
        effects.iter().map(told).collect()
    };
    let reserve = ("reserve".to_owned(), LineOutcome::Succeeded, None);
    let wire = ("wire".to_owned(), LineOutcome::Unknown, Some("bob".to_owned()));
    let held = with_cancel(&then(&at_work(), goto(), vec![undoable("reserve", done())]));
    let parked = then(&held, fail(), vec![undoable("wire", lost())]);
    let undoing = taken_up(&make::signed_off(&parked, at(9)), at(9));
    let over = certificate(&take_back(undoing.clone()));
    assert_eq!(told_of(&over.undone), [wire.clone(), reserve.clone()]);

    let stuck = then(&undoing, fail(), vec![]);
    let (amend, _) = let_stand(&stuck, &ann(), at(10)).unwrap();
    let over = certificate(&take_back(amended(&stuck, at(10), amend)));
    assert_eq!((told_of(&over.stands), told_of(&over.undone)), (vec![wire], vec![reserve]));
    assert_eq!(over.stands[0].note.as_deref(), Some("by ann: by hand"));
}

#[test]
fn the_buried_message_of_a_cancelled_run_that_takes_back_parks_it() {
    let reason = Some("the checkpoint is damaged");
    let letter = |run: &Checkpoint, reason| {
        let message = Message { run: run.run.clone(), ticket: run.progress.ticket };
        dead_letter(Some(run), &message, reason, at(100), 0).unwrap()
    };
    let held = with_cancel(&then(&at_work(), goto(), vec![undoable("reserve", done())]));
    let undoing = then(&held, goto(), vec![]);
    let failed = then(&undoing, retry(RetryPolicy::default()), vec![]);
    assert_eq!((failed.progress.status.phase(), failed.progress.undoing.is_some()), (Phase::Retrying, true));
    for run in [undoing.clone(), failed] {
        let DeadLetter::Park(amend) = letter(&run, reason) else { panic!("{:?}", letter(&run, reason)) };
        let parked = amended(&run, at(100), *amend);
        assert_eq!((parked.progress.undo.len(), &parked.progress.place), (1, &run.progress.place));
        // A person gets it on again, or lets the effect stand.
        let over = certificate(&take_back(resumed(&parked, at(200))));
        assert_eq!(certified(&over.undone), ["reserve"]);
        let (amend, _) = let_stand(&parked, &ann(), at(200)).unwrap();
        assert_eq!(certified(&certificate(&amended(&parked, at(200), amend)).stands), ["reserve"]);
    }
    // One whose step would still ask about something is stuck as well.
    let mut asks = with_cancel(&standing(Status::Running));
    asks.progress.journal = vec![unknown("pay", Class::Reconcilable)];
    assert!(matches!(letter(&asks, reason), DeadLetter::Park(_)), "{:?}", letter(&asks, reason));
    // No reason, or nothing but the end to come: it may be well, or has to end.
    let running = with_cancel(&standing(Status::Running));
    for (run, reason) in [(undoing, None), (running, reason)] {
        assert!(matches!(letter(&run, reason), DeadLetter::Send(_)), "{:?}", letter(&run, reason));
    }
}

#[test]
fn a_program_that_does_not_know_the_workflow_does_not_forget_when_its_budget_ends() {
    let looked_at = |budget_ends: Timestamp| {
        let mut run = held(waiting(&["go"], None));
        let Status::Waiting(wait) = &mut run.progress.status else { panic!("{run:?}") };
        wait.budget_ends = Some(budget_ends);
        assert_eq!(RULES.run_ends, None);
        let decision = turned(&run, at(1_000));
        (committed(&run, at(1_000), decision.commit), decision.then)
    };
    let (after, then) = looked_at(at(60_000));
    assert_eq!(after.wakes_at(), Some(at(60_000)));
    assert_eq!(after.due_at, Some(at(60_000).next_mark()));
    let send = Send { ticket: after.progress.ticket, delay: Duration::from_secs(59) };
    assert_eq!(then, Then::HandOff(Some(send)));
    // When that time has passed nobody is woken for it again and again.
    let (after, then) = looked_at(at(500));
    assert_eq!((after.wakes_at(), then), (None, Then::HandOff(None)));
    // The program that knows it says when.
    let rules = Rules { run_ends: Some(at(90_000)), ..RULES };
    let mut run = held(waiting(&["go"], None));
    let Status::Waiting(wait) = &mut run.progress.status else { panic!("{run:?}") };
    wait.budget_ends = Some(at(60_000));
    let Turn::Write(decision) = turn(&run, &Budget::none(), rules, at(1_000)).unwrap() else { panic!("a step runs") };
    assert_eq!(committed(&run, at(1_000), decision.commit).wakes_at(), Some(at(90_000)));
}

#[test]
fn a_cancelled_run_asks_again_only_when_the_open_call_can_no_longer_land() {
    let pay = |until| EffectRecord { until, ..unknown("pay", Class::Reconcilable) };
    let now = at(9);
    let secs = Duration::from_secs;
    for (name, until, at_least, expected) in [
        ("it may land for 20 s", Some(at(20_009)), None, secs(20)),
        ("the outside wants to be left alone for longer", Some(at(20_009)), Some(secs(30)), secs(30)),
        ("it can not land any more", Some(at(5)), None, secs(1)),
        ("nobody knows until when it may land", None, None, secs(1)),
    ] {
        let mut run = with_cancel(&at_work());
        run.progress.journal = vec![pay(until)];
        assert_eq!(turn(&run, &Budget::none(), RULES, now).unwrap(), Turn::Step, "{name}");
        let (failure, policy) = (failure("not dispatched"), RetryPolicy::default().every(secs(1)));
        let decision = decided(&run, StepOutcome::Retry { failure, policy, at_least }, vec![pay(until)]);
        let Then::HandOff(Some(send)) = decision.then else { panic!("{name}: {:?}", decision.then) };
        assert_eq!(send.delay, expected, "{name}");
        assert_eq!(decision.commit.progress.status, Status::Retrying { at: now.plus(send.delay) }, "{name}");
    }
}

/// The budget that was spent before is no matter once nothing but the end is left.
#[test]
fn a_parked_run_is_cancelled_whatever_it_has_spent() {
    let over = OverBudget { span: Span::Run, counter: "cents".into(), limit: 1, spent: 2 };
    let mut parked = with_cancel(&then(&full(), parks(), vec![undoable("charge", done())]));
    parked.progress.status = Status::Parked { reason: ParkReason::Budget(over), at: T0 };
    let (amend, _) = cancel_parked(&parked, at(9)).unwrap().unwrap();
    let held = acquire(&amended(&parked, at(9), amend), at(9)).unwrap();
    let budget = Budget::none().attempts(0).lasting(Duration::ZERO);
    let Turn::Write(decision) = turn(&held, &budget, RULES, at(9)).unwrap() else { panic!("a step runs") };
    let undoing = committed(&held, at(9), decision.commit);
    assert_eq!((undoing.progress.place.step().as_str(), stack(&undoing)), ("Undo", vec!["reserve", "charge"]));
}
