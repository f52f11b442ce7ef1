//! Effects that may have happened: which there are, and a person's word on how one ended.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Deserializer, Serialize};
use stepwell_core::decide::{Resolution, Resolve};
use stepwell_core::{EffectKey, Json, Payload, RunId};
use stepwell_engine::Client;
use stepwell_ports::Clock as _;
use stepwell_ports::system::SystemClock;

use crate::access::By;
use crate::pages::{self, Found, PageAsked};
use crate::problem::Problem;
use crate::request::{Asked, Body, OfEffect, says_nothing};
use crate::view::UnknownView;

/// Those of a page of runs, and where it goes on.
#[derive(Serialize)]
pub(crate) struct UnknownsView {
    unknowns: Vec<Json>,
    next: Option<String>,
}

pub(crate) async fn list(
    State(client): State<Client>,
    Asked(asked): Asked<PageAsked>,
) -> Result<Answer<UnknownsView>, Problem> {
    let Found { items, next } = pages::look::<UnknownView>(&client, asked, SystemClock.now(), |_| true).await?;
    Ok(Answer(UnknownsView { unknowns: items, next }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResolveBody {
    resolution: Word,
    /// `null` is a result.
    #[serde(default, deserialize_with = "given")]
    result: Option<Json>,
    message: Option<String>,
    why: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    Succeeded,
    Failed,
    TryAgain,
    SignOff,
}

#[derive(Serialize)]
pub(crate) struct ResolveView {
    run: RunId,
    key: EffectKey,
    resolution: &'static str,
    by: String,
    why: String,
}

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
