//! Effects that may have happened: which there are, and a person's word on how one ended.

use axum::Json as Answer;
use axum::extract::State;
use serde::{Deserialize, Deserializer, Serialize};
use stepwell_core::decide::{Resolution, Resolve};
use stepwell_core::limits::PAGE_MAX;
use stepwell_core::{EffectKey, Json, Payload, Phase, RunId};
use stepwell_engine::{Client, ClientError};
use stepwell_ports::{ListQuery, StoreError};

use crate::access::By;
use crate::problem::Problem;
use crate::request::{Asked, Body, OfEffect};
use crate::view::{UnknownView, UnknownsView};

/// Runs of a page when nobody says how many.
const PAGE_DEFAULT: usize = 50;

/// Runs that are loaded side by side.
const RUNS_AT_ONCE: usize = 8;

/// Bytes of effects after which a page looks at no further runs. A Lambda function answers with 6 MB at most.
const PAGE_BYTES_MAX: usize = 1024 * 1024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListAsked {
    limit: Option<usize>,
    after: Option<String>,
}

/// Where a page begins: in which list, and after what of it.
struct Place {
    status: Phase,
    after: Option<String>,
}

pub(crate) async fn list(
    State(client): State<Client>,
    Asked(ListAsked { limit, after }): Asked<ListAsked>,
) -> Result<Answer<UnknownsView>, Problem> {
    let limit = limit.unwrap_or(PAGE_DEFAULT);
    if !(1..=PAGE_MAX).contains(&limit) {
        let detail = format!("limit: ask for 1 to {PAGE_MAX} runs to be looked at, and go on with `next`");
        return Err(Problem::fix("bad-query", detail));
    }
    let mut place = match after {
        None => Some(Place { status: UnknownView::STATUSES[0], after: None }),
        Some(token) => Some(Place::parse(&token).ok_or_else(no_such_page)?),
    };
    let (mut unknowns, mut looked_at, mut bytes) = (Vec::new(), 0, 0);
    while let Some(Place { status, after }) = place.take_if(|_| looked_at < limit && bytes < PAGE_BYTES_MAX) {
        let some = RUNS_AT_ONCE.min(limit - looked_at);
        let query = ListQuery { workflow: None, phase: Some(status), limit: some, after };
        let page = match client.list(&query).await {
            Err(ClientError::Store(StoreError::Invalid(_))) if query.after.is_some() => return Err(no_such_page()),
            listed => listed?,
        };
        looked_at += page.items.len();
        let runs: Vec<RunId> = page.items.into_iter().map(|summary| summary.run).collect();
        for unknown in UnknownView::of_each(&client, &runs).await? {
            let shown = Json::of(&unknown).map_err(Problem::defect)?;
            bytes += shown.text().len();
            unknowns.push(shown);
        }
        place = match page.next {
            Some(next) => Some(Place { status, after: Some(next) }),
            None => Place::following(status),
        };
    }
    Ok(Answer(UnknownsView { unknowns, next: place.map(|place| place.token()) }))
}

impl Place {
    fn following(status: Phase) -> Option<Self> {
        let status = *UnknownView::STATUSES.iter().skip_while(|known| **known != status).nth(1)?;
        Some(Self { status, after: None })
    }

    fn token(&self) -> String {
        format!("{}:{}", self.status, self.after.as_deref().unwrap_or_default())
    }

    fn parse(token: &str) -> Option<Self> {
        let (status, after) = token.split_once(':')?;
        let status = Phase::parse(status).filter(|status| UnknownView::STATUSES.contains(status))?;
        Some(Self { status, after: Some(after.to_owned()).filter(|after| !after.is_empty()) })
    }
}

fn no_such_page() -> Problem {
    Problem::fix("bad-query", "after: no page has given this `next`; begin with the first page")
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
            (Word::Failed | Word::TryAgain, Some(_), _) => return misfit("`result` belongs to `succeeded` alone"),
            (Word::Succeeded | Word::TryAgain, _, Some(_)) => return misfit("`message` belongs to `failed` alone"),
        };
        if says_nothing(&why) {
            return misfit("`why` says nothing: give what says so, such as the provider's own record");
        }
        Ok((resolution, why))
    }
}

fn says_nothing(words: &str) -> bool {
    words.trim().is_empty()
}

fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}
