//! A tiny world in which a run spends: steps whose effects of every class cost something, made one after the other or beside each
//! other, by workers that may crash between any two writes and calls. It drives the core's own functions. The outside keeps its own
//! account of what was truly charged, the world another of what the records should say; all follows from a list of numbers.

mod attempt;
mod outside;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use stepwell_core::budget::{ATTEMPTS, Reached, Span};
use stepwell_core::decide::{Decision, Resolution, Resolve, Resume, Then, Turn, resolve, resume, turn};
use stepwell_core::write::{Acquire, Write};
use stepwell_core::{
    Budget, Checkpoint, Class, EffectKey, EffectRecord, Outcome, OverBudget, ParkReason, Status, Timestamp, invariants,
};

use crate::make::dice::Dice;
use crate::make::{self, RULES};
use attempt::Attempt;
use outside::Outside;

/// What effects cost is counted on this.
const CENTS: &str = "cents";
/// A person allows no more than this many times.
const RESUMED_MOST: u32 = 4;

/// A rule that is left out, to see the search find what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeftOut {
    Nothing,
    /// Each effect is admitted.
    Admission,
    /// A read that may have happened keeps its amount.
    Sunk,
    /// What is reserved is written before the call.
    Intent,
}

/// What the records should say that was spent, by key.
type Account = BTreeMap<EffectKey, u64>;

/// What a person has allowed on top of the limits.
#[derive(Default)]
struct Allowed {
    run: u64,
    step: u64,
    attempts: u64,
}

pub(crate) struct World {
    left_out: LeftOut,
    budget: Budget,
    run: Checkpoint,
    now: Timestamp,
    attempt: Option<Attempt>,
    outside: Outside,
    /// As the worker knows it, and as it is stored. A crash forgets the difference.
    account: Account,
    stored: Account,
    /// Keys of which nobody has told the whole cost: their reserved amount stays.
    untold: BTreeSet<EffectKey>,
    allowed: Allowed,
    attempts: u64,
    resumed: u32,
    /// Where this world has been.
    pub(crate) seen: BTreeSet<&'static str>,
}

pub(crate) type Wrong = String;

fn wrong(holds: bool, what: impl FnOnce() -> String) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err(what()) }
}

impl World {
    pub(crate) fn new(left_out: LeftOut, mut dice: Dice) -> Self {
        let (of_run, of_step, attempts) = (4 + dice.pick(30), 3 + dice.pick(12), 2 + dice.pick(16));
        let budget = Budget::none().of_run(CENTS, of_run).of_step(CENTS, of_step).attempts(attempts);
        let budget = if dice.pick(4) == 0 { budget.or_fail() } else { budget };
        Self {
            left_out,
            budget,
            run: make::started(),
            now: make::T0,
            attempt: None,
            outside: Outside::default(),
            account: Account::new(),
            stored: Account::new(),
            untold: BTreeSet::new(),
            allowed: Allowed::default(),
            attempts: 0,
            resumed: 0,
            seen: BTreeSet::new(),
        }
    }

    /// Lets one thing happen.
    pub(crate) fn act(&mut self, mut dice: Dice) -> Result<(), Wrong> {
        match self.attempt.take() {
            Some(attempt) => self.work(attempt, dice)?,
            None if self.run.progress.status.phase().is_ended() => {}
            None if dice.pick(4) == 0 => self.person(dice)?,
            None if self.run.progress.status.is_live() => self.take_up()?,
            None => self.person(dice)?,
        }
        self.check()
    }

    /// Of what is spent truly, nothing is beyond the limits; of what the records say, nothing is counted twice or forgotten.
    fn check(&self) -> Result<(), Wrong> {
        let (total, of_visit) = (self.outside.total(), self.outside.of_visit);
        let most = self.budget.run[CENTS] + self.allowed.run;
        wrong(total <= most, || format!("the run has spent {total}, its limit is {most}"))?;
        let most = self.budget.step[CENTS] + self.allowed.step;
        wrong(of_visit <= most, || format!("the step has spent {of_visit}, its limit is {most}"))?;
        let most = self.budget.attempts.unwrap() + self.allowed.attempts;
        wrong(self.attempts <= most, || format!("{} attempts were made, the limit is {most}", self.attempts))?;

        let progress = &self.run.progress;
        let counted = progress.spent_with(&progress.journal).get(CENTS).copied().unwrap_or(0);
        let expected: u64 = self.stored.values().sum();
        wrong(counted == expected, || format!("the records count {counted}, they should count {expected}"))?;
        wrong(total <= counted, || format!("{total} was spent, the records count {counted}"))?;
        for (key, charged) in self.outside.charged() {
            let counted = self.stored.get(key).copied().unwrap_or(0);
            wrong(*charged <= counted, || format!("effect {key} has cost {charged}, the records count {counted}"))?;
        }
        if progress.status.phase().is_ended() { self.check_end() } else { Ok(()) }
    }

    /// Where every cost was told, what the records count is what was spent.
    fn check_end(&self) -> Result<(), Wrong> {
        for (key, counted) in self.stored.iter().filter(|(key, _)| !self.untold.contains(key)) {
            let charged = self.outside.charged_for(key);
            wrong(charged == *counted, || format!("effect {key} has cost {charged}, {counted} is counted"))?;
        }
        Ok(())
    }

    fn write(&mut self, write: Write) -> Result<(), Wrong> {
        let visit = self.run.progress.visit;
        self.run = make::write(&self.run, self.now, write).map_err(|refusal| format!("refused: {refusal}"))?;
        invariants::check(&self.run).map_err(|broken| broken.to_string())?;
        if self.run.progress.visit != visit {
            (self.outside.of_visit, self.allowed.step) = (0, 0);
        }
        Ok(())
    }

    /// A worker acquires the run.
    fn take_up(&mut self) -> Result<(), Wrong> {
        if let Status::Retrying { at } = self.run.progress.status {
            self.now = self.now.max(at);
        }
        let (ticket, lease) = (self.run.progress.ticket, make::lease(self.now, self.now.plus(RULES.lease)));
        self.write(Write::Acquire(Acquire { ticket, lease }))?;
        self.turn()
    }

    /// A worker that holds the run looks what is to be done.
    fn turn(&mut self) -> Result<(), Wrong> {
        match turn(&self.run, &self.budget, RULES, self.now).map_err(|illegal| illegal.to_string())? {
            Turn::Step => {
                self.attempts += 1;
                self.attempt = Some(Attempt::of(&self.run));
                Ok(())
            }
            Turn::Write(decision) => {
                self.saw(&decision);
                self.commit(*decision)
            }
        }
    }

    fn commit(&mut self, decision: Decision) -> Result<(), Wrong> {
        self.write(Write::Commit(Box::new(decision.commit)))?;
        self.stored = self.account.clone();
        if decision.then == Then::Continue { self.turn() } else { Ok(()) }
    }

    fn saw(&mut self, decision: &Decision) {
        match &decision.commit.progress.status {
            Status::Parked { reason: ParkReason::Budget(over), .. } => {
                self.seen.insert(if over.counter == ATTEMPTS { "parked for attempts" } else { "parked for cents" });
            }
            Status::Parked { reason: ParkReason::Poison { .. }, .. } => drop(self.seen.insert("parked as poison")),
            Status::Failed { .. } if self.budget.reached == Reached::Fail => drop(self.seen.insert("failed")),
            Status::Completed { .. } => drop(self.seen.insert("completed")),
            _ => {}
        }
    }

    /// Its worker has crashed. What only it knew is lost, and its lease has to run out.
    fn crash(&mut self, attempt: &Attempt, dice: &mut Dice) {
        let reads =
            self.run.progress.journal.iter().filter(|record| record.class == Class::Read && record.is_unknown());
        self.untold.extend(reads.map(|record| record.key.clone()));
        self.account.clone_from(&self.stored);
        self.now = self.now.plus(Duration::from_secs(31 + 20 * dice.pick(3)));
        self.seen.insert(if attempt.has_made() { "crashed after a call" } else { "crashed" });
    }

    /// Nobody will hear any more what these reads have cost.
    fn leave_reads(&mut self, attempt: &Attempt) {
        self.untold.extend(attempt.keys_of(Class::Read));
    }

    /// A person does what may be done now, and says only what is true.
    fn person(&mut self, mut dice: Dice) -> Result<(), Wrong> {
        if self.run.is_leased(self.now) {
            return Ok(());
        }
        let open = open(&self.run);
        let settle = !open.is_empty() && dice.pick(3) > 0;
        if settle { self.resolve(&open[dice.index(open.len())], &mut dice) } else { self.resume(&open) }
    }

    fn resolve(&mut self, record: &EffectRecord, dice: &mut Dice) -> Result<(), Wrong> {
        let resolution = match (self.outside.happened(&record.key), dice.pick(4)) {
            (_, 0) => Resolution::SignOff,
            (true, _) => Resolution::Succeeded(make::inline(&serde_json::json!("ok"))),
            (false, 1) => Resolution::Failed("never arrived".into()),
            (false, _) => Resolution::TryAgain,
        };
        let act = Resolve { key: record.key.clone(), resolution, by: "ann".into(), why: "seen in their books".into() };
        let Ok((amend, _)) = resolve(&self.run, &act, self.now) else { return Ok(()) };
        self.write(Write::Amend(Box::new(amend)))?;
        self.seen.insert(act.resolution.as_str());
        match act.resolution {
            Resolution::Failed(_) => drop(self.account.remove(&record.key)),
            Resolution::TryAgain if record.class.needs_intent() => drop(self.account.remove(&record.key)),
            Resolution::TryAgain => {}
            Resolution::Succeeded(_) | Resolution::SignOff => drop(self.untold.insert(record.key.clone())),
        }
        self.stored = self.account.clone();
        Ok(())
    }

    /// Resuming allows as much again. It lets be called again what may have happened, so nobody resumes where that would act twice.
    fn resume(&mut self, open: &[EffectRecord]) -> Result<(), Wrong> {
        let acts_twice = |record: &EffectRecord| {
            matches!(record.class, Class::Idempotent(Some(_))) && self.outside.happened(&record.key)
        };
        if self.resumed >= RESUMED_MOST || open.iter().any(acts_twice) {
            return Ok(());
        }
        let Ok((amend, _)) = resume(&self.run, &Resume { by: "ann".into(), why: None }, self.now) else {
            return Ok(());
        };
        if let Status::Parked { reason: ParkReason::Budget(over), .. } = &self.run.progress.status {
            let OverBudget { span, counter, limit, spent } = over;
            let more = match (span, counter.as_str()) {
                (Span::Run, ATTEMPTS) => &mut self.allowed.attempts,
                (Span::Run, _) => &mut self.allowed.run,
                (Span::Step, _) => &mut self.allowed.step,
            };
            *more += limit.max(spent);
            self.seen.insert("allowed more");
        }
        self.resumed += 1;
        self.write(Write::Amend(Box::new(amend)))
    }
}

/// Effects of the run that may have happened, as they are known best.
fn open(run: &Checkpoint) -> Vec<EffectRecord> {
    let (journal, ledger) = (&run.progress.journal, &run.progress.ledger);
    let earlier = ledger.iter().filter(|old| journal.iter().all(|new| new.key != old.key));
    journal.iter().chain(earlier).filter(|record| record.is_open()).cloned().collect()
}

fn unknown(since: Timestamp) -> Outcome {
    Outcome::Unknown { since, evidence: "in flight".into() }
}
