//! The store of checkpoints on one table.

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use stepwell_core::history::Segment;
use stepwell_core::write::{Write, WriteRequest, apply};
use stepwell_core::{Checkpoint, EffectKey, EffectRecord, Json, LogId, Revision, RunId, Timestamp};
use stepwell_ports::{CheckpointStore, Claim, Claimed, DuePage, ListQuery, Page, RunSummary, StoreError, Written};

use crate::aside::{self, Aside, Taken};
use crate::exact::{self, Judged};
use crate::item::{self, Item, Reader, name};
use crate::table::{Answer, Range, Table};
use crate::{keys, listing, writes};

/// Items beside a checkpoint that are put at once.
const PUTS_AT_ONCE: usize = 8;

/// Segments that are read around those that are asked for, to tell which of two that overlap counts.
const NEIGHBOURS: usize = 4;

/// Items of one transaction besides the checkpoint: the service takes 100.
const TRANSACTION_ITEMS_MAX: usize = 99;

/// Bytes of one transaction besides the checkpoint: the service takes 4 MB.
const TRANSACTION_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Times that a write is made again from a checkpoint that has moved on meanwhile.
const EXACT_TRIES: u32 = 16;

/// The store. A clone is another handle to the same.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) table: Table,
}

#[async_trait]
impl CheckpointStore for Store {
    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        let (run, id, now) = (&request.run, request.id, request.now);
        let update = match &request.write {
            Write::Start(_) => return self.start(request).await,
            // A person waits for it, once in a while: not worth an update of its own.
            Write::Amend(_) => return self.amend(request).await,
            Write::Acquire(acquire) => writes::acquire(acquire, id, now),
            Write::Renew(renew) => writes::renew(renew, id),
            Write::Signal(letter) => writes::signal(run, letter, now)?,
            Write::Cancel(cancel) => writes::cancel(run, cancel, now)?,
            Write::Commit(commit) => {
                item::check_size(run, item::size_with(&commit.progress))?;
                writes::commit(run, commit, id, now)?
            }
        };
        let taken = self.put_beside(request, aside::of(request)?).await?;
        if !taken.is_empty() {
            return self.write_over(request, taken).await;
        }
        match self.table.update(item::key(run, keys::CHECKPOINT), update).await? {
            Answer::Done(item) => Ok(Written::Applied(Box::new(item::decode(run, &item)?))),
            Answer::Refused(item) => self.write_exactly(request, decoded(run, item)?, &[]).await,
        }
    }

    async fn load(&self, run: &RunId) -> Result<Option<Checkpoint>, StoreError> {
        decoded(run, self.table.get(run, keys::CHECKPOINT).await?)
    }

    async fn log(&self, run: &RunId, log: LogId, first: u64, limit: usize) -> Result<Vec<Json>, StoreError> {
        let range = (keys::entry(log, first), keys::entry(log, u64::MAX));
        let found = self.beside(run, (&range.0, &range.1), true, limit).await?;
        let in_order = (first..=u64::MAX).zip(&found);
        let counted = in_order.take_while(|(seq, item)| sort_key(item) == Some(&keys::entry(log, *seq)));
        counted
            .map(|(_, item)| {
                let json = Reader { run, item }.text(name::JSON)?.to_owned();
                Json::from_text(json).map_err(|error| StoreError::Damaged(format!("log {log} of run {run}: {error}")))
            })
            .collect()
    }

    async fn effect(&self, run: &RunId, key: &EffectKey) -> Result<Option<EffectRecord>, StoreError> {
        let item = self.table.get(run, &keys::effect(key)).await?;
        item.map(|item| Reader { run, item: &item }.json(name::JSON)).transpose()
    }

    async fn history(&self, run: &RunId, from: Revision, limit: usize) -> Result<Vec<Segment>, StoreError> {
        let (first, here, last) = (keys::segment(Revision(0)), keys::segment(from), keys::segment(Revision(u64::MAX)));
        // The one that holds the revision begins before it, or nothing does.
        let mut before = self.beside(run, (&first, &here), false, NEIGHBOURS).await?;
        before.reverse();
        let next = keys::segment(from.next());
        let mut want = limit.saturating_add(NEIGHBOURS);
        loop {
            let after = if next > here { self.beside(run, (&next, &last), true, want).await? } else { Vec::new() };
            let is_all = after.len() < want;
            let mut found = aside::standing(run, before.iter().chain(&after))?;
            found.retain(|segment| segment.end() > from);
            if is_all || found.len() >= limit {
                found.truncate(limit);
                return Ok(found);
            }
            want = want.saturating_mul(2);
        }
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        match self.table.update(keys::claim(&claim.key), writes::claim(claim)).await? {
            Answer::Done(_) => Ok(Claimed::Mine),
            Answer::Refused(Some(there)) => item::owner(&claim.key, &there).map(Claimed::Of),
            // It was there when it was looked at, and is gone.
            Answer::Refused(None) => {
                Err(StoreError::Throttled(format!("the claim of {} was deleted from outside", claim.key)))
            }
        }
    }

    async fn due(&self, until: Timestamp, limit: usize, after: Option<String>) -> Result<DuePage, StoreError> {
        listing::due(&self.table, until, limit, after).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<RunSummary>, StoreError> {
        listing::list(&self.table, query).await
    }
}

impl Store {
    async fn start(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        let run = &request.run;
        let Ok(started) = apply(None, request) else { return Ok(Written::Refused(None)) };
        item::check_size(run, started.weight())?;
        let mut new = item::key(run, keys::CHECKPOINT);
        let attributes = item::attributes(&started)?.into_iter();
        new.extend(attributes.filter_map(|(attribute, value)| Some((attribute.to_owned(), value?))));
        match self.table.begin(new).await? {
            Answer::Done(_) => Ok(Written::Applied(Box::new(started))),
            Answer::Refused(item) => self.write_exactly(request, decoded(run, item)?, &[]).await,
        }
    }

    async fn amend(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        let current = self.load(&request.run).await?;
        self.write_exactly(request, current, &aside::of(request)?).await
    }

    /// Puts what a commit brings along where nothing is. The answer is what was found where something is.
    async fn put_beside(&self, request: &WriteRequest, beside: Vec<Aside>) -> Result<Vec<Taken>, StoreError> {
        let put = async |aside: Aside| match self.table.create(aside.item(request), request).await? {
            Answer::Done(_) => Ok(None),
            Answer::Refused(Some(there)) => aside.taken(&request.run, &there).map(Some),
            // It was there when it was put, and is gone.
            Answer::Refused(None) => Err(moving(&request.run)),
        };
        let taken: Vec<Option<Taken>> =
            stream::iter(beside).map(put).buffer_unordered(PUTS_AT_ONCE).try_collect().await?;
        Ok(taken.into_iter().flatten().collect())
    }

    /// Writes a commit some of whose places are taken, see [`crate::aside`].
    async fn write_over(&self, request: &WriteRequest, taken: Vec<Taken>) -> Result<Written, StoreError> {
        let current = self.load(&request.run).await?;
        // A refused commit replaces nothing.
        if let Judged::Answered(answer) = exact::judge(current.clone(), request, true)? {
            return Ok(answer);
        }
        // It follows the checkpoint's revision, so whatever was written for the next one was never committed.
        let made = aside::revision_made(&request.write);
        let (mut left, standing): (Vec<_>, Vec<_>) = taken.iter().partition(|taken| taken.revision >= made);
        let (together, surplus) = split(&standing);
        // More than a transaction takes. A log's entries from where a commit appends do not count before it, since the
        // state that it follows ends there: they may be replaced ahead of it.
        left.extend(surplus);
        for taken in left {
            self.replace(request, taken).await?;
        }
        self.write_exactly(request, current, &together).await
    }

    async fn replace(&self, request: &WriteRequest, taken: &Taken) -> Result<(), StoreError> {
        match self.table.replace(taken, request).await? {
            Answer::Done(_) => Ok(()),
            // By this request, a moment ago.
            Answer::Refused(Some(there))
                if Reader { run: &request.run, item: &there }.number(name::WRITE)? == request.id.0 =>
            {
                Ok(())
            }
            Answer::Refused(_) => Err(moving(&request.run)),
        }
    }

    /// Writes what the definition makes of this checkpoint, or of what it has become, together with these items.
    async fn write_exactly(
        &self,
        request: &WriteRequest,
        mut current: Option<Checkpoint>,
        beside: &[Aside],
    ) -> Result<Written, StoreError> {
        for _ in 0..EXACT_TRIES {
            let next = match exact::judge(current.clone(), request, !beside.is_empty())? {
                Judged::Answered(answer) => return Ok(answer),
                Judged::Next(next) => next,
            };
            let Some(seen) = &current else { break };
            let update = exact::rewrite(seen, &next)?;
            let is_done = if beside.is_empty() {
                let key = item::key(&request.run, keys::CHECKPOINT);
                matches!(self.table.update(key, update).await?, Answer::Done(_))
            } else {
                self.table.transact(request, update, beside).await?
            };
            if is_done {
                return Ok(Written::Applied(next));
            }
            current = self.load(&request.run).await?;
        }
        Err(moving(&request.run))
    }

    async fn beside(
        &self,
        run: &RunId,
        (first, last): (&str, &str),
        forward: bool,
        limit: usize,
    ) -> Result<Vec<Item>, StoreError> {
        let partition = (name::PARTITION, keys::partition(run));
        let range = Range { index: None, partition, sort: (name::SORT, first, last), forward, only: None, limit };
        self.table.range(&range).await
    }
}

/// As many as one transaction takes, and the others.
fn split<'a>(standing: &[&'a Taken]) -> (Vec<Aside>, Vec<&'a Taken>) {
    let mut bytes = 0;
    let fits = standing.iter().take(TRANSACTION_ITEMS_MAX).take_while(|taken| {
        bytes += taken.aside.weight();
        bytes <= TRANSACTION_BYTES_MAX
    });
    let fits = fits.count();
    let together = standing[..fits].iter().map(|taken| taken.aside.clone()).collect();
    (together, standing[fits..].to_vec())
}

fn decoded(run: &RunId, item: Option<Item>) -> Result<Option<Checkpoint>, StoreError> {
    item.map(|item| item::decode(run, &item)).transpose()
}

fn sort_key(item: &Item) -> Option<&String> {
    item.get(name::SORT)?.as_s().ok()
}

fn moving(run: &RunId) -> StoreError {
    StoreError::Throttled(format!("run {run} is being written by others again and again"))
}
