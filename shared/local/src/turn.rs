//! Taking turns with other processes.
//!
//! SQLite gives its write lock to whoever asks first when it becomes free. A busy process asks again at once, so one that
//! looks every now and then would hardly ever find it free. Whoever waits for the write lock therefore holds another lock
//! meanwhile, and nobody asks for the write lock without having had that one: the busy process finds itself second.

use core::time::Duration;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::thread;
use std::time::Instant;

/// The longest pause between two looks at a lock that somebody else holds.
const PAUSE_MAX: Duration = Duration::from_micros(500);

/// The lock of whoever is next.
pub(crate) struct Turnstile {
    file: File,
    /// No longer than this: it is a matter of fairness alone, what is written is safe without it.
    patience: Duration,
}

/// Being next. Ends when it is dropped.
pub(crate) struct Next<'a>(&'a File);

impl Turnstile {
    pub(crate) fn open(path: &Path, patience: Duration) -> std::io::Result<Self> {
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        Ok(Self { file, patience })
    }

    /// Waits until nobody else is next. `None` where that takes too long, or the file system knows no such locks.
    pub(crate) fn enter(&self) -> Option<Next<'_>> {
        let mut waited = None;
        for tries in 0.. {
            match self.file.try_lock() {
                Ok(()) => return Some(Next(&self.file)),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(_)) => return None,
            }
            if waited.get_or_insert_with(Instant::now).elapsed() > self.patience {
                break;
            }
            pause(tries);
        }
        None
    }
}

impl Drop for Next<'_> {
    fn drop(&mut self) {
        // It cannot fail for a lock that is held; when the process dies, the system does it.
        let _ = self.0.unlock();
    }
}

/// Waits before the next look at a lock: shortly at first, since a commit is short.
pub(crate) fn pause(tries: u32) {
    let pause = Duration::from_micros(50 << tries.min(10)).min(PAUSE_MAX);
    // Two that wait for each other must not stay in step.
    thread::sleep(pause.mul_f64(0.5 + fastrand::f64()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_next_and_another_goes_on_without_after_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Turnstile::open(&dir.path().join("lock"), Duration::from_millis(5)).unwrap();
        let (first, second) = (open(), open());
        let next = first.enter().unwrap();
        assert!(second.enter().is_none());
        drop(next);
        assert!(second.enter().is_some());
        assert!(first.enter().is_some(), "it was given back");
    }
}
