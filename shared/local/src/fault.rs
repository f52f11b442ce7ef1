//! What SQLite reports, cut by what the caller can do about it.

use std::path::Path;

use rusqlite::ErrorCode;
use stepwell_ports::{QueueError, StoreError};

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Another process holds the database for longer than we wait. Nothing was written.
    Busy(String),
    /// It cannot be written or read now. Nothing was written.
    Unavailable(String),
    /// The log was written, but the disk did not confirm it.
    MaybeWritten(String),
    /// It is too large for the database. Nothing was written.
    Refused(String),
    /// What is stored cannot be used. Nothing was written.
    Damaged(String),
}

/// Why a job gave up in the middle of its transaction, which is rolled back then.
#[derive(Debug)]
pub(crate) enum Abort {
    /// SQLite says so.
    Sql(rusqlite::Error),
    /// The stored bytes are not what was written.
    Damaged(String),
    /// It panicked.
    Panic,
}

impl From<rusqlite::Error> for Abort {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl Fault {
    /// The fault of work that is rolled back, or only read.
    pub(crate) fn of(abort: &Abort, file: &Path) -> Self {
        match abort {
            Abort::Damaged(what) => Self::Damaged(what.clone()),
            Abort::Panic => Self::Refused("it makes the store panic: this is a defect, please report it".into()),
            Abort::Sql(error) => Self::of_sql(error, file),
        }
    }

    /// The fault of a `COMMIT`. A sync that failed leaves it open whether the log has reached the disk.
    pub(crate) fn of_commit(error: &rusqlite::Error, file: &Path) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::SystemIoFailure) => {
                Self::MaybeWritten(format!("writing {} failed: {error}", file.display()))
            }
            _ => Self::of_sql(error, file),
        }
    }

    /// The fault of one statement.
    pub(crate) fn of_sql(error: &rusqlite::Error, file: &Path) -> Self {
        let file = file.display();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy(format!("another process holds {file}"))
            }
            Some(ErrorCode::DiskFull) => Self::Unavailable(format!(
                "the disk is full, or the size limit is reached: make room for {file}, then try again"
            )),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(format!(
                "{file} is damaged ({error}): stop every process that uses it, keep a copy, restore a backup"
            )),
            Some(ErrorCode::TooBig) => Self::Refused(format!("it does not fit {file}: {error}")),
            Some(_) => Self::Unavailable(format!("{file}: {error}")),
            // Not SQLite's own: a column does not hold what its type says.
            None => Self::Damaged(format!("{file}: {error}")),
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Busy(why) => Self::Throttled(why),
            Fault::Unavailable(why) => Self::Unavailable(why),
            Fault::MaybeWritten(why) => Self::Unknown(why),
            Fault::Refused(why) => Self::Invalid(why),
            Fault::Damaged(why) => Self::Damaged(why),
        }
    }
}

impl From<Fault> for QueueError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Busy(why) | Fault::Unavailable(why) | Fault::MaybeWritten(why) | Fault::Damaged(why) => {
                Self::Unavailable(why)
            }
            Fault::Refused(why) => Self::Invalid(why),
        }
    }
}
