//! Times: in UTC, and how long ago that is.

use maud::{Markup, html};
use stepwell_core::Timestamp;
use stepwell_http::view::At;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// A time, and how far that is from now. Distances are told in minutes at least, so that a page that has not changed reads the
/// same for a while.
pub(crate) fn when(at: Timestamp, now: Timestamp) -> Markup {
    html! { (time(at)) " " span.rel { "(" (distance(at, now)) ")" } }
}

/// The same for what a view holds.
pub(crate) fn when_at(at: At, now: Timestamp) -> Markup {
    when(at.0, now)
}

/// A time alone.
pub(crate) fn time(at: Timestamp) -> Markup {
    let exact = at.to_string();
    // `2026-11-30T18:14:19.123Z`, whose seconds are enough for a person.
    let shown = exact.get(..19).unwrap_or(&exact).replacen('T', " ", 1);
    html! { time datetime=(exact) title=(exact) { (shown) " UTC" } }
}

/// How far a time is from now, in words.
pub(crate) fn distance(at: Timestamp, now: Timestamp) -> String {
    let (past, ms) = (at <= now, at.0.abs_diff(now.0));
    match (past, ms / MINUTE) {
        (true, 0) => "under 1 min ago".into(),
        (false, 0) => "in under 1 min".into(),
        (true, _) => format!("{} ago", rough(ms)),
        (false, _) => format!("in {}", rough(ms)),
    }
}

fn rough(ms: u64) -> String {
    match ms {
        ..HOUR => format!("{} min", ms / MINUTE),
        HOUR..DAY => format!("{} h {} min", ms / HOUR, ms % HOUR / MINUTE),
        DAY.. => format!("{} d {} h", ms / DAY, ms % DAY / HOUR),
    }
}

/// A span of milliseconds, in the two units that matter.
pub(crate) fn span(ms: u64) -> String {
    match ms {
        ..1_000 => format!("{ms} ms"),
        1_000..10_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        10_000..MINUTE => format!("{} s", ms / 1_000),
        MINUTE..HOUR => format!("{} min {} s", ms / MINUTE, ms % MINUTE / 1_000),
        HOUR.. => rough(ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_for_programs_and_people() {
        let shown = when(Timestamp(1_700_000_000_123), Timestamp(1_700_000_180_000)).into_string();
        let expected = r#"<time datetime="2023-11-14T22:13:20.123Z" title="2023-11-14T22:13:20.123Z">2023-11-14 22:13:20 UTC</time> <span class="rel">(2 min ago)</span>"#;
        assert_eq!(shown, expected);
        // The end of time has more digits.
        assert!(time(Timestamp(u64::MAX)).into_string().contains("UTC"));
    }

    #[test]
    fn distances_and_spans_have_two_units() {
        let now = Timestamp(10 * DAY);
        for (at, words) in [
            (now.0, "under 1 min ago"),
            (now.0 + 59_999, "in under 1 min"),
            (now.0 - 61_000, "1 min ago"),
            (now.0 + HOUR + MINUTE, "in 1 h 1 min"),
            (now.0 - 2 * DAY - HOUR, "2 d 1 h ago"),
        ] {
            assert_eq!(distance(Timestamp(at), now), words);
        }
        for (ms, words) in [(7, "7 ms"), (1_250, "1.2 s"), (59_999, "59 s"), (61_000, "1 min 1 s"), (HOUR, "1 h 0 min")]
        {
            assert_eq!(span(ms), words);
        }
    }
}
