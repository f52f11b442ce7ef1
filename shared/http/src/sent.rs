//! What a browser's form sends, or a program in its place.

use axum::Form;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;
use stepwell_core::Json;

use crate::BODY_BYTES_MAX;
use crate::problem::Problem;
use crate::request::{Body, is_json};

/// Bytes of a form. People write them.
const FORM_BYTES_MAX: usize = 256 * 1024;

/// How it came, which is how it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// A person, who sees a page.
    Form,
    /// A program, which reads JSON.
    Program,
}

impl From {
    /// Whom this request comes from, as its content says.
    pub(crate) fn of(request: &Request) -> Self {
        let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") { Self::Form } else { Self::Program }
    }

    /// Reads whatever JSON a program sends.
    pub(crate) async fn read_any(self, request: Request) -> Result<Json, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::fix("wrong-type", "send JSON, and say so: Content-Type: application/json"));
        }
        let text = String::from_request(request, &()).await.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Problem::fix("too-large", format!("a body takes {BODY_BYTES_MAX} bytes at most"))
            }
            _ => Problem::fix("bad-body", "the body broke off, or is not UTF-8; send it again"),
        })?;
        Json::from_text(text.trim().to_owned())
            .map_err(|error| Problem::fix("not-json", format!("the body is not JSON: {error}")))
    }

    /// Reads a form's fields, or the same as JSON.
    pub(crate) async fn read<T: DeserializeOwned>(self, request: Request) -> Result<T, Problem> {
        match self {
            Self::Program => Body::from_request(request, &()).await.map(|Body(sent)| sent),
            Self::Form => {
                let (parts, body) = request.into_parts();
                let read = axum::body::to_bytes(body, FORM_BYTES_MAX).await;
                let bytes = read
                    .map_err(|_| Problem::fix("too-large", format!("a form takes {FORM_BYTES_MAX} bytes at most")))?;
                let form = Form::from_request(Request::from_parts(parts, bytes.into()), &()).await;
                form.map(|Form(sent)| sent).map_err(|rejection| Problem::fix("misfit", rejection.body_text()))
            }
        }
    }
}
