//! The effects of a run, for people.

use std::fmt;

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
        for (number, (counter, amount)) in costs.iter().enumerate() {
            let before = if number == 0 { "; for " } else { ", " };
            write!(f, "{before}{amount} {}", harmless(counter))?;
        }
        undo.iter().try_for_each(|step| write!(f, "; step {} takes it back", harmless(step)))?;
        if *no_return { write!(f, "; what came before it stays") } else { Ok(()) }
    }
}
