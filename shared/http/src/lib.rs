//! # stepwell-http: the API as one router
//!
//! **What lives here:** the routes under `/v1` ([`router`]), who may use them ([`Access`], [`Actor`]), what is taken from a
//! request and how it is checked, the JSON of the answers ([`view`]: the words of the CLI's `--json` too), and errors as
//! `application/problem+json`, with one table from codes to statuses.
//!
//! **What must not live here:** a server, a port, TLS, anything of one cloud: whoever hosts the router brings those. No
//! decision about a run either: a handler reads a request, asks the [`Client`], and shows what it said.
//!
//! | route | does |
//! | --- | --- |
//! | `GET /v1/health` | says that the process answers; needs no key, touches nothing |
//! | `POST /v1/runs` | starts a run; with `Idempotency-Key`, once |
//! | `GET /v1/runs` | lists runs, newest first: `workflow`, `status`, `limit`, `after` |
//! | `GET /v1/runs/{run}` | shows a run |
//! | `GET /v1/runs/{run}/history` | what has happened to it: `from` |
//! | `POST /v1/runs/{run}/signals` | sends it a signal |
//! | `POST /v1/runs/{run}/cancel` | asks for its end |
//! | `POST /v1/runs/{run}/resume` | lets it go on when it is parked |
//! | `POST /v1/runs/{run}/effects/{key}/resolve` | says how an effect ended that may have happened |
//! | `POST /v1/runs/{run}/let-stand` | lets an effect stand that could not be taken back |
//! | `GET /v1/runs/{run}/approvals` | shows its approvals, whatever became of them |
//! | `POST /v1/runs/{run}/approvals/{id}` | answers one: `{"decision": "approve" \| "reject", "why": …}` |
//! | `GET /v1/approvals` | lists approvals that are open, of runs that have not ended: `limit`, `after` |
//! | `GET /v1/unknowns` | lists effects that may have happened, of runs that have not ended: `limit`, `after` |
//!
//! A page of `GET /v1/unknowns` or `GET /v1/approvals` is a page of runs: `limit` says how many are looked at, those first
//! that stand still for want of an answer. It may hold nothing, or several of one run; the last one is the one whose `next` is
//! `null`. A run that comes to stand otherwise from one page to the next may be missed, or come twice. Parameters of an
//! approval that are large enough to lie in a blob are there with the run's approvals alone.
//!
//! Who answers an approval is whom the credentials name, with the roles that they have; no body says so.
//!
//! ```
//! use stepwell_http::{Access, Api};
//! # fn serve(client: stepwell_engine::Client) -> Result<axum::Router, stepwell_http::AccessError> {
//! let keys = "ann:finance=5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";
//! let app = stepwell_http::router(Api { client, access: Access::from_text(keys)? });
//! # Ok(app) }
//! ```

mod access;
mod approvals;
mod pages;
mod problem;
mod request;
mod runs;
mod surround;
mod unknowns;
pub mod view;

pub use access::{Access, AccessError, Actor};

use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Serialize;
use stepwell_engine::Client;

use crate::problem::Problem;

/// Bytes of a request's body. A Lambda function takes 6 MB of request, in which a body may ride as base64: a third longer.
pub const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What the router works with.
#[derive(Clone)]
pub struct Api {
    /// Starts runs, looks at them, speaks to them.
    pub client: Client,
    /// Whose keys open it.
    pub access: Access,
}

/// The API. Everything but `GET /v1/health` is for whom `api.access` knows, or whom the host has authenticated ([`Actor`]).
pub fn router(api: Api) -> Router {
    let Api { client, access } = api;
    let open = Router::new().route("/v1/health", get(health)).method_not_allowed_fallback(wrong_method);
    // The guard stands before the answer to an unknown route too: a new route is closed until it is opened on purpose.
    let guarded = Router::new()
        .route("/v1/runs", get(runs::list).post(runs::start))
        .route("/v1/runs/{run}", get(runs::show))
        .route("/v1/runs/{run}/history", get(runs::history))
        .route("/v1/runs/{run}/signals", post(runs::signal))
        .route("/v1/runs/{run}/cancel", post(runs::cancel))
        .route("/v1/runs/{run}/resume", post(runs::resume))
        .route("/v1/runs/{run}/let-stand", post(runs::let_stand))
        .route("/v1/runs/{run}/effects/{key}/resolve", post(unknowns::resolve))
        .route("/v1/runs/{run}/approvals", get(approvals::of_run))
        .route("/v1/runs/{run}/approvals/{id}", post(approvals::answer))
        .route("/v1/approvals", get(approvals::list))
        .route("/v1/unknowns", get(unknowns::list))
        .fallback(no_such_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(access, access::guard))
        .with_state(client);
    open.merge(guarded).layer(from_fn(surround::surround))
}

#[derive(Serialize)]
struct HealthView {
    status: &'static str,
}

async fn health() -> Json<HealthView> {
    Json(HealthView { status: "ok" })
}

async fn no_such_route() -> Problem {
    Problem::fix("no-such-route", "there is nothing at this path: see the API's description for what there is")
}

async fn wrong_method() -> Problem {
    Problem::fix("wrong-method", "this path does not take this method: the header Allow lists those it does")
}
