//! The outside of the story: it acts, answers, can be asked, and keeps a ledger of every key. What it knows is the truth.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use stepwell_core::RunId;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::errand::now_ms;

/// The outside acts and answers within this much time, mostly in much less.
const PAUSE_MAX: Duration = Duration::from_millis(160);

/// What the outside does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// Only answers.
    Read,
    /// Acts once a key.
    Idempotent,
    /// Acts once a key, to take back.
    Release,
    /// Acts each time, and can be asked.
    Reconcilable,
    /// Acts each time.
    Once,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Idempotent, Self::Release, Self::Reconcilable, Self::Once];

    /// The word for it, in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Idempotent => "idempotent",
            Self::Release => "idempotent, taking back",
            Self::Reconcilable => "reconcilable",
            Self::Once => "once",
        }
    }

    const fn is_deduped(self) -> bool {
        match self {
            Self::Idempotent | Self::Release => true,
            Self::Read | Self::Reconcilable | Self::Once => false,
        }
    }
}

/// What is said to the outside, one JSON a line and connection. It answers with a number, or with `null`: not known.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Word {
    /// A call.
    Act {
        /// What it is to do.
        kind: Kind,
        /// Which worker calls.
        from: String,
        /// For which run.
        run: RunId,
        /// The call's parameter.
        number: u64,
        /// Under which key.
        key: String,
        /// When the caller gives up waiting, in milliseconds since 1970.
        until: u64,
    },
    /// Whether a key has happened.
    Ask {
        /// Which.
        key: String,
    },
}

/// What the outside has done under one key.
#[derive(Clone, Debug)]
pub struct Line {
    /// What it was to do.
    pub kind: Kind,
    /// For which run.
    pub run: RunId,
    /// With which parameter.
    pub number: u64,
    /// How often it was called.
    pub calls: u64,
    /// How often it has acted.
    pub acts: u64,
    /// What it has answered: the same each time.
    pub answer: u64,
}

/// What the outside knows.
#[derive(Default)]
pub struct Book {
    lines: BTreeMap<String, Line>,
    /// What must never happen, in words.
    pub violations: Vec<String>,
    /// Questions whether something has happened.
    pub asks: u64,
    /// Calls that came when their caller had given up waiting for them.
    pub late: u64,
    rng: fastrand::Rng,
}

impl Book {
    /// What was done under this key.
    pub fn line(&self, key: &str) -> Option<&Line> {
        self.lines.get(key)
    }

    /// All that was done, by key.
    pub fn lines(&self) -> impl Iterator<Item = (&String, &Line)> {
        self.lines.iter()
    }

    fn hear(&mut self, word: Word) -> Option<u64> {
        let (kind, from, run, number, key, until) = match word {
            Word::Ask { key } => {
                self.asks += 1;
                return self.lines.get(&key).filter(|line| line.acts > 0).map(|line| line.answer);
            }
            Word::Act { kind, from, run, number, key, until } => (kind, from, run, number, key, until),
        };
        self.late += u64::from(now_ms() > until);
        let answer = self.rng.u64(..);
        let fresh = Line { kind, run: run.clone(), number, calls: 0, acts: 0, answer };
        let line = self.lines.entry(key).or_insert(fresh);
        if (line.kind, &line.run, line.number) != (kind, &run, number) {
            let Line { kind: other, run: of, number: with, .. } = line;
            let violation = format!(
                "run {run}: {from} calls {kind:?} with {number} under the key of {other:?} of run {of} with {with}"
            );
            self.violations.push(violation);
        }
        line.calls += 1;
        if line.acts == 0 || !kind.is_deduped() {
            line.acts += 1;
        }
        if line.acts > 1 && matches!(kind, Kind::Reconcilable | Kind::Once) {
            self.violations.push(format!("run {run}: {kind:?} has happened {} times, the last by {from}", line.acts));
        }
        Some(line.answer)
    }
}

/// The server. Ends when it is dropped.
pub struct Ledger {
    address: SocketAddr,
    book: Arc<Mutex<Book>>,
    serving: JoinHandle<()>,
}

impl Ledger {
    /// Listens on loopback, on any port.
    ///
    /// # Errors
    /// Those of the network.
    pub async fn listen(seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let book = Book { rng: fastrand::Rng::with_seed(seed), ..Book::default() };
        let book = Arc::new(Mutex::new(book));
        let shared = Arc::clone(&book);
        let serving = tokio::spawn(async move {
            loop {
                if let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(serve(stream, Arc::clone(&shared)));
                }
            }
        });
        Ok(Self { address, book, serving })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it knows, now.
    pub fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(stream: TcpStream, book: Arc<Mutex<Book>>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    // A line that was cut off was never said.
    if !line.ends_with('\n') {
        return Ok(());
    }
    let word: Word = serde_json::from_str(&line)?;
    let half = PAUSE_MAX.mul_f64(lock(&book).rng.f64().powi(3)) / 2;
    tokio::time::sleep(half).await;
    let answer = lock(&book).hear(word);
    tokio::time::sleep(half).await;
    stream.write_all((serde_json::to_string(&answer)? + "\n").as_bytes()).await
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}
