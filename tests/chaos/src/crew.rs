//! Workers, each a process of its own, and the runs that they work on.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use stepwell_core::{Checkpoint, Payload, RunId, Status};

use crate::place::{Place, PlaceError};
use crate::process::Process;

/// Workers at a time.
pub const WORKERS: usize = 2;

/// When nothing moves for so long, something is stuck.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The workers. Each has a name that none had before, so that leases and questions tell which process they are of.
pub struct Crew {
    program: &'static str,
    dir: PathBuf,
    outside: SocketAddr,
    working: BTreeMap<String, Process>,
    hired: u32,
    killed: u32,
}

impl Crew {
    /// Starts [`WORKERS`] of them on a folder.
    ///
    /// # Errors
    /// Where they cannot be started.
    pub fn hire(program: &'static str, dir: &Path, outside: SocketAddr) -> io::Result<Self> {
        let mut crew = Self { program, dir: dir.to_path_buf(), outside, working: BTreeMap::new(), hired: 0, killed: 0 };
        (0..WORKERS).try_for_each(|_| crew.hire_one())?;
        Ok(crew)
    }

    /// Starts one more.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn hire_one(&mut self) -> io::Result<()> {
        self.hired += 1;
        let name = format!("w-{}", self.hired);
        let worker = self.start(&["work", &name])?;
        self.working.insert(name, worker);
        Ok(())
    }

    /// Starts the program on the crew's folder and outside, with one more argument or more.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(&self, arguments: &[&str]) -> io::Result<Process> {
        Process::start(self.program, &self.arguments(arguments), &self.dir.join("said"))
    }

    fn arguments(&self, arguments: &[&str]) -> Vec<String> {
        let (dir, outside) = (self.dir.display().to_string(), self.outside.to_string());
        let (what, rest) = arguments.split_at(1.min(arguments.len()));
        let words = what.iter().copied().chain([&*dir, &*outside]).chain(rest.iter().copied());
        words.map(str::to_owned).collect()
    }

    /// Kills one of them, and says which.
    ///
    /// # Errors
    /// When it was dead already: a worker never ends by itself.
    pub fn kill(&mut self, which: usize) -> io::Result<String> {
        let nobody = || io::Error::other("there is no such worker");
        let name = self.working.keys().nth(which).cloned().ok_or_else(nobody)?;
        let mut worker = self.working.remove(&name).ok_or_else(nobody)?;
        let ended = || io::Error::other(format!("{name} ended by itself; the processes said:\n{}", self.said()));
        worker.kill()?.ok_or_else(ended)?;
        self.killed += 1;
        Ok(name)
    }

    /// One of them, with its name.
    pub fn worker(&self, which: usize) -> Option<(&str, &Process)> {
        self.working.iter().nth(which).map(|(name, worker)| (name.as_str(), worker))
    }

    /// Killed so far.
    pub fn killed(&self) -> u32 {
        self.killed
    }

    /// What all processes have said on stderr.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.dir.join("said")).unwrap_or_default()
    }
}

/// Whether this worker has the run's lease.
pub fn is_held_by(run: &Checkpoint, worker: &str) -> bool {
    run.hold.lease.as_ref().is_some_and(|lease| lease.owner.as_str() == worker)
}

/// The result of a run that has completed.
pub fn result<T: DeserializeOwned>(run: &Checkpoint) -> Option<T> {
    match &run.progress.status {
        Status::Completed { output: Payload::Inline(json), .. } => json.parse().ok(),
        _ => None,
    }
}

/// Waits until these runs have ended, or nothing has moved for too long: then as they stand.
///
/// # Errors
/// Where they cannot be looked at.
pub async fn wait_for_ends(place: &Place, runs: &[RunId]) -> Result<Vec<Checkpoint>, PlaceError> {
    let (mut revisions, mut since) = (0, Instant::now());
    loop {
        let found = place.look(runs).await?;
        if found.iter().all(|run| run.progress.status.phase().is_ended()) || since.elapsed() > PATIENCE {
            return Ok(found);
        }
        let now: u64 = found.iter().map(|run| run.progress.revision.0).sum();
        if now != revisions {
            (revisions, since) = (now, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
