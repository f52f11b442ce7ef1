//! The suite finds what is wrong with a backend, and says it by name.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use async_trait::async_trait;
use stepwell_core::history::Segment;
use stepwell_core::write::{Write, WriteRequest};
use stepwell_core::{Checkpoint, EffectKey, EffectRecord, Json, LogId, Revision, RunId, Timestamp};
use stepwell_local::memory::Memory;
use stepwell_ports::{CheckpointStore, Claim, Claimed, DuePage, ListQuery, Page, RunSummary, StoreError, Written};
use stepwell_testkit::ManualClock;
use stepwell_testkit::conformance::{self, Backend, Factory};

/// What a backend may get wrong.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// A commit does not look at the fence.
    FenceIgnored,
    /// A retry is not recognised as one.
    RetryNotKnown,
    /// A commit writes over what arrived meanwhile.
    LettersLost,
    /// One field of the checkpoint is not read back.
    FieldLost,
    /// A mark that is just reached is not yet due.
    DueTooLate,
    /// Whoever claims a key gets it.
    ClaimGivenAway,
}

struct Broken {
    fault: Fault,
    inner: Arc<Memory>,
}

#[async_trait]
impl CheckpointStore for Broken {
    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError> {
        let (mut request, current) = (request.clone(), self.load(&request.run).await?);
        match (self.fault, &mut request.write, current) {
            (Fault::FenceIgnored, Write::Commit(commit), Some(current)) => commit.fence = current.hold.fence,
            (Fault::RetryNotKnown, _, Some(current)) if current.hold.write == request.id => request.id.0 += 1,
            (Fault::LettersLost, Write::Commit(commit), Some(current)) if !commit.consumed.is_empty() => {
                commit.consumed = current.mailbox.letters.into_iter().map(|letter| letter.id).collect();
            }
            _ => {}
        }
        self.inner.write(&request).await
    }

    async fn load(&self, run: &RunId) -> Result<Option<Checkpoint>, StoreError> {
        let mut found = self.inner.load(run).await?;
        if let (Fault::FieldLost, Some(checkpoint)) = (self.fault, &mut found) {
            checkpoint.progress.usage.effects_skipped = 0;
        }
        Ok(found)
    }

    async fn log(&self, run: &RunId, log: LogId, first: u64, limit: usize) -> Result<Vec<Json>, StoreError> {
        self.inner.log(run, log, first, limit).await
    }

    async fn effect(&self, run: &RunId, key: &EffectKey) -> Result<Option<EffectRecord>, StoreError> {
        self.inner.effect(run, key).await
    }

    async fn history(&self, run: &RunId, from: Revision, limit: usize) -> Result<Vec<Segment>, StoreError> {
        self.inner.history(run, from, limit).await
    }

    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let claimed = self.inner.claim(claim).await?;
        Ok(if matches!(self.fault, Fault::ClaimGivenAway) { Claimed::Mine } else { claimed })
    }

    async fn due(&self, until: Timestamp, limit: usize, after: Option<String>) -> Result<DuePage, StoreError> {
        let late = u64::from(matches!(self.fault, Fault::DueTooLate));
        self.inner.due(Timestamp(until.0.saturating_sub(late)), limit, after).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<RunSummary>, StoreError> {
        self.inner.list(query).await
    }
}

struct Breaking(Fault);

#[async_trait]
impl Factory for Breaking {
    fn name(&self) -> &'static str {
        "broken"
    }

    async fn fresh(&self, clock: Arc<ManualClock>) -> Backend {
        let inner = Arc::new(Memory::new(clock.clone()));
        let store = Arc::new(Broken { fault: self.0, inner: inner.clone() });
        Backend { store, queue: inner.clone(), blobs: inner, clock }
    }
}

/// The fault is found by the case that is there for it and by the random writes. What it does not touch passes; what was not
/// tried is not said to have passed.
async fn is_found(fault: Fault, case: &str) {
    let outcome = conformance::run(&Breaking(fault)).await;
    let failed = outcome.failed();
    assert!(failed.contains(&case), "{fault:?} is found by {failed:?}");
    assert!(failed.iter().any(|name| name.starts_with("model::")), "{fault:?} is found by {failed:?}");
    assert!(failed.iter().all(|name| !name.starts_with("queue::") && !name.starts_with("blobs::")), "{failed:?}");
    assert!(outcome.to_string().contains("FAILED: "), "{outcome}");
    assert_eq!(outcome.skipped().len(), 4, "neither tampering nor dead letters: {outcome}");
    assert_eq!(outcome.passed().len() + failed.len() + 4, conformance::cases().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_ignores_the_fence_is_found() {
    is_found(Fault::FenceIgnored, "commits::a_commit_by_an_old_holder_is_fenced").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_is_not_known_is_found() {
    is_found(Fault::RetryNotKnown, "races::one_request_sent_many_times_at_once_is_applied_once").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_signal_is_found() {
    is_found(Fault::LettersLost, "mailbox::a_signal_survives_a_commit_that_did_not_know_of_it").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_field_is_found() {
    is_found(Fault::FieldLost, "commits::a_commit_writes_every_field").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_is_due_too_late_is_found() {
    is_found(Fault::DueTooLate, "indexes::due_runs_come_earliest_first_up_to_the_mark").await;
}

/// Nothing else touches claims, so nothing else finds it.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_given_away_is_found() {
    let outcome = conformance::run(&Breaking(Fault::ClaimGivenAway)).await;
    let expected = [
        "claims::the_first_claim_owns_the_key",
        "claims::a_repeated_claim_is_granted_again",
        "claims::another_run_learns_who_owns_the_key",
        "claims::a_key_is_taken_over_from_its_owner_alone",
        "claims::a_later_life_is_another_claimant",
        "claims::claims_of_several_keys_are_apart",
        "claims::the_end_of_the_owner_ends_no_claim",
        "claims::of_many_claims_at_once_one_wins",
        "claims::of_many_take_overs_at_once_one_wins",
    ];
    assert_eq!(outcome.failed(), expected, "{outcome}");
}
