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
use stepwell_http::{Actor, Api, Peer, Site};

use crate::process::{self, Deployment, Fatal};
use crate::settings::{Doors, environment};

/// Answers a request. A caller whom AWS has authenticated is known by its ARN, and has these roles: AWS has said that it may call,
/// and knows none of ours. Any other has to show credentials.
///
/// # Errors
/// None: what goes wrong is a response, too.
pub async fn respond(
    mut router: Router,
    iam_roles: &[String],
    mut request: Request,
) -> Result<Response<Body>, Infallible> {
    let (actor, peer) = told(&request, iam_roles);
    if let Some(actor) = actor {
        request.extensions_mut().insert(actor);
    }
    if let Some(peer) = peer {
        request.extensions_mut().insert(peer);
    }
    router.call(request).await
}

/// Whom AWS vouches for, and where the request comes from. This is in the event's own context, which a caller cannot write, and never
/// in a header.
fn told(request: &Request, iam_roles: &[String]) -> (Option<Actor>, Option<Peer>) {
    match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => {
            let iam = context.authorizer.as_ref().and_then(|authorizer| authorizer.iam.as_ref());
            let arn = iam.and_then(|iam| iam.user_arn.clone()).filter(|arn| !arn.is_empty());
            let actor = arn.map(|name| Actor { name, roles: iam_roles.to_vec() });
            (actor, context.http.source_ip.clone().map(Peer))
        }
        // Other kinds of events are not linked in.
        Some(_) | None => (None, None),
    }
}

/// Serves requests until Lambda ends the process.
pub(crate) async fn serve<E: Error>(registry: Result<Registry, E>) -> Result<(), Fatal> {
    let mut problems = Vec::new();
    // Where one of them is missing there is a problem, and nothing is served.
    let Doors { access, iam_roles, base_url } = Doors::read(environment, &mut problems).unwrap_or_default();
    let registry = process::workflows(registry, &mut problems).unwrap_or_default();
    let deployment = Deployment::checked(problems).await?;
    process::warm(&*deployment.ports.store, None).await;
    let client = Client::new(deployment.ports, Arc::new(registry));
    let site = Site { streams: false, base_url, local: false };
    let api = Api { client, access, site };
    let router = stepwell_http::router(api.clone()).merge(stepwell_console::router(&api));
    let roles = &*iam_roles;
    let served = lambda_http::run(service_fn(|request: Request| respond(router.clone(), roles, request))).await;
    served.map_err(|error| Fatal::Runtime(error.to_string()))
}
