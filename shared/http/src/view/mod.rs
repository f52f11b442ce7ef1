//! What is shown, in the words of the CLI's `--json`.

mod history;
mod run;
mod unknown;

use std::fmt;

use serde::{Serialize, Serializer};
use stepwell_core::{Json, Payload, Phase, RunId, Timestamp, WorkflowName};
use stepwell_engine::{Client, Remedy};
use stepwell_ports::{Page, RunSummary};

use crate::problem::Problem;

pub(crate) use history::{EntryView, HistoryView};
pub(crate) use run::{CancelAnswerView, RunView};
pub(crate) use unknown::{UnknownView, UnknownsView};

/// The largest value that is shown. A Lambda function answers with 6 MB at most, in which quotes count double.
const VALUE_BYTES_SHOWN: u64 = 2 * 1024 * 1024;

/// A point in time, in RFC 3339.
#[derive(Clone, Copy)]
pub(crate) struct At(pub(crate) Timestamp);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = i64::try_from(self.0.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        match time {
            Some(time) => write!(f, "{time:.3}"),
            // After the year 9999.
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A stored value, or why it is not here: the rest is shown all the same.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Here(Json),
    /// In a blob that was not read, of this many bytes.
    Apart {
        stored_apart: u64,
    },
    Lost {
        unreadable: &'static str,
    },
}

impl Value {
    /// What the checkpoint itself holds: showing a run reads one item, however many values it has.
    fn of(payload: &Payload) -> Self {
        match payload {
            Payload::Inline(json) => Self::Here(json.clone()),
            Payload::Blob(blob) => Self::Apart { stored_apart: blob.size },
        }
    }

    /// The value, read from its blob if it has one.
    async fn load(client: &Client, payload: &Payload) -> Result<Self, Problem> {
        if let Payload::Blob(blob) = payload
            && blob.size > VALUE_BYTES_SHOWN
        {
            return Ok(Self::of(payload));
        }
        match client.value(payload).await {
            Ok(json) => Ok(Self::Here(json)),
            Err(error) => match error.remedy() {
                Remedy::Retry => Err(error.into()),
                Remedy::FixTheInput | Remedy::CallAPerson => {
                    tracing::error!(%error, "a value cannot be read");
                    Ok(Self::Lost { unreadable: "it is missing or was altered; a person has to look" })
                }
            },
        }
    }
}

#[derive(Serialize)]
pub(crate) struct PageView {
    runs: Vec<SummaryView>,
    next: Option<String>,
}

#[derive(Serialize)]
struct SummaryView {
    run: RunId,
    workflow: WorkflowName,
    status: Phase,
    started_at: At,
    wakes_at: Option<At>,
}

impl From<Page<RunSummary>> for PageView {
    fn from(page: Page<RunSummary>) -> Self {
        let view = |RunSummary { run, workflow, phase, started_at, wakes_at }| SummaryView {
            run,
            workflow,
            status: phase,
            started_at: At(started_at),
            wakes_at: wakes_at.map(At),
        };
        Self { runs: page.items.into_iter().map(view).collect(), next: page.next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(At(Timestamp(1_700_000_000_123)).to_string(), "2023-11-14T22:13:20.123Z");
        assert_eq!(At(Timestamp(u64::MAX)).to_string(), format!("{} ms", u64::MAX));
    }
}
