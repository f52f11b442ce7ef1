//! The guard of pages that people look at: the same credentials, but a stranger is shown where to log in.

use core::convert::Infallible;
use std::future::Future;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::Route;
use tower::{Layer, Service};

use super::guard::Gate;
use super::roles::Permission;
use crate::Api;
use crate::links::page;
use crate::surround::page_headers;

/// Where people log in. It is the console's, and no page of the guard's.
const LOGIN: &str = "/login";

/// The layer that pages stand behind: whoever may look comes in ([`super::Caller`] is in the request's extensions), a stranger is sent
/// to `/login?next=…`, and anybody else gets a page that says why not. It sets the headers that pages need, with a policy that lets no
/// script in but those of this host's own files.
pub fn pages_guard(
    api: &Api,
) -> impl Layer<
    Route,
    Service = impl Service<
        Request,
        Response = Response,
        Error = Infallible,
        Future = impl Future<Output = Result<Response, Infallible>> + Send + use<>,
    > + Clone
              + Send
              + Sync
              + use<>
              + 'static,
> + Clone
+ Send
+ Sync
+ use<>
+ 'static {
    let access = api.access.clone().found_at(api.site.base_url.as_deref());
    from_fn_with_state(Gate { access, client: api.client.clone() }, guard)
}

async fn guard(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let admitted = match gate.at_this_machine(&parts) {
        // A page changes nothing: forms go to the API.
        Ok(()) => gate.admit_to(&mut parts, Permission::Look).await,
        Err(problem) => Err(problem),
    };
    let mut response = match admitted {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(problem) if problem.status() == StatusCode::UNAUTHORIZED => {
            let next = parts.uri.path_and_query().map_or("/", |path| path.as_str());
            (StatusCode::SEE_OTHER, [(LOCATION, login(next))]).into_response()
        }
        Err(problem) => page::of_problem(&problem),
    };
    page_headers(response.headers_mut());
    response
}

/// The way to the login page, and back.
fn login(next: &str) -> String {
    if next == "/" {
        return LOGIN.to_owned();
    }
    let mut way = format!("{LOGIN}?next=");
    for byte in next.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => way.push(char::from(byte)),
            other => {
                use std::fmt::Write as _;
                // Writing to a string never fails.
                let _ = write!(way, "%{other:02X}");
            }
        }
    }
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_is_one_value_of_a_query() {
        assert_eq!(login("/"), "/login");
        assert_eq!(login("/runs/r1?at=3&x=%2F"), "/login?next=/runs/r1%3Fat%3D3%26x%3D%252F");
    }
}
