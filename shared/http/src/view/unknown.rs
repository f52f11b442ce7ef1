//! Effects that may have happened, for whoever can find out whether they did.

use serde::Serialize;
use stepwell_core::{Checkpoint, EffectKey, EffectRecord, Outcome, ParkReason, Phase, RunId, Status, Timestamp};
use utoipa::ToSchema;

use super::{At, OfRun};
use crate::schema;

/// One effect that may have happened.
#[derive(Debug, Serialize, ToSchema)]
pub struct UnknownView {
    /// The run that has made it.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The step at which the run stands.
    pub step: String,
    /// Its name in the workflow.
    pub effect: String,
    /// By which it is resolved.
    #[schema(value_type = schema::EffectKey)]
    pub key: EffectKey,
    /// What the outside promises about being asked twice.
    pub class: &'static str,
    /// Calls that were made.
    pub attempts: u32,
    /// Since when nobody knows.
    pub since: At,
    /// When its last call gave up waiting, at the latest: before that it may still land.
    #[schema(required = true)]
    pub until: Option<At>,
    /// Why nobody knows.
    pub evidence: String,
    /// Whether the run is parked for want of an answer.
    pub parked: bool,
}

impl OfRun for UnknownView {
    /// Those first that stand still for want of an answer.
    const STATUSES: [Phase; 4] = [Phase::Parked, Phase::Retrying, Phase::Waiting, Phase::Running];

    /// Those of a run that has not ended, whatever the time. What this visit knows of an effect is newer than what the run's ledger says.
    fn of(run: &Checkpoint, _now: Timestamp) -> Vec<Self> {
        let progress = &run.progress;
        if progress.status.phase().is_ended() {
            return Vec::new();
        }
        let journal = &progress.journal;
        let earlier = progress.ledger.iter().filter(|old| journal.iter().all(|new| new.key != old.key));
        let open = journal.iter().chain(earlier).filter(|record| record.is_open());
        open.filter_map(|record| Self::read(run, record)).collect()
    }
}

impl UnknownView {
    fn read(run: &Checkpoint, record: &EffectRecord) -> Option<Self> {
        let EffectRecord { key, name, class, attempts, outcome, until, .. } = record;
        let Outcome::Unknown { since, evidence } = outcome else { return None };
        Some(Self {
            run: run.run.clone(),
            step: run.progress.place.step(),
            effect: name.clone(),
            key: key.clone(),
            class: class.as_str(),
            attempts: *attempts,
            since: At(*since),
            until: until.map(At),
            evidence: evidence.clone(),
            parked: wants_an_answer(&run.progress.status),
        })
    }
}

/// Whether a run is parked until somebody says how its effects ended.
pub const fn wants_an_answer(status: &Status) -> bool {
    matches!(status, Status::Parked { reason: ParkReason::UnknownOutcome { .. }, .. })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use stepwell_core::write::{Start, Write, WriteRequest, apply};
    use stepwell_core::{Amounts, Class, Digest, Json, Payload, Scope, WorkflowName, WriteId};

    use super::*;

    const NOW: Timestamp = Timestamp(2_000);

    fn open(name: &str, class: Class) -> EffectRecord {
        let (id, workflow) = (RunId::new("r1").unwrap(), WorkflowName::new("shop").unwrap());
        EffectRecord {
            key: EffectKey::derive(&id, &workflow, name, Scope::Run("k")),
            name: name.into(),
            class,
            parameters: None,
            attempts: 1,
            outcome: Outcome::Unknown { since: Timestamp(1_000), evidence: "no answer".into() },
            until: None,
            of_run: true,
            approval: None,
            costs: Amounts::new(),
            undo: None,
            no_return: false,
            signed_off: None,
        }
    }

    #[test]
    fn what_this_visit_knows_is_newer_than_the_ledger() {
        let run = RunId::new("r1").unwrap();
        let (workflow, null) = (WorkflowName::new("shop").unwrap(), || Payload::Inline(Json::of(&()).unwrap()));
        let start = Start { workflow, version: 1, input: null(), input_digest: Digest::of(b"null"), step_limit: 9 };
        let request = WriteRequest { run, id: WriteId(1), now: Timestamp(0), write: Write::Start(Box::new(start)) };
        let mut run = apply(None, &request).unwrap();
        run.progress.ledger = ["old", "paid", "twice"].map(|name| open(name, Class::Once)).into();
        let paid = EffectRecord { outcome: Outcome::Succeeded(null()), ..open("paid", Class::Once) };
        run.progress.journal = vec![paid, open("twice", Class::Once), open("page", Class::Read)];
        let names: Vec<String> = UnknownView::of(&run, NOW).into_iter().map(|unknown| unknown.effect).collect();
        assert_eq!(names, ["twice", "old"]);
        assert_eq!(UnknownView::of(&run, NOW).first().map(|unknown| unknown.parked), Some(false));
        run.progress.status = Status::Completed { output: null(), at: Timestamp(2_000) };
        assert!(UnknownView::of(&run, NOW).is_empty());
    }
}
