//! What went wrong in a store or queue, cut by what the caller can do about it.

/// An error of a [`crate::CheckpointStore`]. A condition that does not hold is not an error, see
/// [`Written::Refused`](crate::Written::Refused).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Nothing was written; the backend is busy. Back off, then try again.
    #[error("the store is busy, nothing was written: {0}; try again later")]
    Throttled(String),
    /// The write may have happened. Read before you try again, or send the very same request (its write id makes that safe).
    #[error("the write may have happened: {0}; read before you try again")]
    Unknown(String),
    /// What was asked for cannot be stored or read like this, now or later. Nothing was written. Fix the input.
    #[error("the store refuses this: {0}; nothing was written")]
    Invalid(String),
    /// Stored data is damaged, or from newer code. Nothing was written. Call a person.
    #[error("stored data cannot be used: {0}; nothing was written, a person has to look")]
    Damaged(String),
    /// The backend cannot be reached or cannot write (a full disk, say). Nothing was written. Later.
    #[error("the store is not available: {0}; nothing was written")]
    Unavailable(String),
}

impl StoreError {
    /// Whether the same request may succeed later without anybody changing anything.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Throttled(_) | Self::Unknown(_) | Self::Unavailable(_) => true,
            Self::Invalid(_) | Self::Damaged(_) => false,
        }
    }
}
