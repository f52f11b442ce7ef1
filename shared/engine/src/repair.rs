//! What a person does to a run that does not go on as it should: pauses it, edits what it knows, moves it, gives it up, tries it again.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;

use json_patch::{Patch, PatchOperation};
use serde_json::Value;
use stepwell::host::{HostedWorkflow, PlaceText, PrepareError};
use stepwell_core::decide::{self, Pause, Repair, RepairRefused, Resume};
use stepwell_core::limits::VALUE_BYTES_MAX;
use stepwell_core::mailbox::PAUSE;
use stepwell_core::write::{Refusal, Write};
use stepwell_core::{Checkpoint, Json, Letter, Phase, Place, Revision, RunId, SignalName};

pub(crate) use stepwell_core::decide::repair::known;

use crate::client::{check_act, refused};
use crate::commit::{Carried, carry_out};
use crate::{Client, ClientError, states};

/// An edit of what a run knows.
#[derive(Clone, Debug)]
pub struct Edit {
    /// The revision that was looked at.
    pub at: Revision,
    /// What to change: a JSON patch (RFC 6902).
    pub patch: Json,
    /// Who.
    pub by: String,
    /// Why.
    pub why: String,
}

/// What a run knows after an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// The revision that the edit has made.
    pub revision: Revision,
    /// What the run knows now: its state, or its input while it has not begun.
    pub value: Json,
}

/// A move of a run to another step.
#[derive(Clone, Debug)]
pub struct MoveTo {
    /// The revision that was looked at.
    pub at: Revision,
    /// The step: a cursor, as the workflow's `Step` is written.
    pub to: Json,
    /// Who.
    pub by: String,
    /// Why.
    pub why: String,
}

/// What became of a request to pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseAnswer {
    /// Whether this request is the reason why the run stands still, or will.
    pub new: bool,
    /// How the run stands now: `parked`, or as before, until the step that runs has ended.
    pub phase: Phase,
}

impl Client {
    /// Asks a run to stand still. It is parked at once, or when the step that a worker is at has ended. A run that is parked already
    /// stays so.
    ///
    /// # Errors
    /// A run that is not there, has ended, or is about to: nothing was asked.
    pub async fn pause(&self, run: &RunId, act: &Pause) -> Result<PauseAnswer, ClientError> {
        check_act(&act.by, act.why.as_deref())?;
        let current = self.get(run).await?;
        if current.progress.status.phase() == Phase::Parked && current.cancel.is_none() {
            return Ok(PauseAnswer { new: false, phase: Phase::Parked });
        }
        if let Err(decide::PauseRefused::NotLive(phase)) = decide::pause::can_pause(&current) {
            return Err(ClientError::Ended { run: run.clone(), phase, what: "pause" });
        }
        let payload = act.payload().map_err(|error| ClientError::Value(error.to_string()))?;
        let (id, name) = (self.ports.ids.signal_id(), SignalName::new(PAUSE)?);
        let letter = Letter { id, name, payload, at: self.ports.clock.now() };
        match carry_out(&self.ports, run, Write::Signal(Box::new(letter))).await {
            // A reply that was lost: this request is there.
            Carried::Applied(after) | Carried::Refused(Refusal::Duplicate, Some(after)) => self.park(&after).await,
            Carried::Refused(Refusal::MailboxFull, _) => Err(ClientError::MailboxFull(run.clone())),
            Carried::Refused(refusal, current) => Err(refused(run.clone(), refusal, current.as_deref(), "pause")),
            Carried::Failed(error) => Err(error.into()),
        }
    }

    /// Parks a run that was asked to pause, if nobody holds it. Who holds it does so when its step has ended.
    async fn park(&self, asked: &Checkpoint) -> Result<PauseAnswer, ClientError> {
        let amend = match decide::pause(asked, self.ports.clock.now()) {
            Ok(amend) => amend,
            Err(decide::PauseRefused::Illegal(illegal)) => return Err(illegal.into()),
            Err(decide::PauseRefused::NotLive(_)) => None,
        };
        if let Some(amend) = amend {
            match carry_out(&self.ports, &asked.run, Write::Amend(Box::new(amend))).await {
                Carried::Applied(after) => {
                    // Its end may have been asked for in between, by somebody who saw a run that a worker would end.
                    self.see_to(&after).await?;
                    return Ok(PauseAnswer { new: true, phase: after.phase(self.ports.clock.now()) });
                }
                // A worker was faster: it finds the request at its next write.
                Carried::Refused(..) => {}
                Carried::Failed(error) => return Err(error.into()),
            }
        }
        let now = self.get(&asked.run).await?;
        self.wake(&now).await?;
        Ok(PauseAnswer { new: true, phase: now.phase(self.ports.clock.now()) })
    }

    /// Lets a failed run go on where it stands. Recorded in its history with who and why.
    ///
    /// # Errors
    /// A run that is not there, has not failed, or has taken back what it had done.
    pub async fn retry(&self, run: &RunId, act: &Resume) -> Result<(), ClientError> {
        check_act(&act.by, act.why.as_deref())?;
        let current = self.get(run).await?;
        let decided = decide::retry(&current, &act.by, act.why.as_deref(), self.ports.clock.now());
        match decided {
            Ok((amend, send)) => self.amend(run, amend, Some(send), "retry").await,
            Err(why) => Err(self.wake_refused(&current, not_repaired(run, why)).await),
        }
    }

    /// Edits what a parked or failed run knows: its state, or its input while it has not begun. The run is parked afterwards.
    ///
    /// # Errors
    /// A run that is not there, cannot be repaired or has moved on; a patch that is none, cannot be applied, or leads to what the
    /// workflow cannot read: nothing was written.
    pub async fn edit(&self, run: &RunId, act: Edit) -> Result<Edited, ClientError> {
        let Edit { at, patch, by, why } = act;
        let act = checked(at, by, why)?;
        let current = self.get(run).await?;
        decide::repair::check(&current, at).map_err(|why| not_repaired(run, why))?;
        let before = self.value(known(&current)).await?;
        let value = patched(&before, &patch)?;
        no_foreign_blobs(&[&before], &value).map_err(ClientError::BadPatch)?;
        let hosted = self.hosted(&current.workflow)?;
        match &current.progress.place {
            Place::Fresh { .. } => hosted.check_input(&value)?,
            Place::At { cursor, .. } => {
                let fits = |state: &Json| fits(hosted, cursor, state, current.progress.version);
                still_fits(fits(&value), || fits(&before)).map_err(ClientError::BadPatch)?;
            }
        }
        let back = if hosted.keeps_states() { states::back(&value, &before) } else { None };
        let stored = self.payload(run, "the edited value", value.clone()).await?;
        let amend = decide::edit(&current, stored, back, &act, self.ports.clock.now());
        let amend = amend.map_err(|why| not_repaired(run, why))?;
        let revision = amend.progress.revision;
        self.amend(run, amend, None, "edit").await?;
        Ok(Edited { revision, value })
    }

    /// Moves a parked or failed run to another step, which it runs when it is resumed. Answers the revision that this has made.
    ///
    /// # Errors
    /// A run that is not there, cannot be repaired, has not begun or has moved on; a step that the workflow does not know; an effect
    /// that may have happened: nothing was written.
    pub async fn move_to(&self, run: &RunId, act: MoveTo) -> Result<Revision, ClientError> {
        let MoveTo { at, to, by, why } = act;
        let act = checked(at, by, why)?;
        let current = self.get(run).await?;
        decide::repair::check(&current, at).map_err(|why| not_repaired(run, why))?;
        if let Place::At { cursor, state } = &current.progress.place {
            let hosted = self.hosted(&current.workflow)?;
            let state = self.value(state).await?;
            no_foreign_blobs(&[cursor, &state], &to).map_err(ClientError::BadStep)?;
            let fits = |cursor: &Json| fits(hosted, cursor, &state, current.progress.version);
            still_fits(fits(&to), || fits(cursor)).map_err(ClientError::BadStep)?;
        }
        let amend = decide::move_to(&current, to, &act, self.ports.clock.now());
        let amend = amend.map_err(|why| not_repaired(run, why))?;
        let revision = amend.progress.revision;
        self.amend(run, amend, None, "move").await?;
        Ok(revision)
    }

    /// Gives a parked run up: it ends as failed, and what it has done stands.
    ///
    /// # Errors
    /// A run that is not there, not parked or has moved on; an effect that may have happened: nothing was written.
    pub async fn discard(&self, run: &RunId, act: &Repair) -> Result<(), ClientError> {
        check_act(&act.by, Some(&act.why))?;
        let current = self.get(run).await?;
        let amend = decide::discard(&current, act, self.ports.clock.now()).map_err(|why| not_repaired(run, why))?;
        self.amend(run, amend, None, "discarding").await
    }
}

fn checked(at: Revision, by: String, why: String) -> Result<Repair, ClientError> {
    check_act(&by, Some(&why))?;
    Ok(Repair { at, by, why })
}

fn not_repaired(run: &RunId, why: RepairRefused) -> ClientError {
    match why {
        RepairRefused::Illegal(illegal) => illegal.into(),
        RepairRefused::Phase(_)
        | RepairRefused::NotFailed(_)
        | RepairRefused::Stale { .. }
        | RepairRefused::Ending
        | RepairRefused::NotBegun
        | RepairRefused::Unsettled { .. } => ClientError::NotRepaired { run: run.clone(), why: Box::new(why) },
    }
}

/// The value after the patch. Nothing but what the patch says may change.
fn patched(before: &Json, patch: &Json) -> Result<Json, ClientError> {
    let bad = |what: String| ClientError::BadPatch(what);
    if states::exact(patch).is_none() {
        return Err(bad("it has a number that would be rounded".into()));
    }
    let patch: Patch = patch.parse().map_err(|error| bad(format!("it is no JSON patch (RFC 6902): {error}")))?;
    let rounded = || bad("what the run knows has a number that an edit would round; repair it in code".into());
    let mut value = states::exact(before).ok_or_else(rounded)?;
    for operation in &patch.0 {
        json_patch::patch(&mut value, core::slice::from_ref(operation))
            .map_err(|error| bad(format!("it cannot be applied: {error}")))?;
        // What is sent is bounded, but a copy of a copy doubles each time.
        if matches!(operation, PatchOperation::Copy(_)) && written(&value)?.text().len() > VALUE_BYTES_MAX {
            return Err(bad(format!("what the run knows would have more than {VALUE_BYTES_MAX} bytes of JSON")));
        }
    }
    written(&value)
}

/// A repair may drop a reference to a blob, or use one twice. One that the run did not have would show it what is another's.
fn no_foreign_blobs(before: &[&Json], after: &Json) -> Result<(), String> {
    let blobs = |json: &Json| {
        let value = json.parse().map_err(|error: serde_json::Error| error.to_string())?;
        Ok::<_, String>(stepwell_core::reference::blobs(&value))
    };
    let mut own = Vec::new();
    for json in before {
        own.extend(blobs(json)?);
    }
    match blobs(after)?.into_iter().find(|blob| !own.contains(blob)) {
        Some(blob) => Err(format!(
            "it refers to blob {}, which the run does not have: what lies in a blob cannot be edited, so move the run to the step that makes it",
            blob.key
        )),
        None => Ok(()),
    }
}

fn written(value: &Value) -> Result<Json, ClientError> {
    Json::of(value).map_err(|error| ClientError::BadPatch(error.to_string()))
}

/// A run that the code can read stays so. One that it cannot may need an edit and a move, one after the other: neither is refused for
/// what the other has to mend.
fn still_fits(after: Result<(), String>, before: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    after.or_else(|why| if before().is_ok() { Err(why) } else { Ok(()) })
}

/// Whether the workflow's code here can read this place. `Err`: why not.
fn fits(hosted: &Arc<dyn HostedWorkflow>, cursor: &Json, state: &Json, version: u32) -> Result<(), String> {
    let (cursor, state) = (cursor.clone(), state.clone());
    // `policy` and `migrate` are the author's code as much as a step is.
    match catch_unwind(AssertUnwindSafe(|| hosted.prepare(PlaceText::At { cursor, state, version }).map(drop))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(PrepareError::Incompatible(what))) => Err(what.missing),
        Ok(Err(PrepareError::Input(misfit))) => Err(misfit.to_string()),
        Err(_) => Err("the workflow's code panicked when it was asked to read it".into()),
    }
}
