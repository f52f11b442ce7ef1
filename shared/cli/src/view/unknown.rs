//! Effects that may have happened, for whoever can find out whether they did.

use std::fmt;

use serde::Serialize;
use stepwell_core::Timestamp;
use stepwell_http::view::UnknownView;

use super::{BOLD, count, harmless, line};
use crate::program::command;

/// All that were found.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct ShownUnknowns {
    pub(crate) unknowns: Vec<UnknownView>,
    /// By which people are told whether somebody can say yet how each ended.
    #[serde(skip)]
    pub(crate) now: Timestamp,
    /// What a command needs, to mean this place.
    #[serde(skip)]
    pub(crate) flag: &'static str,
}

impl fmt::Display for ShownUnknowns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, unknown) in self.unknowns.iter().enumerate() {
            if number > 0 {
                f.write_str("\n\n")?;
            }
            write_one(f, unknown, self.now, self.flag)?;
        }
        Ok(())
    }
}

fn write_one(f: &mut fmt::Formatter<'_>, unknown: &UnknownView, now: Timestamp, flag: &str) -> fmt::Result {
    let UnknownView { run, step, effect, key, class, attempts, since, until, evidence, parked } = unknown;
    let (effect, step, evidence) = (harmless(effect), harmless(step), harmless(evidence));
    line(f, "effect", format_args!("{effect} ({class}), {}, key {key}", count(u64::from(*attempts), "call")))?;
    let waits = if *parked { "parked for want of an answer" } else { "not parked for it" };
    line(f, "run", format_args!("{run}, at step {step}, {waits}"))?;
    let lands = until.filter(|until| until.0 > now);
    match lands {
        Some(until) => line(f, "happened", format_args!("maybe, since {since}; it may still land until {until}"))?,
        None => line(f, "happened", format_args!("maybe, since {since}"))?,
    }
    write!(f, "{BOLD}{:<11}{BOLD:#} {evidence}", "evidence")?;
    if lands.is_some() {
        return Ok(());
    }
    let ended = "--succeeded JSON | --failed TEXT | --try-again | --sign-off";
    let resolve = command(format_args!("resolve{flag} {run} {key} ({ended}) --why …"));
    write!(f, "\n{BOLD}{:<11}{BOLD:#} {resolve}", "answer")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use stepwell_core::write::{Start, Write, WriteRequest, apply};
    use stepwell_core::{
        Amounts, Checkpoint, Class, Digest, EffectKey, EffectRecord, Json, Outcome, Payload, RunId, Scope,
        WorkflowName, WriteId,
    };

    use stepwell_http::view::OfRun as _;

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
            approval: None,
            costs: Amounts::new(),
            undo: None,
            no_return: false,
            signed_off: None,
        }
    }

    #[test]
    fn a_call_on_its_way_says_so_until_it_is_over() {
        let mut run = run();
        let until = Timestamp(2_000);
        run.progress.journal = vec![open("pay", Some(until))];
        let text = |now| ShownUnknowns { unknowns: UnknownView::of(&run, now), now, flag: " --aws" }.to_string();
        let early = text(Timestamp(1_999));
        assert!(early.contains("it may still land until 1970-01-01T00:00:02.000Z"), "{early}");
        assert!(early.contains("pay (once), 2 calls, key ") && early.contains("r1, at step begin, not parked for it"));
        let late = text(until.plus(Duration::ZERO));
        let key = &run.progress.journal[0].key;
        let ended = "(--succeeded JSON | --failed TEXT | --try-again | --sign-off) --why …";
        let answer = command(format_args!("resolve --aws r1 {key} {ended}"));
        assert!(!late.contains("may still land") && late.ends_with(&answer), "{late}");
        assert!(!early.contains("resolve"), "no answer is taken yet: {early}");
    }
}
