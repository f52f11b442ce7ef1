//! The store of checkpoints, and of what lies beside them: log entries, history segments, spilled effects, two indexes.

use core::fmt;

use async_trait::async_trait;
use stepwell_core::decide::DueRun;
use stepwell_core::history::Segment;
use stepwell_core::limits::PAGE_MAX;
use stepwell_core::write::WriteRequest;
use stepwell_core::{
    Checkpoint, EffectKey, EffectRecord, Json, LogId, Phase, Revision, RunId, Timestamp, WorkflowName,
};

use crate::StoreError;

/// The answer to a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Its condition held. The checkpoint as it is now, with what others added to mailbox and cancellation.
    Applied(Box<Checkpoint>),
    /// Its condition did not hold; nothing was written. The checkpoint that refused it, `None` when there is no such run.
    Refused(Option<Box<Checkpoint>>),
}

/// A run asks to own an effect's key that all runs of a workflow share, see
/// [`Scope::Business`](stepwell_core::Scope::Business).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The key.
    pub key: EffectKey,
    /// Who asks.
    pub by: Claimant,
    /// The owner that it takes the key from, if that one still has it: the caller has seen that it will never act under it.
    pub instead_of: Option<Claimant>,
}

/// A run, in one of its lives: it begins another when it is brought back after it had failed. What somebody has seen of a run that has
/// failed is true of that life, and does not hold against the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// Which run.
    pub run: RunId,
    /// Its life: how often it was brought back ([`Progress::lives`](stepwell_core::Progress::lives)).
    pub life: u32,
}

impl Claimant {
    /// Reads what [`Display`](fmt::Display) writes. `None`: it is none.
    ///
    /// ```
    /// use stepwell_ports::Claimant;
    /// for text in ["order-7", "order-7+2"] {
    ///     assert_eq!(Claimant::parse(text).map(|claimant| claimant.to_string()).as_deref(), Some(text));
    /// }
    /// assert_eq!(Claimant::parse("order-7+0"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let (run, life) = match text.split_once('+') {
            None => (text, 0),
            // No run id has a plus.
            Some((run, life)) => {
                (run, life.parse().ok().filter(|number: &u32| number.to_string() == life && *number > 0)?)
            }
        };
        Some(Self { run: RunId::new(run).ok()?, life })
    }
}

impl From<RunId> for Claimant {
    /// In its first life.
    fn from(run: RunId) -> Self {
        Self { run, life: 0 }
    }
}

impl fmt::Display for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.life {
            0 => write!(f, "{}", self.run),
            life => write!(f, "{}+{life}", self.run),
        }
    }
}

impl Claim {
    /// Whether the run gets the key from this owner: it was nobody's, or its own already in this life, or the one's that it is to be
    /// taken from. What [`CheckpointStore::claim`] does is defined by this.
    pub fn is_granted_by(&self, owner: Option<&Claimant>) -> bool {
        owner.is_none_or(|owner| *owner == self.by || Some(owner) == self.instead_of.as_ref())
    }
}

/// Whose a key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The run's that asked.
    Mine,
    /// This other one's; nothing was written.
    Of(Claimant),
}

/// One page of a listing, and where the next begins. `next` is opaque and only good for the same query. A page may be short or even
/// empty though others follow: only a `next` of `None` is the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What was found.
    pub items: Vec<T>,
    /// Runs that belong on this page and cannot be shown. They do not keep a listing from the runs beside and behind them; whoever
    /// has to see every run fails on them.
    pub damaged: Vec<Damaged>,
    /// Where to go on; `None` at the end.
    pub next: Option<String>,
}

/// A run whose entry cannot be read: something has changed it that is not Stepwell, or code that is newer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Which run.
    pub run: RunId,
    /// What is wrong with it, for a person, as [`StoreError::Damaged`] would say it.
    pub what: String,
}

impl<T> Page<T> {
    /// The page, where it shows every run that belongs on it.
    ///
    /// ```
    /// use stepwell_ports::{Damaged, Page, StoreError};
    ///
    /// let sound = Page { items: vec![1, 2], damaged: Vec::new(), next: None };
    /// assert_eq!(sound.clone().whole(), Ok(sound.clone()));
    /// let damaged = Damaged { run: "r".parse()?, what: "run r: its phase is unknown".into() };
    /// let missing = Page { damaged: vec![damaged.clone()], ..sound.clone() };
    /// assert_eq!(missing.whole(), Err(StoreError::Damaged(damaged.what.clone())));
    /// let three = Page { damaged: vec![damaged; 3], ..sound };
    /// assert!(three.whole().is_err_and(|error| error.to_string().contains("(and 2 more like this)")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Damaged`] where there is one that it cannot show.
    pub fn whole(self) -> Result<Self, StoreError> {
        let more = self.damaged.len().saturating_sub(1);
        match self.damaged.into_iter().next() {
            None => Ok(Self { damaged: Vec::new(), ..self }),
            Some(Damaged { what, .. }) if more == 0 => Err(StoreError::Damaged(what)),
            Some(Damaged { what, .. }) => Err(StoreError::Damaged(format!("{what} (and {more} more like this)"))),
        }
    }
}

/// A page of runs that are due.
pub type DuePage = Page<DueRun>;

/// Which runs to list. All conditions hold together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Only this workflow.
    pub workflow: Option<WorkflowName>,
    /// Only this stored phase (leases and cancellations do not show in it).
    pub phase: Option<Phase>,
    /// Only those that were started at this time or later.
    pub started_from: Option<Timestamp>,
    /// Only those that were started before this time.
    pub started_before: Option<Timestamp>,
    /// At most this many, 1 to [`stepwell_core::limits::PAGE_MAX`].
    pub limit: usize,
    /// Go on after a page: its `next`.
    pub after: Option<String>,
}

impl ListQuery {
    /// Whether a run that was started then is in the time that is asked for.
    pub fn holds(&self, started_at: Timestamp) -> bool {
        self.started_from.is_none_or(|from| from <= started_at)
            && self.started_before.is_none_or(|before| started_at < before)
    }

    /// What is asked for, but for the page. A token of a page is good for queries that say the same.
    pub fn conditions(&self) -> String {
        let workflow = self.workflow.as_ref().map_or("", WorkflowName::as_str);
        let time = |time: Option<Timestamp>| time.map(|time| time.0.to_string()).unwrap_or_default();
        let (from, before) = (time(self.started_from), time(self.started_before));
        format!("{workflow}/{}/{from}-{before}/", self.phase.map_or("", Phase::as_str))
    }
}

/// A run as the list index shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// Which run.
    pub run: RunId,
    /// Its workflow.
    pub workflow: WorkflowName,
    /// Its stored phase.
    pub phase: Phase,
    /// When it was started.
    pub started_at: Timestamp,
    /// When it wakes by itself.
    pub wakes_at: Option<Timestamp>,
}

impl RunSummary {
    /// What the list index shows of a checkpoint.
    pub fn of(checkpoint: &Checkpoint) -> Self {
        Self {
            run: checkpoint.run.clone(),
            workflow: checkpoint.workflow.clone(),
            phase: checkpoint.progress.status.phase(),
            started_at: checkpoint.started_at,
            wakes_at: checkpoint.wakes_at(),
        }
    }
}

/// Checks the size that is asked for of a page.
///
/// # Errors
/// [`StoreError::Invalid`] when it is not 1 to [`PAGE_MAX`].
pub fn check_limit(limit: usize) -> Result<(), StoreError> {
    if (1..=PAGE_MAX).contains(&limit) {
        return Ok(());
    }
    Err(StoreError::Invalid(format!("a page of {limit} entries: ask for 1 to {PAGE_MAX}")))
}

/// Checkpoints and what lies beside them. See each method for what is atomic and what a crash leaves behind.
///
/// Every write is one [`WriteRequest`]; what it does is defined by [`stepwell_core::write::apply`], and an implementation
/// answers exactly as that function would on the stored checkpoint.
#[async_trait]
pub trait CheckpointStore: Send + Sync {
    /// Carries out one conditional write.
    ///
    /// - **Atomic** on the checkpoint: condition and change are one. Two writes on one run are ordered.
    /// - **Durable** once it has answered [`Written::Applied`].
    /// - A commit's log entries, history segment and spilled effects are durable not later than the commit. They may
    ///   become visible before it; entries beyond the length that the state counts are overwritten by whoever appends next.
    ///   A commit that is refused must not overwrite one that counts: a worker that was fenced is still about.
    /// - A request that was applied already ([`stepwell_core::write::is_applied`]) answers `Applied` again.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] when it may have been applied; with every other error nothing was written.
    /// [`StoreError::Invalid`] when a start, commit, signal or amendment would make the checkpoint larger than
    /// [`CHECKPOINT_BYTES_MAX`](stepwell_core::limits::CHECKPOINT_BYTES_MAX), give or take a kilobyte. The other writes are
    /// never refused for size: a run at the limit must still be taken up, and ended.
    async fn write(&self, request: &WriteRequest) -> Result<Written, StoreError>;

    /// Reads a checkpoint, consistently: it sees every write that was answered before. `None` when there is no such run;
    /// a run that cannot be read is an error, never `None`.
    async fn load(&self, run: &RunId) -> Result<Option<Checkpoint>, StoreError>;

    /// Reads entries of a log, from `first`, at most `limit`, in order. It ends at the first entry that is missing. The
    /// caller knows from the state how many count.
    async fn log(&self, run: &RunId, log: LogId, first: u64, limit: usize) -> Result<Vec<Json>, StoreError>;

    /// Reads an effect that was spilled from the ledger.
    async fn effect(&self, run: &RunId, key: &EffectKey) -> Result<Option<EffectRecord>, StoreError>;

    /// Reads history segments in order, from the one that holds `from`, at most `limit`. Fewer than that were all there
    /// are. The newest entries are in the checkpoint.
    async fn history(&self, run: &RunId, from: Revision, limit: usize) -> Result<Vec<Segment>, StoreError>;

    /// Makes a run the owner of a key, if nobody owns it, or the run does already, or the one that it is to be taken from
    /// does ([`Claim::is_granted_by`]). Whichever run comes first owns the key until another takes it over; nothing else ends
    /// that, the end of the owner included.
    ///
    /// - **Atomic** on the key: of many runs that claim it at once one is answered [`Claimed::Mine`], the others learn who.
    /// - **Durable** once it has answered [`Claimed::Mine`]. A [`Claimed::Of`] names who owns it durably.
    /// - **Idempotent**: the owner that asks again is answered [`Claimed::Mine`] again.
    /// - It belongs to no checkpoint: the runs that it names need not be there, and no listing shows it.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] when it may have been carried out: ask again, that is safe. With every other error nothing was
    /// written.
    async fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError>;

    /// Lists live runs whose mark is not after `until`, earliest mark first. Eventually consistent: a candidate may have
    /// moved on, and a fresh one may be missing for a while. `limit` is 1 to [`stepwell_core::limits::PAGE_MAX`].
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for another limit, or an `after` that no page has given.
    async fn due(&self, until: Timestamp, limit: usize, after: Option<String>) -> Result<DuePage, StoreError>;

    /// Lists runs, newest first. Eventually consistent.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] for a limit that is none, or an `after` that no page of this query has given.
    async fn list(&self, query: &ListQuery) -> Result<Page<RunSummary>, StoreError>;
}
