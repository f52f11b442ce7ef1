//! A checkpoint as the columns of one row of `runs`: four parts, each with a checksum of its own, so that a commit need
//! not read the parts that it leaves alone.
//!
//! | part | columns | written by |
//! | --- | --- | --- |
//! | head | `workflow`, `started_at`, `input_digest` | the start |
//! | hold | `hold`, copies out of it, `due_at` | every write |
//! | mail | `mailbox`, `cancel` | signals, cancellations, and commits that consume |
//! | progress | `progress`, and copies out of it | commits and amendments |

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Row, Statement, ToSql};
use stepwell_core::stored::{FORMAT, StoredError};
use stepwell_core::{
    CancelRequest, Checkpoint, Digest, Hold, Mailbox, Phase, Progress, RunId, Status, Timestamp, WorkflowName,
};
use stepwell_ports::StoreError;

use crate::fault::Abort;
use crate::sum::{Sum, count, int, time, timestamp};

/// Bytes of a checkpoint besides its JSON, closely: names and numbers.
const FIXED_BYTES: usize = 256;

/// The columns that a commit without letters leaves alone, in the order in which [`Standing::read`] reads them.
macro_rules! standing_columns {
    () => {
        "id, workflow, started_at, input_digest, head_crc, mailbox_seq, mailbox, cancel, mail_crc"
    };
}
pub(crate) use standing_columns;

/// All columns, in the order in which [`Stored::read`] reads them.
macro_rules! stored_columns {
    () => {
        concat!(
            $crate::row::standing_columns!(),
            ", format, fence, write_id, lease_until, hold, due_at, hold_crc, ticket, revision, visit, phase, wakes_at, \
             wait_seen, progress_crc, progress"
        )
    };
}
pub(crate) use stored_columns;

/// Hold, mark and progress, ready to be bound: what a holder's write brings along.
pub(crate) struct Body<'a> {
    pub(crate) hold: &'a EncodedHold,
    pub(crate) progress: &'a EncodedProgress,
}

/// A hold and the watchdog's mark as they are stored.
pub(crate) struct EncodedHold {
    fence: i64,
    write: i64,
    lease_until: Option<i64>,
    json: Vec<u8>,
    due_at: Option<i64>,
    crc: i64,
}

/// Progress as it is stored.
pub(crate) struct EncodedProgress {
    ticket: i64,
    revision: i64,
    visit: i64,
    phase: Phase,
    /// Its own time, and the signals that it has looked at: they say when the run wakes by itself.
    wake: [Option<i64>; 2],
    json: Vec<u8>,
    crc: i64,
}

impl EncodedHold {
    pub(crate) fn of(run: &RunId, hold: &Hold, due_at: Option<Timestamp>) -> Result<Self, StoreError> {
        let [fence, write] = [hold.fence.0, hold.write.0].map(int);
        let (lease_until, due_at) = (time(hold.lease.as_ref().map(|lease| lease.until)), time(due_at));
        let json = encode(run, hold)?;
        let crc = hold_sum(run, [fence, write], &json, [lease_until, due_at]);
        Ok(Self { fence, write, lease_until, json, due_at, crc })
    }
}

impl EncodedProgress {
    pub(crate) fn of(run: &RunId, progress: &Progress) -> Result<Self, StoreError> {
        Ok(Self::with_json(run, progress, encode(run, progress)?))
    }

    fn with_json(run: &RunId, progress: &Progress, json: Vec<u8>) -> Self {
        let [ticket, revision, visit] = [progress.ticket.0, progress.revision.0, progress.visit.0].map(int);
        let (phase, wake) = (progress.status.phase(), wake(&progress.status));
        let crc = progress_sum(run, [ticket, revision, visit], phase.as_str().as_bytes(), wake, &json);
        Self { ticket, revision, visit, phase, wake, json, crc }
    }
}

impl Body<'_> {
    /// Bytes of the checkpoint without mailbox and cancellation.
    pub(crate) fn weight(&self) -> usize {
        self.hold.json.len() + self.progress.json.len() + FIXED_BYTES
    }

    /// Binds the parameters 1 to 15, the same in every statement that writes.
    pub(crate) fn bind(&self, to: &mut Statement<'_>) -> rusqlite::Result<()> {
        let Self { hold, progress } = self;
        to.raw_bind_parameter(1, hold.fence)?;
        to.raw_bind_parameter(2, hold.write)?;
        to.raw_bind_parameter(3, hold.lease_until)?;
        to.raw_bind_parameter(4, Text(&hold.json))?;
        to.raw_bind_parameter(5, hold.due_at)?;
        to.raw_bind_parameter(6, hold.crc)?;
        to.raw_bind_parameter(7, progress.ticket)?;
        to.raw_bind_parameter(8, progress.revision)?;
        to.raw_bind_parameter(9, progress.visit)?;
        to.raw_bind_parameter(10, progress.phase.as_str())?;
        to.raw_bind_parameter(11, progress.wake[0])?;
        to.raw_bind_parameter(12, progress.wake[1])?;
        to.raw_bind_parameter(13, progress.crc)?;
        to.raw_bind_parameter(14, Text(&progress.json))?;
        to.raw_bind_parameter(15, FORMAT)
    }
}

/// JSON that was just written: bound as text without being checked again.
struct Text<'a>(&'a [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

/// Mailbox and cancellation, encoded.
pub(crate) struct Mail {
    seq: i64,
    mailbox: Option<Vec<u8>>,
    cancel: Option<Vec<u8>>,
    crc: i64,
}

impl Mail {
    pub(crate) fn of(checkpoint: &Checkpoint) -> Result<Self, StoreError> {
        let (run, mailbox) = (&checkpoint.run, &checkpoint.mailbox);
        let seq = int(mailbox.seq.0);
        let mailbox = (*mailbox != Mailbox::default()).then(|| encode(run, mailbox)).transpose()?;
        let cancel = checkpoint.cancel.as_ref().map(|cancel| encode(run, cancel)).transpose()?;
        let crc = mail_sum(run, seq, mailbox.as_deref(), cancel.as_deref());
        Ok(Self { seq, mailbox, cancel, crc })
    }

    pub(crate) fn weight(&self) -> usize {
        self.mailbox.as_ref().map_or(0, Vec::len) + self.cancel.as_ref().map_or(0, Vec::len)
    }

    /// Binds the parameters 17 to 20.
    pub(crate) fn bind(&self, to: &mut Statement<'_>) -> rusqlite::Result<()> {
        to.raw_bind_parameter(17, self.seq)?;
        to.raw_bind_parameter(18, self.mailbox.as_deref().map(Text))?;
        to.raw_bind_parameter(19, self.cancel.as_deref().map(Text))?;
        to.raw_bind_parameter(20, self.crc)
    }
}

/// Binds the parameters 21 to 24: the head.
pub(crate) fn bind_head(checkpoint: &Checkpoint, to: &mut Statement<'_>) -> rusqlite::Result<()> {
    let (workflow, started_at) = (checkpoint.workflow.as_str(), int(checkpoint.started_at.0));
    let digest: &[u8] = &checkpoint.input_digest.0;
    to.raw_bind_parameter(21, workflow)?;
    to.raw_bind_parameter(22, started_at)?;
    to.raw_bind_parameter(23, digest)?;
    to.raw_bind_parameter(24, head_sum(&checkpoint.run, workflow.as_bytes(), started_at, digest))
}

/// What a commit without letters leaves alone.
pub(crate) struct Standing {
    /// The row's number, which log entries, segments and effects refer to.
    pub(crate) id: i64,
    pub(crate) workflow: WorkflowName,
    pub(crate) started_at: Timestamp,
    pub(crate) input_digest: Digest,
    pub(crate) mailbox: Mailbox,
    pub(crate) cancel: Option<CancelRequest>,
}

impl Standing {
    pub(crate) fn read(run: &RunId, row: &Row<'_>) -> Result<Self, Abort> {
        let (workflow, started, digest) = (bytes(row, 1)?, row.get(2)?, bytes(row, 3)?);
        intact(run, "head", head_sum(run, workflow, started, digest), row.get(4)?)?;
        let (seq, mailbox, cancel): (i64, _, _) = (row.get(5)?, maybe_bytes(row, 6)?, maybe_bytes(row, 7)?);
        intact(run, "mailbox", mail_sum(run, seq, mailbox, cancel), row.get(8)?)?;
        Ok(Self {
            id: row.get(0)?,
            workflow: WorkflowName::new(String::from_utf8_lossy(workflow)).map_err(|error| unreadable(run, &error))?,
            started_at: Timestamp(count(started)),
            input_digest: Digest(digest.try_into().map_err(|error| unreadable(run, &error))?),
            mailbox: mailbox.map(|json| parse(run, json)).transpose()?.unwrap_or_default(),
            cancel: cancel.map(|json| parse(run, json)).transpose()?,
        })
    }

    /// The whole checkpoint.
    pub(crate) fn with(self, run: RunId, hold: Hold, due_at: Option<Timestamp>, progress: Progress) -> Checkpoint {
        let Self { id: _, workflow, started_at, input_digest, mailbox, cancel } = self;
        Checkpoint { run, workflow, started_at, input_digest, hold, progress, mailbox, cancel, due_at }
    }
}

/// A whole row.
pub(crate) struct Stored {
    pub(crate) id: i64,
    pub(crate) checkpoint: Checkpoint,
    /// Its progress as it is stored.
    pub(crate) progress: EncodedProgress,
}

impl Stored {
    pub(crate) fn read(run: &RunId, row: &Row<'_>) -> Result<Self, Abort> {
        let format: i64 = row.get(9)?;
        if format > i64::from(FORMAT) {
            let newer = StoredError::Newer { found: u16::try_from(format).unwrap_or(u16::MAX) };
            return Err(Abort::Damaged(format!("run {run}: {newer}")));
        }
        let (lease_until, hold, due_at) = (row.get(12)?, bytes(row, 13)?, row.get(14)?);
        intact(run, "lease", hold_sum(run, [row.get(10)?, row.get(11)?], hold, [lease_until, due_at]), row.get(15)?)?;
        let copies = [row.get(16)?, row.get(17)?, row.get(18)?];
        let (phase, wake, json) = (bytes(row, 19)?, [row.get(20)?, row.get(21)?], bytes(row, 23)?);
        intact(run, "progress", progress_sum(run, copies, phase, wake, json), row.get(22)?)?;
        let progress: Progress = parse(run, json)?;
        let encoded = EncodedProgress::with_json(run, &progress, json.to_vec());
        let standing = Standing::read(run, row)?;
        let id = standing.id;
        let checkpoint = standing.with(run.clone(), parse(run, hold)?, timestamp(due_at), progress);
        Ok(Self { id, checkpoint, progress: encoded })
    }
}

/// Checks a part against its checksum.
pub(crate) fn intact(run: &RunId, what: &str, found: i64, stored: i64) -> Result<(), Abort> {
    if found == stored {
        return Ok(());
    }
    Err(Abort::Damaged(format!(
        "run {run}: its stored {what} does not match its checksum: it was changed from outside, or the disk is failing; \
         keep a copy of the folder, then restore it from a backup"
    )))
}

/// Reads JSON whose checksum was right.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(run: &RunId, json: &[u8]) -> Result<T, Abort> {
    serde_json::from_slice(json).map_err(|error| unreadable(run, &error))
}

/// JSON is there, and it is not what this code writes.
pub(crate) fn unreadable(run: &RunId, error: &dyn core::fmt::Display) -> Abort {
    Abort::Damaged(format!("run {run}: {}", StoredError::Damaged(error.to_string())))
}

fn encode<T: serde::Serialize>(run: &RunId, value: &T) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value)
        .map_err(|error| StoreError::Invalid(format!("run {run}: it cannot be written as JSON: {error}")))
}

fn bytes<'row>(row: &'row Row<'_>, column: usize) -> Result<&'row [u8], Abort> {
    maybe_bytes(row, column).map(Option::unwrap_or_default)
}

fn maybe_bytes<'row>(row: &'row Row<'_>, column: usize) -> Result<Option<&'row [u8]>, Abort> {
    let value = row.get_ref(column)?;
    value
        .as_bytes_or_null()
        .map_err(|_| Abort::Sql(rusqlite::Error::InvalidColumnType(column, String::new(), value.data_type())))
}

fn head_sum(run: &RunId, workflow: &[u8], started_at: i64, digest: &[u8]) -> i64 {
    Sum::of(run.as_str()).bytes(workflow).int(started_at).bytes(digest).end()
}

fn hold_sum(run: &RunId, copies: [i64; 2], json: &[u8], times: [Option<i64>; 2]) -> i64 {
    Sum::of(run.as_str()).ints(copies).bytes(json).maybe_ints(times).end()
}

fn mail_sum(run: &RunId, seq: i64, mailbox: Option<&[u8]>, cancel: Option<&[u8]>) -> i64 {
    Sum::of(run.as_str()).int(seq).maybe_bytes(mailbox).maybe_bytes(cancel).end()
}

fn progress_sum(run: &RunId, copies: [i64; 3], phase: &[u8], wake: [Option<i64>; 2], json: &[u8]) -> i64 {
    Sum::of(run.as_str()).ints(copies).bytes(phase).maybe_ints(wake).bytes(json).end()
}

/// The time that a run sleeps until, and the signals that it has looked at. The index makes of them what
/// [`Checkpoint::wakes_at`] makes of the whole.
fn wake(status: &Status) -> [Option<i64>; 2] {
    match status {
        Status::Retrying { at } => [time(Some(*at)), None],
        Status::Waiting(wait) => [time(wait.wakes_at()), Some(int(wait.seen.0))],
        Status::Created
        | Status::Running
        | Status::Parked { .. }
        | Status::Completed { .. }
        | Status::Failed { .. }
        | Status::Cancelled { .. } => [None, None],
    }
}
