//! Signals: accepted is accepted.

use std::collections::BTreeMap;

use stepwell_core::SignalId;
use stepwell_core::write::Write;

use super::{Evidence, Findings, of_run};
use crate::Wrong;
use crate::tape::{Answer, Asked};

/// Invariant 6: A signal that was answered "accepted" was put into the mailbox once, and is consumed once or still there.
pub(super) fn consumed_once(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::of(6);
    for end in &evidence.finals {
        let run = &end.checkpoint.run;
        let mut arrived = BTreeMap::<SignalId, u32>::new();
        let mut consumed = BTreeMap::<SignalId, u32>::new();
        for seen in of_run(evidence, end) {
            if let Write::Signal(letter) = &seen.request.write {
                *arrived.entry(letter.id.clone()).or_default() += 1;
            }
            let Some(before) = &seen.before else { continue };
            for letter in &before.mailbox.letters {
                if !seen.after.mailbox.letters.iter().any(|left| left.id == letter.id) {
                    *consumed.entry(letter.id.clone()).or_default() += 1;
                    found.must(seen.after.mailbox.seen.contains(&letter.id), || {
                        format!("{run}: signal {} is gone at {}, and not remembered", letter.id, seen.at)
                    });
                }
            }
        }
        for (id, times) in &arrived {
            found.must(*times == 1, || format!("{run}: signal {id} was accepted {times} times"));
            let left = end.checkpoint.mailbox.letters.iter().filter(|letter| letter.id == *id).count();
            let taken = consumed.get(id).copied().unwrap_or(0);
            found.must(usize::try_from(taken).unwrap_or(usize::MAX) + left == 1, || {
                format!("{run}: signal {id} was consumed {taken} times, and {left} are left")
            });
        }
        for op in evidence.recorded.ops.iter().filter(|op| op.run == *run) {
            if let (Asked::Signal(id), Answer::New | Answer::Again) = (&op.asked, &op.answer) {
                found.must(arrived.contains_key(id), || {
                    format!("{run}: signal {id} was answered {:?} at {}, and never arrived", op.answer, op.until)
                });
            }
        }
    }
    found.found()
}
