//! The mail API. It keeps what it was given and delivers each idempotency key once.
//!
//! - `POST /v1/mails` with header `Idempotency-Key` and JSON `{to, subject, body}`: accepts a mail.
//! - `GET /v1/mails`: the delivered mails. `GET /v1/counts`: [`MailCounts`].
//! - `PUT /control` with a [`MailBehaviour`], such as `{"mode": "fail", "times": 2, "status": 503}`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::counts::MailCounts;
use super::http::{Closing, FailStatus, Line, Problem, lock, parse};

/// Longest idempotency key the API takes, in bytes.
pub const MAX_KEY_BYTES: usize = 255;

/// How the mail API behaves. Where it counts `times`, it is normal again afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum MailBehaviour {
    /// Accepts and answers at once.
    #[default]
    Normal,
    /// Waits before it accepts. A client that leaves meanwhile has sent no mail.
    Slow {
        /// How long it waits, in milliseconds.
        ms: u64,
    },
    /// Refuses before it accepts.
    Fail {
        /// How many requests.
        times: u32,
        /// The status it answers.
        status: FailStatus,
    },
    /// Accepts the mail, then closes the connection without an answer.
    AcceptThenDrop {
        /// How many requests.
        times: u32,
    },
    /// Accepts the mail, then never answers: the connection stays open until the client leaves, the behaviour is set again
    /// or the world ends.
    AcceptThenHold {
        /// How many requests.
        times: u32,
    },
}

/// A mail's identity here, such as `mail-1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MailId(String);

/// What a client asks to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mail {
    /// The addressee; any text but an empty one.
    pub to: String,
    /// The subject line.
    pub subject: String,
    /// The text.
    pub body: String,
}

/// A mail that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveredMail {
    /// Given by the API, in order of acceptance.
    pub id: MailId,
    /// The idempotency key it came under.
    pub key: String,
    /// What was sent.
    #[serde(flatten)]
    pub mail: Mail,
}

/// The answer to an accepted or repeated mail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Accepted {
    id: MailId,
    duplicate: bool,
}

/// What to do with a request for a mail.
#[derive(Debug, PartialEq, Eq)]
enum Reaction {
    Answer(Accepted),
    Fail(FailStatus),
    OtherMail,
    Drop,
    Hold { since: Change },
}

/// Counts how often the behaviour was set, so that a held request knows whether it was set again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Change(u64);

/// All the API knows; no input or output.
#[derive(Debug, Default)]
struct Mailbox {
    behaviour: MailBehaviour,
    change: Change,
    counts: MailCounts,
    mails: Vec<DeliveredMail>,
}

impl Mailbox {
    fn set(&mut self, behaviour: MailBehaviour) {
        self.behaviour = behaviour;
        self.change.0 += 1;
    }

    fn arrive(&mut self) -> Option<Duration> {
        self.counts.requested += 1;
        match self.behaviour {
            MailBehaviour::Slow { ms } => Some(Duration::from_millis(ms)),
            MailBehaviour::Normal
            | MailBehaviour::Fail { .. }
            | MailBehaviour::AcceptThenDrop { .. }
            | MailBehaviour::AcceptThenHold { .. } => None,
        }
    }

    fn receive(&mut self, key: &str, mail: Mail) -> Reaction {
        if let MailBehaviour::Fail { times, status } = &mut self.behaviour
            && *times > 0
        {
            *times -= 1;
            self.counts.failed += 1;
            return Reaction::Fail(*status);
        }
        let Some(accepted) = self.accept(key, mail) else {
            self.counts.refused += 1;
            return Reaction::OtherMail;
        };
        match &mut self.behaviour {
            MailBehaviour::Normal
            | MailBehaviour::Slow { .. }
            | MailBehaviour::Fail { .. }
            | MailBehaviour::AcceptThenDrop { times: 0 }
            | MailBehaviour::AcceptThenHold { times: 0 } => Reaction::Answer(accepted),
            MailBehaviour::AcceptThenDrop { times } => {
                *times -= 1;
                self.counts.unanswered += 1;
                Reaction::Drop
            }
            MailBehaviour::AcceptThenHold { times } => {
                *times -= 1;
                self.counts.unanswered += 1;
                Reaction::Hold { since: self.change }
            }
        }
    }

    /// `None` when the key stands for another mail.
    fn accept(&mut self, key: &str, mail: Mail) -> Option<Accepted> {
        if let Some(first) = self.mails.iter().find(|first| first.key == key) {
            let accepted = (first.mail == mail).then(|| Accepted { id: first.id.clone(), duplicate: true })?;
            self.counts.duplicates += 1;
            return Some(accepted);
        }
        self.counts.delivered += 1;
        let id = MailId(format!("mail-{}", self.counts.delivered));
        self.mails.push(DeliveredMail { id: id.clone(), key: key.to_owned(), mail });
        Some(Accepted { id, duplicate: false })
    }
}

/// What waiters look at: copied from the mailbox, under its lock, after each change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marks {
    delivered: u64,
    change: Change,
}

/// The running API.
#[derive(Clone, Debug)]
pub(super) struct MailApi {
    mailbox: Arc<Mutex<Mailbox>>,
    marks: watch::Sender<Marks>,
    closing: Closing,
}

impl MailApi {
    pub(super) fn new(closing: Closing) -> Self {
        Self { mailbox: Arc::default(), marks: watch::Sender::default(), closing }
    }

    pub(super) fn router(&self) -> Router {
        Router::new()
            .route("/v1/mails", post(send).get(list))
            .route("/v1/counts", get(async |State(api): State<Self>| Json(api.counts())))
            .route("/control", put(control))
            .with_state(self.clone())
    }

    pub(super) fn set(&self, behaviour: MailBehaviour) {
        self.with(|mailbox| mailbox.set(behaviour));
    }

    pub(super) fn counts(&self) -> MailCounts {
        lock(&self.mailbox).counts
    }

    pub(super) fn mails(&self) -> Vec<DeliveredMail> {
        lock(&self.mailbox).mails.clone()
    }

    pub(super) async fn accepted(&self, at_least: u64) {
        // Cannot fail: `self` holds the sender.
        let _ = self.marks.subscribe().wait_for(|marks| marks.delivered >= at_least).await;
    }

    /// How many requests are held (or tests wait for mails).
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.marks.receiver_count()
    }

    async fn set_again(&self, since: Change) {
        let _ = self.marks.subscribe().wait_for(|marks| marks.change != since).await;
    }

    fn with<R>(&self, change: impl FnOnce(&mut Mailbox) -> R) -> R {
        let mut mailbox = lock(&self.mailbox);
        let result = change(&mut mailbox);
        self.marks.send_replace(Marks { delivered: mailbox.counts.delivered, change: mailbox.change });
        result
    }
}

async fn send(
    State(api): State<MailApi>,
    ConnectInfo(line): ConnectInfo<Line>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let wait = api.with(Mailbox::arrive);
    let (key, mail) = match read(&headers, &body) {
        Ok(asked) => asked,
        Err(problem) => {
            api.with(|mailbox| mailbox.counts.refused += 1);
            return problem.into_response();
        }
    };
    if let Some(wait) = wait
        && let Err(problem) = api.closing.pause(wait).await
    {
        api.with(|mailbox| mailbox.counts.failed += 1);
        return problem.into_response();
    }
    let reaction = api.with(|mailbox| mailbox.receive(key, mail));
    tracing::debug!(key, ?reaction, "mail requested");
    match reaction {
        Reaction::Answer(accepted) => Json(accepted).into_response(),
        Reaction::Fail(status) => Problem::told_to_fail(status).into_response(),
        Reaction::OtherMail => {
            let detail =
                format!("idempotency key {key} was used for another mail: send this one under a key of its own");
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, detail).into_response()
        }
        Reaction::Drop => line.cut(),
        Reaction::Hold { since } => {
            // When the client leaves, the server drops this future.
            tokio::select! {
                () = api.set_again(since) => {}
                () = api.closing.clone().closed() => {}
            }
            line.cut()
        }
    }
}

fn read<'a>(headers: &'a HeaderMap, body: &[u8]) -> Result<(&'a str, Mail), Problem> {
    let key =
        headers.get("idempotency-key").ok_or_else(|| Problem::bad_request("header Idempotency-Key is missing"))?;
    let key = key.to_str().map_err(|_| Problem::bad_request("header Idempotency-Key is not plain ASCII"))?;
    if key.is_empty() || key.len() > MAX_KEY_BYTES {
        let detail = format!("header Idempotency-Key has {} bytes: give 1 to {MAX_KEY_BYTES}", key.len());
        return Err(Problem::bad_request(detail));
    }
    let mail: Mail = parse(body)?;
    if mail.to.is_empty() {
        return Err(Problem::bad_request("the mail has nobody in \"to\""));
    }
    Ok((key, mail))
}

async fn list(State(api): State<MailApi>) -> Json<Vec<DeliveredMail>> {
    Json(api.mails())
}

async fn control(State(api): State<MailApi>, body: Bytes) -> Result<Json<MailBehaviour>, Problem> {
    let behaviour = parse(&body)?;
    api.set(behaviour);
    Ok(Json(behaviour))
}
