//! A stored checkpoint.

use std::cell::LazyCell;
use std::time::Duration;

use stepwell_core::checkpoint::Usage;
use stepwell_core::decide::sweep::horizon;
use stepwell_core::decide::{
    self, Decision, DueRun, LetStand, Moment, Repair, Resolution, Resolve, Resume, Rules, StepEnd, StepOutcome, Turn,
    refused, sweep, turn, wake,
};
use stepwell_core::limits::CHECKPOINT_BYTES_MAX;
use stepwell_core::stored::{Unknown, decode, encode};
use stepwell_core::write::{Acquire, Amend, Renew, Write, WriteRequest, apply};
use stepwell_core::{
    Budget, CancelRequest, Checkpoint, EffectRecord, Failure, FailureKind, Json, Lease, Letter, Message, ParkReason,
    Payload, Place, RetryPolicy, SignalId, SignalName, Ticket, Timestamp, WorkerId, WriteId, invariants,
};
use stepwell_http::view::{Reach, RunView};
use stepwell_ports::RunSummary;

use crate::world::World;

thread_local! {
    static WORLD: LazyCell<World> = LazyCell::new(World::new);
}

/// What can be read is written the same way again, can be shown, and stays whole whatever is decided on it.
pub fn checkpoint(bytes: &[u8]) {
    // A store holds none that is larger.
    if bytes.len() > CHECKPOINT_BYTES_MAX {
        return;
    }
    let Ok((read, unknown)) = decode(bytes) else { return };
    same_again(&read, &unknown);
    let is_whole = invariants::check(&read).is_ok();
    for now in times(&read) {
        looked_at(&read, now);
        if is_whole {
            decided(&read, now);
        }
    }
    if is_whole {
        shown(&read);
    }
}

fn same_again(read: &Checkpoint, unknown: &Unknown) {
    let written = encode(read, unknown).expect("what was read can be written");
    let again = decode(&written).expect("what was written can be read");
    assert_eq!((&again.0, &again.1), (read, unknown));
    assert_eq!(encode(&again.0, &again.1).as_ref(), Ok(&written));
}

/// The ends of time, and those that the checkpoint speaks of.
fn times(read: &Checkpoint) -> [Timestamp; 4] {
    let lease = read.hold.lease.as_ref().map_or(Timestamp(1), |lease| lease.until);
    [Timestamp(0), read.started_at, lease.max(read.wakes_at().unwrap_or_default()), Timestamp(u64::MAX)]
}

fn looked_at(read: &Checkpoint, now: Timestamp) {
    let _ = (read.phase(now), read.is_leased(now), read.crashed_since(), read.progress.place.step());
    let _ = (now.to_string(), now.next_mark(), wake(read, now));
    assert_eq!(read.weight(), encode(read, &Unknown::new()).unwrap().len());
    assert_eq!(RunSummary::of(read).run, read.run);
    if let Some(due) = DueRun::of(read) {
        let _ = (sweep(&due, now, Duration::from_mins(15)), horizon(now, Duration::MAX));
    }
    for ticket in [Ticket(0), read.progress.ticket, Ticket(u64::MAX)] {
        let message = Message { run: read.run.clone(), ticket };
        let _ = refused(Some(read), &message, now, u64::MAX);
        let _ = decide::dead_letter(Some(read), &message, Some("poison"), now, 7);
    }
}

/// Everything that may come next, from those who hold the run and from those who do not.
fn decided(read: &Checkpoint, now: Timestamp) {
    let owner = WorkerId::new("w").unwrap();
    let lease = Lease { owner, since: now, until: now.plus(Duration::from_secs(30)) };
    let acquire = Acquire { ticket: read.progress.ticket, lease };
    if let Some(held) = written(read, now, Write::Acquire(acquire)) {
        held_on(&held, now);
    }
    let payload = Payload::Inline(Json::of("hello").unwrap());
    let (id, name) = (SignalId::new("s1").unwrap(), SignalName::new("hello").unwrap());
    written(read, now, Write::Signal(Box::new(Letter { id, name, payload, at: now })));
    written(read, now, Write::Cancel(CancelRequest { by: "ann".into(), why: None, at: now }));
    for amend in amends(read, now) {
        written(read, now, Write::Amend(Box::new(amend)));
    }
}

fn held_on(held: &Checkpoint, now: Timestamp) {
    let commit = |decision: Decision| written(held, now, Write::Commit(Box::new(decision.commit)));
    written(held, now, Write::Renew(Renew { fence: held.hold.fence, until: Timestamp(u64::MAX) }));
    let budget = Budget::none().of_run("cents", 5).effects(2).lasting(Duration::from_secs(9)).or_fail();
    if let Ok(Turn::Write(decision)) = turn(held, &budget, Rules::default(), now) {
        commit(*decision);
    }
    let effects = &held.progress.journal;
    if let Ok(intended) = decide::intend(held, effects.clone(), now, Rules::default(), now) {
        written(held, now, Write::Commit(Box::new(intended)));
    }
    for outcome in outcomes(held) {
        for go_on in [false, true] {
            let end = end(outcome.clone(), effects.clone());
            if let Ok(decision) = decide::commit(held, end, Rules::default(), Moment { now, random: u64::MAX }, go_on) {
                commit(decision);
            }
        }
    }
}

/// How a step may end.
fn outcomes(held: &Checkpoint) -> [StepOutcome; 7] {
    let place: Place = held.progress.place.with_step(Json::of("Next").unwrap());
    let failure = || Failure::new(FailureKind::Timeout, "too slow");
    let on = vec![SignalName::new("hello").unwrap()];
    [
        StepOutcome::Goto { place: place.clone() },
        StepOutcome::Wait { place: place.clone(), on, until: Some(Timestamp(u64::MAX)), ask: None },
        StepOutcome::Undone { place },
        StepOutcome::Complete { output: Payload::Inline(Json::of(&7).unwrap()) },
        StepOutcome::Fail { failure: failure() },
        StepOutcome::Retry { failure: failure(), policy: RetryPolicy::default(), at_least: Some(Duration::MAX) },
        StepOutcome::Park { reason: ParkReason::Data { what: "a blob is missing".into() } },
    ]
}

fn end(outcome: StepOutcome, effects: Vec<EffectRecord>) -> StepEnd {
    StepEnd {
        step: "Next".into(),
        version: u32::MAX,
        outcome,
        effects,
        consumed: Vec::new(),
        appends: Vec::new(),
        logs: u32::MAX,
        used: Usage { writes: 1, bytes: u64::MAX, step_ms: u64::MAX, ..Usage::default() },
        took: Duration::MAX,
        note: None,
        back: None,
    }
}

/// What people do to a run.
fn amends(read: &Checkpoint, now: Timestamp) -> Vec<Amend> {
    let (by, why) = ("ann".to_owned(), "it has to be".to_owned());
    let repair = Repair { at: read.progress.revision, by: by.clone(), why: why.clone() };
    let value = Payload::Inline(Json::of(&[1]).unwrap());
    let resume = Resume { by: by.clone(), why: None };
    let mut amends: Vec<Option<Amend>> = vec![
        decide::pause(read, now).ok().flatten(),
        decide::edit(read, value, None, &repair, now).ok(),
        decide::move_to(read, Json::of("Next").unwrap(), &repair, now).ok(),
        decide::discard(read, &repair, now).ok(),
        decide::retry(read, &by, None, now).ok().map(|(amend, _)| amend),
        decide::resume(read, &resume, now).ok().map(|(amend, _)| amend),
        decide::resume_for_evidence(read, now).ok().flatten().map(|(amend, _)| amend),
        decide::cancel_parked(read, now).ok().flatten().map(|(amend, _)| amend),
        decide::let_stand(read, &LetStand { by: by.clone(), why: why.clone() }, now).ok().map(|(amend, _)| amend),
    ];
    for record in read.progress.journal.iter().chain(&read.progress.ledger) {
        let (key, by, why) = (record.key.clone(), by.clone(), why.clone());
        let act = Resolve { key, resolution: Resolution::Failed("declined".into()), by, why };
        amends.push(decide::resolve(read, &act, now).ok().map(|(amend, _)| amend));
    }
    amends.into_iter().flatten().collect()
}

/// Carries it out. A checkpoint that was whole is whole afterwards, and can be stored.
fn written(before: &Checkpoint, now: Timestamp, write: Write) -> Option<Checkpoint> {
    let id = WriteId(before.hold.write.0.wrapping_add(1));
    let request = WriteRequest { run: before.run.clone(), id, now, write };
    let after = apply(Some(before), &request).ok()?;
    assert_eq!(invariants::check(&after), Ok(()), "after {:?}", request.write);
    assert!(after.hold.fence >= before.hold.fence && after.progress.revision >= before.progress.revision);
    same_again(&after, &Unknown::new());
    Some(after)
}

/// The API shows it, at any time.
fn shown(read: &Checkpoint) {
    WORLD.with(|world| {
        world.runtime.block_on(async {
            for now in [Timestamp(0), Timestamp(u64::MAX)] {
                let budget = Budget::none().of_run("cents", 5).lasting(Duration::from_secs(9));
                let view = RunView::load(&world.client, read, Some(&budget), now, Reach::All).await;
                let view = view.expect("what cannot be read says so in its place");
                serde_json::to_vec(&view).expect("what is shown can be written");
            }
        });
    });
}
