//! Statuses: a word and a shape, and only then a colour.

use maud::{Markup, html};
use stepwell_core::Phase;

/// How something stands, for those who see colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// As it should, and over.
    Good,
    /// It goes on by itself.
    Live,
    /// Somebody has to act.
    Wants,
    /// It went wrong.
    Bad,
    /// It is over, and nothing is to be said.
    Still,
}

/// A shape of twelve by twelve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Ring,
    Disc,
    Clock,
    Loop,
    Bars,
    Tick,
    Cross,
    Slash,
    Question,
}

/// A word with a shape before it.
pub(crate) fn badge(word: &str, tone: Tone, shape: Shape) -> Markup {
    html! { span class=(classes(tone)) { (draw(shape)) (word) } }
}

const fn classes(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "badge good",
        Tone::Live => "badge live",
        Tone::Wants => "badge wants",
        Tone::Bad => "badge bad",
        Tone::Still => "badge still",
    }
}

/// Where a run stands.
pub(crate) fn phase(phase: Phase) -> Markup {
    let (tone, shape) = match phase {
        Phase::Created => (Tone::Live, Shape::Ring),
        Phase::Running => (Tone::Live, Shape::Disc),
        Phase::Waiting => (Tone::Live, Shape::Clock),
        Phase::Retrying => (Tone::Live, Shape::Loop),
        Phase::Parked => (Tone::Wants, Shape::Bars),
        Phase::Completed => (Tone::Good, Shape::Tick),
        Phase::Failed => (Tone::Bad, Shape::Cross),
        Phase::Cancelling | Phase::Cancelled => (Tone::Still, Shape::Slash),
    };
    badge(phase.as_str(), tone, shape)
}

/// How an effect ended, by its word.
pub(crate) fn outcome(word: &str) -> Markup {
    let (tone, shape) = match word {
        "succeeded" => (Tone::Good, Shape::Tick),
        "failed" => (Tone::Bad, Shape::Cross),
        // What nobody knows, and words that this page has not heard of.
        _ => (Tone::Wants, Shape::Question),
    };
    badge(word, tone, shape)
}

/// How an approval stands, by its word.
pub(crate) fn approval(word: &str) -> Markup {
    let (tone, shape) = match word {
        "open" => (Tone::Wants, Shape::Clock),
        "approved" | "used" => (Tone::Good, Shape::Tick),
        "rejected" => (Tone::Bad, Shape::Cross),
        _ => (Tone::Still, Shape::Slash),
    };
    badge(word, tone, shape)
}

fn draw(shape: Shape) -> Markup {
    html! {
        svg class="shape" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" focusable="false" {
            @match shape {
                Shape::Ring => circle cx="6" cy="6" r="4.5" {},
                Shape::Disc => circle.full cx="6" cy="6" r="4.5" {},
                Shape::Clock => { circle cx="6" cy="6" r="5" {} path d="M6 3v3l2 2" {} },
                Shape::Loop => path d="M10 6a4 4 0 1 1-1.5-3.1M8.5 .8v2.4H6" {},
                Shape::Bars => path d="M4 2v8M8 2v8" stroke-width="2.4" {},
                Shape::Tick => path d="M2 6.5l2.8 3L10 3" {},
                Shape::Cross => path d="M3 3l6 6M9 3l-6 6" {},
                Shape::Slash => { circle cx="6" cy="6" r="4.8" {} path d="M2.8 9.2l6.4-6.4" {} },
                Shape::Question => path d="M4 4.2a2 2 0 1 1 2.8 1.9c-.6.3-.8.7-.8 1.4M6 9.6v.6" {},
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_word_and_its_shape() {
        let drawn: Vec<String> = Phase::ALL.into_iter().map(|status| phase(status).into_string()).collect();
        for (status, shown) in Phase::ALL.into_iter().zip(&drawn) {
            assert!(shown.contains(status.as_str()) && shown.contains("<svg"), "{shown}");
        }
        // Those that end are told apart without colours.
        let shape = |status: Phase| phase(status).into_string().replace(status.as_str(), "").replace(" good", "");
        assert_ne!(shape(Phase::Completed), shape(Phase::Failed).replace(" bad", ""));
    }
}
