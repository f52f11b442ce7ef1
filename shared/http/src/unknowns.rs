//! Effects that may have happened: which there are, and a person's word on how one ended.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Deserializer, Serialize};
use stepwell_core::decide::{Resolution, Resolve};
use stepwell_core::{EffectKey, Json, Payload, RunId};
use stepwell_engine::Client;
use stepwell_ports::Clock as _;
use stepwell_ports::system::SystemClock;
use utoipa::ToSchema;

use crate::access::{By, Caller};
use crate::pages::{self, Found, PageAsked};
use crate::problem::Problem;
use crate::request::{Asked, Body, Known, OfEffect, says_nothing};
use crate::schema;
use crate::view::UnknownView;
use crate::watch::tagged;

/// Those of a page of runs, and where it goes on.
#[derive(Serialize, ToSchema)]
pub(crate) struct UnknownsView {
    #[schema(value_type = Vec<UnknownView>)]
    unknowns: Vec<Json>,
    /// Where the next page begins, if there is one.
    #[schema(required = true)]
    next: Option<String>,
}

/// Lists effects that may have happened, of runs that have not ended
///
/// A page is a page of runs: it may hold nothing, or several of one run. The last one is the one whose `next` is `null`.
#[utoipa::path(
    get, path = "/v1/unknowns", operation_id = "list_unknowns", tag = "unknowns", params(PageAsked, Known),
    responses(
        (status = 200, description = "Those of a page of runs", body = UnknownsView),
        (status = 304, description = "It is as the caller knows"),
    ),
)]
pub(crate) async fn list(
    State(client): State<Client>,
    caller: Caller,
    Asked(asked): Asked<PageAsked>,
    known: Known,
) -> Result<Response, Problem> {
    let Found { items, next } =
        pages::look::<UnknownView>(&client, &caller, asked, SystemClock.now(), |_| true).await?;
    tagged(&known, &UnknownsView { unknowns: items, next })
}

/// A person's word on how an effect has ended.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveBody {
    resolution: Word,
    /// With `succeeded` alone, and there it has to be given: what the effect has answered. `null` is a result.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Value)]
    result: Option<Json>,
    /// With `failed` alone, and there it has to be given: what the step is told.
    #[schema(value_type = Option<schema::Why>)]
    message: Option<String>,
    #[schema(value_type = schema::Why)]
    why: String,
}

#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = ResolutionWord)]
enum Word {
    Succeeded,
    Failed,
    TryAgain,
    SignOff,
}

/// An effect that is settled.
#[derive(Serialize, ToSchema)]
pub(crate) struct ResolveView {
    #[schema(value_type = schema::RunId)]
    run: RunId,
    #[schema(value_type = schema::EffectKey)]
    key: EffectKey,
    /// How it has ended.
    resolution: &'static str,
    by: String,
    why: String,
}

/// Says how an effect has ended that may have happened
#[utoipa::path(
    post, path = "/v1/runs/{run}/effects/{key}/resolve", operation_id = "resolve_effect", tag = "unknowns",
    params(OfEffect), request_body = ResolveBody,
    responses((status = 200, description = "It is settled", body = ResolveView)),
    extensions(("x-problems" = json!(["ended", "not-open", "on-its-way"]))),
)]
pub(crate) async fn resolve(
    State(client): State<Client>,
    By(by): By,
    OfEffect(run, key): OfEffect,
    Body(body): Body<ResolveBody>,
) -> Result<Answer<ResolveView>, Problem> {
    let (resolution, why) = body.read()?;
    let word = resolution.as_str();
    client.resolve(&run, Resolve { key: key.clone(), resolution, by: by.clone(), why: why.clone() }).await?;
    Ok(Answer(ResolveView { run, key, resolution: word, by, why }))
}

impl ResolveBody {
    fn read(self) -> Result<(Resolution, String), Problem> {
        let misfit = |detail| Err(Problem::fix("misfit", detail));
        let Self { resolution, result, message, why } = self;
        let resolution = match (resolution, result, message) {
            (Word::Succeeded, Some(result), None) => Resolution::Succeeded(Payload::Inline(result)),
            (Word::Succeeded, None, None) => return misfit("`result` is missing: give what the effect answered"),
            (Word::Failed, None, Some(message)) if says_nothing(&message) => return misfit("`message` says nothing"),
            (Word::Failed, None, Some(message)) => Resolution::Failed(message),
            (Word::Failed, None, None) => return misfit("`message` is missing: give what the step is to be told"),
            (Word::TryAgain, None, None) => Resolution::TryAgain,
            (Word::SignOff, None, None) => Resolution::SignOff,
            (Word::Failed | Word::TryAgain | Word::SignOff, Some(_), _) => {
                return misfit("`result` belongs to `succeeded` alone");
            }
            (Word::Succeeded | Word::TryAgain | Word::SignOff, _, Some(_)) => {
                return misfit("`message` belongs to `failed` alone");
            }
        };
        if says_nothing(&why) {
            return misfit("`why` says nothing: give what says so, such as the provider's own record");
        }
        Ok((resolution, why))
    }
}

fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}
