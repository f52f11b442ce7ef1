//! # stepwell-local: the embedded durable backend
//!
//! **What lives here:** every port of `stepwell-ports` on one machine: a SQLite database and a folder of blobs ([`Local`]),
//! and the same without durability ([`memory`]).
//!
//! **What must not live here:** decisions about a run. What a write does is `stepwell_core::write::apply`, called inside a
//! transaction; the one exception is the commit of a step, which is a conditional update and held to the same answers.
//!
//! Several processes may use one folder at once. What was answered is on the disk: it survives a crash of the process and
//! a loss of power.

mod aside;
mod blobs;
mod fault;
mod listing;
pub mod memory;
mod open;
mod queue;
mod readers;
mod row;
mod schema;
mod stats;
mod store;
mod sum;
mod table;
mod turn;
mod writer;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_ports::{BlobStore, CheckpointStore, Clock, RunQueue};
use tokio::sync::Notify;

pub use open::{OpenError, Options};
pub use queue::DeadLetter;
pub use stats::Stats;

use readers::Readers;
use stats::Counters;
use writer::Writer;

/// Store, queue and blobs in one folder. A clone is another handle to the same. Dropping the last one waits until what was
/// asked for is written, and closes the database.
///
/// ```
/// use std::sync::Arc;
/// use stepwell_local::{Local, Options};
/// use stepwell_ports::system::SystemClock;
/// use stepwell_ports::CheckpointStore;
/// # let dir = tempfile::tempdir()?;
/// # let dir = dir.path();
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let local = Local::open(dir, Arc::new(SystemClock), Options::default())?;
/// assert!(local.load(&stepwell_core::RunId::new("r1")?).await?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Local {
    inner: Arc<Inner>,
}

struct Inner {
    // Dropped first: it writes what is waiting.
    writer: Writer,
    readers: Readers,
    blobs: PathBuf,
    clock: Arc<dyn Clock>,
    /// Told of every message that this process makes visible.
    arrived: Notify,
    counters: Arc<Counters>,
}

impl Local {
    /// Opens a folder, or makes a new one where [`Options::create`] allows it. The database is `stepwell.db` in it (with SQLite's `-wal` and `-shm` beside it
    /// while it is open), the blobs are under `blobs/`, and `stepwell.lock` is how processes take turns. Blocks for some milliseconds.
    ///
    /// # Errors
    /// See [`OpenError`]. Nothing is changed then.
    pub fn open(dir: &Path, clock: Arc<dyn Clock>, options: Options) -> Result<Self, OpenError> {
        let folder = open::Folder::open(dir, options)?;
        let db = folder.connect_writer()?;
        let dir = &folder.dir();
        let blobs = dir.join(open::BLOBS);
        let unusable = |error: std::io::Error| OpenError::Folder { dir: dir.clone(), why: error.to_string() };
        fs::create_dir_all(&blobs).and_then(|()| open::sync_dir(dir)).map_err(unusable)?;
        let counters = Arc::<Counters>::default();
        let turnstile = folder.turnstile().map_err(unusable)?;
        let writer = Writer::start(db, folder.file.clone(), turnstile, Arc::clone(&counters)).map_err(unusable)?;
        let readers = Readers::new(folder);
        Ok(Self { inner: Arc::new(Inner { writer, readers, blobs, clock, arrived: Notify::new(), counters }) })
    }

    /// The store of checkpoints.
    pub fn store(&self) -> Arc<dyn CheckpointStore> {
        Arc::new(self.clone())
    }

    /// The queue.
    pub fn queue(&self) -> Arc<dyn RunQueue> {
        Arc::new(self.clone())
    }

    /// The blobs.
    pub fn blobs(&self) -> Arc<dyn BlobStore> {
        Arc::new(self.clone())
    }

    /// What this process has written through this folder's handles.
    pub fn stats(&self) -> Stats {
        self.inner.counters.read()
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("blobs", &self.inner.blobs).field("stats", &self.stats()).finish_non_exhaustive()
    }
}
