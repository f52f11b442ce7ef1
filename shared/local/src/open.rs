//! Opening the folder: what may be there, what is made new, and how a connection is set up.

use core::time::Duration;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::schema;
use crate::turn::{Turnstile, pause};

/// The database's file in its folder.
const FILE: &str = "stepwell.db";
/// The folder of blobs beside it.
pub(crate) const BLOBS: &str = "blobs";
/// Bytes of one page: what the smallest commit writes.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 64;

/// Settings of a [`Local`](crate::Local).
///
/// ```
/// use std::time::Duration;
/// let options = stepwell_local::Options { busy_wait: Duration::from_secs(1), ..Default::default() };
/// assert_eq!(options.size_limit, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long a write waits for another process to finish its own, before it is answered "busy".
    pub busy_wait: Duration,
    /// Connections that are kept for reading.
    pub readers: usize,
    /// The database does not grow over this many bytes, blobs not counted. A write that would is answered "unavailable".
    pub size_limit: Option<u64>,
    /// Whether folder and database are made where there are none. Otherwise that is answered with [`OpenError::Missing`].
    pub create: bool,
}

impl Default for Options {
    /// Five seconds, four readers, no limit of size; made where there is none.
    fn default() -> Self {
        Self { busy_wait: Duration::from_secs(5), readers: 4, size_limit: None, create: true }
    }
}

/// Why a folder cannot be opened. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Nothing is there, and [`Options::create`] says not to make it.
    #[error("there are no runs in the folder {} yet; give another folder, or start a run first", dir.display())]
    Missing {
        /// The folder.
        dir: PathBuf,
    },
    /// It cannot be made or written.
    #[error("the folder {} cannot be used: {why}; give a folder on a local disk that this user may write", dir.display())]
    Folder {
        /// The folder.
        dir: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file is there, and it is not ours.
    #[error("{} is not a database of stepwell: {why}; nothing was changed; give another folder", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
        /// What it is instead.
        why: String,
    },
    /// Newer code has written it.
    #[error("{} has version {found}, this code reads version {known}: deploy the newer code; nothing was changed", file.display())]
    Newer {
        /// The file.
        file: PathBuf,
        /// Its version.
        found: i32,
        /// The version that this code knows.
        known: i32,
    },
    /// It is ours, and broken.
    #[error("{} is damaged: {why}; nothing was changed; keep a copy of the folder, then restore it from a backup", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What was found.
        why: String,
    },
    /// It cannot be opened now.
    #[error("{} cannot be opened now: {why}; try again later", file.display())]
    Unavailable {
        /// The file.
        file: PathBuf,
        /// What is in the way.
        why: String,
    },
}

/// A folder that was looked at and is good to connect to.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    pub(crate) file: PathBuf,
    pub(crate) options: Options,
}

impl Folder {
    /// Looks at what is there; makes folder and database where there is none, if the options allow it.
    pub(crate) fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        let unusable = |error: std::io::Error| OpenError::Folder { dir: dir.to_path_buf(), why: error.to_string() };
        if options.create {
            fs::create_dir_all(dir).map_err(unusable)?;
        }
        // Connections are opened later too: a relative path would follow the process's working folder.
        let dir = &fs::canonicalize(dir).map_err(|error| match error.kind() {
            ErrorKind::NotFound if !options.create => OpenError::Missing { dir: dir.to_path_buf() },
            _ => unusable(error),
        })?;
        // SQLite holds paths as UTF-8 text.
        if dir.to_str().is_none() {
            return Err(OpenError::Folder { dir: dir.clone(), why: "its name is not UTF-8".into() });
        }
        let folder = Self { file: dir.join(FILE), options };
        match File::open(&folder.file) {
            Ok(file) => folder.look(file)?,
            Err(error) if error.kind() == ErrorKind::NotFound => folder.create(dir)?,
            Err(error) => return Err(unusable(error)),
        }
        Ok(folder)
    }

    /// A connection for the writer: checked for its version.
    pub(crate) fn connect_writer(&self) -> Result<Connection, OpenError> {
        let told = |error: rusqlite::Error| self.error(&error);
        let db = self.connect().map_err(told)?;
        // The first read finds out whether the file is as long as its header says.
        let version: i32 =
            db.query_row("SELECT user_version FROM pragma_user_version", [], |row| row.get(0)).map_err(told)?;
        if version > schema::VERSION {
            return Err(OpenError::Newer { file: self.file.clone(), found: version, known: schema::VERSION });
        }
        if db.is_readonly("main").map_err(told)? {
            return Err(OpenError::Folder { dir: self.dir(), why: format!("{FILE} is read-only") });
        }
        let mode: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(told)?;
        if mode != "wal" {
            let why = format!("its file system does not allow a write-ahead log (SQLite stays in mode {mode})");
            return Err(OpenError::Folder { dir: self.dir(), why });
        }
        db.execute_batch(schema::CLAIMS).map_err(told)?;
        if let Some(limit) = self.options.size_limit {
            let pages = u32::try_from(limit / PAGE_BYTES).unwrap_or(u32::MAX);
            db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).map_err(told)?;
        }
        Ok(db)
    }

    /// A connection for reading.
    pub(crate) fn connect_reader(&self) -> rusqlite::Result<Connection> {
        let db = self.connect()?;
        db.execute_batch("PRAGMA query_only = ON")?;
        Ok(db)
    }

    /// The lock by which processes take turns.
    pub(crate) fn turnstile(&self) -> std::io::Result<Turnstile> {
        Turnstile::open(&self.file.with_extension("lock"), self.options.busy_wait)
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.file.parent().map(Path::to_path_buf).unwrap_or_default()
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut db = Connection::open_with_flags(&self.file, flags)?;
        db.busy_handler(Some(patience(self.options.busy_wait)))?;
        db.set_prepared_statement_cache_capacity(STATEMENTS);
        db.execute_batch(
            "PRAGMA synchronous = FULL;
             PRAGMA fullfsync = ON;
             PRAGMA checkpoint_fullfsync = ON;
             PRAGMA wal_autocheckpoint = 0;
             PRAGMA journal_size_limit = 67108864;
             PRAGMA cache_size = -16384;
             PRAGMA temp_store = MEMORY;
             PRAGMA cell_size_check = ON;
             PRAGMA trusted_schema = OFF;
             PRAGMA foreign_keys = OFF;",
        )?;
        Ok(db)
    }

    /// Checks a file before SQLite is let near it: it would take an empty one for a new database.
    fn look(&self, mut file: File) -> Result<(), OpenError> {
        const HEADER: usize = 100;
        let unreadable =
            |error: std::io::Error| OpenError::Unavailable { file: self.file.clone(), why: error.to_string() };
        let foreign = |why: &str| OpenError::Foreign { file: self.file.clone(), why: why.into() };
        let mut header = Vec::with_capacity(HEADER);
        file.by_ref().take(HEADER as u64).read_to_end(&mut header).map_err(unreadable)?;
        if header.is_empty() {
            return Err(self.damaged("it is empty"));
        }
        if !header.starts_with(b"SQLite format 3\0") {
            return Err(foreign("it is no SQLite database"));
        }
        let application = header.get(68..72).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes);
        if application.is_some_and(|found| found != schema::APPLICATION) {
            return Err(foreign("another program has made it"));
        }
        // A crash may leave part of a page behind while the log is copied; the log has it whole then.
        let part_of_a_page = file.metadata().map_err(unreadable)?.len() % PAGE_BYTES != 0;
        if header.len() < HEADER || (part_of_a_page && fs::metadata(self.log()).map_or(0, |log| log.len()) == 0) {
            return Err(self.damaged("it was cut off"));
        }
        Ok(())
    }

    /// Makes a database under another name and gives it its own only when it is whole, so that a crash leaves none or
    /// a good one, and of two processes one wins.
    fn create(&self, dir: &Path) -> Result<(), OpenError> {
        if let Some(left) = self.left_behind(dir) {
            // Another process may have made it since it was looked for.
            let why = format!("it is gone, but {left} still there (to begin anew, move the folder away)");
            return if self.file.exists() { Ok(()) } else { Err(self.damaged(&why)) };
        }
        if !self.options.create {
            return Err(OpenError::Missing { dir: dir.to_path_buf() });
        }
        let unusable = |why: String| OpenError::Folder { dir: dir.to_path_buf(), why };
        let fresh = dir.join(format!("{FILE}.new-{:016x}", fastrand::u64(..)));
        let made = fill(&fresh).map_err(|error| unusable(error.to_string())).and_then(|()| {
            match fs::hard_link(&fresh, &self.file) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(unusable(error.to_string())),
                Ok(()) | Err(_) => Ok(()),
            }
        });
        // Whatever came of it, the other name has done its work.
        let _ = fs::remove_file(&fresh);
        made?;
        sync_dir(dir).map_err(|error| unusable(error.to_string()))
    }

    /// What only a database that was lost can have left.
    fn left_behind(&self, dir: &Path) -> Option<&'static str> {
        let has_blobs = fs::read_dir(dir.join(BLOBS)).is_ok_and(|mut entries| entries.next().is_some());
        if self.log().exists() { Some("its log is") } else { has_blobs.then_some("its blobs are") }
    }

    /// SQLite's log of what is not in the database yet.
    fn log(&self) -> PathBuf {
        self.file.with_extension("db-wal")
    }

    fn damaged(&self, why: &str) -> OpenError {
        OpenError::Damaged { file: self.file.clone(), why: why.into() }
    }

    fn error(&self, error: &rusqlite::Error) -> OpenError {
        let why = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => self.damaged(&why),
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                OpenError::Folder { dir: self.dir(), why }
            }
            _ => OpenError::Unavailable { file: self.file.clone(), why },
        }
    }
}

/// Fills a new file. Closing the only connection moves all of it out of the log and syncs it.
fn fill(file: &Path) -> rusqlite::Result<()> {
    let db = Connection::open(file)?;
    let (application, version) = (schema::APPLICATION, schema::VERSION);
    db.execute_batch(&format!(
        "PRAGMA page_size = {PAGE_BYTES}; PRAGMA application_id = {application}; PRAGMA user_version = {version};"
    ))?;
    db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    db.execute_batch("PRAGMA synchronous = FULL;")?;
    db.execute_batch(&format!("BEGIN; {} {} COMMIT;", schema::TABLES, schema::CLAIMS))?;
    db.close().map_err(|(_, error)| error)
}

/// Makes new names in a folder durable.
pub(crate) fn sync_dir(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Waits for a lock that another process holds, up to a limit in all.
fn patience(limit: Duration) -> impl FnMut(i32) -> bool + Send + 'static {
    let mut since = Instant::now();
    move |tries| {
        if tries == 0 {
            since = Instant::now();
        }
        pause(tries.unsigned_abs());
        since.elapsed() < limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kill of the process cannot tell whether the disk was asked to keep what was written: a loss of power would.
    #[test]
    fn the_writer_asks_the_disk_to_keep_each_commit() {
        let dir = tempfile::tempdir().unwrap();
        let db = Folder::open(dir.path(), Options::default()).unwrap().connect_writer().unwrap();
        let pragma = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(pragma("synchronous"), 2, "FULL");
        assert_eq!([pragma("fullfsync"), pragma("checkpoint_fullfsync")], [1, 1]);
    }
}
