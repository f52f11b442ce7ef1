//! The pages: each a function from what was loaded to what is shown, and beside it what loads that.

pub(crate) mod approvals;
pub(crate) mod dashboard;
pub(crate) mod login;
pub(crate) mod parked;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod start;
pub(crate) mod unknowns;

#[cfg(test)]
mod tests;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

use crate::Console;
use crate::answer::Trouble;
use crate::shell::Here;
use crate::who::Viewer;

/// Where there is no page.
pub(crate) async fn missing(State(console): State<Console>, viewer: Viewer, headers: HeaderMap) -> Response {
    console.answer(&viewer, Here::Elsewhere, &headers, Err(Trouble::NoSuchPage)).await
}
