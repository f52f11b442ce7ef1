//! Runs that use one thing: timers, signals, an approval.

use stepwell::prelude::*;

use crate::dice::secs;
use crate::outside::{Caller, Request, WINDOW};
use crate::tape::Promise;

use super::{QUICK, often, request};

/// Timers, some of which only the sweeper knows; a step that fails a few times; an effect that is deduped for a while only.
pub(crate) struct Nap(pub(crate) Caller);

/// How long to sleep, in seconds, one after another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Naps {
    pub(crate) naps: Vec<u64>,
    pub(crate) fails: u32,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum NapAt {
    Sleep,
    Work,
    Stamp,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct NapKnown {
    left: Naps,
    slept: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NapOutput {
    pub(crate) slept: Vec<u64>,
    pub(crate) stamp: String,
}

impl Workflow for Nap {
    const NAME: &'static str = "nap";
    type Input = Naps;
    type State = NapKnown;
    type Step = NapAt;
    type Output = NapOutput;

    fn begin(&self, left: Naps) -> (NapAt, NapKnown) {
        (NapAt::Sleep, NapKnown { left, slept: Vec::new() })
    }

    fn policy(&self, _: &NapAt) -> StepPolicy {
        often()
    }

    async fn step(&self, at: NapAt, known: &mut NapKnown, cx: &Cx) -> StepResult<Self> {
        match at {
            NapAt::Sleep if known.left.naps.is_empty() => Ok(goto(NapAt::Work)),
            NapAt::Sleep => {
                let nap = known.left.naps.remove(0);
                known.slept.push(nap);
                Ok(wait(NapAt::Sleep).lasting(secs(nap)))
            }
            NapAt::Work if cx.attempt() <= known.left.fails => Err(StepError::retry("not yet")),
            NapAt::Work => Ok(goto(NapAt::Stamp)),
            NapAt::Stamp => {
                let effect = cx.effect("stamp").key("card").deadline(QUICK).idempotent_for(WINDOW);
                let stamp = effect
                    .call(async |call| {
                        let request = request(cx, "stamp", call, Promise::Idempotent, "");
                        self.0.call(Request { window: true, ..request }).await
                    })
                    .await?;
                Ok(complete(NapOutput { slept: known.slept.clone(), stamp }))
            }
        }
    }
}

pub(crate) const NOTE: Signal<u32> = Signal::new("note");

/// Takes notes, as many as it was asked to, or until its patience is over.
pub(crate) struct Inbox(pub(crate) Caller);

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Letters {
    pub(crate) wanted: usize,
    pub(crate) patience_s: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum InboxAt {
    Wait,
    Read,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct InboxKnown {
    asks: Letters,
    notes: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct InboxOutput {
    pub(crate) notes: Vec<u32>,
    /// What an effect of each visit has answered: none of them twice.
    pub(crate) copies: u64,
}

impl Workflow for Inbox {
    const NAME: &'static str = "inbox";
    type Input = Letters;
    type State = InboxKnown;
    type Step = InboxAt;
    type Output = InboxOutput;

    fn begin(&self, asks: Letters) -> (InboxAt, InboxKnown) {
        (InboxAt::Wait, InboxKnown { asks, notes: Vec::new() })
    }

    fn policy(&self, _: &InboxAt) -> StepPolicy {
        often()
    }

    fn signals() -> Signals {
        Signals::none().and(NOTE)
    }

    async fn step(&self, at: InboxAt, known: &mut InboxKnown, cx: &Cx) -> StepResult<Self> {
        match at {
            InboxAt::Wait => Ok(wait(InboxAt::Read).for_signal(NOTE).within(secs(known.asks.patience_s))),
            InboxAt::Read => {
                let Some(note) = cx.take(NOTE).await? else { return Ok(complete(self.output(known))) };
                // It belongs to this visit: the next note is copied anew.
                let effect = cx.effect("copy").deadline(QUICK).idempotent().with(&note);
                let copied: Result<String, EffectError> = effect
                    .call(async |call| {
                        let parameters = note.to_string();
                        let request = request(cx, "copy", call, Promise::Idempotent, &parameters);
                        self.0.call(Request { keyed: false, ..request }).await
                    })
                    .await;
                match copied {
                    // Of every other note this author does not care what came of its copy: the run must care for all that.
                    Err(EffectError::Unknown { .. }) if note % 2 == 0 => {}
                    other => drop(other?),
                }
                known.notes.push(note);
                if known.notes.len() >= known.asks.wanted {
                    return Ok(complete(self.output(known)));
                }
                Ok(goto(InboxAt::Wait))
            }
        }
    }
}

impl Inbox {
    #[allow(clippy::unused_self, reason = "reads as what it is")]
    fn output(&self, known: &InboxKnown) -> InboxOutput {
        InboxOutput { notes: known.notes.clone(), copies: known.notes.len() as u64 }
    }
}

/// What cannot be called twice, and only if somebody has allowed it.
pub(crate) struct Grant(pub(crate) Caller);

#[derive(Serialize, Deserialize)]
pub(crate) enum GrantAt {
    Ask,
    Act,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GrantOutput {
    pub(crate) receipt: Option<String>,
}

/// What it asks to be allowed.
pub(crate) const ACTION: &str = "grant";

impl Workflow for Grant {
    const NAME: &'static str = "grant";
    type Input = u64;
    type State = u64;
    type Step = GrantAt;
    type Output = GrantOutput;

    fn begin(&self, patience_s: u64) -> (GrantAt, u64) {
        (GrantAt::Ask, patience_s)
    }

    fn policy(&self, _: &GrantAt) -> StepPolicy {
        often()
    }

    async fn step(&self, at: GrantAt, patience_s: &mut u64, cx: &Cx) -> StepResult<Self> {
        match at {
            GrantAt::Ask => {
                let asked = Approval::of(ACTION, "a grant").by(person("ann")).within(secs(*patience_s));
                Ok(wait(GrantAt::Act).for_approval(asked))
            }
            GrantAt::Act => match cx.approval(ACTION)? {
                Decision::Approved { .. } => {
                    let effect = cx.effect("grant").key("grant").deadline(QUICK).once().approved_by(ACTION, "a grant");
                    let call = async |call| self.0.call(request(cx, "grant", call, Promise::Once, "a grant")).await;
                    let receipt = effect.call(call).await?;
                    Ok(complete(GrantOutput { receipt: Some(receipt) }))
                }
                Decision::Rejected { .. } | Decision::Expired | Decision::Open => {
                    Ok(complete(GrantOutput { receipt: None }))
                }
            },
        }
    }
}
