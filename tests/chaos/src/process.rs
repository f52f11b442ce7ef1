//! Processes that are there to be killed.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A process. Killed when it is dropped, and when the process that started it ends in any way.
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts it. What it says on stderr is appended to a file.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(program: &str, arguments: &[impl AsRef<OsStr>], log: &Path) -> io::Result<Self> {
        Self::spawn(program, arguments, log, Stdio::null())
    }

    /// Starts it, and hands out what it says on stdout.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start_talking(
        program: &str,
        arguments: &[impl AsRef<OsStr>],
        log: &Path,
    ) -> io::Result<(Self, ChildStdout)> {
        let mut process = Self::spawn(program, arguments, log, Stdio::piped())?;
        let stdout = process.child.stdout.take().ok_or_else(|| io::Error::other("no stdout"))?;
        Ok((process, stdout))
    }

    fn spawn(program: &str, arguments: &[impl AsRef<OsStr>], log: &Path, stdout: Stdio) -> io::Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(log)?;
        let mut command = Command::new(program);
        // The pipe to its stdin is its sign that we are alive, see `end_with_starter`.
        let child = command.args(arguments).stdin(Stdio::piped()).stdout(stdout).stderr(log).spawn()?;
        Ok(Self { child })
    }

    /// Kills it with SIGKILL. `None` when it had ended by itself.
    ///
    /// # Errors
    /// Those of the system.
    pub fn kill(&mut self) -> io::Result<Option<()>> {
        if self.child.try_wait()?.is_some() {
            return Ok(None);
        }
        self.child.kill()?;
        // It may have ended by itself at the very last moment: only then it has an exit code.
        Ok(self.child.wait()?.code().is_none().then_some(()))
    }

    /// Stops it where it is (SIGSTOP). It does not notice.
    ///
    /// # Errors
    /// Those of the system.
    pub fn pause(&self) -> io::Result<()> {
        self.signal("STOP")
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    /// Those of the system.
    pub fn resume(&self) -> io::Result<()> {
        self.signal("CONT")
    }

    /// The shell's own `kill`: the standard library only knows how to kill for good.
    fn signal(&self, name: &str) -> io::Result<()> {
        let sent = Command::new("sh").arg("-c").arg(format!("kill -{name} {}", self.child.id())).status()?;
        sent.success().then_some(()).ok_or_else(|| io::Error::other(format!("signal {name} was not sent: {sent}")))
    }

    /// How it has ended, if it has.
    ///
    /// # Errors
    /// Those of the system.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits for its own end, at most this long.
    ///
    /// # Errors
    /// When it does not end in time.
    pub fn wait(&mut self, limit: Duration) -> io::Result<ExitStatus> {
        let since = Instant::now();
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if since.elapsed() > limit {
                return Err(io::Error::other(format!("a process did not end within {limit:?}")));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// For the process that was started: ends it when its starter is gone, so that none is left behind whatever happens.
pub fn end_with_starter() {
    thread::spawn(|| {
        let mut ignored = Vec::new();
        let _ = io::stdin().read_to_end(&mut ignored);
        std::process::exit(0);
    });
}
