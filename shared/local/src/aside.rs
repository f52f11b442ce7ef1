//! What lies beside a run's row: log entries, history segments and spilled effects. Written in the transaction of their
//! commit, each with a checksum. And beside all runs: who has claimed a key.

use rusqlite::{Connection, OptionalExtension as _, params};
use stepwell_core::history::Segment;
use stepwell_core::limits::VALUE_BYTES_MAX;
use stepwell_core::write::{LogAppend, Write, WriteRequest};
use stepwell_core::{EffectKey, EffectRecord, Json, LogId, Revision, RunId};
use stepwell_ports::{Claim, Claimant, Claimed, StoreError};

use crate::fault::Abort;
use crate::row;
use crate::sum::{Sum, count, int};

const PUT_ENTRY: &str = "INSERT OR REPLACE INTO log_entries (run_id, log, seq, value, crc) VALUES (?1, ?2, ?3, ?4, ?5)";
const PUT_SEGMENT: &str = "INSERT OR REPLACE INTO segments (run_id, first, value, crc) VALUES (?1, ?2, ?3, ?4)";
const PUT_EFFECT: &str = "INSERT OR REPLACE INTO effects (run_id, key, value, crc) VALUES (?1, ?2, ?3, ?4)";

const ENTRIES: &str = "SELECT seq, value, crc FROM log_entries
    WHERE run_id = (SELECT id FROM runs WHERE run = ?1) AND log = ?2 AND seq >= ?3 ORDER BY seq LIMIT ?4";
const EFFECT: &str = "SELECT value, crc FROM effects WHERE run_id = (SELECT id FROM runs WHERE run = ?1) AND key = ?2";
/// From the last segment that begins at or before a revision: it may hold it.
const SEGMENTS: &str = "SELECT first, value, crc FROM segments
    WHERE run_id = (SELECT id FROM runs WHERE run = ?1)
    AND first >= coalesce(
        (SELECT max(first) FROM segments WHERE run_id = (SELECT id FROM runs WHERE run = ?1) AND first <= ?2), ?2)
    ORDER BY first LIMIT ?3";

const OWNER: &str = "SELECT run, crc FROM claims WHERE key = ?1";
const PUT_CLAIM: &str = "INSERT OR REPLACE INTO claims (key, run, crc) VALUES (?1, ?2, ?3)";

/// One of them, encoded.
pub(crate) struct Aside {
    key: Key,
    json: String,
    crc: i64,
}

enum Key {
    Entry { log: i64, seq: i64 },
    Segment { first: i64 },
    Effect(EffectKey),
}

impl Key {
    fn sum(&self, run: &RunId, json: &[u8]) -> i64 {
        let sum = Sum::of(run.as_str());
        let sum = match self {
            Self::Entry { log, seq } => sum.text("log").ints([*log, *seq]),
            Self::Segment { first } => sum.text("segment").int(*first),
            Self::Effect(key) => sum.text("effect").text(key.as_str()),
        };
        sum.bytes(json).end()
    }
}

impl Aside {
    /// All that a write brings along.
    pub(crate) fn of(request: &WriteRequest) -> Result<Vec<Self>, StoreError> {
        let run = &request.run;
        let (appends, segment, spill): (&[LogAppend], _, &[EffectRecord]) = match &request.write {
            Write::Commit(commit) => (&commit.appends, &commit.segment, &commit.spill),
            Write::Amend(amend) => (&[], &amend.segment, &[]),
            Write::Start(_) | Write::Acquire(_) | Write::Renew(_) | Write::Signal(_) | Write::Cancel(_) => {
                return Ok(Vec::new());
            }
        };
        let mut all = Vec::new();
        for append in appends {
            for (seq, entry) in (append.first..=u64::MAX).zip(&append.entries) {
                let key = Key::Entry { log: append.log.0.into(), seq: int(seq) };
                all.push(Self::new(run, key, entry.text().to_owned())?);
            }
        }
        if let Some(segment) = segment {
            all.push(Self::new(run, Key::Segment { first: int(segment.from.0) }, json(run, segment)?)?);
        }
        for record in spill {
            all.push(Self::new(run, Key::Effect(record.key.clone()), json(run, record)?)?);
        }
        Ok(all)
    }

    fn new(run: &RunId, key: Key, json: String) -> Result<Self, StoreError> {
        if json.len() > VALUE_BYTES_MAX {
            return Err(StoreError::Invalid(format!(
                "run {run}: an entry of {} bytes is over the limit of {VALUE_BYTES_MAX}: put it into a blob",
                json.len()
            )));
        }
        Ok(Self { crc: key.sum(run, json.as_bytes()), key, json })
    }

    /// Writes it, over what may be in its place.
    pub(crate) fn store(&self, db: &Connection, id: i64) -> Result<(), Abort> {
        let Self { key, json, crc } = self;
        match key {
            Key::Entry { log, seq } => db.prepare_cached(PUT_ENTRY)?.execute(params![id, log, seq, json, crc])?,
            Key::Segment { first } => db.prepare_cached(PUT_SEGMENT)?.execute(params![id, first, json, crc])?,
            Key::Effect(key) => db.prepare_cached(PUT_EFFECT)?.execute(params![id, key.as_str(), json, crc])?,
        };
        Ok(())
    }
}

/// Reads entries of a log from `first`, up to the first that is missing.
pub(crate) fn entries(db: &Connection, run: &RunId, log: LogId, first: u64, limit: usize) -> Result<Vec<Json>, Abort> {
    let mut statement = db.prepare_cached(ENTRIES)?;
    let mut rows = statement.query(params![run.as_str(), log.0, int(first), rows_of(limit)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (seq, value): (i64, String) = (row.get(0)?, row.get(1)?);
        if count(seq) != first.saturating_add(found.len() as u64) {
            break;
        }
        let key = Key::Entry { log: log.0.into(), seq };
        row::intact(run, "log entry", key.sum(run, value.as_bytes()), row.get(2)?)?;
        found.push(Json::from_text(value).map_err(|error| row::unreadable(run, &error))?);
    }
    Ok(found)
}

/// Reads a spilled effect.
pub(crate) fn effect(db: &Connection, run: &RunId, key: &EffectKey) -> Result<Option<EffectRecord>, Abort> {
    let mut statement = db.prepare_cached(EFFECT)?;
    let mut rows = statement.query([run.as_str(), key.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let value: String = row.get(0)?;
    row::intact(run, "effect", Key::Effect(key.clone()).sum(run, value.as_bytes()), row.get(1)?)?;
    row::parse(run, value.as_bytes()).map(Some)
}

/// Reads up to `limit` segments from the one that holds `from`, and whether there are more.
pub(crate) fn segments(db: &Connection, run: &RunId, from: Revision, limit: usize) -> Result<Vec<Segment>, Abort> {
    let mut statement = db.prepare_cached(SEGMENTS)?;
    // One more than asked for: the one in front may not hold `from`.
    let mut rows = statement.query(params![run.as_str(), int(from.0), rows_of(limit.saturating_add(1))])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (first, value): (i64, String) = (row.get(0)?, row.get(1)?);
        row::intact(run, "history", Key::Segment { first }.sum(run, value.as_bytes()), row.get(2)?)?;
        let segment: Segment = row::parse(run, value.as_bytes())?;
        if segment.end() > from {
            found.push(segment);
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// Makes a run the owner of a key, or says who is.
pub(crate) fn claim(db: &Connection, claim: &Claim) -> Result<Claimed, Abort> {
    let (key, by) = (claim.key.as_str(), claim.by.to_string());
    let sum = |run: &str| Sum::of(run).text("claim").text(key).end();
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let stored: Option<(String, i64)> = db.prepare_cached(OWNER)?.query_row([key], read).optional()?;
    if let Some((owner, crc)) = stored {
        let who = Claimant::parse(&owner).ok_or_else(|| Abort::Damaged(format!("claim of {key}: no run has it")))?;
        row::intact(&who.run, &format!("claim of {key}"), sum(&owner), crc)?;
        if !claim.is_granted_by(Some(&who)) {
            return Ok(Claimed::Of(who));
        }
        // It was the run's already: a repeated claim writes nothing.
        if who == claim.by {
            return Ok(Claimed::Mine);
        }
    }
    db.prepare_cached(PUT_CLAIM)?.execute(params![key, by, sum(&by)])?;
    Ok(Claimed::Mine)
}

fn rows_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn json<T: serde::Serialize>(run: &RunId, value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Invalid(format!("run {run}: a record cannot be written as JSON: {error}")))
}
