//! Who looks at a page, and what they may do there. The API decides again; pages only leave out what it would refuse.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use stepwell_core::WorkflowName;
use stepwell_http::{Caller, Permission};

/// Who looks.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub(crate) name: String,
    rights: Rights,
}

#[derive(Clone, Debug)]
enum Rights {
    Of(Caller),
    #[cfg(test)]
    Only(Vec<Permission>),
}

impl Viewer {
    /// Somebody who may do just this, for tests.
    #[cfg(test)]
    pub(crate) fn who_may(rights: &[Permission]) -> Self {
        Self { name: "key:ann".into(), rights: Rights::Only(rights.to_vec()) }
    }

    /// Whether they may do this with runs of this workflow.
    pub(crate) fn may(&self, act: Permission, workflow: &WorkflowName) -> bool {
        match &self.rights {
            Rights::Of(caller) => caller.may(act, Some(workflow)),
            #[cfg(test)]
            Rights::Only(rights) => rights.contains(&act),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Viewer {
    type Rejection = StatusCode;

    /// The guard has put the caller there. Where it was forgotten, nobody looks.
    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, StatusCode> {
        let caller = parts.extensions.get::<Caller>().ok_or(StatusCode::UNAUTHORIZED)?;
        Ok(Self { name: caller.name().to_owned(), rights: Rights::Of(caller.clone()) })
    }
}
