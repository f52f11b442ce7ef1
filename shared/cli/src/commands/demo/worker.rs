//! The demo's worker: another process of this very program.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use stepwell_samples::Outside;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::errors::CliError;

/// Short, so that a killed worker is soon followed by another.
const LEASE: &str = "2s";

/// How long a worker that was asked to stop may take. It has nothing to do any more.
const STOP_WITHIN: Duration = Duration::from_secs(10);

pub(super) struct WorkerProcess {
    folder: PathBuf,
    outside: Outside,
    child: Child,
}

impl WorkerProcess {
    /// Starts one. It stops by itself when this process is gone, however that ends: its stdin is then closed.
    pub(super) fn start(folder: &Path, outside: &Outside) -> Result<Self, CliError> {
        let child = spawn(folder, outside)?;
        Ok(Self { folder: folder.to_path_buf(), outside: outside.clone(), child })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    pub(super) fn log(&self) -> PathBuf {
        log(&self.folder)
    }

    /// Makes sure that it is still there.
    pub(super) fn check(&mut self) -> Result<(), CliError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.went_wrong(&format!("the worker has ended by itself ({status})"))),
            Err(source) => Err(CliError::System { doing: "look after the worker".into(), source }),
        }
    }

    /// Kills it as a machine that fails does: without a word. Another one takes its place.
    pub(super) async fn kill_and_replace(&mut self) -> Result<(), CliError> {
        self.child.kill().await.map_err(|source| CliError::System { doing: "kill the worker".into(), source })?;
        self.child = spawn(&self.folder, &self.outside)?;
        Ok(())
    }

    /// Asks it to stop, and waits until it has.
    pub(super) async fn stop(mut self) -> Result<(), CliError> {
        drop(self.child.stdin.take());
        match timeout(STOP_WITHIN, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(self.went_wrong(&format!("the worker did not stop well ({status})"))),
            Ok(Err(source)) => Err(CliError::System { doing: "wait for the worker".into(), source }),
            Err(_) => Err(self.went_wrong(&format!("the worker did not stop within {STOP_WITHIN:?}"))),
        }
    }

    fn went_wrong(&self, what: &str) -> CliError {
        CliError::Demo(format!("{what}; its log is {}", self.log().display()))
    }
}

fn log(folder: &Path) -> PathBuf {
    folder.join("worker.log")
}

fn spawn(folder: &Path, outside: &Outside) -> Result<Child, CliError> {
    let failed = |doing: &str| {
        let doing = doing.to_owned();
        move |source| CliError::System { doing, source }
    };
    let program = std::env::current_exe().map_err(failed("find this program"))?;
    let log = File::options().create(true).append(true).open(log(folder)).map_err(failed("write the worker's log"))?;
    let same_log = log.try_clone().map_err(failed("write the worker's log"))?;
    Command::new(program)
        .arg("worker")
        .arg("--data")
        .arg(folder)
        .args(["--lease", LEASE, "--stop-with-stdin"])
        .args(["--vendors-url", &outside.vendors_url, "--mail-url", &outside.mail_url, "--shop-url", &outside.shop_url])
        .stdin(Stdio::piped())
        .stdout(log)
        .stderr(same_log)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed("start a worker"))
}
