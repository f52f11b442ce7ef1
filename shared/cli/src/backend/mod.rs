//! Where runs are: in a folder on this machine, or in a stack on AWS. What the engine needs from it, so that no command
//! knows which one it has.

mod folder;
#[cfg(feature = "aws")]
mod stack;
#[cfg(not(feature = "aws"))]
#[path = "no_stack.rs"]
mod stack;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stepwell::Registry;
use stepwell_core::Timestamp;
use stepwell_engine::{Client, Engine, Ports, Settings};
use stepwell_local::{DeadLetter, Local};
use stepwell_ports::Clock as _;
use stepwell_ports::system::SystemClock;

use crate::args::Cli;
use crate::errors::CliError;
use crate::view::Finding;

/// A place with runs, opened.
pub(crate) struct Backend {
    ports: Ports,
    /// Where it is, for people.
    place: String,
    /// Who moves its runs, for people.
    mover: String,
    /// What a command of a hint needs, to mean this place.
    flag: &'static str,
    /// How long one request for messages may wait.
    poll: Duration,
    /// Between two looks at a run that somebody waits for.
    look: Duration,
    /// What keeps the dead letters, or why they cannot be shown.
    letters: Result<Local, String>,
}

impl Backend {
    /// Opens it, or makes a new folder.
    pub(crate) async fn open(cli: &Cli) -> Result<Self, CliError> {
        if cli.aws { stack::open().await } else { folder::open(&folder::of(cli)) }
    }

    /// Opens what is there: whoever asks about runs did not mean to make a new folder.
    pub(crate) async fn open_existing(cli: &Cli) -> Result<Self, CliError> {
        if cli.aws { stack::open().await } else { folder::open_existing(&folder::of(cli)) }
    }

    /// Opens a folder, or makes a new one, whatever the arguments say.
    pub(crate) fn in_folder(dir: &Path) -> Result<Self, CliError> {
        folder::open(dir)
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn mover(&self) -> &str {
        &self.mover
    }

    pub(crate) const fn flag(&self) -> &'static str {
        self.flag
    }

    pub(crate) const fn poll(&self) -> Duration {
        self.poll
    }

    pub(crate) const fn look(&self) -> Duration {
        self.look
    }

    pub(crate) const fn ports(&self) -> &Ports {
        &self.ports
    }

    pub(crate) fn client(&self, registry: Registry) -> Client {
        Client::new(self.ports.clone(), Arc::new(registry))
    }

    pub(crate) fn engine(&self, registry: Registry, settings: Settings) -> Result<Engine, CliError> {
        Ok(Engine::new(self.ports.clone(), Arc::new(registry), settings)?)
    }

    /// The messages that were given up last.
    pub(crate) fn dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, CliError> {
        match &self.letters {
            Ok(local) => Ok(local.dead_letters(limit)?),
            Err(why) => Err(CliError::NoLetters(why.clone())),
        }
    }
}

/// Refuses `--aws` where this program cannot know what that is.
pub(crate) fn check(cli: &Cli) -> Result<(), CliError> {
    if cli.aws { stack::check() } else { Ok(()) }
}

/// Looks whether runs can be worked on there.
pub(crate) async fn examine(cli: &Cli) -> Result<Vec<Finding>, CliError> {
    if cli.aws { stack::examine().await } else { folder::examine(&folder::of(cli)).await }
}

pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}
