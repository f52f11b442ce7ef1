//! The timeline: what happened when, drawn on the server. The history table below it says the same in words.

use maud::{Markup, html};
use stepwell_core::history::{EffectLine, EntryKind, LineOutcome};
use stepwell_core::{Phase, Timestamp};
use stepwell_engine::HistoryEntry;

use super::history::{is_about_to_be_called, started};
use super::{Model, is_live};
use crate::parts::text::plain;
use crate::parts::time::span;

/// The picture's width, and of it what names the rows.
const WIDTH: f64 = 960.0;
const NAMES: f64 = 190.0;
/// A row's height, and of its bars.
const ROW: f64 = 24.0;
const BAR: f64 = 12.0;
/// Above the first row.
const TOP: f64 = 26.0;
/// However short something was, it is seen.
const WIDTH_MIN: f64 = 3.0;
/// More visits than this are drawn one row a step, not one row a visit.
const VISITS_MAX: usize = 40;
/// Characters of a row's name.
const NAME_CHARS: usize = 24;
/// How much a span is shortened: its width grows with this power of its length.
const SHORTENED: f64 = 0.35;

/// What a bar stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bar {
    /// An attempt that has ended its step.
    Attempt,
    /// One that has failed.
    FailedAttempt,
    /// The run waits.
    Wait,
    /// The pause before another attempt.
    Delay,
    /// It stands still until a person acts.
    Parked,
    /// Its next step waits for a worker, or runs.
    Ready,
}

/// What a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Succeeded,
    Failed,
    Unknown,
    /// The intent of a call was written.
    Intent,
    /// A person has acted.
    Person,
    /// The run has ended.
    End,
}

struct Span {
    row: usize,
    from: u64,
    to: u64,
    bar: Bar,
    words: String,
}

struct Point {
    row: usize,
    at: u64,
    mark: Mark,
    words: String,
}

/// What is drawn.
#[derive(Default)]
struct Drawing {
    rows: Vec<String>,
    spans: Vec<Span>,
    points: Vec<Point>,
}

pub(super) fn show(model: &Model) -> Markup {
    let entries = &model.history.entries;
    if entries.is_empty() {
        return html! {};
    }
    // A whole minute, so that a run that waits is drawn the same for a while.
    let now = model.now.0.div_ceil(60_000).saturating_mul(60_000);
    let open = model.is_newest.then_some((model.view.status, now));
    let drawing = Drawing::of(entries, open);
    html! {
        section aria-labelledby="timeline-title" {
            h2 #timeline-title { "Timeline" }
            div.scroll tabindex="0" role="region" aria-label="Timeline, a picture that scrolls" { (draw(&drawing)) }
            (legend())
            p.note { "Long spans are drawn shorter than they are. The " a href="#history" { "history" } " has the same in words." }
        }
    }
}

impl Drawing {
    fn of(entries: &[HistoryEntry], open: Option<(Phase, u64)>) -> Self {
        let mut drawing = Self::default();
        let by_step = visits(entries) > VISITS_MAX;
        let (mut row, mut is_over) = (None::<usize>, true);
        for (place, whole) in entries.iter().enumerate() {
            let HistoryEntry { revision, at, entry } = whole;
            let same = row.is_some_and(|row| drawing.rows[row] == entry.step);
            if is_over || !same {
                row = Some(drawing.row(&entry.step, by_step));
            }
            let Some(row) = row else { continue };
            is_over = ends_visit(entry.kind);
            let what = format!("{} {}, revision {}", entry.step, entry.kind.as_str(), revision.0);
            if let Some(bar) = attempt(entry.kind) {
                let words = format!("{what}, took {}", span(entry.took));
                drawing.spans.push(Span { row, from: started(whole).0, to: at.0, bar, words });
            }
            drawing.marks(row, at.0, entry.kind, &entry.more.effects, &what);
            let next = entries.get(place + 1).map(|next| started(next).0);
            drawing.idle(row, whole, next, now_or_none(open));
        }
        drawing
    }

    fn row(&mut self, step: &str, by_step: bool) -> usize {
        let known = by_step.then(|| self.rows.iter().position(|known| known == step)).flatten();
        known.unwrap_or_else(|| {
            self.rows.push(step.to_owned());
            self.rows.len() - 1
        })
    }

    fn marks(&mut self, row: usize, at: u64, kind: EntryKind, effects: &[EffectLine], what: &str) {
        let known = effects.iter().filter(|effect| !is_about_to_be_called(kind, effect.outcome));
        for EffectLine { name, outcome, .. } in known {
            let mark = match outcome {
                LineOutcome::Succeeded => Mark::Succeeded,
                LineOutcome::Failed => Mark::Failed,
                LineOutcome::Unknown => Mark::Unknown,
            };
            self.points.push(Point { row, at, mark, words: format!("effect {name}: {}", outcome.as_str()) });
        }
        if let Some(mark) = mark(kind) {
            self.points.push(Point { row, at, mark, words: what.to_owned() });
        }
    }

    /// What comes after an entry until the next attempt begins, or until now.
    fn idle(&mut self, row: usize, whole: &HistoryEntry, next: Option<u64>, now: Option<u64>) {
        let HistoryEntry { at: Timestamp(from), entry, .. } = whole;
        let Some((bar, words)) = after(entry.kind) else { return };
        let Some(to) = next.or(now).filter(|to| to > from) else { return };
        let step = &entry.step;
        let words = match next {
            Some(to) => format!("{step}: {words} {}", span(to - from)),
            None => format!("{step}: {words} until now"),
        };
        self.spans.push(Span { row, from: *from, to, bar, words });
    }
}

/// Until when what goes on is drawn: now, unless the run has ended.
fn now_or_none(open: Option<(Phase, u64)>) -> Option<u64> {
    open.filter(|(phase, _)| is_live(*phase) || *phase == Phase::Parked).map(|(_, now)| now)
}

fn visits(entries: &[HistoryEntry]) -> usize {
    entries.iter().filter(|entry| ends_visit(entry.entry.kind)).count()
}

const fn ends_visit(kind: EntryKind) -> bool {
    match kind {
        EntryKind::Stepped
        | EntryKind::Waited
        | EntryKind::Moved
        | EntryKind::Undoing
        | EntryKind::Undone
        | EntryKind::LetStand
        | EntryKind::Completed
        | EntryKind::Failed
        | EntryKind::Cancelled => true,
        EntryKind::LookedUp
        | EntryKind::Intended
        | EntryKind::Retried
        | EntryKind::Parked
        | EntryKind::Resumed
        | EntryKind::Resolved
        | EntryKind::Answered
        | EntryKind::Edited
        | EntryKind::Reopened => false,
    }
}

/// The attempt that an entry tells of, if it does.
const fn attempt(kind: EntryKind) -> Option<Bar> {
    match kind {
        EntryKind::Stepped | EntryKind::Waited | EntryKind::Undone | EntryKind::Completed => Some(Bar::Attempt),
        EntryKind::Retried | EntryKind::Failed | EntryKind::Undoing | EntryKind::Parked => Some(Bar::FailedAttempt),
        EntryKind::LookedUp
        | EntryKind::Intended
        | EntryKind::Resumed
        | EntryKind::Resolved
        | EntryKind::Answered
        | EntryKind::LetStand
        | EntryKind::Moved
        | EntryKind::Edited
        | EntryKind::Reopened
        | EntryKind::Cancelled => None,
    }
}

/// What is the case after an entry.
const fn after(kind: EntryKind) -> Option<(Bar, &'static str)> {
    match kind {
        EntryKind::Waited | EntryKind::LookedUp => Some((Bar::Wait, "waits")),
        EntryKind::Retried => Some((Bar::Delay, "pauses before another attempt")),
        EntryKind::Parked | EntryKind::Edited | EntryKind::Moved => Some((Bar::Parked, "stands still")),
        EntryKind::Stepped
        | EntryKind::Resumed
        | EntryKind::Resolved
        | EntryKind::Answered
        | EntryKind::LetStand
        | EntryKind::Reopened
        | EntryKind::Undoing
        | EntryKind::Undone
        | EntryKind::Intended => Some((Bar::Ready, "is ready, or at work")),
        EntryKind::Completed | EntryKind::Failed | EntryKind::Cancelled => None,
    }
}

const fn mark(kind: EntryKind) -> Option<Mark> {
    match kind {
        EntryKind::Intended => Some(Mark::Intent),
        EntryKind::Resumed
        | EntryKind::Resolved
        | EntryKind::Answered
        | EntryKind::LetStand
        | EntryKind::Edited
        | EntryKind::Moved
        | EntryKind::Reopened => Some(Mark::Person),
        EntryKind::Completed | EntryKind::Failed | EntryKind::Cancelled => Some(Mark::End),
        EntryKind::Stepped
        | EntryKind::Waited
        | EntryKind::LookedUp
        | EntryKind::Retried
        | EntryKind::Parked
        | EntryKind::Undoing
        | EntryKind::Undone => None,
    }
}

/// From times to places: each stretch between two of the times that matter gets a width that grows slower than it.
struct Axis(Vec<(u64, f64)>);

impl Axis {
    #[allow(clippy::cast_precision_loss, reason = "a picture needs no more than 52 bits")]
    fn of(drawing: &Drawing) -> Self {
        let mut times: Vec<u64> = drawing.spans.iter().flat_map(|span| [span.from, span.to]).collect();
        times.extend(drawing.points.iter().map(|point| point.at));
        times.sort_unstable();
        times.dedup();
        let weights: Vec<f64> =
            times.windows(2).map(|pair| ((pair[1] - pair[0]) as f64 + 1.0).powf(SHORTENED)).collect();
        let all: f64 = weights.iter().sum::<f64>().max(1.0);
        let (mut at, mut places) = (NAMES, Vec::with_capacity(times.len()));
        for (place, time) in times.iter().enumerate() {
            if place > 0 {
                at += weights[place - 1] / all * (WIDTH - NAMES - 16.0);
            }
            places.push((*time, at));
        }
        Self(places)
    }

    /// The place of a time that matters.
    fn place(&self, time: u64) -> f64 {
        let found = self.0.binary_search_by_key(&time, |(known, _)| *known);
        found.ok().and_then(|place| self.0.get(place)).map_or(NAMES, |(_, at)| *at)
    }
}

#[allow(clippy::cast_precision_loss, reason = "there are a few hundred rows at most")]
fn row_top(row: usize) -> f64 {
    TOP + row as f64 * ROW
}

fn number(place: f64) -> String {
    format!("{place:.1}")
}

fn draw(drawing: &Drawing) -> Markup {
    let axis = Axis::of(drawing);
    let height = row_top(drawing.rows.len()) + 6.0;
    let (first, last) = (axis.0.first().map_or(0, |(time, _)| *time), axis.0.last().map_or(0, |(time, _)| *time));
    let said = format!(
        "{} rows, from {} to {}: {} attempts and pauses, {} marks.",
        drawing.rows.len(),
        Timestamp(first),
        Timestamp(last),
        drawing.spans.len(),
        drawing.points.len()
    );
    html! {
        svg.chart viewBox={ "0 0 " (WIDTH) " " (number(height)) } width=(WIDTH) height=(number(height)) role="img"
            aria-labelledby="timeline-name timeline-said" {
            title #timeline-name { "Timeline of the run" }
            desc #timeline-said { (said) }
            text.axis x=(NAMES) y="14" { (plain(&short_time(first))) }
            text.axis x=(WIDTH - 4.0) y="14" text-anchor="end" { (plain(&short_time(last))) }
            @for (row, name) in drawing.rows.iter().enumerate() {
                @if row % 2 == 0 { rect.stripe x="0" y=(number(row_top(row))) width=(WIDTH) height=(ROW) {} }
                text.name x="6" y=(number(row_top(row) + 16.0)) { (cut(name)) title { (plain(name)) } }
            }
            @for Span { row, from, to, bar, words } in &drawing.spans {
                @let left = axis.place(*from);
                @let width = (axis.place(*to) - left).max(WIDTH_MIN);
                rect class=(bar.class()) x=(number(left)) y=(number(row_top(*row) + (ROW - BAR) / 2.0))
                    width=(number(width)) height=(BAR) rx="2" { title { (plain(words)) } }
            }
            @for Point { row, at, mark, words } in &drawing.points {
                (shape(*mark, axis.place(*at), row_top(*row) + ROW / 2.0, words))
            }
        }
    }
}

fn short_time(ms: u64) -> String {
    Timestamp(ms).to_string().get(..19).map(|text| text.replacen('T', " ", 1)).unwrap_or_default()
}

fn cut(name: &str) -> String {
    let plain = plain(name);
    if plain.chars().nth(NAME_CHARS).is_none() {
        return plain;
    }
    plain.chars().take(NAME_CHARS - 1).chain(['…']).collect()
}

impl Bar {
    const ALL: [Self; 6] = [Self::Attempt, Self::FailedAttempt, Self::Wait, Self::Delay, Self::Parked, Self::Ready];

    const fn class(self) -> &'static str {
        match self {
            Self::Attempt => "bar attempt",
            Self::FailedAttempt => "bar failed",
            Self::Wait => "bar wait",
            Self::Delay => "bar delay",
            Self::Parked => "bar parked",
            Self::Ready => "bar ready",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Attempt => "attempt",
            Self::FailedAttempt => "attempt that failed or parked the run",
            Self::Wait => "waits",
            Self::Delay => "pause before another attempt",
            Self::Parked => "stands still until a person acts",
            Self::Ready => "ready, or at work",
        }
    }
}

impl Mark {
    const ALL: [Self; 6] = [Self::Succeeded, Self::Failed, Self::Unknown, Self::Intent, Self::Person, Self::End];

    const fn words(self) -> &'static str {
        match self {
            Self::Succeeded => "effect that has happened",
            Self::Failed => "effect that was refused",
            Self::Unknown => "effect that may have happened",
            Self::Intent => "a call is about to be made",
            Self::Person => "a person has acted",
            Self::End => "the end",
        }
    }
}

/// Each mark has a shape of its own, so that nobody has to tell colours apart.
fn shape(mark: Mark, x: f64, y: f64, words: &str) -> Markup {
    let at = format!("translate({} {})", number(x), number(y));
    html! {
        g.mark transform=(at) {
            title { (plain(words)) }
            @match mark {
                Mark::Succeeded => circle.good r="4.5" {},
                Mark::Failed => path.bad d="M-4-4L4 4M4-4L-4 4" {},
                Mark::Unknown => path.wants d="M0-6L6 0L0 6L-6 0Z" {},
                Mark::Intent => path.thin d="M0-8V8" {},
                Mark::Person => path.person d="M0-6L6 5H-6Z" {},
                Mark::End => rect.end x="-4.5" y="-4.5" width="9" height="9" {},
            }
        }
    }
}

fn legend() -> Markup {
    html! {
        ul.legend aria-label="Legend" {
            @for bar in Bar::ALL {
                li {
                    svg width="22" height="14" viewBox="0 0 22 14" aria-hidden="true" focusable="false" {
                        rect class=(bar.class()) x="1" y="1" width="20" height="12" rx="2" {}
                    }
                    " " (bar.words())
                }
            }
            @for mark in Mark::ALL {
                li {
                    svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true" focusable="false" { (shape(mark, 9.0, 9.0, mark.words())) }
                    " " (mark.words())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use stepwell_core::Revision;
    use stepwell_core::history::{Entry, More};

    use super::*;

    fn entry(revision: u64, at: u64, took: u64, step: &str, kind: EntryKind) -> HistoryEntry {
        let entry = Entry { step: step.into(), kind, at: 0, took, more: More::default() };
        HistoryEntry { revision: Revision(revision), at: Timestamp(at), entry }
    }

    fn bars(drawing: &Drawing) -> Vec<(usize, u64, u64, Bar)> {
        drawing.spans.iter().map(|span| (span.row, span.from, span.to, span.bar)).collect()
    }

    #[test]
    fn attempts_waits_and_pauses_have_their_bars() {
        let entries = [
            entry(1, 1_000, 100, "Ask", EntryKind::Waited),
            entry(2, 9_000, 500, "Pay", EntryKind::Retried),
            entry(3, 12_000, 1_000, "Pay", EntryKind::Stepped),
            entry(4, 13_000, 1_000, "Mail", EntryKind::Completed),
        ];
        let drawing = Drawing::of(&entries, Some((Phase::Completed, 99_000)));
        assert_eq!(drawing.rows, ["Ask", "Pay", "Mail"]);
        let expected = [
            (0, 900, 1_000, Bar::Attempt),
            (0, 1_000, 8_500, Bar::Wait),
            (1, 8_500, 9_000, Bar::FailedAttempt),
            (1, 9_000, 11_000, Bar::Delay),
            (1, 11_000, 12_000, Bar::Attempt),
            (2, 12_000, 13_000, Bar::Attempt),
        ];
        assert_eq!(bars(&drawing), expected);
    }

    #[test]
    fn what_goes_on_is_drawn_until_now() {
        let entries = [entry(1, 1_000, 100, "Ask", EntryKind::Waited)];
        let drawn = |phase| bars(&Drawing::of(&entries, Some((phase, 60_000)))).len();
        assert_eq!((drawn(Phase::Waiting), drawn(Phase::Completed)), (2, 1));
        assert_eq!(Drawing::of(&entries, None).spans.len(), 1);
    }

    #[test]
    fn many_visits_share_the_rows_of_their_steps() {
        let entries: Vec<HistoryEntry> = (1..=200)
            .map(|n| entry(n, n * 1_000, 10, if n % 2 == 0 { "A" } else { "B" }, EntryKind::Stepped))
            .collect();
        let drawing = Drawing::of(&entries, None);
        assert_eq!(drawing.rows, ["B", "A"]);
        assert_eq!(Drawing::of(&entries[..10], None).rows.len(), 10);
        let shown = draw(&drawing).into_string();
        assert!(shown.len() < 60_000, "{}", shown.len());
    }

    #[test]
    fn nothing_is_drawn_outside_or_in_another_order() {
        let day = 86_400_000;
        let entries = [
            entry(1, 10, 5, "A", EntryKind::Waited),
            entry(2, 10 + 30 * day, 5, "B", EntryKind::Retried),
            entry(3, 11 + 30 * day, u64::MAX, "B", EntryKind::Completed),
        ];
        let axis = Axis::of(&Drawing::of(&entries, None));
        for pair in axis.0.windows(2) {
            assert!(pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1, "{:?}", axis.0);
        }
        for (_, place) in &axis.0 {
            assert!((NAMES..=WIDTH).contains(place), "{:?}", axis.0);
        }
        // A month does not push all else off.
        assert!(axis.place(10) - axis.place(5) > 0.4, "{:?}", axis.0);
    }

    #[test]
    fn hostile_steps_are_text() {
        let entries = [entry(1, 10, 5, "</text><script>\u{202e}", EntryKind::Stepped)];
        let shown = draw(&Drawing::of(&entries, None)).into_string();
        assert!(
            !shown.contains("<script>") && !shown.contains('\u{202e}') && shown.contains("&lt;script&gt;"),
            "{shown}"
        );
    }
}
