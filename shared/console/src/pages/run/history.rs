//! The history as a table: what the chart shows, in words.

use maud::{Markup, html};
use stepwell_core::history::{EffectLine, Entry, EntryKind, LineOutcome};
use stepwell_core::{Revision, Timestamp};
use stepwell_engine::HistoryEntry;

use super::Model;
use crate::parts::badge;
use crate::parts::text::line;
use crate::parts::time::{span, time};

pub(super) fn show(model: &Model) -> Markup {
    let Model { view, history, is_newest, .. } = model;
    html! {
        section #history aria-labelledby="history-title" {
            h2 #history-title { "History" }
            @if history.entries.is_empty() { p.note { "Nothing has been written yet: a worker has to take the run up first." } }
            @else { (table(model)) }
            nav.pages aria-label="Pages of the history" {
                @if !is_newest { a href={ "/runs/" (view.run) "#history" } { "Newest entries" } }
                @if let Some(before) = history.next { a href={ "/runs/" (view.run) "?before=" (before.0) "#history" } { "Older entries" } }
            }
        }
    }
}

fn table(model: &Model) -> Markup {
    let entries = &model.history.entries;
    let (first, last) = (entries.first(), entries.last());
    let number = |entry: Option<&HistoryEntry>| entry.map_or(0, |entry| entry.revision.0);
    let next_start = |place: usize| entries.get(place + 1).map(started);
    html! {
        table.cards {
            caption { "Commits " (number(first)) " to " (number(last)) ", the newest first" }
            thead {
                tr {
                    th scope="col" { "Revision" }
                    th scope="col" { "When" }
                    th scope="col" { "Step" }
                    th scope="col" { "What" }
                    th scope="col" { "Took" }
                    th scope="col" { "Then nothing for" }
                    th scope="col" { "Effects" }
                    th scope="col" { "Note" }
                }
            }
            tbody {
                @for (place, entry) in entries.iter().enumerate().rev() { (row(&model.view.run, entry, next_start(place))) }
            }
        }
    }
}

/// When the attempt began that an entry tells of.
pub(super) fn started(HistoryEntry { at, entry, .. }: &HistoryEntry) -> Timestamp {
    Timestamp(at.0.saturating_sub(entry.took))
}

fn row(run: &stepwell_core::RunId, whole: &HistoryEntry, next: Option<Timestamp>) -> Markup {
    let HistoryEntry { revision: Revision(revision), at, entry } = whole;
    let idle = next.map(|next| next.0.saturating_sub(at.0)).filter(|ms| *ms > 0);
    html! {
        tr id={ "revision-" (revision) } {
            th scope="row" data-label="Revision" { a href={ "/runs/" (run) "?at=" (revision) "#state" } { (revision) span.away { ", show the state after it" } } }
            td data-label="When" { (time(*at)) }
            td data-label="Step" { (line(&entry.step)) }
            td data-label="What" {
                (entry.kind.as_str())
                @if entry.more.failed_attempts > 0 { ", failed attempts: " (entry.more.failed_attempts) }
            }
            td data-label="Took" { (span(entry.took)) }
            td data-label="Then nothing for" { @match idle { Some(ms) => (span(ms)), None => span.absent { "—" } } }
            td data-label="Effects" { (effects(entry)) }
            td data-label="Note" { @match &entry.more.note { Some(note) => (line(note)), None => span.absent { "—" } } }
        }
    }
}

fn effects(entry: &Entry) -> Markup {
    let effects = &entry.more.effects;
    html! {
        @if effects.is_empty() { span.absent { "—" } }
        @else {
            ul.plain {
                @for EffectLine { name, class, outcome, attempts } in effects {
                    li {
                        (line(name)) " "
                        @if is_about_to_be_called(entry.kind, *outcome) { "is about to be called, " }
                        @else { (badge::outcome(outcome.as_str())) " " }
                        (class.as_str()) @if *attempts != 1 { ", calls: " (attempts) }
                    }
                }
            }
        }
    }
}

/// An intent is written before its call: at that time nobody can know more, and nothing is wrong.
pub(super) const fn is_about_to_be_called(kind: EntryKind, outcome: LineOutcome) -> bool {
    matches!((kind, outcome), (EntryKind::Intended, LineOutcome::Unknown))
}
