use std::sync::Arc;

use stepwell_core::decide::Rules;
use stepwell_core::link::LinkKeys;
use stepwell_core::{Digest, WorkerId};
use stepwell_engine::{Client, Engine, Ports, Settings, Worker, WorkerSettings};
use stepwell_http::{Access, Api, Limits, Site};
use stepwell_local::{Local, Options};
use stepwell_ports::system::{SystemClock, SystemIds};
use stepwell_samples::outside::{World, WorldOptions};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// API and console in this process, for callers with keys, on the embedded backend, with a worker and an outside. All of it
/// ends with this value.
pub struct Keyed {
    /// Where it is.
    pub url: String,
    /// Speaks to its runs.
    pub client: Client,
    _serving: JoinSet<()>,
    _working: Working,
    _dir: TempDir,
}

/// A worker and the outside that its steps call. Both end with this value.
pub struct Working {
    world: World,
    _worker: JoinSet<()>,
}

impl Keyed {
    /// Serves, for whom these keys name: `name:role+role=<digest>`, apart by commas.
    ///
    /// # Panics
    /// Where the keys cannot be read, or the machine lacks a port or a folder.
    pub async fn serve(keys: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let clock = Arc::new(SystemClock);
        let local = Local::open(dir.path(), clock.clone(), Options::default()).expect("a folder of runs");
        let ids = Arc::new(SystemIds);
        let ports = Ports { store: local.store(), queue: local.queue(), blobs: local.blobs(), clock, ids };
        let (client, working) = work(ports).await;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let signing = LinkKeys::from_text(&signing_keys()).expect("keys that sign");
        // A suite asks oftener than people do.
        let access = Access::from_text(keys).expect("keys").with_link_keys(signing).with_limits(Limits::none());
        let site = Site { streams: true, base_url: Some(url.clone()), local: false };
        let api = Api { client: client.clone(), access, site };
        let console = stepwell_console::router(&api);
        let app = stepwell_http::router(api).merge(console);
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, app).await.unwrap_or(()) });
        Self { url, client, _serving: serving, _working: working, _dir: dir }
    }
}

impl Working {
    /// What its steps call.
    pub const fn world(&self) -> &World {
        &self.world
    }
}

/// A client, and a worker that works the samples.
///
/// # Panics
/// Where the outside does not come up.
pub async fn work(ports: Ports) -> (Client, Working) {
    let world = World::start(WorldOptions::default()).await.expect("an outside");
    let registry = Arc::new(stepwell_samples::registry(&world.addresses()).expect("addresses"));
    let client = Client::new(ports.clone(), Arc::clone(&registry));
    let settings = Settings { worker: WorkerId::new("suite").expect("a name"), rules: Rules::default() };
    let engine = Engine::new(ports, registry, settings).expect("an engine");
    let worker = Worker::new(engine, WorkerSettings::default());
    let mut working = JoinSet::new();
    working.spawn(async move { _ = worker.run(std::future::pending()).await });
    (client, Working { world, _worker: working })
}

/// What signs sessions and links, as a setting has it.
pub fn signing_keys() -> String {
    format!("suite={}", "5a".repeat(32))
}

/// A key as a server keeps it.
pub fn digest(key: &str) -> String {
    Digest::of(key.as_bytes()).to_string()
}
