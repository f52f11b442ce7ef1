//! A person asks a run to stand still, at any moment of its life: it is parked as soon as nobody works on it, keeps what it waits for,
//! and goes on when it is resumed.

use core::time::Duration;

use crate::make::steps::{done, fail, goto, retry, then, undoable};
use crate::make::{
    self, RULES, T0, acquire, amended, asked, at, at_work, committed, end, held, inline, moment, refund, signal_id,
    standing, succeeded, waiting, with_cancel, with_letter,
};
use serde_json::json;
use stepwell_core::approval::Reviewer;
use stepwell_core::budget::Reached;
use stepwell_core::decide::pause::can_pause;
use stepwell_core::decide::{
    Approve, Approved, Decision, Pause, PauseRefused, Repair, Resume, StepEnd, StepOutcome, Then, Turn, approve,
    cancel_parked, commit, discard, pause, resume, retry as reopen, sweep, turn, wake,
};
use stepwell_core::history::EntryKind;
use stepwell_core::limits::MAILBOX_LETTERS_MAX;
use stepwell_core::mailbox::PAUSE;
use stepwell_core::write::{Refusal, Write};
use stepwell_core::{Budget, Checkpoint, Letter, ParkReason, Phase, RetryPolicy, Status, Timestamp, Visit, Wait};

const MIN: u64 = 60_000;

fn ask(run: &Checkpoint, id: &str, by: &str, now: Timestamp) -> Result<Checkpoint, Refusal> {
    let act = Pause { by: by.into(), why: Some("month end".into()) };
    let letter = Letter { payload: act.payload().unwrap(), ..make::letter(id, PAUSE) };
    make::write(run, now, Write::Signal(Box::new(letter)))
}

/// The run, with a request that nobody has carried out.
fn with_request(run: &Checkpoint) -> Checkpoint {
    ask(run, "p1", "ann", T0).unwrap()
}

/// The run after the request itself has parked it.
fn paused(run: &Checkpoint, now: Timestamp) -> Checkpoint {
    let asked = ask(run, "p1", "ann", now).unwrap();
    let amend = pause(&asked, now).unwrap().unwrap();
    amended(&asked, now, amend)
}

fn resumed(run: &Checkpoint, now: Timestamp) -> Checkpoint {
    let (amend, send) = resume(run, &Resume { by: "bob".into(), why: None }, now).unwrap();
    let after = amended(run, now, amend);
    assert_eq!(send.ticket, after.progress.ticket);
    after
}

fn words(run: &Checkpoint) -> String {
    match &run.progress.status {
        Status::Parked { reason: ParkReason::Paused { what }, .. } => what.clone(),
        other => panic!("not paused: {other:?}"),
    }
}

fn last(run: &Checkpoint) -> (EntryKind, String) {
    let entry = run.progress.tail.entries.last().unwrap();
    (entry.kind, entry.more.note.clone().unwrap_or_default())
}

/// What a worker makes of a run that it takes up. `None`: its step runs.
fn taken(run: &Checkpoint, now: Timestamp) -> Option<Checkpoint> {
    let held = acquire(run, now).unwrap();
    match turn(&held, &Budget::none(), RULES, now).unwrap() {
        Turn::Step => None,
        Turn::Write(decision) => Some(committed(&held, now, decision.commit)),
    }
}

fn lives() -> [(&'static str, Checkpoint); 6] {
    [
        ("created", make::started()),
        ("running", standing(Status::Running)),
        ("waits for a signal", standing(waiting(&["go"], None))),
        ("waits for a time", standing(waiting(&[], Some(at(5 * MIN))))),
        ("waits for an approval", asked(refund())),
        ("retrying", standing(Status::Retrying { at: at(5 * MIN) })),
    ]
}

#[test]
fn a_live_run_that_nobody_holds_is_parked_at_once_and_keeps_all() {
    for (name, run) in lives() {
        assert_eq!(can_pause(&run), Ok(()), "{name}");
        let after = paused(&run, at(1));
        assert_eq!(words(&after), "by ann: month end", "{name}");
        assert_eq!(last(&after), (EntryKind::Parked, "paused by ann: month end; resume when it may go on".into()));
        assert_eq!(after.mailbox.letters, run.mailbox.letters, "{name}: the request is read");
        assert_eq!((&after.progress.place, after.due_at), (&run.progress.place, None), "{name}");
        assert_eq!((after.progress.visit, after.progress.ticket), (run.progress.visit, run.progress.ticket), "{name}");
        assert!(!after.is_due(at(100 * MIN)) && sweep::DueRun::of(&after).is_none(), "{name}: nobody touches it");
        assert_eq!(acquire(&after, at(2)), Err(Refusal::Parked), "{name}");

        let again = resumed(&after, at(2));
        let phase = if matches!(run.progress.status, Status::Waiting(_)) { Phase::Waiting } else { Phase::Running };
        assert_eq!((again.progress.status.phase(), again.progress.spent.cut_wait.as_ref()), (phase, None), "{name}");
        // It is not paused again, and not woken for nothing.
        match taken(&again, at(2)) {
            None => assert_eq!(phase, Phase::Running, "{name}"),
            Some(after) => assert_eq!(after.progress.status.phase(), Phase::Waiting, "{name}"),
        }
    }
}

/// What a run waits for, without what a look at it changes.
fn of_wait(run: &Checkpoint) -> (Vec<stepwell_core::SignalName>, Option<Timestamp>, bool) {
    match &run.progress.status {
        Status::Waiting(Wait { on, until, approval, budget_ends: _, seen: _ }) => {
            (on.clone(), *until, approval.is_some())
        }
        other => panic!("it does not wait: {other:?}"),
    }
}

#[test]
fn a_wait_goes_on_after_it_and_ends_by_what_it_waits_for() {
    for (name, run) in lives() {
        let Status::Waiting(wait) = &run.progress.status else { continue };
        let waits_on = taken(&resumed(&paused(&run, at(1)), at(2)), at(2)).unwrap();
        assert_eq!(of_wait(&waits_on), of_wait(&run), "{name}");
        assert!(!waits_on.is_due(at(3)), "{name}");
        if let Some(until) = wait.until {
            assert_eq!(waits_on.wakes_at(), Some(until), "{name}");
            let early = waits_on.progress.status.clone();
            assert!(matches!(early, Status::Waiting(_)) && taken(&waits_on, until).is_none(), "{name}");
        }
    }
}

#[test]
fn what_comes_while_it_is_paused_ends_its_wait() {
    // A time that passes.
    let timer = paused(&standing(waiting(&["go"], Some(at(MIN)))), T0);
    let late = resumed(&timer, at(2 * MIN));
    assert!(late.is_due(at(2 * MIN)), "{:?}", late.progress.status);
    assert!(taken(&late, at(2 * MIN)).is_none(), "its time has come");
    assert!(taken(&resumed(&timer, at(MIN - 1)), at(MIN - 1)).is_some(), "it has not");

    // A signal.
    let run = with_letter(&paused(&standing(waiting(&["go"], None)), T0), "s1", "go");
    assert_eq!((run.progress.status.phase(), wake(&run, at(1))), (Phase::Parked, None), "it wakes nobody");
    assert!(taken(&resumed(&run, at(1)), at(1)).is_none(), "it finds the letter");
    let other = with_letter(&paused(&standing(waiting(&["go"], None)), T0), "s1", "other");
    assert_eq!(taken(&resumed(&other, at(1)), at(1)).unwrap().progress.status.phase(), Phase::Waiting);

    // An answer to what it asks for.
    let run = paused(&asked(refund()), at(1));
    let approval = run.progress.approvals[0].id.clone();
    for allows in [true, false] {
        let reviewer = Reviewer { name: "ann".into(), roles: vec![] };
        let why = (!allows).then(|| "too much".to_owned());
        let act = Approve { approval: approval.clone(), reviewer, allows, why };
        let Ok(Approved::New(amend, send)) = approve(&run, &act, at(2)) else { panic!("not taken") };
        assert_eq!(send, None, "nobody is woken for a run that stands still");
        let decided = amended(&run, at(2), *amend);
        assert_eq!(words(&decided), "by ann: month end");
        let on = resumed(&decided, at(3));
        assert_eq!(on.progress.status, Status::Running, "allowed: {allows}");
        assert!(taken(&on, at(3)).is_none(), "allowed: {allows}");
    }
    // One that nobody has given in time.
    let expires = run.progress.approvals[0].expires_at;
    assert!(taken(&resumed(&run, expires), expires).is_none());
}

/// A worker that has loaded the run before the request came, and one that has loaded it after.
fn both_moments(run: &Checkpoint) -> [(&'static str, Checkpoint, Checkpoint); 2] {
    [("known", with_request(run), with_request(run)), ("in between", run.clone(), with_request(run))]
}

/// What a worker's commit comes to. It knows the run as `knows`; it is truly `is`.
fn decided(knows: &Checkpoint, is: &Checkpoint, end: &StepEnd, go_on: bool) -> (Decision, Checkpoint) {
    let decide = |held: &Checkpoint| commit(held, end.clone(), RULES, moment(at(9)), go_on).unwrap();
    let first = decide(knows);
    match make::write(is, at(9), Write::Commit(Box::new(first.commit.clone()))) {
        Ok(after) => {
            stepwell_core::invariants::check(&after).unwrap();
            (first, after)
        }
        Err(Refusal::MailboxMoved) => {
            let again = decide(is);
            let after = committed(is, at(9), again.commit.clone());
            (again, after)
        }
        Err(refusal) => panic!("{refusal}"),
    }
}

#[test]
fn a_held_run_is_parked_when_its_step_has_ended() {
    let run = held(Status::Running);
    assert_eq!(pause(&with_request(&run), at(1)), Ok(None), "its holder will");
    for (name, knows, is) in both_moments(&run) {
        for go_on in [true, false] {
            let (decision, after) = decided(&knows, &is, &end(goto()), go_on);
            // The step counts. Whoever holds the run next, at once or by the message, parks it.
            assert_eq!((after.progress.visit, after.progress.status.phase()), (Visit(2), Phase::Running), "{name}");
            let held = if decision.then == Then::Continue { after } else { acquire(&after, at(9)).unwrap() };
            let parked = committed(&held, at(9), make::turned(&held, at(9)).commit);
            assert_eq!((words(&parked).as_str(), parked.mailbox.letters.len()), ("by ann: month end", 0), "{name}");
            assert_eq!(parked.progress.place, make::place("Ship"), "{name}");
            assert!(taken(&resumed(&parked, at(10)), at(10)).is_none(), "{name}: its next step runs");
        }
    }
}

#[test]
fn a_held_run_that_begins_to_wait_keeps_its_wait() {
    for (name, knows, is) in both_moments(&held(Status::Running)) {
        let on = vec![make::signal("go")];
        let wait = StepOutcome::Wait { place: make::place("Ship"), on, until: Some(at(5 * MIN)), ask: None };
        let (decision, parked) = decided(&knows, &is, &end(wait), true);
        assert_eq!((decision.then, words(&parked).as_str()), (Then::Ended, "by ann: month end"), "{name}");
        assert_eq!((parked.progress.visit, last(&parked).0), (Visit(2), EntryKind::Waited), "{name}: the step counts");
        assert_eq!(parked.mailbox.letters, [], "{name}");
        let waits = taken(&resumed(&parked, at(MIN)), at(MIN)).unwrap();
        assert_eq!(of_wait(&waits), (vec![make::signal("go")], Some(at(5 * MIN)), false), "{name}");
        let woken = with_letter(&parked, "s1", "go");
        assert!(taken(&resumed(&woken, at(MIN)), at(MIN)).is_none(), "{name}: the letter ends the wait");
    }
}

#[test]
fn a_held_run_that_asks_for_an_approval_asks_and_keeps_its_wait() {
    for (name, knows, is) in both_moments(&held(Status::Running)) {
        let ask = Some(Box::new(refund()));
        let wait = StepOutcome::Wait { place: make::place("Refund"), on: vec![], until: None, ask };
        let (_, parked) = decided(&knows, &is, &end(wait), true);
        assert_eq!(words(&parked), "by ann: month end", "{name}");
        let asked = &parked.progress.approvals[..];
        assert_eq!(asked.len(), 1, "{name}: it can be decided meanwhile");
        let waits = taken(&resumed(&parked, at(MIN)), at(MIN)).unwrap();
        assert_eq!(of_wait(&waits), (vec![], Some(asked[0].expires_at), true), "{name}");
    }
}

#[test]
fn what_a_step_takes_is_taken_though_it_is_paused() {
    let run = with_request(&at_work());
    let on = vec![make::signal("other")];
    let wait = StepOutcome::Wait { place: make::place("Ship"), on, until: None, ask: None };
    let end = StepEnd { consumed: vec![signal_id("s1")], ..end(wait) };
    let (_, parked) = decided(&run, &run, &end, true);
    assert_eq!((parked.mailbox.letters.len(), parked.mailbox.seen.len()), (0, 2));
}

#[test]
fn a_held_run_that_is_to_try_again_is_parked_with_its_journal() {
    let policy = || RetryPolicy::default().every(Duration::from_mins(90));
    for (name, knows, is) in both_moments(&held(Status::Running)) {
        let end = StepEnd { effects: vec![succeeded("fetch")], ..end(retry(policy())) };
        let (decision, parked) = decided(&knows, &is, &end, true);
        assert_eq!((decision.then, words(&parked).as_str()), (Then::Ended, "by ann: month end"), "{name}");
        assert_eq!(parked.progress.journal, [succeeded("fetch")], "{name}");
        let (kind, note) = last(&parked);
        assert_eq!(kind, EntryKind::Parked, "{name}");
        assert!(note.starts_with("paused by ann") && note.ends_with("; last error: error: busy"), "{note}");
        assert_eq!((parked.progress.visit, parked.mailbox.letters.len()), (Visit(1), 0), "{name}");
        let on = resumed(&parked, at(10));
        assert_eq!((on.progress.trouble.as_ref(), taken(&on, at(10))), (None, None), "{name}: it is tried at once");
    }
}

#[test]
fn a_step_that_ends_its_run_ends_it_all_the_same() {
    let complete = || StepOutcome::Complete { output: inline(&json!("done")) };
    let gives_up = || retry(RetryPolicy::none());
    for (name, knows, is) in both_moments(&held(Status::Running)) {
        for (outcome, phase) in [(complete(), Phase::Completed), (fail(), Phase::Failed), (gives_up(), Phase::Failed)] {
            let (_, after) = decided(&knows, &is, &end(outcome), true);
            assert_eq!(after.progress.status.phase(), phase, "{name}");
            // It was accepted, and is listed as unread.
            assert_eq!(after.mailbox.pauses().count(), 1, "{name}");
            assert_eq!(can_pause(&after), Err(PauseRefused::NotLive(phase)), "{name}");
        }
    }
}

#[test]
fn a_run_that_has_ended_or_stands_still_or_is_about_to_end_is_not_paused() {
    let parked = paused(&standing(Status::Running), T0);
    assert_eq!(can_pause(&parked), Err(PauseRefused::NotLive(Phase::Parked)));
    let cancelled = with_cancel(&standing(waiting(&["go"], None)));
    assert_eq!(can_pause(&cancelled), Err(PauseRefused::NotLive(Phase::Cancelling)));
    // Asked for all the same, it holds up nothing.
    let asked = with_request(&cancelled);
    assert_eq!(pause(&asked, at(1)), Ok(None));
    assert_eq!(taken(&asked, at(1)).unwrap().progress.status.phase(), Phase::Cancelled);

    let seat = undoable("seat", done());
    let undoing = then(&held(Status::Running), fail(), vec![seat]);
    assert!(undoing.progress.undoing.is_some());
    assert_eq!(can_pause(&undoing), Err(PauseRefused::NotLive(Phase::Cancelling)));
    let asked = with_request(&undoing);
    assert_eq!((pause(&asked, at(9)), taken(&asked, at(9))), (Ok(None), None), "what it has done is taken back");
    assert_eq!(make::steps::take_back(asked).progress.status.phase(), Phase::Failed);
}

#[test]
fn two_requests_are_one_and_the_first_ones_words_stand() {
    let two = ask(&ask(&standing(Status::Running), "p1", "ann", T0).unwrap(), "p2", "bob", T0).unwrap();
    let after = amended(&two, at(1), pause(&two, at(1)).unwrap().unwrap());
    assert_eq!((words(&after).as_str(), after.mailbox.letters.len()), ("by ann: month end", 0));
    assert_eq!(ask(&after, "p1", "ann", at(2)), Err(Refusal::Duplicate), "and they are known");
    assert!(taken(&resumed(&after, at(2)), at(2)).is_none(), "resumed once, it goes on");
    // By a worker, too.
    let held = acquire(&two, at(1)).unwrap();
    let parked = committed(&held, at(1), make::turned(&held, at(1)).commit);
    assert_eq!((words(&parked).as_str(), parked.mailbox.letters.len()), ("by ann: month end", 0));
}

#[test]
fn whoever_asks_may_die_after_the_letter() {
    for (name, run) in lives() {
        let asked = with_request(&run);
        // It is found by its mark, if by nobody else.
        assert!(asked.due_at.is_some(), "{name}");
        let now = at(5 * MIN);
        assert!(asked.is_due(now), "{name}: {:?}", asked.progress.status);
        let parked = taken(&asked, now).unwrap();
        assert_eq!((words(&parked).as_str(), parked.mailbox.letters.len()), ("by ann: month end", 0), "{name}");
        if matches!(run.progress.status, Status::Waiting(_)) {
            let early = taken(&asked, at(1)).unwrap();
            assert!(early.progress.spent.cut_wait.is_some(), "{name}");
            assert_eq!(of_wait(&resumed(&early, at(2))), of_wait(&run), "{name}");
        }
    }
}

#[test]
fn a_wait_that_had_ended_before_the_worker_came_is_not_kept() {
    let asked = with_request(&with_letter(&standing(waiting(&["go"], None)), "s1", "go"));
    let parked = taken(&asked, at(1)).unwrap();
    assert_eq!(parked.progress.spent.cut_wait, None);
    assert_eq!(resumed(&parked, at(2)).progress.status, Status::Running);
}

#[test]
fn a_request_is_looked_at_before_budget_poison_and_the_step_limit() {
    let budget = Budget::none().attempts(1);
    let budget = Budget { reached: Reached::Fail, ..budget };
    let mut run = with_request(&held(Status::Running));
    (run.hold.acquires, run.progress.step_limit, run.progress.spent.attempts) = (9, 1, 9);
    let Turn::Write(decision) = turn(&run, &budget, RULES, T0).unwrap() else { panic!("the step would run") };
    let parked = committed(&run, T0, decision.commit);
    assert_eq!(words(&parked), "by ann: month end");
    // The attempts before this one have crashed: they were made, and are not forgotten. This one was not made.
    assert_eq!(parked.attempts(), 17);
}

#[test]
fn a_paused_run_is_cancelled_without_a_worker() {
    for (name, run) in lives() {
        let cancelled = with_cancel(&paused(&run, at(1)));
        let (amend, send) = cancel_parked(&cancelled, at(2)).unwrap().unwrap();
        let after = amended(&cancelled, at(2), amend);
        assert_eq!((after.progress.status.phase(), send), (Phase::Cancelled, None), "{name}");
    }
    let run = then(&held(Status::Running), goto(), vec![undoable("seat", done())]);
    let run = make::handed_off(&run, at(9));
    let cancelled = with_cancel(&paused(&run, at(10)));
    let (amend, send) = cancel_parked(&cancelled, at(11)).unwrap().unwrap();
    let after = amended(&cancelled, at(11), amend);
    assert_eq!((after.progress.status.phase(), send.is_some()), (Phase::Running, true), "it takes back first");
}

#[test]
fn what_a_crashed_attempt_may_have_done_stays_open() {
    let mut run = standing(Status::Running);
    (run.hold.tried_since, run.hold.acquires) = (Some(T0), 2);
    let after = paused(&run, at(1));
    assert_eq!((after.hold.tried_since, after.attempts()), (Some(T0), run.attempts()));
    let held = acquire(&resumed(&after, at(2)), at(2)).unwrap();
    assert_eq!(held.crashed_since(), Some(T0));
}

/// Its lease has run out, but it may live.
#[test]
fn a_holder_that_is_late_is_overtaken_by_the_request() {
    let run = held(Status::Running);
    let after = paused(&run, at(31_000));
    assert_eq!(words(&after), "by ann: month end");
    let late = commit(&run, end(goto()), RULES, moment(at(32_000)), true).unwrap();
    assert!(make::write(&after, at(32_000), Write::Commit(Box::new(late.commit))).is_err(), "it is fenced off");
}

#[test]
fn a_full_mailbox_refuses_it_and_evidence_is_no_request() {
    let mut run = standing(waiting(&["go"], None));
    for number in 0..MAILBOX_LETTERS_MAX {
        run = with_letter(&run, &format!("s{number}"), "other");
    }
    assert_eq!(ask(&run, "p1", "ann", T0), Err(Refusal::MailboxFull));
    assert_eq!(pause(&run, at(1)), Ok(None));
}

#[test]
fn a_request_that_came_too_late_is_answered_by_whoever_tries_the_run_again() {
    let run = with_request(&held(Status::Running));
    let (_, failed) = decided(&run, &run, &end(fail()), true);
    let (amend, _) = reopen(&failed, "bob", None, at(10)).unwrap();
    assert!(taken(&amended(&failed, at(10), amend), at(10)).is_none(), "tried again, it goes on");
}

#[test]
fn a_paused_wait_that_was_given_up_waits_on_when_the_run_is_tried_again() {
    let run = paused(&standing(waiting(&["go"], Some(at(5 * MIN)))), T0);
    let act = Repair { at: run.progress.revision, by: "bob".into(), why: "no use".into() };
    let failed = amended(&run, at(1), discard(&run, &act, at(1)).unwrap());
    let (amend, _) = reopen(&failed, "bob", None, at(2)).unwrap();
    let again = amended(&failed, at(2), amend);
    assert_eq!(of_wait(&again), (vec![make::signal("go")], Some(at(5 * MIN)), false));
    assert_eq!(taken(&again, at(2)).unwrap().progress.status.phase(), Phase::Waiting, "not before its time");
    assert_eq!(again.progress.spent.cut_wait, None);
}

#[test]
fn a_request_that_came_too_late_is_answered_by_whoever_resumes() {
    // It came while the last step ran, which parked the run for another reason.
    let parks = StepOutcome::Park { reason: ParkReason::Data { what: "blob k is missing".into() } };
    let run = with_request(&held(Status::Running));
    let (_, parked) = decided(&run, &run, &end(parks), true);
    assert!(taken(&resumed(&parked, at(10)), at(10)).is_none(), "resumed, it goes on");
}
