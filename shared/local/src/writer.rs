//! The one thread that writes, and its group commit.
//!
//! Requests that wait together share one transaction, and so one sync of the disk. None is answered before that sync.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};
use tokio::sync::{mpsc, oneshot};

use crate::fault::{Abort, Fault};
use crate::stats::Counters;
use crate::turn::Turnstile;

/// Requests that share one transaction at most.
const GROUP_MAX: usize = 256;
/// Requests that wait for the writer at most; whoever comes then waits for room.
const WAITING_MAX: usize = 1024;
/// Pages that the log may hold before they are copied into the database, and it starts again from its beginning.
const LOG_PAGES_MAX: u64 = 1000;

/// Takes requests to the writing thread. When it is dropped, what is waiting is still written, and the thread ends.
pub(crate) struct Writer {
    requests: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

/// One request, as the writing thread sees it.
trait Job: Send {
    /// Does its part of a transaction. May be called again, when the transaction was rolled back.
    fn work(&mut self, db: &Connection) -> Result<(), Abort>;
    /// Tells whoever asked.
    fn answer(self: Box<Self>, outcome: Result<(), Fault>);
}

struct Task<T, W> {
    work: W,
    done: Option<T>,
    reply: oneshot::Sender<Result<T, Fault>>,
}

impl<T: Send, W: FnMut(&Connection) -> Result<T, Abort> + Send> Job for Task<T, W> {
    fn work(&mut self, db: &Connection) -> Result<(), Abort> {
        self.done = Some((self.work)(db)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), Fault>) {
        let Self { done, reply, .. } = *self;
        // Nobody may be waiting any more; what was written stays written.
        let _ = reply.send(outcome.and_then(|()| done.ok_or_else(gone)));
    }
}

impl Writer {
    pub(crate) fn start(
        db: Connection,
        file: PathBuf,
        turnstile: Turnstile,
        counters: Arc<Counters>,
    ) -> std::io::Result<Self> {
        let (requests, waiting) = mpsc::channel(WAITING_MAX);
        let mut desk = Desk { db, file, turnstile, counters, log_pages: 0, written: Arc::default() };
        let thread = thread::Builder::new().name("stepwell-writer".into()).spawn(move || desk.serve(waiting))?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
    }

    /// Runs `work` in a transaction and answers after its commit. `work` decides before it writes; when it gives up
    /// after that, everything it did is rolled back, and nobody else's.
    pub(crate) async fn run<T, W>(&self, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> Result<T, Abort> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let requests = self.requests.as_ref().ok_or_else(gone)?;
        requests.send(Box::new(Task { work, done: None, reply })).await.map_err(|_| gone())?;
        answer.await.map_err(|_| Fault::MaybeWritten("the writing thread has stopped".into()))?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn gone() -> Fault {
    Fault::Unavailable("the writing thread has stopped: open the folder again".into())
}

struct Desk {
    db: Connection,
    file: PathBuf,
    turnstile: Turnstile,
    counters: Arc<Counters>,
    /// Pages that the log held after the last commit.
    log_pages: u64,
    /// Set by each commit that wrote to the log: the pages that it holds now.
    written: Arc<AtomicU64>,
}

/// Where a transaction failed.
enum Failed {
    /// At one of its jobs. Nothing of it is there.
    Job(Fault),
    /// At its beginning or at its commit, for all of its jobs.
    All(Fault),
}

impl Failed {
    fn into_fault(self) -> Fault {
        match self {
            Self::Job(fault) | Self::All(fault) => fault,
        }
    }
}

impl Desk {
    fn serve(&mut self, mut waiting: mpsc::Receiver<Box<dyn Job>>) {
        let written = Arc::clone(&self.written);
        let hook = move |_: &mut Wal, pages: i32| {
            written.store(u64::try_from(pages).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        };
        if let Err(error) = self.db.wal_hook(Some(hook)) {
            tracing::error!(file = %self.file.display(), %error, "the log cannot be watched: it will grow");
        }
        let mut group: Vec<Box<dyn Job>> = Vec::with_capacity(GROUP_MAX);
        while let Some(first) = waiting.blocking_recv() {
            group.push(first);
            while group.len() < GROUP_MAX
                && let Ok(next) = waiting.try_recv()
            {
                group.push(next);
            }
            self.write(&mut group);
            self.trim_log();
        }
    }

    /// Writes a group together. When one of its jobs gives up, each is written alone, so that only that one fails.
    fn write(&mut self, group: &mut Vec<Box<dyn Job>>) {
        self.counters.requests(group.len());
        match self.commit(group) {
            Ok(()) => answer(group, &Ok(())),
            Err(Failed::Job(_)) if group.len() > 1 => {
                for job in group.drain(..) {
                    let mut alone = vec![job];
                    let outcome = self.commit(&mut alone).map_err(Failed::into_fault);
                    answer(&mut alone, &outcome);
                }
            }
            Err(failed) => answer(group, &Err(failed.into_fault())),
        }
    }

    /// One transaction: begin, every job, commit. On any failure it is rolled back.
    fn commit(&mut self, group: &mut [Box<dyn Job>]) -> Result<(), Failed> {
        let next = self.turnstile.enter();
        let begun = Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate);
        let transaction = begun.map_err(|error| Failed::All(Fault::of_sql(&error, &self.file)))?;
        drop(next);
        for job in group {
            // What a panic leaves half done goes with the transaction: dropping it rolls it back.
            let worked = catch_unwind(AssertUnwindSafe(|| job.work(&transaction))).unwrap_or(Err(Abort::Panic));
            worked.map_err(|abort| Failed::Job(Fault::of(&abort, &self.file)))?;
        }
        transaction.commit().map_err(|error| Failed::All(Fault::of_commit(&error, &self.file)))?;
        // A transaction that changed nothing wrote nothing, and there was nothing to sync.
        let pages = self.written.swap(0, Ordering::Relaxed);
        if pages > 0 {
            // A log with fewer pages than before has started again from its beginning.
            self.counters.transaction(pages.checked_sub(self.log_pages).unwrap_or(pages));
            self.log_pages = pages;
        }
        Ok(())
    }

    /// Copies the log into the database when it has grown long enough. After the answers, so that only those wait for
    /// it who come next.
    fn trim_log(&self) {
        if self.log_pages < LOG_PAGES_MAX {
            return;
        }
        match self.db.wal_checkpoint_v2(Some("main"), CheckpointMode::PASSIVE) {
            Ok(_) => {}
            // Another process is at it.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {}
            Err(error) => {
                tracing::warn!(file = %self.file.display(), %error, "the log was not copied into the database; it grows on");
            }
        }
    }
}

fn answer(group: &mut Vec<Box<dyn Job>>, outcome: &Result<(), Fault>) {
    for job in group.drain(..) {
        job.answer(outcome.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer on a table of numbers; `commit` says whether a commit may succeed.
    fn writer(dir: &std::path::Path, commit: impl FnMut() -> bool + Send + 'static) -> (Writer, Connection) {
        let file = dir.join("numbers.db");
        let mut db = Connection::open(&file).unwrap();
        db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE numbers (n INTEGER UNIQUE)").unwrap();
        let mut commit = commit;
        db.commit_hook(Some(move || !commit())).unwrap();
        let reader = Connection::open(&file).unwrap();
        let turnstile = Turnstile::open(&dir.join("lock"), core::time::Duration::ZERO).unwrap();
        (Writer::start(db, file, turnstile, Arc::default()).unwrap(), reader)
    }

    async fn insert(writer: &Writer, number: i64) -> Result<(), Fault> {
        let insert = move |db: &Connection| {
            db.execute("INSERT INTO numbers VALUES (?1)", [number])?;
            if number == 13 { panic!("a job panics") } else { Ok(()) }
        };
        writer.run(insert).await
    }

    /// Asks for all of them at once, so that they share a transaction.
    async fn insert_all(writer: &Writer, numbers: impl IntoIterator<Item = i64>) -> Vec<Result<(), Fault>> {
        futures_util::future::join_all(numbers.into_iter().map(|number| insert(writer, number))).await
    }

    fn numbers(reader: &Connection) -> Vec<i64> {
        let mut rows = reader.prepare("SELECT n FROM numbers ORDER BY n").unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[tokio::test]
    async fn one_that_gives_up_or_panics_does_not_take_its_group_along() {
        let dir = tempfile::tempdir().unwrap();
        let (writer, reader) = writer(dir.path(), || true);
        insert(&writer, 5).await.unwrap();
        let answers = insert_all(&writer, [1, 2, 5, 13, 4]).await;
        assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false, false, true]);
        assert_eq!(numbers(&reader), [1, 2, 4, 5], "nothing is left of those that failed");
        insert(&writer, 6).await.unwrap();
    }

    #[tokio::test]
    async fn a_commit_that_fails_fails_all_of_its_group_and_nobody_is_told_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let fails = Arc::new(AtomicU64::new(1));
        let (writer, reader) = writer(dir.path(), {
            let fails = Arc::clone(&fails);
            move || fails.load(Ordering::Relaxed) == 0
        });
        let answers = insert_all(&writer, 20..40).await;
        assert!(answers.iter().all(|answer| matches!(answer, Err(Fault::Unavailable(_)))), "{answers:?}");
        assert!(numbers(&reader).is_empty());
        fails.store(0, Ordering::Relaxed);
        assert!(insert_all(&writer, 20..40).await.iter().all(Result::is_ok));
        assert_eq!(numbers(&reader).len(), 20);
    }

    #[tokio::test]
    async fn what_waits_when_the_writer_is_dropped_is_still_written() {
        let dir = tempfile::tempdir().unwrap();
        let (writer, reader) = writer(dir.path(), || true);
        let mut waiting = Box::pin(insert(&writer, 1));
        // Asked, and not waited for.
        let asked = futures_util::poll!(waiting.as_mut()).is_pending();
        drop(waiting);
        drop(writer);
        assert!(asked);
        assert_eq!(numbers(&reader), [1]);
    }
}
