//! Connections for reading. Each sees what was committed before it asks, and never waits for the writer.

use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use crate::fault::{Abort, Fault};
use crate::open::Folder;

pub(crate) struct Readers {
    folder: Folder,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(crate) fn new(folder: Folder) -> Self {
        Self { folder, idle: Mutex::default() }
    }

    /// Reads with an idle connection, or a new one.
    pub(crate) fn read<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Abort>) -> Result<T, Fault> {
        let idle = self.lock().pop();
        let fault = |abort: Abort| Fault::of(&abort, &self.folder.file);
        let db = idle.map_or_else(|| self.folder.connect_reader(), Ok).map_err(|error| fault(error.into()))?;
        // A connection whose work failed is closed: the next one starts afresh.
        let read = work(&db).map_err(fault)?;
        let mut idle = self.lock();
        if idle.len() < self.folder.options.readers {
            idle.push(db);
        }
        Ok(read)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
