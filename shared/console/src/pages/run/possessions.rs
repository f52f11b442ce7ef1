//! What a run has: its effects, its mail, what it has spent and used.

use maud::{Markup, html};
use stepwell_core::Timestamp;
use stepwell_http::view::{
    BudgetView, CounterView, EffectView, FailureView, OutcomeView, RunView, SignalView, UsageView,
};

use crate::parts::text::line;
use crate::parts::time::{span, when_at};
use crate::parts::{badge, json};
use crate::prices;

pub(super) fn show(view: &RunView, now: Timestamp) -> Markup {
    html! {
        section aria-labelledby="effects-title" {
            h2 #effects-title { "Effects" }
            (effects(&view.effects, now))
            @if view.effects_stored_apart > 0 { p.note { (view.effects_stored_apart) " older effects are stored apart." } }
        }
        section aria-labelledby="mail-title" {
            h2 #mail-title { "Mailbox" }
            (mail(&view.signals, now))
        }
        section aria-labelledby="spent-title" {
            h2 #spent-title { "Budget and usage" }
            (budget(&view.budget))
            (usage(&view.usage, view))
        }
    }
}

fn effects(effects: &[EffectView], now: Timestamp) -> Markup {
    if effects.is_empty() {
        return html! { p.note { "It has none on record: no call to the outside was made, or they belonged to steps that are over. The history names those." } };
    }
    html! {
        table.cards {
            caption { "Effects of this visit of its step, then those that are kept for the whole run" }
            thead { tr { th scope="col" { "Effect" } th scope="col" { "Outcome" } th scope="col" { "Evidence" } th scope="col" { "Terms" } } }
            tbody {
                @for effect in effects {
                    tr id={ "effect-" (effect.key) } {
                        th scope="row" { (line(&effect.name)) }
                        td data-label="Outcome" { (badge::outcome(word(&effect.outcome))) }
                        td data-label="Evidence" { (evidence(&effect.outcome, now)) }
                        td data-label="Terms" { (terms(effect)) }
                    }
                }
            }
        }
    }
}

const fn word(outcome: &OutcomeView) -> &'static str {
    match outcome {
        OutcomeView::Succeeded { .. } => "succeeded",
        OutcomeView::Failed(_) => "failed",
        OutcomeView::Unknown { .. } => "unknown",
    }
}

fn evidence(outcome: &OutcomeView, now: Timestamp) -> Markup {
    html! {
        @match outcome {
            OutcomeView::Succeeded { result } => (json::value(result)),
            OutcomeView::Failed(FailureView { kind, code, message }) => {
                (line(message)) " (" (kind) @if let Some(code) = code { ", " code { (line(code)) } } ")"
            }
            OutcomeView::Unknown { since, until, evidence } => {
                (line(evidence)) ", since " (when_at(*since, now))
                @if let Some(until) = until { ", may land until " (when_at(*until, now)) }
            }
        }
    }
}

fn terms(effect: &EffectView) -> Markup {
    let EffectView {
        class, key, of_run, attempts, approval, costs, undo, no_return, signed_off_by, key_kept_ms, ..
    } = effect;
    html! {
        (class) ", calls: " (attempts)
        @if let Some(kept) = key_kept_ms { ", key kept " (span(*kept)) }
        @if *of_run { ", once in the whole run" }
        @if let Some(id) = approval { ", under approval " code { (id) } }
        @for (counter, amount) in costs { ", costs " (amount) " " (line(counter)) }
        @if let Some(step) = undo { ", taken back by " (line(step)) }
        @if *no_return { ", point of no return" }
        @if let Some(by) = signed_off_by { ", signed off by " (line(by)) }
        br; code.key { (key) }
    }
}

fn mail(signals: &[SignalView], now: Timestamp) -> Markup {
    if signals.is_empty() {
        return html! { p.note { "Empty: every signal that has come was consumed." } };
    }
    html! {
        table.cards {
            caption { "Signals that were not consumed yet" }
            thead { tr { th scope="col" { "Signal" } th scope="col" { "Delivered" } th scope="col" { "Says" } th scope="col" { "Id" } } }
            tbody {
                @for SignalView { id, name, at, payload } in signals {
                    tr {
                        th scope="row" { (line(name)) }
                        td data-label="Delivered" { (when_at(*at, now)) }
                        td data-label="Says" { (json::value(payload)) }
                        td data-label="Id" { code { (line(id)) } }
                    }
                }
            }
        }
    }
}

fn budget(BudgetView { then, counters }: &BudgetView) -> Markup {
    html! {
        @if !counters.is_empty() {
            table {
                caption { "What was spent, and may be" @if let Some(then) = then { "; when it is spent: " (then) } }
                thead { tr { th scope="col" { "Counter" } th scope="col" { "Of" } th scope="col" { "Spent" } th scope="col" { "Limit" } } }
                tbody {
                    @for CounterView { of, counter, spent, limit, added } in counters {
                        tr {
                            th scope="row" { (line(counter)) }
                            td { (of) }
                            td { (spent) }
                            td {
                                @match limit { Some(limit) => (limit), None => "none" }
                                @if *added > 0 { ", of it added by a person: " (added) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn usage(usage: &UsageView, view: &RunView) -> Markup {
    let UsageView { writes, bytes, effects_made, effects_skipped, effects_confirmed, effects_failed, step_ms } = usage;
    html! {
        dl.facts {
            dt { "Steps" } dd { (view.steps) " of at most " (view.step_limit) }
            dt { "Time in steps" } dd { (span(*step_ms)) }
            dt { "Calls to the outside" } dd { (effects_made) ", happened: " (effects_confirmed) ", refused: " (effects_failed) }
            dt { "Calls avoided, since they were on record" } dd { (effects_skipped) }
            dt { "Writes" } dd { (writes) ", " (bytes) " bytes" }
            dt { "Cost on AWS, estimated" } dd { (prices::estimate(*writes, *bytes, *step_ms)) " " (prices::basis()) }
            dt { "Started" } dd { (crate::parts::time::time(view.started_at.0)) }
            dt { "Version of the workflow" } dd { (view.version) }
        }
    }
}
