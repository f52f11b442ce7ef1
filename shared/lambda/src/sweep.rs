//! The sweeper: wakes what is due, each minute.

use core::time::Duration;

use lambda_runtime::{LambdaEvent, service_fn};
use serde::de::IgnoredAny;
use stepwell::Registry;
use stepwell_engine::{ClientError, Engine, SweepReport};

use crate::process::{Deployment, Fatal};

/// How far a sweep looks: twice the schedule's minute. A timer is then seen at least once before its time, even when one
/// sweep comes late or not at all.
const AHEAD: Duration = Duration::from_mins(2);

/// Sweeps once. Twice at the same time is harmless: one message too many is.
///
/// # Errors
/// When index or queue are not available. The invocation fails then, which alarms see; the next sweep finds the rest.
pub async fn sweep(engine: &Engine) -> Result<SweepReport, ClientError> {
    let report = engine.sweep(AHEAD).await?;
    tracing::info!(seen = report.seen, sent = report.sent, reminded = report.reminded, "swept");
    Ok(report)
}

/// Serves schedules until Lambda ends the process.
pub(crate) async fn serve() -> Result<(), Fatal> {
    let engine = Deployment::connect().await?.engine(Registry::new())?;
    let handler = async |_: LambdaEvent<IgnoredAny>| match sweep(&engine).await {
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::error!(%error, code = error.code(), "the sweep failed; the next one follows");
            Err(lambda_runtime::Error::from(error))
        }
    };
    lambda_runtime::run(service_fn(handler)).await.map_err(|error| Fatal::Runtime(error.to_string()))
}
