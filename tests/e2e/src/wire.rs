//! What goes over the wire: proxies that count each request and pass it on, and that can kill the process which made it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::process;

/// Longer bodies do not go over this wire.
const BODY_MAX: usize = 8 << 20;

/// Proxies that share one count. They end with this value.
pub(crate) struct Wire {
    shared: Arc<Shared>,
    servers: JoinSet<()>,
}

/// When a process is to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Its request has not gone out.
    Before,
    /// Its request was carried out, and it has not seen the answer.
    After,
}

/// One of a run's requests: the `nth` of its operation, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) operation: String,
    pub(crate) nth: usize,
}

/// Watches the requests that runners make for one run, and kills who makes a certain one, once.
#[derive(Clone, Debug)]
pub(crate) struct Trap {
    /// Requests that hold one of these words are the run's.
    pub(crate) words: Vec<String>,
    /// Where to kill. `None`: nowhere.
    pub(crate) at: Option<(Point, When)>,
}

/// A trap, and what it has seen.
struct Set {
    trap: Trap,
    seen: Vec<Point>,
    caught: bool,
}

/// What a trap has seen.
pub(crate) struct Seen {
    /// The run's requests, in order.
    pub(crate) points: Vec<Point>,
    /// Whether one was killed at.
    pub(crate) caught: bool,
}

struct Shared {
    client: reqwest::Client,
    counts: Mutex<BTreeMap<String, u64>>,
    traps: Mutex<BTreeMap<usize, Set>>,
}

impl Wire {
    pub(crate) fn new() -> Self {
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let shared = Shared { client, counts: Mutex::default(), traps: Mutex::default() };
        Self { shared: Arc::new(shared), servers: JoinSet::new() }
    }

    /// Listens on a port of its own, and passes what comes on to `upstream`. Answers its base URL.
    pub(crate) async fn to(&mut self, upstream: &str) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        self.serve(listener, upstream.to_owned())
    }

    /// As [`Wire::to`], on a port that was taken before its upstream was known.
    pub(crate) fn serve(&mut self, listener: TcpListener, upstream: String) -> String {
        let port = listener.local_addr().expect("its address").port();
        let app = Router::new().fallback(pass).with_state((Arc::clone(&self.shared), upstream));
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        self.servers.spawn(async move { axum::serve(listener, service).await.unwrap_or(()) });
        format!("http://127.0.0.1:{port}")
    }

    /// Requests since the last look, by operation.
    pub(crate) fn take_counts(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.shared.counts.lock().unwrap())
    }

    /// Sets a trap, under a number that no other has.
    pub(crate) fn set(&self, number: usize, trap: Trap) {
        self.shared.traps.lock().unwrap().insert(number, Set { trap, seen: Vec::new(), caught: false });
    }

    /// Takes a trap away. Answers what it has seen.
    pub(crate) fn lift(&self, number: usize) -> Seen {
        let set = self.shared.traps.lock().unwrap().remove(&number).expect("a trap of this number");
        Seen { points: set.seen, caught: set.caught }
    }
}

impl Shared {
    /// Counts the request for each trap, and says whom to kill now, and when.
    fn strike(&self, passing: &Passing, peer: SocketAddr) -> Option<(When, u32)> {
        let mut traps = self.traps.lock().unwrap();
        let mut strike = None;
        for set in traps.values_mut().filter(|set| set.trap.words.iter().any(|word| passing.holds(word))) {
            let Some(runner) = process::of_connection(peer).filter(|pid| process::is_runner(*pid)) else { continue };
            let nth = set.seen.iter().filter(|point| point.operation == passing.operation).count();
            let here = Point { operation: passing.operation.clone(), nth };
            if let Some((_, when)) = set.trap.at.as_ref().filter(|(at, _)| !set.caught && *at == here) {
                set.caught = true;
                strike = Some((*when, runner));
            }
            set.seen.push(here);
        }
        strike
    }
}

/// A request that comes by.
struct Passing {
    operation: String,
    uri: String,
    body: Bytes,
}

impl Passing {
    fn new(parts: &Parts, body: Bytes) -> Self {
        let target = parts.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
        let operation = match target.and_then(|target| target.rsplit('.').next()) {
            Some(operation) => operation.to_owned(),
            // S3 and the outside have no names for what is asked, only methods.
            None => object(&parts.method, parts.uri.path()),
        };
        Self { operation, uri: parts.uri.to_string(), body }
    }

    fn holds(&self, word: &str) -> bool {
        self.uri.contains(word) || self.body.windows(word.len()).any(|bytes| bytes == word.as_bytes())
    }
}

fn object(method: &Method, path: &str) -> String {
    match path {
        "/v1/mails" => format!("mail {method}"),
        _ if path.starts_with("/vendors") => format!("page {method}"),
        _ if path.starts_with("/v1/orders") || path.starts_with("/v1/refunds") => format!("shop {method}"),
        _ => format!("object {method}"),
    }
}

async fn pass(
    State((shared, upstream)): State<(Arc<Shared>, String)>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_MAX).await else { return failed("the body did not come") };
    let passing = Passing::new(&parts, body.clone());
    *shared.counts.lock().unwrap().entry(passing.operation.clone()).or_default() += 1;
    let strike = shared.strike(&passing, peer);
    if let Some((When::Before, runner)) = strike {
        process::kill(runner).await;
        return failed("whoever asked has been killed");
    }
    let answer = forward(&shared.client, &upstream, parts, body).await;
    if let Some((When::After, runner)) = strike {
        process::kill(runner).await;
    }
    answer.unwrap_or_else(|error| failed(&error.to_string()))
}

async fn forward(client: &reqwest::Client, upstream: &str, parts: Parts, body: Bytes) -> reqwest::Result<Response> {
    let Parts { method, uri, mut headers, .. } = parts;
    headers.remove(HOST);
    headers.remove(CONNECTION);
    headers.remove(CONTENT_LENGTH);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let answer = client.request(method, format!("{upstream}{path}")).headers(headers).body(body).send().await?;
    let mut response = Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        if name != TRANSFER_ENCODING && name != CONNECTION {
            response = response.header(name, value);
        }
    }
    let body = answer.bytes().await?;
    Ok(response.body(Body::from(body)).unwrap_or_else(|error| failed(&error.to_string())))
}

fn failed(why: &str) -> Response {
    let mut response = Response::new(Body::from(why.to_owned()));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}
