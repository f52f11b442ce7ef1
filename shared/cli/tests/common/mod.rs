//! The real program, run in a folder of its own. Whatever is started here is gone when the test is over.

// Each test file uses its own part of this; a surprise in it should stop the test.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

pub(crate) mod http;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use stepwell_core::decide::{self, Moment, Rules, StepEnd, StepOutcome};
use stepwell_core::write::{Acquire, LogAppend, Write as StoreWrite, WriteRequest};
use stepwell_core::{EffectRecord, Json, Lease, LogId, ParkReason, RunId, Ticket, Usage, WorkerId, WriteId};
use stepwell_local::{Local, Options};
use stepwell_ports::system::SystemClock;
use stepwell_ports::{Clock, Written};
use tempfile::TempDir;

/// Nothing here takes longer, on a slow and busy machine either.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(20);

/// A folder of runs, and the program that works on it.
pub(crate) struct Stepwell {
    dir: TempDir,
}

/// What a command has said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Stepwell {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Made by the program when it needs it.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A file beside the data.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let file = self.dir.path().join(name);
        std::fs::write(&file, content).unwrap();
        file
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = program(self.dir.path());
        command.args(args).arg("--data").arg(self.data());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        finish(self.command(args), "")
    }

    pub(crate) fn run_with_stdin(&self, args: &[&str], stdin: &str) -> Ran {
        finish(self.command(args), stdin)
    }

    /// Runs a command that must succeed, and reads its JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let ran = finish(self.command(&[args, &["--json"]].concat()), "");
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran.json()
    }

    /// Starts a worker, and returns when it says that it is ready.
    pub(crate) fn worker(&self, args: &[&str]) -> Service {
        let mut command = self.command(&["worker", "--lease", "2s", "--stop-with-stdin"]);
        command.args(args);
        Service::start(command)
    }

    /// Looks at a run until it stands so.
    pub(crate) fn wait_for(&self, run: &str, status: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let shown = self.json(&["show", run, "--history"]);
            if shown["status"] == status {
                return shown;
            }
            assert!(Instant::now() < end, "run {run} is not {status}: {shown}");
            thread::sleep(LOOK);
        }
    }

    /// Starts a run and tells its id.
    pub(crate) fn start(&self, args: &[&str]) -> String {
        self.json(&[&["start"], args].concat())["run"].as_str().unwrap().to_owned()
    }
}

impl Ran {
    /// The one JSON value on stdout.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "one line of JSON: {self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Makes sure that a command has failed so, and says this to a person.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for words in words {
            assert!(self.stderr.contains(words), "{words:?} is missing: {self:?}");
        }
        assert!(!self.stderr.contains("panicked"), "{self:?}");
    }
}

/// The program with nothing of this environment that it would listen to.
pub(crate) fn program(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepwell"));
    for setting in [
        "STEPWELL_DATA",
        "STEPWELL_LOG",
        "STEPWELL_VENDORS_URL",
        "STEPWELL_MAIL_URL",
        "STEPWELL_SHOP_URL",
        "STEPWELL_LINK_KEYS",
    ] {
        command.env_remove(setting);
    }
    command.current_dir(dir).env("TMPDIR", dir).env("USER", "ada");
    command
}

/// Runs a command to its end, at most [`PATIENCE`].
pub(crate) fn finish(mut command: Command, stdin: &str) -> Ran {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut running = Running(child);
    let (stdout, stderr) = (drain(running.0.stdout.take().unwrap()), drain(running.0.stderr.take().unwrap()));
    // A command that does not read it may have ended already.
    let _ = running.0.stdin.take().unwrap().write_all(stdin.as_bytes());
    let status = running.wait();
    Ran { code: status.code(), stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// A process that goes on: a worker, or the outside.
pub(crate) struct Service {
    running: Running,
    lines: Receiver<String>,
    stdout: Option<JoinHandle<String>>,
    /// The line in which it said that it is ready.
    pub(crate) ready: String,
}

impl Service {
    pub(crate) fn start(command: Command) -> Self {
        Self::start_until(command, "ready")
    }

    /// Starts it, and returns when it says this.
    pub(crate) fn start_until(mut command: Command, words: &str) -> Self {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut running = Running(child);
        let stdout = Some(drain(running.0.stdout.take().unwrap()));
        let stderr = BufReader::new(running.0.stderr.take().unwrap());
        let (send, lines) = channel();
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        let mut service = Self { running, lines, stdout, ready: String::new() };
        service.ready = service.says(words);
        service
    }

    /// The next line on stderr that holds this.
    pub(crate) fn says(&self, words: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|error| panic!("it never said {words:?}: {error}"));
            if line.contains(words) {
                return line;
            }
        }
    }

    /// Sends it a signal, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.running.0.id().to_string();
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn close_stdin(&mut self) {
        drop(self.running.0.stdin.take());
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ran {
        let status = self.running.wait();
        let stdout = self.stdout.take().unwrap().join().unwrap();
        Ran { code: status.code(), stdout, stderr: self.lines.iter().collect::<Vec<_>>().join("\n") }
    }
}

/// A child that does not outlive its test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the program does not end");
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn drain(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    })
}

/// `@file`, as an argument.
pub(crate) fn at(file: &Path) -> String {
    format!("@{}", file.display())
}

/// The names in a folder.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> = std::fs::read_dir(dir).unwrap().map(name).map(|name| text(&name)).collect();
    names.sort();
    names
}

fn text(name: &OsStr) -> String {
    name.to_str().unwrap().to_owned()
}

/// Opens the folder as another process would.
pub(crate) fn with_local<T>(stepwell: &Stepwell, work: impl AsyncFnOnce(Local) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = Local::open(&stepwell.data(), Arc::new(SystemClock), Options::default()).unwrap();
    runtime.block_on(work(local))
}

/// Parks a run that was just started, as the engine does: its first step has ended so, and has left these effects. Its
/// first log has these entries.
pub(crate) fn park(stepwell: &Stepwell, run: &str, reason: ParkReason, effects: Vec<EffectRecord>, entries: Vec<Json>) {
    let run = RunId::new(run).unwrap();
    with_local(stepwell, async |local| {
        let now = SystemClock.now();
        let write = async |id, write| {
            let request = WriteRequest { run: run.clone(), id: WriteId(id), now, write };
            let Written::Applied(held) = local.store().write(&request).await.unwrap() else { panic!("refused") };
            held
        };
        let lease =
            Lease { owner: WorkerId::new("tester").unwrap(), since: now, until: now.plus(Duration::from_secs(9)) };
        let held = write(1, StoreWrite::Acquire(Acquire { ticket: Ticket(1), lease })).await;
        let end = StepEnd {
            step: "begin".into(),
            version: 1,
            outcome: StepOutcome::Park { reason },
            consumed: Vec::new(),
            used: Usage::default(),
            effects,
            appends: Vec::new(),
            logs: held.progress.logs,
            took: Duration::ZERO,
            note: None,
            back: None,
        };
        let moment = Moment { now, random: 0 };
        let mut commit = decide::commit(&held, end, Rules::default(), moment, false).unwrap().commit;
        commit.progress.logs = 1;
        commit.appends = vec![LogAppend { log: LogId(0), first: 0, entries }];
        write(2, StoreWrite::Commit(Box::new(commit))).await;
    });
}
