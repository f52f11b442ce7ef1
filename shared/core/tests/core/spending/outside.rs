//! The outside of the spending world: what it was truly asked for and has truly charged, by its own account.

use core::time::Duration;
use std::collections::BTreeMap;

use stepwell_core::{Class, EffectKey, Timestamp};

use crate::make::dice::Dice;

/// What a caller hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It happened and cost this much.
    Done(u64),
    /// It did not and will not.
    Refused,
    /// It did not, this time.
    NotDone,
    /// Nothing: it may have happened.
    Lost,
}

#[derive(Default)]
pub(crate) struct Outside {
    happened: BTreeMap<EffectKey, (u64, Timestamp)>,
    charged: BTreeMap<EffectKey, u64>,
    /// Charged since the run's step has begun.
    pub(super) of_visit: u64,
}

impl Outside {
    /// One call that truly reaches it. It charges at most what was reserved for it.
    pub(super) fn call(
        &mut self,
        key: &EffectKey,
        class: Class,
        at_most: u64,
        now: Timestamp,
        dice: &mut Dice,
    ) -> Answer {
        let before = self.happened.get(key).filter(|(_, at)| dedupes(class, *at, now));
        let (answer, is_heard) = match (before, dice.pick(9)) {
            (Some((cost, _)), heard) => (Answer::Done(*cost), heard < 6),
            (None, 0..=4) => (Answer::Done(dice.pick(at_most + 1)), true),
            (None, 5) => (Answer::Done(dice.pick(at_most + 1)), false),
            (None, 6) => return Answer::Refused,
            (None, 7) => return Answer::NotDone,
            (None, _) => return Answer::Lost,
        };
        if let (Answer::Done(cost), None) = (answer, before) {
            self.happened.insert(key.clone(), (cost, now));
            *self.charged.entry(key.clone()).or_default() += cost;
            self.of_visit += cost;
        }
        if is_heard { answer } else { Answer::Lost }
    }

    pub(super) fn happened(&self, key: &EffectKey) -> bool {
        self.happened.contains_key(key)
    }

    /// All that it has charged.
    pub(super) fn total(&self) -> u64 {
        self.charged.values().sum()
    }

    /// The same for each key.
    pub(super) fn charged(&self) -> impl Iterator<Item = (&EffectKey, &u64)> {
        self.charged.iter()
    }

    pub(super) fn charged_for(&self, key: &EffectKey) -> u64 {
        self.charged.get(key).copied().unwrap_or(0)
    }
}

fn dedupes(class: Class, first: Timestamp, now: Timestamp) -> bool {
    match class {
        Class::Idempotent(None) => true,
        Class::Idempotent(Some(window)) => now.since(first) <= Duration::from_millis(window),
        Class::Read | Class::Reconcilable | Class::Once => false,
    }
}
