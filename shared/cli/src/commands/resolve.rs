//! `stepwell resolve`: a person says how an effect ended that may have happened.

use std::fmt;

use serde::Serialize;
use stepwell::Registry;
use stepwell_core::decide::{Resolution, Resolve};
use stepwell_core::{Checkpoint, EffectKey, ParkReason, Payload, RunId, Status};
use stepwell_engine::Client;
use stepwell_http::view::{At, OfRun as _, UnknownView};

use crate::args::{self, Cli};
use crate::backend::{Backend, now};
use crate::errors::{CliError, Exit};
use crate::input;
use crate::output::Output;
use crate::program;
use crate::view::{count, harmless};

#[derive(Serialize)]
struct ResolveView<'a> {
    run: &'a RunId,
    key: &'a EffectKey,
    resolution: &'static str,
    by: &'a str,
    why: &'a str,
    /// What becomes of the run, for people.
    #[serde(skip)]
    then: String,
}

pub(super) async fn run(cli: &Cli, args: &args::Resolve, out: Output) -> Result<Exit, CliError> {
    let args::Resolve { run, key, ended, why, by } = args;
    let resolution = resolution(ended)?;
    let word = resolution.as_str();
    let client = Backend::open_existing(cli).await?.client(Registry::new());
    client.resolve(run, Resolve { key: key.clone(), resolution, by: by.clone(), why: why.clone() }).await?;
    let then = if out.is_json() { String::new() } else { then(&client, run, key).await };
    out.data(&ResolveView { run, key, resolution: word, by, why, then })?;
    Ok(Exit::Done)
}

fn resolution(ended: &args::Ended) -> Result<Resolution, CliError> {
    Ok(match (&ended.succeeded, &ended.failed) {
        (Some(result), _) => Resolution::Succeeded(Payload::Inline(input::read("the result", result)?)),
        (None, Some(message)) => Resolution::Failed(message.clone()),
        (None, None) if ended.sign_off => Resolution::SignOff,
        // One of the four is there, says the group.
        (None, None) => Resolution::TryAgain,
    })
}

/// What becomes of the run. The resolution stands, whether the run can be looked at or not.
async fn then(client: &Client, run: &RunId, settled: &EffectKey) -> String {
    match client.get(run).await {
        Ok(after) => fate(&after, settled),
        Err(error) => format!("how the run stands now could not be read: {error}"),
    }
}

fn fate(after: &Checkpoint, settled: &EffectKey) -> String {
    let Checkpoint { run, progress, .. } = after;
    let others = UnknownView::of(after, now()).iter().filter(|unknown| unknown.key != *settled).count() as u64;
    match &progress.status {
        Status::Parked { reason: ParkReason::UnknownOutcome { .. }, .. } if others > 0 => {
            let (others, name) = (count(others, "other effect"), program::name());
            format!("the run stays parked: {others} may have happened too, see `{name} unknowns {run}`")
        }
        Status::Parked { reason, .. } => format!("the run is parked: {reason}"),
        Status::Created | Status::Running if after.cancel.is_some() => "the run goes on to its end".into(),
        Status::Created | Status::Running => "the run goes on".into(),
        Status::Retrying { at } => format!("the run goes on with its next attempt, at {}", At(*at)),
        Status::Waiting(_) => "the run waits on, and finds this when it goes on".into(),
        Status::Completed { .. } | Status::Failed { .. } | Status::Cancelled { .. } => {
            format!("the run has ended meanwhile: it is {}", progress.status.phase())
        }
    }
}

impl fmt::Display for ResolveView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, key, resolution, by, then, .. } = self;
        write!(f, "effect {key} of run {run} is resolved as {resolution}, says {}; {}", harmless(by), harmless(then))
    }
}

#[cfg(test)]
mod tests {
    use stepwell_core::{CancelRequest, MailboxSeq, Timestamp, Wait};

    use super::*;
    use crate::view::unknown_tests::{open, run};

    #[test]
    fn what_becomes_of_the_run_is_told() {
        let (settled, other) = (open("pay", None), open("mail", None));
        let mut cancelled = run();
        cancelled.progress.status = Status::Running;
        cancelled.cancel = Some(CancelRequest { by: "ada".into(), why: None, at: Timestamp(0) });
        assert_eq!(fate(&cancelled, &settled.key), "the run goes on to its end");
        let told = |status: Status, journal: Vec<_>| {
            let mut after = run();
            after.progress.status = status;
            after.progress.journal = journal;
            fate(&after, &settled.key)
        };
        let parked = |reason| Status::Parked { reason, at: Timestamp(0) };
        let unknown = || parked(ParkReason::UnknownOutcome { what: "it may have happened".into() });
        let mine = || vec![settled.clone()];
        assert!(told(unknown(), vec![settled.clone(), other]).contains("stays parked: 1 other effect may"));
        assert!(told(unknown(), mine()).contains("the run is parked: it may have happened"));
        assert!(told(parked(ParkReason::StepLimit { limit: 9 }), mine()).contains("parked: reached its limit of 9"));
        assert_eq!(told(Status::Running, mine()), "the run goes on");
        let retrying = told(Status::Retrying { at: Timestamp(1_000) }, mine());
        assert_eq!(retrying, "the run goes on with its next attempt, at 1970-01-01T00:00:01.000Z");
        let wait = Wait { on: Vec::new(), approval: None, until: None, budget_ends: None, seen: MailboxSeq(0) };
        assert_eq!(told(Status::Waiting(wait), mine()), "the run waits on, and finds this when it goes on");
        let output = Payload::Inline(stepwell_core::Json::of(&()).unwrap());
        assert_eq!(
            told(Status::Completed { output, at: Timestamp(0) }, mine()),
            "the run has ended meanwhile: it is completed"
        );
    }
}
