//! The API, behind a Function URL or an HTTP API.

use core::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use lambda_http::request::RequestContext;
use lambda_http::tower::Service as _;
use lambda_http::{Request, RequestExt as _, Response, service_fn};
use stepwell::Registry;
use stepwell_engine::Client;
use stepwell_http::{Actor, Api};

use crate::process::{self, Deployment, Fatal};
use crate::settings::{access, environment};

/// Answers a request. A caller whom AWS has authenticated is known by its ARN; any other has to show a key.
///
/// # Errors
/// None: what goes wrong is a response, too.
pub async fn respond(mut router: Router, mut request: Request) -> Result<Response<Body>, Infallible> {
    if let Some(actor) = authenticated(&request) {
        request.extensions_mut().insert(actor);
    }
    router.call(request).await
}

/// Whom AWS vouches for. This is in the event's own context, which a caller cannot write, and never in a header.
fn authenticated(request: &Request) -> Option<Actor> {
    match request.request_context_ref()? {
        RequestContext::ApiGatewayV2(context) => {
            let arn = context.authorizer.as_ref()?.iam.as_ref()?.user_arn.clone()?;
            // AWS knows no roles of ours.
            (!arn.is_empty()).then(|| Actor::named(arn))
        }
        // Other kinds of events are not linked in.
        _ => None,
    }
}

/// Serves requests until Lambda ends the process.
pub(crate) async fn serve<E: Error>(registry: Result<Registry, E>) -> Result<(), Fatal> {
    let mut problems = Vec::new();
    // Where one of them is missing there is a problem, and nothing is served.
    let access = access(environment, &mut problems).unwrap_or_default();
    let registry = process::workflows(registry, &mut problems).unwrap_or_default();
    let deployment = Deployment::checked(problems).await?;
    process::warm(&*deployment.ports.store, None).await;
    let client = Client::new(deployment.ports, Arc::new(registry));
    let router = stepwell_http::router(Api { client, access });
    let served = lambda_http::run(service_fn(|request: Request| respond(router.clone(), request))).await;
    served.map_err(|error| Fatal::Runtime(error.to_string()))
}
