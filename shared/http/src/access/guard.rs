//! The one place that decides whether a request goes on.

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::header::{ALLOW, HeaderValue};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use stepwell_core::RunId;
use stepwell_engine::{Client, ClientError};

use super::credentials::Means;
use super::origin::{from_here, is_for_this_machine};
use super::roles::Permission;
use super::routes::{self, Found, Needs, ROUTES};
use super::{Access, Caller, Peer};
use crate::limits::peer;
use crate::problem::Problem;

/// What the guard asks.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) access: Access,
    pub(crate) client: Client,
}

/// Why a request does not go on.
pub(super) enum Refused {
    Problem(Problem),
    /// The path takes other methods.
    Method(String),
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// Lets a request through whose caller may do what its route does. Every other gets the same words as all of its kind.
pub(crate) async fn guard(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match gate.admit(&mut parts).await {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(Refused::Problem(problem)) => problem.into_response(),
        Err(Refused::Method(allowed)) => {
            let detail = "this path does not take this method: the header Allow lists those it does";
            let mut response = Problem::fix("wrong-method", detail).into_response();
            response.headers_mut().extend(HeaderValue::try_from(allowed).ok().map(|allowed| (ALLOW, allowed)));
            response
        }
    }
}

impl Gate {
    async fn admit(&self, parts: &mut Parts) -> Result<(), Refused> {
        self.at_this_machine(parts)?;
        let pattern = parts.extensions.get::<MatchedPath>().cloned();
        let pattern = pattern.as_ref().map(MatchedPath::as_str);
        match pattern.map_or(Found::Closed, |pattern| routes::find(&parts.method, pattern)) {
            Found::Needs(Needs::Nothing) => Ok(()),
            Found::Needs(Needs::Login) => self.access.local.is_none().then_some(()).ok_or_else(|| no_sessions().into()),
            Found::Needs(Needs::Token) => {
                Ok(self.access.limiters.link(peer(parts.extensions.get::<Peer>()).as_ref())?)
            }
            Found::Needs(Needs::May(permission)) => Ok(self.admit_to(parts, permission).await?),
            // What there is says the docs: that a path takes other methods is no secret where some of it is open.
            Found::OtherMethods(allowed) if is_open(pattern) => Err(Refused::Method(allowed)),
            Found::OtherMethods(allowed) => {
                self.access.authenticate(parts).await?;
                Err(Refused::Method(allowed))
            }
            Found::Closed => {
                self.access.authenticate(parts).await?;
                let detail = "there is nothing at this path: see the API's description for what there is";
                Err(Problem::fix("no-such-route", detail).into())
            }
        }
    }

    /// Lets a caller through who may do this, and notes who it is.
    pub(super) async fn admit_to(&self, parts: &mut Parts, permission: Permission) -> Result<(), Problem> {
        let (caller, means) = self.access.authenticate(parts).await?;
        if !parts.method.is_safe() {
            match means {
                Means::Shown => {}
                Means::Session => from_here(&parts.headers, true, self.access.origin())?,
                // A program on this machine need not say where it comes from; a browser always does.
                Means::Local => from_here(&parts.headers, false, None)?,
            }
        }
        self.access.limiters.call(caller.name())?;
        let allowed = caller.workflows(permission);
        if allowed.as_ref().is_some_and(Vec::is_empty) {
            return Err(not_allowed(permission));
        }
        let caller = if caller.is_scoped() { self.at_its_run(parts, caller, permission).await? } else { caller };
        parts.extensions.insert(caller);
        Ok(())
    }

    /// Looks whether a caller whose roles are for some workflows may do this to the run that the path names. One that they may not
    /// look at is not there for them. Where no run is named, or none that can be, the handler asks the caller itself.
    async fn at_its_run(&self, parts: &mut Parts, caller: Caller, permission: Permission) -> Result<Caller, Problem> {
        let Some(run) = run_of_path(parts).await else { return Ok(caller) };
        let workflow = self.client.get(&run).await?.workflow;
        if !caller.may(Permission::Look, Some(&workflow)) {
            return Err(ClientError::NoSuchRun(run).into());
        }
        if !caller.may(permission, Some(&workflow)) {
            return Err(not_allowed(permission));
        }
        Ok(caller.at(workflow))
    }

    /// A page of another site may have had its own name point to this machine: then it reaches it, and names itself.
    pub(super) fn at_this_machine(&self, parts: &Parts) -> Result<(), Problem> {
        match &self.access.local {
            Some(local) if !is_for_this_machine(parts, local.port) => {
                let detail = format!("this serves its own machine alone: ask for http://localhost:{}", local.port);
                Err(Problem::fix("wrong-host", detail))
            }
            Some(_) | None => Ok(()),
        }
    }
}

async fn run_of_path(parts: &mut Parts) -> Option<RunId> {
    let params = RawPathParams::from_request_parts(parts, &()).await.ok()?;
    let mut named = params.iter().filter(|(name, _)| *name == "run");
    named.next().and_then(|(_, run)| RunId::new(run).ok())
}

fn is_open(pattern: Option<&str>) -> bool {
    let open = |needs: &Needs| matches!(needs, Needs::Nothing | Needs::Token | Needs::Login);
    ROUTES.iter().any(|(_, known, needs)| Some(*known) == pattern && open(needs))
}

fn not_allowed(permission: Permission) -> Problem {
    let roles = super::BuiltIn::ALL.into_iter().filter(|role| role.allows(permission));
    let roles: Vec<&str> = roles.map(super::BuiltIn::as_str).collect();
    let detail = format!("this needs a role that may `{permission}`, for this workflow: {}", roles.join(", "));
    Problem::fix("no-permission", detail)
}

fn no_sessions() -> Problem {
    Problem::fix("no-sessions", "nobody logs in here: this serves its own machine, and whoever is on it")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::sync::Arc;

    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn_with_state;
    use axum::routing::get;
    use stepwell::Registry;
    use stepwell_engine::Ports;
    use stepwell_local::memory::Memory;
    use stepwell_ports::system::{SystemClock, SystemIds};
    use tower::ServiceExt as _;

    use super::*;
    use crate::access::Actor;

    #[tokio::test]
    async fn a_handler_that_the_table_does_not_have_is_closed() {
        let clock = Arc::new(SystemClock);
        let memory = Arc::new(Memory::new(clock.clone()));
        let ports =
            Ports { store: memory.clone(), queue: memory.clone(), blobs: memory, clock, ids: Arc::new(SystemIds) };
        let gate = Gate { access: Access::none(), client: Client::new(ports, Arc::new(Registry::new())) };
        let route = get(async || "open").delete(async || "gone");
        let app = Router::new().route("/v1/new", route.clone()).route("/v1/runs/{run}", route);
        let app = app.layer(from_fn_with_state(gate, guard));
        let status = async |method: &str, path: &str, actor: Option<Actor>| {
            let mut request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            if let Some(actor) = actor {
                request.extensions_mut().insert(actor);
            }
            app.clone().oneshot(request).await.unwrap().status().as_u16()
        };
        let admin = || Some(Actor::named("ann").with_role("admin"));
        assert_eq!((status("GET", "/v1/new", admin()).await, status("GET", "/v1/new", None).await), (404, 401));
        assert_eq!(status("DELETE", "/v1/runs/r1", admin()).await, 405);
        assert_eq!(status("GET", "/v1/runs/r1", admin()).await, 200);
    }
}
