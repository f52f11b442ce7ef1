//! The embedded backend, opened: what the engine needs from it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell::Registry;
use stepwell_core::Timestamp;
use stepwell_engine::{Client, Engine, Ports, Settings};
use stepwell_local::{Local, Options};
use stepwell_ports::Clock as _;
use stepwell_ports::system::{SystemClock, SystemIds};

use crate::args::Cli;
use crate::errors::CliError;

/// Where runs are when nobody says otherwise.
const DEFAULT_FOLDER: &str = ".stepwell";

/// A folder of runs.
pub(crate) struct Backend {
    local: Local,
    ports: Ports,
}

impl Backend {
    /// Opens a folder, or makes a new one.
    pub(crate) fn open(dir: &Path) -> Result<Self, CliError> {
        Self::open_with(dir, Options::default())
    }

    /// Opens a folder that is there: whoever asks about runs did not mean to make a new one.
    pub(crate) fn open_existing(cli: &Cli) -> Result<Self, CliError> {
        Self::open_with(&folder(cli), Options { create: false, ..Options::default() })
    }

    fn open_with(dir: &Path, options: Options) -> Result<Self, CliError> {
        let clock = Arc::new(SystemClock);
        let local = Local::open(dir, Arc::clone(&clock) as _, options)?;
        let ports =
            Ports { store: local.store(), queue: local.queue(), blobs: local.blobs(), clock, ids: Arc::new(SystemIds) };
        Ok(Self { local, ports })
    }

    pub(crate) fn local(&self) -> &Local {
        &self.local
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.ports
    }

    pub(crate) fn client(&self, registry: Registry) -> Client {
        Client::new(self.ports.clone(), Arc::new(registry))
    }

    pub(crate) fn engine(&self, registry: Registry, settings: Settings) -> Result<Engine, CliError> {
        Ok(Engine::new(self.ports.clone(), Arc::new(registry), settings)?)
    }
}

/// The folder that a command works on.
pub(crate) fn folder(cli: &Cli) -> PathBuf {
    cli.data.clone().unwrap_or_else(|| DEFAULT_FOLDER.into())
}

pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}
