//! The arguments of whoever decides: approvals, and what is to stand.

use clap::Args;
use stepwell_core::{ApprovalId, Reviewer, RunId};

use super::{at_least_one, who, words};

#[derive(Debug, Args)]
pub(crate) struct Approvals {
    /// Only of this run [default: of all that have not ended, waiting ones first]
    pub(crate) run: Option<RunId>,
    /// Only those that whoever has this role may decide now; give it again for each role
    #[arg(long = "role", value_name = "ROLE", value_parser = who)]
    pub(crate) roles: Vec<String>,
    /// Only those that this person may decide now
    #[arg(long, value_name = "WHO", value_parser = who)]
    pub(crate) by: Option<String>,
    /// Those too that are not open: decided, used, replaced, expired. Those of a run that has ended are shown with RUN alone
    #[arg(long)]
    pub(crate) all: bool,
    /// Look at no more runs than this
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = at_least_one, conflicts_with = "run")]
    pub(crate) limit: usize,
}

impl Approvals {
    /// Who would decide, if that matters.
    pub(crate) fn reviewer(&self) -> Option<Reviewer> {
        let is_asked = self.by.is_some() || !self.roles.is_empty();
        is_asked.then(|| Reviewer { name: self.by.clone().unwrap_or_default(), roles: self.roles.clone() })
    }
}

#[derive(Debug, Args)]
pub(crate) struct Approve {
    #[command(flatten)]
    pub(crate) answer: Answer,
    /// Why
    #[arg(long, value_name = "TEXT", value_parser = words)]
    pub(crate) why: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Reject {
    #[command(flatten)]
    pub(crate) answer: Answer,
    /// Why not: the run is told
    #[arg(long, value_name = "TEXT", value_parser = words)]
    pub(crate) why: String,
}

/// Which approval is answered, and by whom.
#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// Of which run
    pub(crate) run: RunId,
    /// Which approval: its id, as approvals and show give it. It is bound to the parameters
    #[arg(value_parser = approval)]
    pub(crate) approval: ApprovalId,
    /// Who decides. Taken at your word, as --role is: whoever may write here could do anything else, too. The API goes by the
    /// caller's key
    #[arg(long, value_name = "WHO", env = "USER", hide_env_values = true, value_parser = who)]
    pub(crate) by: String,
    /// A role that they have; give it again for each role
    #[arg(long = "role", value_name = "ROLE", value_parser = who)]
    pub(crate) roles: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct LetStand {
    /// Of which run
    pub(crate) run: RunId,
    /// Why, and what was done instead
    #[arg(long, value_name = "TEXT", value_parser = words)]
    pub(crate) why: String,
    /// Who says so
    #[arg(long, value_name = "WHO", env = "USER", hide_env_values = true, value_parser = who)]
    pub(crate) by: String,
}

pub(super) fn approval(text: &str) -> Result<ApprovalId, &'static str> {
    ApprovalId::parse(text).ok_or("no id of an approval: those are 16 hexadecimal digits, in lower case")
}
