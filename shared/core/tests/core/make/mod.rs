//! Makers: checkpoints, step ends and effects for tests, each with everything ordinary unless the test says otherwise.

pub(crate) mod dice;
pub(crate) mod steps;

use core::time::Duration;

use serde_json::json;
use stepwell_core::checkpoint::{CancelRequest, Lease, Place, Usage};
use stepwell_core::decide::{Decision, Moment, Resolution, Resolve, Rules, StepEnd, StepOutcome, Turn, resolve, turn};
use stepwell_core::history::EntryKind;
use stepwell_core::write::{Acquire, Amend, Commit, Refusal, Start, Write, WriteRequest, apply};
use stepwell_core::{
    Amounts, AskApproval, Authority, Budget, Certificate, Checkpoint, Class, Digest, EffectKey, EffectRecord, Failure,
    FailureKind, Json, Letter, MailboxSeq, Outcome, ParkReason, Payload, RunId, Scope, SignalId, SignalName, Status,
    Ticket, Timestamp, Visit, Wait, WorkerId, WorkflowName, WriteId,
};

/// When every test begins. Not on a watchdog mark: the next one is 10 minutes later.
pub(crate) const T0: Timestamp = Timestamp(1_700_000_400_000);
/// The first watchdog mark after [`T0`].
pub(crate) const MARK: Timestamp = Timestamp(1_700_001_000_000);
pub(crate) const RULES: Rules = Rules { lease: Duration::from_secs(30), acquires_max: 5, run_ends: None };

pub(crate) fn at(after: u64) -> Timestamp {
    T0.plus(Duration::from_millis(after))
}

pub(crate) fn moment(now: Timestamp) -> Moment {
    Moment { now, random: 0 }
}

pub(crate) fn run() -> RunId {
    RunId::new("run-1").unwrap()
}

pub(crate) fn signal(name: &str) -> SignalName {
    SignalName::new(name).unwrap()
}

pub(crate) fn signal_id(id: &str) -> SignalId {
    SignalId::new(id).unwrap()
}

pub(crate) fn inline(value: &serde_json::Value) -> Payload {
    Payload::Inline(Json::of(value).unwrap())
}

pub(crate) fn place(step: &str) -> Place {
    Place::At { cursor: Json::of(step).unwrap(), state: inline(&json!({"n": 1})) }
}

pub(crate) fn failure(message: &str) -> Failure {
    Failure::new(FailureKind::Error, message)
}

pub(crate) fn cancel() -> CancelRequest {
    CancelRequest { by: "ann".into(), why: Some("changed her mind".into()), at: T0 }
}

pub(crate) fn lease(since: Timestamp, until: Timestamp) -> Lease {
    Lease { owner: WorkerId::new("w1").unwrap(), since, until }
}

pub(crate) fn letter(id: &str, name: &str) -> Letter {
    Letter { id: signal_id(id), name: signal(name), payload: inline(&json!("yes")), at: T0 }
}

pub(crate) fn effect(name: &str, class: Class, outcome: Outcome) -> EffectRecord {
    let workflow = WorkflowName::new("brief").unwrap();
    let key = EffectKey::derive(&run(), &workflow, name, Scope::Visit(Visit(0)));
    EffectRecord {
        key,
        name: name.into(),
        class,
        parameters: None,
        attempts: 1,
        outcome,
        until: None,
        of_run: false,
        approval: None,
        costs: Amounts::new(),
        undo: None,
        no_return: false,
        signed_off: None,
    }
}

pub(crate) fn succeeded(name: &str) -> EffectRecord {
    effect(name, Class::Idempotent(None), Outcome::Succeeded(inline(&json!("ok"))))
}

pub(crate) fn unknown(name: &str, class: Class) -> EffectRecord {
    effect(name, class, Outcome::Unknown { since: T0, evidence: "no answer".into() })
}

pub(crate) fn keyed(name: &str, key: &str, outcome: Outcome) -> EffectRecord {
    let workflow = WorkflowName::new("brief").unwrap();
    let key = EffectKey::derive(&run(), &workflow, name, Scope::Run(key));
    EffectRecord { key, of_run: true, ..effect(name, Class::Idempotent(None), outcome) }
}

/// The end of an attempt that did nothing but end.
pub(crate) fn end(outcome: StepOutcome) -> StepEnd {
    StepEnd {
        step: "Draft".into(),
        version: 1,
        outcome,
        effects: Vec::new(),
        consumed: Vec::new(),
        appends: Vec::new(),
        logs: 0,
        used: Usage::default(),
        took: Duration::from_millis(20),
        note: None,
        back: None,
    }
}

/// Carries out a write under an id of its own.
pub(crate) fn write(current: &Checkpoint, now: Timestamp, write: Write) -> Result<Checkpoint, Refusal> {
    let id = WriteId(current.hold.write.0 + 1);
    apply(Some(current), &WriteRequest { run: current.run.clone(), id, now, write })
}

pub(crate) fn started() -> Checkpoint {
    let start = Start {
        workflow: WorkflowName::new("brief").unwrap(),
        version: 1,
        input: inline(&json!({"goal": "win"})),
        input_digest: Digest::of(b"input"),
        step_limit: 1_000,
    };
    let request = WriteRequest { run: run(), id: WriteId(1), now: T0, write: Write::Start(Box::new(start)) };
    apply(None, &request).unwrap()
}

/// A run at its second step, with ticket 5, held by nobody, standing so.
pub(crate) fn standing(status: Status) -> Checkpoint {
    let mut run = started();
    run.due_at = stepwell_core::decide::due_at(&status, T0);
    run.progress.ticket = Ticket(5);
    run.progress.revision.0 = 4;
    run.progress.visit = Visit(1);
    run.progress.place = place("Draft");
    run.progress.status = status;
    run
}

/// The same, held since [`T0`].
pub(crate) fn held(status: Status) -> Checkpoint {
    let mut run = standing(status);
    run.hold.fence.0 = 3;
    run.hold.acquires = 1;
    run.hold.tried_since = Some(T0);
    run.hold.lease = Some(lease(T0, T0.plus(RULES.lease)));
    run
}

pub(crate) fn waiting(on: &[&str], until: Option<Timestamp>) -> Status {
    let on = on.iter().map(|name| signal(name)).collect();
    Status::Waiting(Wait { on, approval: None, until, budget_ends: None, seen: MailboxSeq(0) })
}

pub(crate) fn acquire(current: &Checkpoint, now: Timestamp) -> Result<Checkpoint, Refusal> {
    let (ticket, lease) = (current.progress.ticket, lease(now, now.plus(RULES.lease)));
    write(current, now, Write::Acquire(Acquire { ticket, lease }))
}

pub(crate) fn with_letter(current: &Checkpoint, id: &str, name: &str) -> Checkpoint {
    write(current, T0, Write::Signal(Box::new(letter(id, name)))).unwrap()
}

pub(crate) fn with_cancel(current: &Checkpoint) -> Checkpoint {
    write(current, T0, Write::Cancel(cancel())).unwrap()
}

/// What the commit leaves behind, which has to be accepted and to keep every invariant.
pub(crate) fn committed(current: &Checkpoint, now: Timestamp, commit: Commit) -> Checkpoint {
    let after = write(current, now, Write::Commit(Box::new(commit))).unwrap();
    stepwell_core::invariants::check(&after).unwrap();
    after
}

/// A run that holds a letter `s1` and is worked on.
pub(crate) fn at_work() -> Checkpoint {
    with_letter(&held(Status::Running), "s1", "go")
}

/// How the history names what was decided.
pub(crate) fn last_kind(decision: &Decision) -> EntryKind {
    decision.commit.progress.tail.entries.last().unwrap().kind
}

/// What is written for a run that was acquired and whose step does not run.
pub(crate) fn turned(run: &Checkpoint, now: Timestamp) -> Decision {
    let Turn::Write(decision) = turn(run, &Budget::none(), RULES, now).unwrap() else { panic!("the step would run") };
    *decision
}

/// What the amendment leaves behind, which has to be accepted and to keep every invariant.
pub(crate) fn amended(current: &Checkpoint, now: Timestamp, amend: Amend) -> Checkpoint {
    let after = write(current, now, Write::Amend(Box::new(amend))).unwrap();
    stepwell_core::invariants::check(&after).unwrap();
    after
}

/// A person's word on the effect of this name, and whether the run is woken by it.
pub(crate) fn told(current: &Checkpoint, name: &str, resolution: Resolution, now: Timestamp) -> (Checkpoint, bool) {
    let records = || current.progress.journal.iter().chain(&current.progress.ledger);
    let key = records().find(|record| record.name == name).unwrap().key.clone();
    let act = Resolve { key, resolution, by: "bob".into(), why: "the bank says so".into() };
    let (amend, send) = resolve(current, &act, now).unwrap();
    (amended(current, now, amend), send.is_some())
}

/// Every open effect is signed off as uncertain. The last one wakes the run.
pub(crate) fn signed_off(current: &Checkpoint, now: Timestamp) -> Checkpoint {
    let stepwell_core::Progress { journal, ledger, .. } = &current.progress;
    let earlier = ledger.iter().filter(|old| journal.iter().all(|new| new.key != old.key));
    let open = journal.iter().chain(earlier).filter(|record| record.is_open());
    let open: Vec<_> = open.map(|record| record.name.clone()).collect();
    let mut run = current.clone();
    for (index, name) in open.iter().enumerate() {
        let (after, woken) = told(&run, name, Resolution::SignOff, now);
        assert_eq!(woken, index + 1 == open.len(), "{name} is number {index} of {open:?}");
        run = after;
    }
    run
}

/// The run after a worker has taken it up and run no step.
pub(crate) fn taken_up(run: &Checkpoint, now: Timestamp) -> Checkpoint {
    let held = acquire(run, now).unwrap();
    let decision = turned(&held, now);
    committed(&held, now, decision.commit)
}

/// The certificate of a run that was cancelled.
pub(crate) fn certificate(run: &Checkpoint) -> Certificate {
    let Status::Cancelled { certificate, .. } = &run.progress.status else { panic!("{:?}", run.progress.status) };
    certificate.clone()
}

/// For what a run is parked that does not know how an effect ended.
pub(crate) fn parked_for(run: &Checkpoint) -> String {
    match &run.progress.status {
        Status::Parked { reason: ParkReason::UnknownOutcome { what }, .. } => what.clone(),
        other => panic!("{other:?}"),
    }
}

/// The run after its holder has let it go between two steps.
pub(crate) fn handed_off(held: &Checkpoint, now: Timestamp) -> Checkpoint {
    let goto = end(StepOutcome::Goto { place: held.progress.place.clone() });
    let decision = stepwell_core::decide::commit(held, goto, RULES, moment(now), false).unwrap();
    committed(held, now, decision.commit)
}

/// An approval of a refund, of the finance department or of ann, after four hours also of the chief.
pub(crate) fn refund() -> AskApproval {
    AskApproval {
        action: "refund".into(),
        parameters: inline(&json!({"order": 7, "cents": 900})),
        fingerprint: Digest::of(b"7, 900"),
        by: vec![Authority::Role("finance".into()), Authority::Person("ann".into())],
        quorum: 1,
        escalation: Some((Duration::from_hours(4), vec![Authority::Role("cfo".into())])),
        within: Duration::from_hours(72),
        by_link: false,
        usable_for: Duration::from_hours(24),
    }
}

/// A run that waits for an approval, held by nobody.
pub(crate) fn asked(ask: AskApproval) -> Checkpoint {
    let held = held(Status::Running);
    let wait = StepOutcome::Wait { place: place("Refund"), on: vec![], until: None, ask: Some(Box::new(ask)) };
    let decision = stepwell_core::decide::commit(&held, end(wait), RULES, moment(T0), false).unwrap();
    committed(&held, T0, decision.commit)
}
