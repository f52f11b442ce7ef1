//! What the tests stand on: one world, a workflow that can be brought into each status, and the API before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use axum::response::Response;
use serde_json::{Value, json};
use stepwell::prelude::*;
use stepwell_core::decide::Rules;
use stepwell_core::write::{Acquire, Write, WriteRequest};
use stepwell_core::{Digest, Lease, RunId, WorkerId, WriteId};
use stepwell_engine::{Ack, Client, Engine, Ports, Settings, TurnTime};
use stepwell_http::{Access, Api, Site};
use stepwell_local::memory::Memory;
use stepwell_ports::{CheckpointStore, ListQuery, RunQueue};
use stepwell_testkit::faults::Gate;
use stepwell_testkit::{SeededIds, VirtualClock};
use tower::ServiceExt;

use crate::cashier::Cashier;
use crate::described::{Exchange, described};

pub(crate) const KEY: &str = "a key of many letters";

/// The name that histories know the key by.
pub(crate) const ACTOR: &str = "key:ann";

const ANSWER: Signal<String> = Signal::new("answer");

/// Asks, and ends with the answer, so many times over.
pub(crate) struct Desk;

#[derive(Serialize, Deserialize)]
pub(crate) struct Question {
    text: String,
    times: usize,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum At {
    Ask,
    Answered,
    Turn,
}

impl Workflow for Desk {
    const NAME: &'static str = "desk";
    const MAX_STEPS: u64 = 5;
    type Input = Question;
    type State = Question;
    type Step = At;
    type Output = String;

    fn begin(&self, input: Question) -> (At, Question) {
        (At::Ask, input)
    }

    fn signals() -> Signals {
        Signals::none().and(ANSWER)
    }

    async fn step(&self, at: At, question: &mut Question, cx: &Cx) -> StepResult<Self> {
        Ok(match at {
            At::Ask => wait(At::Answered).for_signal(ANSWER).without_deadline(),
            At::Turn => goto(At::Turn),
            At::Answered => match cx.take(ANSWER).await?.as_deref() {
                Some("turn") => goto(At::Turn),
                Some("fail") => return Err(StepError::terminal("the desk is closed").with_code("closed")),
                answer => complete(answer.unwrap_or_default().repeat(question.times)),
            },
        })
    }
}

/// How long a payment may be on its way.
pub(crate) const PAY_DEADLINE: Duration = Duration::from_secs(30);

/// Pays each of its input once, and never hears whether that has happened.
#[derive(Clone, Default)]
pub(crate) struct Till {
    calls: Arc<AtomicUsize>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Pay {
    Pay,
}

impl Workflow for Till {
    const NAME: &'static str = "till";
    type Input = Vec<String>;
    type State = Vec<String>;
    type Step = Pay;
    type Output = Vec<Option<String>>;

    fn begin(&self, input: Vec<String>) -> (Pay, Vec<String>) {
        (Pay::Pay, input)
    }

    async fn step(&self, _: Pay, whom: &mut Vec<String>, cx: &Cx) -> StepResult<Self> {
        let mut paid = Vec::new();
        for name in whom.iter() {
            let pay = cx.effect("pay").key(name).once().deadline(PAY_DEADLINE);
            let result = pay.call(async |_| {
                self.calls.fetch_add(1, Ordering::Relaxed);
                Err::<Option<String>, _>(CallError::unknown("the line broke"))
            });
            paid.push(result.await);
        }
        Ok(complete(paid.into_iter().collect::<Result<_, _>>()?))
    }
}

/// One world.
pub(crate) struct Bed {
    pub(crate) memory: Arc<Memory>,
    pub(crate) ports: Ports,
    pub(crate) gate: Arc<Gate>,
    pub(crate) app: Router,
    access: Access,
    till: Till,
}

/// What the API has answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self::with(
            Access::from_text(&format!("bob:admin={},ann:admin={}", Digest::of(b"bob"), Digest::of(KEY.as_bytes())))
                .unwrap(),
        )
    }

    pub(crate) fn with(access: Access) -> Self {
        // Ahead of the machine's clock, by which the API tells whether a lease is over.
        Self::at(access, Timestamp(4_444_444 * 900_000))
    }

    /// One that begins at this time.
    pub(crate) fn at(access: Access, start: Timestamp) -> Self {
        let clock = Arc::new(VirtualClock::starting_at(start));
        let memory = Arc::new(Memory::new(clock.clone()));
        let gate = Gate::open();
        let ports = Ports {
            store: gate.store(memory.clone()),
            queue: gate.queue(memory.clone()),
            blobs: gate.blobs(memory.clone()),
            clock,
            ids: Arc::new(SeededIds::new(1)),
        };
        let till = Till::default();
        let site = Site { streams: true, base_url: Some("https://runs.example.com".into()), local: false };
        let mut bed = Self { memory, ports, gate, app: Router::new(), access, till };
        bed.host(site);
        bed
    }

    /// Puts the API onto another host.
    pub(crate) fn host(&mut self, site: Site) {
        let client = Client::new(self.ports.clone(), registry(&self.till));
        self.app = stepwell_http::router(Api { client, access: self.access.clone(), site });
    }

    /// Sends it, and makes sure that the answer is one that the description has.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let (parts, body) = request.into_parts();
        let sent = to_bytes(body, usize::MAX).await.unwrap();
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        let response = self.respond(Request::from_parts(parts, Body::from(sent.clone()))).await;
        let (status, headers) = (response.status(), response.headers().clone());
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert_eq!(headers.get(name).unwrap(), value, "{status}");
        }
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        described(self).await.check(&Exchange { method, path, sent, status, headers: &headers, bytes: &bytes });
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Answer { status, headers, body }
    }

    /// The answer as it comes, for those that never end.
    pub(crate) async fn respond(&self, request: Request<Body>) -> Response {
        self.app.clone().oneshot(request).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(request(Method::GET, path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.send(request(Method::POST, path).header("content-type", "application/json").body(body.into()).unwrap())
            .await
    }

    pub(crate) async fn post_json(&self, path: &str, body: &Value) -> Answer {
        self.post(path, body.to_string()).await
    }

    /// As the holder of another key.
    pub(crate) async fn post_as(&self, key: &str, path: &str, body: &Value) -> Answer {
        let request = Request::post(path).header("x-api-key", key).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    /// A run that waits for an answer, and the path to it.
    pub(crate) async fn waiting(&self) -> String {
        let started = self.post_json("/v1/runs", &start("?", 1)).await;
        assert_eq!(started.status, StatusCode::CREATED, "{started:?}");
        self.settle().await;
        format!("/v1/runs/{}", started.body["run"].as_str().unwrap())
    }

    /// A run that was given this answer.
    pub(crate) async fn answered(&self, answer: &str) -> String {
        let path = self.waiting().await;
        let sent = self.post_json(&format!("{path}/signals"), &json!({"name": "answer", "payload": answer})).await;
        assert_eq!(sent.status, StatusCode::ACCEPTED, "{sent:?}");
        self.settle().await;
        path
    }

    /// A run that is parked since nobody knows whether these were paid, and the path to it. Its calls may still land.
    pub(crate) async fn paying(&self, whom: &[&str]) -> String {
        let started = self.post_json("/v1/runs", &json!({"workflow": "till", "input": whom})).await;
        assert_eq!(started.status, StatusCode::CREATED, "{started:?}");
        self.work(Duration::ZERO).await;
        format!("/v1/runs/{}", started.body["run"].as_str().unwrap())
    }

    /// The same when they no longer can.
    pub(crate) async fn unknown(&self, whom: &[&str]) -> String {
        let path = self.paying(whom).await;
        tokio::time::advance(PAY_DEADLINE).await;
        path
    }

    /// Calls that the till has made.
    pub(crate) fn calls(&self) -> usize {
        self.till.calls.load(Ordering::Relaxed)
    }

    /// Works until no message comes any more, those of an hour later included.
    pub(crate) async fn settle(&self) {
        self.work(Duration::from_hours(1)).await;
    }

    /// Works until no message comes within this time.
    pub(crate) async fn work(&self, wait: Duration) {
        let settings = Settings { worker: WorkerId::new("w").unwrap(), rules: Rules::default() };
        let engine = Engine::new(self.ports.clone(), registry(&self.till), settings).unwrap();
        while let Some(delivery) = self.memory.receive(1, Duration::from_mins(1), wait).await.unwrap().pop() {
            match engine.turn(&delivery.message, &TurnTime::of(Duration::from_mins(1))).await {
                Ack::Delete => self.memory.delete(&[delivery.receipt]).await.unwrap(),
                Ack::Bury(reason) => panic!("{reason}"),
                Ack::Leave => {}
            }
        }
    }

    /// Has a worker take a run that is due, and do nothing with it.
    pub(crate) async fn hold(&self, run: &RunId) {
        let (now, ticket) = (self.ports.clock.now(), self.memory.load(run).await.unwrap().unwrap().progress.ticket);
        let lease = Lease { owner: WorkerId::new("w").unwrap(), since: now, until: now.plus(Duration::from_mins(1)) };
        let write = Write::Acquire(Acquire { ticket, lease });
        self.memory.write(&WriteRequest { run: run.clone(), id: WriteId(u64::MAX), now, write }).await.unwrap();
    }

    /// Everything that is stored, for a comparison: each checkpoint, and how many messages and blobs there are.
    pub(crate) async fn all(&self) -> String {
        let page = self.memory.list(&ListQuery { limit: 1_000, ..ListQuery::default() }).await.unwrap();
        let mut all = vec![format!("{:?}", self.memory)];
        for summary in page.items {
            all.push(format!("{:?}", self.memory.load(&summary.run).await.unwrap()));
        }
        all.join("\n")
    }

    pub(crate) async fn started(&self) -> usize {
        self.memory.list(&ListQuery { limit: 1_000, ..ListQuery::default() }).await.unwrap().items.len()
    }
}

impl Answer {
    /// Checks that it is a whole problem of this status and code.
    #[track_caller]
    pub(crate) fn is_problem(&self, status: u16, code: &str) {
        assert_eq!((self.status.as_u16(), self.body["code"].as_str()), (status, Some(code)), "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.body["type"], format!("/problems/{code}"));
        assert_eq!(self.body["status"], status);
        assert!(self.body["title"].is_string() && self.body["detail"].as_str().unwrap().len() <= 1_100, "{self:?}");
        assert!(matches!(self.body["remedy"].as_str(), Some("retry" | "fix-the-input" | "call-a-person")), "{self:?}");
        assert_eq!(self.headers.contains_key("retry-after"), self.body["remedy"] == "retry", "{self:?}");
    }

    #[track_caller]
    pub(crate) fn says(&self, words: &str) {
        assert!(self.body["detail"].as_str().unwrap().contains(words), "{self:?}");
    }
}

fn registry(till: &Till) -> Arc<Registry> {
    Arc::new(Registry::new().with(Desk).with(till.clone()).with(Cashier))
}

pub(crate) fn request(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header("x-api-key", KEY)
}

pub(crate) fn start(text: &str, times: usize) -> Value {
    json!({"workflow": "desk", "input": {"text": text, "times": times}})
}

pub(crate) fn id_of(path: &str) -> RunId {
    RunId::new(path.rsplit('/').next().unwrap()).unwrap()
}
