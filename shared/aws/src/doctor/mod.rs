//! Looks at a deployed stack and says what is not as it has to be, and how to mend it.
//!
//! Two halves: `look` asks AWS and writes down facts, `judge` turns facts into findings and asks nobody. What cannot be
//! seen (a permission that these credentials do not have, a call that an emulator does not know) is a finding too.
//!
//! It looks with the credentials that it is given, so what it says about permissions holds for them alone. It changes
//! nothing, leaves nothing behind and wakes no run: each attempt at a write is one that must be refused for another reason
//! than permission, but for one object of a few bytes that is deleted at once.

mod facts;
mod judge;
mod look;

use crate::{Aws, AwsSettings, SettingsError, clients};

use facts::Ground;

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// As it has to be.
    Ok,
    /// It could not be seen.
    Unknown,
    /// Runs go on, but something is missing that will be missed one day.
    Warn,
    /// Runs stand still, or may be lost.
    Fail,
}

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at: a short name for scripts, such as `queue-visibility`.
    pub check: String,
    /// How it stands.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// What to do about it; nothing where all is well.
    pub mend: Option<String>,
}

/// Looks at the stack that these settings name, with the region, the credentials and the endpoints of the environment.
/// Takes some seconds where something does not answer. Without settings, a region or credentials it says only that.
pub async fn examine(settings: Result<AwsSettings, SettingsError>) -> Vec<Finding> {
    let shared = clients::shared().await;
    let (settings, missing) = match settings {
        Ok(settings) => (Some(settings), Vec::new()),
        Err(error) => (None, error.missing),
    };
    let credentials = look::credentials(&shared).await;
    let ground = Ground { missing, region: shared.region().map(ToString::to_string), credentials };
    let mut findings = judge::ground(&ground);
    let stands = findings.iter().all(|finding| finding.status != Status::Fail);
    if let (Some(settings), true) = (settings, stands) {
        let aws = Aws::connect(settings.clone()).await;
        let lambda = look::lambda(&shared);
        findings.extend(judge::stack(&look::stack(&aws, &lambda, settings).await));
    }
    findings
}
