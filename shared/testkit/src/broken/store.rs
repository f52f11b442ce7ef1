use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use stepwell_core::mailbox::{EVIDENCE, PAUSE};
use stepwell_core::write::{Amend, Commit, Refusal, Write, WriteRequest, check};
use stepwell_core::{
    Checkpoint, EffectRecord, Failure, FailureKind, Json, Letter, Outcome, Progress, RunId, Status, Timestamp,
};
use stepwell_ports::{CheckpointStore, DuePage, StoreError, Written};

use super::{Broken, SECRET, SECRET_NAME};
use crate::StoreDouble;

/// What one run's workers go back to: only once a run, since it has to end.
enum GoesBack {
    /// To this, with the next acquire.
    To(Box<Progress>),
    /// It was given out; what is committed on it has to be made to fit.
    GivenOut,
    /// It was committed.
    Done,
}

pub(super) struct Store {
    broken: Broken,
    inner: Arc<dyn CheckpointStore>,
    back: Mutex<BTreeMap<RunId, GoesBack>>,
    lost: Mutex<BTreeSet<RunId>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    pub(super) fn new(broken: Broken, inner: Arc<dyn CheckpointStore>) -> Self {
        Self { broken, inner, back: Mutex::default(), lost: Mutex::default() }
    }

    async fn acquire(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        let mut written = self.inner.write(request).await?;
        if self.broken == Broken::EarlyTimer
            && let Written::Refused(Some(current)) = &written
            && check(Some(current), request) == Err(Refusal::NotDue)
            && let Some(until) = time_of(&current.progress.status)
        {
            written = self.inner.write(&WriteRequest { now: until, ..request.clone() }).await?;
            if let Written::Applied(held) = &mut written {
                bring_forward(&mut held.progress.status, request.now);
            }
        }
        let Written::Applied(held) = &mut written else { return Ok(written) };
        match self.broken {
            Broken::ForgottenIntent => {
                held.progress.journal.retain(|record| !(record.is_open() && record.class.needs_intent()));
                held.hold.tried_since = held.hold.lease.as_ref().map(|lease| lease.since);
            }
            Broken::GuessedFailure => {
                let Progress { journal, ledger, .. } = &mut held.progress;
                journal.iter_mut().chain(ledger).filter(|record| record.is_unknown()).for_each(guess);
            }
            Broken::StaleAcquire => {
                let mut back = lock(&self.back);
                if let Some(goes_back) = back.get_mut(&request.run)
                    && let GoesBack::To(earlier) = std::mem::replace(goes_back, GoesBack::GivenOut)
                {
                    let ticket = held.progress.ticket;
                    held.progress = Progress { ticket, ..*earlier };
                }
            }
            Broken::ForgottenHandOff
            | Broken::StaleFence
            | Broken::LostSignal
            | Broken::EchoedMessage
            | Broken::EarlyTimer
            | Broken::UnrecordedResume
            | Broken::LostBlob
            | Broken::NoMark
            | Broken::UncoveredSecret => {}
        }
        Ok(written)
    }

    async fn commit(&self, request: &WriteRequest, mut commit: Commit) -> Result<Written, StoreError> {
        let with = |commit: Commit| WriteRequest { write: Write::Commit(Box::new(commit)), ..request.clone() };
        match self.broken {
            Broken::StaleFence => {
                let written = self.inner.write(request).await?;
                let Written::Refused(Some(current)) = &written else { return Ok(written) };
                if check(Some(current), request) != Err(Refusal::Fenced) || current.hold.lease.is_none() {
                    return Ok(written);
                }
                follow(&mut commit, current);
                commit.fence = current.hold.fence;
                self.inner.write(&with(commit)).await
            }
            Broken::StaleAcquire => self.commit_stale(request, commit).await,
            Broken::NoMark => {
                commit.due_at = None;
                self.inner.write(&with(commit)).await
            }
            Broken::UncoveredSecret => {
                commit.progress = uncovered(commit.progress);
                self.inner.write(&with(commit)).await
            }
            Broken::ForgottenHandOff
            | Broken::ForgottenIntent
            | Broken::GuessedFailure
            | Broken::LostSignal
            | Broken::EchoedMessage
            | Broken::EarlyTimer
            | Broken::UnrecordedResume
            | Broken::LostBlob => self.inner.write(request).await,
        }
    }

    async fn commit_stale(&self, request: &WriteRequest, mut commit: Commit) -> Result<Written, StoreError> {
        let Some(before) = self.inner.load(&request.run).await? else { return self.inner.write(request).await };
        let given_out = matches!(lock(&self.back).get(&request.run), Some(GoesBack::GivenOut));
        if given_out {
            follow(&mut commit, &before);
        }
        let (hands_off, visit) = (commit.lease.is_none(), commit.progress.visit);
        let request = WriteRequest { write: Write::Commit(Box::new(commit)), ..request.clone() };
        let written = self.inner.write(&request).await?;
        if matches!(written, Written::Applied(_)) {
            let mut back = lock(&self.back);
            if given_out {
                back.insert(request.run, GoesBack::Done);
            } else if hands_off
                && visit > before.progress.visit
                && matches!(before.progress.status, Status::Created | Status::Running)
            {
                back.entry(request.run).or_insert(GoesBack::To(Box::new(before.progress)));
            }
        }
        Ok(written)
    }

    /// The first signal of each run gets lost; what the engine itself sends does not.
    async fn signal(&self, request: &WriteRequest, letter: &Letter) -> Result<Written, StoreError> {
        let own = [EVIDENCE, PAUSE].contains(&letter.name.as_str());
        if self.broken == Broken::LostSignal
            && !own
            && let Some(current) = self.inner.load(&request.run).await?
            && check(Some(&current), request).is_ok()
            && lock(&self.lost).insert(request.run.clone())
        {
            return Ok(Written::Applied(Box::new(current)));
        }
        self.inner.write(request).await
    }

    async fn amend(&self, request: &WriteRequest, mut amend: Amend) -> Result<Written, StoreError> {
        if self.broken == Broken::UnrecordedResume && amend.progress.status.is_live() {
            amend.progress.tail.entries.pop();
        }
        self.inner.write(&WriteRequest { write: Write::Amend(Box::new(amend)), ..request.clone() }).await
    }
}

/// Makes a commit follow what is stored, whatever it was made for.
fn follow(commit: &mut Commit, current: &Checkpoint) {
    commit.after = current.progress.revision;
    commit.cancel_seen = current.cancel.is_some();
    commit.mailbox_seen = None;
    commit.progress.revision = current.progress.revision.next();
    commit.progress.ticket = commit.progress.ticket.max(current.progress.ticket);
}

fn guess(record: &mut EffectRecord) {
    record.outcome = Outcome::Failed(Failure::new(FailureKind::Refused, "it has not answered"));
}

/// When a wait ends by itself.
fn time_of(status: &Status) -> Option<Timestamp> {
    match status {
        Status::Waiting(wait) => wait.until,
        Status::Created
        | Status::Running
        | Status::Retrying { .. }
        | Status::Parked { .. }
        | Status::Completed { .. }
        | Status::Failed { .. }
        | Status::Cancelled { .. } => None,
    }
}

fn bring_forward(status: &mut Status, now: Timestamp) {
    if let Status::Waiting(wait) = status {
        wait.until = Some(now);
    }
}

/// What would be written if nobody covered the secret.
fn uncovered(progress: Progress) -> Progress {
    let cover = format!("[secret {SECRET_NAME}]");
    let Ok(json) = Json::of(&progress) else { return progress };
    Json::from_text(json.text().replace(&cover, SECRET)).and_then(|json| json.parse()).unwrap_or(progress)
}

#[async_trait]
impl StoreDouble for Store {
    fn inner(&self) -> &dyn CheckpointStore {
        &*self.inner
    }

    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        match &request.write {
            Write::Acquire(_) => self.acquire(request).await,
            Write::Commit(commit) => self.commit(request, (**commit).clone()).await,
            Write::Signal(letter) => self.signal(request, letter).await,
            Write::Amend(amend) => self.amend(request, (**amend).clone()).await,
            Write::Start(_) | Write::Renew(_) | Write::Cancel(_) => self.inner.write(request).await,
        }
    }

    async fn due(&self, until: Timestamp, limit: usize, after: Option<String>) -> Result<DuePage, StoreError> {
        if self.broken == Broken::ForgottenHandOff {
            return Ok(DuePage { items: Vec::new(), damaged: Vec::new(), next: None });
        }
        self.inner.due(until, limit, after).await
    }
}
