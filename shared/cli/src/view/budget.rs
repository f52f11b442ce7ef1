//! What a run has spent, for people.

use std::fmt;

use stepwell_core::budget::{ATTEMPTS, EFFECTS, WALL_MS};
use stepwell_http::view::{BudgetView, CounterView};

use super::{Text, harmless, line};

impl fmt::Display for Text<'_, BudgetView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every run has made attempts; where they are not limited, nobody asks.
        let is_told = |view: &&CounterView| view.counter != ATTEMPTS || view.limit.is_some() || view.added > 0;
        self.0.counters.iter().filter(is_told).try_for_each(|view| line(f, "budget", Text(view)))
    }
}

impl fmt::Display for Text<'_, CounterView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CounterView { of, counter, spent, limit, added } = self.0;
        let of = if *of == "run" { "in the run" } else { "in this step" };
        let counter = unit(counter, limit.unwrap_or(*spent));
        write!(f, "{spent}")?;
        limit.iter().try_for_each(|limit| write!(f, " of {limit}"))?;
        write!(f, " {} {of}", harmless(counter))?;
        if *added > 0 { write!(f, ", {added} of them added by a person") } else { Ok(()) }
    }
}

/// What a counter counts, in words. The names of a workflow's own are the author's.
pub(crate) fn unit(counter: &str, number: u64) -> &str {
    match (counter, number) {
        (WALL_MS, _) => "milliseconds of age",
        (EFFECTS, 1) => "effect",
        (ATTEMPTS, 1) => "attempt",
        ("steps", 1) => "step",
        (other, _) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_is_told_beside_what_may_be() {
        let view = |counter: &str, spent, limit, added| CounterView {
            of: "run",
            counter: counter.into(),
            spent,
            limit,
            added,
        };
        let told = |view: CounterView| Text(&BudgetView { then: None, counters: vec![view] }).to_string();
        assert!(told(view("cents", 70, None, 0)).ends_with(" 70 cents in the run\n"));
        let more = told(view("cents", 70, Some(300), 200));
        assert!(more.ends_with(" 70 of 300 cents in the run, 200 of them added by a person\n"), "{more}");
        assert!(told(view(WALL_MS, 5, Some(9), 0)).ends_with(" 5 of 9 milliseconds of age in the run\n"));
        assert!(told(view(EFFECTS, 1, None, 0)).ends_with(" 1 effect in the run\n"));
        assert!(told(view(EFFECTS, 1, Some(2), 0)).ends_with(" 1 of 2 effects in the run\n"));
        assert_eq!(told(view(ATTEMPTS, 3, None, 0)), "");
        assert!(told(view(ATTEMPTS, 3, Some(9), 0)).ends_with(" 3 of 9 attempts in the run\n"));
    }
}
