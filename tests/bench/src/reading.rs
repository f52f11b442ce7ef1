//! `reading`: what the API and the console take to show a long run, and to list among many. Time in the server alone, without a
//! network, and bytes of the answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use serde_json::Value;
use stepwell::Registry;
use stepwell_core::{Digest, RunId};
use stepwell_http::{Access, Api, Limits, Site};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

use crate::flows::{Kept, Length, Waiter};
use crate::numbers::{Times, float};
use crate::place::{Place, runtime};
use crate::sheet::{Aim, Sheet};
use crate::{Outcome, Size, folder, waiting};

/// Steps of the run that a long one is compared with: more than any page shows.
const SHORT: u64 = 500;
/// Steps of the long one.
const LONG: u64 = 10_000;
/// Runs of the place that a full one is compared with.
const FEW: u64 = 1_000;
/// Runs of the full one.
const MANY: u64 = 100_000;
/// How often each page is asked for.
const TIMES: usize = 200;
/// How often a state far back is asked for, and what it may take.
const DEEP_TIMES: usize = 20;
const DEEP_MS: f64 = 200.0;
/// Steps between the end of a run and a state a few steps ago.
const BACK: u64 = 20;
/// Entries of a page.
const PAGE: u64 = 50;
/// Runs of a page while the middle of a list is looked for.
const STRIDE: usize = 1_000;
/// What a page among many may take of the same among few.
const RATIO: f64 = 2.0;
/// An answer that is longer is no page.
const ANSWER_MAX: usize = 16 << 20;
/// What opens the API.
const KEY: &str = "a key for this process only";

pub(crate) fn measure(sheet: &mut Sheet<'_>, size: Size) -> Outcome<()> {
    let runtime = runtime()?;
    of_a_run(sheet, &runtime, size)?;
    of_a_list(sheet, &runtime, size)
}

/// A short run and a long one, page by page.
fn of_a_run(sheet: &mut Sheet<'_>, runtime: &Runtime, size: Size) -> Outcome<()> {
    let (dir, long) = (folder()?, size.of(LONG));
    let place = Place::open(dir.path(), Registry::new().with(Kept), None)?;
    let (short_run, long_run) = runtime.block_on(place.while_working(async {
        let (short, long) = (kept(&place, SHORT).await?, kept(&place, long).await?);
        Ok((short, long))
    }))?;
    let app = app(&place)?;
    let pages = |run: &RunId, steps: u64| {
        let middle = steps / 2;
        [
            ("the run", format!("/v1/runs/{run}")),
            ("newest page of the history", format!("/v1/runs/{run}/history?before={}&limit={PAGE}", steps + 1)),
            ("middle page of the history", format!("/v1/runs/{run}/history?from={middle}&limit={PAGE}")),
            ("state now", format!("/v1/runs/{run}/state?at={steps}")),
            ("state a few steps ago", format!("/v1/runs/{run}/state?at={}", steps - BACK)),
            ("the console's page", format!("/runs/{run}")),
            ("the console's page a few steps ago", format!("/runs/{run}?at={}", steps - BACK)),
        ]
    };
    for ((what, short), (_, path)) in pages(&short_run, SHORT).into_iter().zip(pages(&long_run, long)) {
        let (short, asked) = (runtime.block_on(ask(&app, &short, TIMES))?, runtime.block_on(ask(&app, &path, TIMES))?);
        compare(sheet, &format!("{what}, {long} steps"), &format!("{SHORT} steps"), &asked, &short);
    }
    // The way back to a state leads through all that came after it: this one grows with it.
    let deep = runtime.block_on(ask(&app, &format!("/v1/runs/{long_run}/state?at={}", long / 2), DEEP_TIMES))?;
    let what = format!("state in the middle, {long} steps");
    sheet.figure(&format!("{what}: median"), deep.times.median() / 1e3, "ms", Aim::AtMost(DEEP_MS));
    sheet.figure(&format!("{what}: answer"), float(deep.bytes) / 1e3, "kB", Aim::None);
    Ok(())
}

async fn kept(place: &Place, steps: u64) -> Outcome<RunId> {
    let run = place.start("kept", &Length { run: 0, steps }).await?;
    place.wait_for(&run).await?;
    Ok(run)
}

/// A place with few runs and one with many, page by page.
fn of_a_list(sheet: &mut Sheet<'_>, runtime: &Runtime, size: Size) -> Outcome<()> {
    let (few, many) = (list_of(runtime, FEW)?, list_of(runtime, size.of(MANY))?);
    for ((what, few), (_, asked)) in few.pages.iter().zip(&many.pages) {
        let (few, asked) = (few, asked);
        compare(sheet, &format!("{what}, among {}", many.runs), &format!("{FEW} runs"), asked, few);
    }
    Ok(())
}

/// The pages of a place with so many runs.
struct Listed {
    runs: u64,
    pages: Vec<(&'static str, Asked)>,
    _dir: TempDir,
}

fn list_of(runtime: &Runtime, runs: u64) -> Outcome<Listed> {
    let dir = folder()?;
    let place = Arc::new(Place::open(dir.path(), Registry::new().with(Waiter), None)?);
    runtime.block_on(waiting::create(&place, runs))?;
    let app = app(&place)?;
    let after = runtime.block_on(middle(&app, runs))?;
    let paths = [
        ("first page of the list", format!("/v1/runs?limit={PAGE}")),
        ("page in the middle of the list", format!("/v1/runs?limit={PAGE}&after={after}")),
        ("page of waiting runs of one workflow", format!("/v1/runs?limit={PAGE}&workflow=waiter&status=waiting")),
        ("the console's list", "/runs".to_owned()),
    ];
    let mut pages = Vec::new();
    for (what, path) in paths {
        pages.push((what, runtime.block_on(ask(&app, &path, TIMES))?));
    }
    Ok(Listed { runs, pages, _dir: dir })
}

/// Where the second half of the list begins.
async fn middle(app: &Router, runs: u64) -> Outcome<String> {
    let stride = STRIDE.min(usize::try_from(runs / 2)?);
    let mut next = String::new();
    for _ in 0..usize::try_from(runs / 2)? / stride {
        let after = if next.is_empty() { String::new() } else { format!("&after={next}") };
        let (_, body) = answer(app, &format!("/v1/runs?limit={stride}{after}")).await?;
        let page: Value = serde_json::from_slice(&body)?;
        page.get("next").and_then(Value::as_str).ok_or("the list ends before its middle")?.clone_into(&mut next);
    }
    Ok(next)
}

/// What a page took, and how long it is.
struct Asked {
    times: Times,
    bytes: u64,
}

/// Asks for a page again and again. The first answer warms what there is to warm, and is not counted.
async fn ask(app: &Router, path: &str, rounds: usize) -> Outcome<Asked> {
    let (mut times, mut bytes) = (Vec::with_capacity(rounds), 0);
    for round in 0..=rounds {
        let (took, body) = answer(app, path).await?;
        if round > 0 {
            times.push(took);
        }
        bytes = body.len();
    }
    Ok(Asked { times: Times::new(times), bytes: u64::try_from(bytes)? })
}

async fn answer(app: &Router, path: &str) -> Outcome<(Duration, Vec<u8>)> {
    let request = Request::get(path).header("host", "localhost").header("x-api-key", KEY).body(Body::empty())?;
    let began = Instant::now();
    let answer = app.clone().oneshot(request).await?;
    let status = answer.status();
    let body = to_bytes(answer.into_body(), ANSWER_MAX).await?;
    let took = began.elapsed();
    if !status.is_success() {
        return Err(format!("{path}: {status}: {}", String::from_utf8_lossy(&body)).into());
    }
    Ok((took, body.to_vec()))
}

fn compare(sheet: &mut Sheet<'_>, what: &str, with: &str, asked: &Asked, base: &Asked) {
    sheet.figure(&format!("{what}: median"), asked.times.median(), "µs", Aim::None);
    sheet.figure(&format!("{what}: p99"), asked.times.percentile(99), "µs", Aim::None);
    sheet.figure(&format!("{what}: answer"), float(asked.bytes) / 1e3, "kB", Aim::None);
    let ratio = asked.times.median() / base.times.median();
    sheet.figure(&format!("{what}: median / with {with}"), ratio, "", Aim::AtMost(RATIO));
    let longer = float(asked.bytes) / float(base.bytes);
    sheet.check(&format!("{what}: the answer is no page of all there is"), longer < 2.0 * RATIO);
}

/// The API and the console of this place.
fn app(place: &Place) -> Outcome<Router> {
    let access = Access::from_text(&format!("bench:admin={}", Digest::of(KEY.as_bytes())))?.with_limits(Limits::none());
    let api = Api { client: place.client.clone(), access, site: Site::default() };
    let console = stepwell_console::router(&api);
    Ok(stepwell_http::router(api).merge(console))
}
