//! What both servers share: problem answers, reading a body, ending, and cutting a connection.

use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::extract::connect_info::Connected;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::serve::IncomingStream;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The HTTP status a server was told to fail with: 400 to 599.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct FailStatus(StatusCode);

impl FailStatus {
    /// 503, "come back later".
    pub const UNAVAILABLE: Self = Self(StatusCode::SERVICE_UNAVAILABLE);
}

/// The number is no HTTP status that says failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0} is no failure: give a status from 400 to 599")]
pub struct NotAFailure(u16);

impl TryFrom<u16> for FailStatus {
    type Error = NotAFailure;

    fn try_from(code: u16) -> Result<Self, NotAFailure> {
        match StatusCode::from_u16(code) {
            Ok(status) if status.is_client_error() || status.is_server_error() => Ok(Self(status)),
            Ok(_) | Err(_) => Err(NotAFailure(code)),
        }
    }
}

impl From<FailStatus> for u16 {
    fn from(status: FailStatus) -> Self {
        status.0.as_u16()
    }
}

/// An answer that is not a success, as `application/problem+json`.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn told_to_fail(status: FailStatus) -> Self {
        Self::new(status.0, "told to fail; nothing was done")
    }

    pub(super) fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "this world is stopping; nothing was done")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::json!({
            "status": self.status.as_u16(),
            "title": self.status.canonical_reason(),
            "detail": self.detail,
        });
        let mut response = (self.status, Json(body)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}

/// Reads a JSON body whatever its content type says, so that a plain `curl -d` works.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body)
        .map_err(|error| Problem::bad_request(format!("the body is not what is expected here: {error}")))
}

/// Locks, also after a panic elsewhere: every change under these locks is whole or not made.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Knows when the world ends.
#[derive(Clone, Debug)]
pub(super) struct Closing(watch::Receiver<bool>);

impl Closing {
    pub(super) fn new(closing: watch::Receiver<bool>) -> Self {
        Self(closing)
    }

    /// Resolves once the world is ending or gone.
    pub(super) async fn closed(mut self) {
        // An error means that the sender is gone, and the world with it.
        let _ = self.0.wait_for(|closing| *closing).await;
    }

    /// Waits, but not beyond the end of the world.
    pub(super) async fn pause(&self, wait: Duration) -> Result<(), Problem> {
        tokio::select! {
            () = tokio::time::sleep(wait) => Ok(()),
            () = self.clone().closed() => Err(Problem::stopping()),
        }
    }
}

/// A second handle on a request's connection, to close it without an answer.
#[derive(Clone, Debug)]
pub(super) struct Line(Option<Arc<TcpStream>>);

impl Line {
    /// Closes the connection. The response is for the server's machinery alone: it can no longer reach the client.
    pub(super) fn cut(&self) -> Response {
        let cut = self.0.as_ref().map(|stream| stream.shutdown(Shutdown::Both));
        if !matches!(cut, Some(Ok(()))) {
            // The client has gone already, or there was no second handle. Then it gets a bare 500, which leaves as much open.
            tracing::warn!("a connection to the outside world could not be cut");
        }
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

impl Connected<IncomingStream<'_, TcpListener>> for Line {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Self {
        let handle = stream.io().as_fd().try_clone_to_owned();
        Self(handle.ok().map(|handle| Arc::new(TcpStream::from(handle))))
    }
}
