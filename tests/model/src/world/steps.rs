//! The steps of the world's run: how each may end, and what the core is told of that.

use core::num::NonZeroU32;
use core::time::Duration;
use std::borrow::Cow;

use stepwell_core::decide::{StepEnd, StepOutcome};
use stepwell_core::{Checkpoint, EffectRecord, FailureKind, Outcome, ParkReason, RetryPolicy};

use super::parts::{Parts, UNIT, at, end, failure, unknown};
use crate::settings::Step;

/// How an attempt has ended, in as few words as can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ending {
    pub(crate) how: How,
    /// Units until the time that ends the wait.
    pub(crate) until: Option<i8>,
    /// The signals that it has taken, one bit each.
    pub(crate) took: u8,
    pub(crate) effect: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum How {
    Goto,
    Wait { on: u8 },
    Complete,
    Retry,
    Park,
}

/// What the attempt knows of the run's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Effect {
    /// What the checkpoint says.
    AsHeld,
    /// The run was cancelled before the call.
    NotSent,
    Succeeded,
    Unknown,
    /// What the step takes it for, where that rule is left out.
    TakenAsFailed,
}

impl Ending {
    /// Time passes.
    pub(crate) fn pass(&mut self) {
        self.until = self.until.map(|until| (until - 1).max(-1));
    }

    /// What the core is told.
    pub(crate) fn tell(self, parts: &Parts, held: &Checkpoint) -> StepEnd {
        let place = parts.place(held.progress.visit.0 + 1);
        let outcome = match self.how {
            How::Goto => StepOutcome::Goto { place },
            How::Wait { on } => {
                let named = parts.signals.iter().zip(0..).filter(|(_, bit)| on >> bit & 1 == 1);
                let on = named.map(|((_, name), _)| name.clone()).collect();
                StepOutcome::Wait { place, on, until: self.until.map(at), ask: None }
            }
            How::Complete => StepOutcome::Complete { output: parts.value() },
            How::Retry => StepOutcome::Retry { failure: failure(FailureKind::Error), policy: policy(), at_least: None },
            How::Park => StepOutcome::Park { reason: ParkReason::UnknownOutcome { what: "no answer".into() } },
        };
        let mut told = end(held, outcome);
        let taken = parts.signals.iter().zip(0..).filter(|(_, bit)| self.took >> bit & 1 == 1);
        told.consumed = taken.map(|((id, _), _)| id.clone()).collect();
        let outcome = match self.effect {
            Effect::AsHeld => return told,
            Effect::NotSent => Outcome::Failed(failure(FailureKind::NotSent)),
            Effect::Succeeded => Outcome::Succeeded(parts.value()),
            Effect::Unknown => unknown(),
            Effect::TakenAsFailed => Outcome::Failed(failure(FailureKind::Refused)),
        };
        let known = told.effects.pop();
        let record = known.map_or_else(
            || parts.effect(outcome.clone(), None),
            |known| EffectRecord { outcome: outcome.clone(), ..known },
        );
        told.effects = vec![record];
        told
    }
}

/// What a worker does with a step.
pub(crate) enum Next {
    /// The attempt ends so.
    End(Ending),
    /// It has to write an intent first.
    Intend,
}

/// What this step may do next, the run being as its holder knows it.
pub(crate) fn next(parts: &Parts, flow: &[&[Step]], held: &Checkpoint, open_is_failed: bool) -> Vec<Next> {
    let visit = usize::try_from(held.progress.visit.0).unwrap_or(usize::MAX);
    let last = flow.len() - 1;
    let took = if visit == 0 { 0 } else { taken(parts, flow[(visit - 1).min(last)], held) };
    let ending = |how| Ending { how, until: None, took, effect: Effect::AsHeld };
    let of = |step: &Step| match *step {
        Step::Goto => Next::End(ending(How::Goto)),
        Step::Complete => Next::End(ending(How::Complete)),
        Step::Wait { on, timer } => Next::End(Ending { until: timer, ..ending(How::Wait { on }) }),
        Step::Once | Step::OnceAndOn => match held.progress.journal.first() {
            None => Next::Intend,
            // Its outcome is known, or a person has said that it never will be: the step goes on with that.
            Some(record) if !record.is_open() => Next::End(ending(How::Goto)),
            Some(_) if open_is_failed => Next::End(Ending { effect: Effect::TakenAsFailed, ..ending(How::Goto) }),
            Some(_) => Next::End(ending(unheard(*step))),
        },
    };
    flow[visit.min(last)].iter().map(of).collect()
}

/// How a step ends that does not know whether its call has happened.
pub(crate) const fn unheard(step: Step) -> How {
    match step {
        Step::OnceAndOn => How::Goto,
        Step::Once | Step::Goto | Step::Wait { .. } | Step::Complete => How::Park,
    }
}

/// A failed attempt.
pub(crate) const FAILED: Ending = Ending { how: How::Retry, until: None, took: 0, effect: Effect::AsHeld };

/// The letters that the wait before was for.
fn taken(parts: &Parts, before: &[Step], held: &Checkpoint) -> u8 {
    let awaited = before.iter().fold(0, |all, step| match step {
        Step::Wait { on, .. } => all | on,
        Step::Goto | Step::Once | Step::OnceAndOn | Step::Complete => all,
    });
    let is_here = |bit: u8| held.mailbox.letters.iter().any(|letter| letter.id == parts.signals[usize::from(bit)].0);
    (0..2).filter(|bit| awaited >> bit & 1 == 1 && is_here(*bit)).map(|bit| 1 << bit).sum()
}

fn policy() -> RetryPolicy {
    RetryPolicy {
        max_attempts: NonZeroU32::MAX,
        first_delay: UNIT,
        factor: 1,
        max_delay: UNIT,
        full_jitter: false,
        deadline: None::<Duration>,
        never_on: Cow::Borrowed(&[]),
    }
}
