//! `stepwell dev`: everything that a deployment has, in one process on this machine: API, console, worker with its sweep, and
//! what the samples call. On loopback only, and everybody there is one person.

mod demo;
mod shown;

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use axum::Router;
use stepwell_core::WorkerId;
use stepwell_core::decide::Rules;
use stepwell_core::link::LinkKeys;
use stepwell_engine::{ClientError, Settings, Worker, WorkerSettings};
use stepwell_http::{Access, Actor, Api, Site};
use stepwell_samples::Outside;
use stepwell_samples::outside::{World, WorldError, WorldOptions};
use stepwell_samples::ready;
use stepwell_samples::refund;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::shown::ShownDev;
use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::links;
use crate::output::{Output, say};
use crate::stop::{StopSignals, stdin_closed};
use crate::workflows::Workflows;

const SERVICE: &str = "API and console";

/// Short, so that runs go on soon when this was killed and started again.
const LEASE: Duration = Duration::from_secs(10);

/// How long open connections may finish when it stops. Whoever watches a run asks again, and finds nobody.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// A role of the API's own that may do everything.
const ADMIN: &str = "admin";

pub(super) async fn run(cli: &Cli, args: &args::Dev, workflows: &Workflows, out: Output) -> Result<Exit, CliError> {
    let mut signals = StopSignals::listen()?;
    let (listener, port) = bind(args.port).await?;
    let backend = Backend::open(cli).await?;
    let world = if workflows.are_samples() { Some(World::start(WorldOptions::default()).await?) } else { None };
    let outside = world.as_ref().map(World::addresses);
    let registry = workflows.registry(&outside.clone().unwrap_or_else(Outside::default))?;
    let client = backend.client(registry.clone());
    let worker = WorkerId::new(format!("dev-{}", std::process::id())).map_err(ClientError::from)?;
    let settings = Settings { worker: worker.clone(), rules: Rules { lease: LEASE, ..Rules::default() } };
    let engine = backend.engine(registry, settings)?;
    let demo = if args.no_demo || world.is_none() { Vec::new() } else { demo::start(&client, &ready::INPUTS).await? };

    let actor = Actor { name: args.name.clone(), roles: roles(args, workflows) };
    let access = Access::local(actor.clone(), port).with_link_keys(link_keys()?);
    let url = format!("http://127.0.0.1:{port}");
    let site = Site { streams: true, base_url: Some(url.clone()), local: true };
    let api = Api { client, access, site };
    let app = stepwell_http::router(api.clone()).merge(stepwell_console::router(&api));

    let (stop, stopping) = watch::channel(false);
    let server = serve(listener, app, stopping.clone());
    let settings = WorkerSettings { wait: backend.poll(), ..WorkerSettings::default() };
    let working = tokio::spawn(Worker::new(engine, settings).run(stopped(stopping)));
    let shown = ShownDev::of(url, actor, backend.place(), demo);
    out.data(&shown)?;
    if out.is_json() {
        tracing::info!(%worker, port, "ready");
    } else {
        shown.say(&worker, outside.as_ref());
    }
    tokio::select! {
        () = signals.next() => {}
        () = stdin_closed(), if args.stop_with_stdin => {}
    }
    if !out.is_json() {
        say("stopping: each run in progress ends its step; a second signal stops at once");
    }
    stop.send_replace(true);
    tokio::select! {
        _ = working => {}
        () = signals.next() => return Err(CliError::StoppedAtOnce),
    }
    end(server).await;
    if let Some(world) = world {
        world.stop().await;
    }
    Ok(Exit::Done)
}

/// Loopback, and nothing else: whoever comes is taken for the person at this machine.
async fn bind(port: u16) -> Result<(TcpListener, u16), CliError> {
    let bound = match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
        Ok(listener) => listener.local_addr().map(|address| (listener, address.port())),
        Err(error) => Err(error),
    };
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::AddrInUse => WorldError::PortInUse { service: SERVICE, port },
        _ => WorldError::Bind { service: SERVICE, port, source },
    };
    Ok(bound.map_err(failed)?)
}

/// Those that were given, or those that the samples' whole life takes.
fn roles(args: &args::Dev, workflows: &Workflows) -> Vec<String> {
    if !args.roles.is_empty() {
        return args.roles.clone();
    }
    let reviewers: &[&str] = if workflows.are_samples() { &[refund::APPROVERS, refund::ESCALATED_TO] } else { &[] };
    [ADMIN].iter().chain(reviewers).map(|role| (*role).to_owned()).collect()
}

/// Those that sign for `link` too, or some that end with this process.
fn link_keys() -> Result<LinkKeys, CliError> {
    links::from_environment()?.map_or_else(links::for_this_process, Ok)
}

fn serve(listener: TcpListener, app: Router, stopping: watch::Receiver<bool>) -> JoinHandle<()> {
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, app).with_graceful_shutdown(stopped(stopping)).await {
            tracing::error!(%error, "the API and console ended");
        }
    })
}

/// A sender that is gone says the same as one that has sent.
async fn stopped(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Whoever waits for a run to change would keep it open for long.
async fn end(mut server: JoinHandle<()>) {
    if tokio::time::timeout(STOP_GRACE, &mut server).await.is_err() {
        server.abort();
    }
}
