//! The API function: whom AWS vouches for comes in, and nobody can say so himself.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod common;

use std::time::Duration;

use common::Bed;
use lambda_http::http::StatusCode;
use lambda_http::{Body, Request};
use serde_json::{Value, json};
use stepwell::Registry;
use stepwell::prelude::*;
use stepwell_core::Digest;
use stepwell_engine::TurnTime;
use stepwell_http::{Access, Api, Limits, Rate, Site, router};
use stepwell_lambda::respond;
use stepwell_testkit::faults::Gate;

const OPEN: &str = include_str!("fixtures/url-open.json");
const IAM: &str = include_str!("fixtures/url-iam.json");
const ARN: &str = "arn:aws:sts::123456789012:assumed-role/operators/ann";

struct Forever;

#[derive(Serialize, Deserialize)]
enum At {
    Begin,
}

impl Workflow for Forever {
    const NAME: &'static str = "forever";
    type Input = ();
    type State = ();
    type Step = At;
    type Output = ();

    fn begin(&self, (): ()) -> (At, ()) {
        (At::Begin, ())
    }

    async fn step(&self, _: At, (): &mut (), _: &Cx) -> StepResult<Self> {
        Ok(goto(At::Begin))
    }
}

/// Asks the finance people, or whom AWS knows as ann.
struct Asking;

impl Workflow for Asking {
    const NAME: &'static str = "asking";
    type Input = ();
    type State = ();
    type Step = At;
    type Output = ();

    fn begin(&self, (): ()) -> (At, ()) {
        (At::Begin, ())
    }

    async fn step(&self, _: At, (): &mut (), _: &Cx) -> StepResult<Self> {
        let asked = Approval::of("refund", &7).by(role("finance")).or(person(ARN)).quorum(2);
        Ok(wait(At::Begin).for_approval(asked.within(days(3))))
    }
}

fn bed() -> Bed {
    Bed::new(Registry::new().with(Forever).with(Asking))
}

async fn answer(bed: &Bed, access: Access, event: &Value) -> (StatusCode, Value) {
    answer_as(bed, access, &["admin"], event).await
}

async fn answer_as(bed: &Bed, access: Access, iam_roles: &[&str], event: &Value) -> (StatusCode, Value) {
    let iam_roles: Vec<String> = iam_roles.iter().map(|role| (*role).to_owned()).collect();
    let request: Request = lambda_http::request::from_str(&event.to_string()).unwrap();
    let api = Api { client: bed.client(), access, site: Site::default() };
    let response = respond(router(api), &iam_roles, request).await.unwrap();
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

fn event(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The same caller's request for something else.
fn post(mut event: Value, path: &str, body: &Value) -> Value {
    (event["rawPath"], event["requestContext"]["http"]["path"]) = (json!(path), json!(path));
    event["requestContext"]["http"]["method"] = json!("POST");
    event["headers"]["content-type"] = json!("application/json");
    event["body"] = json!(body.to_string());
    event
}

#[tokio::test(start_paused = true)]
async fn a_caller_whom_aws_has_authenticated_comes_in() {
    let bed = bed();
    let run = bed.start("forever", ()).await;
    let (status, body) = answer(&bed, Access::none(), &event(IAM)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert!(body.to_string().contains(run.as_str()), "{body}");
}

#[tokio::test(start_paused = true)]
async fn what_a_caller_does_is_noted_under_its_arn() {
    let bed = bed();
    let run = bed.start("forever", ()).await;
    let cancel = post(event(IAM), &format!("/v1/runs/{run}/cancel"), &json!({ "why": "enough" }));
    let (status, body) = answer(&bed, Access::none(), &cancel).await;
    assert!(status.is_success(), "{status}: {body}");
    assert_eq!(bed.checkpoint(&run).await.cancel.unwrap().by, ARN);
}

#[tokio::test(start_paused = true)]
async fn a_caller_whom_aws_has_authenticated_has_the_roles_that_are_set() {
    let bed = bed();
    let run = bed.start("forever", ()).await;
    let cancel = post(event(IAM), &format!("/v1/runs/{run}/cancel"), &json!({}));
    for roles in [&["viewer"][..], &["operator@asking"], &["finance"], &[]] {
        let (status, body) = answer_as(&bed, Access::none(), roles, &cancel).await;
        assert!(matches!(status.as_u16(), 403 | 404), "{roles:?}: {status} {body}");
    }
    assert!(bed.checkpoint(&run).await.cancel.is_none());
    assert!(answer_as(&bed, Access::none(), &["operator@forever"], &cancel).await.0.is_success());
    // A key beside it changes nothing: AWS has said who it is.
    let mut both = cancel.clone();
    both["headers"]["x-api-key"] = json!("a guess");
    assert!(answer_as(&bed, Access::none(), &["operator"], &both).await.0.is_success());
}

#[tokio::test(start_paused = true)]
async fn whoever_guesses_is_told_apart_by_the_address_that_aws_names() {
    let bed = bed();
    let failures = Some(Rate::new(2, Duration::from_hours(1)));
    let access = Access::from_text(&format!("ann:viewer={}", Digest::of(b"a secret"))).unwrap();
    let access = access.with_limits(Limits { failures, ..Limits::none() });
    let ask = async |key: &str, address: &str| {
        let mut event = event(OPEN);
        event["headers"]["x-api-key"] = json!(key);
        // Which header says so is the caller's own choice.
        event["headers"]["x-forwarded-for"] = json!("198.51.100.1");
        event["requestContext"]["http"]["sourceIp"] = json!(address);
        answer(&bed, access.clone(), &event).await.0.as_u16()
    };
    for expected in [401, 401, 429] {
        assert_eq!(ask("a guess", "203.0.113.7").await, expected);
    }
    assert_eq!((ask("a secret", "203.0.113.7").await, ask("a secret", "203.0.113.8").await), (429, 200));
}

#[tokio::test(start_paused = true)]
async fn nobody_else_comes_in_without_a_key() {
    let bed = bed();
    let access = || Access::from_text(&format!("ann:viewer={}", Digest::of(b"a secret"))).unwrap();
    let (status, body) = answer(&bed, access(), &event(OPEN)).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "{body}");
    let mut with_key = event(OPEN);
    with_key["headers"]["x-api-key"] = json!("a secret");
    assert_eq!(answer(&bed, access(), &with_key).await.0, StatusCode::OK);
    with_key["headers"]["x-api-key"] = json!("another");
    assert_eq!(answer(&bed, access(), &with_key).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn a_caller_cannot_vouch_for_itself() {
    let bed = bed();
    let mut spoofed = event(OPEN);
    let context = event(IAM)["requestContext"].to_string();
    for header in ["x-amzn-request-context", "x-amzn-lambda-context", "x-actor", "actor", "x-user-arn"] {
        spoofed["headers"][header] = json!(context);
    }
    spoofed["rawQueryString"] = json!(format!("userArn={ARN}"));
    let (status, _) = answer(&bed, Access::none(), &spoofed).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    // Nor does an empty name vouch for anybody.
    let mut empty = event(IAM);
    empty["requestContext"]["authorizer"]["iam"]["userArn"] = json!("");
    assert_eq!(answer(&bed, Access::none(), &empty).await.0, StatusCode::UNAUTHORIZED);
    empty["requestContext"]["authorizer"]["iam"] = Value::Null;
    assert_eq!(answer(&bed, Access::none(), &empty).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test(start_paused = true)]
async fn a_key_decides_with_its_roles_and_whom_aws_knows_in_its_own_name() {
    let bed = bed();
    let run = bed.start("asking", ()).await;
    let engine = bed.engine(&Gate::open());
    for delivery in bed.receive().await {
        engine.turn(&delivery.message, &TurnTime::of(Duration::from_mins(1))).await;
    }
    let approval = bed.checkpoint(&run).await.progress.approvals[0].id.clone();
    let access = || {
        let (plain, with_role) = (Digest::of(b"plain"), Digest::of(b"with a role"));
        Access::from_text(&format!("bob:approver={plain},fay:approver+cfo+finance={with_role}")).unwrap()
    };
    let path = format!("/v1/runs/{run}/approvals/{approval}");
    let approve = |event: Value| post(event, &path, &json!({ "decision": "approve" }));
    let with_key = |key: &str| {
        let mut event = approve(event(OPEN));
        event["headers"]["x-api-key"] = json!(key);
        event
    };
    let (status, body) = answer(&bed, access(), &with_key("plain")).await;
    assert_eq!((status, &body["code"]), (StatusCode::FORBIDDEN, &json!("no-authority")), "{body}");
    let (status, body) = answer(&bed, access(), &with_key("with a role")).await;
    assert_eq!((status, &body["by"]), (StatusCode::OK, &json!("key:fay")), "{body}");
    let (status, body) = answer(&bed, access(), &approve(event(IAM))).await;
    assert_eq!((status, &body["by"], &body["roles"]), (StatusCode::OK, &json!(ARN), &json!([])), "{body}");
    assert_eq!(body["stands"]["allowed"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_body_may_come_in_base64() {
    let bed = bed();
    let run = bed.start("forever", ()).await;
    let mut cancel = post(event(IAM), &format!("/v1/runs/{run}/cancel"), &json!({}));
    cancel["body"] = json!("eyJ3aHkiOiJlbm91Z2gifQ==");
    cancel["isBase64Encoded"] = json!(true);
    let (status, body) = answer(&bed, Access::none(), &cancel).await;
    assert!(status.is_success(), "{status}: {body}");
    assert_eq!(bed.checkpoint(&run).await.cancel.unwrap().why.as_deref(), Some("enough"));
    let request: Request = lambda_http::request::from_str(&cancel.to_string()).unwrap();
    assert!(matches!(request.body(), Body::Binary(_)));
}
