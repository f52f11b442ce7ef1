//! What is shown of runs, as JSON. These are the words of the API and of the CLI's `--json`: they stand here once.
//!
//! **What lives here:** the types that are serialised, and how each is made of what the engine knows. They can be read
//! too, for whoever shows them to people: the CLI keeps the words for those.
//!
//! A run's values may be large, and may lie in blobs: [`Reach`] says which of them are read.

mod approval;
mod budget;
mod contents;
mod effect;
mod history;
mod list;
mod of_run;
mod pretty;
mod repaired;
mod resumed;
mod run;
mod seen;
mod undo;
mod unknown;
mod value;

use std::fmt;

use serde::{Serialize, Serializer};
use stepwell_core::Timestamp;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::schema;

pub use approval::{
    AnswerView, AnsweredView, ApprovalView, AuthorityView, EscalationView, NoLink, StandsView, UsedView, to_be_linked,
};
pub use budget::{BudgetView, CounterView};
pub use contents::{CONTENT_BYTES_MAX, CONTENTS_MAX, Content, ContentView, Contents, ContentsView};
pub use effect::{EffectView, OutcomeView};
pub(crate) use history::HistoryView;
pub use history::{EffectLineView, EntryView};
pub use list::{PageView, SummaryView};
pub use of_run::{OfRun, RUNS_AT_ONCE, RunsFrom, load_each, of_each};
pub use pretty::pretty;
pub use repaired::{DiscardedView, EditedView, MovedView, PauseView, StateView};
pub use resumed::{AllowedView, ResumeView};
pub use run::{
    CancelAnswerView, CancelView, DetailView, FailureView, PausingView, RunView, SignalView, TroubleView, UsageView,
    WorkerView,
};
pub use seen::is_seen;
pub use undo::{CauseView, CertificateView, CertifiedView, LetStandView, UndoView, UndoingView};
pub use unknown::{UnknownView, wants_an_answer};
pub use value::{Reach, Value};

/// A point in time, in RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At(pub Timestamp);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl Serialize for At {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl PartialSchema for At {
    fn schema() -> RefOr<Schema> {
        schema::Time::schema()
    }
}

impl ToSchema for At {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(At(Timestamp(1_700_000_000_123)).to_string(), "2023-11-14T22:13:20.123Z");
        assert_eq!(format!("{:26}|", At(Timestamp(0))), "1970-01-01T00:00:00.000Z  |");
    }
}
