//! The shop. It pays back once under a key, but any number of times for one order: that is for its callers to know.
//!
//! - `GET /v1/orders/{order}`: `{cents, customer, held}`. An order's number ends with what was paid for it, in cents: `lamp-4500`.
//! - `PUT` and `DELETE /v1/orders/{order}/holds/{holder}`: holds it back from being shipped, and lets it go. It is held while anybody
//!   holds it.
//! - `POST /v1/refunds` with header `Idempotency-Key` and JSON `{order, cents}`: pays back.
//! - `GET /v1/refunds`: what was paid. `GET /v1/counts`: [`ShopCounts`].
//! - `PUT /control` with a [`ShopBehaviour`], such as `{"mode": "refuse"}`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use super::counts::ShopCounts;
use super::http::{Line, Problem, lock, parse};

/// How the shop behaves when it is asked to pay back. Where it counts `times`, it is normal again afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum ShopBehaviour {
    /// Pays and answers.
    #[default]
    Normal,
    /// Refuses for good: the card is closed.
    Refuse,
    /// Pays, then closes the connection without an answer.
    PayThenDrop {
        /// How many requests.
        times: u32,
    },
}

/// A refund that was paid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaidRefund {
    /// The refund's identity.
    pub refund: String,
    /// The idempotency key it came under.
    pub key: String,
    /// For which order.
    pub order: String,
    /// How much.
    pub cents: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    order: String,
    cents: u64,
}

/// All the shop knows.
#[derive(Debug, Default)]
struct Books {
    behaviour: ShopBehaviour,
    counts: ShopCounts,
    /// Order and holder.
    held: BTreeSet<(String, String)>,
    paid: Vec<PaidRefund>,
}

/// The running shop.
#[derive(Clone, Debug, Default)]
pub(super) struct ShopApi(Arc<Mutex<Books>>);

impl ShopApi {
    pub(super) fn router(&self) -> Router {
        Router::new()
            .route("/v1/orders/{order}", get(order))
            .route("/v1/orders/{order}/holds/{holder}", put(hold).delete(release))
            .route("/v1/refunds", post(pay_back).get(async |State(shop): State<Self>| Json(shop.paid())))
            .route("/v1/counts", get(async |State(shop): State<Self>| Json(shop.counts())))
            .route("/control", put(control))
            .with_state(self.clone())
    }

    pub(super) fn set(&self, behaviour: ShopBehaviour) {
        lock(&self.0).behaviour = behaviour;
    }

    pub(super) fn counts(&self) -> ShopCounts {
        let books = lock(&self.0);
        ShopCounts { held: books.held.len() as u64, ..books.counts }
    }

    pub(super) fn paid(&self) -> Vec<PaidRefund> {
        lock(&self.0).paid.clone()
    }

    pub(super) fn is_held(&self, order: &str) -> bool {
        lock(&self.0).held.iter().any(|(held, _)| held == order)
    }
}

/// What was paid for an order: the number that its own ends with.
fn cents_of(order: &str) -> Result<u64, Problem> {
    let cents = order.rsplit_once('-').and_then(|(_, cents)| cents.parse().ok());
    cents.ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, format!("there is no order {order:?}")))
}

async fn order(State(shop): State<ShopApi>, Path(order): Path<String>) -> Result<Json<serde_json::Value>, Problem> {
    let cents = cents_of(&order)?;
    let held = shop.is_held(&order);
    Ok(Json(serde_json::json!({"cents": cents, "customer": format!("{order}@example.com"), "held": held})))
}

async fn hold(
    State(shop): State<ShopApi>,
    Path((order, holder)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    cents_of(&order)?;
    let mut books = lock(&shop.0);
    books.counts.holds += 1;
    books.held.insert((order, holder));
    Ok(StatusCode::NO_CONTENT)
}

async fn release(
    State(shop): State<ShopApi>,
    Path((order, holder)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    cents_of(&order)?;
    let mut books = lock(&shop.0);
    books.counts.releases += 1;
    books.held.remove(&(order, holder));
    Ok(StatusCode::NO_CONTENT)
}

async fn pay_back(
    State(shop): State<ShopApi>,
    ConnectInfo(line): ConnectInfo<Line>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| Problem::bad_request("header Idempotency-Key is missing, empty or not plain ASCII"))?;
    let Asked { order, cents } = parse(&body)?;
    let mut books = lock(&shop.0);
    books.counts.requested += 1;
    if cents == 0 || cents > cents_of(&order)? {
        return Err(Problem::bad_request(format!("{cents} cents cannot be paid back for order {order:?}")));
    }
    let refund = match books.paid.iter().find(|paid| paid.key == key) {
        Some(paid) if paid.order == order && paid.cents == cents => {
            let refund = paid.refund.clone();
            books.counts.duplicates += 1;
            refund
        }
        Some(_) => {
            let detail = format!("idempotency key {key} was used for another refund");
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
        }
        None if books.behaviour == ShopBehaviour::Refuse => {
            books.counts.refused += 1;
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "the card is closed: nothing was paid back"));
        }
        None => {
            books.counts.paid += 1;
            let refund = format!("refund-{}", books.counts.paid);
            books.paid.push(PaidRefund { refund: refund.clone(), key: key.to_owned(), order, cents });
            refund
        }
    };
    match &mut books.behaviour {
        ShopBehaviour::PayThenDrop { times } if *times > 0 => {
            *times -= 1;
            Ok(line.cut())
        }
        ShopBehaviour::Normal | ShopBehaviour::Refuse | ShopBehaviour::PayThenDrop { .. } => {
            Ok(Json(serde_json::json!({"refund": refund})).into_response())
        }
    }
}

async fn control(State(shop): State<ShopApi>, body: Bytes) -> Result<Json<ShopBehaviour>, Problem> {
    let behaviour = parse(&body)?;
    shop.set(behaviour);
    Ok(Json(behaviour))
}
