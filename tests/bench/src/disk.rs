//! What the disk can do by itself, and what this process has used.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Outcome;

const BLOCK: usize = 4_096;

/// A file of 4 KiB, to find out how long the disk takes to write them over themselves and sync them: the least that a
/// durable step can cost. A disk may change its mind from one second to the next, so it is asked in between the steps.
pub(crate) struct SyncProbe(File);

impl SyncProbe {
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        let mut file = File::create(dir.join("probe"))?;
        file.write_all(&[0; BLOCK])?;
        file.sync_all()?;
        Ok(Self(file))
    }

    /// Writes and syncs once.
    pub(crate) fn time(&self) -> io::Result<Duration> {
        let block = [fastrand::u8(..); BLOCK];
        let began = Instant::now();
        overwrite(&self.0, &block)?;
        self.0.sync_data()?;
        Ok(began.elapsed())
    }
}

#[cfg(unix)]
fn overwrite(file: &File, block: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, block, 0)
}

#[cfg(not(unix))]
fn overwrite(mut file: &File, block: &[u8]) -> io::Result<()> {
    io::Seek::rewind(&mut file)?;
    file.write_all(block)
}

/// Bytes that this process has caused to be written, as the kernel counts them. `None` where it does not.
pub(crate) fn written() -> Option<u64> {
    field("/proc/self/io", "write_bytes:")
}

/// Nanoseconds that this process's threads have spent on a processor. `None` where the kernel does not say.
pub(crate) fn processor_nanos() -> Option<u64> {
    let mut nanos = 0;
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        // A thread may end in between.
        if let Ok(text) = std::fs::read_to_string(thread.ok()?.path().join("schedstat")) {
            nanos += text.split_whitespace().next()?.parse::<u64>().ok()?;
        }
    }
    Some(nanos)
}

/// The most memory that this process has had, in KiB. `None` where the kernel does not say.
pub(crate) fn peak_memory() -> Option<u64> {
    field("/proc/self/status", "VmHWM:")
}

fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Bytes of the files in a folder.
pub(crate) fn size(dir: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let about = entry.metadata()?;
        bytes += if about.is_dir() { size(&entry.path())? } else { about.len() };
    }
    Ok(bytes)
}
