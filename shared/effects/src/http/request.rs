//! One request, and what came of it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, InvalidHeaderName, InvalidHeaderValue};
use reqwest::{Error, Method, Request, Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stepwell::{Call, CallError, Secret, error_chain, redact};
use tokio::time::{Instant, timeout};

use super::Http;
use super::meaning::{Meaning, of_status, retry_after};

const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// How much of what a server says about a failure is read, and how much of that is quoted.
const DETAIL_READ: usize = 4096;
const DETAIL_CHARS: usize = 200;

/// How long that is waited for at most: the status has decided already.
const DETAIL_WAIT: Duration = Duration::from_secs(1);

/// A request in the making, see [`Http::request`]. What is wrong with it is said when it is sent.
#[derive(Clone, Debug)]
#[must_use = "a request is only made when it is sent"]
pub struct HttpRequest {
    http: Http,
    method: Method,
    url: Option<Url>,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
    key_header: HeaderName,
    kept_headers: Vec<HeaderName>,
    meanings: Vec<(u16, Meaning)>,
    has_secret: bool,
    /// What is wrong with it.
    problem: Option<String>,
}

/// What a server answered, to be recorded as the effect's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpReply<T> {
    /// The status: 200 to 299.
    pub status: u16,
    /// The headers that were asked for with [`HttpRequest::keep_header`] and are there, by their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: T,
}

impl HttpRequest {
    pub(super) fn new(http: Http, method: Method, url: &str) -> Self {
        let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let problem = url.is_none().then(|| "its URL is no http or https URL".to_owned());
        let (headers, kept_headers, meanings) = (HeaderMap::new(), Vec::new(), Vec::new());
        let (body, key_header, has_secret) = (None, KEY_HEADER, false);
        Self { http, method, url, headers, body, key_header, kept_headers, meanings, has_secret, problem }
    }

    /// With a header, in the place of an earlier one of this name. For a credential use [`HttpRequest::secret_header`].
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match name_and_value(name, value) {
            Ok((name, value)) => drop(self.headers.insert(name, value)),
            Err(problem) => self.is_wrong(problem),
        }
        self
    }

    /// With a header whose value is secret, such as `X-Api-Key`. The request follows no redirect.
    pub fn secret_header<T: AsRef<str>>(self, name: &str, secret: &Secret<T>) -> Self {
        self.sensitive(name, secret.expose().as_ref().trim())
    }

    /// With `Authorization: Bearer` and this token. The request follows no redirect.
    pub fn bearer<T: AsRef<str>>(self, token: &Secret<T>) -> Self {
        self.sensitive("authorization", &format!("Bearer {}", token.expose().as_ref().trim()))
    }

    /// With this as its body, as JSON.
    pub fn json<T: Serialize + ?Sized>(mut self, body: &T) -> Self {
        match serde_json::to_vec(body) {
            Ok(body) => self.body = Some(body),
            Err(error) => self.is_wrong(format!("its body cannot be written as JSON: {error}")),
        }
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self
    }

    /// With the key in this header, for an API that names it otherwise than `Idempotency-Key`.
    pub fn key_header(mut self, name: &str) -> Self {
        match name.parse() {
            Ok(name) => self.key_header = name,
            Err(error) => self.is_wrong(of_name(name, &error)),
        }
        self
    }

    /// Records this header of the reply with the effect's result.
    pub fn keep_header(mut self, name: &str) -> Self {
        match name.parse() {
            Ok(name) => self.kept_headers.push(name),
            Err(error) => self.is_wrong(of_name(name, &error)),
        }
        self
    }

    /// What this status says about the outside, where the API documents it otherwise than [`Http`] has it. It does not turn a
    /// success into a failure. [`Meaning::NotDone`] is a promise: the effect is repeated.
    pub fn status_means(mut self, status: u16, meaning: Meaning) -> Self {
        self.meanings.push((status, meaning));
        self
    }

    /// Sends it, and reads no body: with the status of a success it is done.
    ///
    /// # Errors
    /// [`Http`] says which.
    pub async fn send(self, call: Call<'_>) -> Result<HttpReply<()>, CallError> {
        let (reply, _) = self.sent(call).await?;
        Ok(reply)
    }

    /// Sends it, and reads the reply's body as text.
    ///
    /// # Errors
    /// [`Http`] says which.
    pub async fn send_for_text(self, call: Call<'_>) -> Result<HttpReply<String>, CallError> {
        let reply_max = self.http.reply_max;
        let (reply, response) = self.sent(call).await?;
        let body = whole(&reply, response, reply_max).await?;
        Ok(reply.with(String::from_utf8_lossy(&body).into_owned()))
    }

    /// Sends it, and reads the reply's body as JSON. One that is empty counts as `null`.
    ///
    /// # Errors
    /// [`Http`] says which.
    pub async fn send_for_json<T: DeserializeOwned>(self, call: Call<'_>) -> Result<HttpReply<T>, CallError> {
        let reply_max = self.http.reply_max;
        let (reply, response) = self.sent(call).await?;
        let body = whole(&reply, response, reply_max).await?;
        let json = if body.is_empty() { b"null" } else { &body[..] };
        // Serde quotes what it found, but for its place.
        match serde_json::from_slice(json) {
            Ok(body) => Ok(reply.with(body)),
            Err(error) => {
                let place = format!("line {} column {}", error.line(), error.column());
                Err(answer_lost(reply.status, &format!("its body is not the JSON that was asked for ({place})")))
            }
        }
    }

    /// The status of a success, and what is yet to be read.
    async fn sent(self, call: Call<'_>) -> Result<(HttpReply<()>, Response), CallError> {
        let until = Instant::now() + call.deadline();
        let (http, kept, meanings) = (self.http.clone(), self.kept_headers.clone(), self.meanings.clone());
        let follows = self.method.is_safe() && !self.has_secret;
        let client = if follows { &http.reading } else { &http.acting };
        let request = self.into_request(call)?;
        let (method, url) = (request.method().clone(), request.url().clone());
        let to = |words: String| format!("{method} to {}: {words}", origin(&url));
        let response = client.execute(request).await.map_err(|error| of_transport(error, to))?;
        let status = response.status();
        if !status.is_success() {
            let after = retry_after(response.headers(), SystemTime::now());
            let said = meanings.iter().rev().find(|(code, _)| *code == status.as_u16());
            let meaning = said.map_or_else(|| of_status(&method, status, after.is_some()), |(_, meaning)| *meaning);
            let detail = detail(response, until).await;
            let words = to(format!("the server answered {}{detail}", shown(status)));
            return Err(meaning.into_error(words, after).with_code(format!("http-{}", status.as_u16())));
        }
        let text = |name: &HeaderName| {
            let value = response.headers().get(name)?;
            Some((name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        };
        let headers = kept.iter().filter_map(text).collect();
        Ok((HttpReply { status: status.as_u16(), headers, body: () }, response))
    }

    fn into_request(self, call: Call<'_>) -> Result<Request, CallError> {
        let wrong = |problem| CallError::refused(format!("the request cannot be made: {problem}"));
        let wrong = |problem: String| wrong(problem).with_code("http-request");
        let (Some(url), None) = (self.url, &self.problem) else {
            return Err(wrong(self.problem.unwrap_or_default()));
        };
        let mut request = Request::new(self.method, url);
        *request.headers_mut() = self.headers;
        let key = HeaderValue::from_str(call.key()).map_err(|error| wrong(format!("its key: {error}")))?;
        request.headers_mut().insert(self.key_header, key);
        *request.body_mut() = self.body.map(Into::into);
        *request.timeout_mut() = Some(call.deadline());
        Ok(request)
    }

    fn sensitive(mut self, name: &str, value: &str) -> Self {
        match name_and_value(name, value) {
            Ok((name, mut value)) => {
                value.set_sensitive(true);
                self.headers.insert(name, value);
            }
            Err(problem) => self.is_wrong(problem),
        }
        self.has_secret = true;
        self
    }

    fn is_wrong(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }
}

impl HttpReply<()> {
    fn with<T>(self, body: T) -> HttpReply<T> {
        HttpReply { status: self.status, headers: self.headers, body }
    }
}

fn name_and_value(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let header = name.parse().map_err(|error| of_name(name, &error))?;
    // The error does not show the value.
    let value = value.parse().map_err(|error: InvalidHeaderValue| format!("its header {name}: {error}"))?;
    Ok((header, value))
}

fn of_name(name: &str, error: &InvalidHeaderName) -> String {
    format!("its header {name:?}: {error}")
}

/// Only an error before anything was sent is certain.
fn of_transport(error: Error, to: impl Fn(String) -> String) -> CallError {
    let error = error.without_url();
    let words = to(error_chain(&error));
    if error.is_connect() {
        CallError::retry(words).with_code("http-connect")
    } else if error.is_builder() || error.is_redirect() {
        CallError::refused(words).with_code("http-request")
    } else {
        CallError::unknown(words).with_code("http-lost")
    }
}

/// The whole body of a success, or the news that it is lost.
async fn whole(reply: &HttpReply<()>, response: Response, max: usize) -> Result<Vec<u8>, CallError> {
    match up_to(max, response).await {
        Ok((body, true)) => Ok(body),
        Ok((_, false)) => Err(answer_lost(
            reply.status,
            &format!("its body is longer than the {max} bytes that may be read; raise HttpSettings::reply_max"),
        )),
        Err(error) => Err(answer_lost(reply.status, &error_chain(&error.without_url()))),
    }
}

fn answer_lost(status: u16, why: &str) -> CallError {
    CallError::unknown(format!("the server answered {status}, so it happened, but {why}")).with_code("http-reply")
}

/// The body's first bytes, and whether that is all.
async fn up_to(max: usize, mut response: Response) -> Result<(Vec<u8>, bool), Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = max - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok((body, false));
        }
    }
    Ok((body, true))
}

/// What a server says of a failure, in one line. The status has decided: it is never waited for past the call's deadline.
async fn detail(response: Response, until: Instant) -> String {
    let wait = until.saturating_duration_since(Instant::now()) / 2;
    let read = timeout(wait.min(DETAIL_WAIT), up_to(DETAIL_READ, response)).await;
    let Ok(Ok((body, _))) = read else { return String::new() };
    // Before it is cut: a part of a secret is not known for one.
    let text = redact(String::from_utf8_lossy(&body));
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    let words: String = words.join(" ").chars().take(DETAIL_CHARS).collect();
    if words.is_empty() { words } else { format!(": {words}") }
}

fn shown(status: StatusCode) -> String {
    let reason = status.canonical_reason().map_or_else(String::new, |reason| format!(" ({reason})"));
    format!("{}{reason}", status.as_u16())
}

/// Where a request went, without what may be secret in a URL.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}
