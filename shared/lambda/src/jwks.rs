//! The keys of an issuer of tokens, over HTTPS.

use std::error::Error as _;
use std::net::IpAddr;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Client, Url, redirect};
use stepwell_http::jwt::{KEYS_BYTES_MAX, KeySource};

/// How long the issuer has to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks an issuer for its key set. It goes where it was told, and nowhere else: no redirect is followed, and no more is read than a
/// set may have.
#[derive(Debug)]
pub struct Jwks {
    url: Url,
    client: Client,
}

impl Jwks {
    /// The set at this address: over HTTPS, or on this machine.
    ///
    /// # Errors
    /// An address that cannot be used, in words.
    pub fn at(url: &str) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| format!("{url:?} is no address: {error}"))?;
        if url.scheme() != "https" && !(url.scheme() == "http" && is_here(&url)) {
            return Err(format!(
                "{url}: give one that begins with https://, since whoever can change the keys can be anybody"
            ));
        }
        let client = Client::builder().redirect(redirect::Policy::none()).timeout(TIMEOUT).connect_timeout(TIMEOUT);
        let client = client.build().map_err(|error| format!("no HTTP client could be set up: {}", chain(&error)))?;
        Ok(Self { url, client })
    }
}

#[async_trait]
impl KeySource for Jwks {
    async fn fetch(&self) -> Result<Vec<u8>, String> {
        let sent = self.client.get(self.url.clone()).header("accept", "application/json").send().await;
        let mut response = sent.map_err(|error| chain(&error))?;
        if response.status() != 200 {
            return Err(format!("{}: it answered {}", self.url, response.status()));
        }
        let mut text = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(|error| chain(&error))? {
            text.extend_from_slice(&bytes);
            if text.len() > KEYS_BYTES_MAX {
                return Err(format!("{}: it answered with more than {KEYS_BYTES_MAX} bytes", self.url));
            }
        }
        Ok(text)
    }
}

fn is_here(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// An error and what it comes from.
fn chain(error: &reqwest::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        words = format!("{words}: {error}");
        source = error.source();
    }
    words
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// What comes of an issuer that answers so.
    async fn answered(head: &str, body: &[u8]) -> Result<Vec<u8>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let source = Jwks::at(&format!("http://{}/keys", listener.local_addr().unwrap())).unwrap();
        let answer = [head.as_bytes(), b"\r\nConnection: close\r\n\r\n", body].concat();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 1_024];
            let read = stream.read(&mut asked).await.unwrap();
            assert!(asked[..read].starts_with(b"GET /keys HTTP/1.1\r\n"));
            // Whoever has read enough hangs up.
            let _ = stream.write_all(&answer).await;
            let _ = stream.shutdown().await;
        };
        let (fetched, ()) = tokio::join!(source.fetch(), serve);
        fetched
    }

    #[tokio::test]
    async fn a_set_is_read_and_nothing_else_is_followed() {
        assert_eq!(answered("HTTP/1.1 200 OK", b"{\"keys\": []}").await.unwrap(), b"{\"keys\": []}");
        let others = [
            "HTTP/1.1 404 Not Found",
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/",
            "HTTP/1.1 204 No Content",
        ];
        for head in others {
            assert!(answered(head, b"").await.is_err(), "{head}");
        }
        let large = vec![b' '; KEYS_BYTES_MAX + 1];
        let error = answered("HTTP/1.1 200 OK", &large).await.unwrap_err();
        assert!(error.contains("more than"), "{error}");
        assert_eq!(answered("HTTP/1.1 200 OK", &large[1..]).await.unwrap().len(), KEYS_BYTES_MAX);
        assert!(answered("what is this", b"").await.is_err());
    }

    #[test]
    fn keys_come_over_tls_or_from_here() {
        for url in
            ["https://login.example.org/keys", "http://localhost:8080/keys", "http://[::1]/keys", "http://127.0.0.1/"]
        {
            assert!(Jwks::at(url).is_ok(), "{url}");
        }
        let others = ["", "keys", "http://login.example.org/", "http://localhost.example.org/", "file:///keys"];
        for url in others.into_iter().chain(["http://127.0.0.1@evil.example/"]) {
            assert!(Jwks::at(url).is_err(), "{url}");
        }
    }
}
