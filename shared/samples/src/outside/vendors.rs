//! The vendors' pages. Vendors and what they say are invented; a name always gives the same page.
//!
//! - `GET /vendors`: the names. `GET /vendors/{name}`: that vendor's page, as text. `GET /counts`: [`VendorCounts`] by name.
//! - `PUT /control/{name}` with a [`VendorBehaviour`], such as `{"mode": "slow", "ms": 500}`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, put};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::catalog::{Facts, VENDORS};
use super::counts::VendorCounts;
use super::http::{Closing, FailStatus, Problem, lock, parse};

/// How a vendor's page behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum VendorBehaviour {
    /// Answers at once.
    #[default]
    Normal,
    /// Waits before it answers.
    Slow {
        /// How long it waits, in milliseconds.
        ms: u64,
    },
    /// Answers 503, then is normal again.
    Fail {
        /// How many requests.
        times: u32,
    },
}

/// There is no vendor of this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no vendor is named {name}: choose one of {}", names().join(", "))]
pub struct UnknownVendor {
    /// The name asked for.
    pub name: String,
}

impl From<UnknownVendor> for Problem {
    fn from(unknown: UnknownVendor) -> Self {
        Self::new(StatusCode::NOT_FOUND, unknown.to_string())
    }
}

/// The names of all vendors, in the order of the catalog.
pub fn names() -> Vec<&'static str> {
    VENDORS.iter().map(|facts| facts.name).collect()
}

#[derive(Debug)]
struct Desk {
    facts: &'static Facts,
    behaviour: VendorBehaviour,
    counts: VendorCounts,
}

enum Reaction {
    Answer,
    Wait(Duration),
    Fail,
}

impl Desk {
    fn new(facts: &'static Facts) -> Self {
        Self { facts, behaviour: VendorBehaviour::Normal, counts: VendorCounts::default() }
    }

    fn arrive(&mut self) -> Reaction {
        self.counts.requested += 1;
        match &mut self.behaviour {
            VendorBehaviour::Normal | VendorBehaviour::Fail { times: 0 } => Reaction::Answer,
            VendorBehaviour::Slow { ms } => Reaction::Wait(Duration::from_millis(*ms)),
            VendorBehaviour::Fail { times } => {
                *times -= 1;
                Reaction::Fail
            }
        }
    }
}

/// The running pages.
#[derive(Clone, Debug)]
pub(super) struct Vendors {
    desks: Arc<BTreeMap<&'static str, Mutex<Desk>>>,
    closing: Closing,
}

impl Vendors {
    pub(super) fn new(closing: Closing) -> Self {
        let desks = VENDORS.iter().map(|facts| (facts.name, Mutex::new(Desk::new(facts)))).collect();
        Self { desks: Arc::new(desks), closing }
    }

    pub(super) fn router(&self) -> Router {
        Router::new()
            .route("/vendors", get(async || Json(names())))
            .route("/vendors/{name}", get(page))
            .route("/counts", get(async |State(vendors): State<Self>| Json(vendors.counts())))
            .route("/control/{name}", put(control))
            .with_state(self.clone())
    }

    pub(super) fn set(&self, name: &str, behaviour: VendorBehaviour) -> Result<(), UnknownVendor> {
        lock(self.desk(name)?).behaviour = behaviour;
        Ok(())
    }

    pub(super) fn counts(&self) -> BTreeMap<String, VendorCounts> {
        self.desks.iter().map(|(name, desk)| ((*name).to_owned(), lock(desk).counts)).collect()
    }

    fn desk(&self, name: &str) -> Result<&Mutex<Desk>, UnknownVendor> {
        self.desks.get(name).ok_or_else(|| UnknownVendor { name: name.to_owned() })
    }
}

async fn page(State(vendors): State<Vendors>, Path(name): Path<String>) -> Result<String, Problem> {
    let desk = vendors.desk(&name)?;
    let reaction = lock(desk).arrive();
    match reaction {
        Reaction::Answer => {}
        Reaction::Wait(wait) => vendors.closing.pause(wait).await?,
        Reaction::Fail => return Err(Problem::told_to_fail(FailStatus::UNAVAILABLE)),
    }
    let mut desk = lock(desk);
    desk.counts.served += 1;
    tracing::debug!(vendor = name, "page served");
    Ok(desk.facts.page())
}

async fn control(
    State(vendors): State<Vendors>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<VendorBehaviour>, Problem> {
    let behaviour = parse(&body)?;
    vendors.set(&name, behaviour)?;
    Ok(Json(behaviour))
}
