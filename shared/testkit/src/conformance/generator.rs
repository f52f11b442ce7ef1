//! Random requests: plausible ones, stale ones, repeated ones, at times that matter. One seed, one sequence.

mod acts;

use std::time::Duration;

use fastrand::Rng;
use stepwell_core::budget::Span;
use stepwell_core::checkpoint::Trouble;
use stepwell_core::decide;
use stepwell_core::history::{EffectLine, Entry, EntryKind, More, Segment};
use stepwell_core::write::{Acquire, Amend, Commit, LogAppend, Renew, Write, WriteRequest};
use stepwell_core::{
    BlobRef, CancelRequest, Certificate, Checkpoint, Class, Digest, EffectKey, EffectRecord, Failure, FailureKind,
    Fence, Json, Lease, Letter, LogId, MailboxSeq, Outcome, OverBudget, ParkReason, Payload, Place, Progress, Revision,
    RunId, Scope, SignalId, Status, Ticket, Timestamp, Undoing, Usage, Visit, Wait, WorkerId, WorkflowName, WriteId,
};

use super::bed::{json, run, signal_id, signal_name, start_with};
use super::model::Model;

/// How often each write is tried: out of their sum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    pub(super) acquire: u32,
    pub(super) commit: u32,
    pub(super) renew: u32,
    pub(super) signal: u32,
    pub(super) cancel: u32,
    pub(super) amend: u32,
    pub(super) start: u32,
    /// A request that was sent before.
    pub(super) repeat: u32,
    /// In percent: a ticket, fence or revision that is not the current one; a wrong belief about mailbox or cancellation.
    pub(super) stale: u32,
}

pub(super) struct Generator {
    rng: Rng,
    now: Timestamp,
    given: u64,
    /// The runs that requests are made for. One that has ended makes room for another.
    runs: [RunId; 3],
    sent: Vec<WriteRequest>,
}

/// Texts that codecs and query languages stumble over.
const TEXTS: [&str; 8] = [
    "",
    "plain",
    "a \"quote\" and a \\",
    "line\nbreak\ttab",
    "ünïcödé – 漢字 🚀",
    "' OR 1=1 --",
    "\u{0}\u{1f}\u{7f}",
    "#:{}$%",
];

/// JSON whose text has to come back as it was, blanks and digits included.
const VALUES: [&str; 8] = [
    "null",
    "0",
    "-1.50e+3",
    "18446744073709551615",
    "0.1000000000000000055511151231257827",
    "\"\\u00fc \\\"q\\\" 漢\"",
    "{\"b\" : [1,\n2], \"a\":{}}",
    "[true,false,[[]],{\"\":\"\"}]",
];

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        let runs = ["r", "r1", "s"].map(run);
        Self { rng: Rng::with_seed(seed), now: super::BEGIN, given: 0, runs, sent: Vec::new() }
    }

    /// A request that may or may not be accepted by the model as it stands.
    pub(super) fn request(&mut self, model: &Model, weights: Weights) -> WriteRequest {
        let run = self.run(model);
        let current = model.runs.get(&run);
        self.now = self.next_time(current);
        let write = match current {
            None if self.percent(70) => self.start(),
            None => {
                let others: Vec<&Checkpoint> = model.runs.values().collect();
                match self.pick(&others) {
                    Some(other) => without_segment(self.write(other, model, weights)),
                    None => self.start(),
                }
            }
            Some(current) => {
                if self.percent(weights.repeat)
                    && let Some(sent) = self.pick(&self.sent.clone())
                {
                    return sent;
                }
                self.write(current, model, weights)
            }
        };
        // Clocks differ: now and then one of the writers is behind.
        let behind = if self.percent(10) { self.rng.u64(..3_000) } else { 0 };
        let request = WriteRequest { run, id: self.write_id(), now: Timestamp(self.now.0 - behind), write };
        self.sent.push(request.clone());
        let surplus = self.sent.len().saturating_sub(12);
        self.sent.drain(..surplus);
        request
    }

    fn run(&mut self, model: &Model) -> RunId {
        let slot = self.rng.usize(..self.runs.len());
        let is_ended = |run| model.runs.get(run).is_some_and(|run| run.progress.status.phase().is_ended());
        if is_ended(&self.runs[slot]) && self.percent(15) {
            self.given += 1;
            self.runs[slot] = run(&format!("r{}", self.given));
        }
        self.runs[slot].clone()
    }

    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.rng.u32(..100) < percent
    }

    /// The time goes on by a little, stays, or jumps to a moment that decides something.
    fn next_time(&mut self, current: Option<&Checkpoint>) -> Timestamp {
        let moments = current.map(|current| [current.hold.lease.as_ref().map(|lease| lease.until), current.wakes_at()]);
        let moments: Vec<Timestamp> =
            moments.into_iter().flatten().flatten().filter(|at| at.0 < u64::MAX / 2).collect();
        let later = match self.rng.u32(..100) {
            0..40 => self.now,
            40..75 => self.now.plus(Duration::from_millis(self.rng.u64(1..3_000))),
            75..95 => {
                let early = self.rng.u64(..=1);
                self.pick(&moments).map_or(self.now, |at| Timestamp(at.0 - early))
            }
            _ => self.now.plus(Duration::from_mins(20)),
        };
        later.max(self.now)
    }

    fn write(&mut self, current: &Checkpoint, model: &Model, weights: Weights) -> Write {
        let Weights { acquire, commit, renew, signal, cancel, amend, start, stale, .. } = weights;
        let mut drawn = self.rng.u32(..acquire + commit + renew + signal + cancel + amend + start);
        let mut is = |weight: u32| {
            let is = drawn < weight;
            drawn = drawn.wrapping_sub(weight);
            is
        };
        if is(acquire) {
            let ticket = Ticket(self.near(current.progress.ticket.0, stale));
            Write::Acquire(Acquire { ticket, lease: self.lease() })
        } else if is(commit) {
            Write::Commit(Box::new(self.commit(current, model, stale)))
        } else if is(renew) {
            let fence = Fence(self.near(current.hold.fence.0, stale));
            Write::Renew(Renew { fence, until: self.soon() })
        } else if is(signal) {
            Write::Signal(Box::new(self.letter(&current.run)))
        } else if is(cancel) {
            let why = self.percent(50).then(|| self.text());
            Write::Cancel(CancelRequest { by: self.text(), why, at: self.now })
        } else if is(amend) {
            let after = Revision(self.near(current.progress.revision.0, stale));
            let mut progress = self.progress(current, self.now);
            progress.ticket = progress.ticket.next();
            let due_at = decide::due_at(&progress.status, self.now);
            let segment = self.percent(30).then(|| self.next_segment(current, model));
            let segment = segment.filter(|_| after <= current.progress.revision);
            let tried_since = self.now.0.is_multiple_of(2).then_some(self.now);
            let consumed = if self.percent(20) { self.consumed(current) } else { Vec::new() };
            Write::Amend(Box::new(Amend { after, progress, tried_since, due_at, segment, consumed }))
        } else {
            self.start()
        }
    }

    /// Some of the letters that are there, and at times one that is not.
    fn consumed(&mut self, current: &Checkpoint) -> Vec<SignalId> {
        let mut consumed: Vec<_> = current.mailbox.letters.iter().map(|letter| letter.id.clone()).collect();
        consumed.retain(|_| self.percent(40));
        if self.percent(5) {
            consumed.push(signal_id("never-sent"));
        }
        consumed
    }

    fn start(&mut self) -> Write {
        let input = self.value();
        start_with(["brief", "refund"][self.rng.usize(..2)], input)
    }

    fn commit(&mut self, current: &Checkpoint, model: &Model, stale: u32) -> Commit {
        let progress = self.progress(current, self.now);
        let mailbox_seen = self.percent(30).then(|| MailboxSeq(self.near(current.mailbox.seq.0, stale)));
        let consumed = self.consumed(current);
        let spill = (0..self.rng.usize(..3)).map(|_| self.record(&current.run, 6)).collect();
        let fence = Fence(self.near(current.hold.fence.0, stale));
        let after = Revision(self.near(current.progress.revision.0, stale));
        let segment = self.percent(30).then(|| self.next_segment(current, model));
        Commit {
            fence,
            after,
            cancel_seen: current.cancel.is_some() != self.percent(stale),
            mailbox_seen,
            lease: (progress.status.is_live() && self.percent(60)).then(|| self.lease()),
            due_at: decide::due_at(&progress.status, self.now),
            progress,
            consumed,
            appends: self.appends(current, model),
            segment: segment.filter(|_| after <= current.progress.revision),
            spill: if self.percent(25) { spill } else { Vec::new() },
        }
    }

    /// Mostly where the log ends. A stale writer believes it to be shorter.
    fn appends(&mut self, current: &Checkpoint, model: &Model) -> Vec<LogAppend> {
        let mut logs = vec![LogId(0), LogId(1), LogId(12)];
        logs.retain(|_| self.percent(20));
        let mut append = |log| {
            let length = model.log_length(&current.run, log);
            let first = if self.percent(80) { length } else { self.rng.u64(..=length) };
            LogAppend { log, first, entries: (0..self.rng.usize(..4)).map(|_| self.value()).collect() }
        };
        logs.into_iter().map(&mut append).collect()
    }

    /// The segment after the last one; now and then that one again, with other entries.
    fn next_segment(&mut self, current: &Checkpoint, model: &Model) -> Segment {
        let last = model.last_segment(&current.run);
        let next = last.map_or(Revision(1), Segment::end);
        let from = if self.percent(85) { next } else { last.map_or(next, |last| last.from) };
        Segment { from, at: self.now, entries: self.entries(1) }
    }

    /// New progress for a run: all parts random, within the invariants of a checkpoint.
    pub(super) fn progress(&mut self, current: &Checkpoint, now: Timestamp) -> Progress {
        self.now = self.now.max(now);
        let before = &current.progress;
        let many = |generator: &mut Self| {
            let records = generator.rng.usize(..4);
            (0..records).map(|_| generator.record(&current.run, 40)).collect()
        };
        Progress {
            ticket: if self.percent(50) { before.ticket.next() } else { before.ticket },
            revision: before.revision.next(),
            visit: if self.percent(50) { Visit(before.visit.0 + 1) } else { before.visit },
            step_limit: self.rng.u64(1..1_000_000),
            version: self.rng.u32(..),
            status: self.status(current),
            place: self.place(&current.run),
            trouble: self.percent(30).then(|| Trouble {
                failed: self.rng.u32(1..9),
                incompatible: self.rng.u32(..3),
                since: self.now,
                last: self.failure(),
            }),
            journal: many(self),
            ledger: many(self),
            lives: self.rng.u32(..3),
            spilled: self.rng.u64(..3),
            approvals: self.few(|generator| generator.approval(&current.run)),
            undo: self.few(|generator| generator.undo(&current.run)),
            undoing: self.percent(20).then(|| Box::new(self.undoing(&current.run))),
            spent: self.spent(current),
            logs: self.rng.u32(..3),
            tail: Segment { from: before.revision.next(), at: self.now, entries: self.entries(0) },
            usage: Usage {
                writes: self.rng.u64(..),
                bytes: self.rng.u64(..1_000_000),
                effects_made: self.rng.u64(..9),
                effects_skipped: self.rng.u64(..3),
                effects_confirmed: self.rng.u64(..3),
                effects_failed: self.rng.u64(..3),
                step_ms: self.rng.u64(..100_000),
            },
        }
    }

    /// Ends are rare, so that a sequence goes on.
    fn status(&mut self, current: &Checkpoint) -> Status {
        let at = self.now;
        match self.rng.u32(..100) {
            0..40 => Status::Running,
            40..65 => Status::Waiting(self.wait(current)),
            65..85 => Status::Retrying { at: self.soon() },
            85..97 => Status::Parked { reason: self.park_reason(), at },
            97 => Status::Completed { output: self.payload(&current.run), at },
            98 => Status::Failed { failure: self.failure(), at },
            _ => {
                let Undoing { undone, stands, never_sent, lost_attempt, .. } = self.undoing(&current.run);
                let uncertain = self.few(|generator| generator.certified(&current.run));
                let (confirmed, failed, step) = (self.rng.u64(..9), self.rng.u64(..9), self.text());
                let certificate =
                    Certificate { confirmed, failed, uncertain, never_sent, undone, stands, step, lost_attempt };
                Status::Cancelled { certificate, at }
            }
        }
    }

    fn wait(&mut self, current: &Checkpoint) -> Wait {
        let mut on = vec![signal_name("approve"), signal_name("chat")];
        on.retain(|_| self.percent(60));
        let until = if on.is_empty() || self.percent(50) { Some(self.soon()) } else { None };
        let seq = current.mailbox.seq.0;
        let approval = (until.is_some() && self.percent(40)).then(|| self.approval_id(&current.run));
        let budget_ends = self.percent(20).then(|| self.soon());
        let seen = MailboxSeq(if self.percent(80) { seq } else { self.rng.u64(..=seq) });
        Wait { on, approval, until, budget_ends, seen }
    }

    fn park_reason(&mut self) -> ParkReason {
        match self.rng.u32(..8) {
            0 => ParkReason::Poison { acquires: self.rng.u32(..9) },
            1 => ParkReason::Incompatible { missing: self.text() },
            2 => ParkReason::StepLimit { limit: self.rng.u64(..) },
            3 => ParkReason::Data { what: self.text() },
            4 => ParkReason::Undo { what: self.text() },
            5 => ParkReason::Paused { what: self.text() },
            6 => {
                let span = if self.percent(50) { Span::Run } else { Span::Step };
                let (counter, limit, spent) = (self.text(), self.rng.u64(..), self.rng.u64(..));
                ParkReason::Budget(OverBudget { span, counter, limit, spent })
            }
            _ => ParkReason::UnknownOutcome { what: self.text() },
        }
    }

    fn failure(&mut self) -> Failure {
        const KINDS: [FailureKind; 10] = [
            FailureKind::Error,
            FailureKind::Terminal,
            FailureKind::Panic,
            FailureKind::Timeout,
            FailureKind::Refused,
            FailureKind::Input,
            FailureKind::Incompatible,
            FailureKind::Budget,
            FailureKind::NotSent,
            FailureKind::Discarded,
        ];
        let failure = Failure::new(KINDS[self.rng.usize(..KINDS.len())], self.text());
        if self.percent(50) { failure.with_code(self.text()) } else { failure }
    }

    fn place(&mut self, run: &RunId) -> Place {
        match self.rng.u32(..4) {
            0 => Place::Fresh { input: self.payload(run), at: self.percent(50).then(|| self.value()) },
            _ => Place::At { cursor: self.value(), state: self.payload(run) },
        }
    }

    fn record(&mut self, run: &RunId, keys: u64) -> EffectRecord {
        let workflow = WorkflowName::new("brief").unwrap();
        let name = format!("effect-{}", self.rng.u64(..keys));
        let of_run = self.percent(50);
        let scope = if of_run { Scope::Run("order-7") } else { Scope::Visit(Visit(1)) };
        let outcome = match self.rng.u32(..3) {
            0 => Outcome::Succeeded(self.payload(run)),
            1 => Outcome::Failed(self.failure()),
            _ => Outcome::Unknown { since: self.now, evidence: self.text() },
        };
        EffectRecord {
            key: EffectKey::derive(run, &workflow, &name, scope),
            name,
            class: [Class::Read, Class::Idempotent(None), Class::Idempotent(Some(1)), Class::Reconcilable, Class::Once]
                [self.rng.usize(..5)],
            parameters: self.percent(50).then(|| Digest::of(b"parameters")),
            attempts: self.rng.u32(..),
            outcome,
            until: self.percent(50).then(|| self.soon()),
            of_run,
            approval: self.percent(30).then(|| self.approval_id(run)),
            costs: self.amounts(),
            undo: self.percent(30).then(|| self.value()),
            no_return: self.percent(20),
            signed_off: self.percent(20).then(|| self.text()),
        }
    }

    fn entries(&mut self, at_least: usize) -> Vec<Entry> {
        const KINDS: [EntryKind; 18] = [
            EntryKind::Stepped,
            EntryKind::Waited,
            EntryKind::LookedUp,
            EntryKind::Intended,
            EntryKind::Retried,
            EntryKind::Parked,
            EntryKind::Resumed,
            EntryKind::Resolved,
            EntryKind::Answered,
            EntryKind::Undoing,
            EntryKind::Undone,
            EntryKind::LetStand,
            EntryKind::Edited,
            EntryKind::Moved,
            EntryKind::Reopened,
            EntryKind::Completed,
            EntryKind::Failed,
            EntryKind::Cancelled,
        ];
        let entry = |generator: &mut Self| {
            let plain = generator.percent(50);
            let effects = (0..generator.rng.usize(1..3)).map(|_| EffectLine::from(&generator.record(&run("r"), 9)));
            let effects = effects.collect();
            let (failed_attempts, note) = (generator.rng.u32(..3), Some(generator.text()));
            let back = generator.percent(30).then(|| Json::of(&generator.text()).expect("text"));
            let more = More { failed_attempts, effects, note, back };
            Entry {
                step: generator.text(),
                kind: KINDS[generator.rng.usize(..KINDS.len())],
                at: generator.rng.u64(..100_000),
                took: generator.rng.u64(..100_000),
                more: if plain { More::default() } else { more },
            }
        };
        (0..self.rng.usize(at_least..5)).map(|_| entry(self)).collect()
    }

    /// Few enough ids that some come twice.
    fn letter(&mut self, run: &RunId) -> Letter {
        let id = signal_id(&format!("signal-{}", self.rng.u32(..150)));
        let name = signal_name(["approve", "chat", "other"][self.rng.usize(..3)]);
        let large = self.percent(25);
        let payload = if large { Payload::Inline(super::bed::json_of(4_000)) } else { self.payload(run) };
        Letter { id, name, payload, at: self.now }
    }

    fn payload(&mut self, run: &RunId) -> Payload {
        let value = self.value();
        if self.percent(20) { Payload::Blob(BlobRef::of(run, value.text().as_bytes())) } else { Payload::Inline(value) }
    }

    fn value(&mut self) -> Json {
        match self.rng.u32(..3) {
            0 => Json::of(&self.text()).unwrap(),
            1 => Json::of(&self.rng.u64(..)).unwrap(),
            _ => json(VALUES[self.rng.usize(..VALUES.len())]),
        }
    }

    fn text(&mut self) -> String {
        TEXTS[self.rng.usize(..TEXTS.len())].to_owned()
    }

    fn lease(&mut self) -> Lease {
        let owner = WorkerId::new(["worker-1", "worker-2", "w"][self.rng.usize(..3)]).unwrap();
        let since = Timestamp(self.now.0 - self.rng.u64(..3_000));
        Lease { owner, since, until: self.soon() }
    }

    /// A time within a few seconds, rarely one far away or just now.
    fn soon(&mut self) -> Timestamp {
        match self.rng.u32(..20) {
            0 => self.now,
            1 => self.now.plus(Duration::from_hours(24 * 30)),
            2 if self.percent(20) => super::bed::END,
            _ => self.now.plus(Duration::from_millis(self.rng.u64(1..6_000))),
        }
    }

    /// This number, or one close to it.
    fn near(&mut self, number: u64, stale: u32) -> u64 {
        if !self.percent(stale) {
            return number;
        }
        match self.rng.u32(..3) {
            0 => number.saturating_sub(1),
            1 => number + 1,
            _ => number.saturating_sub(self.rng.u64(..5)),
        }
    }

    fn write_id(&mut self) -> WriteId {
        self.given += 1;
        WriteId(self.given << 20 | self.rng.u64(..1 << 20))
    }

    fn few<T>(&mut self, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.rng.usize(..3)).map(|_| make(self)).collect()
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.rng.usize(..from.len())].clone())
    }
}

/// What is written of history lies where the revision before has left room for it. A writer may be behind the checkpoint; ahead
/// of it, or of a run's start, there is none, and no backend has to make sense of what it would leave.
fn without_segment(write: Write) -> Write {
    match write {
        Write::Commit(commit) => Write::Commit(Box::new(Commit { segment: None, ..*commit })),
        Write::Amend(amend) => Write::Amend(Box::new(Amend { segment: None, ..*amend })),
        other @ (Write::Start(_) | Write::Acquire(_) | Write::Renew(_) | Write::Signal(_) | Write::Cancel(_)) => other,
    }
}
