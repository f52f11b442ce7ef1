//! What runs end with.

use serde::de::DeserializeOwned;
use stepwell_core::{CertifiedEffect, Phase, Status};

use super::{Evidence, Final, Findings, phase};
use crate::Wrong;
use crate::customers::Wants;
use crate::flows::{GrantOutput, InboxOutput, NapOutput, OrderOutput, PAGE_LENGTH};
use crate::tape::{Answer, Asked, Call};

fn output<T: DeserializeOwned>(end: &Final) -> Option<T> {
    serde_json::from_str(end.output.as_deref()?).ok()
}

/// Invariant 5: Each step's change of the state counted once.
pub(super) fn steps_count_once(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::of(5);
    for end in &evidence.finals {
        let run = &end.checkpoint.run;
        if let (Wants::Order(asks), Some(order)) = (&end.customer.wants, output::<OrderOutput>(end)) {
            let mut steps: Vec<String> = ["Look", "Seat", "Pay", "Post"].map(str::to_owned).to_vec();
            steps.extend((0..asks.laps).map(|_| "Lap".to_owned()));
            let log: Vec<String> = steps.iter().map(|step| format!("{step} is over")).collect();
            found.must(order.steps == steps, || format!("{run}: its steps were {:?}", order.steps));
            found.must(order.log == log, || format!("{run}: its log is {:?}", order.log));
        }
        if let (Wants::Nap(naps), Some(nap)) = (&end.customer.wants, output::<NapOutput>(end)) {
            found
                .must(nap.slept == naps.naps, || format!("{run}: it slept {:?} instead of {:?}", nap.slept, naps.naps));
        }
        if let Some(inbox) = output::<InboxOutput>(end) {
            let mut notes = inbox.notes.clone();
            notes.sort_unstable();
            notes.dedup();
            found.must(notes.len() == inbox.notes.len(), || format!("{run}: it took {:?}", inbox.notes));
        }
    }
    found.found()
}

fn calls<'a>(evidence: &'a Evidence, end: &'a Final, name: &'a str) -> impl Iterator<Item = &'a Call> {
    evidence.recorded.calls.iter().filter(move |call| call.run == end.checkpoint.run && call.name == name)
}

fn has_acted(evidence: &Evidence, end: &Final, name: &str) -> bool {
    calls(evidence, end, name).any(|call| call.acted.is_some())
}

/// What a completed run ends with is what the outside has answered, and what it was told.
pub(super) fn right(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::other();
    for end in evidence.finals.iter().filter(|end| phase(end) == Phase::Completed) {
        let run = &end.checkpoint.run;
        let receipt =
            |name: &str| calls(evidence, end, name).next().map(|call| format!("{}-1", crate::story::short(&call.key)));
        let consumed = |id: &str| end.checkpoint.mailbox.seen.iter().any(|seen| seen.as_str() == id);
        let is_right = match &end.customer.wants {
            Wants::Order(asks) => output::<OrderOutput>(end).is_some_and(|order| {
                let laps = usize::try_from(asks.laps).unwrap_or(0);
                let mut receipts = vec![receipt("seat"), receipt("payment"), receipt("letter")];
                receipts.extend((0..laps).map(|_| receipt("seat")));
                let receipts: Vec<String> = receipts.into_iter().flatten().collect();
                order.receipts == receipts
                    && order.page_length == PAGE_LENGTH
                    && order.answer == consumed("s-1").then(|| "yes".to_owned())
            }),
            Wants::Nap(_) => output::<NapOutput>(end).is_some_and(|nap| Some(nap.stamp) == receipt("stamp")),
            Wants::Inbox(_) => output::<InboxOutput>(end).is_some_and(|inbox| {
                inbox.copies == inbox.notes.len() as u64
                    && inbox.notes.iter().all(|note| consumed(&format!("n-{note}")))
            }),
            Wants::Grant => output::<GrantOutput>(end).is_some_and(|grant| grant.receipt == receipt("grant")),
        };
        found.must(is_right, || format!("{run}: it ends with {:?}", end.output));
    }
    for kept in &evidence.recorded.kept_letters {
        found.must(false, || format!("a dead letter stays for a person: {kept}"));
    }
    found.found()
}

/// What an order has done is taken back if it fails or is cancelled, and never if it completes.
pub(super) fn taken_back(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::other();
    for end in &evidence.finals {
        let run = &end.checkpoint.run;
        for (done, back) in [("seat", "unseat"), ("payment", "refund")] {
            let [is_done, is_back] = [done, back].map(|name| has_acted(evidence, end, name));
            match phase(end) {
                Phase::Completed => {
                    found.must(!is_back, || format!("{run} has completed, and {done} was taken back"));
                }
                Phase::Failed | Phase::Cancelled => {
                    let stands = stands(end).iter().any(|effect| effect.name == done);
                    found.must(!is_done || is_back || stands, || format!("{run} has ended, and {done} stands untold"));
                    let may_have = signed_off(evidence, end, done);
                    found.must(is_done || may_have || !is_back, || {
                        format!("{run}: {done} never was, and was taken back")
                    });
                }
                Phase::Created
                | Phase::Running
                | Phase::Waiting
                | Phase::Retrying
                | Phase::Parked
                | Phase::Cancelling => {}
            }
        }
    }
    found.found()
}

/// Whether a person has signed this effect off as uncertain: what may have happened is taken back, too. Its worker may have died before it
/// called, so the outside need not know the key: then it is one that no other effect was called under.
fn signed_off(evidence: &Evidence, end: &Final, name: &str) -> bool {
    let is_others = |key: &str| evidence.recorded.calls.iter().any(|call| call.key == key && call.name != name);
    let of_run = evidence.recorded.ops.iter().filter(|op| op.run == end.checkpoint.run);
    of_run
        .filter(|op| !matches!(op.answer, Answer::Refused(_)))
        .any(|op| matches!(&op.asked, Asked::Resolve(key, "sign-off") if !is_others(key.as_str())))
}

/// What a person has let stand.
fn stands(end: &Final) -> Vec<CertifiedEffect> {
    let progress = &end.checkpoint.progress;
    let mut stands = progress.undoing.as_ref().map(|undoing| undoing.stands.clone()).unwrap_or_default();
    if let Status::Cancelled { certificate, .. } = &progress.status {
        stands.extend(certificate.stands.clone());
    }
    stands
}
