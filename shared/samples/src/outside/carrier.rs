//! The carrier, at the shop's address. It promises nothing: every request that it takes books another van.
//!
//! - `POST /v1/pickups` with JSON `{order, town, grams}`: books a van.
//! - `GET /v1/pickups`: what was booked.
//!
//! Its faults lie in the towns, so that whoever starts a run can choose one: [`ANSWER_LOST`], [`ROAD_CLOSED`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};

use super::counts::CarrierCounts;
use super::http::{Line, Problem, lock, parse};

/// For a parcel to this town the van is booked, and the first answer for each order is lost.
pub const ANSWER_LOST: &str = "Farhaven";

/// The road to this town is closed for the first [`ROAD_OPENS_AFTER`] requests for each order: those are told to come later.
pub const ROAD_CLOSED: &str = "Fernpass";

/// How many requests find the road closed.
pub const ROAD_OPENS_AFTER: usize = 3;

/// A van that was booked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookedPickup {
    /// The pickup's identity, such as `pickup-1`.
    pub pickup: String,
    /// For which order.
    pub order: String,
    /// To which town.
    pub town: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Asked {
    order: String,
    town: String,
    grams: u64,
}

#[derive(Debug, Default)]
struct Ledger {
    counts: CarrierCounts,
    booked: Vec<BookedPickup>,
    /// How often each order was asked for.
    asked: BTreeMap<String, usize>,
}

/// The running carrier.
#[derive(Clone, Debug, Default)]
pub(super) struct CarrierApi(Arc<Mutex<Ledger>>);

impl CarrierApi {
    pub(super) fn router(&self) -> Router {
        let booked = async |State(carrier): State<Self>| Json(carrier.booked());
        Router::new().route("/v1/pickups", post(book).get(booked)).with_state(self.clone())
    }

    pub(super) fn counts(&self) -> CarrierCounts {
        lock(&self.0).counts
    }

    pub(super) fn booked(&self) -> Vec<BookedPickup> {
        lock(&self.0).booked.clone()
    }
}

async fn book(
    State(carrier): State<CarrierApi>,
    ConnectInfo(line): ConnectInfo<Line>,
    body: Bytes,
) -> Result<Response, Problem> {
    let Asked { order, town, grams } = parse(&body)?;
    let mut ledger = lock(&carrier.0);
    ledger.counts.requested += 1;
    if order.is_empty() || town.is_empty() || grams == 0 {
        return Err(Problem::bad_request("a parcel has an order, a town and a weight"));
    }
    let asked = ledger.asked.entry(order.clone()).or_default();
    *asked += 1;
    let asked = *asked;
    if town == ROAD_CLOSED && asked <= ROAD_OPENS_AFTER {
        let detail = format!("the road to {town} is closed: no van was booked for order {order}; ask again later");
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail));
    }
    ledger.counts.booked += 1;
    let pickup = format!("pickup-{}", ledger.counts.booked);
    let is_lost = asked == 1 && town == ANSWER_LOST;
    ledger.booked.push(BookedPickup { pickup: pickup.clone(), order, town });
    Ok(if is_lost { line.cut() } else { Json(serde_json::json!({ "pickup": pickup })).into_response() })
}
