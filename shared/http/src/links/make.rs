//! Makes a link for somebody who is named in an approval.

use std::time::Duration;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use stepwell_core::link::{Link, Nonce, Target};
use stepwell_core::{ApprovalId, RunId};
use stepwell_engine::Client;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Site;
use crate::access::{Access, By};
use crate::problem::Problem;
use crate::request::{Body, OfApproval};
use crate::schema;
use crate::view::{At, NoLink, to_be_linked};

/// For whom, and for how long.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkBody {
    /// A person whom the approval names.
    r#for: String,
    /// How long it may be used, at most as long as the approval may be answered; as long as that where nothing is said.
    #[serde(default)]
    #[schema(minimum = 1, nullable = false)]
    expires_in_seconds: Option<u64>,
}

/// A link. Who holds it may answer: it is not kept here, and not shown again.
#[derive(Serialize, ToSchema)]
pub(crate) struct LinkView {
    /// The run that asks.
    #[schema(value_type = schema::RunId)]
    run: RunId,
    /// The approval that it answers.
    #[schema(value_type = schema::ApprovalId)]
    approval: ApprovalId,
    /// As whom.
    r#for: String,
    /// The link.
    url: String,
    /// It does nothing from this time on.
    expires_at: At,
}

/// Makes a link to answer an approval
///
/// For a person whom the approval names, without an account, where the workflow allows that. Opening the link shows what is asked and
/// changes nothing; it takes one answer. Whoever holds it answers as this person: send it to nobody else.
#[utoipa::path(
    post, path = "/v1/runs/{run}/approvals/{id}/links", operation_id = "make_link", tag = "approvals", params(OfApproval),
    request_body = LinkBody,
    responses((status = 201, description = "The link", body = LinkView)),
    extensions(("x-problems" = json!(["no-such-approval", "no-links"]))),
)]
pub(crate) async fn make(
    State(client): State<Client>,
    State(access): State<Access>,
    State(site): State<Site>,
    By(maker): By,
    OfApproval(run, id): OfApproval,
    headers: HeaderMap,
    Body(LinkBody { r#for, expires_in_seconds }): Body<LinkBody>,
) -> Result<(StatusCode, Answer<LinkView>), Problem> {
    let Some(keys) = access.signing() else {
        return Err(no_links("no keys are set here that could sign one"));
    };
    let (checkpoint, now) = (client.get(&run).await?, access.now());
    let approval = to_be_linked(&checkpoint, &id, &r#for, now).map_err(|why| match why {
        NoLink::NoSuch => {
            Problem::fix("no-such-approval", format!("run {run} has no approval {id}: list those it has"))
        }
        NoLink::NotAllowed => no_links("the workflow does not allow it for this approval"),
        NoLink::NotNamed(_) => no_links("the approval names nobody of this name as a person who decides"),
        NoLink::NotOpen(_) => no_links("the approval is no longer open"),
    })?;
    let asked = match expires_in_seconds {
        Some(0) => return Err(Problem::fix("misfit", "`expires_in_seconds` is 0: such a link would do nothing")),
        Some(seconds) => now.plus(Duration::from_secs(seconds)),
        None => approval.expires_at,
    };
    let expires = asked.min(approval.expires_at);
    let (person, fingerprint) = (r#for.clone(), approval.fingerprint);
    let target = Target::Approval { id: id.clone(), fingerprint, person, maker };
    let link = Link { run: run.clone(), target, expires, nonce: Nonce::of(Uuid::now_v7().into_bytes()) };
    let token = keys.sign(&link).map_err(|error| Problem::fix("bad-value", error.to_string()))?;
    let url = format!("{}/links/{token}", address(&site, &headers)?);
    Ok((StatusCode::CREATED, Answer(LinkView { run, approval: id, r#for, url, expires_at: At(expires) })))
}

/// Where the outside finds this: as its host says, or else as the caller has.
fn address(site: &Site, headers: &HeaderMap) -> Result<String, Problem> {
    if let Some(base) = &site.base_url {
        return Ok(base.clone());
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    if host.is_empty() || !host.chars().all(allowed) {
        return Err(Problem::fix("bad-header", "Host: a link begins with it, and this one cannot be used"));
    }
    let scheme = if site.local { "http" } else { "https" };
    Ok(format!("{scheme}://{host}"))
}

fn no_links(why: &str) -> Problem {
    Problem::fix("no-links", format!("no link is made: {why}"))
}
