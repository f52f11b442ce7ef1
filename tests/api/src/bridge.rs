//! Between HTTP and a function: what Lambda's front does with a request, and the runtime API that the function's process
//! asks for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use base64ct::{Base64, Encoding as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::KEY;

/// Bytes that a function may be sent, and may answer with.
const BODY_MAX: usize = 6 << 20;

/// How long a request may take: what the template gives the function.
const TIMEOUT: Duration = Duration::from_secs(29);

/// An HTTP server in front of a function. It ends with this value.
pub(crate) struct Bridge {
    /// Where the API is.
    pub(crate) url: String,
    /// `AWS_LAMBDA_RUNTIME_API` of the function's process.
    pub(crate) runtime: String,
    shared: Arc<Shared>,
    _servers: JoinSet<()>,
}

struct Shared {
    host: String,
    asked: mpsc::UnboundedSender<Invocation>,
    waiting: tokio::sync::Mutex<mpsc::UnboundedReceiver<Invocation>>,
    answers: Mutex<HashMap<String, oneshot::Sender<Ended>>>,
    invoked: AtomicU64,
    failed: Mutex<Vec<String>>,
}

struct Invocation {
    id: String,
    event: String,
}

/// How an invocation has ended.
enum Ended {
    Answered(Answer),
    Failed,
}

/// What a function answers to an HTTP API or a Function URL.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status_code: u16,
    #[serde(default)]
    headers: HashMap<String, String>,
    #[serde(default)]
    cookies: Vec<String>,
    body: Option<String>,
    #[serde(default)]
    is_base64_encoded: bool,
}

impl Bridge {
    pub(crate) async fn open() -> Self {
        let (front, behind) = (listener().await, listener().await);
        let (host, runtime) = (address(&front), address(&behind));
        let (asked, waiting) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            host: host.clone(),
            asked,
            waiting: tokio::sync::Mutex::new(waiting),
            answers: Mutex::default(),
            invoked: AtomicU64::new(0),
            failed: Mutex::default(),
        });
        let http = Router::new().fallback(invoke).with_state(Arc::clone(&shared));
        let api = Router::new()
            .route("/2018-06-01/runtime/invocation/next", get(next))
            .route("/2018-06-01/runtime/invocation/{id}/response", post(answered))
            .route("/2018-06-01/runtime/invocation/{id}/error", post(failed))
            .route("/2018-06-01/runtime/init/error", post(not_started))
            .with_state(Arc::clone(&shared));
        let mut servers = JoinSet::new();
        servers.spawn(async move { axum::serve(front, http).await.unwrap_or(()) });
        servers.spawn(async move { axum::serve(behind, api).await.unwrap_or(()) });
        Self { url: format!("http://{host}"), runtime, shared, _servers: servers }
    }

    /// Requests that went through the function.
    pub(crate) fn invoked(&self) -> u64 {
        self.shared.invoked.load(Ordering::Relaxed)
    }

    /// What the function said of invocations that it did not answer.
    pub(crate) fn failed(&self) -> Vec<String> {
        self.shared.failed.lock().unwrap().clone()
    }
}

async fn invoke(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_MAX).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    let number = shared.invoked.fetch_add(1, Ordering::Relaxed);
    let id = format!("invocation-{number}");
    // Whoever shows no key is somebody else each time: who guesses too often is not listened to, and that is tried elsewhere.
    let source = if parts.headers.get("x-api-key").is_some_and(|key| key == KEY) {
        "192.0.2.1".to_owned()
    } else {
        format!("198.51.{}.{}", number / 256 % 256, number % 256)
    };
    let event = event(&shared.host, &id, &source, &parts, &body).to_string();
    let (send, ended) = oneshot::channel();
    shared.answers.lock().unwrap().insert(id.clone(), send);
    shared.asked.send(Invocation { id: id.clone(), event }).unwrap_or_default();
    match tokio::time::timeout(TIMEOUT, ended).await {
        Ok(Ok(Ended::Answered(answer))) => answer.into_http(),
        Ok(Ok(Ended::Failed) | Err(_)) => bad_gateway(),
        Err(_) => {
            shared.failed.lock().unwrap().push(format!("no answer in {TIMEOUT:?} to {} {}", parts.method, parts.uri));
            bad_gateway()
        }
    }
}

/// As Lambda's front answers for a function that does not.
fn bad_gateway() -> Response {
    (StatusCode::BAD_GATEWAY, axum::Json(json!({"message": "Internal Server Error"}))).into_response()
}

/// The event of a Function URL; that of an HTTP API has the same form.
fn event(host: &str, id: &str, source: &str, parts: &Parts, body: &Bytes) -> Value {
    let path = parts.uri.path();
    let query = parts.uri.query().unwrap_or_default();
    let (text, base64) = match str::from_utf8(body) {
        Ok(text) if is_text(&parts.headers) => (text.to_owned(), false),
        _ => (Base64::encode_string(body), true),
    };
    let cookies: Vec<String> = values(&parts.headers, COOKIE.as_str())
        .iter()
        .flat_map(|line| line.split("; ").map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let mut event = json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": headers(host, source, &parts.headers),
        "requestContext": {
            "accountId": "anonymous",
            "apiId": "bridge",
            "domainName": host,
            "domainPrefix": "bridge",
            "http": {
                "method": parts.method.as_str(), "path": path, "protocol": "HTTP/1.1", "sourceIp": source,
                "userAgent": values(&parts.headers, "user-agent").join(","),
            },
            "requestId": id,
            "routeKey": "$default",
            "stage": "$default",
            "time": "01/Jan/2026:00:00:00 +0000",
            "timeEpoch": millis_from_now(Duration::ZERO),
        },
        "isBase64Encoded": base64,
    });
    if !cookies.is_empty() {
        event["cookies"] = json!(cookies);
    }
    if !body.is_empty() {
        event["body"] = Value::String(text);
    }
    event
}

/// Names in lower case, repeated ones apart by commas, cookies beside them; and what the front adds.
fn headers(host: &str, source: &str, headers: &HeaderMap) -> HashMap<String, String> {
    let names = headers.keys().filter(|name| *name != COOKIE).map(|name| name.as_str().to_owned());
    let mut all: HashMap<String, String> = names
        .map(|name| {
            let joined = values(headers, &name).join(",");
            (name, joined)
        })
        .collect();
    let added =
        [("host", host), ("x-forwarded-for", source), ("x-forwarded-proto", "http"), ("x-forwarded-port", "80")];
    all.extend(added.map(|(name, value)| (name.to_owned(), value.to_owned())));
    all
}

fn values(headers: &HeaderMap, name: &str) -> Vec<String> {
    headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

/// Other bodies are sent as base64.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind.starts_with("text/") || ["application/json", "application/javascript", "application/xml"].contains(&&*kind)
}

impl Answer {
    fn into_http(self) -> Response {
        let body = self.body.unwrap_or_default();
        let body = if self.is_base64_encoded { Base64::decode_vec(&body).expect("base64") } else { body.into_bytes() };
        let mut response = Response::builder().status(self.status_code);
        for (name, value) in &self.headers {
            // Of the connection to whom the function never spoke.
            if !["content-length", "transfer-encoding", "connection"].contains(&&*name.to_ascii_lowercase()) {
                response = response.header(name, value);
            }
        }
        for cookie in &self.cookies {
            response = response.header("set-cookie", cookie);
        }
        response.body(Body::from(body)).expect("an answer of HTTP")
    }
}

async fn next(State(shared): State<Arc<Shared>>) -> Response {
    let Some(Invocation { id, event }) = shared.waiting.lock().await.recv().await else {
        return StatusCode::GONE.into_response();
    };
    let headers = [
        ("lambda-runtime-aws-request-id", id),
        ("lambda-runtime-deadline-ms", millis_from_now(TIMEOUT).to_string()),
        ("lambda-runtime-invoked-function-arn", "arn:aws:lambda:us-east-1:000000000000:function:api".to_owned()),
        ("lambda-runtime-trace-id", "Root=1-00000000-000000000000000000000000".to_owned()),
    ];
    (headers, event).into_response()
}

async fn answered(State(shared): State<Arc<Shared>>, Path(id): Path<String>, body: Bytes) -> StatusCode {
    let answer = serde_json::from_slice(&body);
    if let Err(error) = &answer {
        shared
            .failed
            .lock()
            .unwrap()
            .push(format!("{id}: no answer of HTTP ({error}): {}", String::from_utf8_lossy(&body)));
    }
    shared.end(&id, answer.map_or(Ended::Failed, Ended::Answered))
}

async fn failed(State(shared): State<Arc<Shared>>, Path(id): Path<String>, body: String) -> StatusCode {
    shared.failed.lock().unwrap().push(format!("{id}: {body}"));
    shared.end(&id, Ended::Failed)
}

async fn not_started(State(shared): State<Arc<Shared>>, body: String) -> StatusCode {
    shared.failed.lock().unwrap().push(format!("it did not start: {body}"));
    StatusCode::ACCEPTED
}

impl Shared {
    fn end(&self, id: &str, ended: Ended) -> StatusCode {
        if let Some(waiting) = self.answers.lock().unwrap().remove(id) {
            // Whoever asked may have gone.
            let _ = waiting.send(ended);
        }
        StatusCode::ACCEPTED
    }
}

async fn listener() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).await.expect("a port")
}

fn address(listener: &TcpListener) -> String {
    listener.local_addr().expect("its address").to_string()
}

fn millis_from_now(later: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    u64::try_from((now + later).as_millis()).expect("a date")
}
