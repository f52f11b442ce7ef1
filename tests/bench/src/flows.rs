//! The workflows that are measured: as plain as they can be.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use stepwell::prelude::*;
use stepwell::{Signals, StepError};
use stepwell_local::{Local, Stats};
use tokio::sync::Notify;

use crate::disk::{self, SyncProbe};

/// Sees steps begin.
#[derive(Default)]
pub(crate) struct Probe {
    entries: Mutex<Vec<Entered>>,
    marks: Mutex<Vec<Mark>>,
    watched: OnceLock<Watched>,
    ended: AtomicU64,
    end: Notify,
}

/// What the marks read.
struct Watched {
    local: Local,
    disk: SyncProbe,
}

/// A step began.
#[derive(Clone, Copy)]
pub(crate) struct Entered {
    pub(crate) run: u64,
    pub(crate) at: Instant,
    /// Later than `at` where the disk was asked in between.
    pub(crate) on: Instant,
    /// How long the disk took.
    pub(crate) sync: Option<Duration>,
}

/// Counters at the beginning of a step.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) step: u64,
    pub(crate) stats: Stats,
    pub(crate) written: Option<u64>,
    pub(crate) processor: Option<u64>,
}

/// A mark is made this often.
pub(crate) const MARK_STEPS: usize = 100;
/// The disk is asked this often.
const SYNC_STEPS: u64 = 10;

impl Probe {
    /// Reads the counters of this folder from now on, and asks its disk.
    pub(crate) fn watch(&self, local: &Local, dir: &Path) -> std::io::Result<()> {
        // Only the first one counts, and there is one folder to a probe.
        let _ = self.watched.set(Watched { local: local.clone(), disk: SyncProbe::new(dir)? });
        Ok(())
    }

    fn enter(&self, run: u64, step: u64) {
        let (at, mut sync) = (Instant::now(), None);
        if let Some(Watched { local, disk }) = self.watched.get() {
            if step.is_multiple_of(MARK_STEPS as u64) {
                let (written, processor) = (disk::written(), disk::processor_nanos());
                lock(&self.marks).push(Mark { step, stats: local.stats(), written, processor });
            }
            if step.is_multiple_of(SYNC_STEPS) {
                sync = disk.time().ok();
            }
        }
        lock(&self.entries).push(Entered { run, at, on: Instant::now(), sync });
    }

    fn end(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.end.notify_waiters();
    }

    /// Waits until this many runs have begun their last step.
    pub(crate) async fn ends(&self, count: u64) {
        loop {
            let mut end = std::pin::pin!(self.end.notified());
            end.as_mut().enable();
            if self.ended.load(Ordering::Relaxed) >= count {
                return;
            }
            end.await;
        }
    }

    /// What was seen since the last time.
    pub(crate) fn take(&self) -> (Vec<Entered>, Vec<Mark>) {
        self.ended.store(0, Ordering::Relaxed);
        (std::mem::take(&mut lock(&self.entries)), std::mem::take(&mut lock(&self.marks)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a number a step.
pub(crate) struct Chain(pub(crate) Arc<Probe>);

#[derive(Serialize, Deserialize)]
pub(crate) struct Length {
    pub(crate) run: u64,
    pub(crate) steps: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Adding {
    run: u64,
    steps: u64,
    done: u64,
    sum: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum At {
    Work,
}

impl Workflow for Chain {
    const NAME: &'static str = "chain";
    type Input = Length;
    type State = Adding;
    type Step = At;
    type Output = u64;

    fn begin(&self, Length { run, steps }: Length) -> (At, Adding) {
        (At::Work, Adding { run, steps, done: 0, sum: 0 })
    }

    async fn step(&self, At::Work: At, state: &mut Adding, _cx: &Cx) -> StepResult<Self> {
        self.0.enter(state.run, state.done);
        state.done += 1;
        state.sum += state.done;
        if state.done < state.steps {
            return Ok(goto(At::Work));
        }
        self.0.end();
        Ok(complete(state.sum))
    }
}

/// Adds a number a step, and keeps what it knew at each.
pub(crate) struct Kept;

impl Workflow for Kept {
    const NAME: &'static str = "kept";
    const KEEPS_STATES: bool = true;
    type Input = Length;
    type State = Adding;
    type Step = At;
    type Output = u64;

    fn begin(&self, Length { run, steps }: Length) -> (At, Adding) {
        (At::Work, Adding { run, steps, done: 0, sum: 0 })
    }

    async fn step(&self, At::Work: At, state: &mut Adding, _cx: &Cx) -> StepResult<Self> {
        state.done += 1;
        state.sum += state.done;
        Ok(if state.done < state.steps { goto(At::Work) } else { complete(state.sum) })
    }
}

/// Appends a line to a log each step.
pub(crate) struct Growing(pub(crate) Arc<Probe>);

#[derive(Serialize, Deserialize)]
pub(crate) struct Lines {
    steps: u64,
    lines: Log<String>,
}

/// Bytes of one line, its quotes included.
pub(crate) const LINE_BYTES: usize = 1_024;

impl Workflow for Growing {
    const NAME: &'static str = "growing";
    type Input = Length;
    type State = Lines;
    type Step = At;
    type Output = u64;

    fn begin(&self, Length { steps, .. }: Length) -> (At, Lines) {
        (At::Work, Lines { steps, lines: Log::new() })
    }

    async fn step(&self, At::Work: At, state: &mut Lines, _cx: &Cx) -> StepResult<Self> {
        self.0.enter(0, state.lines.len());
        let line = format!("{:0width$}", state.lines.len(), width = LINE_BYTES - 2);
        state.lines.push(line);
        if state.lines.len() < state.steps {
            return Ok(goto(At::Work));
        }
        self.0.end();
        Ok(complete(state.lines.len()))
    }
}

/// Ends the wait of a [`Waiter`].
pub(crate) const GO: Signal<u64> = Signal::new("go");

/// Waits for a signal, then ends with what it says.
pub(crate) struct Waiter;

#[derive(Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) number: u64,
    pub(crate) text: String,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum WaitAt {
    Wait,
    Go,
}

impl Workflow for Waiter {
    const NAME: &'static str = "waiter";
    type Input = Waiting;
    type State = Waiting;
    type Step = WaitAt;
    type Output = u64;

    fn begin(&self, waiting: Waiting) -> (WaitAt, Waiting) {
        (WaitAt::Wait, waiting)
    }

    async fn step(&self, at: WaitAt, state: &mut Waiting, cx: &Cx) -> StepResult<Self> {
        Ok(match at {
            WaitAt::Wait => wait(WaitAt::Go).for_signal(GO).within(days(30)),
            WaitAt::Go => complete(cx.take(GO).await?.unwrap_or_default() + state.number),
        })
    }

    fn signals() -> Signals {
        Signals::none().and(GO)
    }
}

/// Takes a while for each step, and notes in a file that it has begun.
pub(crate) struct Slow(pub(crate) Arc<File>);

/// How long a step of a [`Slow`] takes.
pub(crate) const SLOW_STEP: Duration = Duration::from_millis(50);

impl Workflow for Slow {
    const NAME: &'static str = "slow";
    type Input = u64;
    type State = u64;
    type Step = At;
    type Output = u64;

    fn begin(&self, _steps: u64) -> (At, u64) {
        (At::Work, 0)
    }

    async fn step(&self, At::Work: At, done: &mut u64, _cx: &Cx) -> Result<stepwell::Next<At, u64>, StepError> {
        // The file is opened for appending: one write is one line, whoever else writes.
        (&*self.0).write_all(format!("{done}\n").as_bytes())?;
        tokio::time::sleep(SLOW_STEP).await;
        *done += 1;
        Ok(goto(At::Work))
    }
}
