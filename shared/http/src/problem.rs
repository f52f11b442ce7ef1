//! Errors as RFC 9457 problems, and the one table that gives each code its status.

use std::fmt::Display;

use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use stepwell_engine::{ClientError, Remedy};
use stepwell_ports::Clock;
use stepwell_ports::system::SystemClock;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::codes::{DEFECT, Row, TABLE};
use crate::view::AnswerView;

/// After how many seconds it is worth asking again, where nothing says when.
const RETRY_AFTER_SECONDS: u64 = 2;

/// What is said at most: clocks differ, and asking early does no harm.
const RETRY_AFTER_SECONDS_MAX: u64 = 900;

/// Bytes of a detail that are shown: it may repeat what the caller sent.
const DETAIL_BYTES_MAX: usize = 1_024;

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

/// What went wrong: a problem of RFC 9457.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemView<'a> {
    /// The code, as a reference.
    r#type: String,
    /// What is the case, for people.
    title: &'a str,
    /// The status of the answer.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// What has happened, and what to do, for people.
    detail: &'a str,
    /// What is the case, for programs.
    code: &'a str,
    /// What helps: `retry` as it is, `fix-the-input`, or `call-a-person`.
    remedy: &'a str,
    /// Under what the log tells the rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    reference: Option<&'a str>,
    /// The answer that stands, where an approval was decided before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AnswerView)]
    first: Option<&'a AnswerView>,
}

impl Problem {
    /// Something that the caller has to change.
    pub(crate) fn fix(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(code, Remedy::FixTheInput, detail.into())
    }

    /// Something that helps later, after so many seconds.
    pub(crate) fn later(code: &'static str, detail: impl Into<String>, seconds: u64) -> Self {
        let problem = Self::new(code, Remedy::Retry, detail.into());
        Self { retry_after: seconds.clamp(1, RETRY_AFTER_SECONDS_MAX), ..problem }
    }

    /// Something that must not happen. Only the log has these words.
    pub(crate) fn defect(words: impl Display) -> Self {
        Self::new(DEFECT.code, Remedy::CallAPerson, words.to_string())
    }

    pub(crate) const fn status(&self) -> StatusCode {
        self.row.status
    }

    pub(crate) const fn title(&self) -> &'static str {
        self.row.title
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    pub(crate) fn reference(&self) -> Option<&str> {
        self.reference.as_deref()
    }

    /// The header that says what to do, if there is one.
    pub(crate) fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        match (self.remedy, self.row.status) {
            (Remedy::Retry, _) => Some((RETRY_AFTER, HeaderValue::from(self.retry_after))),
            (Remedy::FixTheInput, StatusCode::UNAUTHORIZED) => {
                Some((WWW_AUTHENTICATE, HeaderValue::from_static(r#"ApiKey realm="stepwell""#)))
            }
            (Remedy::FixTheInput | Remedy::CallAPerson, _) => None,
        }
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
        let more = self.header();
        let Self { row: Row { code, status, title, .. }, detail, remedy, retry_after: _, reference, first } = self;
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
        for Row { code, status, instead, .. } in TABLE {
            assert!(!status.is_server_error() || instead.is_some() || *code == "no-issuer", "{code}");
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
