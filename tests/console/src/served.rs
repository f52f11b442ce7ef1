use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use tempfile::TempDir;

/// How long it may take to come up.
const START_MAX: Duration = Duration::from_secs(30);

/// Runs the program until it ends or the guard's input is closed, and kills the whole process group then. So the program
/// and all that it has started end with this process, however that ends.
pub const GUARD: &str = r#"("$@" </dev/null; kill -KILL 0) & cat >/dev/null; kill -KILL 0"#;

/// What it has said last, in a report on it: bytes.
const LAST_WORDS_MAX: usize = 4_000;

/// A program that serves HTTP on loopback, in a folder of its own. It and all that it has started are killed when this is dropped.
#[derive(Debug)]
pub struct Served {
    /// Where it is, such as `http://127.0.0.1:4711`.
    pub url: String,
    guard: Child,
    log: PathBuf,
    dir: TempDir,
}

impl Served {
    /// Starts `program` with these words and this environment, and waits until `GET health` on this port answers 200.
    ///
    /// # Panics
    /// Where it cannot be started, ends, or is not ready in half a minute.
    pub fn start(program: &Path, words: &[&str], environment: &[(&str, &str)], port: u16, health: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let log = dir.path().join("log");
        let output = File::create(&log).expect("a log");
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(program)
            .args(words)
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", dir.path())
            .env("USER", "ada")
            .envs(environment.iter().copied())
            .current_dir(dir.path())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut served = Self { url: format!("http://127.0.0.1:{port}"), guard, log, dir };
        let begun = Instant::now();
        while !answers(port, health).unwrap_or(false) {
            let ended = served.guard.try_wait().expect("its state").is_some();
            assert!(!ended, "{} has ended: {}", program.display(), served.last_words());
            let late = begun.elapsed() > START_MAX;
            assert!(!late, "{} does not answer on port {port}: {}", program.display(), served.last_words());
            thread::sleep(Duration::from_millis(50));
        }
        served
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// All that it has said.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The end of what it has said.
    pub fn last_words(&self) -> String {
        let said = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(said.get(said.len().saturating_sub(LAST_WORDS_MAX)..).unwrap_or_default()).into_owned()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // It is gone in either case.
        let _ = self.guard.wait();
    }
}

/// A port that nobody listens on right now.
///
/// # Panics
/// Where there is none.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("its address").port()
}

/// A program of this workspace, where `cargo build` has put it.
///
/// # Panics
/// Where it is not there.
pub fn program(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let program = target.join("debug").join(name);
    program.canonicalize().unwrap_or_else(|error| panic!("{}: {error}; build it first", program.display()))
}

/// Whether a request there is answered with 200.
fn answers(port: u16, path: &str) -> io::Result<bool> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n")?;
    let mut line = [0; "HTTP/1.1 200".len()];
    stream.read_exact(&mut line)?;
    Ok(line.ends_with(b" 200"))
}
