//! What must be true in the end: each client's answers, the outside's ledger and the runs say the same.

use std::collections::BTreeMap;

use stepwell_core::{Checkpoint, Outcome, Payload, Phase, Place, RunId, Status};
use stepwell_engine::{Client, ClientError};
use stepwell_report::Report;

use super::clients::{Facts, go_id, note_id};
use super::errand::Known;
use super::ledger::{Book, Kind, Line};
use super::person::Said;

/// A run as it ended, with what it knew.
pub struct Ended {
    /// Its checkpoint.
    pub run: Checkpoint,
    /// Its result, or its state where it has none.
    pub known: Known,
    /// Results of its effects, by key.
    results: BTreeMap<String, Option<u64>>,
}

impl Ended {
    /// Reads what the run knew.
    ///
    /// # Errors
    /// When a value of its own is missing or altered.
    pub async fn read(client: &Client, run: Checkpoint) -> Result<Self, ClientError> {
        let payload = match (&run.progress.status, &run.progress.place) {
            (Status::Completed { output, .. }, _) => Some(output.clone()),
            (_, Place::At { state, .. }) => Some(state.clone()),
            (_, Place::Fresh { .. }) => None,
        };
        let known = match payload {
            Some(payload) => {
                client.value(&payload).await?.parse().map_err(|error| ClientError::Value(error.to_string()))?
            }
            None => Known::default(),
        };
        let mut results = BTreeMap::new();
        for record in run.progress.ledger.iter().chain(&run.progress.journal) {
            let result = match &record.outcome {
                Outcome::Succeeded(Payload::Inline(json)) => json.parse().ok(),
                Outcome::Succeeded(Payload::Blob(_)) | Outcome::Failed(_) | Outcome::Unknown { .. } => None,
            };
            results.insert(record.key.to_string(), result);
        }
        Ok(Self { run, known, results })
    }

    fn admits_a_lost_attempt(&self) -> bool {
        matches!(&self.run.progress.status, Status::Cancelled { certificate, .. } if certificate.lost_attempt.is_some())
    }
}

/// Holds all of it against each other.
pub fn check(report: &mut Report, facts: &[Facts], ended: &BTreeMap<RunId, Ended>, book: &Book, said: &Said) {
    let mut of_run: BTreeMap<&RunId, Vec<(&String, &Line)>> = BTreeMap::new();
    for (key, line) in book.lines() {
        of_run.entry(&line.run).or_default().push((key, line));
    }
    for violation in &book.violations {
        report.fail(violation);
    }
    for facts in facts {
        let run = &facts.run;
        report.check(&format!("run {run} was started {} times", facts.started), facts.started <= 1);
        let Some(ended) = ended.get(run) else {
            report.fail(format!("run {run} is not there, or cannot be read"));
            continue;
        };
        let lines = of_run.remove(run).unwrap_or_default();
        check_end(report, facts, ended);
        check_signals(report, facts, ended);
        check_effects(report, ended, &lines, said);
    }
    for run in of_run.keys() {
        report.fail(format!("the outside was called for run {run}, which nobody has started"));
    }
}

fn check_end(report: &mut Report, facts: &Facts, ended: &Ended) {
    let (run, status) = (&facts.run, &ended.run.progress.status);
    let expected = if facts.cancelled { Phase::Cancelled } else { Phase::Completed };
    // A cancellation may stand though its answer, and every one after it, came when the run had ended.
    let may_be = ended.run.cancel.is_some() && status.phase() == Phase::Cancelled;
    let right = status.phase() == expected || may_be;
    report.check(&format!("run {run} is {expected} in the end, not {status:?}"), right);
    if let Status::Cancelled { certificate, .. } = status {
        report.check(&format!("run {run} leaves nothing uncertain"), certificate.uncertain.is_empty());
    }
}

fn check_signals(report: &mut Report, facts: &Facts, ended: &Ended) {
    let run = &facts.run;
    let consumed =
        ended.known.notes.iter().map(|note| note_id(*note)).chain(ended.known.went.iter().map(|go| go_id(*go)));
    let left = ended.run.mailbox.letters.iter().map(|letter| letter.id.as_str().to_owned());
    let of_clients = |id: &String| id.starts_with("note-") || id.starts_with("go-");
    let mut found: BTreeMap<String, u32> = BTreeMap::new();
    for id in consumed.chain(left.filter(of_clients)) {
        *found.entry(id).or_default() += 1;
    }
    for (id, times) in &found {
        report.check(&format!("run {run} has signal {id} once, not {times} times"), *times == 1);
        report.check(&format!("signal {id} of run {run} was sent"), facts.sent.contains(id));
    }
    for (id, new) in &facts.accepted {
        report.check(&format!("signal {id} of run {run} was delivered by {new} requests"), *new <= 1);
        let there = found.contains_key(id);
        report.check(&format!("signal {id} of run {run} was accepted, and is neither consumed nor listed"), there);
    }
}

/// What the outside has done is what the run knows, and the other way round.
fn check_effects(report: &mut Report, ended: &Ended, lines: &[(&String, &Line)], said: &Said) {
    let (run, known) = (&ended.run.run, &ended.known);
    let answer = |kind: Kind| {
        let line = lines.iter().find(|(_, line)| line.kind == kind && line.acts > 0);
        line.map(|(_, line)| line.answer)
    };
    for (key, line) in lines.iter().filter(|(_, line)| line.kind != Kind::Read && line.acts > 0) {
        let recorded = ended.results.get(*key).copied().flatten();
        // Without an intent a call may leave no record when its worker dies and the run is cancelled: the certificate has to say so.
        if recorded.is_none() && line.kind == Kind::Idempotent && ended.admits_a_lost_attempt() {
            continue;
        }
        let what =
            format!("run {run}: {:?} has happened with {}, and on record is {recorded:?}", line.kind, line.answer);
        report.check(&what, recorded == Some(line.answer));
    }
    for (key, result) in ended.results.iter().filter_map(|(key, result)| Some((key, (*result)?))) {
        let acted = lines.iter().any(|(other, line)| *other == key && line.acts > 0 && line.answer == result);
        report.check(&format!("run {run}: what is on record as {result} has never happened (key {key})"), acted);
    }
    let happened = (answer(Kind::Idempotent), answer(Kind::Reconcilable), answer(Kind::Once));
    match ended.run.progress.status.phase() {
        Phase::Completed => {
            let says = (known.reserved, known.paid, known.sent);
            report.check(&format!("run {run} says {says:?}, the outside {happened:?}"), says == happened);
            report.check(
                &format!("run {run} has done all it was to do"),
                known.reserved.is_some() && known.paid.is_some(),
            );
            let excused = known.rejected || said.failed.iter().any(|key| ended.results.contains_key(key));
            report.check(&format!("run {run} has sent what it was to send"), known.sent.is_some() || excused);
            report.check(&format!("run {run} was woken from its rest before its time"), !known.woken_early);
            let obeys = !known.rejected || lines.iter().all(|(_, line)| line.kind != Kind::Once);
            report.check(&format!("run {run} has sent what nobody allowed"), obeys);
            report.check(&format!("run {run} has taken nothing back"), answer(Kind::Release).is_none());
        }
        Phase::Cancelled => {
            let to_take_back = known.number.is_multiple_of(2) && answer(Kind::Idempotent).is_some();
            let taken_back = answer(Kind::Release).is_some();
            let what = format!("run {run} has taken back what it had reserved: {to_take_back}, {taken_back}");
            report.check(&what, to_take_back == taken_back);
        }
        Phase::Created
        | Phase::Running
        | Phase::Waiting
        | Phase::Retrying
        | Phase::Parked
        | Phase::Cancelling
        | Phase::Failed => {}
    }
}
