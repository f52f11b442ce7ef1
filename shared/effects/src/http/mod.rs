//! Calls to HTTP APIs.

mod meaning;
mod request;

use std::time::Duration;

use reqwest::{Client, ClientBuilder, redirect, retry};

pub use meaning::{Meaning, RETRY_AFTER_MAX};
pub use request::{HttpReply, HttpRequest};
pub use reqwest::{Method, StatusCode};

/// What a [`Http`] client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// How long a connection may take, with its TLS. Running out of it means that nothing was sent. Keep it shorter than the
    /// effects' deadlines: running out of those leaves that open. Default: 5 seconds.
    pub connect_timeout: Duration,
    /// How many bytes of a reply are read; it is recorded, so it should be small. Default: 1 MiB.
    pub reply_max: usize,
    /// Whether the proxies are used that the environment names (`HTTPS_PROXY` and the like). Default: yes.
    pub proxies: bool,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(5), reply_max: 1 << 20, proxies: true }
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client could not be set up; check the machine's certificates and proxies")]
pub struct HttpSetupError(#[source] reqwest::Error);

/// Calls HTTP APIs, each request under its effect's key. Cheap to clone; make one for all workflows, since it keeps
/// connections.
///
/// # Class
/// Every request carries `Idempotency-Key: <call.key()>`. What that is good for is the API's promise, and so is the class:
///
/// - a GET or HEAD: `read`;
/// - an API that dedupes by the key (its documentation says for how long): `idempotent_for(..)`, or `idempotent`;
/// - a PUT or DELETE of the whole thing: `idempotent`, if nobody else writes it;
/// - an API that can be asked for what a key has done: `reconcile(..)`, with a GET of this client;
/// - any other: `once`.
///
/// # What a failure says
///
/// | what was seen | what it says | why |
/// | --- | --- | --- |
/// | no address, no connection, no TLS | not done | nothing was sent |
/// | the connection was lost, or time ran out, after that | unknown | the request may have arrived |
/// | 2xx | done | |
/// | 2xx, and its body is lost, too long, or not what was asked for | unknown | it happened; the answer is missing |
/// | 421, 425, 429 | not done | the server says that it has not begun |
/// | 503 with `Retry-After` | not done | a server that names a time has turned the request away |
/// | 503 without | unknown | proxies and hosts say it of a server that was lost half-way, too |
/// | 408 | unknown | meant for a request that never came; servers say it of handlers that took too long |
/// | 409 | unknown | APIs with keys say it of a request that still works under the same key |
/// | 307, 308 | refused | the request is to be made elsewhere: use that URL |
/// | other 3xx | unknown; refused for a GET | 302 and 303 are how a form that was accepted answers |
/// | other 4xx, 501, 505 | refused | the request is to blame |
/// | other 5xx, and the rest | unknown | it may have broken off half-way |
///
/// Where an API documents it otherwise, say so with [`HttpRequest::status_means`]. A `Retry-After` (seconds or date, at most
/// [`RETRY_AFTER_MAX`]) is kept to. Codes are `http-<status>`; `http-connect`, `http-lost` and `http-reply` (its body) without
/// one; `http-request` for a request that cannot be made.
///
/// # What it does not do
/// - Repeat a request: that is up to the run.
/// - Follow a redirect, but for a GET or HEAD that carries no [`Secret`](stepwell::Secret).
/// - Show URLs: errors name scheme, host and port alone, since paths and queries are where tokens are. They quote the first
///   words of what a server says when it refuses; a `Secret` is covered in them.
#[derive(Clone, Debug)]
pub struct Http {
    acting: Client,
    reading: Client,
    reply_max: usize,
}

impl Http {
    /// A client. It verifies servers by the certificates that the machine trusts.
    ///
    /// # Errors
    /// When there are none, or a proxy of the environment is none.
    pub fn new(settings: HttpSettings) -> Result<Self, HttpSetupError> {
        let client = |redirects| client(settings, redirects).build().map_err(HttpSetupError);
        Ok(Self {
            acting: client(redirect::Policy::none())?,
            reading: client(redirect::Policy::limited(5))?,
            reply_max: settings.reply_max,
        })
    }

    /// A request in the making. A URL that is none is found out when it is sent: then the effect is refused.
    pub fn request(&self, method: Method, url: impl AsRef<str>) -> HttpRequest {
        HttpRequest::new(self.clone(), method, url.as_ref())
    }

    /// A GET.
    pub fn get(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::GET, url)
    }

    /// A POST.
    pub fn post(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::POST, url)
    }

    /// A PUT.
    pub fn put(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::PUT, url)
    }

    /// A DELETE.
    pub fn delete(&self, url: impl AsRef<str>) -> HttpRequest {
        self.request(Method::DELETE, url)
    }
}

fn client(settings: HttpSettings, redirects: redirect::Policy) -> ClientBuilder {
    let client = Client::builder()
        .connect_timeout(settings.connect_timeout)
        .redirect(redirects)
        // It would carry a query to another host.
        .referer(false)
        .retry(retry::never());
    if settings.proxies { client } else { client.no_proxy() }
}
