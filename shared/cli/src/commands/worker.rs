//! `stepwell worker`: works on runs until told to stop.

use std::fmt;
use std::pin::pin;

use serde::Serialize;
use stepwell_core::WorkerId;
use stepwell_core::decide::Rules;
use stepwell_engine::{ClientError, Settings, Worker, WorkerReport, WorkerSettings};
use tokio::sync::oneshot;

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::{Output, say};
use crate::stop::{StopSignals, stdin_closed};
use crate::view::count;
use crate::workflows::Workflows;

#[derive(Serialize)]
struct ReportView {
    worker: WorkerId,
    turns: u64,
    buried: u64,
    abandoned: u64,
}

pub(super) async fn run(cli: &Cli, args: &args::Worker, workflows: &Workflows, out: Output) -> Result<Exit, CliError> {
    let args::Worker { concurrency, lease, turn, stop_with_stdin, outside } = args;
    let mut signals = StopSignals::listen()?;
    let id = WorkerId::new(format!("worker-{}", std::process::id())).map_err(ClientError::from)?;
    let settings = Settings { worker: id.clone(), rules: Rules { lease: *lease, ..Rules::default() } };
    let backend = Backend::open(cli).await?;
    let engine = backend.engine(workflows.registry(&outside.outside())?, settings)?;
    let settings =
        WorkerSettings { concurrency: *concurrency, turn: *turn, wait: backend.poll(), ..WorkerSettings::default() };

    let (stop, stopped) = oneshot::channel();
    let mut working = pin!(Worker::new(engine, settings).run(async {
        // A sender that is gone says the same as one that has sent.
        let _ = stopped.await;
    }));
    announce(&id, backend.place(), args, out);
    let report = tokio::select! {
        report = &mut working => report,
        () = signals.next() => finish(stop, working, &mut signals, out).await?,
        () = stdin_closed(), if *stop_with_stdin => finish(stop, working, &mut signals, out).await?,
    };
    let WorkerReport { turns, buried, abandoned } = report;
    out.data(&ReportView { worker: id, turns, buried, abandoned })?;
    Ok(Exit::Done)
}

fn announce(id: &WorkerId, place: &str, args: &args::Worker, out: Output) {
    let (runs, lease) = (args.concurrency, args.lease);
    if out.is_json() {
        tracing::info!(worker = %id, place, runs, ?lease, "ready");
    } else {
        say(format_args!("{id} is ready: works on {place}, {runs} runs at once, leases of {lease:?}"));
    }
}

/// Lets the runs in progress end their steps, unless told to stop once more.
async fn finish(
    stop: oneshot::Sender<()>,
    working: impl Future<Output = WorkerReport>,
    signals: &mut StopSignals,
    out: Output,
) -> Result<WorkerReport, CliError> {
    if !out.is_json() {
        say("stopping: each run in progress ends its step; a second signal stops at once");
    }
    drop(stop);
    tokio::select! {
        report = working => Ok(report),
        () = signals.next() => Err(CliError::StoppedAtOnce),
    }
}

impl fmt::Display for ReportView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worker, turns, buried, abandoned } = self;
        write!(f, "{worker} has worked on {}; {buried} given up, {abandoned} cut off", count(*turns, "message"))
    }
}
