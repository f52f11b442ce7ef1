//! What becomes of a run when an attempt of a step has ended: every outcome, cancelled or not, with and without time for
//! another step.

use core::time::Duration;
use std::collections::BTreeSet;

use crate::make::{
    self, MARK, RULES, T0, acquire, at, at_work, committed, end, failure, held, inline, keyed, last_kind, moment,
    place, signal, signal_id, succeeded, turned, unknown, with_cancel, with_letter,
};
use serde_json::json;
use stepwell_core::checkpoint::{Trouble, Usage};
use stepwell_core::decide::{Decision, Send, StepEnd, StepOutcome, Then, commit};
use stepwell_core::history::{EntryKind, LineOutcome};
use stepwell_core::limits::LEDGER_RECORDS_MAX;
use stepwell_core::write::{LogAppend, Refusal, Write};
use stepwell_core::{
    Checkpoint, Class, Failure, FailureKind, Json, LogId, MailboxSeq, Outcome, ParkReason, Phase, RetryPolicy, Status,
    Ticket, Timestamp, Wait,
};

const MIN: u64 = 60_000;
const MINUTE: Duration = Duration::from_mins(1);

fn goto() -> StepOutcome {
    StepOutcome::Goto { place: place("Send") }
}

fn wait(on: &[&str], until: Option<Timestamp>) -> StepOutcome {
    let on = on.iter().map(|name| signal(name)).collect();
    StepOutcome::Wait { place: place("Send"), on, until, ask: None }
}

fn complete() -> StepOutcome {
    StepOutcome::Complete { output: inline(&json!("done")) }
}

fn fail() -> StepOutcome {
    StepOutcome::Fail { failure: Failure::new(FailureKind::Terminal, "no such vendor").with_code("vendor") }
}

fn retry(policy: RetryPolicy) -> StepOutcome {
    StepOutcome::Retry { failure: failure("busy"), policy, at_least: None }
}

fn again_in_a_second() -> StepOutcome {
    retry(RetryPolicy::default().every(Duration::from_secs(1)))
}

fn park() -> StepOutcome {
    StepOutcome::Park { reason: ParkReason::Data { what: "blob k is missing".into() } }
}

/// An attempt that has an effect of each sort, takes a signal and appends to a log.
fn busy(outcome: StepOutcome) -> StepEnd {
    StepEnd {
        effects: vec![succeeded("mail"), keyed("book", "b1", Outcome::Failed(failure("sold out")))],
        consumed: vec![signal_id("s1")],
        appends: vec![LogAppend { log: LogId(0), first: 0, entries: vec![Json::of("line").unwrap()] }],
        logs: 1,
        ..end(outcome)
    }
}

fn decide(run: &Checkpoint, end: StepEnd, go_on: bool) -> Decision {
    commit(run, end, RULES, moment(T0), go_on).unwrap()
}

/// What the commit of one outcome has to look like.
struct Expected {
    phase: Phase,
    kind: EntryKind,
    /// The step has ended: another visit, its takings count, its journal is folded.
    step_ended: bool,
    then: Then,
    due_at: Option<Timestamp>,
    mailbox_seen: Option<MailboxSeq>,
}

fn send(delay_ms: u64) -> Then {
    Then::HandOff(Some(Send { ticket: Ticket(6), delay: Duration::from_millis(delay_ms) }))
}

fn ended(phase: Phase, kind: EntryKind, step_ended: bool) -> Expected {
    Expected { phase, kind, step_ended, then: Then::Ended, due_at: None, mailbox_seen: None }
}

fn going_on(phase: Phase, kind: EntryKind, step_ended: bool, then: Then, due_at: Option<Timestamp>) -> Expected {
    Expected { phase, kind, step_ended, then, due_at, mailbox_seen: None }
}

fn check(name: &str, run: &Checkpoint, outcome: StepOutcome, go_on: bool, expected: &Expected) {
    let name = format!("{name}, cancelled {}, go on {go_on}", run.cancel.is_some());
    let decision = decide(run, busy(outcome), go_on);
    let Decision { commit, then } = &decision;
    let (before, after) = (&run.progress, &commit.progress);
    assert_eq!(after.status.phase(), expected.phase, "{name}: status");
    assert_eq!(last_kind(&decision), expected.kind, "{name}: history");
    assert_eq!(*then, expected.then, "{name}: then");
    assert_eq!(commit.due_at, expected.due_at, "{name}: due at");
    assert_eq!(commit.mailbox_seen, expected.mailbox_seen, "{name}: mailbox seen");

    assert_eq!((commit.fence, commit.after), (run.hold.fence, before.revision), "{name}: condition");
    assert_eq!(commit.cancel_seen, run.cancel.is_some(), "{name}: cancel seen");
    assert_eq!(after.revision, before.revision.next(), "{name}: revision");
    let hands_off = matches!(then, Then::HandOff(_));
    assert_eq!(after.ticket.0, before.ticket.0 + u64::from(hands_off), "{name}: ticket");
    let lease = run.hold.lease.clone().filter(|_| *then == Then::Continue);
    assert_eq!(commit.lease, lease, "{name}: lease");

    let ended = expected.step_ended;
    assert_eq!(after.visit.0, before.visit.0 + u64::from(ended), "{name}: visit");
    assert_eq!(commit.consumed.len(), usize::from(ended), "{name}: consumed");
    assert_eq!(commit.appends.len(), usize::from(ended), "{name}: appends");
    assert_eq!(after.logs, u32::from(ended), "{name}: logs");
    assert_eq!(after.journal.len(), if ended { 0 } else { 2 }, "{name}: journal");
    assert_eq!(after.ledger.len(), usize::from(ended), "{name}: ledger");
    let counted = ended || after.status.phase().is_ended();
    assert_eq!(after.usage.effects_confirmed, u64::from(counted), "{name}: confirmed");
    assert_eq!(after.usage.step_ms, 20, "{name}: milliseconds");
    let entry = after.tail.entries.last().unwrap();
    assert_eq!(entry.more.effects.len(), if ended { 2 } else { 0 }, "{name}: effects in history");

    let written = committed(run, T0, commit.clone());
    assert_eq!(written.hold.acquires, 0, "{name}: acquires");
    assert_eq!(written.mailbox.letters.len(), usize::from(!ended), "{name}: letters");
}

#[test]
fn every_outcome_of_a_step() {
    use EntryKind as E;
    let run = at_work();
    for go_on in [true, false] {
        let ahead = if go_on { Then::Continue } else { send(0) };
        let stepped = going_on(Phase::Running, E::Stepped, true, ahead, Some(MARK));
        check("goto", &run, goto(), go_on, &stepped);
        check("a wait whose time has come", &run, wait(&[], Some(T0)), go_on, &stepped);

        let seen = Some(MailboxSeq(1));
        let waited = |then, due| going_on(Phase::Waiting, E::Waited, true, then, due);
        let signalled = Expected { mailbox_seen: seen, ..waited(Then::HandOff(None), None) };
        check("wait for a signal", &run, wait(&["other"], None), go_on, &signalled);
        let timed = Expected { mailbox_seen: seen, ..waited(send(MIN), Some(MARK)) };
        check("wait a minute", &run, wait(&[], Some(at(MIN))), go_on, &timed);
        let mark = Some(MARK.next_mark().next_mark());
        let far = Expected { mailbox_seen: seen, ..waited(Then::HandOff(None), mark) };
        check("wait 35 minutes", &run, wait(&["other"], Some(at(35 * MIN))), go_on, &far);

        check("complete", &run, complete(), go_on, &ended(Phase::Completed, E::Completed, true));
        check("fail", &run, fail(), go_on, &ended(Phase::Failed, E::Failed, false));
        let seen = Some(MailboxSeq(1));
        let retried = going_on(Phase::Retrying, E::Retried, false, send(1_000), Some(MARK));
        let retried = Expected { mailbox_seen: seen, ..retried };
        check("retry", &run, again_in_a_second(), go_on, &retried);
        check("retry, given up", &run, retry(RetryPolicy::none()), go_on, &ended(Phase::Failed, E::Failed, false));
        let later = going_on(Phase::Retrying, E::Retried, false, Then::HandOff(None), mark);
        let later = Expected { mailbox_seen: seen, ..later };
        let every = RetryPolicy::default().every(Duration::from_mins(35));
        check("retry, the sweeper's", &run, retry(every), go_on, &later);
        check("park", &run, park(), go_on, &ended(Phase::Parked, E::Parked, false));
    }
}

#[test]
fn every_outcome_of_a_step_whose_run_was_cancelled_meanwhile() {
    let run = with_cancel(&at_work());
    for go_on in [true, false] {
        for (name, outcome, step_ended) in [
            ("goto", goto(), true),
            ("wait", wait(&["other"], None), true),
            ("wait, over", wait(&["go"], Some(T0)), true),
            ("complete", complete(), true),
            ("fail", fail(), false),
            ("retry", again_in_a_second(), false),
            ("park", park(), false),
        ] {
            let cancelled = ended(Phase::Cancelled, EntryKind::Cancelled, step_ended);
            check(name, &run, outcome, go_on, &cancelled);
        }
    }
    let decision = decide(&run, end(goto()), true);
    assert_eq!(decision.commit.progress.place, place("Send"));
    let note = decision.commit.progress.tail.entries[0].more.note.clone();
    assert_eq!(note.unwrap(), "by ann: changed her mind");
}

#[test]
fn a_step_that_ended_moves_on_and_keeps_the_lease_for_longer() {
    let run = at_work();
    let moment = moment(at(5_000));
    let decision = commit(&run, StepEnd { version: 2, ..end(goto()) }, RULES, moment, true).unwrap();
    let after = committed(&run, moment.now, decision.commit);
    assert_eq!((after.progress.place.clone(), after.progress.version), (place("Send"), 2));
    assert_eq!(after.hold.lease, Some(make::lease(T0, at(35_000))));
    assert_eq!((after.hold.tried_since, after.crashed_since()), (Some(at(5_000)), None));
    assert_eq!(after.hold.fence, run.hold.fence);
}

#[test]
fn a_commit_needs_fence_revision_lease_and_the_same_answer_about_cancellation() {
    let run = at_work();
    let refusal = |run: &Checkpoint, decision: Decision| {
        make::write(run, T0, Write::Commit(Box::new(decision.commit))).unwrap_err()
    };
    let stepped = || decide(&run, end(goto()), false);
    let waited = || decide(&run, end(wait(&["other"], None)), false);

    let after = committed(&run, T0, stepped().commit);
    assert_eq!(refusal(&after, stepped()), Refusal::Released, "handed off");
    let taken = acquire(&after, T0).unwrap();
    assert_eq!(refusal(&taken, stepped()), Refusal::Fenced, "somebody else holds it");
    let kept = committed(&run, T0, decide(&run, end(goto()), true).commit);
    assert_eq!(refusal(&kept, stepped()), Refusal::Revision, "committed twice");
    assert_eq!(refusal(&with_cancel(&run), stepped()), Refusal::Cancelled, "cancelled meanwhile");
    assert_eq!(refusal(&run, decide(&with_cancel(&run), end(goto()), false)), Refusal::Cancelled, "no cancellation");
    let signalled = with_letter(&run, "s2", "other");
    assert_eq!(refusal(&signalled, waited()), Refusal::MailboxMoved, "a signal came");
    committed(&signalled, T0, stepped().commit);
    // An expired lease alone refuses nothing: the fence decides, not the clock.
    committed(&run, at(90 * MIN), stepped().commit);
}

#[test]
fn a_wait_is_no_wait_when_its_letter_is_there_and_not_taken_by_the_step() {
    let run = at_work();
    let early = decide(&run, end(wait(&["other", "go"], None)), true);
    assert_eq!(early.commit.progress.status, Status::Running);
    assert_eq!((early.then, last_kind(&early)), (Then::Continue, EntryKind::Stepped));

    let taken = decide(&run, busy(wait(&["go"], None)), true);
    let expected = Wait { on: vec![signal("go")], approval: None, until: None, budget_ends: None, seen: MailboxSeq(1) };
    assert_eq!(taken.commit.progress.status, Status::Waiting(expected));
    let after = committed(&run, T0, taken.commit);
    assert!(!after.is_due(T0));

    // A second letter of that name ends the wait that the first one was taken before.
    let two = with_letter(&run, "s2", "go");
    assert_eq!(decide(&two, busy(wait(&["go"], None)), false).commit.progress.status, Status::Running);
}

#[test]
fn a_failed_attempt_is_counted_and_its_effects_are_kept() {
    let mut run = at_work();
    for (failed, now) in [(1, T0), (2, at(2_000)), (3, at(9_000))] {
        let decision = commit(&run, busy(again_in_a_second()), RULES, moment(now), true).unwrap();
        run = committed(&run, now, decision.commit);
        let trouble = Trouble { failed, incompatible: 0, since: T0, last: failure("busy") };
        assert_eq!(run.progress.trouble, Some(trouble), "attempt {failed}");
        assert_eq!(run.progress.status, Status::Retrying { at: now.plus(Duration::from_secs(1)) });
        assert_eq!(run.progress.place, place("Draft"));
        assert_eq!(run.progress.journal, busy(goto()).effects);
        let entry = run.progress.tail.entries.last().unwrap();
        assert_eq!((entry.more.failed_attempts, entry.more.note.as_deref()), (failed, Some("error: busy")));
        run = acquire(&run, now.plus(Duration::from_secs(1))).unwrap();
    }
    let decision = commit(&run, busy(goto()), RULES, moment(at(11_000)), true).unwrap();
    let after = decision.commit.progress;
    assert_eq!((after.trouble, after.journal), (None, vec![]));
    assert_eq!(after.tail.entries.last().unwrap().more.failed_attempts, 3);
}

#[test]
fn what_is_given_up_says_how_often_and_why() {
    let refused = |outcome| {
        let mut run = at_work();
        run.progress.trouble = Some(Trouble { failed: 2, incompatible: 0, since: T0, last: failure("busy") });
        let decision = commit(&run, busy(outcome), RULES, moment(at(10_000)), true).unwrap();
        let Status::Failed { failure, .. } = decision.commit.progress.status else { panic!("not failed") };
        failure
    };
    let every = RetryPolicy::default().every(Duration::from_secs(1));
    let attempts = refused(retry(every.clone().max_attempts(3)));
    assert_eq!(attempts.to_string(), "error: busy (attempt 3, no attempts left)");
    let deadline = refused(retry(every.clone().deadline(Duration::from_secs(10))));
    assert_eq!(deadline.message, "busy (attempt 3, the retry deadline would pass)");
    let with_code = StepOutcome::Retry {
        failure: failure("broke").with_code("card-declined"),
        policy: every.never_on(["card-declined"]),
        at_least: None,
    };
    let code = refused(with_code);
    assert_eq!(code.to_string(), "error: broke (attempt 3, not worth a retry) [card-declined]");
    assert_eq!(refused(fail()).to_string(), "terminal: no such vendor [vendor]");
}

#[test]
fn a_step_that_says_when_to_come_back_is_believed() {
    let asked = StepOutcome::Retry {
        failure: failure("busy"),
        policy: RetryPolicy::default().max_attempts(2),
        at_least: Some(Duration::from_mins(3)),
    };
    let decision = decide(&at_work(), end(asked), true);
    assert_eq!(decision.commit.progress.status, Status::Retrying { at: at(3 * MIN) });
    assert_eq!(decision.then, send(3 * MIN));
}

#[test]
fn code_that_does_not_know_the_run_tries_again_then_parks_it() {
    let strange = || StepOutcome::Retry {
        failure: Failure::new(FailureKind::Incompatible, "workflow brief has no step Draft"),
        policy: RetryPolicy::default().every(Duration::from_mins(1)).max_attempts(2),
        at_least: None,
    };
    let run = at_work();
    let first = decide(&run, busy(strange()), true);
    assert_eq!(first.commit.progress.status.phase(), Phase::Retrying);
    let again = acquire(&committed(&run, T0, first.commit), at(MIN)).unwrap();
    let second = commit(&again, busy(strange()), RULES, moment(at(MIN)), true).unwrap();
    let reason = ParkReason::Incompatible { missing: "workflow brief has no step Draft".into() };
    let parked = committed(&again, at(MIN), second.commit);
    assert_eq!(parked.progress.status, Status::Parked { reason, at: at(MIN) });
    assert_eq!((parked.progress.journal.len(), parked.mailbox.letters.len()), (2, 1), "all is kept");
    assert_eq!(parked.progress.place, place("Draft"));
}

#[test]
fn a_rolling_deploy_uses_up_no_attempts_of_the_step() {
    let strange = StepOutcome::Retry {
        failure: Failure::new(FailureKind::Incompatible, "no step Draft"),
        policy: RetryPolicy::default().every(Duration::from_mins(10)).max_attempts(3),
        at_least: None,
    };
    let busy = retry(RetryPolicy::default().every(Duration::from_mins(10)).max_attempts(3).deadline(30 * MINUTE));
    let mut run = at_work();
    for (tries, (outcome, failed, incompatible)) in
        [(&strange, 0, 1), (&busy, 1, 1), (&strange, 1, 2), (&busy, 2, 2)].into_iter().enumerate()
    {
        let now = T0.plus(10 * MINUTE * u32::try_from(tries).unwrap());
        let decision = commit(&run, end(outcome.clone()), RULES, moment(now), true).unwrap();
        run = committed(&run, now, decision.commit);
        let trouble = run.progress.trouble.clone().unwrap();
        assert_eq!((trouble.failed, trouble.incompatible), (failed, incompatible), "try {tries}");
        // The retry deadline counts from the first failure of the step itself.
        assert_eq!(trouble.since, at(if failed == 0 { 0 } else { 10 * MIN }), "try {tries}");
        run = acquire(&run, now.plus(10 * MINUTE)).unwrap();
    }
    let end_of = |outcome| commit(&run, end(outcome), RULES, moment(at(40 * MIN)), true).unwrap().commit.progress;
    assert_eq!(end_of(strange).status.phase(), Phase::Parked);
    assert_eq!(end_of(busy).status.phase(), Phase::Failed);
}

#[test]
fn effects_of_the_run_go_to_the_ledger_and_spill_from_its_old_end() {
    let mut run = at_work();
    let (mut spilled, total) = (Vec::new(), LEDGER_RECORDS_MAX as u64 + 3);
    for number in 0..total {
        let made = keyed("book", &number.to_string(), Outcome::Succeeded(inline(&json!(number))));
        let effects = vec![made, succeeded("look")];
        let decision = decide(&run, StepEnd { effects, ..end(goto()) }, true);
        spilled.extend(decision.commit.spill.clone());
        run = committed(&run, T0, decision.commit);
    }
    let key = |number: u64| keyed("book", &number.to_string(), Outcome::Failed(failure("-"))).key;
    assert_eq!(spilled.iter().map(|record| record.key.clone()).collect::<Vec<_>>(), [key(0), key(1), key(2)]);
    let kept: Vec<_> = run.progress.ledger.iter().map(|record| record.key.clone()).collect();
    assert_eq!(kept, (3..total).map(key).collect::<Vec<_>>());
    assert_eq!((run.progress.spilled, run.progress.usage.effects_confirmed), (3, 2 * total));

    // The same key again: the newer outcome, once, as the newest.
    let again = keyed("book", "5", Outcome::Failed(failure("gone")));
    let decision = decide(&run, StepEnd { effects: vec![again.clone()], ..end(goto()) }, true);
    let ledger = decision.commit.progress.ledger;
    assert_eq!((ledger.len(), ledger.last()), (LEDGER_RECORDS_MAX, Some(&again)));
    assert_eq!(ledger.iter().filter(|record| record.key == again.key).count(), 1);
}

#[test]
fn what_was_used_is_added_up() {
    let run = at_work();
    let used = Usage { writes: 1, bytes: 700, effects_made: 2, effects_skipped: 1, ..Usage::default() };
    let decision = decide(&run, StepEnd { used, ..busy(goto()) }, true);
    let again = committed(&run, T0, decision.commit);
    let after = decide(&again, StepEnd { used, ..busy(again_in_a_second()) }, true).commit.progress.usage;
    let settled = Usage { effects_confirmed: 1, effects_failed: 1, step_ms: 40, ..Usage::default() };
    assert_eq!(after, used.plus(used).plus(settled));
}

/// The names of the effects that a cancelled run's certificate lists as uncertain, and its two counts.
fn certified(run: &Checkpoint) -> (u64, u64, Vec<String>) {
    let certificate = make::certificate(run);
    assert!(certificate.uncertain.iter().all(|line| line.outcome == LineOutcome::Unknown));
    let names = certificate.uncertain.into_iter().map(|line| line.name).collect();
    (certificate.confirmed, certificate.failed, names)
}

#[test]
fn the_certificate_counts_what_is_known_and_lists_what_is_not() {
    let lost = || Outcome::Unknown { since: T0, evidence: "no answer".into() };
    let mut run = with_cancel(&at_work());
    run.progress.usage = Usage { effects_confirmed: 7, effects_failed: 2, ..Usage::default() };
    run.progress.ledger = vec![keyed("book", "b1", lost()), keyed("pay", "p1", lost())];
    let effects = vec![
        succeeded("mail"),
        make::effect("post", Class::Read, Outcome::Failed(failure("gone"))),
        unknown("call", Class::Idempotent(Some(9))),
        unknown("look", Class::Read),
        keyed("book", "b1", Outcome::Succeeded(inline(&json!("seat 4")))),
    ];
    let expected = (9, 3, BTreeSet::from(["call".to_owned(), "pay".to_owned()]));
    let signed_off = |parked: &Checkpoint| {
        make::parked_for(parked);
        let (confirmed, failed, names) = certified(&make::taken_up(&make::signed_off(parked, T0), T0));
        (confirmed, failed, names.into_iter().collect::<BTreeSet<_>>())
    };

    // The step has ended, or it has not, or no step ran: what is known is the same.
    for outcome in [goto(), complete(), again_in_a_second(), park()] {
        let end = StepEnd { effects: effects.clone(), ..end(outcome) };
        let parked = committed(&run, T0, decide(&run, end, true).commit);
        assert_eq!(signed_off(&parked), expected);
    }
    run.progress.journal = effects;
    assert_eq!(signed_off(&committed(&run, T0, turned(&run, T0).commit)), expected);
}

#[test]
fn a_transition_that_the_table_does_not_allow_is_returned_not_written() {
    let ended = held(Status::Completed { output: inline(&json!(1)), at: T0 });
    let error = commit(&ended, end(goto()), RULES, moment(T0), true).unwrap_err();
    let said = "illegal transition from completed to running at step Draft: this is a defect, please report it";
    assert_eq!(error.to_string(), said);
}
