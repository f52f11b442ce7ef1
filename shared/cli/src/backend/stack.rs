//! A stack on AWS, which the environment names.

use std::sync::Arc;
use std::time::Duration;

use stepwell_aws::{Aws, AwsSettings, doctor};
use stepwell_engine::Ports;
use stepwell_ports::system::{SystemClock, SystemIds};

use super::Backend;
use crate::errors::CliError;
use crate::program;
use crate::view::{Finding, Standing};

/// The longest that SQS allows: an empty answer costs as much as any other.
const POLL: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(500);

#[allow(clippy::unnecessary_wraps, reason = "a program without AWS refuses here")]
pub(super) const fn check() -> Result<(), CliError> {
    Ok(())
}

pub(super) async fn open() -> Result<Backend, CliError> {
    let settings = AwsSettings::from_env()
        .map_err(|error| CliError::Stack { code: "no-settings", why: format!("--aws: {error}") })?;
    let AwsSettings { table, dead_letter_url, .. } = &settings;
    let place = format!("table {table}");
    let letters = format!(
        "on AWS they are in the queue {dead_letter_url}, and reading them would take them from the dead-letter function; \
         `{0} doctor --aws` tells how many there are, `{0} list --aws --status parked` shows the runs that need a person",
        program::name()
    );
    let aws = Aws::connect(settings).await;
    let (clock, ids) = (Arc::new(SystemClock), Arc::new(SystemIds));
    let ports = Ports { store: aws.store(), queue: aws.queue(), blobs: aws.blobs(), clock, ids };
    let mover = format!("the stack's runner (or `{} worker --aws`)", program::name());
    Ok(Backend { ports, place, mover, flag: " --aws", poll: POLL, look: LOOK, letters: Err(letters) })
}

#[allow(clippy::unnecessary_wraps, reason = "a program without AWS refuses here")]
pub(super) async fn examine() -> Result<Vec<Finding>, CliError> {
    let findings = doctor::examine(AwsSettings::from_env()).await;
    Ok(findings.into_iter().map(Finding::from).collect())
}

impl From<doctor::Finding> for Finding {
    fn from(finding: doctor::Finding) -> Self {
        let doctor::Finding { check, status, found, mend } = finding;
        let status = match status {
            doctor::Status::Ok => Standing::Ok,
            doctor::Status::Unknown => Standing::Unknown,
            doctor::Status::Warn => Standing::Warn,
            doctor::Status::Fail => Standing::Fail,
        };
        Self { check, status, found, mend }
    }
}
