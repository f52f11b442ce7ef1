//! Errors as RFC 9457 problems, and the one table that gives each code its status.

use std::fmt::Display;

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use stepwell_engine::{ClientError, Remedy};
use stepwell_ports::Clock;
use stepwell_ports::system::SystemClock;
use uuid::Uuid;

use crate::view::AnswerView;

/// After how many seconds it is worth asking again, where nothing says when.
const RETRY_AFTER_SECONDS: u64 = 2;

/// What is said at most: clocks differ, and asking early does no harm.
const RETRY_AFTER_SECONDS_MAX: u64 = 900;

/// Bytes of a detail that are shown: it may repeat what the caller sent.
const DETAIL_BYTES_MAX: usize = 1_024;

/// What is the case when an error has this code.
struct Row {
    code: &'static str,
    status: StatusCode,
    title: &'static str,
    /// What the caller is told when the error's own text may name what is behind the API: that goes to the log.
    instead: Option<&'static str>,
}

const fn row(code: &'static str, status: StatusCode, title: &'static str) -> Row {
    Row { code, status, title, instead: None }
}

const fn hides(code: &'static str, status: StatusCode, title: &'static str, instead: &'static str) -> Row {
    Row { code, status, title, instead: Some(instead) }
}

const DEFECT: Row = hides(
    "defect",
    StatusCode::INTERNAL_SERVER_ERROR,
    "Something is wrong here",
    "the program has a defect; what it knows of it is in its log, under this reference",
);

/// Every code: those of [`ClientError::code`], and those of the API itself.
const TABLE: [Row; 36] = [
    row("not-json", StatusCode::BAD_REQUEST, "The body is not JSON"),
    row("bad-query", StatusCode::BAD_REQUEST, "The query cannot be used"),
    row("bad-name", StatusCode::BAD_REQUEST, "A name or id cannot be used"),
    row("bad-header", StatusCode::BAD_REQUEST, "A header cannot be used"),
    row("bad-body", StatusCode::BAD_REQUEST, "The body cannot be read"),
    row("unauthenticated", StatusCode::UNAUTHORIZED, "Who calls is not known"),
    row("no-authority", StatusCode::FORBIDDEN, "The caller may not decide this"),
    row("no-such-route", StatusCode::NOT_FOUND, "There is no such route"),
    row("no-such-run", StatusCode::NOT_FOUND, "There is no such run"),
    row("no-such-approval", StatusCode::NOT_FOUND, "The run has no such approval"),
    row("wrong-method", StatusCode::METHOD_NOT_ALLOWED, "The route does not take this method"),
    row("key-conflict", StatusCode::CONFLICT, "The key was used with another input"),
    row("signal-conflict", StatusCode::CONFLICT, "The id was used for another signal"),
    row("ended", StatusCode::CONFLICT, "The run has ended"),
    row("not-parked", StatusCode::CONFLICT, "The run is not parked"),
    row("not-open", StatusCode::CONFLICT, "The effect is not open"),
    row("on-its-way", StatusCode::CONFLICT, "The call may still land"),
    row("decided", StatusCode::CONFLICT, "The approval was decided before"),
    row("replaced", StatusCode::CONFLICT, "The approval was replaced"),
    row("expired", StatusCode::CONFLICT, "The approval has expired"),
    row("not-undoing", StatusCode::CONFLICT, "The run does not take anything back"),
    row("moved-on", StatusCode::CONFLICT, "The run has moved on"),
    row("too-large", StatusCode::PAYLOAD_TOO_LARGE, "It is too large"),
    row("wrong-type", StatusCode::UNSUPPORTED_MEDIA_TYPE, "The body is of another type than JSON"),
    row("unknown-workflow", StatusCode::UNPROCESSABLE_ENTITY, "There is no such workflow"),
    row("unknown-signal", StatusCode::UNPROCESSABLE_ENTITY, "The workflow accepts no such signal"),
    row("misfit", StatusCode::UNPROCESSABLE_ENTITY, "A value does not fit"),
    row("bad-value", StatusCode::UNPROCESSABLE_ENTITY, "A value cannot be taken"),
    hides(
        "refused",
        StatusCode::UNPROCESSABLE_ENTITY,
        "The store refuses this",
        "the store takes no such request, now or later: it may be that the run would grow too large; nothing was written",
    ),
    row("mailbox-full", StatusCode::TOO_MANY_REQUESTS, "The run's mailbox is full"),
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

/// What went wrong, for the caller.
pub(crate) struct Problem {
    row: &'static Row,
    detail: String,
    remedy: Remedy,
    /// After how many seconds to ask again, if that helps.
    retry_after: u64,
    /// Under what the log tells the rest.
    reference: Option<String>,
    /// The answer that stands, where an approval was decided before.
    first: Option<Box<AnswerView>>,
}

#[derive(Serialize)]
struct ProblemView<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    code: &'a str,
    remedy: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<&'a AnswerView>,
}

impl Problem {
    /// Something that the caller has to change.
    pub(crate) fn fix(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(code, Remedy::FixTheInput, detail.into())
    }

    /// Something that must not happen. Only the log has these words.
    pub(crate) fn defect(words: impl Display) -> Self {
        Self::new(DEFECT.code, Remedy::CallAPerson, words.to_string())
    }

    fn new(code: &'static str, remedy: Remedy, words: String) -> Self {
        // A code that the table does not know is a defect of this crate: its words may be anything.
        let row = TABLE.iter().find(|row| row.code == code).unwrap_or(&DEFECT);
        let Some(instead) = row.instead else {
            let (detail, retry_after) = (cut(words), RETRY_AFTER_SECONDS);
            return Self { row, detail, remedy, retry_after, reference: None, first: None };
        };
        let reference = Uuid::now_v7().simple().to_string();
        match remedy {
            Remedy::CallAPerson => tracing::error!(%reference, code, error = words, "a request has failed"),
            Remedy::Retry | Remedy::FixTheInput => {
                tracing::warn!(%reference, code, error = words, "a request has failed");
            }
        }
        let (detail, reference) = (instead.to_owned(), Some(reference));
        Self { row, detail, remedy, retry_after: RETRY_AFTER_SECONDS, reference, first: None }
    }
}

impl From<ClientError> for Problem {
    fn from(error: ClientError) -> Self {
        let mut problem = Self::new(error.code(), error.remedy(), error.to_string());
        problem.first = AnswerView::that_stands(&error).map(Box::new);
        if let ClientError::OnItsWay { until, .. } = error {
            let left = until.since(SystemClock.now()).as_secs() + 1;
            problem.retry_after = left.clamp(RETRY_AFTER_SECONDS, RETRY_AFTER_SECONDS_MAX);
        }
        // Without a key the caller would not know which run it has started.
        if let ClientError::NotSent { run, .. } = error {
            problem.detail = format!("run {run}: {}", problem.detail);
        }
        problem
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { row: Row { code, status, title, .. }, detail, remedy, retry_after, reference, first } = self;
        let view = ProblemView {
            r#type: format!("/problems/{code}"),
            title,
            status: status.as_u16(),
            detail: &detail,
            code,
            remedy: remedy.as_str(),
            reference: reference.as_deref(),
            first: first.as_deref(),
        };
        // Texts and a number can always be written.
        let body = serde_json::to_vec(&view).unwrap_or_default();
        let kind = (CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        let mut response = (*status, [kind], body).into_response();
        let more = match (remedy, *status) {
            (Remedy::Retry, _) => Some((RETRY_AFTER, HeaderValue::from(retry_after))),
            (Remedy::FixTheInput, StatusCode::UNAUTHORIZED) => {
                Some((WWW_AUTHENTICATE, HeaderValue::from_static(r#"ApiKey realm="stepwell""#)))
            }
            (Remedy::FixTheInput | Remedy::CallAPerson, _) => None,
        };
        response.headers_mut().extend(more);
        response
    }
}

fn cut(mut words: String) -> String {
    if words.len() > DETAIL_BYTES_MAX {
        words.truncate(words.floor_char_boundary(DETAIL_BYTES_MAX));
        words.push('…');
    }
    words
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use stepwell::EdgeError;
    use stepwell_core::decide::ApproveRefused;
    use stepwell_core::{
        Answer, ApprovalId, EffectKey, Phase, Reviewer, RunId, SignalId, SignalName, Timestamp, WorkflowName,
    };
    use stepwell_ports::{BlobError, QueueError, StoreError};

    use super::*;

    /// An error of each code, with a secret where its text may hold one.
    fn errors() -> Vec<ClientError> {
        let (secret, run) = (|| "s3cret".to_owned(), || RunId::new("r1").unwrap());
        let (workflow, signal) = (|| WorkflowName::new("w").unwrap(), SignalName::new("s").unwrap());
        let (ended, parked) = (Phase::Failed, Phase::Running);
        let effect = || EffectKey::parse(&"0".repeat(32)).unwrap();
        let approval = || ApprovalId::parse(&"0".repeat(16)).unwrap();
        let not_taken = |why| ClientError::NotTaken { run: run(), why: Box::new(why) };
        let first = || {
            let reviewer = Reviewer { name: "ann".into(), roles: Vec::new() };
            Answer { reviewer, allows: true, why: None, at: Timestamp(1) }
        };
        vec![
            ClientError::UnknownWorkflow { name: workflow(), known: "desk".into() },
            EdgeError::TooLarge { what: "input".into(), workflow: workflow(), size: 1 }.into(),
            EdgeError::NoSuchSignal { workflow: workflow(), signal, accepted: "none".into() }.into(),
            RunId::new("").unwrap_err().into(),
            ClientError::Value("too long".into()),
            ClientError::NoSuchRun(run()),
            ClientError::KeyConflict { run: run() },
            ClientError::Ended { run: run(), phase: ended, what: "signal" },
            ClientError::SignalConflict { run: run(), id: SignalId::new("s").unwrap() },
            ClientError::MailboxFull(run()),
            ClientError::NotParked { run: run(), phase: parked },
            ClientError::NotOpen { run: run(), key: effect() },
            ClientError::OnItsWay { run: run(), key: effect(), until: Timestamp(1) },
            ClientError::NotUndoing { run: run(), phase: parked },
            not_taken(ApproveRefused::Ended(ended)),
            not_taken(ApproveRefused::NoSuch(approval())),
            not_taken(ApproveRefused::Replaced { id: approval(), by: approval() }),
            not_taken(ApproveRefused::Expired { id: approval(), at: Timestamp(1) }),
            not_taken(ApproveRefused::NoAuthority { id: approval(), who: "ann".into(), by: "bob".into() }),
            not_taken(ApproveRefused::Decided { id: approval(), first: first() }),
            ClientError::MovedOn(run()),
            StoreError::Throttled(secret()).into(),
            StoreError::Unknown(secret()).into(),
            StoreError::Invalid(secret()).into(),
            StoreError::Damaged(secret()).into(),
            StoreError::Unavailable(secret()).into(),
            BlobError::Missing { key: secret() }.into(),
            BlobError::Altered { key: secret(), found: secret() }.into(),
            BlobError::TooLarge { size: 2, limit: 1 }.into(),
            BlobError::Unavailable(secret()).into(),
            ClientError::NotSent { run: run(), error: QueueError::Unavailable(secret()) },
            QueueError::Invalid(secret()).into(),
        ]
    }

    #[test]
    fn each_code_of_a_client_has_a_row_and_no_secret_leaves() {
        for error in errors() {
            let (code, remedy) = (error.code(), error.remedy());
            let problem = Problem::from(error);
            assert_eq!((problem.row.code, problem.remedy), (code, remedy));
            assert!(!problem.detail.contains("s3cret"), "{code}: {}", problem.detail);
            let wrong = problem.row.status.as_u16() < 429 && code != "on-its-way";
            assert_eq!(problem.remedy == Remedy::FixTheInput, wrong, "{code}");
            let retry = problem.remedy == Remedy::Retry;
            assert_eq!(problem.into_response().headers().contains_key(RETRY_AFTER), retry, "{code}");
        }
    }

    #[test]
    fn a_call_on_its_way_says_when_it_is_over() {
        let after = |left: Duration| {
            let (run, key) = (RunId::new("r1").unwrap(), EffectKey::parse(&"0".repeat(32)).unwrap());
            let until = SystemClock.now().plus(left);
            let response = Problem::from(ClientError::OnItsWay { run, key, until }).into_response();
            assert_eq!(response.status(), StatusCode::CONFLICT);
            response.headers()[RETRY_AFTER].to_str().unwrap().parse::<u64>().unwrap()
        };
        assert!((90..=101).contains(&after(Duration::from_secs(100))));
        assert_eq!((after(Duration::ZERO), after(Duration::from_hours(9))), (2, 900));
    }

    #[test]
    fn codes_are_unique_and_no_failure_of_ours_tells_what_is_behind_it() {
        let codes: BTreeSet<&str> = TABLE.iter().map(|row| row.code).collect();
        assert_eq!(codes.len(), TABLE.len());
        for Row { code, status, instead, .. } in &TABLE {
            assert!(!status.is_server_error() || instead.is_some(), "{code}");
        }
    }

    #[test]
    fn a_code_that_nobody_knows_is_a_defect() {
        let problem = Problem::fix("no-code", "s3cret");
        assert_eq!((problem.row.code, problem.row.status.as_u16()), ("defect", 500));
        assert!(!problem.detail.contains("s3cret") && problem.reference.is_some());
    }

    #[test]
    fn a_long_detail_is_cut_at_a_character() {
        assert_eq!(cut(format!("x{}", "ü".repeat(DETAIL_BYTES_MAX))).len(), 1_023 + "…".len());
        assert_eq!(cut("ü".into()), "ü");
    }
}
