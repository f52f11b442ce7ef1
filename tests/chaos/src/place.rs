//! The folder that the processes share, opened as each of them does.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use stepwell::Registry;
use stepwell_core::{Checkpoint, Json, NameError, RunId, WorkerId, WorkflowName};
use stepwell_engine::{Client, ClientError, Engine, EngineError, Ports, Settings, StartRequest, Started};
use stepwell_local::{Local, OpenError, Options};
use stepwell_ports::ListQuery;
use stepwell_ports::system::{SystemClock, SystemIds};

use stepwell_core::decide::Rules;
use stepwell_core::limits::PAGE_MAX;

use crate::flows::{LEASE, Questions};

/// Acquires without a commit before a run counts as poison. Here it is the workers that are killed, not the steps that
/// kill: a run may well lose its worker a few times in a row.
const ACQUIRES_MAX: u32 = 100;

/// What can go wrong on the way.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The folder.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The registry.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A value.
    #[error("a value is no JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// One process's way to the folder.
pub struct Place {
    /// Store, queue and blobs.
    pub local: Local,
    /// Starts runs, looks at them, speaks to them.
    pub client: Client,
    ports: Ports,
    registry: Arc<Registry>,
}

impl Place {
    /// Opens the folder.
    pub fn open(dir: &Path, registry: Registry) -> Result<Self, PlaceError> {
        let clock = Arc::new(SystemClock);
        let local = Local::open(dir, clock.clone(), Options::default())?;
        let ids = Arc::new(SystemIds);
        let ports = Ports { store: local.store(), queue: local.queue(), blobs: local.blobs(), clock, ids };
        let registry = Arc::new(registry);
        let client = Client::new(ports.clone(), Arc::clone(&registry));
        Ok(Self { local, client, ports, registry })
    }

    /// Goes on with what this makes of its ports.
    pub fn change_ports<E>(&mut self, change: impl FnOnce(Ports) -> Result<Ports, E>) -> Result<(), E> {
        self.ports = change(self.ports.clone())?;
        self.client = Client::new(self.ports.clone(), Arc::clone(&self.registry));
        Ok(())
    }

    /// An engine that calls itself this.
    pub fn engine(&self, me: &str) -> Result<Engine, PlaceError> {
        let rules = Rules { lease: LEASE, acquires_max: ACQUIRES_MAX, ..Rules::default() };
        let settings = Settings { worker: WorkerId::new(me)?, rules };
        Ok(Engine::new(self.ports.clone(), Arc::clone(&self.registry), settings)?)
    }

    /// Starts a run.
    pub async fn start<T: Serialize>(
        &self,
        workflow: &str,
        input: &T,
        key: Option<String>,
    ) -> Result<Started, PlaceError> {
        let request = StartRequest { workflow: WorkflowName::new(workflow)?, input: Json::of(input)?, key };
        Ok(self.client.start(request).await?)
    }

    /// Starts this many runs that ask the outside once a step, for this many steps.
    pub async fn start_askers(&self, runs: u64, steps: u64) -> Result<Vec<RunId>, PlaceError> {
        let mut started = Vec::new();
        for number in 0..runs {
            started.push(self.start("asker", &Questions { steps, number }, None).await?.run);
        }
        Ok(started)
    }

    /// Every run there is, as it stands.
    pub async fn runs(&self) -> Result<Vec<Checkpoint>, PlaceError> {
        let mut query = ListQuery { limit: PAGE_MAX, ..ListQuery::default() };
        let mut runs = Vec::new();
        loop {
            let page = self.client.list(&query).await?;
            for summary in &page.items {
                runs.push(self.client.get(&summary.run).await?);
            }
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(runs),
            }
        }
    }

    /// These runs, as they stand.
    pub async fn look(&self, runs: &[RunId]) -> Result<Vec<Checkpoint>, PlaceError> {
        let mut found = Vec::with_capacity(runs.len());
        for run in runs {
            found.push(self.client.get(run).await?);
        }
        Ok(found)
    }
}
