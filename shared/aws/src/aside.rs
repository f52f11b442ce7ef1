//! What lies beside a checkpoint: log entries, history segments, spilled effects. Each is an item of its own in the run's
//! partition.
//!
//! They have to be durable before their commit, and a commit that is refused must not have changed what counts. Putting all
//! of them and the checkpoint in one transaction would do, at twice the price of every write in it and without the
//! checkpoint as its answer. So they are put first, each on the condition that **nothing is there**: what is new counts for
//! nobody yet, so nothing can be lost, and an append costs one write of its size.
//!
//! Only where something is there (a step runs again after a crash or a refusal, an effect is spilled again) the checkpoint
//! is read, and:
//!
//! - what a later revision than the checkpoint's has left cannot count: its commit was never written. It cannot be written
//!   later either, since what refuses a commit (fence, revision, mailbox, cancellation) only ever grows. So it is replaced,
//!   on the condition that it is still the same.
//! - anything else may count, and is replaced in one transaction with the checkpoint.
//!
//! What a refused commit has put is left. It is not deleted: a request that is refused now may have been carried out
//! before, unseen, and then it counts. Of two history segments that overlap, a reader takes the later one.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use stepwell_core::history::Segment;
use stepwell_core::write::{LogAppend, Write, WriteRequest};
use stepwell_core::{EffectRecord, Revision, RunId, WriteId};
use stepwell_ports::StoreError;

use crate::item::{self, Item, Reader, name};
use crate::keys;

/// One of them, ready to be put.
#[derive(Clone, Debug)]
pub(crate) struct Aside {
    pub(crate) sort: String,
    json: String,
}

/// One whose place is taken.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) aside: Aside,
    /// Who wrote what is there, and for which revision.
    pub(crate) by: WriteId,
    pub(crate) revision: Revision,
}

/// All that a write brings along.
pub(crate) fn of(request: &WriteRequest) -> Result<Vec<Aside>, StoreError> {
    let run = &request.run;
    let (appends, segment, spill): (&[LogAppend], Option<&Segment>, &[EffectRecord]) = match &request.write {
        Write::Commit(commit) => (&commit.appends, commit.segment.as_ref(), &commit.spill),
        Write::Amend(amend) => (&[], amend.segment.as_ref(), &[]),
        Write::Start(_) | Write::Acquire(_) | Write::Renew(_) | Write::Signal(_) | Write::Cancel(_) => {
            return Ok(Vec::new());
        }
    };
    // By key: two items of one key do not go into one transaction, and the later one stands.
    let mut all = BTreeMap::new();
    let mut put = |sort: String, json: String| all.insert(sort.clone(), Aside { sort, json });
    for append in appends {
        for (seq, entry) in (append.first..=u64::MAX).zip(&append.entries) {
            put(keys::entry(append.log, seq), entry.text().to_owned());
        }
    }
    if let Some(segment) = segment {
        put(keys::segment(segment.from), item::json(run, segment)?);
    }
    for record in spill {
        put(keys::effect(&record.key), item::json(run, record)?);
    }
    Ok(all.into_values().collect())
}

/// The revision that a write makes.
pub(crate) fn revision_made(write: &Write) -> Revision {
    match write {
        Write::Commit(commit) => commit.after.next(),
        Write::Amend(amend) => amend.after.next(),
        Write::Start(_) | Write::Acquire(_) | Write::Renew(_) | Write::Signal(_) | Write::Cancel(_) => Revision(0),
    }
}

/// The segments that count among those found, which are in order.
pub(crate) fn standing<'a>(run: &RunId, found: impl IntoIterator<Item = &'a Item>) -> Result<Vec<Segment>, StoreError> {
    let mut standing: Vec<(Segment, u64)> = Vec::new();
    for item in found {
        let read = Reader { run, item };
        let (segment, revision): (Segment, _) = (read.json(name::JSON)?, read.number(name::REVISION)?);
        // Where both were written for the same revision, the one that begins earlier took the other's place in it.
        while standing.pop_if(|(last, of)| last.end() > segment.from && *of < revision).is_some() {}
        if standing.last().is_none_or(|(last, _)| last.end() <= segment.from) {
            standing.push((segment, revision));
        }
    }
    Ok(standing.into_iter().map(|(segment, _)| segment).collect())
}

impl Aside {
    /// As an item.
    pub(crate) fn item(&self, request: &WriteRequest) -> Item {
        let mut item = item::key(&request.run, self.sort.as_str());
        item.insert(name::REVISION.into(), item::number(revision_made(&request.write).0));
        item.insert(name::WRITE.into(), item::number(request.id.0));
        item.insert(name::JSON.into(), AttributeValue::S(self.json.clone()));
        item
    }

    /// Bytes that it takes.
    pub(crate) fn weight(&self) -> usize {
        self.json.len() + 256
    }

    /// What is in its place.
    pub(crate) fn taken(self, run: &RunId, there: &Item) -> Result<Taken, StoreError> {
        let read = Reader { run, item: there };
        let (by, revision) = (WriteId(read.number(name::WRITE)?), Revision(read.number(name::REVISION)?));
        Ok(Taken { aside: self, by, revision })
    }
}

#[cfg(test)]
mod tests {
    use stepwell_core::Timestamp;
    use stepwell_core::history::{Entry, EntryKind, More};

    use super::*;

    fn stored(from: u64, length: u64, revision: u64) -> Item {
        let entry = |_| Entry { step: "s".into(), kind: EntryKind::Stepped, at: 0, took: 0, more: More::default() };
        let entries = (0..length).map(entry).collect();
        let segment = Segment { from: Revision(from), at: Timestamp(0), entries };
        let json = AttributeValue::S(serde_json::to_string(&segment).unwrap());
        [(name::JSON.to_owned(), json), (name::REVISION.to_owned(), item::number(revision))].into()
    }

    #[test]
    fn of_two_segments_that_overlap_the_later_one_counts() {
        let run = RunId::new("r").unwrap();
        let cases: [(&[[u64; 3]], &[u64]); 5] = [
            (&[[1, 4, 5], [5, 4, 9], [9, 2, 11]], &[1, 5, 9]),
            // A refused commit has left the second.
            (&[[1, 4, 5], [5, 9, 9], [7, 2, 11], [9, 2, 12]], &[1, 7, 9]),
            (&[[1, 8, 9], [5, 4, 8], [9, 2, 11]], &[1, 9]),
            (&[[1, 8, 9], [5, 4, 9]], &[1]),
            (&[[1, 9, 3], [3, 9, 4], [5, 2, 7]], &[5]),
        ];
        for (segments, expected) in cases {
            let items: Vec<Item> = segments.iter().map(|[from, length, of]| stored(*from, *length, *of)).collect();
            let found: Vec<u64> = standing(&run, &items).unwrap().iter().map(|segment| segment.from.0).collect();
            assert_eq!(found, expected, "{segments:?}");
        }
    }
}
