//! The clients' answers: what was definite has to be true.

use std::collections::BTreeMap;

use stepwell_core::history::EntryKind;
use stepwell_core::write::Write;
use stepwell_core::{Phase, Revision, RunId};

use super::{Evidence, Final, Findings, of_run, phase};
use crate::Wrong;
use crate::tape::{Answer, Asked, Op, Seen, Who};

pub(super) fn answers_are_true(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::other();
    for end in &evidence.finals {
        let run = &end.checkpoint.run;
        let writes: Vec<&Seen> = of_run(evidence, end).collect();
        for op in evidence.recorded.ops.iter().filter(|op| op.run == *run) {
            let holds = match (&op.asked, &op.answer) {
                (Asked::Start, Answer::New | Answer::Again) => {
                    written_by_then(&writes, op, |write| matches!(write, Write::Start(_)))
                }
                (Asked::Cancel, Answer::New | Answer::Again) => {
                    written_by_then(&writes, op, |write| matches!(write, Write::Cancel(_))) && ends_for_it(end, &writes)
                }
                (Asked::Resolve(..), Answer::Done) => is_in_history(end, EntryKind::Resolved),
                (Asked::Resume, Answer::Done) => {
                    is_in_history(end, EntryKind::Resumed) || is_in_history(end, EntryKind::LetStand)
                }
                (Asked::Retry, Answer::Done) => is_in_history(end, EntryKind::Reopened),
                (Asked::Approve, Answer::New | Answer::Again) => is_in_history(end, EntryKind::Answered),
                (_, Answer::Refused("ended")) => was_ended_by(&writes, op),
                (_, Answer::Refused("no-such-run")) => !was_started_before(&writes, op),
                // Nothing definite, or nothing that the tape could contradict.
                _ => true,
            };
            found.must(holds, || {
                format!(
                    "{run}: {} asked for {:?} and was answered {:?} at {}, which is not true",
                    op.by, op.asked, op.answer, op.until
                )
            });
        }
        started_once(evidence, run, &mut found);
        reads_follow(evidence, &writes, run, &mut found);
    }
    found.found()
}

fn written_by_then(writes: &[&Seen], op: &Op, is_it: impl Fn(&Write) -> bool) -> bool {
    writes.iter().any(|seen| is_it(&seen.request.write) && seen.at <= op.until)
}

fn was_ended_by(writes: &[&Seen], op: &Op) -> bool {
    // A pause or an answer is refused, too, once the run is about to end.
    writes
        .iter()
        .any(|seen| (seen.after.progress.status.phase().is_ended() || seen.after.is_ending()) && seen.at <= op.until)
}

fn was_started_before(writes: &[&Seen], op: &Op) -> bool {
    writes.first().is_some_and(|seen| seen.at < op.at)
}

fn is_in_history(end: &Final, kind: EntryKind) -> bool {
    end.history.iter().any(|entry| entry.entry.kind == kind)
}

/// A run whose end was asked for ends so, unless it had failed before and was taking back what it had done.
fn ends_for_it(end: &Final, writes: &[&Seen]) -> bool {
    let asked = writes.iter().find(|seen| matches!(seen.request.write, Write::Cancel(_)));
    let was_failing = asked.is_some_and(|seen| seen.after.progress.undoing.is_some());
    match phase(end) {
        Phase::Failed => was_failing,
        Phase::Completed => false,
        // That it does not end is another finding.
        Phase::Cancelled
        | Phase::Created
        | Phase::Running
        | Phase::Waiting
        | Phase::Retrying
        | Phase::Parked
        | Phase::Cancelling => true,
    }
}

/// A key starts one run, and one request at most has done it.
fn started_once(evidence: &Evidence, run: &RunId, found: &mut Findings) {
    let is_new = |op: &&Op| op.run == *run && op.asked == Asked::Start && op.answer == Answer::New;
    let times = evidence.recorded.ops.iter().filter(is_new).count();
    found.must(times <= 1, || format!("{run}: {times} requests were told that they had started it"));
}

/// A read sees every write before it, and none that is older than what its reader has seen.
fn reads_follow(evidence: &Evidence, writes: &[&Seen], run: &RunId, found: &mut Findings) {
    let mut last = BTreeMap::<&Who, Revision>::new();
    for op in evidence.recorded.ops.iter().filter(|op| op.run == *run && op.asked == Asked::Get) {
        let Answer::Stands(revision, _) = &op.answer else { continue };
        let before = writes.iter().filter(|seen| seen.at < op.at).map(|seen| seen.after.progress.revision).max();
        let earlier = last.insert(&op.by, *revision);
        found.must(before.is_none_or(|before| before <= *revision), || {
            format!("{run}: {} reads revision {revision} at {}, and {before:?} was written before", op.by, op.at)
        });
        found.must(earlier.is_none_or(|earlier| earlier <= *revision), || {
            format!("{run}: {} reads revision {revision} after {earlier:?}", op.by)
        });
    }
}
