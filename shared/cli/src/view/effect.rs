//! The effects of a run, for people.

use std::fmt;

use stepwell_core::budget::EFFECTS;
use stepwell_http::view::{EffectView, OutcomeView};

use super::{Text, count, harmless};

impl fmt::Display for Text<'_, EffectView> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EffectView { name, class, key, attempts, outcome, approval, costs, undo, no_return, signed_off_by, .. } =
            self.0;
        write!(f, "{} ({class}), {}, key {key}: ", harmless(name), count(u64::from(*attempts), "call"))?;
        match outcome {
            OutcomeView::Succeeded { result } => write!(f, "succeeded with {}", Text(result))?,
            OutcomeView::Failed(failure) => write!(f, "failed, {}", Text(failure))?,
            OutcomeView::Unknown { since, until, evidence } => {
                write!(f, "may have happened since {since}: {}", harmless(evidence))?;
                until.iter().try_for_each(|until| write!(f, "; its call waited until {until} at the latest"))?;
            }
        }
        signed_off_by.iter().try_for_each(|who| write!(f, "; signed off by {}", harmless(who)))?;
        approval.iter().try_for_each(|id| write!(f, "; under approval {id}"))?;
        // That it is one effect is plain.
        let costs = costs.iter().filter(|(counter, _)| *counter != EFFECTS);
        for (number, (counter, amount)) in costs.enumerate() {
            let before = if number == 0 { "; for " } else { ", " };
            write!(f, "{before}{amount} {}", harmless(counter))?;
        }
        undo.iter().try_for_each(|step| write!(f, "; step {} takes it back", harmless(step)))?;
        match outcome {
            OutcomeView::Succeeded { .. } if *no_return => write!(f, "; what came before it stays"),
            OutcomeView::Unknown { .. } if *no_return => write!(f, "; what came before it stays if it has happened"),
            OutcomeView::Succeeded { .. } | OutcomeView::Unknown { .. } | OutcomeView::Failed(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use stepwell_core::{Amounts, Failure, FailureKind, Timestamp};
    use stepwell_http::view::{At, FailureView};

    use super::*;

    fn told(outcome: OutcomeView, costs: &[(&str, u64)]) -> String {
        let costs: Amounts = costs.iter().map(|(counter, amount)| ((*counter).to_owned(), *amount)).collect();
        Text(&EffectView {
            name: "refund".into(),
            class: "once",
            key_kept_ms: None,
            key: "k".into(),
            of_run: true,
            attempts: 1,
            approval: None,
            costs,
            undo: None,
            no_return: true,
            signed_off_by: None,
            outcome,
        })
        .to_string()
    }

    #[test]
    fn a_point_of_no_return_is_one_once_it_has_happened_or_may_have() {
        let refused = OutcomeView::Failed(FailureView::from(&Failure::new(FailureKind::Refused, "the card is closed")));
        assert_eq!(told(refused, &[]), "refund (once), 1 call, key k: failed, refused: the card is closed");
        let since = At(Timestamp(0));
        let unknown = OutcomeView::Unknown { since, until: None, evidence: "no answer".into() };
        assert!(told(unknown, &[]).ends_with(": no answer; what came before it stays if it has happened"));
        let result = stepwell_http::view::Value::Apart { stored_apart: 9 };
        let paid = told(OutcomeView::Succeeded { result }, &[("cents", 700), ("effects", 1)]);
        assert!(paid.ends_with("; for 700 cents; what came before it stays"), "{paid}");
    }
}
