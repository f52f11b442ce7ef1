//! The API's description, in `OpenAPI` 3.1: what the routes say of themselves, and what follows from it.
//!
//! A route names only the problems that are its own (`x-problems`). Those that come with what it takes (a body, a query, a run
//! in its path, a precondition), and those that any route may answer with, are added here, each with its title and advice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use axum::extract::State;
use axum::response::Response;
use serde_json::{Map, Value, json};
use utoipa::PartialSchema as _;
use utoipa::ToSchema as _;
use utoipa::openapi::OpenApi;

use crate::codes::{Row, TABLE};
use crate::problem::{Problem, ProblemView};
use crate::request::Known;
use crate::watch::tagged;

/// Where a route names the problems that are its own.
const OWN: &str = "x-problems";

/// What any route may answer: one that serves its own machine alone answers to no other name.
const ANY: &[&str] = &["wrong-host"];

/// What any route may answer that is not open to all.
const GUARDED: &[&str] = &["unauthenticated", "no-permission", "wrong-origin", "too-many", "no-issuer"];

/// What any route may answer that asks the store.
const ASKS: &[&str] = &["busy", "unavailable", "damaged", "defect"];

/// What any route may answer that writes.
const WRITES: &[&str] = &["bad-value", "refused", "moved-on", "maybe-written", "not-sent"];

/// What comes with a body.
const BODY: &[&str] = &["not-json", "bad-body", "misfit", "too-large", "wrong-type"];

/// What comes with a precondition.
const PRECONDITION: &[&str] = &["bad-header", "no-precondition", "stale"];

/// The description, made when it is first asked for.
#[derive(Clone)]
pub(crate) struct Description(Arc<Parts>);

struct Parts {
    said: OpenApi,
    base_url: Option<String>,
    whole: OnceLock<Value>,
}

impl Description {
    /// Of what the routes say of themselves, at this address.
    pub(crate) fn of(said: OpenApi, base_url: Option<String>) -> Self {
        Self(Arc::new(Parts { said, base_url, whole: OnceLock::new() }))
    }
}

/// Describes the API
///
/// This description itself.
#[utoipa::path(
    get, path = "/v1/openapi.json", operation_id = "describe", tag = "about", params(Known),
    responses(
        (status = 200, description = "An OpenAPI document", body = Object),
        (status = 304, description = "It is as the caller knows"),
    ),
)]
pub(crate) async fn describe(State(Description(parts)): State<Description>, known: Known) -> Result<Response, Problem> {
    let whole = if let Some(whole) = parts.whole.get() {
        whole
    } else {
        let whole = whole(&parts.said, parts.base_url.as_deref()).map_err(Problem::defect)?;
        parts.whole.get_or_init(|| whole)
    };
    tagged(&known, whole)
}

/// What the routes say, and all that follows from it.
fn whole(said: &OpenApi, base_url: Option<&str>) -> Result<Value, serde_json::Error> {
    let mut whole = serde_json::to_value(said)?;
    for methods in fields(&mut whole["paths"]) {
        for operation in fields(methods) {
            if operation.is_object() {
                complete(operation);
            }
        }
    }
    whole["info"] = json!({
        "title": "Stepwell",
        "version": env!("CARGO_PKG_VERSION"),
        "license": {"name": "MIT OR Apache-2.0"},
        "description": "Durable runs of workflows: start them, watch them, decide, repair.\n\nAn error is a problem of RFC 9457 \
                        (`application/problem+json`). Its `code` is for programs and does not change; its `detail` says what to do.",
    });
    whole["tags"] = json!([
        {"name": "runs", "description": "Start runs, look at them, speak to them."},
        {"name": "repair", "description": "What a person does to a run that does not go on as it should."},
        {"name": "approvals", "description": "What somebody has to allow."},
        {"name": "unknowns", "description": "What may have happened, and what stands."},
        {"name": "sessions", "description": "For browsers."},
        {"name": "about", "description": "The API itself."},
    ]);
    whole["servers"] = json!([{"url": base_url.unwrap_or("/")}]);
    whole["security"] = json!([{"key": []}, {"token": []}]);
    let components = &mut whole["components"];
    components["securitySchemes"] = json!({
        "key": {"type": "apiKey", "in": "header", "name": "x-api-key", "description": "A key that is known here."},
        "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "A token of the issuer that is trusted here."},
    });
    let mut problem = serde_json::to_value(ProblemView::schema())?;
    problem["properties"]["code"]["enum"] = TABLE.iter().map(|row| row.code).collect();
    components["schemas"][&*ProblemView::name()] = problem;
    Ok(whole)
}

/// Adds the problems of an operation to its answers, a status at a time.
fn complete(operation: &mut Value) {
    let is_open = operation.get("security").is_some();
    let own = operation.as_object_mut().and_then(|operation| operation.remove(OWN)).unwrap_or_default();
    let mut codes: BTreeSet<&str> = own.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    codes.extend(ANY);
    if !is_open {
        codes.extend(GUARDED.iter().chain(ASKS));
    }
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let brought: &[&str] = match (parameter["in"].as_str(), parameter["name"].as_str()) {
            (Some("path"), Some("run")) => &["bad-name", "no-such-run"],
            (Some("path"), _) => &["bad-name"],
            (Some("query"), _) => &["bad-query"],
            (Some("header"), Some("If-Match")) => PRECONDITION,
            (Some("header"), Some("Idempotency-Key")) => &["bad-header"],
            (_, _) => &[],
        };
        codes.extend(brought);
    }
    let body = operation.get("requestBody");
    // What a form brings is answered with a page.
    let is_form = body.is_some_and(|body| body["content"].get("application/x-www-form-urlencoded").is_some());
    if body.is_some() {
        codes.extend(BODY.iter().chain(if is_open { &[] } else { WRITES }));
    }
    let mut by_status: BTreeMap<u16, Vec<&Row>> = BTreeMap::new();
    for row in TABLE.iter().filter(|row| codes.contains(row.code)) {
        by_status.entry(row.status.as_u16()).or_default().push(row);
    }
    for (status, rows) in by_status {
        operation["responses"][status.to_string()] = answer(&rows, is_form);
    }
}

/// The answer of one status: which problems it may tell, and what each means.
fn answer(rows: &[&Row], is_form: bool) -> Value {
    let tell = |row: &&Row| format!("- `{}`: {}. What to do: {}.", row.code, row.title, row.advice);
    let codes: Vec<&str> = rows.iter().map(|row| row.code).collect();
    let schema = json!({
        "allOf": [
            {"$ref": format!("#/components/schemas/{}", ProblemView::name())},
            {"type": "object", "properties": {"code": {"enum": codes}}},
        ],
    });
    let mut content = json!({"application/problem+json": {"schema": schema}});
    if is_form {
        content["text/html"] = json!({"schema": {"type": "string"}});
    }
    json!({
        "description": rows.iter().map(tell).collect::<Vec<_>>().join("\n"),
        "content": content,
    })
}

fn fields(of: &mut Value) -> impl Iterator<Item = &mut Value> {
    of.as_object_mut().into_iter().flat_map(Map::values_mut)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn what_routes_and_this_file_name_is_in_the_table() {
        let known: BTreeSet<&str> = TABLE.iter().map(|row| row.code).collect();
        for code in [GUARDED, ASKS, WRITES, BODY, PRECONDITION].into_iter().flatten() {
            assert!(known.contains(code), "{code}");
        }
        let said = serde_json::to_value(crate::described_routes().get_openapi()).unwrap();
        let own = said["paths"].as_object().unwrap().values().flat_map(|methods| methods.as_object().unwrap().values());
        let own: Vec<&str> = own
            .filter_map(|operation| operation[OWN].as_array())
            .flatten()
            .map(|code| code.as_str().unwrap())
            .collect();
        assert!(own.len() > 20, "{own:?}");
        assert!(own.iter().all(|code| known.contains(code)), "{own:?}");
    }
}
