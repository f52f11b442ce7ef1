//! Random records of what people decide on: approvals, budgets, effects that are taken back.

use stepwell_core::approval::{Escalation, Used};
use stepwell_core::budget::Spent;
use stepwell_core::history::LineOutcome;
use stepwell_core::{
    Amounts, Answer, Approval, ApprovalId, Authority, Cause, CertifiedEffect, Checkpoint, Digest, EffectRecord,
    Reviewer, RunId, Undo, Undoing, Visit,
};

use super::Generator;

impl Generator {
    /// Few enough that some are the same.
    pub(super) fn approval_id(&mut self, run: &RunId) -> ApprovalId {
        let action = ["refund", "deploy"][self.rng.usize(..2)];
        ApprovalId::derive(run, action, &Digest::of(b"parameters"), Visit(self.rng.u64(..3)))
    }

    pub(super) fn approval(&mut self, run: &RunId) -> Approval {
        let key = self.record(run, 9).key;
        Approval {
            id: self.approval_id(run),
            action: self.text(),
            parameters: self.payload(run),
            fingerprint: Digest::of(self.text().as_bytes()),
            version: self.rng.u32(..),
            by: self.few(Self::authority),
            quorum: self.rng.u32(..9),
            escalation: self.percent(40).then(|| Escalation { at: self.soon(), to: self.few(Self::authority) }),
            asked_at: self.now,
            expires_at: self.soon(),
            usable_ms: self.rng.u64(..),
            answers: self.few(Self::answer),
            used: self.percent(40).then_some(Used { by: key, at: self.now }),
            replaced_by: self.percent(30).then(|| self.approval_id(run)),
            by_link: self.percent(30),
        }
    }

    fn authority(&mut self) -> Authority {
        if self.percent(50) { Authority::Person(self.text()) } else { Authority::Role(self.text()) }
    }

    fn answer(&mut self) -> Answer {
        let reviewer = Reviewer { name: self.text(), roles: self.few(Self::text) };
        Answer { reviewer, allows: self.percent(50), why: self.percent(50).then(|| self.text()), at: self.now }
    }

    pub(super) fn undo(&mut self, run: &RunId) -> Undo {
        let record = self.record(run, 9);
        let behind = self.few(|generator| generator.record(run, 9).key);
        let EffectRecord { key, name, class, attempts, .. } = record;
        Undo { key, name, class, attempts, step: self.value(), behind }
    }

    pub(super) fn undoing(&mut self, run: &RunId) -> Undoing {
        Undoing {
            cause: if self.percent(50) { Cause::Failed(self.failure()) } else { Cause::Cancelled },
            step: self.text(),
            undone: self.few(|generator| generator.certified(run)),
            stands: self.few(|generator| generator.certified(run)),
            never_sent: self.few(|generator| generator.certified(run)),
            lost_attempt: self.percent(50).then_some(self.now),
        }
    }

    /// With all that it may have, or with nothing but its name: what earlier code has written.
    pub(super) fn certified(&mut self, run: &RunId) -> CertifiedEffect {
        let record = self.record(run, 9);
        let certified = CertifiedEffect::from(&record);
        if self.percent(30) {
            return CertifiedEffect { key: None, until: None, signed_off_by: None, note: None, ..certified };
        }
        let outcomes = [LineOutcome::Succeeded, LineOutcome::Failed, LineOutcome::Unknown];
        CertifiedEffect {
            outcome: outcomes[self.rng.usize(..3)],
            note: self.percent(50).then(|| self.text()),
            ..certified
        }
    }

    pub(super) fn spent(&mut self, current: &Checkpoint) -> Spent {
        let attempts = self.rng.u64(..9);
        let (ended, more_for_run, more_for_step) = (self.amounts(), self.amounts(), self.amounts());
        let cut_wait = self.percent(20).then(|| Box::new(self.wait(current)));
        Spent { ended, attempts, more_for_run, more_for_step, cut_wait }
    }

    /// Counters are named by authors.
    pub(super) fn amounts(&mut self) -> Amounts {
        self.few(|generator| (generator.text(), generator.rng.u64(..))).into_iter().collect()
    }
}
