//! The arguments of whoever holds a run up, repairs it, or asks somebody by a link.

use std::time::Duration;

use clap::Args;
use stepwell_core::{ApprovalId, Revision, RunId};

use super::approval::approval;
use super::{Act, duration, who, words};

#[derive(Debug, Args)]
pub(crate) struct Pause {
    /// Which run is to stand still
    pub(crate) run: RunId,
    #[command(flatten)]
    pub(crate) act: Act,
}

#[derive(Debug, Args)]
pub(crate) struct Retry {
    /// Which run has failed and is to go on
    pub(crate) run: RunId,
    #[command(flatten)]
    pub(crate) act: Act,
}

#[derive(Debug, Args)]
pub(crate) struct Edit {
    #[command(flatten)]
    pub(crate) stated: Stated,
    /// The changes, as a JSON patch (RFC 6902): JSON, @FILE, or - for stdin. It changes the run's input while it has not begun, and its
    /// state once it has. Such as '[{"op": "replace", "path": "/grams", "value": 1200}]'
    #[arg(long, value_name = "JSON")]
    pub(crate) patch: String,
    #[command(flatten)]
    pub(crate) because: Because,
}

#[derive(Debug, Args)]
pub(crate) struct MoveTo {
    #[command(flatten)]
    pub(crate) stated: Stated,
    /// Which step it is at from now on, as its workflow writes it: a name, or JSON for a step that holds something, such as
    /// '{"Research": {"vendor": 1}}'
    #[arg(long, value_name = "STEP")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) because: Because,
}

#[derive(Debug, Args)]
pub(crate) struct Discard {
    #[command(flatten)]
    pub(crate) stated: Stated,
    #[command(flatten)]
    pub(crate) because: Because,
}

/// A run as somebody has seen it.
#[derive(Debug, Args)]
pub(crate) struct Stated {
    /// Which run
    pub(crate) run: RunId,
    /// The revision that you have looked at, as show gives it. If the run has moved on since, nothing is changed
    #[arg(long, value_name = "N", value_parser = revision)]
    pub(crate) revision: Revision,
}

/// Who does something that has to be explained.
#[derive(Debug, Args)]
pub(crate) struct Because {
    /// Why: the history says so
    #[arg(long, value_name = "TEXT", value_parser = words)]
    pub(crate) why: String,
    /// Who does it
    #[arg(long, value_name = "WHO", env = "USER", hide_env_values = true, value_parser = who)]
    pub(crate) by: String,
}

#[derive(Debug, Args)]
pub(crate) struct StateOf {
    /// Of which run
    pub(crate) run: RunId,
    /// After which revision, as show --history gives them [default: as it is now]. Earlier states are there where the workflow keeps them
    #[arg(long, value_name = "N", value_parser = revision)]
    pub(crate) at: Option<Revision>,
}

#[derive(Debug, Args)]
pub(crate) struct Link {
    /// Of which run
    pub(crate) run: RunId,
    /// Which approval: its id, as approvals and show give it
    #[arg(value_parser = approval)]
    pub(crate) approval: ApprovalId,
    /// For whom: whoever opens the link answers in this name, with no account. The link is worth as much as their word
    #[arg(long = "for", value_name = "PERSON", value_parser = who)]
    pub(crate) person: String,
    /// Where people reach the API: the link begins so
    #[arg(long, value_name = "URL")]
    pub(crate) base: String,
    /// How long it may be used [default: until the approval expires]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) expires_in: Option<Duration>,
    /// Who makes it: the answer says so
    #[arg(long, value_name = "WHO", env = "USER", hide_env_values = true, value_parser = who)]
    pub(crate) by: String,
}

fn revision(text: &str) -> Result<Revision, &'static str> {
    text.parse().map(Revision).map_err(|_| "no revision of a run: those are whole numbers, as show gives them")
}
