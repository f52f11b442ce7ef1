//! What each route needs: the one table that the guard, the docs and the tests go by.

use std::fmt::Write as _;

use axum::http::Method;

use super::roles::{BuiltIn, Permission};

/// What a route asks of whoever comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: it says nothing about any run.
    Nothing,
    /// A link's token, which is in its path.
    Token,
    /// A key to log in with, or the session to end, which it checks itself.
    Login,
    /// Credentials that allow this.
    May(Permission),
}

/// One route: method, pattern of its path, and what it needs.
pub type Route = (&'static str, &'static str, Needs);

const LOOK: Needs = Needs::May(Permission::Look);
const OPERATE: Needs = Needs::May(Permission::Operate);
const REPAIR: Needs = Needs::May(Permission::Repair);
const ANSWER: Needs = Needs::May(Permission::Answer);
const LINK: Needs = Needs::May(Permission::Link);

/// Every route. One that is not here is closed, whether there is a handler behind it or not. `HEAD` is a `GET` without its body.
pub const ROUTES: &[Route] = &[
    ("GET", "/v1/health", Needs::Nothing),
    ("GET", "/v1/openapi.json", LOOK),
    ("GET", "/v1/workflows", LOOK),
    ("POST", "/v1/runs", OPERATE),
    ("GET", "/v1/runs", LOOK),
    ("GET", "/v1/runs/{run}", LOOK),
    ("GET", "/v1/runs/{run}/events", LOOK),
    ("GET", "/v1/runs/{run}/history", LOOK),
    ("GET", "/v1/runs/{run}/state", LOOK),
    ("POST", "/v1/runs/{run}/signals", OPERATE),
    ("POST", "/v1/runs/{run}/cancel", OPERATE),
    ("POST", "/v1/runs/{run}/pause", OPERATE),
    ("POST", "/v1/runs/{run}/resume", OPERATE),
    ("POST", "/v1/runs/{run}/retry", OPERATE),
    ("POST", "/v1/runs/{run}/edit", REPAIR),
    ("POST", "/v1/runs/{run}/move", REPAIR),
    ("POST", "/v1/runs/{run}/discard", REPAIR),
    ("POST", "/v1/runs/{run}/effects/{key}/resolve", OPERATE),
    ("POST", "/v1/runs/{run}/let-stand", OPERATE),
    ("GET", "/v1/runs/{run}/approvals", LOOK),
    ("POST", "/v1/runs/{run}/approvals/{id}", ANSWER),
    ("POST", "/v1/runs/{run}/approvals/{id}/links", LINK),
    ("GET", "/v1/approvals", LOOK),
    ("GET", "/v1/unknowns", LOOK),
    ("POST", "/v1/session", Needs::Login),
    ("DELETE", "/v1/session", Needs::Login),
    ("GET", "/links/style.css", Needs::Nothing),
    ("GET", "/links/{token}", Needs::Token),
    ("POST", "/links/{token}", Needs::Token),
];

/// What the table says to a method on a pattern.
pub(crate) enum Found {
    /// It is there.
    Needs(Needs),
    /// The pattern is there, with these methods.
    OtherMethods(String),
    /// Nothing is: closed.
    Closed,
}

pub(crate) fn find(method: &Method, pattern: &str) -> Found {
    let method = if method == Method::HEAD { Method::GET.as_str() } else { method.as_str() };
    let mut others = Vec::new();
    for (known, _, needs) in ROUTES.iter().filter(|(_, known, _)| *known == pattern) {
        if *known == method {
            return Found::Needs(*needs);
        }
        others.push(*known);
        if *known == "GET" {
            others.push("HEAD");
        }
    }
    if others.is_empty() { Found::Closed } else { Found::OtherMethods(others.join(",")) }
}

/// The table as Markdown: what the docs show.
pub fn permissions_table() -> String {
    let mut table = String::from("| route | needs |");
    for role in BuiltIn::ALL {
        let _ = write!(table, " {} |", role.as_str());
    }
    table.push_str("\n| --- | --- |");
    table.push_str(&" --- |".repeat(BuiltIn::ALL.len()));
    for (method, pattern, needs) in ROUTES {
        let word = match needs {
            Needs::Nothing => "nothing",
            Needs::Token => "its token",
            Needs::Login => "a key, or a session to end",
            Needs::May(permission) => permission.as_str(),
        };
        let _ = write!(table, "\n| `{method} {pattern}` | {word} |");
        for role in BuiltIn::ALL {
            let allowed = match needs {
                Needs::Nothing | Needs::Token | Needs::Login => true,
                Needs::May(permission) => role.allows(*permission),
            };
            table.push_str(if allowed { " yes |" } else { " — |" });
        }
    }
    table.push('\n');
    table
}
