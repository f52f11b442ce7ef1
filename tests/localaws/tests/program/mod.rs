//! The program `stepwell`, built with AWS, on the emulators' stack. Whatever is started here is gone with its value.

// Each test file uses its own part of this.
#![allow(dead_code, clippy::unwrap_used, clippy::panic, reason = "a helper of tests: its panic is the report")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::Value;
use stepwell_aws::{AwsSettings, BUCKET_VARIABLE, DEAD_LETTER_VARIABLE, QUEUE_VARIABLE, TABLE_VARIABLE};
use stepwell_localaws::Emulators;

/// Nothing here takes longer, on a slow and busy machine either.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The one that `STEPWELL_CLI` names, or one that is built here. A copy: another build puts one without AWS in its place.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| env::var_os("STEPWELL_CLI").map_or_else(build, PathBuf::from));

fn build() -> PathBuf {
    let cargo = Command::new(env!("CARGO"))
        .args(["build", "-q", "-p", "stepwell-cli", "--features", "aws", "--bin", "stepwell"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(cargo.status.success(), "the program could not be built");
    let messages = String::from_utf8(cargo.stdout).unwrap();
    let mut messages = messages.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let built = messages.find_map(|message| message["executable"].as_str().map(PathBuf::from)).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME"));
    fs::create_dir_all(&folder).unwrap();
    let (copy, fresh) = (folder.join("stepwell"), folder.join(format!("fresh-{}", std::process::id())));
    fs::copy(&built, &fresh).unwrap();
    fs::rename(&fresh, &copy).unwrap();
    copy
}

/// What a command has said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for words in words {
            assert!(self.stderr.contains(words), "{words:?} is missing: {self:?}");
        }
    }
}

/// A command, with the environment of these emulators and nothing else that it would listen to.
pub(crate) fn command(emulators: &Emulators, args: &[&str]) -> Command {
    let mut command = Command::new(&*PROGRAM);
    command.args(args).arg("--aws").env_clear().env("USER", "ada").current_dir(env!("CARGO_TARGET_TMPDIR"));
    command.envs(emulators.environment()).env("AWS_EC2_METADATA_DISABLED", "true");
    command
}

/// The variables that name a stack.
pub(crate) fn variables(settings: &AwsSettings) -> [(&'static str, &str); 4] {
    let AwsSettings { table, queue_url, dead_letter_url, bucket, kms_key: _ } = settings;
    [
        (TABLE_VARIABLE, table),
        (QUEUE_VARIABLE, queue_url),
        (DEAD_LETTER_VARIABLE, dead_letter_url),
        (BUCKET_VARIABLE, bucket),
    ]
}

/// Runs a command to its end.
pub(crate) fn run(mut command: Command) -> Ran {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// A worker that is ready. Killed when it is dropped.
pub(crate) struct Worker {
    child: Child,
    log: Option<thread::JoinHandle<String>>,
}

impl Worker {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut log = String::new();
        while !log.contains("is ready") {
            assert_ne!(stderr.read_line(&mut log).unwrap(), 0, "it has ended: {log}");
        }
        let log = thread::spawn(move || {
            let _ = stderr.read_to_string(&mut log);
            log
        });
        Self { child, log: Some(log) }
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.child.id())]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ran {
        let status = self.wait();
        let mut stdout = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        Ran { code: status.code(), stdout, stderr: self.log.take().unwrap().join().unwrap() }
    }

    fn wait(&mut self) -> ExitStatus {
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(since.elapsed() < PATIENCE, "the worker does not end");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
