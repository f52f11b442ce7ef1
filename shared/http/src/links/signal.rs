//! A link that sends a signal: an outside system's way back.

use axum::Json as Reply;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use stepwell_core::link::{Link, Target};
use stepwell_core::{Json, RunId, SignalId, SignalName, Timestamp, Visit};
use stepwell_engine::{Client, SignalAnswer, SignalRequest};

use super::{gone, over, page, used};
use crate::problem::Problem;
use crate::sent::From;

/// What the form sends: a program sends the payload alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sent {
    payload: String,
}

/// What became of it.
#[derive(Serialize)]
struct SentView {
    run: RunId,
    signal: SignalName,
    id: SignalId,
    new: bool,
}

pub(super) async fn show(
    client: &Client,
    run: &RunId,
    name: &SignalName,
    visit: Visit,
    expires: Timestamp,
) -> Result<Response, Problem> {
    check(client, run, visit).await?;
    Ok(page::signal(run, name, expires))
}

pub(super) async fn act(client: &Client, link: Link, from: From, request: Request) -> Result<Response, Problem> {
    let id = link.signal_id().map_err(Problem::defect)?;
    let Link { run, target: Target::Signal { name, visit }, .. } = link else {
        return Err(Problem::defect("a link that is for no signal came to those that are"));
    };
    check(client, &run, visit).await?;
    let payload = match from {
        From::Program => from.read_any(request).await?,
        From::Form => {
            let Sent { payload } = from.read(request).await?;
            Json::from_text(payload.trim().to_owned())
                .map_err(|error| Problem::fix("not-json", format!("`payload` is not JSON: {error}")))?
        }
    };
    let request = SignalRequest { run: run.clone(), name: name.clone(), payload, id: Some(id) };
    let SignalAnswer { id, new } = client.signal(request).await.map_err(gone)?;
    match from {
        // A program that was cut off sends it again, and is told that it has arrived.
        From::Program => Ok((StatusCode::ACCEPTED, Reply(SentView { run, signal: name, id, new })).into_response()),
        From::Form if new => Ok(page::sent(&run, &name)),
        From::Form => Err(used("this link was used: what it sends has arrived")),
    }
}

/// A link is good while its run is where it was made, or waits in the step after that.
async fn check(client: &Client, run: &RunId, visit: Visit) -> Result<(), Problem> {
    let checkpoint = client.get(run).await.map_err(gone)?;
    if checkpoint.progress.status.phase().is_ended() {
        return Err(over("the run that this link is for has ended"));
    }
    let at = checkpoint.progress.visit;
    if at == visit || at.0.checked_sub(1) == Some(visit.0) {
        return Ok(());
    }
    Err(over("the run that this link is for has gone on, and waits for this no longer"))
}
