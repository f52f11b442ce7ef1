//! Every crash point of a user's own workflow.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use stepwell::{Registry, Signal, Workflow};
use stepwell_core::audit::open;
use stepwell_core::decide::Resolution;
use stepwell_core::{EffectKey, EffectRecord, Json, SignalName, Timestamp, WorkflowName};
use stepwell_engine::{ClientError, StartRequest};
use stepwell_ports::Clock;
use stepwell_testkit::faults::{Gate, PortCall};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use crate::bed::Bed;
use crate::calls::{Calls, Seen};
use crate::fault::{Fault, Point};
use crate::judge::Judge;
use crate::person::{Person, Rest, Unknown};
use crate::report::Report;
use crate::{CrashTestError, WorldError};

/// How long the fault-free run may take, in its own time.
const LONGEST: Duration = Duration::from_hours(400 * 24);

/// How much longer a run may take with a fault.
const LONGER: Duration = Duration::from_hours(24);

/// Calls of the worker at which something goes wrong, at most, unless [`CrashTest::at_most`] says otherwise.
const CALLS_MAX: usize = 500;

type Make<O> = Box<dyn Fn() -> Result<(Registry, O), String> + Send>;
type Resolves<O> = Box<dyn Fn(&O, &Unknown) -> Option<Resolution> + Send>;
type Checks<O> = Box<dyn Fn(&O) -> Result<(), String> + Send>;

/// A crash test in the making; [`CrashTest::run`] runs it. `O` is what the test holds of each world: its workflow.
#[must_use = "nothing is tested before `run`"]
pub struct CrashTest<O> {
    make: Make<O>,
    workflow: Result<WorkflowName, ClientError>,
    input: Result<Json, WorldError>,
    signals: Vec<Result<(SignalName, Json), WorldError>>,
    approves: bool,
    resolves: Resolves<O>,
    checks: Checks<O>,
    ignored: Vec<String>,
    patience: Duration,
    calls_max: usize,
}

/// A crash test of one workflow. `make` makes it anew for each world, together with the outside that it calls: what one world has
/// done is unknown in the next. See the crate's example.
pub fn crash_everywhere<W: Workflow>(make: impl Fn() -> W + Send + 'static) -> CrashTest<Arc<W>> {
    let make = move || {
        let workflow = Arc::new(make());
        Ok((Registry::new().with_shared(Arc::clone(&workflow)), workflow))
    };
    CrashTest::new(WorkflowName::new(W::NAME).map_err(ClientError::from), Box::new(make))
}

/// A crash test of one workflow of a registry. `make` makes both anew for each world: the registry, and what has to be kept for as
/// long as that world lasts, such as the outside that its workflows call.
pub fn crash_registered<O: Send + 'static>(
    workflow: WorkflowName,
    make: impl Fn() -> Result<(Registry, O), String> + Send + 'static,
) -> CrashTest<O> {
    CrashTest::new(Ok(workflow), Box::new(make))
}

impl<O: Send + 'static> CrashTest<O> {
    fn new(workflow: Result<WorkflowName, ClientError>, make: Make<O>) -> Self {
        Self {
            make,
            workflow,
            input: Json::of(&()).map_err(|source| WorldError::Value { what: "the input".into(), source }),
            signals: Vec::new(),
            approves: false,
            resolves: Box::new(|_, _| None),
            checks: Box::new(|_| Ok(())),
            ignored: Vec::new(),
            patience: Duration::from_secs(1),
            calls_max: CALLS_MAX,
        }
    }

    /// The run's input. Without one it is `null`.
    pub fn input(mut self, input: impl Serialize) -> Self {
        self.input = Json::of(&input).map_err(|source| WorldError::Value { what: "the input".into(), source });
        self
    }

    /// This signal is sent, once, when the run waits for it. Those of one name are sent in the order in which they are given.
    pub fn signal<T: Serialize>(mut self, signal: Signal<T>, value: T) -> Self {
        let named = SignalName::new(signal.name()).map_err(|error| ClientError::from(error).into());
        let payload = |name| match Json::of(&value) {
            Ok(payload) => Ok((name, payload)),
            Err(source) => Err(WorldError::Value { what: format!("signal {}", signal.name()), source }),
        };
        self.signals.push(named.and_then(payload));
        self
    }

    /// As [`CrashTest::signal`], by name.
    pub fn signal_named(mut self, name: SignalName, payload: Json) -> Self {
        self.signals.push(Ok((name, payload)));
        self
    }

    /// Whatever approval the run asks for is given, by those whom it asks. Without this nobody answers.
    pub fn approving(mut self) -> Self {
        self.approves = true;
        self
    }

    /// What a person says of an effect that may have happened, when the run is parked with that question. Without this nobody
    /// knows: the run stays parked, and the report counts it. Look at the outside, not at [`Unknown::calls`]: a call that has
    /// ended ([`Unknown::ended`]) was carried out, but one whose worker died meanwhile was cut off, and may not have acted.
    pub fn resolve_unknowns(mut self, says: impl Fn(&O, &Unknown) -> Option<Resolution> + Send + 'static) -> Self {
        self.resolves = Box::new(says);
        self
    }

    /// What has to hold of the outside when the run has ended as it does without faults, such as "one mail was sent". An error is
    /// a surprise, and says what is wrong.
    pub fn check(mut self, check: impl Fn(&O) -> Result<(), String> + Send + 'static) -> Self {
        self.checks = Box::new(check);
        self
    }

    /// A part of the result that may differ from world to world, as a JSON pointer: a time such as `/sent_at`, or the outside's
    /// word that a call was a duplicate.
    pub fn ignoring(mut self, pointer: impl Into<String>) -> Self {
        self.ignored.push(pointer.into());
        self
    }

    /// For how much real time the world's clock stands still while a closure of the workflow waits for its outside: another
    /// process, a thread. Then time goes on without the answer. Default: one second. Zero where closures only sleep.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Lets something go wrong at this many calls of the worker at most, spread evenly; the report says so. Default: 500.
    pub fn at_most(mut self, calls: usize) -> Self {
        self.calls_max = calls.max(1);
        self
    }

    /// Runs all worlds, one after the other, on a thread and a runtime of their own. Blocks until the report is there.
    ///
    /// # Errors
    /// [`CrashTestError`] when there is nothing to compare with: without faults the run does not end, say.
    ///
    /// # Panics
    /// When a closure of the test does.
    pub fn run(self) -> Result<Report, CrashTestError> {
        let worlds = std::thread::Builder::new().name("crash-test".into());
        match worlds.spawn(move || self.run_here())?.join() {
            Ok(report) => report,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn run_here(self) -> Result<Report, CrashTestError> {
        let Self { make, workflow, input, signals, approves, resolves, checks, ignored, patience, calls_max } = self;
        let signals = signals.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (workflow, input) = (workflow?, input?);
        let case = Case { make, workflow, input, signals, approves, resolves, checks, patience };
        let base = case.play(Point::NOTHING, LONGEST)?;
        case.check_base(&base)?;
        let points = Points::of(&base, calls_max);
        let longest = base.took + LONGER;
        let mut judge = Judge::new(&case.workflow, &base, &ignored, points.every);
        for point in points.all {
            judge.add(point, &case.play(point, longest)?);
        }
        Ok(judge.report())
    }
}

/// Where something goes wrong.
struct Points {
    all: Vec<Point>,
    /// One of so many calls.
    every: usize,
}

impl Points {
    fn of(base: &Played, calls_max: usize) -> Self {
        let calls: Vec<(u64, PortCall)> = (1..).zip(base.calls.iter().copied()).collect();
        // Of a worker that finds nothing to do nothing is lost; its sweeps fail anyway.
        let works = |(number, call): &(u64, PortCall)| *call != PortCall::Due && !base.in_vain.contains(number);
        let calls: Vec<_> = calls.into_iter().filter(works).collect();
        let every = calls.len().div_ceil(calls_max).max(1);
        let at_calls = calls.into_iter().step_by(every).flat_map(|(number, call)| {
            Fault::AT_CALLS.into_iter().map(move |fault| Point { fault, number, call: Some(call) })
        });
        let every_message = usize::try_from(base.messages).unwrap_or(usize::MAX).div_ceil(calls_max).max(1);
        let twice = (1..=base.messages).step_by(every_message);
        let twice = twice.map(|number| Point { fault: Fault::DeliveredTwice, number, call: None });
        Self { all: std::iter::once(Point::NOTHING).chain(at_calls).chain(twice).collect(), every }
    }
}

/// What is the same in all worlds.
struct Case<O> {
    make: Make<O>,
    workflow: WorkflowName,
    input: Json,
    signals: Vec<(SignalName, Json)>,
    approves: bool,
    resolves: Resolves<O>,
    checks: Checks<O>,
    patience: Duration,
}

/// What has become of one world.
pub(crate) struct Played {
    pub(crate) rest: Rest,
    pub(crate) took: Duration,
    /// The first worker's port calls.
    pub(crate) calls: Vec<PortCall>,
    /// Those that have waited for a message in vain.
    pub(crate) in_vain: Vec<u64>,
    pub(crate) messages: u64,
    pub(crate) seen: Seen,
    /// Effects of which nobody knows, in the end, whether they have happened.
    pub(crate) unknown: Vec<EffectRecord>,
    /// What a person has said of unknown effects.
    pub(crate) said: Vec<(EffectKey, Resolution)>,
    /// Signals that were never waited for.
    pub(crate) unsent: Vec<SignalName>,
    pub(crate) check: Result<(), String>,
    /// Calls to the outside that the clock has not waited for.
    pub(crate) slow: u64,
}

impl<O> Case<O> {
    /// One world, on a runtime of its own: nothing of it is left for the next.
    fn play(&self, point: Point, longest: Duration) -> Result<Played, CrashTestError> {
        let runtime: Runtime = Builder::new_current_thread().enable_all().start_paused(true).build()?;
        let (registry, outside) = (self.make)().map_err(CrashTestError::Outside)?;
        let mut played = runtime.block_on(self.run(registry, &outside, point, longest))?;
        played.check = (self.checks)(&outside);
        Ok(played)
    }

    async fn run(
        &self,
        registry: Registry,
        outside: &O,
        point: Point,
        longest: Duration,
    ) -> Result<Played, CrashTestError> {
        let clock = Bed::clock();
        let watch = Calls::new(Arc::clone(&clock), self.patience);
        let twice = (point.fault == Fault::DeliveredTwice).then_some(point.number);
        let bed = Bed::new(registry.watched(&(watch.clone() as _)), clock, twice);
        let (client, struck) = (bed.client(), Arc::new(Notify::new()));
        let gate = bed.gate(point.plan(Arc::clone(&bed.clock), Arc::clone(&struck)));
        // One that is unknown is refused at its start.
        if let Some(hosted) = bed.registry.get(&self.workflow) {
            let checked = self.signals.iter().try_for_each(|(name, payload)| hosted.check_signal(name, payload));
            checked.map_err(ClientError::from)?;
        }
        let key = Some("crash-test".to_owned());
        let request = StartRequest { workflow: self.workflow.clone(), input: self.input.clone(), key };
        let run = client.start(request).await?.run;
        let (_first, _sweeper) = (bed.worker(&gate, "first")?, bed.sweeper()?);

        let says = |record: &EffectRecord| {
            let (name, key) = (record.name.clone(), record.key.clone());
            let (calls, ended) = watch.seen().get(&key).map_or((0, 0), |called| (called.calls, called.ended));
            (self.resolves)(outside, &Unknown { name, key, calls, ended })
        };
        let (signals, until) = (&self.signals[..], Timestamp(bed.clock.now().0).plus(longest));
        let sent = vec![false; signals.len()];
        let (approves, said) = (self.approves, Vec::new());
        let client = client.clone();
        let mut person =
            Person { bed: &bed, client, run, signals, sent, answered: None, approves, says: &says, said, until };
        let rest = tokio::select! {
            biased;
            rest = person.sit() => rest?,
            error = another(&bed, point, &struck) => return Err(error.into()),
        };

        let end = person.client.get(&person.run).await?;
        let (sent, said) = (std::mem::take(&mut person.sent), std::mem::take(&mut person.said));
        let unsent = self.signals.iter().zip(sent).filter(|(_, sent)| !sent).map(|((name, _), _)| name.clone());
        Ok(Played {
            rest,
            took: bed.elapsed(),
            calls: gate.calls(),
            in_vain: bed.post.in_vain(),
            messages: bed.post.sent(),
            seen: watch.seen(),
            unknown: open(&end).cloned().collect(),
            said,
            unsent: unsent.collect(),
            check: Ok(()),
            slow: watch.slow(),
        })
    }

    /// Whether the run without faults is one that others can be compared with.
    fn check_base(&self, base: &Played) -> Result<(), CrashTestError> {
        let no_end = |why: String| Err(CrashTestError::NoEnd { workflow: self.workflow.to_string(), why });
        match &base.rest {
            Rest::Restless(why) | Rest::TooSlow(why) => return no_end(why.clone()),
            Rest::Waits { step, waits_for } => {
                return no_end(format!("waits before step {step} for {waits_for}, which nobody gives: say who does"));
            }
            Rest::Completed(_) | Rest::Failed(_) | Rest::Cancelled | Rest::Parked(_) => {}
        }
        if let Some(signal) = base.unsent.first() {
            return Err(CrashTestError::NeverSent(signal.clone()));
        }
        base.check.clone().map_err(CrashTestError::Check)
    }
}

/// Another worker comes when the fault has struck, where that is its kind. It only ever returns with an error.
async fn another(bed: &Bed, point: Point, struck: &Notify) -> WorldError {
    if !point.fault.brings_another() {
        return std::future::pending().await;
    }
    struck.notified().await;
    let gate: Arc<Gate> = bed.gate(|_, _| stepwell_testkit::faults::Fate::Pass);
    match bed.worker(&gate, "second") {
        Ok(_second) => std::future::pending().await,
        Err(error) => error,
    }
}
