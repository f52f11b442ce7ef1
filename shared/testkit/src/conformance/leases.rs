//! Starting a run and taking its lease: the acquire rule, row by row.

use std::time::Duration;

use stepwell_core::decide::{self, Rules};
use stepwell_core::write::{Acquire, Commit, Refusal, Write};
use stepwell_core::{
    Checkpoint, Class, EffectKey, EffectRecord, Fence, Hold, MailboxSeq, Outcome, Scope, Status, Ticket, Timestamp,
};
use stepwell_ports::ListQuery;

use super::bed::{Bed, LEASE, TICK, amended, boxed, json, renew, run, start, start_with, waiting};

pub(super) async fn a_start_creates_the_run(bed: &Bed<'_>) {
    let request = bed.request(&run("r"), start("brief"));
    let started = bed.applies(&request).await;
    assert_eq!((started.progress.ticket, started.hold.fence), (Ticket(1), Fence(0)));
    assert_eq!(started.due_at, Some(bed.now().next_mark()));
    assert_eq!(started.hold.write, request.id);
}

pub(super) async fn a_second_start_is_refused(bed: &Bed<'_>) {
    bed.started("r").await;
    bed.refused(&run("r"), start_with("other", json("2")), Refusal::Exists).await;
    // Not even a run that is over makes room for another of its name.
    let held = bed.acquired(&bed.load(&run("r")).await.unwrap()).await;
    bed.handed_off(&held, bed.completed()).await;
    bed.refused(&run("r"), start("brief"), Refusal::Exists).await;
}

pub(super) async fn an_unknown_run_is_none_and_refuses_all_writes(bed: &Bed<'_>) {
    let other = bed.held("other").await;
    let (unknown, ticket) = (run("unknown"), Ticket(1));
    let writes = [
        bed.acquire(ticket),
        renew(other.hold.fence, bed.now().plus(LEASE)),
        boxed(bed.carry_on(&other)),
        bed.signal("s", "approve"),
        bed.cancel("ann"),
        amended(bed.amend(&other)),
    ];
    for write in writes {
        bed.refused(&unknown, write, Refusal::NoSuchRun).await;
    }
    assert_eq!(bed.load(&unknown).await, None);
    let query = ListQuery { limit: 10, ..ListQuery::default() };
    bed.shows("runs", &vec![run("other")], async || {
        bed.list(&query).await.into_iter().map(|found| found.run).collect()
    })
    .await;
}

pub(super) async fn runs_of_similar_names_do_not_mix(bed: &Bed<'_>) {
    let longest = "x".repeat(64);
    let names = ["r", "R", "r1", "r10", "r.1", "r:1", "r-1", "r_1", "_", &longest];
    for (number, name) in names.into_iter().enumerate() {
        bed.applied(&run(name), start_with("brief", json(&number.to_string()))).await;
    }
    for (number, name) in names.into_iter().enumerate() {
        let found = bed.load(&run(name)).await.unwrap();
        assert_eq!(found.run, run(name));
        assert_eq!(found.input_digest, stepwell_core::Digest::of(number.to_string().as_bytes()), "input of {name}");
    }
}

pub(super) async fn an_acquire_is_a_load(bed: &Bed<'_>) {
    let started = bed.started("r").await;
    bed.advance(TICK);
    let request = bed.request(&started.run, bed.acquire(Ticket(1)));
    let held = bed.applies(&request).await;
    let lease = Some(bed.lease("worker-1"));
    let taken = Hold { fence: Fence(1), lease, write: request.id, acquires: 1, tried_since: Some(bed.now()) };
    assert_eq!(held.hold, taken);
    assert_eq!((held.progress, held.due_at), (started.progress, started.due_at), "only the hold changes");
}

pub(super) async fn an_acquire_wants_the_current_ticket(bed: &Bed<'_>) {
    let running = bed.standing("r", Status::Running).await;
    assert_eq!(running.progress.ticket, Ticket(2));
    for wrong in [Ticket(0), Ticket(1), Ticket(3), Ticket(u64::MAX)] {
        bed.refused(&running.run, bed.acquire(wrong), Refusal::Ticket).await;
    }
    bed.acquired(&running).await;
}

pub(super) async fn an_acquire_waits_for_the_end_of_the_lease(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let mine = bed.acquire(Ticket(1));
    bed.refused(&held.run, mine, Refusal::Leased).await;
    bed.advance(LEASE.saturating_sub(TICK));
    bed.refused(&held.run, bed.acquire(Ticket(1)), Refusal::Leased).await;
    bed.advance(TICK);
    // At `until` the lease is over.
    let other = Write::Acquire(Acquire { ticket: Ticket(1), lease: bed.lease("worker-2") });
    let taken = bed.applied(&held.run, other).await;
    assert_eq!(taken.hold.fence, Fence(2));
    assert_eq!(taken.hold.lease, Some(bed.lease("worker-2")));
}

pub(super) async fn acquires_are_counted_until_a_commit(bed: &Bed<'_>) {
    let mut held = bed.held("r").await;
    let first = bed.now();
    for acquires in 2..=4 {
        bed.advance(LEASE);
        held = bed.acquired(&held).await;
        assert_eq!((held.hold.acquires, held.hold.tried_since), (acquires, Some(first)));
    }
    bed.advance(TICK);
    // The holder's own attempt has failed: it is on record now. What the crashed ones may have done stays open.
    let mut failed = bed.hand_off(&held, Status::Retrying { at: bed.now() });
    failed.progress.visit = held.progress.visit;
    let retrying = bed.applied(&held.run, boxed(failed)).await;
    assert_eq!((retrying.hold.acquires, retrying.hold.tried_since), (0, Some(first)));
    let again = bed.acquired(&retrying).await;
    assert_eq!((again.hold.acquires, again.hold.tried_since), (1, Some(first)));

    bed.advance(TICK);
    let next = bed.applied(&held.run, boxed(bed.carry_on(&again))).await;
    assert_eq!((next.hold.acquires, next.hold.tried_since), (0, Some(bed.now())), "the next step's first try is now");
    let free = bed.handed_off(&next, Status::Running).await;
    assert_eq!(free.hold.tried_since, None, "a step that nobody has begun was never tried");
}

/// The write before a call: a commit of the same visit that keeps the lease. Whoever comes after a crash has to know of it.
pub(super) async fn an_intent_is_no_progress_of_its_visit(bed: &Bed<'_>) {
    for (name, crashes) in [("first", 0), ("second", 1), ("third", 2)] {
        let mut held = bed.held(name).await;
        let first_try = bed.now();
        for _ in 0..crashes {
            bed.advance(LEASE);
            held = bed.acquired(&held).await;
        }
        for number in 1..=3 {
            bed.advance(TICK);
            let request = bed.request(&held.run, boxed(intent(bed, &held, number)));
            let intended = bed.applies(&request).await;
            assert_eq!(bed.applies(&request).await, intended, "its own retry");
            let expected = Hold { lease: intended.hold.lease.clone(), write: request.id, ..held.hold.clone() };
            assert_eq!(intended.hold, expected, "{name}: neither acquires nor the first try change");
            assert_eq!((intended.hold.acquires, intended.hold.tried_since), (crashes + 1, Some(first_try)), "{name}");
            assert_eq!(intended.hold.lease.as_ref().map(|lease| lease.until), Some(bed.now().plus(LEASE * 2)));
            assert_eq!((intended.progress.visit, intended.progress.journal.len()), (held.progress.visit, number));
            bed.refused(&held.run, boxed(intent(bed, &held, number)), Refusal::Revision).await;
            held = intended;
        }
        // What the history says of a commit does not make it another visit.
        let mut silent = bed.carry_on(&held);
        silent.progress.visit = held.progress.visit;
        let silent = bed.applied(&held.run, boxed(silent)).await;
        assert_eq!((silent.hold.acquires, silent.hold.tried_since), (crashes + 1, Some(first_try)), "{name}");

        let cancelled = bed.applied(&silent.run, bed.cancel("ann")).await;
        bed.refused(&silent.run, boxed(intent(bed, &silent, 4)), Refusal::Cancelled).await;
        bed.advance(LEASE * 2);
        let successor = bed.acquired(&cancelled).await;
        assert_eq!((successor.hold.acquires, successor.crashed_since()), (crashes + 2, Some(first_try)), "{name}");
        bed.refused(&silent.run, boxed(intent(bed, &silent, 4)), Refusal::Fenced).await;
    }
}

/// After an intent the attempt ends: it counts as it would have without one.
pub(super) async fn an_attempt_that_has_intended_ends_like_any_other(bed: &Bed<'_>) {
    for (name, crashes) in [("first", 0), ("second", 1)] {
        let mut held = bed.held(name).await;
        let crashed_since = (crashes > 0).then_some(bed.now());
        for _ in 0..crashes {
            bed.advance(LEASE);
            held = bed.acquired(&held).await;
        }
        let intended = bed.applied(&held.run, boxed(intent(bed, &held, 1))).await;
        bed.advance(TICK);
        let mut failed = bed.hand_off(&intended, Status::Retrying { at: bed.now() });
        failed.progress.visit = intended.progress.visit;
        let retrying = bed.applied(&held.run, boxed(failed)).await;
        assert_eq!((retrying.hold.acquires, retrying.hold.tried_since), (0, crashed_since), "{name}");

        let again = bed.acquired(&retrying).await;
        let intended = bed.applied(&held.run, boxed(intent(bed, &again, 2))).await;
        bed.advance(TICK);
        let next = bed.applied(&held.run, boxed(bed.carry_on(&intended))).await;
        assert_eq!((next.hold.acquires, next.hold.tried_since), (0, Some(bed.now())), "{name}: the next visit");
    }
}

/// The intent to make `calls` calls, those before included.
fn intent(bed: &Bed<'_>, held: &Checkpoint, calls: usize) -> Commit {
    let until = bed.now().plus(LEASE * 2);
    let classes = [Class::Once, Class::Reconcilable].into_iter().cycle();
    let journal = (0..calls).zip(classes).map(|(call, class)| about_to_call(held, call, class, until)).collect();
    let rules = Rules { lease: LEASE, ..Rules::default() };
    decide::intend(held, journal, until, rules, bed.now()).expect("a live run")
}

fn about_to_call(held: &Checkpoint, call: usize, class: Class, until: Timestamp) -> EffectRecord {
    let name = format!("call-{call}");
    EffectRecord {
        key: EffectKey::derive(&held.run, &held.workflow, &name, Scope::Run("order \"7\"")),
        name,
        class,
        parameters: None,
        attempts: 1,
        outcome: Outcome::Unknown { since: super::BEGIN, evidence: "the call was in flight".into() },
        until: Some(until),
        of_run: true,
        approval: None,
        costs: stepwell_core::Amounts::new(),
        undo: None,
        no_return: false,
        signed_off: None,
    }
}

pub(super) async fn a_retrying_run_is_acquired_at_its_time(bed: &Bed<'_>) {
    let at = bed.now().plus(Duration::from_secs(7));
    let retrying = bed.standing("r", Status::Retrying { at }).await;
    bed.refused(&retrying.run, bed.acquire(Ticket(2)), Refusal::NotDue).await;
    bed.advance(at.since(bed.now()).saturating_sub(TICK));
    bed.refused(&retrying.run, bed.acquire(Ticket(2)), Refusal::NotDue).await;
    // A signal does not shorten the delay of a retry.
    bed.applied(&retrying.run, bed.signal("s", "approve")).await;
    bed.refused(&retrying.run, bed.acquire(Ticket(2)), Refusal::NotDue).await;
    bed.advance(TICK);
    bed.acquired(&retrying).await;
}

pub(super) async fn a_waiting_run_is_acquired_when_something_is_new(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let held = bed.applied(&held.run, bed.signal("s1", "chat")).await;
    assert_eq!(held.mailbox.seq, MailboxSeq(1));
    // It has seen that one: nothing is due, however long it waits.
    let waits = bed.handed_off(&held, waiting("approve", None, MailboxSeq(1))).await;
    bed.refused(&waits.run, bed.acquire(Ticket(2)), Refusal::NotDue).await;
    bed.advance(Duration::from_hours(1_000));
    bed.refused(&waits.run, bed.acquire(Ticket(2)), Refusal::NotDue).await;
    // Any newer signal makes it due, also one that it does not wait for: only code can tell.
    bed.applied(&waits.run, bed.signal("s2", "chat")).await;
    let held = bed.acquired(&waits).await;
    let waits = bed.handed_off(&held, waiting("approve", None, MailboxSeq(2))).await;
    bed.refused(&waits.run, bed.acquire(Ticket(3)), Refusal::NotDue).await;
    bed.applied(&waits.run, bed.signal("s3", "approve")).await;
    bed.acquired(&waits).await;
}

pub(super) async fn a_waiting_run_is_acquired_at_its_deadline(bed: &Bed<'_>) {
    let until = bed.now().plus(Duration::from_hours(24 * 30));
    let waits = bed.standing("r", waiting("approve", Some(until), MailboxSeq(0))).await;
    bed.refused(&waits.run, bed.acquire(Ticket(2)), Refusal::NotDue).await;
    bed.advance(until.since(bed.now()).saturating_sub(TICK));
    bed.refused(&waits.run, bed.acquire(Ticket(2)), Refusal::NotDue).await;
    bed.advance(TICK);
    bed.acquired(&waits).await;
}

pub(super) async fn a_cancelled_run_is_acquired_at_once(bed: &Bed<'_>) {
    let later = bed.now().plus(Duration::from_hours(1));
    let sleeping = [
        bed.standing("waits", waiting("approve", None, MailboxSeq(0))).await,
        bed.standing("waits-until", waiting("approve", Some(later), MailboxSeq(0))).await,
        bed.standing("retries", Status::Retrying { at: later }).await,
    ];
    for asleep in sleeping {
        bed.refused(&asleep.run, bed.acquire(Ticket(2)), Refusal::NotDue).await;
        bed.applied(&asleep.run, bed.cancel("ann")).await;
        bed.acquired(&asleep).await;
    }
    // A cancellation does not take the lease away from whoever holds it.
    let held = bed.held("held").await;
    bed.applied(&held.run, bed.cancel("ann")).await;
    bed.refused(&held.run, bed.acquire(Ticket(1)), Refusal::Leased).await;
}

pub(super) async fn a_parked_or_ended_run_is_not_acquired(bed: &Bed<'_>) {
    let parked = bed.standing("parked", bed.parked()).await;
    bed.refused(&parked.run, bed.acquire(Ticket(2)), Refusal::Parked).await;
    // Neither a signal nor a cancellation makes a parked run due: a person resumes it.
    bed.applied(&parked.run, bed.signal("s", "approve")).await;
    bed.applied(&parked.run, bed.cancel("ann")).await;
    bed.refused(&parked.run, bed.acquire(Ticket(2)), Refusal::Parked).await;

    let ended = bed.standing("ended", bed.completed()).await;
    bed.refused(&ended.run, bed.acquire(Ticket(2)), Refusal::Ended).await;
}

pub(super) async fn a_renewal_extends_and_never_shortens(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let begun = bed.now();
    let until = |renewed: &stepwell_core::Checkpoint| renewed.hold.lease.as_ref().unwrap().until;
    bed.advance(Duration::from_secs(10));
    let longer = bed.now().plus(LEASE);
    let renewed = bed.applied(&held.run, renew(Fence(1), longer)).await;
    assert_eq!(until(&renewed), longer);
    let renewed = bed.applied(&held.run, renew(Fence(1), begun)).await;
    assert_eq!(until(&renewed), longer, "an earlier end changes nothing");
    // The extension holds others off.
    bed.advance(LEASE.saturating_sub(TICK));
    bed.refused(&held.run, bed.acquire(Ticket(1)), Refusal::Leased).await;
    // Over, but nobody else has come: the fence is still the holder's.
    bed.advance(Duration::from_mins(5));
    bed.applied(&held.run, renew(Fence(1), bed.now().plus(LEASE))).await;
    bed.refused(&held.run, bed.acquire(Ticket(1)), Refusal::Leased).await;
}

pub(super) async fn a_renewal_by_an_old_holder_is_fenced(bed: &Bed<'_>) {
    let old = bed.held("r").await;
    bed.advance(LEASE);
    let new = bed.acquired(&old).await;
    let longer = bed.now().plus(LEASE * 2);
    bed.refused(&old.run, renew(old.hold.fence, longer), Refusal::Fenced).await;
    bed.refused(&old.run, renew(Fence(3), longer), Refusal::Fenced).await;
    bed.handed_off(&new, Status::Running).await;
    bed.refused(&old.run, renew(new.hold.fence, longer), Refusal::Released).await;
}

pub(super) async fn a_repeated_request_has_one_effect(bed: &Bed<'_>) {
    let start = bed.request(&run("r"), start("brief"));
    let started = bed.applies(&start).await;
    assert_eq!(bed.applies(&start).await, started);

    let acquire = bed.request(&run("r"), bed.acquire(Ticket(1)));
    let held = bed.applies(&acquire).await;
    bed.advance(LEASE * 2);
    assert_eq!(bed.applies(&acquire).await, held, "the second try takes no second lease, even after the first is over");
    // What others wrote meanwhile shows, and hides nothing.
    bed.applied(&run("r"), bed.signal("s", "approve")).await;
    assert_eq!(bed.applies(&acquire).await.hold, held.hold);

    let renew = bed.request(&run("r"), renew(Fence(1), bed.now().plus(LEASE)));
    let renewed = bed.applies(&renew).await;
    assert_eq!(bed.applies(&renew).await, renewed);

    let commit = bed.request(&run("r"), boxed(bed.carry_on(&renewed)));
    let committed = bed.applies(&commit).await;
    assert_eq!(bed.applies(&commit).await, committed);

    let hand_off = bed.request(&run("r"), boxed(bed.hand_off(&committed, bed.parked())));
    let parked = bed.applies(&hand_off).await;
    assert_eq!(bed.applies(&hand_off).await, parked, "a hand-off that met itself is no hand-off after the own");

    let amend = bed.request(&run("r"), amended(bed.amend(&parked)));
    let resumed = bed.applies(&amend).await;
    assert_eq!(bed.applies(&amend).await, resumed);
}

/// Neither a signal nor a cancellation is a write of the holder's, so the start is still the last of these.
pub(super) async fn a_repeated_start_loses_nothing_that_has_arrived_since(bed: &Bed<'_>) {
    let start = bed.request(&run("r"), start("brief"));
    bed.applies(&start).await;
    let signalled = bed.applied(&run("r"), bed.signal("s", "approve")).await;
    assert_eq!(bed.applies(&start).await, signalled);
    let cancelled = bed.applied(&run("r"), bed.cancel("ann")).await;
    assert_eq!(bed.applies(&start).await, cancelled);
}

pub(super) async fn a_repeated_request_after_anothers_write_is_refused(bed: &Bed<'_>) {
    let start = bed.request(&run("r"), start("brief"));
    bed.applies(&start).await;
    let acquire = bed.request(&run("r"), bed.acquire(Ticket(1)));
    let held = bed.applies(&acquire).await;
    bed.refuses(&start, Refusal::Exists).await;
    let commit = bed.request(&run("r"), boxed(bed.carry_on(&held)));
    bed.advance(LEASE);
    let new = bed.acquired(&held).await;
    bed.refuses(&acquire, Refusal::Leased).await;
    bed.refuses(&commit, Refusal::Fenced).await;
    let next = bed.request(&run("r"), boxed(bed.carry_on(&new)));
    let next_held = bed.applies(&next).await;
    bed.applied(&run("r"), boxed(bed.carry_on(&next_held))).await;
    bed.refuses(&next, Refusal::Revision).await;
}
