//! One attempt of a step: load, run under time-out, lease renewal and panic guard, and say how it ended.

use core::any::Any;
use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::Arc;

use futures_util::FutureExt;
use stepwell::host::{
    ErrorMeans, HostedWorkflow, NextPlace, PlaceText, PrepareError, PreparedStep, StepNext, StepRecord, Visiting,
    WaitUntil,
};
use stepwell::{Cx, Registry, StepPolicy};
use stepwell_core::decide::{StepEnd, StepOutcome};
use stepwell_core::write::LogAppend;
use stepwell_core::{
    Budget, Checkpoint, EffectRecord, Failure, FailureKind, Json, ParkReason, Payload, Place, RetryPolicy, RunId,
    Timestamp, Usage,
};

use stepwell_ports::BlobError;

use crate::host::TurnHost;
use crate::payload::{self, PayloadError};
use crate::{Ports, states};

/// How an attempt ended.
pub(crate) enum Attempted {
    /// It ended; the run has to be told.
    Ended {
        end: Box<StepEnd>,
        /// How long the next step may take.
        next_timeout: Duration,
    },
    /// Another worker holds the run: nothing more is to be written, but what was learned of effects.
    Lost(Vec<EffectRecord>),
}

/// What the code that ran makes of the place it found.
enum Ran {
    Next(StepNext),
    Means(ErrorMeans),
}

/// How often a lost step's calls are looked at.
const CALLS_LOOK: Duration = Duration::from_millis(100);

/// When code that does not know a run is tried again: a rolling deploy is over by then, or a person is needed.
fn incompatible_retry() -> RetryPolicy {
    RetryPolicy::default()
        .max_attempts(8)
        .first_delay(Duration::from_secs(5))
        .max_delay(Duration::from_mins(2))
        .without_jitter()
}

/// Runs the step that the run stands at, once. It is cut at `hard`, when the process ends.
pub(crate) async fn attempt(
    ports: &Ports,
    registry: &Registry,
    held: &Checkpoint,
    host: &Arc<TurnHost>,
    hard: Option<Timestamp>,
) -> Attempted {
    let started = ports.clock.now();
    let prepared = prepare(ports, registry, held).await;
    let mut kept = None;
    let (step, version, note, policy, record, ran) = match prepared {
        Err(means) => {
            let version = held.progress.version;
            let record = StepRecord::of_earlier(held.progress.journal.clone());
            (held.progress.place.step(), version, None, StepPolicy::default(), record, Ran::Means(means))
        }
        Ok(Prepared { workflow, step, state }) => {
            kept = state;
            let (name, note, policy) = (step.step().to_owned(), step.note().map(str::to_owned), step.policy().clone());
            let cx = Arc::new(Cx::new(visiting(held, host.budget()), Arc::clone(host) as Arc<_>));
            let ran = run(ports, step, Limit::of(&policy, ports.clock.now(), hard), &cx, host).await;
            (name, workflow.version(), note, policy, cx.recorded(), ran)
        }
    };
    let took = ports.clock.now().since(started);
    let ended = Ended { ports, run: &held.run, policy: &policy, logs: held.progress.logs, kept };
    let Some(Told { outcome, appends, logs, next_timeout, back }) = ended.outcome(ran).await else {
        return Attempted::Lost(record.journal);
    };
    let used = record.used();
    let bytes = used.bytes + blob_bytes(&outcome);
    let mut end = StepEnd {
        step,
        version,
        outcome,
        consumed: record.taken().to_vec(),
        used: Usage { writes: host.take_renewals(), bytes, ..used },
        effects: record.journal,
        appends,
        logs,
        took,
        note,
        back,
    };
    match store_results(ports, &held.run, &mut end).await {
        Ok(bytes) => end.used.bytes += bytes,
        Err(error) => match means_outcome(unusable(&error), &policy) {
            Some(outcome) => end.outcome = outcome,
            None => return Attempted::Lost(end.effects),
        },
    }
    Attempted::Ended { end: Box::new(end), next_timeout }
}

/// Bytes of the value that went to a blob on the way.
fn blob_bytes(outcome: &StepOutcome) -> u64 {
    match outcome {
        StepOutcome::Goto { place: Place::At { state: Payload::Blob(blob), .. } }
        | StepOutcome::Undone { place: Place::At { state: Payload::Blob(blob), .. } }
        | StepOutcome::Wait { place: Place::At { state: Payload::Blob(blob), .. }, .. }
        | StepOutcome::Complete { output: Payload::Blob(blob) } => blob.size,
        StepOutcome::Goto { .. }
        | StepOutcome::Wait { .. }
        | StepOutcome::Undone { .. }
        | StepOutcome::Complete { .. }
        | StepOutcome::Fail { .. }
        | StepOutcome::Retry { .. }
        | StepOutcome::Park { .. } => 0,
    }
}

/// Results that will be in the checkpoint: those of the run when the step has ended, all of them when it has not. Returns
/// the bytes that went to blobs.
async fn store_results(ports: &Ports, run: &RunId, end: &mut StepEnd) -> Result<u64, PayloadError> {
    let step_is_over = match end.outcome {
        StepOutcome::Goto { .. }
        | StepOutcome::Wait { .. }
        | StepOutcome::Undone { .. }
        | StepOutcome::Complete { .. } => true,
        StepOutcome::Fail { .. } | StepOutcome::Retry { .. } | StepOutcome::Park { .. } => false,
    };
    let kept = end.effects.iter_mut().filter(|record| record.of_run || !step_is_over);
    payload::store_results(&*ports.blobs, run, payload::RESULT_INLINE_BYTES_MAX, kept).await
}

fn visiting(held: &Checkpoint, budget: &Budget) -> Visiting {
    let progress = &held.progress;
    Visiting {
        run: held.run.clone(),
        workflow: held.workflow.clone(),
        visit: progress.visit,
        failed_attempts: progress.trouble.as_ref().map_or(0, |trouble| trouble.failed),
        earlier_try: held.crashed_since(),
        letters: held.mailbox.letters.clone(),
        journal: progress.journal.clone(),
        ledger: progress.ledger.clone(),
        has_spilled: progress.spilled > 0,
        logs: progress.logs,
        approvals: progress.approvals.clone(),
        undoing: progress.undoing.as_ref().and_then(|_| progress.undo.last()).map(|undo| undo.key.clone()),
        undo_count: progress.undo.len(),
        counts_effects: budget.counts_effects() && progress.undoing.is_none(),
        reached: budget.reached,
    }
}

/// A step that is ready to run.
struct Prepared {
    workflow: Arc<dyn HostedWorkflow>,
    step: Box<dyn PreparedStep>,
    /// The state before it, where the workflow keeps states.
    state: Option<Json>,
}

async fn prepare(ports: &Ports, registry: &Registry, held: &Checkpoint) -> Result<Prepared, ErrorMeans> {
    let Some(workflow) = registry.get(&held.workflow) else {
        return Err(incompatible(format!("this program has no workflow {}", held.workflow)));
    };
    let load = async |payload: &Payload| payload::load(&*ports.blobs, payload).await.map_err(|error| unusable(&error));
    let mut before = None;
    let place = match &held.progress.place {
        Place::Fresh { input, at } => PlaceText::Fresh { input: load(input).await?, at: at.clone() },
        Place::At { cursor, state } => {
            let (cursor, version, state) = (cursor.clone(), held.progress.version, load(state).await?);
            before = workflow.keeps_states().then(|| state.clone());
            PlaceText::At { cursor, state, version }
        }
    };
    // `begin`, `policy` and `migrate` are the author's code as much as a step is.
    match catch_unwind(AssertUnwindSafe(|| workflow.prepare(place))) {
        Ok(Ok(step)) => Ok(Prepared { workflow: Arc::clone(workflow), step, state: before }),
        Ok(Err(PrepareError::Input(misfit))) => {
            Err(ErrorMeans::Fail(Failure::new(FailureKind::Input, misfit.to_string())))
        }
        Ok(Err(PrepareError::Incompatible(what))) => Err(incompatible(what.missing)),
        Err(panic) => Err(panicked(&*panic)),
    }
}

fn incompatible(missing: String) -> ErrorMeans {
    let failure = Failure::new(FailureKind::Incompatible, missing);
    ErrorMeans::Retry { failure, policy: Some(Box::new(incompatible_retry())), at_least: None }
}

/// What a value that cannot be loaded or stored means: later if the store is away, a person otherwise.
fn unusable(error: &PayloadError) -> ErrorMeans {
    match error {
        PayloadError::Blob(BlobError::Unavailable(_)) => {
            let failure = Failure::new(FailureKind::Error, error.to_string());
            ErrorMeans::Retry { failure, policy: None, at_least: None }
        }
        PayloadError::Blob(BlobError::Missing { .. } | BlobError::Altered { .. } | BlobError::TooLarge { .. })
        | PayloadError::TooLarge { .. }
        | PayloadError::NoJson { .. } => ErrorMeans::Park(ParkReason::Data { what: error.to_string() }),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> ErrorMeans {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into());
    let failure = Failure::new(FailureKind::Panic, stepwell::redact(format!("the step panicked: {text}")));
    ErrorMeans::Retry { failure, policy: None, at_least: None }
}

/// How long an attempt may take, and why no longer.
#[derive(Clone, Copy)]
enum Limit {
    /// Its own time-out.
    Own(Duration),
    /// The process ends before that.
    Process { left: Duration, own: Duration },
}

impl Limit {
    fn of(policy: &StepPolicy, now: Timestamp, hard: Option<Timestamp>) -> Self {
        let own = policy.timeout;
        match hard.map(|hard| hard.since(now)) {
            Some(left) if left < own => Self::Process { left, own },
            Some(_) | None => Self::Own(own),
        }
    }

    const fn time(self) -> Duration {
        match self {
            Self::Own(time) | Self::Process { left: time, .. } => time,
        }
    }

    fn passed(self) -> Failure {
        let message = match self {
            Self::Own(own) => format!("the step took longer than {own:?}; it may have been cut in the middle"),
            Self::Process { left, own } => format!(
                "the step was cut after {left:?}, since its process was about to end; its own time-out is {own:?}; give the \
                 function a longer time-out than its steps, or run steps longer than any function in `stepwell worker`"
            ),
        };
        Failure::new(FailureKind::Timeout, message)
    }
}

/// Runs the author's step until it ends, takes too long, or the run is lost.
async fn run(ports: &Ports, step: Box<dyn PreparedStep>, limit: Limit, cx: &Arc<Cx>, host: &Arc<TurnHost>) -> Ran {
    let mut running = pin!(AssertUnwindSafe(step.run(Arc::clone(cx))).catch_unwind());
    let mut timeout = pin!(ports.clock.sleep(limit.time()));
    host.begin(ports.clock.now().plus(limit.time()));
    // The order matters: a step that has ended has ended, whatever the time.
    tokio::select! {
        biased;
        ended = &mut running => match ended {
            Ok(Ok(next)) => Ran::Next(next),
            Ok(Err(error)) => Ran::Means(error.into()),
            Err(panic) => Ran::Means(panicked(&*panic)),
        },
        () = &mut timeout => Ran::Means(ErrorMeans::Retry { failure: limit.passed(), policy: None, at_least: None }),
        // Beside the step: a store that is slow to renew does not hold it up.
        () = host.keep_lease() => {
            host.lose();
            tokio::select! {
                biased;
                _ = running => {}
                () = timeout => {}
                () = calls_over(ports, cx) => {}
            }
            Ran::Means(ErrorMeans::Lost)
        }
    }
}

/// What a lost step still learns from calls that are under way is late evidence. Nothing else of it is worth waiting for.
async fn calls_over(ports: &Ports, cx: &Cx) {
    while cx.is_calling() {
        ports.clock.sleep(CALLS_LOOK).await;
    }
}

/// Turns what the code said into what the core decides on.
struct Ended<'a> {
    ports: &'a Ports,
    run: &'a RunId,
    policy: &'a StepPolicy,
    logs: u32,
    /// The state before it, where the workflow keeps states.
    kept: Option<Json>,
}

/// What the core is told of an attempt.
struct Told {
    outcome: StepOutcome,
    appends: Vec<LogAppend>,
    /// How many logs there are.
    logs: u32,
    /// How long the next step may take.
    next_timeout: Duration,
    back: Option<Json>,
}

impl Ended<'_> {
    /// `None`: lost.
    async fn outcome(&self, ran: Ran) -> Option<Told> {
        match ran {
            Ran::Next(next) => self.next(next).await,
            Ran::Means(means) => self.nothing_kept(means),
        }
    }

    /// Nothing of the step counts but its effects.
    fn nothing_kept(&self, means: ErrorMeans) -> Option<Told> {
        let (outcome, appends, logs) = (means_outcome(means, self.policy)?, Vec::new(), self.logs);
        Some(Told { outcome, appends, logs, next_timeout: Duration::ZERO, back: None })
    }

    async fn next(&self, next: StepNext) -> Option<Told> {
        let appends = match &next {
            StepNext::Goto(place) | StepNext::Wait { place, .. } | StepNext::Undone(place) => &place.appends,
            StepNext::Complete { appends, .. } => appends,
        };
        if let Err(error) = payload::check_entries(appends) {
            return self.nothing_kept(unusable(&error));
        }
        match next {
            StepNext::Goto(next) => self.at(next, |place| StepOutcome::Goto { place }).await,
            StepNext::Undone(next) => self.at(next, |place| StepOutcome::Undone { place }).await,
            StepNext::Wait { place, on, until, mut ask } => {
                let until = self.until(until);
                if let Some(ask) = &mut ask
                    && let Payload::Inline(parameters) = &ask.parameters
                {
                    let what = "an approval's parameters";
                    match payload::store(&*self.ports.blobs, self.run, what, parameters.clone()).await {
                        Ok(stored) => ask.parameters = stored,
                        Err(error) => return self.nothing_kept(unusable(&error)),
                    }
                }
                self.at(place, |place| StepOutcome::Wait { place, on, until, ask }).await
            }
            StepNext::Complete { output, appends, logs } => {
                match payload::store(&*self.ports.blobs, self.run, "the output", output).await {
                    Ok(output) => {
                        let (outcome, next_timeout) = (StepOutcome::Complete { output }, Duration::ZERO);
                        Some(Told { outcome, appends, logs, next_timeout, back: None })
                    }
                    Err(error) => self.nothing_kept(unusable(&error)),
                }
            }
        }
    }

    async fn at(&self, next: NextPlace, outcome: impl FnOnce(Place) -> StepOutcome) -> Option<Told> {
        let NextPlace { cursor, state, appends, logs, timeout: next_timeout } = next;
        let back = self.kept.as_ref().and_then(|kept| states::back(&state, kept));
        match payload::store(&*self.ports.blobs, self.run, "the state", state).await {
            Ok(state) => {
                let outcome = outcome(Place::At { cursor, state });
                Some(Told { outcome, appends, logs, next_timeout, back })
            }
            Err(error) => self.nothing_kept(unusable(&error)),
        }
    }

    fn until(&self, until: WaitUntil) -> Option<Timestamp> {
        match until {
            WaitUntil::Forever => None,
            WaitUntil::Time(time) => Some(time),
            WaitUntil::After(duration) => Some(self.ports.clock.now().plus(duration)),
        }
    }
}

fn means_outcome(means: ErrorMeans, step: &StepPolicy) -> Option<StepOutcome> {
    match means {
        ErrorMeans::Retry { failure, policy, at_least } => {
            let policy = policy.map_or_else(|| step.retry.clone(), |policy| *policy);
            Some(StepOutcome::Retry { failure, policy, at_least })
        }
        ErrorMeans::Fail(failure) => Some(StepOutcome::Fail { failure }),
        ErrorMeans::Park(reason) => Some(StepOutcome::Park { reason }),
        // The commit learns of the cancellation by its own condition; until then this is one more attempt.
        ErrorMeans::Cancelled(failure) => {
            let policy = RetryPolicy::default().every(Duration::ZERO);
            Some(StepOutcome::Retry { failure, policy, at_least: None })
        }
        ErrorMeans::Lost => None,
    }
}
