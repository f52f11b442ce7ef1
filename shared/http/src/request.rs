//! What is taken from a request, and how strictly.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;
use stepwell_core::{ApprovalId, EffectKey, RunId};

use crate::BODY_BYTES_MAX;
use crate::problem::Problem;

/// Characters of an idempotency key.
const KEY_CHARS_MAX: usize = 255;

/// A JSON body. It has to say that it is one: a page of another site cannot do so unasked, whatever a host takes for
/// authentication.
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::fix("wrong-type", "send JSON, and say so: Content-Type: application/json"));
        }
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| unread(&rejection))?;
        read(&bytes).map(Self)
    }
}

/// The query, whose every field is known.
pub(crate) struct Asked<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(rejection) => Err(Problem::fix("bad-query", rejection.body_text())),
        }
    }
}

/// The run that the path names.
pub(crate) struct OfRun(pub(crate) RunId);

impl<S: Send + Sync> FromRequestParts<S> for OfRun {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(run) = path.map_err(|rejection| Problem::fix("bad-name", rejection.body_text()))?;
        RunId::new(run).map(Self).map_err(|error| Problem::fix("bad-name", error.to_string()))
    }
}

/// The effect that the path names, and its run.
pub(crate) struct OfEffect(pub(crate) RunId, pub(crate) EffectKey);

impl<S: Send + Sync> FromRequestParts<S> for OfEffect {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let (run, key) = run_and(parts, state).await?;
        let detail = "this is no key of an effect: those are 32 hexadecimal digits, in lower case";
        let key = EffectKey::parse(&key).ok_or_else(|| Problem::fix("bad-name", detail))?;
        Ok(Self(run, key))
    }
}

/// The approval that the path names, and its run.
pub(crate) struct OfApproval(pub(crate) RunId, pub(crate) ApprovalId);

impl<S: Send + Sync> FromRequestParts<S> for OfApproval {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let (run, id) = run_and(parts, state).await?;
        let detail = "this is no id of an approval: those are 16 hexadecimal digits, in lower case";
        let id = ApprovalId::parse(&id).ok_or_else(|| Problem::fix("bad-name", detail))?;
        Ok(Self(run, id))
    }
}

/// The run that the path names, and something of it.
async fn run_and<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<(RunId, String), Problem> {
    let path = Path::<(String, String)>::from_request_parts(parts, state).await;
    let Path((run, of_it)) = path.map_err(|rejection| Problem::fix("bad-name", rejection.body_text()))?;
    let run = RunId::new(run).map_err(|error| Problem::fix("bad-name", error.to_string()))?;
    Ok((run, of_it))
}

/// Whether words that a person has to give are none.
pub(crate) fn says_nothing(words: &str) -> bool {
    words.trim().is_empty()
}

/// The header `Idempotency-Key`, if there is one.
pub(crate) struct IdempotencyKey(pub(crate) Option<String>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let mut given = parts.headers.get_all("idempotency-key").iter();
        let Some(key) = given.next() else { return Ok(Self(None)) };
        let key = key.to_str().unwrap_or_default().trim();
        if given.next().is_some() || !(1..=KEY_CHARS_MAX).contains(&key.len()) {
            let detail = format!("give one Idempotency-Key, of 1 to {KEY_CHARS_MAX} visible ASCII characters");
            return Err(Problem::fix("bad-header", detail));
        }
        Ok(Self(Some(key.to_owned())))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut given = headers.get_all(CONTENT_TYPE).iter();
    let (Some(only), None) = (given.next(), given.next()) else { return false };
    let mut parts = only.to_str().unwrap_or_default().split(';').map(str::trim);
    let utf8 =
        |part: &str| part.eq_ignore_ascii_case("charset=utf-8") || part.eq_ignore_ascii_case(r#"charset="utf-8""#);
    parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) && parts.all(utf8)
}

fn unread(rejection: &BytesRejection) -> Problem {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let detail = format!("the body has more than {BODY_BYTES_MAX} bytes: pass a reference to what is large");
        return Problem::fix("too-large", detail);
    }
    Problem::fix("bad-body", "the body broke off; send it again")
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    // Without names, a list would do for an object: whoever sends one means something else.
    if !bytes.trim_ascii_start().starts_with(b"{") {
        serde_json::from_slice::<IgnoredAny>(bytes).map_err(|error| not_json(&error))?;
        return Err(Problem::fix("misfit", "the body is no object: send {…} with the fields that belong there"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let body = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let at = error.path().to_string();
        let error = error.into_inner();
        match error.classify() {
            Category::Syntax | Category::Eof | Category::Io => not_json(&error),
            Category::Data if at == "." => Problem::fix("misfit", format!("the body does not fit: {error}")),
            Category::Data => Problem::fix("misfit", format!("the body does not fit at `{at}`: {error}")),
        }
    })?;
    json.end().map_err(|error| not_json(&error))?;
    Ok(body)
}

fn not_json(error: &serde_json::Error) -> Problem {
    Problem::fix("not-json", format!("the body is not JSON: {error}"))
}
