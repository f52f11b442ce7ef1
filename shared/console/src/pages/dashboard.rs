//! The dashboard: how the runs are doing, each figure with what it is a sample of.

mod figures;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use maud::{Markup, html};
use stepwell_core::{Phase, Timestamp};
use stepwell_ports::Clock as _;
use stepwell_ports::system::SystemClock;

#[cfg(test)]
pub(crate) use self::figures::Overdue;
pub(crate) use self::figures::{Figures, Hour, Sample};
use crate::Console;
use crate::parts::badge;
use crate::parts::time::{span, when};
use crate::prices;
use crate::shell::{Count, Here, Page};
use crate::who::Viewer;

pub(crate) async fn get(State(console): State<Console>, viewer: Viewer, headers: HeaderMap) -> Response {
    let now = SystemClock.now();
    let sample = console.counter.sample(&console.client, now).await;
    let made = sample.map(|sample| page(&Figures::of(&sample, &viewer), now));
    console.answer(&viewer, Here::Dashboard, &headers, made.map_err(Into::into)).await
}

/// The page.
pub(crate) fn page(figures: &Figures, now: Timestamp) -> Page {
    let Figures { at, by_status, sampled, loaded, hours, overdue, late, usage } = figures;
    let main = html! {
        h1 { "Dashboard" }
        p.lead { "Counted " (when(*at, now)) ", once a minute at most." }
        ul.figures {
            (figure("Oldest overdue wake-up", &overdue.oldest.map_or_else(|| "none".into(), |at| span(now.since(at).as_millis().try_into().unwrap_or(u64::MAX) / 60_000 * 60_000)),
                &html! { "Runs past their mark: " (overdue.runs) ". The sweep wakes them within minutes; if this grows, no worker runs." },
                overdue.oldest.is_some_and(|at| now.since(at) > figures::OVERDUE_IS_BAD)))
            (figure("Waits beyond their time", &late.to_string(),
                &html! { "Runs past their mark that wait or are tried again, and whose time is over by more than a minute." }, late.found > 0))
            (figure("Duplicates avoided", &usage.effects_skipped.to_string(),
                &html! { "Calls that were answered from the record instead of being made again, in the " (loaded) " newest runs." }, false))
            (figure("Cost, estimated", &prices::estimate(usage.writes, usage.bytes, usage.step_ms),
                &html! { "Of the " (loaded) " newest runs, " (prices::basis()) }, false))
        }
        h2 { "Runs by status" }
        (statuses(by_status, *sampled))
        h2 { "Runs by hour" }
        p.note { "Of the " (sampled) " newest runs, those started; of the " (loaded) " newest, those that have ended. The last 24 hours, in UTC." }
        @if hours.iter().all(|hour| hour.started == 0 && hour.ended == 0) {
            div.empty { p { "Nothing was started in the last 24 hours. " a href="/start" { "Start a run" } "." } }
        } @else {
            div.scroll tabindex="0" role="region" aria-label="Runs by hour, a picture that scrolls" { (chart(hours)) }
            details #hours { summary { "The same as a table" } (table(hours)) }
        }
    };
    let says = format!("{} runs past their mark", overdue.runs);
    Page { title: "Dashboard".into(), here: Here::Dashboard, refresh: Some(15), says, main }
}

fn figure(name: &str, value: &str, of: &Markup, is_bad: bool) -> Markup {
    html! {
        li class=[is_bad.then_some("bad")] {
            h2 { (name) }
            p.value { (value) @if is_bad { " " (badge::badge("look", badge::Tone::Wants, badge::Shape::Question)) } }
            p.note { (of) }
        }
    }
}

fn statuses(by_status: &[(Phase, Count)], sampled: usize) -> Markup {
    html! {
        table {
            caption { "Counted among the " (sampled) " newest runs; parked and failed ones further back, too" }
            thead { tr { th scope="col" { "Status" } th scope="col" { "Runs" } } }
            tbody {
                @for (phase, count) in by_status {
                    tr {
                        th scope="row" { a href={ "/runs?status=" (phase) } { (badge::phase(*phase)) } }
                        td { (count) }
                    }
                }
            }
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "a picture needs no more than 52 bits")]
fn chart(hours: &[Hour]) -> Markup {
    let (width, height, foot) = (30.0, 120.0, 22.0);
    let most = hours.iter().map(|hour| hour.started.max(hour.ended)).max().unwrap_or(0).max(1);
    let tall = |runs: usize| runs as f64 / most as f64 * (height - 18.0);
    let all = width * hours.len() as f64;
    html! {
        svg.chart viewBox={ "0 0 " (all) " " (height + foot) } width=(all) height=(height + foot) role="img" aria-labelledby="hours-name hours-said" {
            title #hours-name { "Runs started and ended, by hour" }
            desc #hours-said { "At most " (most) " in an hour. The table below has each." }
            @for (place, Hour { from, started, ended }) in hours.iter().enumerate() {
                @let left = place as f64 * width;
                @let words = format!("{}: {started} started, {ended} ended", hour_of(*from));
                g {
                    title { (words) }
                    rect.bar.started x=(left + 4.0) y=(format!("{:.1}", height - tall(*started))) width="10" height=(format!("{:.1}", tall(*started))) {}
                    rect.bar.ended x=(left + 15.0) y=(format!("{:.1}", height - tall(*ended))) width="10" height=(format!("{:.1}", tall(*ended))) {}
                }
                @if place % 3 == 0 { text.axis x=(left + 4.0) y=(height + 15.0) { (hour_of(*from).get(11..16).unwrap_or_default()) } }
            }
            line.base x1="0" y1=(height) x2=(all) y2=(height) {}
        }
        ul.legend aria-label="Legend" {
            li { svg width="14" height="14" aria-hidden="true" focusable="false" { rect.bar.started width="14" height="14" {} } " started" }
            li { svg width="14" height="14" aria-hidden="true" focusable="false" { rect.bar.ended width="14" height="14" {} } " ended" }
        }
    }
}

fn hour_of(from: Timestamp) -> String {
    from.to_string().get(..16).map(|text| text.replacen('T', " ", 1)).unwrap_or_default()
}

fn table(hours: &[Hour]) -> Markup {
    html! {
        table {
            caption { "Runs by hour, the newest first" }
            thead { tr { th scope="col" { "Hour from" } th scope="col" { "Started" } th scope="col" { "Ended" } } }
            tbody {
                @for Hour { from, started, ended } in hours.iter().rev() {
                    tr { th scope="row" { (hour_of(*from)) } td { (started) } td { (ended) } }
                }
            }
        }
    }
}
