//! What is looked for in runs that have not ended.

use futures_util::future::join_all;
use serde::Serialize;
use stepwell_core::{Checkpoint, Phase, RunId, Timestamp};
use stepwell_engine::{Client, ClientError};

/// Something of which a run may have several, and which is listed across runs.
pub trait OfRun: Serialize + Sized {
    /// Statuses whose runs may have some, in the order in which people want to see them.
    const STATUSES: [Phase; 4];

    /// Those of a run, as they are at this time.
    fn of(run: &Checkpoint, now: Timestamp) -> Vec<Self>;
}

/// Those of these runs, which are loaded side by side. A run that is there no more has none.
///
/// # Errors
/// When a run cannot be read.
pub async fn of_each<T: OfRun>(client: &Client, runs: &[RunId], now: Timestamp) -> Result<Vec<T>, ClientError> {
    let mut found = Vec::new();
    for loaded in join_all(runs.iter().map(|run| client.get(run))).await {
        match loaded {
            Ok(run) => found.extend(T::of(&run, now)),
            Err(ClientError::NoSuchRun(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}
