//! A folder with the real engine on it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use stepwell::Registry;
use stepwell_core::decide::Rules;
use stepwell_core::{Checkpoint, Json, Phase, RunId, WorkerId, WorkflowName};
use stepwell_engine::{Client, Engine, Ports, Settings, StartRequest, Worker, WorkerSettings};
use stepwell_local::{Local, Options};
use stepwell_ports::ListQuery;
use stepwell_ports::system::{SystemClock, SystemIds};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::Outcome;

/// How often a benchmark looks whether a run has moved on.
pub(crate) const LOOK: Duration = Duration::from_micros(500);

/// One process's way to a folder.
pub(crate) struct Place {
    pub(crate) local: Local,
    pub(crate) client: Client,
    pub(crate) ports: Ports,
    pub(crate) rules: Rules,
    registry: Arc<Registry>,
}

impl Place {
    /// Opens a folder, with default settings but for the lease.
    pub(crate) fn open(dir: &Path, registry: Registry, lease: Option<Duration>) -> Outcome<Self> {
        let clock = Arc::new(SystemClock);
        let local = Local::open(dir, clock.clone(), Options::default())?;
        let ids = Arc::new(SystemIds);
        let ports = Ports { store: local.store(), queue: local.queue(), blobs: local.blobs(), clock, ids };
        let registry = Arc::new(registry);
        let client = Client::new(ports.clone(), Arc::clone(&registry));
        let rules = lease.map_or_else(Rules::default, |lease| Rules { lease, ..Rules::default() });
        Ok(Self { local, client, ports, rules, registry })
    }

    /// A worker that calls itself this.
    pub(crate) fn worker(&self, name: &str) -> Outcome<Arc<Worker>> {
        let settings = Settings { worker: WorkerId::new(name)?, rules: self.rules };
        let engine = Engine::new(self.ports.clone(), Arc::clone(&self.registry), settings)?;
        // A turn longer than any benchmark: a run stays where it is.
        Ok(Worker::new(engine, WorkerSettings { turn: Duration::from_hours(1), ..WorkerSettings::default() }))
    }

    /// Does something while a worker works.
    pub(crate) async fn while_working<T>(&self, doing: impl Future<Output = Outcome<T>>) -> Outcome<T> {
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = self.worker("bench")?;
        let working = tokio::spawn(worker.run(async move { _ = stopped.await }));
        let done = doing.await;
        // Nobody listens any more if the worker has ended.
        let _ = stop.send(());
        working.await?;
        done
    }

    pub(crate) async fn start<T: Serialize>(&self, workflow: &str, input: &T) -> Outcome<RunId> {
        let request = StartRequest { workflow: WorkflowName::new(workflow)?, input: Json::of(input)?, key: None };
        Ok(self.client.start(request).await?.run)
    }

    /// Waits until a run has ended.
    pub(crate) async fn wait_for(&self, run: &RunId) -> Outcome<Checkpoint> {
        loop {
            let found = self.client.get(run).await?;
            if found.progress.status.phase().is_ended() {
                return Ok(found);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Runs in this phase, counted page by page.
    pub(crate) async fn count(&self, phase: Phase) -> Outcome<u64> {
        let limit = stepwell_core::limits::PAGE_MAX;
        let mut query = ListQuery { phase: Some(phase), limit, ..ListQuery::default() };
        let mut count = 0;
        loop {
            let page = self.client.list(&query).await?;
            count += page.items.len() as u64;
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(count),
            }
        }
    }
}

/// As a program would have it: a thread a core.
pub(crate) fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}
