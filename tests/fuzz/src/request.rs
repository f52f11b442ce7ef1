//! A request as text, so that a person can read what was found:
//!
//! ```text
//! pl POST /v1/runs/{run}/edit
//! if-match: {tag}
//!
//! {"why": "a typing error", "patch": []}
//! ```
//!
//! The first letter says which run there is (`crate::cases`), the second one who asks: `l`, this machine; `v`, a viewer with a key;
//! else nobody.

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use axum::http::{Method, Request};

use crate::cases::Words;
use crate::world::{PORT, VIEWER_KEY};

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Local,
    Viewer,
    Nobody,
}

/// What is asked.
pub(crate) struct Asked<'a> {
    pub(crate) case: u8,
    pub(crate) who: Who,
    head: &'a str,
    body: &'a [u8],
}

impl<'a> Asked<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let (&[case, who], rest) = bytes.split_first_chunk::<2>()?;
        let end = rest.windows(2).position(|pair| pair == b"\n\n").unwrap_or(rest.len());
        let (head, body) = (rest.get(..end)?, rest.get(end + 2..).unwrap_or_default());
        let who = match who {
            b'l' => Who::Local,
            b'v' => Who::Viewer,
            _ => Who::Nobody,
        };
        Some(Self { case, who, head: std::str::from_utf8(head).ok()?, body })
    }

    /// Whether it speaks of a link that somebody was given.
    pub(crate) fn has_link(&self) -> bool {
        ["{token}", "{callback}"].iter().any(|word| self.head.contains(word))
    }

    /// The request, with these words. `None`: a server would not take it from the wire.
    pub(crate) fn request(&self, words: &Words) -> Option<Request<Body>> {
        let head = put(self.head, words);
        let mut lines = head.lines();
        let (method, target) = lines.next()?.trim().split_once(' ')?;
        let mut request = Request::new(Body::from(match std::str::from_utf8(self.body) {
            Ok(text) => put(text, words).into_bytes(),
            Err(_) => self.body.to_vec(),
        }));
        *request.method_mut() = Method::from_bytes(method.as_bytes()).ok()?;
        *request.uri_mut() = target.parse().ok()?;
        let headers = request.headers_mut();
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let name = HeaderName::try_from(name.trim()).ok()?;
            headers.append(name, HeaderValue::from_bytes(value.trim().as_bytes()).ok()?);
        }
        let host = HeaderValue::try_from(format!("localhost:{PORT}")).ok()?;
        headers.entry(HOST).or_insert(host);
        headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        if self.who == Who::Viewer {
            headers.entry("x-api-key").or_insert(HeaderValue::from_static(VIEWER_KEY));
        }
        Some(request)
    }
}

fn put(text: &str, words: &Words) -> String {
    words.iter().fold(text.to_owned(), |text, (word, with)| text.replace(word, with))
}
