//! A folder of runs, on the embedded backend.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use stepwell_core::RunId;
use stepwell_core::limits::PAGE_MAX;
use stepwell_engine::{ClientError, Ports, Remedy};
use stepwell_local::{Local, Options};
use stepwell_ports::system::{SystemClock, SystemIds};
use stepwell_ports::{BlobError, BlobStore, CheckpointStore, Clock as _, ListQuery, StoreError};

use super::Backend;
use crate::args::Cli;
use crate::errors::CliError;
use crate::program;
use crate::view::{Finding, Standing, count};

/// Where runs are when nobody says otherwise.
const DEFAULT_FOLDER: &str = ".stepwell";

const POLL: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(100);

/// Damaged runs that are named.
const DAMAGED_NAMED: usize = 10;

/// The folder that a command works on.
pub(super) fn of(cli: &Cli) -> PathBuf {
    cli.data.clone().unwrap_or_else(|| DEFAULT_FOLDER.into())
}

pub(super) fn open(dir: &Path) -> Result<Backend, CliError> {
    open_with(dir, Options::default())
}

pub(super) fn open_existing(dir: &Path) -> Result<Backend, CliError> {
    open_with(dir, Options { create: false, ..Options::default() })
}

fn open_with(dir: &Path, options: Options) -> Result<Backend, CliError> {
    let clock = Arc::new(SystemClock);
    let local = Local::open(dir, Arc::clone(&clock) as _, options)?;
    let ports =
        Ports { store: local.store(), queue: local.queue(), blobs: local.blobs(), clock, ids: Arc::new(SystemIds) };
    let (place, mover) = (dir.display().to_string(), format!("`{} worker`", program::name()));
    Ok(Backend { ports, place, mover, flag: "", poll: POLL, look: LOOK, letters: Ok(local) })
}

/// Reads every run, and writes a blob: what a worker would stumble over.
pub(super) async fn examine(dir: &Path) -> Result<Vec<Finding>, CliError> {
    let backend = match open_existing(dir) {
        Ok(backend) => backend,
        // The wrong folder, or not now: there is nothing to find.
        Err(error) if error.remedy() != Remedy::CallAPerson => return Err(error),
        Err(error) => {
            let mend = "use newer code for newer data; bring damaged data back from a backup";
            return Ok(vec![Finding::new("folder", Standing::Fail, error.text(), mend)]);
        }
    };
    let mut findings = vec![Finding::ok("folder", format!("{} can be read", backend.place()))];
    findings.extend(runs(&*backend.ports().store).await?);
    findings.push(letters(backend.dead_letters(PAGE_MAX)?.len()));
    findings.push(disk(&*backend.ports().blobs).await?);
    Ok(findings)
}

/// Each run carries checksums; reading it holds it against them.
async fn runs(store: &dyn CheckpointStore) -> Result<Vec<Finding>, CliError> {
    const MEND: &str = "move the folder away and bring it back from a backup; the other runs go on";
    let (mut sound, mut damaged) = (0, Vec::new());
    let mut query = ListQuery { limit: PAGE_MAX, ..ListQuery::default() };
    loop {
        let page = match store.list(&query).await {
            Ok(page) => page,
            Err(StoreError::Damaged(words)) => {
                damaged.push(words);
                break;
            }
            Err(error) => return Err(ClientError::from(error).into()),
        };
        damaged.extend(page.damaged.into_iter().map(|damaged| damaged.what));
        for run in page.items {
            match store.load(&run.run).await {
                Ok(_) => sound += 1,
                Err(StoreError::Damaged(words)) => damaged.push(words),
                Err(error) => return Err(ClientError::from(error).into()),
            }
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let found = format!("{} read and sound; logs, histories and blobs were not read", count(sound, "run"));
    let unnamed = damaged.len().saturating_sub(DAMAGED_NAMED);
    let fail = |words| Finding::new("runs", Standing::Fail, words, MEND);
    let mut findings: Vec<Finding> = damaged.into_iter().take(DAMAGED_NAMED).map(fail).collect();
    if unnamed > 0 {
        findings.push(fail(format!("and {unnamed} more like these")));
    }
    findings.push(Finding::ok("runs", found));
    Ok(findings)
}

fn letters(number: usize) -> Finding {
    if number == 0 {
        return Finding::ok("dead-letters", "none".into());
    }
    let more = if number == PAGE_MAX { " or more" } else { "" };
    let found = format!("{}{more} given up", count(number as u64, "message"));
    let mend = format!("`{} dead-letters` shows why, `show` tells how their runs stand", program::name());
    Finding::new("dead-letters", Standing::Warn, found, mend)
}

/// A blob of a run that nobody has, which is deleted at once.
async fn disk(blobs: &dyn BlobStore) -> Result<Finding, CliError> {
    let name = format!("doctor-{}-{}", std::process::id(), SystemClock.now().0);
    let run = RunId::new(name).map_err(ClientError::from)?;
    let tried: Result<(), BlobError> = async {
        let blob = blobs.put(&run, b"probe").await?;
        blobs.get(&blob).await?;
        blobs.delete_run(&run).await
    }
    .await;
    Ok(match tried {
        Ok(()) => Finding::ok("disk", "a blob was written, read and deleted".into()),
        Err(error) => {
            let mend = "make room on the disk, and let this user write to the folder";
            Finding::new("disk", Standing::Fail, error.to_string(), mend)
        }
    })
}
