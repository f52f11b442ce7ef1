//! Login: a key, for a session. It works without the script too.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::HeaderMap;
use axum::response::Response;
use maud::html;
use serde::Deserialize;

use crate::answer;
use crate::shell::{Around, Here, Page};

/// Where to go then.
#[derive(Deserialize)]
pub(crate) struct Asked {
    #[serde(default)]
    next: String,
}

/// Open to all.
pub(crate) async fn get(headers: HeaderMap, asked: Result<Query<Asked>, QueryRejection>) -> Response {
    let next = asked.map(|Query(asked)| asked.next).unwrap_or_default();
    answer::shown(&page(&next), Around { name: None, counts: None }, &headers)
}

/// The page. Whether `next` leads anywhere says the API, and the script.
pub(crate) fn page(next: &str) -> Page {
    let main = html! {
        h1 { "Sign in" }
        form.login #login method="post" action="/v1/session" data-method="POST" data-path="/v1/session" data-then="back"
            data-done="You are signed in." {
            @if !next.is_empty() { input type="hidden" name="next" value=(next); }
            p.field {
                label for="login-key" { "API key" }
                input #login-key name="key" type="password" required autocomplete="current-password" maxlength="512"
                    aria-describedby="login-key-hint";
                span.hint #login-key-hint { "Whoever runs this stack gives keys out, each with a name and roles. What you do here is recorded under that name." }
            }
            p.error #login-error role="alert" tabindex="-1" hidden {}
            p.buttons { button type="submit" { "Sign in" } }
        }
    };
    Page { title: "Sign in".into(), here: Here::Elsewhere, refresh: None, says: String::new(), main }
}
