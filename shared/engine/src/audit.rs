//! The audit: walks the runs of a store and says what is wrong with them. It reads, and writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use stepwell_core::audit::{self, BadBlob, Beside, Finding, Holds, LogFound, Recorded, Referrer, WakeSource};
use stepwell_core::{BlobRef, Checkpoint, Json, LogId, Payload, Reference, RunId, WorkflowName, reference};
use stepwell_ports::{BlobError, Damaged, ListQuery, StoreError};

use crate::{Client, ClientError};

/// Segments of history that are read in one go.
const SEGMENTS_AT_ONCE: usize = 64;
/// Entries of a log that are read in one go.
const ENTRIES_AT_ONCE: usize = 64;

/// Which runs to audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditQuery {
    /// Only this workflow.
    pub workflow: Option<WorkflowName>,
    /// For how long a run may have something to do after the mark at which a sweep should have found it. A sweep reminds once in a
    /// quarter of an hour at least: give more than that, and the distance of two sweeps.
    pub grace: Duration,
    /// At most this many runs, 1 to [`stepwell_core::limits::PAGE_MAX`].
    pub limit: usize,
    /// Go on after a page: its `next`.
    pub after: Option<String>,
}

/// What a page of runs comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// Runs that were looked at.
    pub runs: u64,
    /// Those that have not ended.
    pub live: u64,
    /// What wakes those next. Whoever is missing here has no wake source, which is a finding.
    pub wake: BTreeMap<WakeSource, u64>,
    /// Effects that may have happened, and that nobody has settled or signed off.
    pub unknowns: u64,
    /// Blobs that were read, and found as they were stored or not.
    pub blobs: u64,
    /// What is wrong.
    pub findings: Vec<Found>,
    /// Where to go on; `None` at the end.
    pub next: Option<String>,
}

/// Something that is wrong with a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Which run.
    pub run: RunId,
    /// What.
    pub finding: Finding,
}

impl Client {
    /// Audits a page of runs: holds each against the invariants of the protocol, with everything that resuming it needs. A damaged run
    /// is a finding, not an error; one that moves on meanwhile is looked at again, and only what is still wrong then is said.
    ///
    /// A run costs one read of its checkpoint, one of every 64 segments of its history (a segment holds 8 to 16 entries, fewer where
    /// states are kept), one of every 64 entries of its logs, and one of each blob that it refers to, in full: that is how its digest is
    /// checked. One with findings costs twice that. In memory at a time are one page of one of these or
    /// one blob, and the names of the run's blobs.
    ///
    /// # Errors
    /// When store or blobs are not available, or the query is none.
    pub async fn audit(&self, query: &AuditQuery) -> Result<AuditPage, ClientError> {
        let AuditQuery { workflow, grace, limit, after } = query.clone();
        let list = ListQuery { workflow, limit, after, ..ListQuery::default() };
        let listed = self.ports.store.list(&list).await?;
        let mut page = AuditPage { next: listed.next, ..AuditPage::default() };
        for Damaged { run, what } in listed.damaged {
            page.runs += 1;
            page.findings.push(Found { run, finding: Finding::Unreadable { what } });
        }
        for summary in listed.items {
            let Some(first) = self.audited(&summary.run, grace).await? else { continue };
            let Looked { figures, mut findings } = first;
            if !findings.is_empty() {
                // Whatever was read while the run moved is gone when it is read again.
                let again = self.audited(&summary.run, grace).await?;
                let again = again.map(|looked| looked.findings).unwrap_or_default();
                findings.retain(|finding| again.contains(finding));
            }
            page.count(&figures);
            let run = summary.run;
            page.findings.extend(findings.into_iter().map(|finding| Found { run: run.clone(), finding }));
        }
        Ok(page)
    }

    /// One look at a run. `None`: it is not there any more.
    async fn audited(&self, run: &RunId, grace: Duration) -> Result<Option<Looked>, ClientError> {
        let looking = Looking {
            client: self,
            run,
            figures: Figures::default(),
            seen: BTreeSet::new(),
            beside: Beside::default(),
        };
        let unreadable =
            |what: String| Looked { figures: Figures::default(), findings: vec![Finding::Unreadable { what }] };
        match self.ports.store.load(run).await {
            Ok(None) => Ok(None),
            Ok(Some(checkpoint)) => match looking.at(&checkpoint, grace).await {
                Err(ClientError::Store(StoreError::Damaged(what))) => Ok(Some(unreadable(what))),
                looked => looked.map(Some),
            },
            Err(StoreError::Damaged(what)) => Ok(Some(unreadable(what))),
            Err(error) => Err(error.into()),
        }
    }
}

impl AuditPage {
    fn count(&mut self, figures: &Figures) {
        self.runs += 1;
        self.live += u64::from(figures.is_live);
        if let Some(source) = figures.wake {
            *self.wake.entry(source).or_default() += 1;
        }
        self.unknowns += figures.unknowns;
        self.blobs += figures.blobs;
    }

    /// Adds another page: what both come to. Where to go on is the other's.
    #[must_use]
    pub fn plus(mut self, more: Self) -> Self {
        let Self { runs, live, wake, unknowns, blobs, findings, next } = more;
        for (source, count) in wake {
            *self.wake.entry(source).or_default() += count;
        }
        self.findings.extend(findings);
        Self {
            runs: self.runs + runs,
            live: self.live + live,
            unknowns: self.unknowns + unknowns,
            blobs: self.blobs + blobs,
            next,
            ..self
        }
    }
}

/// What one look at a run has come to.
struct Looked {
    figures: Figures,
    findings: Vec<Finding>,
}

#[derive(Default)]
struct Figures {
    is_live: bool,
    wake: Option<WakeSource>,
    unknowns: u64,
    blobs: u64,
}

/// One look at a run, while it is read.
struct Looking<'a> {
    client: &'a Client,
    run: &'a RunId,
    figures: Figures,
    /// Blobs that were read. The same one is referred to again and again.
    seen: BTreeSet<String>,
    beside: Beside,
}

impl Looking<'_> {
    async fn at(mut self, checkpoint: &Checkpoint, grace: Duration) -> Result<Looked, ClientError> {
        // As of when it was read: what comes due while the rest is read is not overdue.
        let now = self.client.ports.clock.now();
        let mut logs = BTreeMap::new();
        for (of, holds) in audit::holds(checkpoint) {
            match holds {
                Holds::Text(json) | Holds::Value(Payload::Inline(json)) => self.text(of, json, &mut logs).await?,
                Holds::Value(Payload::Blob(blob)) => self.value(of, blob, &mut logs).await?,
            }
        }
        // A log that is counted twice has to have as many as the larger count says.
        for (log, counted) in logs.into_iter().filter(|(log, _)| (1..=checkpoint.progress.logs).contains(&log.0)) {
            self.log(log, counted).await?;
        }
        self.history(checkpoint).await?;
        let findings = audit::audit(checkpoint, &self.beside, now, grace);
        self.figures.is_live = !checkpoint.progress.status.phase().is_ended();
        self.figures.wake = audit::wake_source(checkpoint, now).map(|(source, _)| source);
        self.figures.unknowns = audit::open(checkpoint).count() as u64;
        Ok(Looked { figures: self.figures, findings })
    }

    /// A value that lies in a blob, which may refer to more.
    async fn value(&mut self, of: Referrer, blob: &BlobRef, logs: &mut Logs) -> Result<(), ClientError> {
        let Some(bytes) = self.blob(of, blob).await? else { return Ok(()) };
        let Ok(value) = serde_json::from_slice(&bytes) else { return Ok(()) };
        self.refers(of, &value, logs).await
    }

    async fn text(&mut self, of: Referrer, json: &Json, logs: &mut Logs) -> Result<(), ClientError> {
        // Most texts refer to nothing, and need not be read.
        if !json.text().contains("\"h\"") && !json.text().contains("\"log\"") {
            return Ok(());
        }
        let Ok(value) = json.parse() else { return Ok(()) };
        self.refers(of, &value, logs).await
    }

    /// Reads the blobs that a value refers to, and notes its logs. What lies in such a blob is not looked at in turn.
    async fn refers(&mut self, of: Referrer, value: &Value, logs: &mut Logs) -> Result<(), ClientError> {
        if !of.is_of_run() {
            return Ok(());
        }
        for blob in reference::blobs(value).into_iter().filter(|blob| blob.is_of(self.run)) {
            self.blob(of, &blob).await?;
        }
        // Whatever else names a log was true of an earlier state.
        if of == Referrer::State {
            for reference in Reference::all(value) {
                if let Reference::Log { log, len } = reference {
                    let counted = logs.entry(log).or_default();
                    *counted = len.max(*counted);
                }
            }
        }
        Ok(())
    }

    /// Reads a blob, unless it was read before. `None`: that, or it is not as it was stored.
    async fn blob(&mut self, of: Referrer, blob: &BlobRef) -> Result<Option<Vec<u8>>, ClientError> {
        if !self.seen.insert(format!("{}/{}/{}", blob.key, blob.size, blob.sha256)) {
            return Ok(None);
        }
        self.figures.blobs += 1;
        let found = match self.client.ports.blobs.get(blob).await {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(BlobError::Missing { .. }) => None,
            Err(BlobError::Altered { found, .. }) => Some(found),
            Err(error @ (BlobError::TooLarge { .. } | BlobError::Unavailable(_))) => return Err(error.into()),
        };
        self.beside.blobs.push(BadBlob { blob: blob.clone(), of, found });
        Ok(None)
    }

    async fn log(&mut self, log: LogId, counted: u64) -> Result<(), ClientError> {
        let mut found = 0;
        while found < counted {
            let limit = usize::try_from(counted - found).unwrap_or(usize::MAX).min(ENTRIES_AT_ONCE);
            let entries = self.client.ports.store.log(self.run, log, found, limit).await?;
            for entry in &entries {
                self.text(Referrer::Log, entry, &mut Logs::new()).await?;
            }
            found += entries.len() as u64;
            if entries.len() < limit {
                break;
            }
        }
        self.beside.logs.push(LogFound { log, counted, found });
        Ok(())
    }

    async fn history(&mut self, checkpoint: &Checkpoint) -> Result<(), ClientError> {
        let tail = checkpoint.progress.tail.from;
        let mut recorded = Recorded::default();
        while recorded.next() < tail {
            let from = recorded.next();
            let segments = self.client.ports.store.history(self.run, from, SEGMENTS_AT_ONCE).await?;
            for segment in &segments {
                recorded.add(segment, tail);
            }
            if segments.len() < SEGMENTS_AT_ONCE || recorded.next() == from {
                break;
            }
        }
        self.beside.history = Some(recorded);
        Ok(())
    }
}

type Logs = BTreeMap<LogId, u64>;
