//! How the samples call the outside: one HTTP client, and what each of its failures says about what happened there.

use std::error::Error;
use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, redirect, retry};
use serde::Deserialize;
use stepwell::CallError;
use thiserror::Error;

/// How long a client waits. Running out of `connect` means that nothing was sent; running out of `answer` leaves that open,
/// so `connect` should be the shorter one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For the whole call, the connection included, until the last byte of the answer.
    pub answer: Duration,
}

impl Default for Timeouts {
    /// Two seconds to connect, ten in all.
    fn default() -> Self {
        Self { connect: Duration::from_secs(2), answer: Duration::from_secs(10) }
    }
}

/// Why a client could not be set up: a matter of configuration, found before any call.
#[derive(Debug, Error)]
pub enum SetupError {
    /// The base URL is none.
    #[error("{base:?} is no base URL: give one such as http://127.0.0.1:4711")]
    Base {
        /// What was given.
        base: String,
    },
    /// The HTTP client does not start.
    #[error("the HTTP client could not be set up")]
    Client(#[source] reqwest::Error),
}

/// An HTTP client and the place it calls; for all clients of this crate.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    url: Url,
    pub(crate) client: Client,
}

impl Base {
    pub(crate) fn new(base: &str, timeouts: Timeouts) -> Result<Self, SetupError> {
        let url = Url::parse(base).ok().filter(|url| url.scheme() == "http");
        let url = url.ok_or_else(|| SetupError::Base { base: base.to_owned() })?;
        let client = Client::builder()
            .connect_timeout(timeouts.connect)
            .timeout(timeouts.answer)
            // Nothing between us and the outside, and nobody who repeats a call but the workflow.
            .no_proxy()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .build()
            .map_err(SetupError::Client)?;
        Ok(Self { url, client })
    }

    /// The base with path segments added, each one escaped.
    pub(crate) fn url(&self, segments: &[&str]) -> Url {
        let mut url = self.url.clone();
        // An http URL always has a path.
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }
}

/// What a failed call says about the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Did not happen; may help to repeat.
    NotSent,
    /// Did not and will not happen.
    Refused,
    /// May have happened.
    Unknown,
}

impl Outcome {
    /// Only two kinds of error are certain: no connection, and a request that could not even be put together.
    fn of_error(error: &reqwest::Error) -> Self {
        if error.is_connect() {
            Self::NotSent
        } else if error.is_builder() {
            Self::Refused
        } else {
            Self::Unknown
        }
    }

    /// The outside promises that 429 and 503 come before anything is done, and so does any other 4xx.
    fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Self::NotSent,
            status if status.is_client_error() => Self::Refused,
            _ => Self::Unknown,
        }
    }
}

/// A failed call, not yet in the words of its client.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) outcome: Outcome,
    pub(crate) why: String,
}

impl From<reqwest::Error> for Failure {
    fn from(error: reqwest::Error) -> Self {
        let mut why = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            why = format!("{why}: {cause}");
            source = cause.source();
        }
        Self { outcome: Outcome::of_error(&error), why }
    }
}

/// Calls, and reads the text of a successful answer.
pub(crate) async fn text(request: RequestBuilder) -> Result<String, Failure> {
    let response = request.send().await?;
    if response.status().is_success() { Ok(response.text().await?) } else { Err(unsuccessful(response).await) }
}

async fn unsuccessful(response: Response) -> Failure {
    #[derive(Deserialize)]
    struct Problem {
        detail: String,
    }
    let status = response.status();
    // The status decides; the detail is a courtesy to the reader and may be missing.
    let detail =
        response.json().await.map_or_else(|_| String::new(), |problem: Problem| format!(": {}", problem.detail));
    Failure { outcome: Outcome::of_status(status), why: format!("the server answered {status}{detail}") }
}

impl From<Failure> for CallError {
    fn from(Failure { outcome, why }: Failure) -> Self {
        match outcome {
            Outcome::NotSent => Self::retry(why),
            Outcome::Refused => Self::refused(why),
            Outcome::Unknown => Self::unknown(why),
        }
    }
}
