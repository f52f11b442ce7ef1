//! Who calls, and what handlers may ask about it.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use stepwell_core::{Reviewer, WorkflowName};

use super::credentials::unauthenticated;
use super::roles::{Grants, Permission};
use crate::problem::Problem;

/// Who calls. A host that has authenticated the caller itself puts it into the request's extensions; then nothing else is asked for.
/// Otherwise it is `key:` and the name of the key that was shown, or `jwt:` and the subject of the token, with the roles of either.
///
/// It is what histories, cancellations and approvals say as `by`: no request says so itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Who. A name that is empty, or has blanks around it, vouches for nobody.
    pub name: String,
    /// The roles that the caller has: those that are known here, and those that approvals ask for. Nobody has one who was not given it.
    pub roles: Vec<String>,
}

impl Actor {
    /// Somebody without a role, who may do nothing.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), roles: Vec::new() }
    }

    /// The same with one more role.
    #[must_use]
    pub fn with_role(mut self, role: impl Into<String>) -> Self {
        self.roles.push(role.into());
        self
    }

    /// Whether this names somebody.
    pub(super) fn is_somebody(&self) -> bool {
        // Who writes a name with blanks around it would pass for a second person.
        !self.name.is_empty() && self.name.trim() == self.name
    }
}

/// Where a request comes from, such as an IP address. A host that knows puts it into the request's extensions: then whoever guesses at
/// keys is slowed down alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Peer(pub String);

/// Who calls, and what they may do. The guard puts it into the request's extensions; a handler asks for it as an argument.
#[derive(Clone, Debug)]
pub struct Caller {
    actor: Actor,
    grants: Grants,
    /// The workflow of the run that the path names. Known where a role of this caller is for one workflow alone.
    workflow: Option<WorkflowName>,
}

impl Caller {
    pub(super) fn new(actor: Actor) -> Self {
        Self { grants: Grants::of(&actor.roles), actor, workflow: None }
    }

    pub(super) fn at(self, workflow: WorkflowName) -> Self {
        Self { workflow: Some(workflow), ..self }
    }

    /// Who.
    pub fn name(&self) -> &str {
        &self.actor.name
    }

    /// As which roles, in the words of the credentials.
    pub fn roles(&self) -> &[String] {
        &self.actor.roles
    }

    /// Whether this caller may do this to runs of this workflow, or (`None`) to those of every one.
    pub fn may(&self, permission: Permission, workflow: Option<&WorkflowName>) -> bool {
        self.grants.allow(permission, workflow)
    }

    /// The workflows to whose runs this caller may do this. `None`: to those of all.
    pub fn workflows(&self, permission: Permission) -> Option<Vec<WorkflowName>> {
        self.grants.workflows(permission)
    }

    /// As whom this caller answers approvals of runs of this workflow: with the roles that approvals ask for.
    pub fn reviewer(&self, workflow: Option<&WorkflowName>) -> Reviewer {
        Reviewer { name: self.actor.name.clone(), roles: self.grants.named(workflow) }
    }

    /// Whether what this caller may do depends on the workflow.
    pub fn is_scoped(&self) -> bool {
        self.grants.is_scoped()
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Response;

    /// Where the guard was forgotten, nobody calls.
    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Response> {
        caller(parts).cloned().map_err(IntoResponse::into_response)
    }
}

/// Who calls, by name.
pub(crate) struct By(pub(crate) String);

impl<S: Sync> FromRequestParts<S> for By {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        caller(parts).map(|caller| Self(caller.actor.name.clone()))
    }
}

/// Who answers an approval: the caller, with the roles that it has for the run's workflow.
pub(crate) struct Answering(pub(crate) Reviewer);

impl<S: Sync> FromRequestParts<S> for Answering {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let caller = caller(parts)?;
        Ok(Self(caller.reviewer(caller.workflow.as_ref())))
    }
}

fn caller(parts: &Parts) -> Result<&Caller, Problem> {
    parts.extensions.get().ok_or_else(unauthenticated)
}
