//! How a function's process begins and ends.

use core::future::Future;
use core::time::Duration;
use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use stepwell::Registry;
use stepwell_aws::Aws;
use stepwell_core::decide::Rules;
use stepwell_core::{RunId, WorkerId};
use stepwell_engine::{Engine, Ports};
use stepwell_ports::system::{SystemClock, SystemIds};
use stepwell_ports::{CheckpointStore, Ids as _, Receipt, RunQueue};
use tokio::runtime::{Builder, Runtime};

use crate::logs;
use crate::settings::{Settings, environment};

/// How long the start waits for warm connections. The first call would pay for them anyway; a store that is away is not
/// waited for.
const WARM_MAX: Duration = Duration::from_millis(300);

/// The variable in which Lambda names this process's log stream: `2026/01/31/[$LATEST]<32 hex digits>`.
const LOG_STREAM_VARIABLE: &str = "AWS_LAMBDA_LOG_STREAM_NAME";

/// Why a process cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fatal {
    /// Settings or workflows that cannot be used: all that is wrong with them.
    #[error("this function cannot start: {}", .0.join("; "))]
    Setup(Vec<String>),
    /// The system or Lambda's runtime.
    #[error("the runtime has ended: {0}")]
    Runtime(String),
}

impl Fatal {
    const fn code(&self) -> &'static str {
        match self {
            Self::Setup(_) => "setup",
            Self::Runtime(_) => "runtime",
        }
    }

    /// As `sysexits.h` names them: a configuration error, an internal error.
    const fn exit(&self) -> u8 {
        match self {
            Self::Setup(_) => 78,
            Self::Runtime(_) => 70,
        }
    }
}

/// For code that may block: an author's step. With a second thread, lease renewals and the other runs of the batch go on
/// meanwhile, even on a part of one processor. The handler itself is on neither of them: it can answer in time whatever
/// steps do.
pub(crate) fn threads() -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// For code that is all ours, and waits for others most of the time.
pub(crate) fn one_thread() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Starts logs, then serves until Lambda ends the process. Says why if it cannot.
pub(crate) fn run(runtime: io::Result<Runtime>, serve: impl Future<Output = Result<(), Fatal>>) -> ExitCode {
    logs::start();
    let served = match runtime {
        Ok(runtime) => runtime.block_on(serve),
        Err(error) => Err(Fatal::Runtime(error.to_string())),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(fatal) => {
            tracing::error!(error = %fatal, code = fatal.code(), "the process ends");
            ExitCode::from(fatal.exit())
        }
    }
}

/// What a function works with.
pub(crate) struct Deployment {
    pub(crate) ports: Ports,
    /// The dead-letter queue, as a queue: what was received from it is put off there.
    pub(crate) dead_letters: Arc<dyn RunQueue>,
    rules: Rules,
}

impl Deployment {
    /// Reads the settings, and builds the clients.
    pub(crate) async fn connect() -> Result<Self, Fatal> {
        Self::checked(Vec::new()).await
    }

    /// The same, unless something else is wrong already.
    pub(crate) async fn checked(mut problems: Vec<String>) -> Result<Self, Fatal> {
        let settings = Settings::read(environment, &mut problems);
        let Some(settings) = settings.filter(|_| problems.is_empty()) else { return Err(Fatal::Setup(problems)) };
        let aws = Aws::connect(settings.aws).await;
        let ports = Ports {
            store: aws.store(),
            queue: aws.queue(),
            blobs: aws.blobs(),
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIds),
        };
        Ok(Self { ports, dead_letters: aws.dead_letters(), rules: settings.rules })
    }

    pub(crate) fn engine(&self, registry: Registry) -> Result<Engine, Fatal> {
        let settings = stepwell_engine::Settings { worker: worker()?, rules: self.rules };
        let engine = Engine::new(self.ports.clone(), Arc::new(registry), settings);
        engine.map_err(|error| Fatal::Setup(vec![error.to_string()]))
    }
}

/// The workflows, or what is wrong with them.
pub(crate) fn workflows<E: Error>(registry: Result<Registry, E>, problems: &mut Vec<String>) -> Option<Registry> {
    let registry = registry.map_err(|error| problems.push(format!("the workflows cannot be used: {error}"))).ok()?;
    problems.extend(registry.problems().iter().map(ToString::to_string));
    Some(registry)
}

/// Opens the connections that the first event will need: a look at a run that cannot exist, and where the function's role may
/// do that, at a delivery that cannot either. It takes 300 milliseconds at most, and whatever the answers are, the process
/// goes on. The sweeper is not warmed: its role may look at no single run, and nobody waits for it.
pub async fn warm(store: &dyn CheckpointStore, queue: Option<&dyn RunQueue>) {
    let Ok(nobody) = RunId::new("nobody") else { return };
    let nothing = Receipt("nothing".into());
    let look = async {
        match queue {
            Some(queue) => queue.extend(&nothing, Duration::ZERO).await.is_ok(),
            None => true,
        }
    };
    let calls = async { tokio::join!(store.load(&nobody), look) };
    match tokio::time::timeout(WARM_MAX, calls).await {
        Ok((store, queue)) => tracing::debug!(store = store.is_ok(), queue, "warm"),
        Err(late) => tracing::debug!(%late, "connections are not warm yet"),
    }
}

/// Names this process in leases, so that a person finds its log stream.
fn worker() -> Result<WorkerId, Fatal> {
    let name = named(environment(LOG_STREAM_VARIABLE).as_deref(), || SystemIds.run_id().to_string());
    WorkerId::new(name).map_err(|error| Fatal::Setup(vec![error.to_string()]))
}

fn named(stream: Option<&str>, fresh: impl FnOnce() -> String) -> String {
    let own = stream.and_then(|stream| stream.rsplit(']').next());
    let own = own.filter(|own| own.len() <= 48 && own.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    format!("lambda-{}", own.map_or_else(fresh, str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_named_after_its_log_stream() {
        let fresh = || "fresh".to_owned();
        assert_eq!(named(Some("2026/01/31/[$LATEST]0123abcd"), fresh), "lambda-0123abcd");
        assert_eq!(named(None, fresh), "lambda-fresh");
        assert_eq!(named(Some("a/stream of another form"), fresh), "lambda-fresh");
        assert!(worker().is_ok());
    }
}
