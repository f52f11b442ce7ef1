//! What the tests stand on: one run in a folder of its own, the workers on it, the outside.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use stepwell::{Registry, Workflow};
use stepwell_core::decide::Rules;
use stepwell_core::{
    Checkpoint, EffectKey, Json, Message, Payload, Phase, Revision, RunId, Scope, Status, Ticket, WorkerId,
    WorkflowName,
};
use stepwell_engine::{
    Ack, Client, Engine, HistoryEntry, Ports, Settings, StartRequest, TurnTime, Worker, WorkerSettings,
};
use stepwell_local::{Local, Options};
use stepwell_outcomes::{Act, EFFECT, ORDER, Output, Outside, Promise};
use stepwell_ports::Clock;
use stepwell_ports::system::{SystemClock, SystemIds};
use stepwell_testkit::crash::Fuse;
use stepwell_testkit::faults::Gate;
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// What has not come by then will not.
const PATIENCE: Duration = Duration::from_secs(30);

const LOOK: Duration = Duration::from_millis(20);

/// Longer than any call takes on a machine that is busy.
pub(crate) const UNHURRIED: Duration = Duration::from_secs(10);

/// One run.
pub(crate) struct Bed {
    local: Local,
    pub(crate) outside: Outside,
    pub(crate) run: RunId,
    pub(crate) key: EffectKey,
    pub(crate) lease: Duration,
    pub(crate) settle_delay: Duration,
    dir: TempDir,
}

/// How a run came to rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    Completed(Output),
    Failed(String),
    /// Parked, with this code.
    Parked(&'static str),
}

impl fmt::Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed(_) => f.write_str("completed"),
            Self::Failed(_) => f.write_str("failed"),
            Self::Parked(code) => write!(f, "parked: {code}"),
        }
    }
}

impl Bed {
    pub(crate) async fn new(outside: &Outside, promise: Promise, lease: Duration, settle_delay: Duration) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let local = open(&dir);
        let workflow = WorkflowName::new(Act::NAME).unwrap();
        let mut bed = Self {
            local,
            outside: outside.clone(),
            run: RunId::new("none").unwrap(),
            key: EffectKey::derive(&RunId::new("none").unwrap(), &workflow, EFFECT, Scope::Run(ORDER)),
            lease,
            settle_delay,
            dir,
        };
        let request = StartRequest { workflow: workflow.clone(), input: Json::of(&promise).unwrap(), key: None };
        bed.run = bed.client().start(request).await.unwrap().run;
        bed.key = EffectKey::derive(&bed.run, &workflow, EFFECT, Scope::Run(ORDER));
        bed
    }

    /// The workflow, of a worker whose calls may take this long.
    pub(crate) fn act(&self, deadline: Duration) -> Act {
        let (caller, settle_delay) = (self.outside.caller(), self.settle_delay);
        Act { caller, deadline, settle_delay, dies_before_request: None }
    }

    pub(crate) fn client(&self) -> Client {
        let registry = Registry::new().with(self.act(UNHURRIED));
        Client::new(ports(&self.local, &Gate::open(), Arc::new(SystemClock)), Arc::new(registry))
    }

    /// An engine behind this gate, with the folder opened for it alone, as a process of its own has it.
    pub(crate) fn engine(&self, name: &str, gate: &Arc<Gate>, clock: Arc<dyn Clock>, act: Act) -> Engine {
        let rules = Rules { lease: self.lease, ..Rules::default() };
        let settings = Settings { worker: WorkerId::new(name).unwrap(), rules };
        let ports = ports(&open(&self.dir), gate, clock);
        Engine::new(ports, Arc::new(Registry::new().with(act)), settings).unwrap()
    }

    /// A worker that goes on until it dies.
    pub(crate) fn worker(&self, name: &str, gate: &Arc<Gate>, act: Act) -> Working {
        let engine = self.engine(name, gate, Arc::new(SystemClock), act);
        let settings = WorkerSettings {
            concurrency: 2,
            wait: Duration::from_millis(300),
            sweep_every: Duration::from_hours(1),
            ..WorkerSettings::default()
        };
        let (worker, fuse) = (Worker::new(engine, settings), gate.fuse().clone());
        Working(tokio::spawn(async move {
            // Dropped where it stands, with every connection that it has.
            fuse.while_alive(worker.run(std::future::pending())).await;
        }))
    }

    /// One that nothing goes wrong with.
    pub(crate) fn successor(&self) -> Working {
        self.worker("successor", &Gate::open(), self.act(UNHURRIED))
    }

    /// A single turn on the run's first message, by a worker of its own.
    pub(crate) fn turn(&self, gate: &Arc<Gate>, clock: Arc<dyn Clock>, act: Act) -> JoinHandle<Ack> {
        let engine = self.engine("stalled", gate, clock, act);
        let message = Message { run: self.run.clone(), ticket: Ticket(1) };
        tokio::spawn(async move { engine.turn(&message, &TurnTime::of(Duration::from_mins(1))).await })
    }

    pub(crate) async fn checkpoint(&self) -> Checkpoint {
        self.client().get(&self.run).await.unwrap()
    }

    /// Waits until this holds of the run.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Checkpoint) -> bool) -> Checkpoint {
        let coming = async {
            loop {
                let checkpoint = self.checkpoint().await;
                if holds(&checkpoint) {
                    return checkpoint;
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        let Ok(checkpoint) = tokio::time::timeout(PATIENCE, coming).await else {
            panic!("{what} never came: {:?}", self.checkpoint().await)
        };
        checkpoint
    }

    /// Waits until the run has ended or is parked.
    pub(crate) async fn rest(&self) -> Rest {
        let rests = |checkpoint: &Checkpoint| {
            let phase = checkpoint.progress.status.phase();
            phase.is_ended() || phase == Phase::Parked
        };
        match self.until("a rest", rests).await.progress.status {
            Status::Completed { output: Payload::Inline(output), .. } => Rest::Completed(output.parse().unwrap()),
            Status::Failed { failure, .. } => Rest::Failed(failure.message),
            Status::Parked { reason, .. } => Rest::Parked(reason.code()),
            other => panic!("no rest: {other:?}"),
        }
    }

    pub(crate) async fn history(&self) -> Vec<HistoryEntry> {
        self.client().history(&self.run, Revision(0)).await.unwrap()
    }

    /// What the history says, in order.
    pub(crate) async fn story(&self) -> String {
        let entries = self.history().await;
        entries.iter().map(|entry| entry.entry.kind.as_str()).collect::<Vec<_>>().join(" ")
    }
}

/// A worker, until this is dropped: then it is gone.
pub(crate) struct Working(JoinHandle<()>);

impl Working {
    /// Waits until nothing of it is left.
    pub(crate) async fn gone(mut self) {
        in_time("the worker's end", &mut self.0).await.unwrap();
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for it, but not for ever.
pub(crate) async fn in_time<T>(what: &str, coming: impl Future<Output = T>) -> T {
    let Ok(come) = tokio::time::timeout(PATIENCE, coming).await else { panic!("{what} never came") };
    come
}

/// Waits for a worker to come to its end by itself.
pub(crate) async fn dead(fuse: &Fuse) {
    in_time("the worker's death", fuse.burnt()).await;
}

fn open(dir: &TempDir) -> Local {
    Local::open(dir.path(), Arc::new(SystemClock), Options::default()).unwrap()
}

fn ports(local: &Local, gate: &Arc<Gate>, clock: Arc<dyn Clock>) -> Ports {
    Ports {
        store: gate.store(local.store()),
        queue: gate.queue(local.queue()),
        blobs: gate.blobs(local.blobs()),
        clock,
        ids: Arc::new(SystemIds),
    }
}
