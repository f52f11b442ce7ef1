//! What must hold of a world that has gone by: one small function for each invariant of the protocol, over what was recorded.

mod causes;
mod effects;
mod oracle;
mod outputs;
mod parked;
mod secrets;
mod signals;
mod times;
mod writes;

use stepwell_core::{Checkpoint, Phase, Timestamp};
use stepwell_engine::HistoryEntry;

use crate::crew::CALLS_MAX;
use crate::customers::Customer;
use crate::tape::{Recorded, Seen};
use crate::{Wrong, dice::Temper};

/// How a run stands in the end.
pub(crate) struct Final {
    pub(crate) customer: Customer,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) history: Vec<HistoryEntry>,
    /// What it ended with, as JSON, if it has completed.
    pub(crate) output: Option<String>,
}

/// All that there is to look at.
pub(crate) struct Evidence {
    pub(crate) temper: Temper,
    pub(crate) recorded: Recorded,
    pub(crate) finals: Vec<Final>,
    pub(crate) ended_at: Timestamp,
    /// Messages that are left when everything has ended.
    pub(crate) messages_left: usize,
}

/// What is wrong, gathered under one invariant.
pub(crate) struct Findings {
    invariant: Option<u8>,
    found: Vec<Wrong>,
}

impl Findings {
    pub(crate) fn of(invariant: u8) -> Self {
        Self { invariant: Some(invariant), found: Vec::new() }
    }

    /// Not one of the eleven.
    pub(crate) fn other() -> Self {
        Self { invariant: None, found: Vec::new() }
    }

    pub(crate) fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.found.push(Wrong { invariant: self.invariant, what: what() });
        }
    }

    pub(crate) fn found(self) -> Vec<Wrong> {
        self.found
    }
}

/// All of them.
pub(crate) fn all(evidence: &Evidence) -> Vec<Wrong> {
    let checkers: [fn(&Evidence) -> Vec<Wrong>; 18] = [
        ends,
        writes::one_holder_commits,
        effects::one_key_and_once,
        effects::never_guessed,
        effects::never_computed_again,
        outputs::steps_count_once,
        signals::consumed_once,
        bounded,
        times::never_early,
        parked::keeps_everything,
        times::names_what_wakes_it,
        secrets::never_written,
        oracle::answers_are_true,
        outputs::right,
        outputs::taken_back,
        writes::counters_rise,
        causes::ended_for_cause,
        causes::parked_for_cause,
    ];
    checkers.iter().flat_map(|check| check(evidence)).collect()
}

/// Invariant 1: Every run ends, once nothing goes wrong any more.
fn ends(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::of(1);
    let calls = evidence.recorded.counts.get("port calls").copied().unwrap_or(0);
    found.must(calls <= CALLS_MAX, || format!("the world goes round and round: {calls} port calls"));
    for Final { customer, checkpoint, .. } in &evidence.finals {
        let phase = checkpoint.progress.status.phase();
        found.must(phase.is_ended(), || {
            let swept = if evidence.temper.sweeps { "with a sweeper" } else { "without a sweeper" };
            let Checkpoint { run, hold, progress, due_at, .. } = checkpoint;
            format!(
                "{} ({}) never ends, {swept}: it is {phase}, {:?}, due at {due_at:?}, held by {:?}",
                run, customer.who, progress.status, hold.lease
            )
        });
        if phase.is_ended() {
            found.must(checkpoint.hold.lease.is_none() && checkpoint.due_at.is_none(), || {
                format!("{} is {phase}, and still held or due", checkpoint.run)
            });
        }
    }
    found.found()
}

/// Messages of one run at once. The most that ten thousand worlds have shown is 51: the queue doubles messages, clients and
/// sweepers wake a run that is awake, and what meets a lease waits for its end.
const MESSAGES_MAX: usize = 70;

/// Invariant 7: The messages of a run stay bounded, and none makes another once it has ended.
fn bounded(evidence: &Evidence) -> Vec<Wrong> {
    let mut found = Findings::of(7);
    let (most, run) = &evidence.recorded.most_messages;
    found.must(*most <= MESSAGES_MAX, || format!("{run:?} had {most} messages at once, {MESSAGES_MAX} are the bound"));
    let ended = evidence.finals.iter().all(|end| end.checkpoint.progress.status.phase().is_ended());
    found.must(!ended || evidence.messages_left == 0, || {
        format!("{} messages are left when every run has ended", evidence.messages_left)
    });
    found.found()
}

/// The writes of one run, in order.
fn of_run<'a>(evidence: &'a Evidence, end: &'a Final) -> impl Iterator<Item = &'a Seen> {
    evidence.recorded.writes.iter().filter(|seen| seen.request.run == end.checkpoint.run)
}

fn phase(end: &Final) -> Phase {
    end.checkpoint.progress.status.phase()
}
