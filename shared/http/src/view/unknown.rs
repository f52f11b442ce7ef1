//! Effects that may have happened, for whoever can find out whether they did.

use serde::Serialize;
use stepwell_core::{Checkpoint, EffectKey, EffectRecord, Json, Outcome, ParkReason, RunId, Status};

use super::At;

/// Those of a page of runs, and where it goes on.
#[derive(Serialize)]
pub(crate) struct UnknownsView {
    /// Each an [`UnknownView`], written already: its length decides how many there are.
    pub(crate) unknowns: Vec<Json>,
    pub(crate) next: Option<String>,
}

/// One effect that may have happened.
#[derive(Serialize)]
pub(crate) struct UnknownView<'a> {
    run: &'a RunId,
    step: String,
    effect: &'a str,
    key: &'a EffectKey,
    class: &'static str,
    attempts: u32,
    since: At,
    /// When its last call gave up waiting, at the latest: before that it may still land.
    until: Option<At>,
    evidence: &'a str,
    /// Whether the run is parked for want of an answer.
    parked: bool,
}

impl<'a> UnknownView<'a> {
    /// Those of a run that has not ended. What this visit knows of an effect is newer than what the run's ledger says.
    pub(crate) fn of(run: &'a Checkpoint) -> Vec<Self> {
        let progress = &run.progress;
        if progress.status.phase().is_ended() {
            return Vec::new();
        }
        let journal = &progress.journal;
        let earlier = progress.ledger.iter().filter(|old| journal.iter().all(|new| new.key != old.key));
        let open = journal.iter().chain(earlier).filter(|record| record.is_open());
        open.filter_map(|record| Self::read(run, record)).collect()
    }

    fn read(run: &'a Checkpoint, record: &'a EffectRecord) -> Option<Self> {
        let EffectRecord { key, name, class, attempts, outcome, until, parameters: _, of_run: _ } = record;
        let Outcome::Unknown { since, evidence } = outcome else { return None };
        Some(Self {
            run: &run.run,
            step: run.progress.place.step(),
            effect: name,
            key,
            class: class.as_str(),
            attempts: *attempts,
            since: At(*since),
            until: until.map(At),
            evidence,
            parked: matches!(run.progress.status, Status::Parked { reason: ParkReason::UnknownOutcome { .. }, .. }),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use stepwell_core::write::{Start, Write, WriteRequest, apply};
    use stepwell_core::{Class, Digest, Payload, Scope, Timestamp, WorkflowName, WriteId};

    use super::*;

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
        let names: Vec<&str> = UnknownView::of(&run).iter().map(|unknown| unknown.effect).collect();
        assert_eq!(names, ["twice", "old"]);
        run.progress.status = Status::Completed { output: null(), at: Timestamp(2_000) };
        assert!(UnknownView::of(&run).is_empty());
    }
}
