//! The outside: a small server that acts once a key, is slow now and then, and remembers every word it heard.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use stepwell_core::RunId;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};

use crate::flows::fold;

/// The outside acts and answers within this much time; mostly in much less, now and then in nearly all of it.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// What is said to the outside, one JSON a line and connection. It answers with a number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Word {
    /// A step's effect.
    Ask {
        /// Which worker asks.
        from: String,
        /// For which run.
        run: RunId,
        /// For which of its steps, from 0.
        step: u64,
        /// Under which key.
        key: String,
    },
    /// What a client was answered when it started a run.
    Started {
        /// The caller's key.
        key: String,
        /// The run it got.
        run: RunId,
        /// Whether this request was the one that started it.
        new: bool,
    },
    /// What a client was answered when it sent a signal.
    Sent {
        /// To which run.
        run: RunId,
        /// The signal's part.
        part: u64,
        /// Whether this request was the one that delivered it.
        new: bool,
    },
}

/// Says a word to the outside and waits for its answer.
///
/// # Errors
/// Those of the connection. The word may have been heard.
pub async fn say(outside: SocketAddr, word: &Word) -> io::Result<u64> {
    let mut stream = tokio::net::TcpStream::connect(outside).await?;
    let line = serde_json::to_string(word)? + "\n";
    stream.write_all(line.as_bytes()).await?;
    let mut answer = String::new();
    tokio::io::BufReader::new(stream).read_line(&mut answer).await?;
    answer.trim().parse().map_err(io::Error::other)
}

/// The server. Ends when it is dropped.
pub struct Outside {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    book: Mutex<Book>,
    heard: Condvar,
    ended: AtomicBool,
}

/// What the outside knows.
#[derive(Default)]
pub struct Book {
    /// Questions, those that came again included.
    pub asks: u64,
    /// Questions for a step that was asked for before.
    pub repeats: u64,
    /// Of those, the ones whose earlier asker was not killed: its lease had run out under it.
    pub takeovers: u64,
    /// Questions for a step that had ended, from a worker that had been paused: it was about to ask, and noticed nothing.
    pub late: u64,
    /// What must never happen, in words.
    pub violations: Vec<String>,
    /// What clients said they were answered.
    pub told: Vec<Word>,
    /// What the outside has done, once a key.
    acts: BTreeMap<String, Act>,
    /// Who asked for each step last, and under which key.
    asked: BTreeMap<(RunId, u64), (String, String)>,
    /// Steps of each run below this have ended: their commit was seen.
    floors: BTreeMap<RunId, u64>,
    killed: BTreeSet<String>,
    paused: BTreeSet<String>,
    words: u64,
    rng: fastrand::Rng,
}

struct Act {
    run: RunId,
    step: u64,
    answer: u64,
}

impl Outside {
    /// Listens on loopback, on any port.
    ///
    /// # Errors
    /// Those of the network.
    pub fn listen(seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let book = Book { rng: fastrand::Rng::with_seed(seed), ..Book::default() };
        let shared = Arc::new(Shared { book: Mutex::new(book), heard: Condvar::new(), ended: AtomicBool::new(false) });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().take_while(|_| !serving.ended.load(Ordering::Relaxed)).flatten() {
                let shared = Arc::clone(&serving);
                // A client that dies in the middle is what this is all about.
                thread::spawn(move || shared.serve(&stream));
            }
        });
        Ok(Self { address, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it knows, now.
    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.shared.book()
    }

    /// Waits until it has heard this many words more.
    ///
    /// # Errors
    /// When it does not hear them in time: nobody makes progress.
    pub fn hear(&self, more: u64, limit: Duration) -> io::Result<()> {
        let since = Instant::now();
        let mut book = self.shared.book();
        let until = book.words + more;
        while book.words < until {
            let Some(left) = limit.checked_sub(since.elapsed()) else {
                return Err(io::Error::other(format!("the outside heard nothing more for {limit:?}: nothing moves")));
            };
            let waited = self.shared.heard.wait_timeout(book, left);
            (book, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        // Wakes the listener, which then sees that it is over.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        // A line that was cut off was never said.
        let word: Word = serde_json::from_str(&line)?;
        let answer = if let Word::Ask { from, run, step, key } = word {
            let half = self.book().ask(&from, &run, step, &key) / 2;
            self.heard.notify_all();
            thread::sleep(half);
            let answer = self.book().act(&run, step, key);
            thread::sleep(half);
            answer
        } else {
            self.book().tell(word);
            self.heard.notify_all();
            0
        };
        let mut stream = stream;
        writeln!(stream, "{answer}")
    }
}

impl Book {
    /// Notes a question, and says how long it takes to act on it and answer.
    fn ask(&mut self, from: &str, run: &RunId, step: u64, key: &str) -> Duration {
        (self.asks, self.words) = (self.asks + 1, self.words + 1);
        let floor = self.floors.entry(run.clone()).or_default();
        if step < *floor && self.paused.contains(from) {
            self.late += 1;
        } else if step < *floor {
            let violation = format!("run {run}: {from} asks for step {step}, but {floor} steps have ended before");
            self.violations.push(violation);
        }
        // Who asks for a step has seen the commit of the one before it.
        *floor = (*floor).max(step);
        let earlier = self.asked.insert((run.clone(), step), (from.to_owned(), key.to_owned()));
        if let Some((asker, key_before)) = earlier {
            self.repeats += 1;
            self.takeovers += u64::from(!self.killed.contains(&asker));
            if key_before != key {
                self.violations.push(format!("run {run}: step {step} was asked for under {key_before}, then {key}"));
            }
        }
        PAUSE_MAX.mul_f64(self.rng.f64().powi(3))
    }

    /// Acts, unless it has done so under this key.
    fn act(&mut self, run: &RunId, step: u64, key: String) -> u64 {
        let answer = self.rng.u64(..);
        let act = self.acts.entry(key).or_insert(Act { run: run.clone(), step, answer });
        if (&act.run, act.step) != (run, step) {
            let Act { run: other, step: of, .. } = act;
            self.violations.push(format!("run {run}, step {step}: its key belongs to run {other}, step {of}"));
        }
        act.answer
    }

    fn tell(&mut self, word: Word) {
        self.words += 1;
        self.told.push(word);
    }

    /// This many steps of a run have ended for good.
    pub fn ended(&mut self, run: &RunId, steps: u64) {
        let floor = self.floors.entry(run.clone()).or_default();
        *floor = (*floor).max(steps);
    }

    /// This worker is dead.
    pub fn killed(&mut self, worker: &str) {
        self.killed.insert(worker.to_owned());
    }

    /// This worker has been paused for longer than its leases last.
    pub fn paused(&mut self, worker: &str) {
        self.paused.insert(worker.to_owned());
    }

    /// Steps that were asked for at least once.
    pub fn steps_asked(&self) -> u64 {
        self.asked.len() as u64
    }

    /// Things done.
    pub fn acts(&self) -> usize {
        self.acts.len()
    }

    /// The result that a run has to have, from what was done for it.
    pub fn expected(&self, run: &RunId) -> u64 {
        let of_run = self.acts.values().filter(|act| act.run == *run);
        let in_order: BTreeMap<u64, u64> = of_run.map(|act| (act.step, act.answer)).collect();
        in_order.into_values().fold(0, fold)
    }
}
