//! One emulator: a program and all that it starts.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use tempfile::TempDir;

/// How long an emulator may take to come up. `LocalStack` takes three seconds of an idle machine.
const START_MAX: Duration = Duration::from_mins(1);

/// Runs the program until it ends or the guard's input is closed, and kills the whole process group then. So an emulator
/// and the functions that it has started end with this process, however that ends.
const GUARD: &str = r#"("$@" </dev/null; kill -KILL 0) & cat >/dev/null; kill -KILL 0"#;

/// What an emulator has said last, in the report of one that does not come up: bytes.
const LAST_WORDS_MAX: usize = 4_000;

/// An emulator in a folder of its own. It and all that it has started are killed when this is dropped.
pub(crate) struct Emulator {
    guard: Child,
    log: PathBuf,
    _dir: TempDir,
}

/// How to start one.
pub(crate) struct Start<'a> {
    /// The program.
    pub(crate) program: &'a OsStr,
    /// Its arguments.
    pub(crate) arguments: Vec<String>,
    /// Its environment, besides a path, a home and made-up credentials.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// Where it will listen.
    pub(crate) port: u16,
    /// What answers once it is ready; `None`: it is as soon as it listens.
    pub(crate) health: Option<&'static str>,
}

impl Emulator {
    /// Starts it, and waits until it is ready.
    pub(crate) fn start(start: &Start<'_>) -> Self {
        let name = start.program.display();
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let output = File::create(&log).unwrap();
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(start.program)
            .args(&start.arguments)
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", dir.path())
            .env("TMPDIR", dir.path())
            .envs(credentials())
            .envs(start.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(dir.path())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut emulator = Self { guard, log, _dir: dir };
        let begun = Instant::now();
        while !is_ready(start) {
            let ended = emulator.guard.try_wait().unwrap().is_some();
            assert!(!ended, "{name} has ended: {}", emulator.last_words());
            assert!(
                begun.elapsed() < START_MAX,
                "{name} is not ready on port {}: {}",
                start.port,
                emulator.last_words()
            );
            thread::sleep(Duration::from_millis(20));
        }
        emulator
    }

    fn last_words(&self) -> String {
        let said = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&said[said.len().saturating_sub(LAST_WORDS_MAX)..]).into_owned()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// A port that is free, or this one, where it is.
pub(crate) fn free_port(wanted: u16) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", wanted)).unwrap_or_else(|error| panic!("port {wanted}: {error}"));
    listener.local_addr().unwrap().port()
}

/// Made up: no emulator asks for others.
pub(crate) fn credentials() -> [(&'static str, &'static str); 3] {
    [("AWS_REGION", "us-east-1"), ("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")]
}

fn is_ready(start: &Start<'_>) -> bool {
    match start.health {
        None => TcpStream::connect(("127.0.0.1", start.port)).is_ok(),
        Some(path) => status(start.port, path).is_ok_and(|line| line.starts_with("HTTP/1.") && line.ends_with(" 200")),
    }
}

/// The beginning of the status line that answers there.
fn status(port: u16, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n")?;
    let mut line = [0; "HTTP/1.1 200".len()];
    stream.read_exact(&mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}
