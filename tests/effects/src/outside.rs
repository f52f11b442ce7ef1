//! The outside: an HTTP server that acts, counts how often it did, and makes trouble on request.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream;
use stepwell_core::{EffectKey, Timestamp};
use stepwell_ports::Clock;
use stepwell_ports::system::SystemClock;
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// The header that names an act.
const KEY: &str = "idempotency-key";

/// How long [`Memory::Window`] lasts.
pub const WINDOW: Duration = Duration::from_millis(500);

/// What the server remembers of an act when its key comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Nothing: it acts again.
    None,
    /// The act, for ever: it answers as it did then.
    Ever,
    /// The act, for [`WINDOW`]: it answers as it did then. After that it acts again.
    Window,
}

impl Memory {
    const fn path(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Ever => "ever",
            Self::Window => "window",
        }
    }

    fn of(path: &str) -> Option<Self> {
        [Self::None, Self::Ever, Self::Window].into_iter().find(|memory| memory.path() == path)
    }

    fn holds(self, acted: Instant) -> bool {
        match self {
            Self::None => false,
            Self::Ever => true,
            Self::Window => acted.elapsed() <= WINDOW,
        }
    }
}

/// What becomes of the first request under a key. Questions are never troubled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is held before it is acted on, until [`Held::land`], whether or not its caller still listens.
    HoldBefore,
    /// It is acted on, and answered only after [`Held::land`].
    HoldAfter,
    /// Its connection is cut before it is acted on.
    CutBefore,
    /// It is acted on, and its connection is cut instead of an answer.
    CutAfter,
}

/// A request that is held.
#[derive(Clone, Debug, Default)]
pub struct Held {
    reached: Arc<Notify>,
    land: Arc<Notify>,
}

impl Held {
    /// Returns when the request has come so far.
    pub async fn reached(&self) {
        self.reached.notified().await;
    }

    /// Lets it go on.
    pub fn land(&self) {
        self.land.notify_one();
    }

    async fn hold(&self) {
        self.reached.notify_one();
        self.land.notified().await;
    }
}

/// What the server has seen of one key.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Requests that arrived, questions aside.
    pub requests: u64,
    /// How often it acted.
    pub acts: u64,
    /// How often it was read from.
    pub reads: u64,
    /// When it was asked whether the key has happened.
    pub asked: Vec<Timestamp>,
    last_act: Option<Instant>,
}

#[derive(Default)]
struct Books {
    seen: BTreeMap<String, Seen>,
    trouble: BTreeMap<String, (Trouble, Held)>,
}

type Shared = Arc<Mutex<Books>>;

/// The server. It ends with the runtime that opened it.
#[derive(Clone)]
pub struct Outside {
    address: SocketAddr,
    books: Shared,
}

impl Outside {
    /// Opens one on a free port of this machine.
    ///
    /// # Errors
    /// Where there is no port.
    pub async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, books) = (listener.local_addr()?, Shared::default());
        let router = Router::new()
            .route("/read", get(read))
            .route("/act/{memory}", post(act))
            .route("/acts", get(ask))
            .with_state(Arc::clone(&books));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { address, books })
    }

    /// A client with connections of its own.
    pub fn caller(&self) -> Caller {
        Caller { client: reqwest::Client::new(), base: format!("http://{}", self.address) }
    }

    /// Makes trouble for the first request under this key.
    pub fn trouble(&self, key: &EffectKey, trouble: Trouble) -> Held {
        let held = Held::default();
        lock(&self.books).trouble.insert(key.to_string(), (trouble, held.clone()));
        held
    }

    /// What it has seen of this key.
    pub fn seen(&self, key: &EffectKey) -> Seen {
        lock(&self.books).seen.get(key.as_str()).cloned().unwrap_or_default()
    }
}

async fn read(State(books): State<Shared>, headers: HeaderMap) -> Response {
    serve(books, headers, |seen| {
        seen.reads += 1;
        seen.reads
    })
    .await
}

async fn act(State(books): State<Shared>, Path(memory): Path<String>, headers: HeaderMap) -> Response {
    let Some(memory) = Memory::of(&memory) else { return StatusCode::NOT_FOUND.into_response() };
    serve(books, headers, move |seen| {
        if !seen.last_act.is_some_and(|acted| memory.holds(acted)) {
            seen.acts += 1;
            seen.last_act = Some(Instant::now());
        }
        seen.acts
    })
    .await
}

async fn ask(State(books): State<Shared>, headers: HeaderMap) -> Response {
    let Some(key) = key(&headers) else { return StatusCode::BAD_REQUEST.into_response() };
    let mut books = lock(&books);
    let seen = books.seen.entry(key).or_default();
    seen.asked.push(SystemClock.now());
    if seen.acts > 0 { Json(seen.acts).into_response() } else { StatusCode::NOT_FOUND.into_response() }
}

/// Does this, in whatever trouble the request was put.
async fn serve(books: Shared, headers: HeaderMap, doing: impl FnOnce(&mut Seen) -> u64 + Send + 'static) -> Response {
    let Some(key) = key(&headers) else { return StatusCode::BAD_REQUEST.into_response() };
    let trouble = {
        let mut books = lock(&books);
        books.seen.entry(key.clone()).or_default().requests += 1;
        books.trouble.remove(&key)
    };
    let carry_out = move || Json(doing(lock(&books).seen.entry(key).or_default())).into_response();
    // On its own: what has arrived is carried out, whether or not its caller still listens.
    let serving = tokio::spawn(async move {
        match trouble {
            None => carry_out(),
            Some((Trouble::HoldBefore, held)) => {
                held.hold().await;
                carry_out()
            }
            Some((Trouble::HoldAfter, held)) => {
                let answer = carry_out();
                held.hold().await;
                answer
            }
            Some((Trouble::CutBefore, _)) => cut(),
            Some((Trouble::CutAfter, _)) => {
                carry_out();
                cut()
            }
        }
    });
    serving.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// An answer that breaks off: the server closes the connection on it.
fn cut() -> Response {
    let broken = stream::once(async { Err::<Vec<u8>, _>(io::Error::other("cut on request")) });
    Body::from_stream(broken).into_response()
}

fn key(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(KEY)?.to_str().ok()?.to_owned())
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client of the server, as an author would write one.
#[derive(Clone)]
pub struct Caller {
    client: reqwest::Client,
    base: String,
}

impl Caller {
    /// Reads. Answers how often that was done.
    ///
    /// # Errors
    /// Those of the connection, and of an answer that is none.
    pub async fn read(&self, key: &str) -> reqwest::Result<u64> {
        let request = self.client.get(format!("{}/read", self.base)).header(KEY, key);
        request.send().await?.error_for_status()?.json().await
    }

    /// Acts. Answers which act under this key it was, from 1.
    ///
    /// # Errors
    /// Those of the connection, and of an answer that is none.
    pub async fn act(&self, key: &str, memory: Memory) -> reqwest::Result<u64> {
        let request = self.client.post(format!("{}/act/{}", self.base, memory.path())).header(KEY, key);
        request.send().await?.error_for_status()?.json().await
    }

    /// Asks whether this key has happened.
    ///
    /// # Errors
    /// Those of the connection, and of an answer that is none.
    pub async fn ask(&self, key: &str) -> reqwest::Result<Option<u64>> {
        let answer = self.client.get(format!("{}/acts", self.base)).header(KEY, key).send().await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(None);
        }
        answer.error_for_status()?.json().await.map(Some)
    }
}
