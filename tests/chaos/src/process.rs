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

    /// Starts it so that a file that may not grow is an error of its write, as a full disk is, and not the end of the process. Hands
    /// out what it says on stdout.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start_hardened(
        program: &str,
        arguments: &[String],
        environment: &[(String, String)],
        log: &Path,
    ) -> io::Result<(Self, ChildStdout)> {
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#, program]).envs(environment.iter().map(|(k, v)| (k, v)));
        let mut process = Self::spawn_command(shell, arguments, log, Stdio::piped())?;
        let stdout = process.child.stdout.take().ok_or_else(|| io::Error::other("no stdout"))?;
        Ok((process, stdout))
    }

    fn spawn(program: &str, arguments: &[impl AsRef<OsStr>], log: &Path, stdout: Stdio) -> io::Result<Self> {
        Self::spawn_command(Command::new(program), arguments, log, stdout)
    }

    fn spawn_command(
        mut command: Command,
        arguments: &[impl AsRef<OsStr>],
        log: &Path,
        stdout: Stdio,
    ) -> io::Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(log)?;
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

    /// Stops it for so long. Who lets it go on is a process of its own, which does so even when we are gone by then.
    ///
    /// # Errors
    /// Those of the system.
    pub fn pause_for(&self, time: Duration) -> io::Result<Thaw> {
        let (time, process) = (time.as_secs_f64(), self.child.id());
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("sleep {time:.3}; kill -CONT {process}")])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let thaw = Thaw(shell.spawn()?);
        self.pause()?;
        Ok(thaw)
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    /// Those of the system.
    pub fn resume(&self) -> io::Result<()> {
        self.signal("CONT")
    }

    /// Lets no file that it writes grow over this many bytes; `None`: over any.
    ///
    /// # Errors
    /// Those of the system, and where it has no `prlimit`.
    pub fn limit_files(&self, bytes: Option<u64>) -> io::Result<()> {
        let limit = bytes.map_or_else(|| "unlimited".to_owned(), |bytes| bytes.to_string());
        let (process, limit) = (format!("--pid={}", self.child.id()), format!("--fsize={limit}:unlimited"));
        let set = Command::new("prlimit").args([process, limit]).status()?;
        set.success().then_some(()).ok_or_else(|| io::Error::other(format!("the limit was not set: {set}")))
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

/// Lets a process go on when its time has come. Dropped, it no longer does.
pub struct Thaw(Child);

impl Thaw {
    /// Whether it has done so.
    pub fn is_over(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|ended| ended.is_some())
    }
}

impl Drop for Thaw {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
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
