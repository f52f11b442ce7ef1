//! What the processes of the story do: work, sweep, and serve the API. Each until it is killed.

use std::future::pending;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use stepwell::Registry;
use stepwell_core::WorkerId;
use stepwell_core::decide::Rules;
use stepwell_engine::{Client, Engine, Ports, Settings, Worker, WorkerSettings};
use stepwell_http::{Access, Actor, Api, Site};
use tokio::net::TcpListener;

use super::errand::{LEASE, REVIEWER};

/// Acquires without a commit before a run counts as poison. Here it is the workers that are killed, not the steps that kill.
const ACQUIRES_MAX: u32 = 200;

/// How often the sweeper looks.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// Whatever goes wrong before it begins.
pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// An engine of the story.
///
/// # Errors
/// A name that is none, a registry that is wrong.
pub fn engine(ports: Ports, registry: Registry, me: &str) -> Result<Engine, Failed> {
    let rules = Rules { lease: LEASE, acquires_max: ACQUIRES_MAX, ..Rules::default() };
    Ok(Engine::new(ports, Arc::new(registry), Settings { worker: WorkerId::new(me)?, rules })?)
}

/// Works. The sweep is left to the sweeper.
///
/// # Errors
/// As [`engine`].
pub async fn work(ports: Ports, registry: Registry, me: &str) -> Result<(), Failed> {
    let settings = WorkerSettings {
        concurrency: 16,
        turn: Duration::from_millis(500),
        wait: Duration::from_millis(200),
        sweep_every: Duration::from_hours(1),
        grace: Duration::from_secs(1),
    };
    Worker::new(engine(ports, registry, me)?, settings).run(pending()).await;
    Ok(())
}

/// Sweeps.
///
/// # Errors
/// As [`engine`].
pub async fn sweep(ports: Ports, registry: Registry, me: &str) -> Result<(), Failed> {
    let engine = engine(ports, registry, me)?;
    loop {
        if let Err(error) = engine.sweep(SWEEP_EVERY * 2).await {
            tracing::warn!(%error, "the sweep failed; the next one follows");
        }
        tokio::time::sleep(SWEEP_EVERY).await;
    }
}

/// Serves the API on loopback, as `stepwell dev` does, and says on stdout where. Callers find it behind a proxy on `port`.
///
/// # Errors
/// Those of the network.
pub async fn api(ports: Ports, registry: Registry, port: u16) -> Result<(), Failed> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address: SocketAddr = listener.local_addr()?;
    let client = Client::new(ports, Arc::new(registry));
    let actor = Actor { name: "nobody in particular".into(), roles: vec!["admin".into(), REVIEWER.into()] };
    let site = Site { streams: true, base_url: Some(format!("http://127.0.0.1:{port}")), local: true };
    let app = stepwell_http::router(Api { client, access: Access::local(actor, port), site });
    writeln!(io::stdout().lock(), "{address}")?;
    axum::serve(listener, app).await?;
    Ok(())
}
