//! The write that stands before a call which cannot be repeated unasked: what it changes, what refuses it, and what a
//! successor learns from it.

use core::time::Duration;

use crate::make::{
    self, MARK, RULES, T0, acquire, at, at_work, committed, end, failure, held, keyed, last_kind, moment, place,
    started, succeeded, turned, unknown, waiting, with_cancel, with_letter, write,
};
use stepwell_core::checkpoint::{Lease, Trouble};
use stepwell_core::decide::{StepEnd, StepOutcome, Turn, commit, intend, turn};
use stepwell_core::history::{EffectLine, Entry, EntryKind, LineOutcome, More};
use stepwell_core::write::{Commit, Refusal, Write, WriteRequest, check};
use stepwell_core::{
    Budget, Checkpoint, Class, EffectRecord, Outcome, ParkReason, RetryPolicy, Status, Timestamp, Visit, WriteId,
};

/// What is written down of an effect before its call, the first under its key.
fn about_to_call(name: &str, class: Class, until: Timestamp) -> EffectRecord {
    EffectRecord { until: Some(until), ..unknown(name, class) }
}

fn once() -> EffectRecord {
    about_to_call("letter", Class::Once, at(20_000))
}

fn intent(held: &Checkpoint, now: Timestamp) -> Commit {
    intend(held, vec![once()], at(20_000), RULES, now).unwrap()
}

/// The run after its intent, which has to be accepted.
fn intended(held: &Checkpoint, now: Timestamp) -> Checkpoint {
    committed(held, now, intent(held, now))
}

#[test]
fn an_intent_writes_the_journal_and_ends_nothing() {
    for status in [
        Status::Created,
        Status::Running,
        Status::Retrying { at: T0 },
        waiting(&["go"], Some(T0)),
        waiting(&["go"], None),
    ] {
        let mut before = with_letter(&held(status.clone()), "s1", "go");
        before.progress.trouble = Some(Trouble { failed: 2, incompatible: 0, since: T0, last: failure("busy") });
        before.progress.ledger = vec![keyed("book", "b1", Outcome::Failed(failure("sold out")))];
        let journal = vec![succeeded("mail"), once()];
        let commit = intend(&before, journal.clone(), at(20_000), RULES, at(5)).unwrap();
        let name = format!("{status:?}");
        assert_eq!((commit.fence, commit.after), (before.hold.fence, before.progress.revision), "{name}");
        assert_eq!((commit.cancel_seen, commit.mailbox_seen), (false, None), "{name}");
        assert_eq!((commit.consumed.len(), commit.appends.len(), commit.spill.len()), (0, 0, 0), "{name}");

        let after = committed(&before, at(5), commit);
        let mut expected = before.progress.clone();
        expected.revision = expected.revision.next();
        (expected.status, expected.journal) = (Status::Running, journal);
        expected.tail = after.progress.tail.clone();
        assert_eq!(after.progress, expected, "{name}: visit, ticket, place, ledger and failed attempts are as before");
        assert_eq!((&after.mailbox, after.due_at), (&before.mailbox, Some(MARK)), "{name}");
    }
}

#[test]
fn the_lease_lasts_until_the_calls_give_up_and_never_gets_shorter() {
    // A lease of 30 seconds; when it was to end, when the intent is written, when its calls give up, when it ends then.
    for (was, now, until, expected) in [
        (30_000, 0, 5_000, 30_000),
        (30_000, 10_000, 15_000, 40_000),
        (30_000, 10_000, 60_000, 60_000),
        (90_000, 10_000, 20_000, 90_000),
        (90_000, 10_000, 95_000, 95_000),
        // It has run out, and nobody else has come.
        (30_000, 50_000, 55_000, 80_000),
    ] {
        let mut held = held(Status::Running);
        held.hold.lease = Some(make::lease(T0, at(was)));
        let commit = intend(&held, vec![once()], at(until), RULES, at(now)).unwrap();
        let case = format!("until {was}, at {now}, for calls until {until}");
        assert_eq!(commit.lease, Some(make::lease(T0, at(expected))), "{case}");
        assert_eq!(committed(&held, at(now), commit.clone()).hold.lease, commit.lease, "{case}");
    }
}

#[test]
fn the_history_names_what_is_about_to_be_called_and_was_not_named_before() {
    let mut held = at_work();
    let (old, again) = (about_to_call("old", Class::Once, T0), about_to_call("again", Class::Reconcilable, T0));
    held.progress.journal = vec![old.clone(), again.clone()];
    let journal = vec![
        old,
        EffectRecord { attempts: 2, until: Some(at(9)), ..again },
        about_to_call("letter", Class::Once, at(9)),
        about_to_call("pay", Class::Reconcilable, at(9)),
        about_to_call("mail", Class::Idempotent(None), at(9)),
        about_to_call("look", Class::Read, at(9)),
        EffectRecord { class: Class::Once, ..succeeded("fax") },
        make::effect("call", Class::Reconcilable, Outcome::Failed(failure("no"))),
    ];
    let after = committed(&held, at(5), intend(&held, journal, at(9), RULES, at(5)).unwrap());
    let line =
        |name: &str, class, attempts| EffectLine { name: name.into(), class, outcome: LineOutcome::Unknown, attempts };
    let effects = vec![
        line("again", Class::Reconcilable, 2),
        line("letter", Class::Once, 1),
        line("pay", Class::Reconcilable, 1),
        line("mail", Class::Idempotent(None), 1),
    ];
    let more = More { effects, ..More::default() };
    let entry = Entry { step: "Draft".into(), kind: EntryKind::Intended, at: 0, took: 0, more };
    assert_eq!(after.progress.tail.entries, [entry]);
}

#[test]
fn an_intent_is_refused_to_whoever_may_not_call() {
    let run = at_work();
    let refusal = |current: &Checkpoint, commit: Commit| {
        let write = Write::Commit(Box::new(commit));
        let id = WriteId(current.hold.write.0 + 1);
        check(Some(current), &WriteRequest { run: current.run.clone(), id, now: at(1), write })
    };
    assert_eq!(refusal(&run, intent(&run, at(1))), Ok(()));
    assert_eq!(refusal(&with_cancel(&run), intent(&run, at(1))), Err(Refusal::Cancelled), "cancelled meanwhile");
    let taken = acquire(&run, at(30_000)).unwrap();
    assert_eq!(refusal(&taken, intent(&run, at(1))), Err(Refusal::Fenced), "somebody else holds the run");
    let moved = intended(&run, at(1));
    assert_eq!(refusal(&moved, intent(&run, at(1))), Err(Refusal::Revision), "another intent was first");
    assert_eq!(refusal(&moved, intent(&moved, at(1))), Ok(()), "on what that one has left");
    let goto = commit(&run, end(StepOutcome::Goto { place: place("Send") }), RULES, moment(T0), false).unwrap();
    let released = committed(&run, T0, goto.commit);
    assert_eq!(refusal(&released, intent(&run, at(1))), Err(Refusal::Released), "the step has ended");
    // Nothing that a step does not have to know of stands in its way.
    assert_eq!(refusal(&with_letter(&run, "s2", "go"), intent(&run, at(1))), Ok(()));
}

#[test]
fn a_run_that_has_ended_intends_nothing() {
    let ended = held(Status::Failed { failure: failure("no"), at: T0 });
    let illegal = intend(&ended, vec![once()], at(9), RULES, at(1)).unwrap_err();
    assert!(illegal.to_string().contains("from failed to running at step Draft"), "{illegal}");
}

#[test]
fn an_intent_is_no_progress_and_its_holders_successor_knows_of_the_attempt() {
    let first = acquire(&started(), T0).unwrap();
    let second = acquire(&first, at(40_000)).unwrap();
    for (name, held, now, acquires, crashed_since) in
        [("a first attempt", first, at(10), 1, None), ("after a crashed one", second, at(40_010), 2, Some(T0))]
    {
        let mut run = held;
        for intents in 1..=3 {
            run = intended(&run, now);
            assert_eq!((run.hold.acquires, run.hold.tried_since), (acquires, Some(T0)), "{name}, {intents} intents");
            assert_eq!(run.crashed_since(), crashed_since, "{name}: the holder's own attempt is no crashed one");
        }
        let successor = acquire(&run, at(100_000)).unwrap();
        assert_eq!((successor.hold.acquires, successor.crashed_since()), (acquires + 1, Some(T0)), "{name}");
        assert_eq!(successor.progress.journal, [once()], "{name}: it is told what may have been called");

        // The attempt fails, and is on record: only what crashed before it stays open.
        let retry = StepOutcome::Retry { failure: failure("busy"), policy: RetryPolicy::default(), at_least: None };
        let retry = StepEnd { effects: vec![succeeded("letter")], ..end(retry) };
        let decision = commit(&run, retry, RULES, moment(now), false).unwrap();
        let failed = committed(&run, now, decision.commit);
        assert_eq!((failed.hold.acquires, failed.hold.tried_since), (0, crashed_since), "{name}");

        // It ends: the next visit was tried by nobody before now.
        let goto = end(StepOutcome::Goto { place: place("Send") });
        let decision = commit(&run, goto, RULES, moment(now), true).unwrap();
        let next = committed(&run, now, decision.commit);
        assert_eq!((next.hold.acquires, next.hold.tried_since), (0, Some(now)), "{name}");
        assert_eq!(next.progress.visit, Visit(1), "{name}");
    }
}

#[test]
fn a_step_that_kills_its_worker_after_each_intent_is_poison_all_the_same() {
    let mut run = acquire(&started(), T0).unwrap();
    for acquires in 1..=RULES.acquires_max {
        let now = at(u64::from(acquires) * 60_000);
        assert_eq!(turn(&run, &Budget::none(), RULES, now).unwrap(), Turn::Step, "acquire {acquires}");
        run = acquire(&intended(&run, now), now.plus(Duration::from_secs(50))).unwrap();
    }
    let now = at(600_000);
    let decision = turned(&run, now);
    assert_eq!(last_kind(&decision), EntryKind::Parked);
    let parked = committed(&run, now, decision.commit);
    let reason = ParkReason::Poison { acquires: RULES.acquires_max };
    assert_eq!(parked.progress.status, Status::Parked { reason, at: now });
    assert_eq!(parked.progress.journal, [once()], "what may have been called is still known");
}

#[test]
fn a_renewal_beside_an_intent_loses_nothing() {
    let run = intended(&at_work(), at(5));
    let renew = stepwell_core::write::Renew { fence: run.hold.fence, until: at(70_000) };
    let renewed = write(&run, at(6), Write::Renew(renew)).unwrap();
    assert_eq!(renewed.progress, run.progress);
    let commit = intend(&run, vec![once()], at(20_000), RULES, at(7)).unwrap();
    // Written on what was known before the renewal: the fence and the revision are the same.
    let until = committed(&renewed, at(7), commit).hold.lease.map(|Lease { until, .. }| until);
    assert_eq!(until, Some(at(30_007)), "a commit says what the lease is");
}
