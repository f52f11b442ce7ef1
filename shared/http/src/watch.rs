//! Watching a run: what a caller knows already is not sent again, and who waits is answered when something has changed.
//!
//! A store tells nobody that a run has moved on, so it is asked: often at first, then once a second.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, ETAG, HeaderName, HeaderValue};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use stepwell_core::{Checkpoint, Digest, RunId, Timestamp};
use stepwell_engine::{Client, ClientError};
use stepwell_ports::Clock;
use stepwell_ports::system::SystemClock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};
use utoipa::IntoParams;

use crate::Site;
use crate::problem::Problem;
use crate::request::{Asked, Known, OfRun};
use crate::schema;
use crate::view::{Reach, RunView};

/// The longest wait, in seconds: shorter than a function that answers requests may run, and than proxies wait.
pub(crate) const WAIT_SECONDS_MAX: u64 = 20;

/// The pause after the first look at a run; each is twice as long as the one before.
const PAUSE_FIRST: Duration = Duration::from_millis(250);

/// The longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// After which time a stream ends by itself: whoever still watches comes back, and shows its key again.
const STREAM_TIME_MAX: Duration = Duration::from_mins(15);

/// Streams that one process sends at once: each asks the store about once a second.
const STREAMS_MAX: usize = 100;

/// Room for streams.
#[derive(Clone)]
pub(crate) struct Streams(Arc<Semaphore>);

impl Default for Streams {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(STREAMS_MAX)))
    }
}

/// For how long to wait, in the query.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitAsked {
    /// Seconds to wait at most.
    #[param(minimum = 1, maximum = 20, required = false, value_type = u64)]
    wait: Option<u64>,
}

impl WaitAsked {
    /// How long that is. `None`: nobody wants to wait.
    pub(crate) fn read(&self) -> Result<Option<Duration>, Problem> {
        match self.wait {
            None => Ok(None),
            Some(seconds @ 1..=WAIT_SECONDS_MAX) => Ok(Some(Duration::from_secs(seconds))),
            Some(_) => Err(Problem::fix("bad-query", format!("wait: give 1 to {WAIT_SECONDS_MAX} seconds"))),
        }
    }
}

/// How a run stands, as an entity tag: another one whenever something of it is shown otherwise. Before its dot stands the run's
/// revision, which is what an edit is made against.
pub(crate) fn tag_of(run: &Checkpoint, now: Timestamp) -> String {
    let leased = run.hold.lease.as_ref().is_some_and(|lease| lease.until > now);
    let (write, seq, phase) = (run.hold.write, run.mailbox.seq, run.phase(now));
    let mut stands = format!("{write} {seq} {phase} {leased} {}", run.cancel.is_some());
    for approval in &run.progress.approvals {
        stands.push(' ');
        stands.push_str(approval.standing(now).as_str());
    }
    format!("\"{}.{}\"", run.progress.revision, Digest::of(stands.as_bytes()).short(16))
}

/// An answer with a tag of its own bytes; or none, when the caller knows it already.
pub(crate) fn tagged(known: &Known, body: &impl Serialize) -> Result<Response, Problem> {
    let body = serde_json::to_vec(body).map_err(Problem::defect)?;
    let tag = format!("\"{}\"", Digest::of(&body).short(32));
    if known.has(&tag) {
        return Ok(unchanged(&tag));
    }
    let json = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(([json], header(&tag), body).into_response())
}

fn unchanged(tag: &str) -> Response {
    (StatusCode::NOT_MODIFIED, header(tag)).into_response()
}

/// A tag is made of digits and marks, so it always fits a header.
fn header(tag: &str) -> HeaderMap {
    HeaderValue::from_str(tag).map(|tag| HeaderMap::from_iter([(ETAG, tag)])).unwrap_or_default()
}

/// A run as the API shows it.
pub(crate) async fn view(client: &Client, run: &Checkpoint, now: Timestamp) -> Result<RunView, ClientError> {
    RunView::load(client, run, client.budget(&run.workflow), now, Reach::Answer).await
}

/// Looks at a run until it is as asked, or the time is over: then it is answered as it stands.
async fn look_until(
    client: &Client,
    run: &RunId,
    wait: Duration,
    is_asked: impl Fn(&Checkpoint, Timestamp) -> bool,
) -> Result<(Checkpoint, Timestamp), ClientError> {
    let (over, mut pause) = (Instant::now() + wait, PAUSE_FIRST);
    loop {
        // Leases are compared with the machine's time, as workers do.
        let (checkpoint, now) = (client.get(run).await?, SystemClock.now());
        let left = over.saturating_duration_since(Instant::now());
        if left.is_zero() || is_asked(&checkpoint, now) {
            return Ok((checkpoint, now));
        }
        sleep(pause.min(left)).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// The run when it has ended, or as it stands when the time is over.
pub(crate) async fn until_ended(client: &Client, run: &RunId, wait: Duration) -> Result<RunView, ClientError> {
    let has_ended = |run: &Checkpoint, _| run.progress.status.phase().is_ended();
    let (checkpoint, now) = look_until(client, run, wait, has_ended).await?;
    view(client, &checkpoint, now).await
}

/// Shows a run
///
/// With `If-None-Match`, only when it stands otherwise than the caller knows; with `wait` besides, as soon as it does.
#[utoipa::path(
    get, path = "/v1/runs/{run}", operation_id = "show_run", tag = "runs",
    params(OfRun, WaitAsked, Known),
    responses(
        (status = 200, description = "The run", body = RunView, headers(("ETag" = String, description = "How it stands"))),
        (status = 304, description = "It stands as the caller knows"),
    ),
)]
pub(crate) async fn show(
    State(client): State<Client>,
    OfRun(run): OfRun,
    Asked(asked): Asked<WaitAsked>,
    known: Known,
) -> Result<Response, Problem> {
    let wait = asked.read()?.unwrap_or_default();
    let stands_otherwise = |run: &Checkpoint, now| !known.has(&tag_of(run, now));
    let (checkpoint, now) = look_until(&client, &run, wait, stands_otherwise).await?;
    let tag = tag_of(&checkpoint, now);
    if known.has(&tag) {
        return Ok(unchanged(&tag));
    }
    let shown = view(&client, &checkpoint, now).await?;
    Ok((header(&tag), axum::Json(shown)).into_response())
}

/// Follows a run as server-sent events
///
/// Each event `run` holds the run's view; its id is the run's entity tag. The stream ends when the run has ended, and after
/// fifteen minutes. Who comes back with `Last-Event-ID` is told nothing twice; of a run that has ended there is no content then.
#[utoipa::path(
    get, path = "/v1/runs/{run}/events", operation_id = "follow_run", tag = "runs",
    params(OfRun),
    responses(
        (status = 200, description = "Events, as they come; the schema is that of each", body = schema::RunEvent, content_type = "text/event-stream"),
        (status = 204, description = "The run has ended, and the caller knows how"),
    ),
    extensions(("x-problems" = json!(["no-stream"]))),
)]
pub(crate) async fn events(
    State(client): State<Client>,
    State(site): State<Site>,
    State(Streams(streams)): State<Streams>,
    OfRun(run): OfRun,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if !site.streams {
        return Err(Problem::fix("no-stream", "this host sends no streams: ask with If-None-Match and `wait` instead"));
    }
    let told = headers.get(HeaderName::from_static("last-event-id")).and_then(|id| id.to_str().ok());
    let told = format!("\"{}\"", told.unwrap_or_default().trim_matches('"'));
    let (checkpoint, now) = look_until(&client, &run, Duration::ZERO, |_, _| true).await?;
    if checkpoint.progress.status.phase().is_ended() && tag_of(&checkpoint, now) == told {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let Ok(room) = streams.try_acquire_owned() else {
        let detail = format!("{STREAMS_MAX} streams are open here already: ask with If-None-Match and `wait` instead");
        return Err(Problem::later("too-many", detail, 30));
    };
    let watch = Watch { client, run, told, over: Instant::now() + STREAM_TIME_MAX, _room: room };
    Ok(Sse::new(watch.events()).keep_alive(KeepAlive::default()).into_response())
}

/// Somebody who watches a run.
struct Watch {
    client: Client,
    run: RunId,
    /// The last tag that was sent.
    told: String,
    over: Instant,
    _room: OwnedSemaphorePermit,
}

impl Watch {
    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> {
        stream::unfold(Some(self), |watch| async {
            let (event, watch) = watch?.next().await?;
            Some((Ok(event), watch))
        })
    }

    /// The next event, and whether there may be another.
    async fn next(mut self) -> Option<(Event, Option<Self>)> {
        let left = self.over.saturating_duration_since(Instant::now());
        let stands_otherwise = |run: &Checkpoint, now| tag_of(run, now) != self.told;
        let shown = async {
            let (checkpoint, now) = look_until(&self.client, &self.run, left, stands_otherwise).await?;
            let tag = tag_of(&checkpoint, now);
            let is_ended = checkpoint.progress.status.phase().is_ended();
            Ok::<_, ClientError>((view(&self.client, &checkpoint, now).await?, tag, is_ended))
        };
        // What cannot be read now ends the stream: who watches comes back, and is told why.
        let (shown, tag, is_ended) =
            shown.await.inspect_err(|error| tracing::warn!(%error, "a stream breaks off")).ok()?;
        if tag == self.told {
            return None;
        }
        let event = Event::default().event("run").id(tag.trim_matches('"')).json_data(&shown).ok()?;
        self.told = tag;
        Some((event, (!is_ended).then_some(self)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use stepwell_core::write::{Acquire, Start, Write, WriteRequest, apply};
    use stepwell_core::{CancelRequest, Json, Lease, Payload, WorkerId, WorkflowName, WriteId};

    use super::*;

    /// Whatever is shown otherwise has another tag, even where no commit was made; and what is not has the same.
    #[test]
    fn a_tag_changes_with_what_is_shown() {
        let run = RunId::new("r1").unwrap();
        let write = |id, write| WriteRequest { run: run.clone(), id: WriteId(id), now: Timestamp(id), write };
        let input = Payload::Inline(Json::of(&()).unwrap());
        let workflow = WorkflowName::new("shop").unwrap();
        let start = Start { workflow, version: 1, input, input_digest: Digest::of(b"null"), step_limit: 9 };
        let created = apply(None, &write(1, Write::Start(Box::new(start)))).unwrap();
        let lease = Lease { owner: WorkerId::new("w").unwrap(), since: Timestamp(2), until: Timestamp(100) };
        let acquire = Acquire { ticket: created.progress.ticket, lease };
        let held = apply(Some(&created), &write(2, Write::Acquire(acquire))).unwrap();
        let cancel = CancelRequest { by: "ann".into(), why: None, at: Timestamp(3) };
        let cancelled = apply(Some(&held), &write(3, Write::Cancel(cancel))).unwrap();
        let tags = [
            tag_of(&created, Timestamp(5)),
            tag_of(&held, Timestamp(5)),
            tag_of(&held, Timestamp(200)),
            tag_of(&cancelled, Timestamp(5)),
        ];
        for (at, tag) in tags.iter().enumerate() {
            assert!(tag.starts_with("\"0.") && !tags[..at].contains(tag), "{tags:?}");
        }
        assert_eq!(tags[1], tag_of(&held, Timestamp(99)));
    }
}
