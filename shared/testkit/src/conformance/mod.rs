//! The port conformance suite: takes any backend and holds it to what `stepwell-ports` promises.
//!
//! A backend brings a [`Factory`] and runs the whole of it in one test:
//!
//! ```
//! # use std::sync::Arc;
//! # use stepwell_local::memory::Memory;
//! use stepwell_testkit::ManualClock;
//! use stepwell_testkit::conformance::{Backend, Factory, run};
//!
//! struct InMemory;
//!
//! #[async_trait::async_trait]
//! impl Factory for InMemory {
//!     fn name(&self) -> &str {
//!         "memory"
//!     }
//!     async fn fresh(&self, clock: Arc<ManualClock>) -> Backend {
//!         let memory = Arc::new(Memory::new(clock.clone()));
//!         Backend { store: memory.clone(), queue: memory.clone(), blobs: memory, clock }
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let outcome = run(&InMemory).await;
//! assert!(outcome.failed().is_empty(), "{outcome}");
//! # });
//! ```
//!
//! Time is a [`ManualClock`]: no case waits for real. Run it on a runtime of several threads whose tokio time is *not*
//! paused. Each case gets a fresh backend. What a write answers and leaves behind is compared with
//! [`stepwell_core::write::apply`], the definition, in every single case.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a case is a test: its panic is the report")]

mod bed;
mod beside;
mod blobs;
mod claims;
mod commits;
mod generator;
mod indexes;
mod leases;
mod mailbox;
mod model;
mod queue;
mod races;
mod sizes;

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use stepwell_core::{BlobRef, Message, Timestamp};
use stepwell_ports::{BlobStore, CheckpointStore, RunQueue};

use crate::ManualClock;
use bed::Bed;

/// What is put to the test. One that shares nothing with any other.
pub struct Backend {
    /// Its store.
    pub store: Arc<dyn CheckpointStore>,
    /// Its queue.
    pub queue: Arc<dyn RunQueue>,
    /// Its blobs.
    pub blobs: Arc<dyn BlobStore>,
    /// The clock it goes by.
    pub clock: Arc<ManualClock>,
}

/// What a backend can do for its test. The cases that need more are skipped, and said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Its queue goes by the clock it was given. One that keeps its own time cannot be tested for delays here.
    pub queue_time: bool,
    /// [`Factory::tamper`] is written.
    pub tampering: bool,
    /// [`Factory::dead_letters`] is written.
    pub dead_letters: bool,
    /// How long its indexes may lag, in real time. A case reads them again and again for that long.
    pub index_lag: Duration,
}

impl Default for Caps {
    /// A queue on the given clock, indexes without lag, no hooks.
    fn default() -> Self {
        Self { queue_time: true, tampering: false, dead_letters: false, index_lag: Duration::ZERO }
    }
}

/// Makes backends.
#[async_trait]
pub trait Factory: Send + Sync {
    /// The backend's name, for the report.
    fn name(&self) -> &str;

    /// A fresh and empty backend that goes by this clock.
    async fn fresh(&self, clock: Arc<ManualClock>) -> Backend;

    /// What it can do for its test.
    fn caps(&self) -> Caps {
        Caps::default()
    }

    /// Damages a blob of the backend that was made last, behind the port's back: puts these bytes in its place, or none.
    async fn tamper(&self, _blob: &BlobRef, _with: Option<&[u8]>) {}

    /// The dead letters of the backend that was made last, each with its reason.
    async fn dead_letters(&self) -> Vec<(Message, String)> {
        Vec::new()
    }
}

/// One promise, and how it is tried.
pub struct Case {
    /// Its name: the group, and what must hold.
    pub name: &'static str,
    needs: Needs,
    run: for<'a> fn(&'a Bed<'a>) -> CaseFuture<'a>,
}

type CaseFuture<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    QueueTime,
    Tampering,
    DeadLetters,
}

impl Needs {
    /// Why a backend of these abilities cannot be tried, if it cannot.
    fn missing_in(self, caps: Caps) -> Option<&'static str> {
        let (there, without) = match self {
            Self::Nothing => (true, ""),
            Self::QueueTime => (caps.queue_time, "its queue keeps its own time"),
            Self::Tampering => (caps.tampering, "its blobs cannot be tampered with"),
            Self::DeadLetters => (caps.dead_letters, "its dead letters cannot be read"),
        };
        (!there).then_some(without)
    }
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The promise held.
    Ok,
    /// It did not: what was found.
    Failed(String),
    /// It was not tried: what the backend cannot do.
    Skipped(&'static str),
}

/// What became of all cases.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The backend's name.
    pub backend: String,
    /// Each case, by name, with its verdict and how long it took.
    pub results: Vec<(&'static str, Verdict, Duration)>,
}

impl Outcome {
    /// The names of the cases that held.
    pub fn passed(&self) -> Vec<&'static str> {
        self.named(|verdict| *verdict == Verdict::Ok)
    }

    /// The names of those that did not.
    pub fn failed(&self) -> Vec<&'static str> {
        self.named(|verdict| matches!(verdict, Verdict::Failed(_)))
    }

    /// The names of those that were not tried.
    pub fn skipped(&self) -> Vec<&'static str> {
        self.named(|verdict| matches!(verdict, Verdict::Skipped(_)))
    }

    fn named(&self, which: impl Fn(&Verdict) -> bool) -> Vec<&'static str> {
        self.results.iter().filter(|(_, verdict, _)| which(verdict)).map(|(name, ..)| *name).collect()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "conformance of {}", self.backend)?;
        let width = self.results.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
        for (name, verdict, took) in &self.results {
            match verdict {
                Verdict::Ok => writeln!(f, "  {name:<width$}  {:>6} ms  ok", took.as_millis())?,
                Verdict::Failed(what) => writeln!(f, "  {name:<width$}  {:>6} ms  FAILED: {what}", took.as_millis())?,
                Verdict::Skipped(why) => writeln!(f, "  {name:<width$}             skipped: {why}")?,
            }
        }
        let (passed, failed, skipped) = (self.passed().len(), self.failed().len(), self.skipped().len());
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Tries every case on a fresh backend of its own, prints the table, and answers with it. A case that panics fails; so does
/// one that takes longer than a minute.
pub async fn run(factory: &dyn Factory) -> Outcome {
    let caps = factory.caps();
    let mut results = Vec::new();
    for case in cases() {
        let begun = Instant::now();
        let verdict = match case.needs.missing_in(caps) {
            Some(why) => Verdict::Skipped(why),
            None => attempt(case, factory).await,
        };
        results.push((case.name, verdict, begun.elapsed()));
    }
    let outcome = Outcome { backend: factory.name().to_owned(), results };
    #[allow(clippy::print_stdout, reason = "the table is for whoever runs the test")]
    {
        println!("{outcome}");
    }
    outcome
}

/// When a case begins, unless it says otherwise: no round number, so that marks and milliseconds are told apart.
const BEGIN: Timestamp = Timestamp(1_700_000_000_123);

/// A case that takes longer hangs.
const CASE_TIME_MAX: Duration = Duration::from_mins(1);

async fn attempt(case: &Case, factory: &dyn Factory) -> Verdict {
    let tried = async {
        let bed = Bed::fresh(factory).await;
        (case.run)(&bed).await;
    };
    match tokio::time::timeout(CASE_TIME_MAX, AssertUnwindSafe(tried).catch_unwind()).await {
        Ok(Ok(())) => Verdict::Ok,
        Ok(Err(panic)) => Verdict::Failed(message_of(panic.as_ref())),
        Err(_) => Verdict::Failed(format!("it hangs: no end after {CASE_TIME_MAX:?}")),
    }
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without words".to_owned())
}

/// All cases, in the order in which they are tried.
pub fn cases() -> &'static [Case] {
    CASES
}

macro_rules! cases {
    ($($group:ident($needs:ident) { $($case:ident),* $(,)? })*) => {
        &[$($(Case {
            name: concat!(stringify!($group), "::", stringify!($case)),
            needs: Needs::$needs,
            run: |bed| Box::pin($group::$case(bed)),
        }),*),*]
    };
}

static CASES: &[Case] = cases! {
    leases(Nothing) {
        a_start_creates_the_run,
        a_second_start_is_refused,
        an_unknown_run_is_none_and_refuses_all_writes,
        runs_of_similar_names_do_not_mix,
        an_acquire_is_a_load,
        an_acquire_wants_the_current_ticket,
        an_acquire_waits_for_the_end_of_the_lease,
        acquires_are_counted_until_a_commit,
        an_intent_is_no_progress_of_its_visit,
        an_attempt_that_has_intended_ends_like_any_other,
        a_retrying_run_is_acquired_at_its_time,
        a_waiting_run_is_acquired_when_something_is_new,
        a_waiting_run_is_acquired_at_its_deadline,
        a_cancelled_run_is_acquired_at_once,
        a_parked_or_ended_run_is_not_acquired,
        a_renewal_extends_and_never_shortens,
        a_renewal_by_an_old_holder_is_fenced,
        a_repeated_request_has_one_effect,
        a_repeated_start_loses_nothing_that_has_arrived_since,
        a_repeated_request_after_anothers_write_is_refused,
    }
    commits(Nothing) {
        a_commit_writes_every_field,
        a_commit_keeps_or_gives_back_the_lease,
        a_commit_by_an_old_holder_is_fenced,
        a_commit_follows_the_revision_it_names,
        a_commit_after_the_own_hand_off_is_refused,
        a_commit_wants_to_know_of_a_cancellation,
        a_hand_off_into_a_wait_sees_every_signal,
        the_first_cancellation_stands,
        an_ended_run_stays_as_it_is,
        an_amendment_resumes_a_parked_run,
        an_amendment_brings_a_failed_run_back,
        an_amendment_reads_letters,
        an_amendment_wants_its_revision_and_no_holder,
        the_end_of_time_is_a_time,
    }
    mailbox(Nothing) {
        a_signal_is_kept_and_makes_the_run_due,
        a_repeated_signal_is_refused_for_as_long_as_it_is_remembered,
        a_full_mailbox_refuses_by_count,
        a_full_mailbox_refuses_by_bytes,
        a_signal_by_reference_weighs_its_reference,
        an_ended_run_takes_no_signal,
        a_signal_survives_a_commit_that_did_not_know_of_it,
        consumption_keeps_the_other_letters,
    }
    sizes(Nothing) {
        a_checkpoint_up_to_the_limit_is_stored,
        a_checkpoint_over_the_limit_is_invalid,
        a_run_at_the_limit_can_still_be_taken_up,
    }
    beside(Nothing) {
        a_log_is_read_in_order_and_in_ranges,
        a_log_ends_at_the_first_gap,
        a_log_entry_of_a_crashed_step_is_overwritten,
        logs_of_one_run_and_of_many_are_apart,
        a_refused_commit_changes_nothing_that_counts,
        history_is_read_in_order_from_the_right_segment,
        history_is_read_in_pages,
        an_amendment_writes_its_segment,
        a_spilled_effect_is_found_by_its_key,
    }
    claims(Nothing) {
        the_first_claim_owns_the_key,
        a_repeated_claim_is_granted_again,
        another_run_learns_who_owns_the_key,
        a_key_is_taken_over_from_its_owner_alone,
        a_later_life_is_another_claimant,
        claims_of_several_keys_are_apart,
        the_end_of_the_owner_ends_no_claim,
        of_many_claims_at_once_one_wins,
        of_many_take_overs_at_once_one_wins,
        a_claim_shows_in_no_listing,
    }
    indexes(Nothing) {
        due_runs_come_earliest_first_up_to_the_mark,
        due_runs_carry_what_the_sweeper_needs,
        due_runs_move_with_every_write,
        due_runs_vanish_when_parked_or_ended,
        due_runs_are_read_in_pages,
        runs_are_listed_newest_first,
        runs_are_listed_by_workflow_and_phase,
        runs_are_listed_by_the_time_of_their_start,
        runs_are_listed_in_pages_without_loss_or_repetition,
        runs_that_start_between_two_pages_disturb_nothing,
        a_token_of_no_page_is_invalid,
        a_page_of_no_size_is_invalid,
    }
    races(Nothing) {
        of_many_starts_one_wins,
        of_many_acquires_one_wins,
        of_many_commits_one_wins,
        many_signals_all_arrive_once,
        one_signal_sent_many_times_at_once_arrives_once,
        one_request_sent_many_times_at_once_is_applied_once,
        signals_and_commits_at_once_lose_nothing,
        a_cancellation_and_an_end_are_ordered,
    }
    queue(Nothing) {
        a_message_is_received_until_it_is_deleted,
        a_batch_arrives_whole,
        a_delay_over_the_limit_is_invalid_and_nothing_is_sent,
        a_delivery_that_is_gone_is_passed_over,
        a_delivery_of_no_visibility_comes_again_at_once,
        a_buried_message_is_gone,
    }
    queue(QueueTime) {
        a_delayed_message_is_not_early_and_not_lost,
        a_message_is_hidden_until_its_visibility_has_run_out,
        an_extended_message_stays_hidden,
        an_old_receipt_deletes_no_later_delivery,
        an_old_receipt_hides_no_later_delivery,
        receiving_waits_for_a_message,
        receiving_waits_for_a_delay,
        receiving_ends_with_nothing,
    }
    queue(DeadLetters) {
        a_buried_message_is_kept_with_its_reason,
    }
    blobs(Nothing) {
        a_blob_comes_back_as_it_was,
        the_same_bytes_have_the_same_reference,
        a_missing_blob_is_said_to_be_missing,
        a_blob_of_another_digest_or_size_is_said_to_be_altered,
        a_blob_over_the_limit_is_refused,
        the_blobs_of_one_run_are_deleted,
    }
    blobs(Tampering) {
        a_blob_altered_from_outside_is_said_to_be,
        a_blob_deleted_from_outside_is_said_to_be_missing,
        a_damaged_blob_is_mended_by_storing_it_again,
    }
    model(Nothing) {
        random_writes_on_a_quiet_table,
        random_writes_with_many_signals,
        random_writes_of_rivals,
    }
};
