//! The loop that moves a run: one message, one turn.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stepwell::Registry;
use stepwell_core::decide::{self, Decision, Moment, Rules, Send, StepEnd, StepOutcome, Then, Turn, Verdict};
use stepwell_core::history::Segment;
use stepwell_core::invariants;
use stepwell_core::limits::CHECKPOINT_BYTES_MAX;
use stepwell_core::write::{Acquire, Commit, Refusal, Write, apply};
use stepwell_core::{
    Checkpoint, Failure, Lease, Message, ParkReason, Progress, RunId, Status, Timestamp, Usage, WorkerId,
};
use stepwell_ports::StoreError;

use crate::attempt::{Attempted, attempt};
use crate::commit::{Carried, carry_out};
use crate::host::{Code, TurnHost};
use crate::{EngineError, Ports, evidence, payload};

/// In a run that is parked for its size, an effect's result stays inline up to this size.
const PARKED_RESULT_INLINE_BYTES_MAX: usize = 128;

/// How the engine works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Names this process in leases.
    pub worker: WorkerId,
    /// Lease length and the poison limit.
    pub rules: Rules,
}

/// What to do with the message of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ack {
    /// Delete it: what it asked for is done, or another message will do it.
    Delete,
    /// Move it to the dead-letter queue, for this reason.
    Bury(String),
    /// Leave it: it comes again when its visibility runs out.
    Leave,
}

/// How long a turn may go on with further steps. At least one step always runs.
#[derive(Clone, Debug)]
pub struct TurnTime {
    /// No further step is started after this much time.
    pub soft: Duration,
    /// The process ends soon after this time: no further step is started that may take longer, and the first one is cut
    /// then. What a cut step is committed with has to fit into the rest. `None`: it does not end.
    pub hard: Option<Timestamp>,
    /// No further step is started once this is set.
    pub stop: StopFlag,
}

/// Asks turns in progress to hand off after their current step.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Asks.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody has asked.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl TurnTime {
    /// This much time, without a hard end.
    pub fn of(soft: Duration) -> Self {
        Self { soft, hard: None, stop: StopFlag::default() }
    }

    fn allows(&self, started: Timestamp, now: Timestamp, next: Duration) -> bool {
        let fits = self.hard.is_none_or(|hard| now.plus(next) <= hard);
        fits && now.since(started) < self.soft && !self.stop.is_set()
    }
}

/// Moves runs: acquire, run steps, commit, hand off. One engine serves any number of turns at once.
#[derive(Clone)]
pub struct Engine {
    pub(crate) ports: Ports,
    registry: Arc<Registry>,
    settings: Settings,
}

impl Engine {
    /// An engine for these workflows.
    ///
    /// # Errors
    /// When the registry has problems: all of them are named.
    pub fn new(ports: Ports, registry: Arc<Registry>, settings: Settings) -> Result<Self, EngineError> {
        if registry.problems().is_empty() {
            Ok(Self { ports, registry, settings })
        } else {
            Err(EngineError::Registry(registry.problems().to_vec()))
        }
    }

    /// How it works.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Does what a message asks for, and says what to do with it. What the turn sends is sent before it returns, so that the
    /// message may be deleted at once.
    #[tracing::instrument(level = "debug", skip_all, fields(run = %message.run, ticket = message.ticket.0))]
    pub async fn turn(&self, message: &Message, time: &TurnTime) -> Ack {
        match self.acquire(message).await {
            Ok(held) => self.hold(held.into(), time).await,
            Err(ack) => ack,
        }
    }

    /// Acquires the run, or does what the protocol's table says about the message.
    async fn acquire(&self, message: &Message) -> Result<Box<Checkpoint>, Ack> {
        // A refusal that the answer does not explain is a write that came in between: look again, a few times.
        for _ in 0..3 {
            let now = self.ports.clock.now();
            let until = now.plus(self.settings.rules.lease);
            let lease = Lease { owner: self.settings.worker.clone(), since: now, until };
            let write = Write::Acquire(Acquire { ticket: message.ticket, lease });
            let current = match carry_out(&self.ports, &message.run, write).await {
                Carried::Applied(held) => return Ok(held),
                Carried::Refused(_, current) => current,
                Carried::Failed(error) => return Err(store_failed(&message.run, &error)),
            };
            let (now, random) = (self.ports.clock.now(), self.ports.ids.random());
            match decide::refused(current.as_deref(), message, now, random) {
                Verdict::TryAgain => {}
                Verdict::Delete => return Err(Ack::Delete),
                Verdict::SendThenDelete(send) => return Err(self.send_then_delete(&message.run, send).await),
                Verdict::Bury(reason) => return Err(Ack::Bury(reason.to_string())),
                Verdict::Violation(what) => {
                    tracing::error!(what, code = "protocol-violation", "a message is left in the queue");
                    return Err(Ack::Leave);
                }
            }
        }
        Err(Ack::Leave)
    }

    /// Works on a run that is held, until it is let go.
    async fn hold(&self, mut held: Arc<Checkpoint>, time: &TurnTime) -> Ack {
        let started = self.ports.clock.now();
        let run = held.run.clone();
        let code = self.registry.get(&held.workflow).map_or_else(Code::none, |workflow| Code {
            version: workflow.version(),
            budget: workflow.budget().clone(),
        });
        let rules = Rules { run_ends: code.budget.ends_at(&held), ..self.settings.rules };
        let host = Arc::new(TurnHost::new(self.ports.clone(), &held, rules, code));
        // The acquire that began this turn is counted with its first commit.
        let mut uncounted = 1;
        loop {
            let next = match decide::turn(&held, host.budget(), rules, self.ports.clock.now()) {
                Err(illegal) => return self.defect(&run, &illegal),
                Ok(Turn::Write(decision)) => Next::Decided(decision),
                Ok(Turn::Step) => match attempt(&self.ports, &self.registry, &held, &host, time.hard).await {
                    Attempted::Lost(effects) => {
                        evidence::tell(&self.ports, &held, effects).await;
                        return Ack::Leave;
                    }
                    Attempted::Ended { end, next_timeout } => {
                        if let Some(intended) = host.take_intended() {
                            held = intended;
                        }
                        Next::Ended(end, next_timeout)
                    }
                },
            };
            match self.commit(held, next, rules, uncounted, time, started).await {
                Committed::HeldOn(now_held) => {
                    host.learn(&now_held);
                    held = now_held;
                    uncounted = 0;
                }
                Committed::Overtaken(current) => {
                    // What came in between may be a cancellation, and then the step must know.
                    host.learn(&current);
                    held = current;
                }
                Committed::LetGo(None) => return Ack::Delete,
                Committed::LetGo(Some(send)) => return self.send_then_delete(&run, send).await,
                Committed::Not(ack) => return ack,
            }
        }
    }

    /// Writes what a step's end means, or what was decided without one. Decides again when a signal or a cancellation came
    /// in between.
    async fn commit(
        &self,
        mut held: Arc<Checkpoint>,
        mut next: Next,
        rules: Rules,
        uncounted: u64,
        time: &TurnTime,
        started: Timestamp,
    ) -> Committed {
        let run = held.run.clone();
        loop {
            let decided = match &next {
                Next::Decided(decision) => Ok((**decision).clone()),
                Next::Ended(end, next_timeout) => {
                    let moment = Moment { now: self.ports.clock.now(), random: self.ports.ids.random() };
                    let go_on = time.allows(started, moment.now, *next_timeout);
                    decide::commit(&held, (**end).clone(), rules, moment, go_on)
                }
            };
            let Decision { mut commit, then } = match decided {
                Ok(decision) => decision,
                Err(illegal) => return Committed::Not(self.defect(&run, &illegal)),
            };
            let bytes = account(&mut commit, uncounted);
            if bytes > CHECKPOINT_BYTES_MAX && next.can_be_parked() {
                let limit = CHECKPOINT_BYTES_MAX;
                let what = format!(
                    "the checkpoint would have {bytes} bytes, the limit is {limit}; keep large values in a Blob"
                );
                match self.unstorable(&run, next, what).await {
                    Ok(parked) => next = parked,
                    Err(ack) => return Committed::Not(ack),
                }
                continue;
            }
            debug_assert!(self.upholds_invariants(&held, &commit), "run {run}: see the log");
            match carry_out(&self.ports, &run, Write::Commit(Box::new(commit))).await {
                Carried::Applied(now_held) => {
                    report(&now_held, then);
                    return match then {
                        Then::Continue => Committed::HeldOn(now_held.into()),
                        Then::HandOff(send) => Committed::LetGo(send),
                        Then::Ended => Committed::LetGo(None),
                    };
                }
                Carried::Refused(Refusal::Cancelled | Refusal::MailboxMoved, Some(current)) => match next {
                    Next::Decided(_) => return Committed::Overtaken(current.into()),
                    Next::Ended(..) => held = current.into(),
                },
                Carried::Refused(refusal, _) => {
                    tracing::warn!(%run, %refusal, "this worker has lost the run and stops");
                    if let Next::Ended(end, _) = next {
                        evidence::tell(&self.ports, &held, end.effects).await;
                    }
                    // Its message stays: it may be the very one that the new holder works on, and if that dies, it is all
                    // that remembers the run. It comes again, and goes through the table.
                    return Committed::Not(Ack::Leave);
                }
                Carried::Failed(StoreError::Invalid(what)) if next.can_be_parked() => {
                    match self.unstorable(&run, next, what).await {
                        Ok(parked) => next = parked,
                        Err(ack) => return Committed::Not(ack),
                    }
                }
                Carried::Failed(error) => return Committed::Not(store_failed(&run, &error)),
            }
        }
    }

    /// A step's end that cannot be stored: a person has to look. Nothing of it is kept but its effects, which did happen;
    /// their results go to blobs, since it may be them that take the room.
    async fn unstorable(&self, run: &RunId, mut next: Next, what: String) -> Result<Next, Ack> {
        if let Next::Ended(end, _) = &mut next {
            let effects = end.effects.iter_mut();
            match payload::store_results(&*self.ports.blobs, run, PARKED_RESULT_INLINE_BYTES_MAX, effects).await {
                Ok(bytes) => end.used.bytes += bytes,
                Err(error) => {
                    tracing::warn!(%run, %error, "the turn is given up; its message comes again");
                    return Err(Ack::Leave);
                }
            }
            end.outcome = StepOutcome::Park { reason: ParkReason::Data { what } };
            end.appends.clear();
            end.consumed.clear();
        }
        Ok(next)
    }

    /// Sends, and then the message at hand may be deleted. If the send fails, the message is left: it says the same.
    async fn send_then_delete(&self, run: &RunId, send: Send) -> Ack {
        match self.ports.send(run, send).await {
            Ok(()) => Ack::Delete,
            Err(error) => {
                tracing::warn!(%run, %error, "a message could not be sent; the one at hand is left in the queue");
                Ack::Leave
            }
        }
    }

    fn defect(&self, run: &RunId, defect: &dyn std::error::Error) -> Ack {
        tracing::error!(%run, %defect, code = "defect", worker = %self.settings.worker, "nothing was written");
        Ack::Leave
    }

    /// Whether the checkpoint after this commit is sound. Looked at in debug builds, so in every test.
    fn upholds_invariants(&self, held: &Checkpoint, commit: &Commit) -> bool {
        let request = stepwell_core::write::WriteRequest {
            run: held.run.clone(),
            id: stepwell_core::WriteId(1),
            now: self.ports.clock.now(),
            write: Write::Commit(Box::new(commit.clone())),
        };
        match apply(Some(held), &request).as_ref().map(invariants::check) {
            Ok(Err(broken)) => {
                tracing::error!(%broken, "a commit would break an invariant");
                false
            }
            Ok(Ok(())) | Err(_) => true,
        }
    }
}

/// What a turn has to write.
enum Next {
    /// This, decided without a step.
    Decided(Box<Decision>),
    /// What the end of a step means, and how long the step after it may take.
    Ended(Box<StepEnd>, Duration),
}

impl Next {
    fn can_be_parked(&self) -> bool {
        matches!(self, Self::Ended(end, _) if !matches!(end.outcome, StepOutcome::Park { .. }))
    }
}

enum Committed {
    /// It is written, and the run is still held.
    HeldOn(Arc<Checkpoint>),
    /// It is written, and the run is let go.
    LetGo(Option<Send>),
    /// It is not written: something came in between, and what was decided without a step has to be decided again.
    Overtaken(Arc<Checkpoint>),
    /// It is not written, and the turn is over.
    Not(Ack),
}

/// Adds what this commit costs, and writes not counted yet, to what the run has used. Returns the checkpoint's size, closely.
fn account(commit: &mut Commit, uncounted: u64) -> usize {
    let appended: usize =
        commit.appends.iter().flat_map(|append| &append.entries).map(|entry| entry.text().len()).sum();
    let segment = commit.segment.as_ref().map_or(0, Segment::weight);
    let checkpoint = commit.progress.weight();
    let bytes = appended + segment + checkpoint;
    let used = Usage { writes: 1 + uncounted, bytes: bytes as u64, ..Usage::default() };
    commit.progress.usage = commit.progress.usage.plus(used);
    checkpoint
}

/// One event a turn, when the run is let go.
fn report(held: &Checkpoint, then: Then) {
    let (run, workflow) = (held.run.as_str(), held.workflow.as_str());
    let (phase, steps) = (held.progress.status.phase().as_str(), held.progress.visit.0);
    match then {
        Then::Continue => tracing::debug!(run, workflow, steps, "step committed"),
        Then::HandOff(_) | Then::Ended => {
            let why = why(&held.progress);
            tracing::info!(run, workflow, phase, steps, why, "turn ended");
        }
    }
}

/// Why a run is tried again, parked or failed: kind and code, which are no payload. The message is in the history.
fn why(progress: &Progress) -> Option<String> {
    let failure = |failure: &Failure| match &failure.code {
        Some(code) => format!("{} [{code}]", failure.kind.as_str()),
        None => failure.kind.as_str().to_owned(),
    };
    match &progress.status {
        Status::Retrying { .. } => progress.trouble.as_ref().map(|trouble| failure(&trouble.last)),
        Status::Failed { failure: last, .. } => Some(failure(last)),
        Status::Parked { reason, .. } => Some(reason.code().to_owned()),
        Status::Created
        | Status::Running
        | Status::Waiting(_)
        | Status::Completed { .. }
        | Status::Cancelled { .. } => None,
    }
}

/// The store does not take a write: later, if that may help; else its message goes to the dead letters, with the reason.
fn store_failed(run: &RunId, error: &StoreError) -> Ack {
    if error.is_passing() {
        tracing::warn!(%run, %error, "the turn is given up; its message comes again");
        return Ack::Leave;
    }
    tracing::error!(%run, %error, code = "store", "the run cannot be worked on; its message goes to the dead letters");
    Ack::Bury(error.to_string())
}
