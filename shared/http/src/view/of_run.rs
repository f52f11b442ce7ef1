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

/// Where a page of runs begins, status after status: in the list of which, and after what of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunsFrom {
    /// The status whose list it is.
    pub status: Phase,
    /// The `next` of the page of that list before it. `None`: it begins with the first.
    pub after: Option<String>,
}

impl RunsFrom {
    /// The beginning of all of these lists. `None`: there are none.
    pub fn first(statuses: &[Phase]) -> Option<Self> {
        statuses.first().map(|status| Self { status: *status, after: None })
    }

    /// What follows a page of this status' list, whose `next` is given. `None`: that was the last of the last.
    pub fn following(statuses: &[Phase], status: Phase, next: Option<String>) -> Option<Self> {
        if next.is_some() {
            return Some(Self { status, after: next });
        }
        let status = *statuses.iter().skip_while(|known| **known != status).nth(1)?;
        Some(Self { status, after: None })
    }

    /// As a page's own `next`.
    pub fn token(&self) -> String {
        format!("{}:{}", self.status, self.after.as_deref().unwrap_or_default())
    }

    /// Reads a token. `None`: no page of these lists has given it.
    pub fn parse(token: &str, statuses: &[Phase]) -> Option<Self> {
        let (status, after) = token.split_once(':')?;
        let status = Phase::parse(status).filter(|status| statuses.contains(status))?;
        Some(Self { status, after: Some(after.to_owned()).filter(|after| !after.is_empty()) })
    }
}

/// Runs that are loaded side by side.
pub const RUNS_AT_ONCE: usize = 8;

/// These runs, some at a time. One that is there no more is left out.
///
/// # Errors
/// When a run cannot be read.
pub async fn load_each(
    client: &Client,
    runs: impl IntoIterator<Item = &RunId>,
) -> Result<Vec<Checkpoint>, ClientError> {
    let (runs, mut found): (Vec<&RunId>, _) = (runs.into_iter().collect(), Vec::new());
    for some in runs.chunks(RUNS_AT_ONCE) {
        for loaded in join_all(some.iter().map(|run| client.get(run))).await {
            match loaded {
                Ok(run) => found.push(run),
                Err(ClientError::NoSuchRun(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

/// Those of these runs.
///
/// # Errors
/// When a run cannot be read.
pub async fn of_each<T: OfRun>(client: &Client, runs: &[RunId], now: Timestamp) -> Result<Vec<T>, ClientError> {
    Ok(load_each(client, runs).await?.iter().flat_map(|run| T::of(run, now)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_back_and_others_are_not() {
        let statuses = [Phase::Parked, Phase::Waiting];
        for token in ["parked:", "waiting:a:b"] {
            assert_eq!(RunsFrom::parse(token, &statuses).map(|place| place.token()).as_deref(), Some(token));
        }
        for token in ["", "parked", "failed:", "nothing:x"] {
            assert!(RunsFrom::parse(token, &statuses).is_none(), "{token}");
        }
    }
}
