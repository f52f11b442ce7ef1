//! Effects that may have happened, for whoever can find out whether they did.

use std::fmt;

use serde::Serialize;
use stepwell_core::{Checkpoint, EffectKey, EffectRecord, Outcome, ParkReason, RunId, Status, Timestamp};

use super::{At, count, line};

/// All that were found.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct UnknownsView(pub(crate) Vec<UnknownView>);

/// One effect that may have happened.
#[derive(Debug, Serialize)]
pub(crate) struct UnknownView {
    run: RunId,
    step: String,
    effect: String,
    pub(crate) key: EffectKey,
    class: &'static str,
    attempts: u32,
    since: At,
    /// When its last call gave up waiting, at the latest: before that it may still land.
    until: Option<At>,
    evidence: String,
    /// Whether the run is parked for want of an answer.
    parked: bool,
    /// Whether nobody can say yet how it ended.
    #[serde(skip)]
    on_its_way: bool,
}

impl UnknownView {
    /// Those of a run that has not ended. What this visit knows of an effect is newer than what the run's ledger says.
    pub(crate) fn of(run: &Checkpoint, now: Timestamp) -> Vec<Self> {
        let progress = &run.progress;
        if progress.status.phase().is_ended() {
            return Vec::new();
        }
        let journal = &progress.journal;
        let earlier = progress.ledger.iter().filter(|old| journal.iter().all(|new| new.key != old.key));
        let open = journal.iter().chain(earlier).filter(|record| record.is_open());
        open.filter_map(|record| Self::read(run, record, now)).collect()
    }

    fn read(run: &Checkpoint, record: &EffectRecord, now: Timestamp) -> Option<Self> {
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
            parked: is_parked_for_want_of_an_answer(&run.progress.status),
            on_its_way: until.is_some_and(|until| until > now),
        })
    }
}

pub(crate) const fn is_parked_for_want_of_an_answer(status: &Status) -> bool {
    matches!(status, Status::Parked { reason: ParkReason::UnknownOutcome { .. }, .. })
}

impl fmt::Display for UnknownsView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, unknown) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "{unknown}")?;
        }
        Ok(())
    }
}

impl fmt::Display for UnknownView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, step, effect, key, class, attempts, since, until, evidence, parked, on_its_way } = self;
        line(f, "effect", format_args!("{effect} ({class}), {}, key {key}", count(u64::from(*attempts), "call")))?;
        let waits = if *parked { "parked for want of an answer" } else { "not parked for it" };
        line(f, "run", format_args!("{run}, at step {step}, {waits}"))?;
        match until {
            Some(until) if *on_its_way => {
                line(f, "happened", format_args!("maybe, since {since}; it may still land until {until}"))?;
            }
            Some(_) | None => line(f, "happened", format_args!("maybe, since {since}"))?,
        }
        write!(f, "{}{:<11}{:#} {evidence}", super::BOLD, "evidence", super::BOLD)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use stepwell_core::write::{Start, Write, WriteRequest, apply};
    use stepwell_core::{Class, Digest, Json, Payload, Scope, WorkflowName, WriteId};

    use super::*;

    /// A run that has begun.
    pub(crate) fn run() -> Checkpoint {
        let run = RunId::new("r1").unwrap();
        let (workflow, input) = (WorkflowName::new("shop").unwrap(), Payload::Inline(Json::of(&()).unwrap()));
        let start = Start { workflow, version: 1, input, input_digest: Digest::of(b"null"), step_limit: 9 };
        let request = WriteRequest { run, id: WriteId(1), now: Timestamp(0), write: Write::Start(Box::new(start)) };
        apply(None, &request).unwrap()
    }

    /// An effect that may have happened, and whose call may land until then.
    pub(crate) fn open(name: &str, until: Option<Timestamp>) -> EffectRecord {
        let (id, workflow) = (RunId::new("r1").unwrap(), WorkflowName::new("shop").unwrap());
        EffectRecord {
            key: EffectKey::derive(&id, &workflow, name, Scope::Run("k")),
            name: name.into(),
            class: Class::Once,
            parameters: None,
            attempts: 2,
            outcome: Outcome::Unknown { since: Timestamp(1_000), evidence: "no answer".into() },
            until,
            of_run: true,
        }
    }

    fn names(run: &Checkpoint) -> Vec<String> {
        UnknownView::of(run, Timestamp(2_000)).into_iter().map(|unknown| unknown.effect).collect()
    }

    #[test]
    fn what_this_visit_knows_is_newer_than_the_ledger() {
        let mut run = run();
        run.progress.ledger = vec![open("old", None), open("paid", None), open("twice", None)];
        let paid = Outcome::Succeeded(Payload::Inline(Json::of(&7).unwrap()));
        run.progress.journal = vec![EffectRecord { outcome: paid, ..open("paid", None) }, open("twice", None)];
        assert_eq!(names(&run), ["twice", "old"]);
        assert_eq!(UnknownView::of(&run, Timestamp(2_000)).first().map(|unknown| unknown.parked), Some(false));
    }

    #[test]
    fn a_read_and_a_run_that_has_ended_leave_nothing_open() {
        let mut run = run();
        run.progress.journal = vec![EffectRecord { class: Class::Read, ..open("page", None) }, open("pay", None)];
        assert_eq!(names(&run), ["pay"]);
        let output = Payload::Inline(Json::of(&()).unwrap());
        run.progress.status = Status::Completed { output, at: Timestamp(2_000) };
        assert_eq!(names(&run), [""; 0]);
    }

    #[test]
    fn a_call_on_its_way_says_so_until_it_is_over() {
        let mut run = run();
        let until = Timestamp(2_000);
        run.progress.journal = vec![open("pay", Some(until))];
        let text = |now| UnknownsView(UnknownView::of(&run, now)).to_string();
        let early = text(Timestamp(1_999));
        assert!(early.contains("it may still land until 1970-01-01T00:00:02.000Z"), "{early}");
        assert!(early.contains("pay (once), 2 calls, key ") && early.contains("r1, at step begin, not parked for it"));
        assert!(!text(until.plus(Duration::ZERO)).contains("may still land"));
    }
}
