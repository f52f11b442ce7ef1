//! The codes of problems: one table gives each its status, and what a caller can do.

use axum::http::StatusCode;

/// What is the case when an error has this code.
pub(crate) struct Row {
    pub(crate) code: &'static str,
    pub(crate) status: StatusCode,
    pub(crate) title: &'static str,
    /// What the caller can do, for the API's description.
    pub(crate) advice: &'static str,
    /// What the caller is told when the error's own text may name what is behind the API: that goes to the log.
    pub(crate) instead: Option<&'static str>,
}

const fn row(code: &'static str, status: StatusCode, title: &'static str, advice: &'static str) -> Row {
    Row { code, status, title, advice, instead: None }
}

/// One whose own words are for the log: the caller is told this.
const fn hides(code: &'static str, status: StatusCode, title: &'static str, instead: &'static str) -> Row {
    Row { code, status, title, advice: instead, instead: Some(instead) }
}

pub(crate) const DEFECT: Row = hides(
    "defect",
    StatusCode::INTERNAL_SERVER_ERROR,
    "Something is wrong here",
    "the program has a defect; what it knows of it is in its log, under this reference",
);

/// Every code: those of [`ClientError::code`], and those of the API itself.
pub(crate) const TABLE: &[Row] = &[
    row("not-json", StatusCode::BAD_REQUEST, "The body is not JSON", "send one JSON value, in UTF-8"),
    row("bad-query", StatusCode::BAD_REQUEST, "The query cannot be used", "change the parameter that the detail names"),
    row(
        "bad-name",
        StatusCode::BAD_REQUEST,
        "A name or id cannot be used",
        "change the name or id that the detail names",
    ),
    row("bad-header", StatusCode::BAD_REQUEST, "A header cannot be used", "change the header that the detail names"),
    row("bad-body", StatusCode::BAD_REQUEST, "The body cannot be read", "send it again"),
    row(
        "unauthenticated",
        StatusCode::UNAUTHORIZED,
        "Who calls is not known",
        "show a key or a token that is known here",
    ),
    row(
        "no-authority",
        StatusCode::FORBIDDEN,
        "The caller may not decide this",
        "leave it to somebody whom the approval names",
    ),
    row(
        "no-permission",
        StatusCode::FORBIDDEN,
        "The caller may not do this",
        "use credentials with a role that the detail names",
    ),
    row(
        "wrong-host",
        StatusCode::FORBIDDEN,
        "The request is for another host",
        "ask this machine by the address that the detail names",
    ),
    row(
        "wrong-origin",
        StatusCode::FORBIDDEN,
        "The request comes from another site",
        "do it from a page of this host, or with a key",
    ),
    row("bad-link", StatusCode::FORBIDDEN, "The link cannot be used", "ask for a new one"),
    row(
        "no-such-route",
        StatusCode::NOT_FOUND,
        "There is no such route",
        "look into this description for what there is",
    ),
    row("no-such-run", StatusCode::NOT_FOUND, "There is no such run", "check the id, and where it was started"),
    row("no-such-approval", StatusCode::NOT_FOUND, "The run has no such approval", "list the approvals of the run"),
    row(
        "not-kept",
        StatusCode::NOT_FOUND,
        "The state at this revision was not kept",
        "ask for the newest one, or let the workflow keep its states",
    ),
    row(
        "wrong-method",
        StatusCode::METHOD_NOT_ALLOWED,
        "The route does not take this method",
        "use one of the methods that the header Allow lists",
    ),
    row(
        "key-conflict",
        StatusCode::CONFLICT,
        "The key was used with another input",
        "use a new key, or start with the same input",
    ),
    row(
        "signal-conflict",
        StatusCode::CONFLICT,
        "The id was used for another signal",
        "give this signal an id of its own",
    ),
    row("ended", StatusCode::CONFLICT, "The run has ended", "nothing more can be asked of the run"),
    row("not-parked", StatusCode::CONFLICT, "The run is not parked", "look at the run again"),
    row("not-failed", StatusCode::CONFLICT, "The run has not failed", "look at the run again"),
    row("taken-back", StatusCode::CONFLICT, "The run has taken back what it did", "start another run"),
    row("unsettled", StatusCode::CONFLICT, "An effect may have happened", "say how each effect has ended first"),
    row("not-begun", StatusCode::CONFLICT, "The run has not begun", "let it begin, or edit its input"),
    row(
        "not-open",
        StatusCode::CONFLICT,
        "The effect is not open",
        "look at the run again: the effect was settled, or the key is wrong",
    ),
    row(
        "on-its-way",
        StatusCode::CONFLICT,
        "The call may still land",
        "say how it ended after the time that the detail names",
    ),
    row("decided", StatusCode::CONFLICT, "The approval was decided before", "read `first`: that answer stands"),
    row("replaced", StatusCode::CONFLICT, "The approval was replaced", "look at the approval that took its place"),
    row("expired", StatusCode::CONFLICT, "The approval has expired", "nothing more can be decided"),
    row("not-undoing", StatusCode::CONFLICT, "The run does not take anything back", "look at the run again"),
    row("moved-on", StatusCode::CONFLICT, "The run has moved on", "look at the run again, then decide"),
    row("no-links", StatusCode::CONFLICT, "No link can be made or used for this", "answer with credentials"),
    row("link-used", StatusCode::CONFLICT, "The link was used", "nothing more can be done with it"),
    row("no-sessions", StatusCode::CONFLICT, "There are no sessions here", "show your key with each request"),
    row("link-expired", StatusCode::GONE, "The link has expired", "ask for a new one"),
    row("link-over", StatusCode::GONE, "Nothing is asked any more", "nothing more can be done with it"),
    row(
        "stale",
        StatusCode::PRECONDITION_FAILED,
        "The run is at another revision",
        "look at the run again, then decide",
    ),
    row("too-large", StatusCode::PAYLOAD_TOO_LARGE, "It is too large", "pass a reference to what is large"),
    row(
        "no-precondition",
        StatusCode::PRECONDITION_REQUIRED,
        "It was not said what was looked at",
        "send the ETag of the run as If-Match",
    ),
    row(
        "wrong-type",
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "The body is of another type than JSON",
        "send `Content-Type: application/json`",
    ),
    row(
        "unknown-workflow",
        StatusCode::UNPROCESSABLE_ENTITY,
        "There is no such workflow",
        "ask for one of the workflows that are known here",
    ),
    row(
        "unknown-signal",
        StatusCode::UNPROCESSABLE_ENTITY,
        "The workflow accepts no such signal",
        "send one of the signals that the workflow accepts",
    ),
    row("misfit", StatusCode::UNPROCESSABLE_ENTITY, "A value does not fit", "change the field that the detail names"),
    row(
        "bad-value",
        StatusCode::UNPROCESSABLE_ENTITY,
        "A value cannot be taken",
        "change the value that the detail names",
    ),
    row(
        "bad-patch",
        StatusCode::UNPROCESSABLE_ENTITY,
        "The patch does not apply",
        "change the operation that the detail names",
    ),
    row(
        "bad-step",
        StatusCode::UNPROCESSABLE_ENTITY,
        "The workflow has no such step",
        "give a step that its code knows",
    ),
    hides(
        "refused",
        StatusCode::UNPROCESSABLE_ENTITY,
        "The store refuses this",
        "the store takes no such request, now or later: it may be that the run would grow too large; nothing was written",
    ),
    row("too-many", StatusCode::TOO_MANY_REQUESTS, "More was asked than is taken", "wait as long as Retry-After says"),
    row(
        "mailbox-full",
        StatusCode::TOO_MANY_REQUESTS,
        "The run's mailbox is full",
        "try again later: the run has not consumed what it was sent",
    ),
    row(
        "no-stream",
        StatusCode::NOT_ACCEPTABLE,
        "This host sends no streams",
        "ask again with If-None-Match and `wait`",
    ),
    row(
        "no-issuer",
        StatusCode::SERVICE_UNAVAILABLE,
        "The issuer of tokens does not answer",
        "try again later, or show a key",
    ),
    hides(
        "busy",
        StatusCode::SERVICE_UNAVAILABLE,
        "The store is busy",
        "the store is busy and nothing was written; try again later",
    ),
    hides(
        "unavailable",
        StatusCode::SERVICE_UNAVAILABLE,
        "Something behind the API is not available",
        "something behind the API is not available; try again later",
    ),
    hides(
        "maybe-written",
        StatusCode::SERVICE_UNAVAILABLE,
        "It may have happened",
        "the write may have happened; ask again with the same idempotency key or signal id, or look at the run first",
    ),
    hides(
        "not-sent",
        StatusCode::SERVICE_UNAVAILABLE,
        "Written, but no message was sent",
        "the change is written, but no message was sent; the sweeper wakes the run within minutes",
    ),
    hides(
        "damaged",
        StatusCode::INTERNAL_SERVER_ERROR,
        "Stored data cannot be used",
        "stored data is missing, altered, or from newer code; a person has to look",
    ),
    DEFECT,
];
