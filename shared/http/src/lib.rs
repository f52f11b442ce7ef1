//! # stepwell-http: the API as one router
//!
//! **What lives here:** the routes under `/v1` ([`router`]), who may use them ([`Access`], [`Actor`]), what is taken from a
//! request and how it is checked, the JSON of the answers ([`view`]: the words of the CLI's `--json` too), and errors as
//! `application/problem+json`, with one table from codes to statuses.
//!
//! **What must not live here:** a server, a port, TLS, anything of one cloud: whoever hosts the router brings those. No
//! decision about a run either: a handler reads a request, asks the [`Client`], and shows what it said.
//!
//! The routes describe themselves at `GET /v1/openapi.json`; what each needs stands in [`ROUTES`], and as a table in
//! `shared/http/PERMISSIONS.md`. Beside `/v1` there are `/links/{token}`: what somebody without an account was sent.
//!
//! | of | routes |
//! | --- | --- |
//! | runs | `POST /v1/runs` (once with `Idempotency-Key`; `wait` for its end), `GET /v1/runs`, `GET /v1/runs/{run}` (entity tag, `wait`), `/events`, `/history`, `/state`, `/signals`, `/cancel` |
//! | repair | `/pause`, `/resume`, `/retry`; with `If-Match`: `/edit`, `/move`, `/discard` |
//! | effects | `GET /v1/unknowns`, `/v1/runs/{run}/effects/{key}/resolve`, `/let-stand` |
//! | approvals | `GET /v1/approvals`, `/v1/runs/{run}/approvals`, `/{id}`, `/{id}/links` |
//! | sessions | `POST` and `DELETE /v1/session` |
//!
//! A page of `GET /v1/unknowns` or `GET /v1/approvals` is a page of runs: `limit` says how many are looked at, those first
//! that stand still for want of an answer. It may hold nothing, or several of one run; the last one is the one whose `next` is
//! `null`. A run that comes to stand otherwise from one page to the next may be missed, or come twice. Parameters of an
//! approval that are large enough to lie in a blob are there with the run's approvals alone.
//!
//! Who answers an approval is whom the credentials name, with the roles that they have; no body says so.
//!
//! ```
//! use stepwell_http::{Access, Api, Site};
//! # fn serve(client: stepwell_engine::Client) -> Result<axum::Router, stepwell_http::AccessError> {
//! let keys = "ann:approver+finance=5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";
//! let app = stepwell_http::router(Api { client, access: Access::from_text(keys)?, site: Site::default() });
//! # Ok(app) }
//! ```

mod access;
mod approvals;
mod codes;
#[cfg(feature = "jwt")]
pub mod jwt;
mod limits;
mod links;
mod openapi;
mod pages;
mod problem;
mod repair;
mod request;
mod runs;
mod schema;
mod sent;
mod session;
mod surround;
mod unknowns;
pub mod view;
mod watch;

pub use access::{
    Access, AccessError, Actor, BuiltIn, Caller, Needs, NoToken, Peer, Permission, ROUTES, Route, Tokens, is_role,
    pages_guard, permissions_table,
};
pub use limits::{Limits, Rate};
pub use surround::page_headers;

use axum::extract::{DefaultBodyLimit, FromRef};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use stepwell_engine::Client;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::Gate;
use crate::openapi::Description;
use crate::problem::Problem;
use crate::watch::Streams;

/// Bytes of a request's body. A Lambda function takes 6 MB of request, in which a body may ride as base64: a third longer.
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What the router works with.
#[derive(Clone)]
pub struct Api {
    /// Starts runs, looks at them, speaks to them.
    pub client: Client,
    /// Whose keys open it.
    pub access: Access,
    /// What its host is like.
    pub site: Site,
}

/// What the host of the router is like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// Whether an answer may be sent bit by bit. A Lambda function behind most fronts hands over its answer as a whole.
    pub streams: bool,
    /// Where the outside finds it, without a slash at the end: `https://runs.example.com`. It stands in the API's description.
    pub base_url: Option<String>,
    /// Whether it serves its own machine alone.
    pub local: bool,
}

/// What handlers work with.
#[derive(Clone)]
pub(crate) struct Shared {
    client: Client,
    access: Access,
    site: Site,
    description: Description,
    streams: Streams,
}

impl FromRef<Shared> for Client {
    fn from_ref(shared: &Shared) -> Self {
        shared.client.clone()
    }
}

impl FromRef<Shared> for Access {
    fn from_ref(shared: &Shared) -> Self {
        shared.access.clone()
    }
}

impl FromRef<Shared> for Site {
    fn from_ref(shared: &Shared) -> Self {
        shared.site.clone()
    }
}

impl FromRef<Shared> for Description {
    fn from_ref(shared: &Shared) -> Self {
        shared.description.clone()
    }
}

impl FromRef<Shared> for Streams {
    fn from_ref(shared: &Shared) -> Self {
        shared.streams.clone()
    }
}

/// The API. Everything but `GET /v1/health` is for whom `api.access` knows, or whom the host has authenticated ([`Actor`]).
pub fn router(api: Api) -> Router {
    let Api { client, access, site } = api;
    let access = access.found_at(site.base_url.as_deref());
    let (described, said) = described_routes().split_for_parts();
    let description = Description::of(said, site.base_url.clone());
    let gate = Gate { access: access.clone(), client: client.clone() };
    let shared = Shared { client, access, site, description, streams: Streams::default() };
    let links = Router::new()
        .route("/links/style.css", get(links::style))
        .route("/links/{token}", get(links::show).post(links::act));
    // The guard stands before the answer to an unknown route too: what its table does not have is closed.
    described
        .merge(links)
        .fallback(no_such_route)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(gate, access::guard))
        .layer(from_fn(surround::surround))
        .with_state(shared)
}

/// Every route but those of links. Each stands in the description, since it comes from there.
fn described_routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::default()
        .routes(routes!(health))
        .routes(routes!(session::begin, session::end))
        .routes(routes!(links::make))
        .routes(routes!(openapi::describe))
        .routes(routes!(runs::workflows))
        .routes(routes!(runs::list, runs::start))
        .routes(routes!(watch::show))
        .routes(routes!(watch::events))
        .routes(routes!(runs::history))
        .routes(routes!(runs::signal))
        .routes(routes!(runs::cancel))
        .routes(routes!(runs::resume))
        .routes(routes!(runs::let_stand))
        .routes(routes!(repair::state))
        .routes(routes!(repair::pause))
        .routes(routes!(repair::retry))
        .routes(routes!(repair::edit))
        .routes(routes!(repair::move_to))
        .routes(routes!(repair::discard))
        .routes(routes!(unknowns::resolve))
        .routes(routes!(approvals::of_run))
        .routes(routes!(approvals::answer))
        .routes(routes!(approvals::list))
        .routes(routes!(unknowns::list))
}

#[derive(Serialize, ToSchema)]
struct HealthView {
    /// `ok`.
    status: &'static str,
}

/// Says that the process answers
///
/// It needs no key, and touches nothing.
#[utoipa::path(
    get, path = "/v1/health", operation_id = "health", tag = "about", security(()),
    responses((status = 200, description = "It does", body = HealthView)),
)]
async fn health() -> Json<HealthView> {
    Json(HealthView { status: "ok" })
}

async fn no_such_route() -> Problem {
    Problem::fix("no-such-route", "there is nothing at this path: see the API's description for what there is")
}
