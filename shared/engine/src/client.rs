//! Starting runs, looking at them, speaking to them.

use std::sync::Arc;

use stepwell::host::HostedWorkflow;
use stepwell::{Budget, Registry, fingerprint};
use stepwell_core::decide::{self, DueRun};
use stepwell_core::limits::WORDS_BYTES_MAX;
use stepwell_core::write::{Refusal, Start, Write};
use stepwell_core::{
    CancelRequest, Checkpoint, Json, Letter, Payload, RunId, SignalId, SignalName, Ticket, WorkflowName,
};
use stepwell_ports::{ListQuery, Page, RunSummary};

use crate::commit::{Carried, carry_out};
use crate::payload::{self, PayloadError};
use crate::{ClientError, Ports};

/// Starts runs, looks at them, speaks to them.
#[derive(Clone)]
pub struct Client {
    pub(crate) ports: Ports,
    registry: Arc<Registry>,
}

/// A run to start.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// Of which workflow.
    pub workflow: WorkflowName,
    /// With which input.
    pub input: Json,
    /// The caller's idempotency key: a second start with the same key and input is the same run.
    pub key: Option<String>,
}

/// A run that was started, now or before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Which run.
    pub run: RunId,
    /// Whether this request has started it; `false` when the key had done so before.
    pub new: bool,
}

/// A signal to send.
#[derive(Clone, Debug)]
pub struct SignalRequest {
    /// To which run.
    pub run: RunId,
    /// Which signal.
    pub name: SignalName,
    /// What it says.
    pub payload: Json,
    /// Its id: a second one with the same id is the same signal. Made up when not given.
    pub id: Option<SignalId>,
}

/// What became of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalAnswer {
    /// Its id.
    pub id: SignalId,
    /// Whether this request has delivered it; `false` when it had arrived before.
    pub new: bool,
}

/// What became of a request to cancel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelAnswer {
    /// The request that stands: the first one.
    pub request: CancelRequest,
    /// Whether that is this one.
    pub new: bool,
}

/// How often a run is looked at anew when others write to it at the same moment.
const SEE_TO_TRIES: u32 = 20;

impl Client {
    /// A client for these workflows.
    pub fn new(ports: Ports, registry: Arc<Registry>) -> Self {
        Self { ports, registry }
    }

    /// Starts a run. One write and one message.
    ///
    /// # Errors
    /// An unknown workflow, an input that does not fit, a key that was used with another input: nothing was started.
    pub async fn start(&self, request: StartRequest) -> Result<Started, ClientError> {
        let StartRequest { workflow, input, key } = request;
        let hosted = self.hosted(&workflow)?;
        hosted.check_input(&input)?;
        let value: serde_json::Value = input.parse().map_err(|error| ClientError::Value(error.to_string()))?;
        let input_digest = fingerprint(&value).map_err(|problem| ClientError::Value(format!("the input {problem}")))?;
        let run = match &key {
            Some(key) => RunId::for_key(&workflow, key),
            None => self.ports.ids.run_id(),
        };
        let input = self.payload(&run, "the input", input).await?;
        let (version, step_limit) = (hosted.version(), hosted.max_steps().max(1));
        let start = Start { workflow, version, input, input_digest, step_limit };
        let (ticket, new) = match carry_out(&self.ports, &run, Write::Start(Box::new(start))).await {
            Carried::Applied(checkpoint) => (checkpoint.progress.ticket, true),
            Carried::Refused(Refusal::Exists, Some(current)) if current.input_digest == input_digest => {
                // Its starter may have died before it sent the message. One too many is harmless.
                match decide::wake(&current, self.ports.clock.now()) {
                    Some(send) => (send.ticket, false),
                    None => return Ok(Started { run, new: false }),
                }
            }
            Carried::Refused(..) => return Err(ClientError::KeyConflict { run }),
            Carried::Failed(error) => return Err(error.into()),
        };
        self.send(&run, ticket).await?;
        Ok(Started { run, new })
    }

    /// What runs of this workflow may spend. `None`: this program does not know it.
    pub fn budget(&self, workflow: &WorkflowName) -> Option<&Budget> {
        self.registry.get(workflow).map(|workflow| workflow.budget())
    }

    /// Looks at a run.
    ///
    /// # Errors
    /// [`ClientError::NoSuchRun`] when there is none.
    pub async fn get(&self, run: &RunId) -> Result<Checkpoint, ClientError> {
        self.ports.store.load(run).await?.ok_or_else(|| ClientError::NoSuchRun(run.clone()))
    }

    /// The value of a payload: state, output.
    ///
    /// # Errors
    /// When it is a blob that is missing or altered.
    pub async fn value(&self, payload: &Payload) -> Result<Json, ClientError> {
        payload::load(&*self.ports.blobs, payload).await.map_err(value_error)
    }

    /// Lists runs, newest first.
    ///
    /// # Errors
    /// A page token that is none; a run of this page that is damaged ([`Client::audit`] names all of those, and goes past them).
    pub async fn list(&self, query: &ListQuery) -> Result<Page<RunSummary>, ClientError> {
        Ok(self.ports.store.list(query).await?.whole()?)
    }

    /// The workflows that can be started here.
    pub fn workflows(&self) -> Vec<&WorkflowName> {
        self.registry.names().collect()
    }

    /// Runs whose time has come and that nobody seems to have woken, the longest overdue first. Eventually consistent.
    ///
    /// # Errors
    /// A limit that is none; one of these runs that is damaged.
    pub async fn due(&self, limit: usize) -> Result<Vec<DueRun>, ClientError> {
        Ok(self.ports.store.due(self.ports.clock.now(), limit, None).await?.whole()?.items)
    }

    /// Sends a signal: one write, and a message if the run is due now and nobody holds it.
    ///
    /// # Errors
    /// A run that is not there or has ended, a workflow that this program does not know, a signal that it does not accept, a
    /// payload that does not fit, an id whose signal says something else, a full mailbox: nothing was delivered.
    pub async fn signal(&self, request: SignalRequest) -> Result<SignalAnswer, ClientError> {
        let SignalRequest { run, name, payload, id } = request;
        let checkpoint = self.get(&run).await?;
        self.hosted(&checkpoint.workflow)?.check_signal(&name, &payload)?;
        let fresh = id.is_none();
        let id = id.unwrap_or_else(|| self.ports.ids.signal_id());
        let payload = self.payload(&run, "the signal's payload", payload).await?;
        let letter = Letter { id: id.clone(), name, payload, at: self.ports.clock.now() };
        match carry_out(&self.ports, &run, Write::Signal(Box::new(letter.clone()))).await {
            Carried::Applied(after) => {
                self.wake(&after).await?;
                Ok(SignalAnswer { id, new: true })
            }
            Carried::Refused(Refusal::Duplicate, Some(current)) if says_otherwise(&current, &letter) => {
                Err(ClientError::SignalConflict { run, id })
            }
            Carried::Refused(Refusal::Duplicate, Some(current)) => {
                // Its first sender may have died before it sent the message. An id that was made up here is known only if
                // the reply to the first try was lost.
                self.wake(&current).await?;
                Ok(SignalAnswer { id, new: fresh })
            }
            Carried::Refused(Refusal::MailboxFull, _) => Err(ClientError::MailboxFull(run)),
            Carried::Refused(refusal, current) => Err(refused(run, refusal, current.as_deref(), "signal")),
            Carried::Failed(error) => Err(error.into()),
        }
    }

    /// Asks for the end of a run. The first request stands; the run ends when its current step has, or at once.
    ///
    /// # Errors
    /// A run that is not there or has ended.
    pub async fn cancel(&self, run: &RunId, by: &str, why: Option<String>) -> Result<CancelAnswer, ClientError> {
        check_act(by, why.as_deref())?;
        let request = CancelRequest { by: by.to_owned(), why, at: self.ports.clock.now() };
        match carry_out(&self.ports, run, Write::Cancel(request.clone())).await {
            Carried::Applied(after) => {
                self.see_to(&after).await?;
                let stands = after.cancel.unwrap_or_else(|| request.clone());
                let new = stands == request;
                Ok(CancelAnswer { request: stands, new })
            }
            Carried::Refused(refusal, current) => {
                Err(refused(run.clone(), refusal, current.as_deref(), "cancellation"))
            }
            Carried::Failed(error) => Err(error.into()),
        }
    }

    /// What a run needs that somebody has just written to: no worker touches a parked one, so where its end was asked for, that is
    /// written here. Any other one is woken.
    pub(crate) async fn see_to(&self, written: &Checkpoint) -> Result<(), ClientError> {
        let mut current = written.clone();
        // Where somebody comes in between, it is looked at again: they may have died before they sent the message, or have parked it.
        for _ in 0..SEE_TO_TRIES {
            let Some((amend, send)) = decide::cancel_parked(&current, self.ports.clock.now())? else {
                return self.wake(&current).await;
            };
            match carry_out(&self.ports, &current.run, Write::Amend(Box::new(amend))).await {
                Carried::Applied(_) => {
                    return match send {
                        Some(send) => self.send(&current.run, send.ticket).await,
                        None => Ok(()),
                    };
                }
                Carried::Refused(_, Some(now)) => current = *now,
                Carried::Refused(_, None) => return Ok(()),
                Carried::Failed(error) => return Err(error.into()),
            }
        }
        Err(ClientError::MovedOn(current.run))
    }

    pub(crate) fn hosted(&self, workflow: &WorkflowName) -> Result<&Arc<dyn HostedWorkflow>, ClientError> {
        self.registry.get(workflow).ok_or_else(|| {
            let known = self.registry.names().map(WorkflowName::as_str).collect::<Vec<_>>().join(", ");
            ClientError::UnknownWorkflow { name: workflow.clone(), known }
        })
    }

    pub(crate) async fn payload(&self, run: &RunId, what: &'static str, value: Json) -> Result<Payload, ClientError> {
        payload::store(&*self.ports.blobs, run, what, value).await.map_err(value_error)
    }

    pub(crate) async fn wake(&self, after: &Checkpoint) -> Result<(), ClientError> {
        match decide::wake(after, self.ports.clock.now()) {
            Some(send) => self.send(&after.run, send.ticket).await,
            None => Ok(()),
        }
    }

    /// An act is refused, since it was done before or the run has moved on: whoever did that may have died before it sent the message.
    /// Where no message can be sent now, either, the sweeper wakes the run: the refusal stays what it is.
    pub(crate) async fn wake_refused(&self, current: &Checkpoint, why: ClientError) -> ClientError {
        if let Err(error) = self.wake(current).await {
            tracing::warn!(run = %current.run, %error, "a run is not woken");
        }
        why
    }

    pub(crate) async fn send(&self, run: &RunId, ticket: Ticket) -> Result<(), ClientError> {
        let send = decide::Send { ticket, delay: core::time::Duration::ZERO };
        self.ports.send(run, send).await.map_err(|error| ClientError::NotSent { run: run.clone(), error })
    }
}

/// Whether a signal of this id lies in the mailbox and says something else. What a consumed one said is not remembered.
fn says_otherwise(current: &Checkpoint, letter: &Letter) -> bool {
    let same = |known: &Letter| known.name == letter.name && known.payload == letter.payload;
    current.mailbox.letters.iter().any(|known| known.id == letter.id && !same(known))
}

/// Who acts, and why.
pub(crate) fn check_act(by: &str, why: Option<&str>) -> Result<(), ClientError> {
    check_words("the name", by)?;
    check_words("the reason", why.unwrap_or_default())
}

/// A name or reason rides in the checkpoint and in the history, so it is bounded.
pub(crate) fn check_words(what: &str, words: &str) -> Result<(), ClientError> {
    if words.len() <= WORDS_BYTES_MAX {
        return Ok(());
    }
    Err(ClientError::Value(format!(
        "{what} has {} bytes, at most {WORDS_BYTES_MAX} are taken: say it shorter",
        words.len()
    )))
}

fn value_error(error: PayloadError) -> ClientError {
    match error {
        PayloadError::Blob(error) => error.into(),
        PayloadError::TooLarge { .. } | PayloadError::NoJson { .. } => ClientError::Value(error.to_string()),
    }
}

pub(crate) fn refused(run: RunId, refusal: Refusal, current: Option<&Checkpoint>, what: &'static str) -> ClientError {
    match (refusal, current) {
        (Refusal::NoSuchRun, _) | (_, None) => ClientError::NoSuchRun(run),
        (Refusal::Ended, Some(current)) => ClientError::Ended { run, phase: current.progress.status.phase(), what },
        (_, Some(_)) => ClientError::MovedOn(run),
    }
}
