//! What a person does to a run: resumes it, says how an effect ended, answers an approval, lets an effect stand. Each act is decided on
//! the run as it is, written if it still is so, and recorded with who and why.

use core::time::Duration;

use stepwell_core::approval::Reviewer;
use stepwell_core::decide::{
    self, Approve, ApproveRefused, Approved, LetStand, LetStandRefused, Resolution, Resolve, ResolveRefused, Resume,
    ResumeRefused, Send,
};
use stepwell_core::limits::{NAME_CHARS_MAX, ROLES_MAX, WORDS_BYTES_MAX};
use stepwell_core::write::{Amend, Refusal, Write};
use stepwell_core::{Checkpoint, Payload, RunId};

use crate::client::{check_act, check_words, refused};
use crate::commit::{Carried, carry_out};
use crate::{Client, ClientError};

/// How often an answer is decided anew when a worker comes in between, and the pause while one holds the run.
const ANSWER_TRIES: u32 = 20;
const ANSWER_PAUSE: Duration = Duration::from_millis(100);

impl Client {
    /// Lets a parked run go on. Recorded in its history with who and why.
    ///
    /// # Errors
    /// A run that is not there or not parked.
    pub async fn resume(&self, run: &RunId, act: &Resume) -> Result<(), ClientError> {
        check_act(&act.by, act.why.as_deref())?;
        let current = self.get(run).await?;
        let (amend, send) = match decide::resume(&current, act, self.ports.clock.now()) {
            Ok(decided) => decided,
            Err(ResumeRefused::NotParked(phase)) => {
                return Err(self.wake_refused(&current, ClientError::NotParked { run: run.clone(), phase }).await);
            }
            Err(ResumeRefused::Illegal(illegal)) => return Err(illegal.into()),
        };
        self.amend(run, amend, Some(send), "resumption").await
    }

    /// A person says how an effect ended that may have happened. Recorded in the history with who and why. A run that is parked
    /// for want of it goes on.
    ///
    /// # Errors
    /// A run that is not there or has ended, an effect that is not open, a call that may still be on its way, a run that
    /// somebody works on right now: nothing was written.
    pub async fn resolve(&self, run: &RunId, act: Resolve) -> Result<(), ClientError> {
        check_act(&act.by, Some(&act.why))?;
        let current = self.get(run).await?;
        let Resolve { key, resolution, by, why } = act;
        let resolution = match resolution {
            Resolution::Succeeded(Payload::Inline(result)) => {
                Resolution::Succeeded(self.payload(run, "the result", result).await?)
            }
            Resolution::Failed(message) => {
                check_words("the message", &message)?;
                Resolution::Failed(message)
            }
            other @ (Resolution::Succeeded(Payload::Blob(_)) | Resolution::TryAgain | Resolution::SignOff) => other,
        };
        let act = Resolve { key, resolution, by, why };
        let (amend, send) = match decide::resolve(&current, &act, self.ports.clock.now()) {
            Ok(decided) => decided,
            Err(ResolveRefused::Ended(phase)) => {
                return Err(ClientError::Ended { run: run.clone(), phase, what: "resolution" });
            }
            Err(ResolveRefused::Illegal(illegal)) => return Err(illegal.into()),
            Err(ResolveRefused::NotOpen(key)) => {
                return Err(self.wake_refused(&current, ClientError::NotOpen { run: run.clone(), key }).await);
            }
            Err(ResolveRefused::OnItsWay { key, until }) => {
                return Err(ClientError::OnItsWay { run: run.clone(), key, until });
            }
        };
        self.amend(run, amend, send, "resolution").await
    }

    /// A person answers an approval. Recorded in it and in the history. A run that waits for it goes on once it is decided.
    ///
    /// # Errors
    /// A run that is not there or has ended, an approval that it does not have, that was decided otherwise, replaced or has expired,
    /// somebody who may not decide: nothing was written.
    pub async fn approve(&self, run: &RunId, act: &Approve) -> Result<ApproveAnswer, ClientError> {
        check_reviewer(&act.reviewer)?;
        check_words("the reason", act.why.as_deref().unwrap_or_default())?;
        for _ in 0..ANSWER_TRIES {
            let current = self.get(run).await?;
            let decided = decide::approve(&current, act, self.ports.clock.now());
            let (amend, send) = match decided {
                Ok(Approved::New(amend, send)) => (amend, send),
                // Whoever wrote it may have died before it sent the message.
                Ok(Approved::Again) => {
                    self.wake(&current).await?;
                    return Ok(ApproveAnswer { new: false });
                }
                Err(ApproveRefused::Ended(phase)) => {
                    return Err(ClientError::Ended { run: run.clone(), phase, what: "answer" });
                }
                Err(ApproveRefused::Illegal(illegal)) => return Err(illegal.into()),
                Err(why) => return Err(ClientError::NotTaken { run: run.clone(), why: Box::new(why) }),
            };
            match carry_out(&self.ports, run, Write::Amend(amend)).await {
                Carried::Applied(after) => {
                    self.send_or_see_to(&after, send).await?;
                    return Ok(ApproveAnswer { new: true });
                }
                // A worker holds the run for now; the answer is not lost for that.
                Carried::Refused(Refusal::Leased, _) => self.ports.clock.sleep(ANSWER_PAUSE).await,
                Carried::Refused(Refusal::Revision, _) => {}
                Carried::Refused(refusal, current) => {
                    return Err(refused(run.clone(), refusal, current.as_deref(), "answer"));
                }
                Carried::Failed(error) => return Err(error.into()),
            }
        }
        Err(ClientError::MovedOn(run.clone()))
    }

    /// A person lets the effect stand that could not be taken back, having taken it back by hand or not. The run goes on with the one
    /// before it, or ends.
    ///
    /// # Errors
    /// A run that is not parked while it takes something back, or that somebody works on right now: nothing was written.
    pub async fn let_stand(&self, run: &RunId, act: &LetStand) -> Result<(), ClientError> {
        check_act(&act.by, Some(&act.why))?;
        let current = self.get(run).await?;
        match decide::let_stand(&current, act, self.ports.clock.now()) {
            Ok((amend, send)) => self.amend(run, amend, send, "word").await,
            Err(LetStandRefused::NotUndoing(phase)) => {
                Err(self.wake_refused(&current, ClientError::NotUndoing { run: run.clone(), phase }).await)
            }
            Err(LetStandRefused::Illegal(illegal)) => Err(illegal.into()),
        }
    }

    pub(crate) async fn amend(
        &self,
        run: &RunId,
        amend: Amend,
        send: Option<Send>,
        what: &'static str,
    ) -> Result<(), ClientError> {
        match carry_out(&self.ports, run, Write::Amend(Box::new(amend))).await {
            Carried::Applied(after) => self.send_or_see_to(&after, send).await,
            Carried::Refused(Refusal::Revision | Refusal::Leased, _) => Err(ClientError::MovedOn(run.clone())),
            Carried::Refused(refusal, current) => Err(refused(run.clone(), refusal, current.as_deref(), what)),
            Carried::Failed(error) => Err(error.into()),
        }
    }

    /// What came in between may be a signal whose sender has died before it sent the message, or a cancellation.
    async fn send_or_see_to(&self, after: &Checkpoint, send: Option<Send>) -> Result<(), ClientError> {
        match send {
            Some(send) => self.send(&after.run, send.ticket).await,
            None => self.see_to(after).await,
        }
    }
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApproveAnswer {
    /// Whether this request has written it; `false` when the same person had said the same before.
    pub new: bool,
}

/// Who answers is stored with the approval, so it is bounded.
fn check_reviewer(reviewer: &Reviewer) -> Result<(), ClientError> {
    let fits = |name: &str| (1..=NAME_CHARS_MAX).contains(&name.chars().count());
    // Who was let in by AWS is named by an ARN, which may be long.
    let is_named = !reviewer.name.is_empty() && reviewer.name.len() <= WORDS_BYTES_MAX;
    if is_named && reviewer.roles.len() <= ROLES_MAX && reviewer.roles.iter().all(|role| fits(role)) {
        return Ok(());
    }
    Err(ClientError::Value(format!(
        "a reviewer has a name of 1 to {WORDS_BYTES_MAX} bytes, and at most {ROLES_MAX} roles of 1 to {NAME_CHARS_MAX} characters"
    )))
}
