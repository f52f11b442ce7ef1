//! What an effect costs: reserved before the call, settled with its end.

use stepwell_core::Amounts;
use stepwell_core::budget::add_all;

use crate::known::{Known, Made};

impl Known<'_> {
    /// What is reserved for a call.
    pub(crate) fn reserved(&self, made: &Made) -> Amounts {
        let mut costs = made.sunk.clone();
        add_all(&mut costs, &self.costs);
        costs
    }

    /// What a call has cost that has ended: what it said, or all that was reserved.
    pub(crate) fn settled(&self, made: &Made) -> Amounts {
        let mut costs = self.reserved(made);
        if let Some(told) = self.cx.record().told.get(self.key.as_str()) {
            for (counter, amount) in told {
                let sunk = made.sunk.get(counter).copied().unwrap_or(0);
                costs.insert(counter.clone(), sunk.saturating_add(*amount));
            }
        }
        costs.retain(|_, amount| *amount > 0);
        costs
    }
}
