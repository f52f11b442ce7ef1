//! What the writer has done, for benchmarks and tests.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::open::PAGE_BYTES;

/// Bytes of one page in the log, with its header.
const LOG_PAGE_BYTES: u64 = PAGE_BYTES + 24;

/// What this process has written since it opened the folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Requests that were taken up: writes of the store, sends, claims, deletions and extensions of the queue.
    pub requests: u64,
    /// Transactions that changed something. Each is one sync of the disk, whatever it holds.
    pub transactions: u64,
    /// Bytes that these transactions added to the log. Where other processes write too, some of theirs are in it.
    pub log_bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    transactions: AtomicU64,
    log_pages: AtomicU64,
}

impl Counters {
    pub(crate) fn requests(&self, count: usize) {
        self.requests.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn transaction(&self, log_pages: u64) {
        self.transactions.fetch_add(1, Ordering::Relaxed);
        self.log_pages.fetch_add(log_pages, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Stats {
        Stats {
            requests: self.requests.load(Ordering::Relaxed),
            transactions: self.transactions.load(Ordering::Relaxed),
            log_bytes: self.log_pages.load(Ordering::Relaxed) * LOG_PAGE_BYTES,
        }
    }
}
