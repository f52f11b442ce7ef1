//! A world in memory, for a test that drives one run by hand.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use stepwell::{Registry, Signal, Workflow};
use stepwell_core::{Json, RunId, SignalName, Timestamp, WorkflowName};
use stepwell_engine::{Client, ClientError, SignalRequest, StartRequest};
use stepwell_ports::Clock;
use stepwell_testkit::faults::{Fate, Gate};

use crate::WorldError;
use crate::bed::{Bed, Working};
use crate::person::{Person, Rest};

/// How long a run may go on before [`World::rest`] gives up.
const LONGEST: Duration = Duration::from_hours(400 * 24);

/// A world in memory: a worker, and time that jumps to whatever comes next.
///
/// ```
/// # use stepwell::prelude::*;
/// # #[derive(Serialize, Deserialize)]
/// # enum At { Ask, Hear }
/// # struct Asker;
/// # const ANSWER: Signal<String> = Signal::new("answer");
/// # impl Workflow for Asker {
/// #     const NAME: &'static str = "asker";
/// #     type Input = ();
/// #     type State = ();
/// #     type Step = At;
/// #     type Output = Option<String>;
/// #     fn signals() -> Signals { Signals::none().and(ANSWER) }
/// #     fn begin(&self, (): ()) -> (At, ()) { (At::Ask, ()) }
/// #     async fn step(&self, at: At, (): &mut (), cx: &Cx) -> StepResult<Self> {
/// #         Ok(match at {
/// #             At::Ask => wait(At::Hear).for_signal(ANSWER).within(days(3)),
/// #             At::Hear => complete(cx.take(ANSWER).await?),
/// #         })
/// #     }
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?.block_on(async {
/// use stepwell_testing::{Rest, World};
/// // In `#[tokio::test(start_paused = true)]`:
/// let world = World::with(Asker)?;
/// let run = world.start::<Asker>(()).await?;
/// world.signal(&run, ANSWER, "yes".to_owned()).await?;
/// assert_eq!(world.rest(&run).await?, Rest::Completed("yes".into()));
///
/// let run = world.start::<Asker>(()).await?;
/// world.jump(days(4)).await;
/// assert_eq!(world.rest(&run).await?, Rest::Completed(serde_json::Value::Null));
/// # Ok::<(), stepwell_testing::WorldError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct World {
    bed: Bed,
    client: Client,
    _working: [Working; 2],
}

impl World {
    /// One with this workflow.
    ///
    /// # Errors
    /// When it cannot be registered, or time does not jump on this runtime.
    pub fn with<W: Workflow>(workflow: W) -> Result<Self, WorldError> {
        Self::of(Registry::new().with(workflow))
    }

    /// One with these workflows. Belongs in a test with `#[tokio::test(start_paused = true)]`.
    ///
    /// # Errors
    /// When they cannot be registered.
    pub fn of(registry: Registry) -> Result<Self, WorldError> {
        let bed = Bed::new(registry, Bed::clock(), None);
        let gate: Arc<Gate> = bed.gate(|_, _| Fate::Pass);
        let (client, working) = (bed.client(), [bed.worker(&gate, "worker")?, bed.sweeper()?]);
        Ok(Self { bed, client, _working: working })
    }

    /// Starts a run.
    ///
    /// # Errors
    /// When the input does not fit.
    pub async fn start<W: Workflow>(&self, input: impl Serialize) -> Result<RunId, WorldError> {
        let workflow = WorkflowName::new(W::NAME).map_err(ClientError::from)?;
        let input = Json::of(&input).map_err(|source| WorldError::Value { what: "the input".into(), source })?;
        Ok(self.client.start(StartRequest { workflow, input, key: None }).await?.run)
    }

    /// Sends a run a signal.
    ///
    /// # Errors
    /// When it is not taken.
    pub async fn signal<T: Serialize>(&self, run: &RunId, signal: Signal<T>, value: T) -> Result<(), WorldError> {
        let name = SignalName::new(signal.name()).map_err(ClientError::from)?;
        let what = || format!("signal {}", signal.name());
        let payload = Json::of(&value).map_err(|source| WorldError::Value { what: what(), source })?;
        self.client.signal(SignalRequest { run: run.clone(), name, payload, id: None }).await?;
        Ok(())
    }

    /// Lets time go on until the run has come to rest: it has ended, is parked, or waits for somebody without a deadline.
    ///
    /// # Errors
    /// When it does not, or cannot be read.
    pub async fn rest(&self, run: &RunId) -> Result<Rest, WorldError> {
        let (client, run, until) = (self.client.clone(), run.clone(), self.now().plus(LONGEST));
        let (signals, sent, approves, said) = (&[][..], Vec::new(), false, Vec::new());
        let says = &|_: &_| None;
        let mut person =
            Person { bed: &self.bed, client, run, signals, sent, answered: None, approves, says, said, until };
        match person.sit().await? {
            Rest::Restless(why) | Rest::TooSlow(why) => Err(WorldError::Restless(format!("run {} {why}", person.run))),
            rest => Ok(rest),
        }
    }

    /// Lets this much time pass.
    pub async fn jump(&self, time: Duration) {
        self.bed.clock.sleep(time).await;
    }

    /// The time in this world.
    pub fn now(&self) -> Timestamp {
        self.bed.clock.now()
    }

    /// What else one can ask of a run: its checkpoint, its history, an answer to its approval.
    pub fn client(&self) -> &Client {
        &self.client
    }
}
