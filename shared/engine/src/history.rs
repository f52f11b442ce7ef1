//! Reading a run's history: what happened to it, a commit an entry. Each page costs the same, however long the run is.

use core::time::Duration;

use stepwell_core::history::{Entry, Segment};
use stepwell_core::limits::{PAGE_MAX, TAIL_ENTRIES_MAX};
use stepwell_core::{Checkpoint, Revision, RunId, Timestamp};

use crate::{Client, ClientError};

/// One entry of a run's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The revision that its commit made.
    pub revision: Revision,
    /// When.
    pub at: Timestamp,
    /// What.
    pub entry: Entry,
}

/// Some of a run's history, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPage {
    /// The entries.
    pub entries: Vec<HistoryEntry>,
    /// Where the next page begins ([`Client::history_page`]), or before which revision the page before it ends
    /// ([`Client::history_before`]). `None`: there is none.
    pub next: Option<Revision>,
}

impl Client {
    /// A run's history, oldest first, from this revision on.
    ///
    /// # Errors
    /// [`ClientError::NoSuchRun`] when there is no such run.
    pub async fn history(&self, run: &RunId, from: Revision) -> Result<Vec<HistoryEntry>, ClientError> {
        let checkpoint = self.get(run).await?;
        self.entries_from(&checkpoint, from, usize::MAX).await
    }

    /// At most `limit` entries of a run's history, oldest first, from this revision on.
    ///
    /// # Errors
    /// [`ClientError::NoSuchRun`] when there is no such run.
    pub async fn history_page(&self, run: &RunId, from: Revision, limit: usize) -> Result<HistoryPage, ClientError> {
        let checkpoint = self.get(run).await?;
        let mut entries = self.entries_from(&checkpoint, from, limit.saturating_add(1)).await?;
        let next = entries.get(limit).map(|entry| entry.revision);
        entries.truncate(limit);
        Ok(HistoryPage { entries, next })
    }

    /// The last `limit` entries of a run's history before this revision, or the newest ones, oldest first.
    ///
    /// # Errors
    /// [`ClientError::NoSuchRun`] when there is no such run.
    pub async fn history_before(
        &self,
        run: &RunId,
        before: Option<Revision>,
        limit: usize,
    ) -> Result<HistoryPage, ClientError> {
        self.history_of(&self.get(run).await?, before, limit).await
    }

    /// The same, of a run that was looked at: as it was then, and without another look.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub async fn history_of(
        &self,
        run: &Checkpoint,
        before: Option<Revision>,
        limit: usize,
    ) -> Result<HistoryPage, ClientError> {
        let before = before.unwrap_or(Revision(u64::MAX));
        let entries = self.entries_before(run, before, limit).await?;
        let next = entries.first().map(|entry| entry.revision).filter(|first| *first > FIRST);
        Ok(HistoryPage { entries, next })
    }

    /// Every commit makes one revision and one entry, so the entries before one are known by their numbers.
    pub(crate) async fn entries_before(
        &self,
        checkpoint: &Checkpoint,
        before: Revision,
        limit: usize,
    ) -> Result<Vec<HistoryEntry>, ClientError> {
        let before = before.min(checkpoint.progress.revision.next());
        let first = Revision(before.0.saturating_sub(limit as u64)).max(FIRST);
        let mut entries = self.entries_from(checkpoint, first, limit).await?;
        entries.retain(|entry| entry.revision < before);
        Ok(entries)
    }

    async fn entries_from(
        &self,
        checkpoint: &Checkpoint,
        from: Revision,
        limit: usize,
    ) -> Result<Vec<HistoryEntry>, ClientError> {
        let tail = &checkpoint.progress.tail;
        let mut entries = Vec::new();
        let mut next = from;
        while next < tail.from && entries.len() < limit {
            // Most segments are half full at least, but where states are kept they hold an entry or two.
            let segments = (limit - entries.len()).div_ceil(TAIL_ENTRIES_MAX / 2).clamp(SEGMENTS_MIN, PAGE_MAX);
            let page = self.ports.store.history(&checkpoint.run, next, segments).await?;
            for segment in &page {
                entries.extend(entries_of(segment).filter(|entry| entry.revision >= from));
                next = segment.end();
            }
            if page.len() < segments {
                break;
            }
        }
        entries.extend(entries_of(tail).filter(|entry| entry.revision >= from));
        // A segment that was written since the checkpoint was read repeats what its tail holds, and goes on after it.
        entries.retain(|entry| entry.revision <= checkpoint.progress.revision);
        entries.sort_by_key(|entry| entry.revision);
        entries.dedup_by_key(|entry| entry.revision);
        entries.truncate(limit);
        Ok(entries)
    }
}

/// Segments that are read in one go at least.
const SEGMENTS_MIN: usize = 8;

/// The revision that the first commit makes.
const FIRST: Revision = Revision(1);

fn entries_of(segment: &Segment) -> impl Iterator<Item = HistoryEntry> {
    segment.entries.iter().zip(segment.from.0..).map(|(entry, revision)| HistoryEntry {
        revision: Revision(revision),
        at: segment.at.plus(Duration::from_millis(entry.at)),
        entry: entry.clone(),
    })
}
