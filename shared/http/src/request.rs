//! What is taken from a request, and how strictly.

use std::convert::Infallible;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::{CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use stepwell_core::{ApprovalId, EffectKey, Revision, RunId, Timestamp};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{Object, ObjectBuilder, Schema, Type};
use utoipa::openapi::{RefOr, Required};
use utoipa::{IntoParams, PartialSchema as _};

use crate::BODY_BYTES_MAX;
use crate::problem::Problem;
use crate::schema;
use crate::view::is_seen;

/// Characters of an idempotency key.
const KEY_CHARS_MAX: usize = 255;

/// No run gets as far; a store need not know larger numbers.
pub(crate) const REVISION_MAX: u64 = i64::MAX as u64;

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

/// Whether words that a person has to give are none: what cannot be seen says nothing.
pub(crate) fn says_nothing(words: &str) -> bool {
    words.chars().all(|c| c.is_whitespace() || !is_seen(c))
}

/// The revision that an edit is made against: the header `If-Match`, with the entity tag of the run or its first number.
pub(crate) struct Against(pub(crate) Revision);

impl<S: Sync> FromRequestParts<S> for Against {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let mut given = parts.headers.get_all(IF_MATCH).iter();
        let Some(tag) = given.next() else {
            let detail = "say what you have looked at: send the ETag of the run as If-Match, so that nothing newer is overwritten";
            return Err(Problem::fix("no-precondition", detail));
        };
        let revision = match given.next() {
            None => tag.to_str().ok().and_then(revision_of),
            Some(_) => None,
        };
        let detail = "If-Match: give one entity tag of the run, as its ETag says it: it begins with the run's revision";
        revision.map(Self).ok_or_else(|| Problem::fix("bad-header", detail))
    }
}

/// The revision in a run's entity tag.
fn revision_of(tag: &str) -> Option<Revision> {
    let tag = tag.trim().strip_prefix('"')?.strip_suffix('"')?;
    let (revision, rest) = tag.split_once('.').unwrap_or((tag, ""));
    let is_ours = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '.';
    let is_number = !revision.is_empty() && revision.len() <= 18 && revision.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || rest.len() > 64 || !rest.chars().all(is_ours) {
        return None;
    }
    revision.parse().ok().map(Revision)
}

/// What the caller knows already: the entity tags of the header `If-None-Match`. What is none is no tag of ours.
#[derive(Default)]
pub(crate) struct Known {
    tags: Vec<String>,
}

impl Known {
    /// Whether this one is among them. Whoever knows anything (`*`) knows this.
    pub(crate) fn has(&self, tag: &str) -> bool {
        self.tags.iter().any(|known| known.strip_prefix("W/").unwrap_or(known) == tag || known == "*")
    }
}

impl<S: Sync> FromRequestParts<S> for Known {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let given = parts.headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        Ok(Self { tags: given.flat_map(|tags| tags.split(',')).map(|tag| tag.trim().to_owned()).collect() })
    }
}

/// A point in time, in RFC 3339. What is before the epoch is the epoch.
#[derive(Clone, Copy)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        // RFC 3339 alone: what is read besides it would be read otherwise elsewhere.
        let marks = |at: usize, marks: &[u8]| text.as_bytes().get(at).is_some_and(|byte| marks.contains(byte));
        let is_whole = marks(4, b"-") && marks(7, b"-") && marks(10, b"Tt") && marks(13, b":") && marks(16, b":");
        let from_end = |back: usize, of: &[u8]| text.len().checked_sub(back).is_some_and(|at| marks(at, of));
        let has_offset = from_end(1, b"Zz") || (from_end(6, b"+-") && from_end(3, b":"));
        let moment = (is_whole && has_offset && !text.contains(',')).then(|| instant(&text)).flatten();
        let moment = moment.ok_or_else(|| D::Error::custom("give a time in RFC 3339, such as 2026-10-02T08:00:00Z"))?;
        Ok(Self(Timestamp(u64::try_from(moment.as_millisecond()).unwrap_or_default())))
    }
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

/// What has this name in RFC 3339. Time is over two days early here: for whoever means for ever, those days are the one before them.
fn instant(text: &str) -> Option<jiff::Timestamp> {
    let early = |text: &str| {
        let rest = text.strip_prefix("9999-12-30").or_else(|| text.strip_prefix("9999-12-31"))?;
        format!("9999-12-29{rest}").parse().ok()
    };
    text.parse().ok().or_else(|| early(text))
}

/// What stands in each request's description of these: a parameter of the path or a header.
macro_rules! parameters {
    ($($extractor:ident: $($name:literal in $place:ident, $required:ident, $schema:expr;)+)*) => {$(
        impl IntoParams for $extractor {
            fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                vec![$(parameter($name, ParameterIn::$place, Required::$required, $schema.into())),+]
            }
        }
    )*};
}

parameters! {
    OfRun: "run" in Path, True, schema::RunId::schema();
    OfEffect:
        "run" in Path, True, schema::RunId::schema();
        "key" in Path, True, schema::EffectKey::schema();
    OfApproval:
        "run" in Path, True, schema::RunId::schema();
        "id" in Path, True, schema::ApprovalId::schema();
    IdempotencyKey: "Idempotency-Key" in Header, False, text(
        "A key of the caller's: a second start with the same key and the same input is the same run.",
        KEY_CHARS_MAX,
        "^[!-~]([ -~]*[!-~])?$",
    );
    Against: "If-Match" in Header, True, text(
        "The entity tag of the run that was looked at. Its revision counts: the number before the first dot.",
        86,
        r#"^"[0-9]{1,18}(\.[0-9a-z.]{0,64})?"$"#,
    );
    Known: "If-None-Match" in Header, False, ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("The entity tags that the caller knows."))
        .build();
}

fn parameter(name: &str, place: ParameterIn, required: Required, schema: RefOr<Schema>) -> Parameter {
    let description = match &schema {
        RefOr::T(Schema::Object(Object { description, .. })) => description.clone(),
        RefOr::T(_) | RefOr::Ref(_) => None,
    };
    let parameter = ParameterBuilder::new().name(name).parameter_in(place).required(required);
    parameter.description(description).schema(Some(schema)).build()
}

fn text(description: &str, most: usize, pattern: &str) -> Schema {
    let text = ObjectBuilder::new().schema_type(Type::String).description(Some(description));
    text.min_length(Some(1)).max_length(Some(most)).pattern(Some(pattern)).build().into()
}

pub(crate) fn is_json(headers: &HeaderMap) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_is_what_stands_before_the_dot() {
        for (tag, revision) in [
            (r#""12""#, 12),
            (r#""12.0a""#, 12),
            (r#" "0.a.1.0" "#, 0),
            (r#""999999999999999999""#, 999_999_999_999_999_999),
        ] {
            assert_eq!(revision_of(tag), Some(Revision(revision)), "{tag}");
        }
        let long = format!("\"1.{}\"", "a".repeat(65));
        for tag in [
            "",
            "12",
            "\"\"",
            "\"",
            "\".a\"",
            "\"+1\"",
            "\"-1\"",
            "\"1 \"",
            "\"1.A\"",
            "\"1000000000000000000\"",
            "W/\"1\"",
            &long,
        ] {
            assert_eq!(revision_of(tag), None, "{tag}");
        }
    }

    #[test]
    fn what_cannot_be_seen_says_nothing() {
        assert!(["", " \t\n", "\0", "\u{feff}\u{a0}\u{1f}", "\u{85}\u{3000}"].into_iter().all(says_nothing));
        assert!(!["x", " x ", "\u{1f600}", "."].into_iter().any(says_nothing));
    }
}
