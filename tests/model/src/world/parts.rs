//! What the world is made of: the one run, its letters, its effect, and the units of its time.

use core::time::Duration;

use stepwell_core::decide::{Rules, StepEnd, StepOutcome};
use stepwell_core::limits::WATCHDOG_MARK;
use stepwell_core::time::millis;
use stepwell_core::write::{Start, Write, WriteRequest, apply};
use stepwell_core::{
    Amounts, CancelRequest, Checkpoint, Class, Digest, EffectKey, EffectRecord, Failure, FailureKind, Json, Lease,
    Letter, Outcome, Payload, Place, RunId, Scope, SignalId, SignalName, Timestamp, Usage, WorkerId, WorkflowName,
    WriteId,
};

/// The unit of time: a lease, a timer and a watchdog's mark are whole numbers of it.
pub(crate) const UNIT: Duration = WATCHDOG_MARK;

/// The time at which everything happens. It lies on a mark. When time passes, the past moves, not the present.
pub(crate) const NOW: Timestamp = Timestamp(1_700_001_000_000);

/// Small, so that both the limit and what lies below it are reached.
pub(crate) const RULES: Rules = Rules { lease: UNIT, acquires_max: 2, run_ends: None };

/// So many units from now.
pub(crate) fn at(units: i8) -> Timestamp {
    let by = millis(UNIT) * u64::from(units.unsigned_abs());
    Timestamp(if units < 0 { NOW.0 - by } else { NOW.0 + by })
}

/// How many units a time is away: rounded up, at most one in the past.
pub(crate) fn units(time: Timestamp) -> i8 {
    if time < NOW {
        return -1;
    }
    let ahead = millis(time.since(NOW)).div_ceil(millis(UNIT));
    i8::try_from(ahead).unwrap_or(i8::MAX)
}

/// The values that never change, made once.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) run: RunId,
    pub(crate) workflow: WorkflowName,
    pub(crate) signals: [(SignalId, SignalName); 2],
    key: EffectKey,
    value: Payload,
    lease: Lease,
}

#[allow(clippy::expect_used, reason = "constant names and values are what they are")]
impl Parts {
    pub(crate) fn new() -> Self {
        let run = RunId::new("r").expect("a name");
        let workflow = WorkflowName::new("w").expect("a name");
        let signal =
            |id: &str, name: &str| (SignalId::new(id).expect("a name"), SignalName::new(name).expect("a name"));
        let key = EffectKey::derive(&run, &workflow, "charge", Scope::Run("order"));
        let owner = WorkerId::new("w").expect("a name");
        Self {
            signals: [signal("s1", "first"), signal("s2", "second")],
            key,
            value: Payload::Inline(Json::of(&1).expect("a number is JSON")),
            lease: Lease { owner, since: NOW, until: NOW },
            run,
            workflow,
        }
    }

    /// The place of the step that runs as visit `number`.
    pub(crate) fn place(&self, number: u64) -> Place {
        Place::At { cursor: Json::of(&format!("Step{number}")).expect("text is JSON"), state: self.value.clone() }
    }

    pub(crate) fn value(&self) -> Payload {
        self.value.clone()
    }

    pub(crate) fn lease(&self, since: Timestamp) -> Lease {
        Lease { since, until: since.plus(RULES.lease), ..self.lease.clone() }
    }

    pub(crate) fn letter(&self, signal: usize) -> Letter {
        let (id, name) = self.signals[signal].clone();
        Letter { id, name, payload: self.value(), at: NOW }
    }

    /// Who asks for a pause says so under an id of their own.
    pub(crate) fn pause() -> Letter {
        let id = SignalId::new("pause").expect("a name");
        let name = SignalName::new(stepwell_core::mailbox::PAUSE).expect("a name");
        Letter { id, name, payload: Payload::Inline(Json::of("by ann").expect("text is JSON")), at: NOW }
    }

    pub(crate) fn effect(&self, outcome: Outcome, until: Option<Timestamp>) -> EffectRecord {
        EffectRecord {
            key: self.key.clone(),
            name: "charge".into(),
            class: Class::Once,
            parameters: None,
            attempts: 1,
            outcome,
            until,
            of_run: true,
            approval: None,
            costs: Amounts::new(),
            undo: None,
            no_return: false,
            signed_off: None,
        }
    }

    pub(crate) fn started(&self) -> Checkpoint {
        let start = Start {
            workflow: self.workflow.clone(),
            version: 1,
            input: self.value(),
            input_digest: Digest::of(b"1"),
            step_limit: 1_000,
        };
        let request =
            WriteRequest { run: self.run.clone(), id: WriteId(1), now: NOW, write: Write::Start(Box::new(start)) };
        apply(None, &request).expect("there is no such run yet")
    }
}

pub(crate) fn cancel() -> CancelRequest {
    CancelRequest { by: "ann".into(), why: None, at: NOW }
}

pub(crate) fn unknown() -> Outcome {
    Outcome::Unknown { since: NOW, evidence: "no answer".into() }
}

pub(crate) fn failure(kind: FailureKind) -> Failure {
    Failure::new(kind, "it went wrong")
}

/// The end of an attempt that did nothing but end.
pub(crate) fn end(held: &Checkpoint, outcome: StepOutcome) -> StepEnd {
    StepEnd {
        step: held.progress.place.step(),
        version: 1,
        outcome,
        effects: held.progress.journal.clone(),
        consumed: Vec::new(),
        appends: Vec::new(),
        logs: 0,
        used: Usage::default(),
        took: Duration::ZERO,
        note: None,
        back: None,
    }
}
