//! How a run ends that does not complete: what is taken back, what stands, and what is known of its effects.

use maud::{Markup, html};
use stepwell_core::Timestamp;
use stepwell_http::view::{CauseView, CertificateView, CertifiedView, DetailView, RunView, UndoView, UndoingView};

use crate::parts::badge;
use crate::parts::text::{line, name as short};
use crate::parts::time::when_at;

pub(super) fn show(view: &RunView, now: Timestamp) -> Markup {
    html! {
        @if let DetailView::Cancelled(certificate) = &view.detail { (certified(certificate, now)) }
        @if let Some(undoing) = &view.undoing { (takes_back(undoing, now)) }
        @if !view.undo.is_empty() {
            section aria-labelledby="undo-title" {
                h2 #undo-title { "Taken back if it fails or is cancelled" }
                (left(&view.undo))
            }
        }
    }
}

fn certified(certificate: &CertificateView, now: Timestamp) -> Markup {
    let CertificateView { confirmed, failed, uncertain, never_sent, undone, stands, unfinished_step, lost_attempt } =
        certificate;
    html! {
        section aria-labelledby="certificate-title" {
            h2 #certificate-title { "Certificate of its end" }
            dl.facts {
                dt { "Effects that have happened" } dd { (confirmed) }
                dt { "Effects that were refused" } dd { (failed) }
                dt { "Unfinished step" } dd { (line(unfinished_step)) }
                @if let Some(at) = lost_attempt { dt { "A lost attempt may have called the outside since" } dd { (when_at(*at, now)) } }
            }
            (several("May have happened, and signed off", uncertain, now))
            (several("Never sent", never_sent, now))
            (several("Taken back", undone, now))
            (several("Could not be taken back, and stand", stands, now))
        }
    }
}

fn takes_back(undoing: &UndoingView, now: Timestamp) -> Markup {
    let UndoingView { cause, step, undone, stands, left: still, never_sent, lost_attempt } = undoing;
    html! {
        section aria-labelledby="undoing-title" {
            h2 #undoing-title { "Taking back" }
            div.words {
                @match cause {
                    CauseView::Failed(failure) => { "It has failed at step " (line(step)) ": " (line(&failure.message)) }
                    CauseView::Cancelled => { "It was cancelled at step " (line(step)) "." }
                }
            }
            @if let Some(at) = lost_attempt { p { "A lost attempt may have called the outside since " (when_at(*at, now)) "." } }
            (several("Taken back", undone, now))
            (several("Stand", stands, now))
            (several("Never sent", never_sent, now))
            @if !still.is_empty() { h3 { "Still to be taken back, the next first" } (left(still)) }
        }
    }
}

fn several(title: &str, effects: &[CertifiedView], now: Timestamp) -> Markup {
    html! {
        @if !effects.is_empty() {
            h3 { (title) }
            ul {
                @for CertifiedView { name, class, outcome, attempts, key, until, signed_off_by, note } in effects {
                    li {
                        (line(name)) " " (badge::outcome(outcome)) " " (class) ", calls: " (attempts)
                        @if let Some(key) = key { ", key " code { (key) } }
                        @if let Some(until) = until { ", its last call gave up " (when_at(*until, now)) }
                        @if let Some(by) = signed_off_by { ", signed off by " (line(by)) }
                        @if let Some(note) = note { ": " (line(note)) }
                    }
                }
            }
        }
    }
}

fn left(effects: &[UndoView]) -> Markup {
    html! {
        ol {
            @for UndoView { name, class, key, attempts, step } in effects {
                li { (line(name)) " by step " strong { (short(step)) } ", " (class) ", calls: " (attempts) ", key " code { (key) } }
            }
        }
    }
}
