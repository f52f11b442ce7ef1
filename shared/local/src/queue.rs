//! The queue, as a table. A delivery hides its message by moving its time of visibility, and gives it a new receipt.

use core::time::Duration;
use std::pin::pin;

use async_trait::async_trait;
use rusqlite::{Connection, params};
use stepwell_core::limits::{MESSAGE_DELAY_MAX, PAGE_MAX};
use stepwell_core::{Message, Timestamp};
use stepwell_ports::{Delivery, Envelope, QueueError, Receipt, RunQueue};

use crate::Local;
use crate::fault::Abort;
use crate::sum::{count, int};

/// How often an idle receiver looks for messages of other processes. Those of its own wake it at once.
const POLL: Duration = Duration::from_millis(50);

const SEND: &str = "INSERT INTO messages (body, visible_at, receives, receipt) VALUES (?1, ?2, 0, 0)";
const NEXT: &str = "SELECT min(visible_at) FROM messages";
const VISIBLE: &str = "SELECT id, body, receives FROM messages WHERE visible_at <= ?1 ORDER BY visible_at LIMIT ?2";
const CLAIM: &str = "UPDATE messages SET visible_at = ?2, receives = ?3, receipt = ?4 WHERE id = ?1";
const DELETE: &str = "DELETE FROM messages WHERE id = ?1 AND receipt = ?2";
const EXTEND: &str = "UPDATE messages SET visible_at = ?3 WHERE id = ?1 AND receipt = ?2";
const BURY: &str = "INSERT INTO dead_letters (body, reason, receives, buried_at)
    SELECT body, ?3, receives, ?4 FROM messages WHERE id = ?1 AND receipt = ?2";
const DEAD_LETTERS: &str = "SELECT body, reason, receives, buried_at FROM dead_letters ORDER BY id DESC LIMIT ?1";

/// A message that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its body as it was sent.
    pub body: String,
    /// Why it was given up.
    pub reason: String,
    /// How often it was delivered.
    pub receives: u32,
    /// When it was given up.
    pub at: Timestamp,
}

#[async_trait]
impl RunQueue for Local {
    async fn send(&self, envelopes: &[Envelope]) -> Result<(), QueueError> {
        if let Some(late) = envelopes.iter().find(|envelope| envelope.delay > MESSAGE_DELAY_MAX) {
            return Err(QueueError::Invalid(format!(
                "run {}: a delay of {:?} is over the limit of {MESSAGE_DELAY_MAX:?}",
                late.message.run, late.delay
            )));
        }
        if envelopes.is_empty() {
            return Ok(());
        }
        let now = self.inner.clock.now();
        let rows: Vec<_> = envelopes.iter().map(|one| (one.message.to_text(), visible_at(now, one.delay))).collect();
        let send = move |db: &Connection| {
            let mut statement = db.prepare_cached(SEND)?;
            rows.iter().try_for_each(|(body, visible_at)| statement.execute(params![body, visible_at]).map(drop))?;
            Ok(())
        };
        self.inner.writer.run(send).await?;
        self.inner.arrived.notify_waiters();
        Ok(())
    }

    async fn receive(&self, max: usize, visibility: Duration, wait: Duration) -> Result<Vec<Delivery>, QueueError> {
        let max = max.min(PAGE_MAX);
        if max == 0 {
            return Ok(Vec::new());
        }
        let clock = &self.inner.clock;
        let deadline = clock.now().plus(wait);
        loop {
            // Listens before it looks, so that what is sent in between is heard.
            let mut arrived = pin!(self.inner.arrived.notified());
            arrived.as_mut().enable();
            // To look costs a read. Only what is there to take costs a write.
            let next = self.inner.readers.read(next_visible)?;
            let now = clock.now();
            if next.is_some_and(|at| at <= now) {
                let taken = self.inner.writer.run(move |db| claim(db, max, now, visibility)).await?;
                if !taken.is_empty() {
                    return Ok(taken);
                }
                // Another receiver was faster.
                continue;
            }
            if now >= deadline {
                return Ok(Vec::new());
            }
            let until = next.map_or(deadline, |at| at.min(deadline));
            tokio::select! {
                () = arrived => {}
                () = clock.sleep(until.since(now).min(POLL)) => {}
            }
        }
    }

    async fn delete(&self, receipts: &[Receipt]) -> Result<(), QueueError> {
        let keys: Vec<_> = receipts.iter().filter_map(key).collect();
        if keys.is_empty() {
            return Ok(());
        }
        let delete = move |db: &Connection| {
            let mut statement = db.prepare_cached(DELETE)?;
            keys.iter().try_for_each(|(id, receipt)| statement.execute(params![id, receipt]).map(drop))?;
            Ok(())
        };
        Ok(self.inner.writer.run(delete).await?)
    }

    async fn extend(&self, receipt: &Receipt, visibility: Duration) -> Result<(), QueueError> {
        let Some((id, receipt)) = key(receipt) else { return Ok(()) };
        let until = visible_at(self.inner.clock.now(), visibility);
        let extend = move |db: &Connection| {
            db.prepare_cached(EXTEND)?.execute(params![id, receipt, until])?;
            Ok(())
        };
        self.inner.writer.run(extend).await?;
        self.inner.arrived.notify_waiters();
        Ok(())
    }

    async fn bury(&self, delivery: &Delivery, reason: &str) -> Result<(), QueueError> {
        let Some((id, receipt)) = key(&delivery.receipt) else { return Ok(()) };
        let (reason, now) = (reason.to_owned(), self.inner.clock.now());
        Ok(self.inner.writer.run(move |db| bury(db, id, receipt, &reason, now)).await?)
    }
}

impl Local {
    /// The messages that were given up last, at most `limit`, newest first.
    ///
    /// # Errors
    /// [`QueueError::Unavailable`] when the database cannot be read.
    pub fn dead_letters(&self, limit: usize) -> Result<Vec<DeadLetter>, QueueError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let read = |db: &Connection| -> Result<Vec<DeadLetter>, Abort> {
            let mut statement = db.prepare_cached(DEAD_LETTERS)?;
            let letter = |row: &rusqlite::Row<'_>| {
                let at = Timestamp(count(row.get(3)?));
                Ok(DeadLetter { body: row.get(0)?, reason: row.get(1)?, receives: row.get(2)?, at })
            };
            let letters = statement.query_map([limit], letter)?;
            Ok(letters.collect::<Result<_, _>>()?)
        };
        Ok(self.inner.readers.read(read)?)
    }
}

/// When the next message becomes visible.
fn next_visible(db: &Connection) -> Result<Option<Timestamp>, Abort> {
    let next: Option<i64> = db.prepare_cached(NEXT)?.query_row([], |row| row.get(0))?;
    Ok(next.map(|at| Timestamp(count(at))))
}

/// Takes messages that are visible. One that is none of ours goes to the dead letters.
fn claim(db: &Connection, max: usize, now: Timestamp, visibility: Duration) -> Result<Vec<Delivery>, Abort> {
    let mut statement = db.prepare_cached(VISIBLE)?;
    let columns = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let visible = statement.query_map(params![visible_at(now, Duration::ZERO), int(max as u64)], columns)?;
    let visible: Vec<(i64, String, u32)> = visible.collect::<Result<_, _>>()?;
    let mut taken = Vec::with_capacity(visible.len());
    for (id, body, receives) in visible {
        let (receipt, receives) = (fastrand::i64(1..), receives.saturating_add(1));
        db.prepare_cached(CLAIM)?.execute(params![id, visible_at(now, visibility), receives, receipt])?;
        match Message::parse(&body) {
            Ok(message) => taken.push(Delivery { message, receipt: Receipt(format!("{id}.{receipt:x}")), receives }),
            Err(error) => bury(db, id, receipt, &error.to_string(), now)?,
        }
    }
    Ok(taken)
}

fn bury(db: &Connection, id: i64, receipt: i64, reason: &str, now: Timestamp) -> Result<(), Abort> {
    db.prepare_cached(BURY)?.execute(params![id, receipt, reason, int(now.0)])?;
    db.prepare_cached(DELETE)?.execute(params![id, receipt])?;
    Ok(())
}

/// A time of visibility as it is stored, in order.
fn visible_at(now: Timestamp, delay: Duration) -> i64 {
    i64::try_from(now.plus(delay).0).unwrap_or(i64::MAX)
}

/// A message's number and its current receipt. What is none of ours names a delivery that is gone.
fn key(receipt: &Receipt) -> Option<(i64, i64)> {
    let (id, receipt) = receipt.0.split_once('.')?;
    Some((id.parse().ok()?, i64::from_str_radix(receipt, 16).ok()?))
}
