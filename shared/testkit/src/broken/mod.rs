//! Engines that are broken on purpose, one for each invariant of the protocol: to see that the suites would notice.
//!
//! Each is a double of the ports: what it does to a read or a write on its way is what a worker with that defect would do. So the
//! product needs no switch for it, and every suite that builds its ports can run on any of them.

mod blobs;
mod queue;
mod store;

use std::fmt;
use std::sync::Arc;

use stepwell_ports::{BlobStore, CheckpointStore, RunQueue};

use crate::Double;

/// The name of the secret that a suite's workflows must hold for [`Broken::UncoveredSecret`] to have something to give away.
pub const SECRET_NAME: &str = "outside-token";

/// The text of that secret.
pub const SECRET: &str = "zebra-token-6127-of-the-outside";

/// A deliberately broken engine.
///
/// ```
/// use stepwell_testkit::broken::Broken;
/// for broken in Broken::ALL {
///     assert_eq!(Broken::by_name(broken.name()), Some(broken));
///     assert!((1..=11).contains(&broken.invariant()));
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Broken {
    /// Nothing is sent after a hand-off, and the sweeper does not see the run.
    ForgottenHandOff,
    /// A worker that was fenced commits all the same.
    StaleFence,
    /// A worker that takes a run over does not see what the one before was about to call.
    ForgottenIntent,
    /// A worker that takes a run over reads an effect that may have happened as one that has failed.
    GuessedFailure,
    /// A worker that takes a run over gets the checkpoint from before the last step.
    StaleAcquire,
    /// A signal is answered "accepted", and is not written.
    LostSignal,
    /// Every message is sent twice.
    EchoedMessage,
    /// A run that waits is taken up before its time.
    EarlyTimer,
    /// A run is resumed, and nobody knows by whom.
    UnrecordedResume,
    /// A blob is gone as soon as it is stored.
    LostBlob,
    /// A commit leaves no mark for the watchdog.
    NoMark,
    /// A secret is written as it is.
    UncoveredSecret,
}

impl Broken {
    /// All of them, by the number of their invariant.
    pub const ALL: [Self; 12] = [
        Self::ForgottenHandOff,
        Self::StaleFence,
        Self::ForgottenIntent,
        Self::GuessedFailure,
        Self::StaleAcquire,
        Self::LostSignal,
        Self::EchoedMessage,
        Self::EarlyTimer,
        Self::UnrecordedResume,
        Self::LostBlob,
        Self::NoMark,
        Self::UncoveredSecret,
    ];

    /// Its name, as on command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ForgottenHandOff => "forgotten-hand-off",
            Self::StaleFence => "stale-fence",
            Self::ForgottenIntent => "forgotten-intent",
            Self::GuessedFailure => "guessed-failure",
            Self::StaleAcquire => "stale-acquire",
            Self::LostSignal => "lost-signal",
            Self::EchoedMessage => "echoed-message",
            Self::EarlyTimer => "early-timer",
            Self::UnrecordedResume => "unrecorded-resume",
            Self::LostBlob => "lost-blob",
            Self::NoMark => "no-mark",
            Self::UncoveredSecret => "uncovered-secret",
        }
    }

    /// The one of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|broken| broken.name() == name)
    }

    /// Which invariant it breaks, as numbered in `shared/PROOF.md`.
    pub const fn invariant(self) -> u8 {
        match self {
            Self::ForgottenHandOff => 1,
            Self::StaleFence => 2,
            Self::ForgottenIntent => 3,
            Self::GuessedFailure => 4,
            Self::StaleAcquire => 5,
            Self::LostSignal => 6,
            Self::EchoedMessage => 7,
            Self::EarlyTimer => 8,
            Self::UnrecordedResume | Self::LostBlob => 9,
            Self::NoMark => 10,
            Self::UncoveredSecret => 11,
        }
    }

    /// What is wrong with it, for people.
    pub const fn what(self) -> &'static str {
        match self {
            Self::ForgottenHandOff => "nothing is sent after a hand-off, and the sweeper does not see the run",
            Self::StaleFence => "a worker that was fenced commits all the same",
            Self::ForgottenIntent => "a worker that takes over does not see what the one before was about to call",
            Self::GuessedFailure => "a worker that takes over reads \"may have happened\" as \"has failed\"",
            Self::StaleAcquire => "a worker that takes over gets the checkpoint from before the last step",
            Self::LostSignal => "a signal is answered \"accepted\", and is not written",
            Self::EchoedMessage => "every message is sent twice",
            Self::EarlyTimer => "a run that waits is taken up before its time",
            Self::UnrecordedResume => "a run is resumed, and the history does not say so",
            Self::LostBlob => "a blob is gone as soon as it is stored",
            Self::NoMark => "a commit leaves no mark for the watchdog",
            Self::UncoveredSecret => "a secret is written as it is",
        }
    }

    /// This store, as such an engine uses it.
    pub fn store(self, inner: Arc<dyn CheckpointStore>) -> Arc<dyn CheckpointStore> {
        Arc::new(Double(store::Store::new(self, inner)))
    }

    /// This queue, as such an engine uses it.
    pub fn queue(self, inner: Arc<dyn RunQueue>) -> Arc<dyn RunQueue> {
        match self {
            Self::ForgottenHandOff | Self::EchoedMessage | Self::EarlyTimer => Arc::new(queue::Queue::new(self, inner)),
            Self::StaleFence
            | Self::ForgottenIntent
            | Self::GuessedFailure
            | Self::StaleAcquire
            | Self::LostSignal
            | Self::UnrecordedResume
            | Self::LostBlob
            | Self::NoMark
            | Self::UncoveredSecret => inner,
        }
    }

    /// This blob store, as such an engine uses it.
    pub fn blobs(self, inner: Arc<dyn BlobStore>) -> Arc<dyn BlobStore> {
        if self == Self::LostBlob { Arc::new(blobs::Forgetful(inner)) } else { inner }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
