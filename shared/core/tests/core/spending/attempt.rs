//! One attempt of a step of the spending world: what a step does with effects that cost something.

use core::time::Duration;

use stepwell_core::budget::Reached;
use stepwell_core::decide::{Moment, NotAdmitted, StepEnd, StepOutcome, admit, commit, intend};
use stepwell_core::write::Write;
use stepwell_core::{
    Amounts, Checkpoint, Class, EffectKey, EffectRecord, Failure, FailureKind, Outcome, ParkReason, RetryPolicy, Scope,
    Timestamp, WorkflowName,
};

use super::outside::Answer;
use super::{CENTS, LeftOut, World, Wrong, unknown};
use crate::make::dice::Dice;
use crate::make::{self, RULES};

/// An effect of the workflow: its class, whether it belongs to the run, and what is reserved for one call.
const EFFECTS: [(&str, Class, bool, u64); 8] = [
    ("look", Class::Read, false, 3),
    ("search", Class::Read, true, 2),
    ("mail", Class::Idempotent(None), true, 4),
    ("post", Class::Idempotent(None), false, 1),
    ("ask", Class::Idempotent(Some(60_000)), true, 2),
    ("pay", Class::Reconcilable, true, 3),
    ("wire", Class::Reconcilable, true, 1),
    ("fax", Class::Once, true, 5),
];

/// How long a call may take.
const DEADLINE: Duration = Duration::from_secs(20);

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is admitted, and noted in the journal.
    Noted,
    /// Its intent is written.
    Clear,
    /// It has reached the outside, which has answered this.
    Made(Answer),
}

struct Call {
    key: EffectKey,
    class: Class,
    cost: u64,
    /// What is recorded of it from before this call, and whether a call may have happened of which nothing is known.
    before: Option<EffectRecord>,
    open: bool,
    /// It is not made later than this.
    until: Timestamp,
    stage: Stage,
}

pub(super) struct Attempt {
    held: Checkpoint,
    journal: Vec<EffectRecord>,
    calls: Vec<Call>,
    /// How it has to end.
    must: Option<StepOutcome>,
}

impl Attempt {
    pub(super) fn of(held: &Checkpoint) -> Self {
        Self { held: held.clone(), journal: held.progress.journal.clone(), calls: Vec::new(), must: None }
    }

    pub(super) fn has_made(&self) -> bool {
        self.calls.iter().any(|call| matches!(call.stage, Stage::Made(_)))
    }

    pub(super) fn keys_of(&self, class: Class) -> impl Iterator<Item = EffectKey> {
        self.calls.iter().filter(move |call| call.class == class).map(|call| call.key.clone())
    }

    fn known(&self, key: &EffectKey) -> Option<EffectRecord> {
        let ledger = &self.held.progress.ledger;
        self.journal.iter().chain(ledger).find(|record| record.key == *key).cloned()
    }

    fn note(&mut self, record: EffectRecord) {
        match self.journal.iter_mut().find(|old| old.key == record.key) {
            Some(old) => *old = record,
            None => self.journal.push(record),
        }
    }

    fn restore(&mut self, key: &EffectKey, before: Option<EffectRecord>) {
        self.journal.retain(|record| record.key != *key);
        self.journal.extend(before);
    }
}

fn cents(amount: u64) -> Amounts {
    [(CENTS.to_owned(), amount)].into_iter().filter(|(_, amount)| *amount > 0).collect()
}

fn of(amounts: &Amounts) -> u64 {
    amounts.get(CENTS).copied().unwrap_or(0)
}

impl World {
    /// The next thing that an attempt does.
    pub(super) fn work(&mut self, mut attempt: Attempt, mut dice: Dice) -> Result<(), Wrong> {
        match dice.pick(13) {
            0..=3 if attempt.must.is_none() => self.begin(&mut attempt, &mut dice),
            4 | 5 => self.intend(&mut attempt)?,
            6 | 7 => self.make(&mut attempt, &mut dice),
            8 | 9 => self.hear(&mut attempt, &mut dice),
            10 => {
                self.crash(&attempt, &mut dice);
                return Ok(());
            }
            11 => self.now = self.now.plus(Duration::from_secs(dice.pick(40))),
            _ => return self.end(attempt, dice),
        }
        self.attempt = Some(attempt);
        Ok(())
    }

    /// Up to the intent: is it known already, may it be called, is it admitted?
    fn begin(&mut self, attempt: &mut Attempt, dice: &mut Dice) {
        let (name, class, of_run, cost) = EFFECTS[dice.index(EFFECTS.len())];
        let visit = attempt.held.progress.visit;
        let scope = if of_run { Scope::Run("order-7") } else { Scope::Visit(visit) };
        let key = EffectKey::derive(&make::run(), &WorkflowName::new("brief").unwrap(), name, scope);
        if attempt.calls.iter().any(|call| call.key == key) {
            return;
        }
        let before = attempt.known(&key);
        let mut since = self.now;
        if let Some(record) = &before {
            let Outcome::Unknown { since: first, .. } = &record.outcome else { return };
            if record.signed_off.is_some() {
                return;
            }
            match class {
                Class::Once => return self.ask_a_person(attempt, record),
                Class::Reconcilable if self.outside.happened(&key) => {
                    self.untold.insert(key);
                    let outcome = Outcome::Succeeded(make::inline(&serde_json::json!("found")));
                    return attempt.note(EffectRecord { outcome, ..record.clone() });
                }
                // It is absent: this is the first call.
                Class::Reconcilable => self.seen.insert("asked about, and called again"),
                // The call lands before it gives up waiting, and has to be deduped then.
                Class::Idempotent(_) if class.repeatable_for(*first, self.now) < DEADLINE => {
                    attempt.note(record.clone());
                    return self.ask_a_person(attempt, record);
                }
                Class::Idempotent(_) => {
                    since = *first;
                    self.seen.insert("called again under its key")
                }
                Class::Read => self.seen.insert("read again"),
            };
        }
        let open = before.is_some() && matches!(class, Class::Idempotent(_));
        let sunk = before.as_ref().filter(|_| class == Class::Read && self.left_out != LeftOut::Sunk);
        let sunk = sunk.map_or(0, |record| of(&record.costs));
        let attempts = before.as_ref().map_or(0, |record| record.attempts) + 1;
        let record = make::effect(name, class, unknown(since));
        let costs = cents(sunk + cost);
        attempt.note(EffectRecord { key: key.clone(), attempts, of_run, costs, until: Some(self.now), ..record });

        let admitted = admit(&attempt.held, &attempt.journal, &key, 1, &self.budget, self.now);
        if self.left_out != LeftOut::Admission
            && let Err(why) = admitted
        {
            attempt.restore(&key, before);
            attempt.must = Some(self.over(why));
            return;
        }
        if !attempt.calls.is_empty() {
            self.seen.insert("beside another");
        }
        let counted = self.account.entry(key.clone()).or_default();
        *counted = if class == Class::Read { *counted + cost } else { cost };
        let stage = if self.left_out == LeftOut::Intent { Stage::Clear } else { Stage::Noted };
        let until = self.now.plus(DEADLINE);
        attempt.calls.push(Call { key, class, cost, before, open, until, stage });
    }

    fn ask_a_person(&mut self, attempt: &mut Attempt, record: &EffectRecord) {
        self.seen.insert("asked a person");
        let what = format!("effect {} may have happened", record.name);
        attempt.must = Some(StepOutcome::Park { reason: ParkReason::UnknownOutcome { what } });
    }

    fn over(&mut self, why: NotAdmitted) -> StepOutcome {
        self.seen.insert("not admitted");
        let NotAdmitted::OverBudget(over) = why else { panic!("{why}") };
        match self.budget.reached {
            Reached::Park => StepOutcome::Park { reason: ParkReason::Budget(over) },
            Reached::Fail => StepOutcome::Fail { failure: Failure::new(FailureKind::Budget, over.to_string()) },
        }
    }

    /// One write for all that are noted.
    fn intend(&mut self, attempt: &mut Attempt) -> Result<(), Wrong> {
        if attempt.calls.iter().all(|call| call.stage != Stage::Noted) {
            return Ok(());
        }
        let commit = intend(&attempt.held, attempt.journal.clone(), self.now, RULES, self.now);
        self.write(Write::Commit(Box::new(commit.map_err(|illegal| illegal.to_string())?)))?;
        self.stored = self.account.clone();
        attempt.held = self.run.clone();
        for call in attempt.calls.iter_mut().filter(|call| call.stage == Stage::Noted) {
            call.stage = Stage::Clear;
        }
        Ok(())
    }

    fn make(&mut self, attempt: &mut Attempt, dice: &mut Dice) {
        let may_be_made = |call: &&mut Call| call.stage == Stage::Clear && self.now <= call.until;
        let mut clear: Vec<_> = attempt.calls.iter_mut().filter(may_be_made).collect();
        if clear.is_empty() {
            return;
        }
        let at = dice.index(clear.len());
        let call = &mut *clear[at];
        call.stage = Stage::Made(self.outside.call(&call.key, call.class, call.cost, self.now, dice));
    }

    /// What a call has answered is written down, for now in memory alone.
    fn hear(&mut self, attempt: &mut Attempt, dice: &mut Dice) {
        let made: Vec<_> = attempt.calls.iter().enumerate().collect();
        let made: Vec<_> = made.into_iter().filter(|(_, call)| matches!(call.stage, Stage::Made(_))).collect();
        if made.is_empty() {
            return;
        }
        let at = made[dice.index(made.len())].0;
        let Call { key, class, cost, before, open, stage, until: _ } = attempt.calls.remove(at);
        let Stage::Made(answer) = stage else { return };
        let noted = attempt.journal.iter().find(|record| record.key == key).unwrap().clone();
        let sunk = of(&noted.costs) - cost;
        let counted = self.account.entry(key.clone()).or_default();
        let mut settle = |outcome, costs| {
            *counted = if class == Class::Read { *counted - cost + (costs - sunk) } else { costs };
            attempt.note(EffectRecord { outcome, costs: cents(costs), ..noted.clone() });
        };
        match (answer, class) {
            (Answer::Done(actual), _) => {
                settle(Outcome::Succeeded(make::inline(&serde_json::json!("ok"))), sunk + actual);
            }
            // Neither tells of an earlier call.
            (Answer::Refused | Answer::NotDone, _) if open => {}
            (Answer::Refused, _) => settle(Outcome::Failed(make::failure("refused")), sunk),
            (Answer::NotDone, Class::Read) if sunk > 0 => settle(unknown(self.now), sunk),
            (Answer::NotDone, _) => {
                attempt.restore(&key, None);
                // What an earlier visit has left open is as open as before.
                let in_ledger = attempt.held.progress.ledger.iter().any(|record| record.key == key);
                let left = before.filter(|_| in_ledger).map_or(0, |record| of(&record.costs));
                *counted = if class == Class::Read { *counted - cost } else { left };
            }
            (Answer::Lost, Class::Read) => drop(self.untold.insert(key)),
            (Answer::Lost, _) => {}
        }
    }

    fn end(&mut self, attempt: Attempt, mut dice: Dice) -> Result<(), Wrong> {
        let goto = StepOutcome::Goto { place: make::place("Draft") };
        let policy = RetryPolicy::default().every(Duration::from_secs(1));
        let outcome = match (&attempt.must, dice.pick(8)) {
            (Some(must), _) => must.clone(),
            (None, 0..=3) => goto,
            (None, 4..=6) => StepOutcome::Retry { failure: make::failure("busy"), policy, at_least: None },
            (None, _) => StepOutcome::Complete { output: make::inline(&serde_json::json!(1)) },
        };
        self.leave_reads(&attempt);
        let end = StepEnd { effects: attempt.journal, ..make::end(outcome) };
        let (moment, go_on) = (Moment { now: self.now, random: 0 }, dice.pick(2) == 0);
        let decision = commit(&attempt.held, end, RULES, moment, go_on).map_err(|illegal| illegal.to_string())?;
        self.saw(&decision);
        self.commit(decision)
    }
}
