//! Commits, cancellations and amendments: what the holder may write, and when not.

use std::time::Duration;

use stepwell_core::decide;
use stepwell_core::write::{Amend, Refusal};
use stepwell_core::{
    Certificate, Failure, FailureKind, Fence, Lease, MailboxSeq, Phase, Revision, Status, Ticket, Visit,
};

use super::bed::{Bed, END, LEASE, TICK, amended, at, boxed, json, renew, signal_id, waiting};
use super::generator::Generator;

pub(super) async fn a_commit_writes_every_field(bed: &Bed<'_>) {
    let mut held = bed.held("r").await;
    let mut generator = Generator::new(11);
    for round in 0..60 {
        let mut commit = bed.carry_on(&held);
        commit.progress = generator.progress(&held, bed.now());
        commit.progress.status = Status::Running;
        commit.due_at = (round % 2 == 0).then(|| bed.now().plus(Duration::from_secs(round)).next_mark());
        let wanted = commit.clone();
        held = bed.applied(&held.run, boxed(commit)).await;
        assert_eq!(held.progress, wanted.progress);
        assert_eq!((held.due_at, &held.hold.lease), (wanted.due_at, &wanted.lease));
        bed.advance(TICK);
    }
}

pub(super) async fn a_commit_keeps_or_gives_back_the_lease(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    bed.advance(Duration::from_secs(20));
    let kept = bed.applied(&held.run, boxed(bed.carry_on(&held))).await;
    let extended = Lease { since: super::BEGIN, ..bed.lease("worker-1") };
    assert_eq!(kept.hold.lease, Some(extended), "a commit extends the lease");
    bed.advance(LEASE.saturating_sub(TICK));
    bed.refused(&held.run, bed.acquire(Ticket(1)), Refusal::Leased).await;
    // A commit says what the lease is, and may make it end sooner than a renewal could.
    let mut shorter = bed.carry_on(&kept);
    shorter.lease = Some(Lease { until: bed.now().plus(TICK), ..bed.lease("worker-1") });
    let kept = bed.applied(&held.run, boxed(shorter)).await;
    bed.advance(TICK);
    // Over, but its fence is the newest: the commit still counts.
    let free = bed.handed_off(&kept, Status::Running).await;
    assert_eq!((free.hold.lease.as_ref(), free.hold.fence), (None, Fence(1)));
    let next = bed.acquired(&free).await;
    assert_eq!((next.hold.fence, next.progress.ticket), (Fence(2), Ticket(2)));
}

pub(super) async fn a_commit_by_an_old_holder_is_fenced(bed: &Bed<'_>) {
    let old = bed.held("r").await;
    bed.advance(LEASE);
    let new = bed.acquired(&old).await;
    bed.refused(&old.run, boxed(bed.carry_on(&old)), Refusal::Fenced).await;
    bed.refused(&old.run, boxed(bed.hand_off(&old, bed.completed())), Refusal::Fenced).await;
    let mut ahead = bed.carry_on(&new);
    ahead.fence = Fence(3);
    bed.refused(&old.run, boxed(ahead), Refusal::Fenced).await;
    bed.handed_off(&new, bed.completed()).await;
}

pub(super) async fn a_commit_follows_the_revision_it_names(bed: &Bed<'_>) {
    let first = bed.held("r").await;
    let second = bed.applied(&first.run, boxed(bed.carry_on(&first))).await;
    assert_eq!(second.progress.revision, Revision(1));
    for wrong in [Revision(0), Revision(2), Revision(u64::MAX)] {
        let mut commit = bed.carry_on(&second);
        commit.after = wrong;
        bed.refused(&first.run, boxed(commit), Refusal::Revision).await;
    }
    bed.applied(&first.run, boxed(bed.carry_on(&second))).await;
}

pub(super) async fn a_commit_after_the_own_hand_off_is_refused(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let free = bed.handed_off(&held, Status::Running).await;
    bed.refused(&held.run, boxed(bed.carry_on(&held)), Refusal::Released).await;
    // Not even with the new revision: it has let go.
    bed.refused(&held.run, boxed(bed.hand_off(&free, bed.completed())), Refusal::Released).await;
}

pub(super) async fn a_commit_wants_to_know_of_a_cancellation(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let mut early = bed.carry_on(&held);
    early.cancel_seen = true;
    bed.refused(&held.run, boxed(early), Refusal::Cancelled).await;
    let cancelled = bed.applied(&held.run, bed.cancel("ann")).await;
    assert_eq!(cancelled.phase(bed.now()), Phase::Cancelling);
    // A result and a cancellation that race: the cancellation came first.
    bed.refused(&held.run, boxed(bed.hand_off(&held, bed.completed())), Refusal::Cancelled).await;
    let certificate = Certificate {
        confirmed: 1,
        step: "Research".into(),
        lost_attempt: Some(stepwell_core::Timestamp(9)),
        ..Certificate::default()
    };
    let over = Status::Cancelled { certificate, at: bed.now() };
    let ended = bed.handed_off(&cancelled, over).await;
    assert_eq!(ended.phase(bed.now()), Phase::Cancelled);
}

pub(super) async fn a_hand_off_into_a_wait_sees_every_signal(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let mut wait = bed.hand_off(&held, waiting("approve", None, MailboxSeq(0)));
    wait.mailbox_seen = Some(MailboxSeq(0));
    let moved = bed.applied(&held.run, bed.signal("s1", "approve")).await;
    bed.refused(&held.run, boxed(wait.clone()), Refusal::MailboxMoved).await;
    // One that does not ask is not held up by a signal.
    let kept = bed.applied(&held.run, boxed(bed.carry_on(&held))).await;
    assert_eq!(kept.mailbox, moved.mailbox);
    let mut wait = bed.hand_off(&kept, waiting("other", None, MailboxSeq(1)));
    wait.mailbox_seen = Some(MailboxSeq(2));
    bed.refused(&held.run, boxed(wait.clone()), Refusal::MailboxMoved).await;
    wait.mailbox_seen = Some(MailboxSeq(1));
    let waits = bed.applied(&held.run, boxed(wait)).await;
    assert_eq!(waits.due_at, None, "nothing but a signal can wake it");
    bed.refused(&held.run, bed.acquire(Ticket(2)), Refusal::NotDue).await;
}

pub(super) async fn the_first_cancellation_stands(bed: &Bed<'_>) {
    let waits = bed.standing("r", waiting("approve", None, MailboxSeq(0))).await;
    let first = bed.applied(&waits.run, bed.cancel("ann")).await;
    assert_eq!(first.due_at, Some(bed.now().next_mark()), "the sweeper will see to it");
    assert_eq!(first.cancel.as_ref().map(|cancel| cancel.by.as_str()), Some("ann"));
    bed.advance(Duration::from_hours(1));
    let second = bed.applied(&waits.run, bed.cancel("bob")).await;
    assert_eq!(second, first, "a later request changes nothing");
    let created = bed.started("created").await;
    bed.applied(&created.run, bed.cancel("ann")).await;
}

pub(super) async fn an_ended_run_stays_as_it_is(bed: &Bed<'_>) {
    let failure = Failure::new(FailureKind::Terminal, "the vendor is gone").with_code("gone");
    let ends = [
        ("completed", bed.completed()),
        ("failed", Status::Failed { failure, at: bed.now() }),
        ("cancelled", Status::Cancelled { certificate: Certificate::default(), at: bed.now() }),
    ];
    for (name, end) in ends {
        let ended = bed.standing(name, end).await;
        bed.refused(&ended.run, bed.acquire(Ticket(2)), Refusal::Ended).await;
        bed.refused(&ended.run, bed.signal("s", "approve"), Refusal::Ended).await;
        bed.refused(&ended.run, bed.cancel("ann"), Refusal::Ended).await;
        let stays = Amend { progress: ended.progress.clone(), ..bed.amend(&ended) };
        bed.refused(&ended.run, amended(stays), Refusal::Ended).await;
        if name != "failed" {
            bed.refused(&ended.run, amended(bed.amend(&ended)), Refusal::Ended).await;
        }
        bed.refused(&ended.run, boxed(bed.hand_off(&ended, Status::Running)), Refusal::Released).await;
        bed.refused(&ended.run, renew(Fence(1), bed.now().plus(LEASE)), Refusal::Released).await;
    }
}

pub(super) async fn an_amendment_resumes_a_parked_run(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let parked = bed.handed_off(&held, bed.parked()).await;
    assert_eq!(parked.due_at, None);
    bed.advance(Duration::from_hours(1));
    let mut amend = bed.amend(&parked);
    amend.progress.step_limit = 2_000;
    let resumed = bed.applied(&parked.run, amended(amend)).await;
    assert_eq!(resumed.due_at, Some(bed.now().next_mark()));
    assert_eq!((resumed.hold.acquires, resumed.hold.fence), (0, Fence(1)));
    assert_eq!(resumed.progress.step_limit, 2_000);
    bed.acquired(&resumed).await;
}

pub(super) async fn an_amendment_brings_a_failed_run_back(bed: &Bed<'_>) {
    let failure = Failure::new(FailureKind::Terminal, "the vendor is gone");
    let failed = bed.standing("r", Status::Failed { failure, at: bed.now() }).await;
    assert_eq!(failed.due_at, None);
    let back = bed.applied(&failed.run, amended(bed.amend(&failed))).await;
    assert_eq!(back.due_at, Some(bed.now().next_mark()));
    bed.acquired(&back).await;
}

pub(super) async fn an_amendment_reads_letters(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    let parked = bed.handed_off(&held, bed.parked()).await;
    for id in ["a", "b", "c"] {
        bed.applied(&parked.run, bed.signal(id, "approve")).await;
    }
    let read = Amend { consumed: vec![signal_id("a"), signal_id("c")], ..bed.amend(&parked) };
    let after = bed.applied(&parked.run, amended(read)).await;
    let left: Vec<&str> = after.mailbox.letters.iter().map(|letter| letter.id.as_str()).collect();
    assert_eq!((left, after.mailbox.seq.0), (vec!["b"], 3));
    bed.refused(&parked.run, bed.signal("a", "approve"), Refusal::Duplicate).await;
}

pub(super) async fn an_amendment_wants_its_revision_and_no_holder(bed: &Bed<'_>) {
    let held = bed.held("r").await;
    bed.refused(&held.run, amended(bed.amend(&held)), Refusal::Leased).await;
    bed.advance(LEASE.saturating_sub(TICK));
    bed.refused(&held.run, amended(bed.amend(&held)), Refusal::Leased).await;
    bed.advance(TICK);
    for wrong in [Revision(1), Revision(u64::MAX)] {
        let mut amend = bed.amend(&held);
        amend.after = wrong;
        bed.refused(&held.run, amended(amend), Refusal::Revision).await;
    }
    // The lease is over and so is its holder: what it writes later does not count.
    let amended_run = bed.applied(&held.run, amended(bed.amend(&held))).await;
    assert_eq!((amended_run.hold.lease.as_ref(), amended_run.hold.acquires), (None, 0));
    bed.refused(&held.run, boxed(bed.carry_on(&held)), Refusal::Released).await;
    bed.refused(&held.run, amended(bed.amend(&held)), Refusal::Revision).await;
}

pub(super) async fn the_end_of_time_is_a_time(bed: &Bed<'_>) {
    let end = END;
    let held = bed.held("r").await;
    let mut commit = bed.hand_off(&held, waiting("approve", Some(end), MailboxSeq(0)));
    assert_eq!(commit.due_at, decide::due_at(&commit.progress.status, bed.now()));
    commit.progress.place = at("\"Ask\"", json("1"));
    commit.progress.visit = Visit(1);
    let waits = bed.applied(&held.run, boxed(commit)).await;
    bed.refused(&waits.run, bed.acquire(Ticket(2)), Refusal::NotDue).await;
    let due = |until| async move { bed.due(until, 10).await.len() };
    bed.shows("due before the end of time", &0, async || due(bed.now().plus(LEASE)).await).await;
    bed.shows("due at the end of time", &1, async || due(end).await).await;
    bed.applied(&waits.run, bed.cancel("ann")).await;
    let held = bed.acquired(&waits).await;
    bed.applied(&held.run, renew(held.hold.fence, end)).await;
    bed.refused(&held.run, bed.acquire(Ticket(2)), Refusal::Leased).await;
}
