//! `chain`: one run of many plain steps. What a step costs in time, writes and bytes, and whether that grows.

use std::sync::Arc;
use stepwell::Registry;
use stepwell_core::{Checkpoint, Status};

use crate::flows::{Chain, Entered, Length, MARK_STEPS, Mark, Probe};
use crate::numbers::{Times, float, median, per};
use crate::place::{Place, runtime};
use crate::sheet::{Aim, Sheet};
use crate::{Outcome, Size, folder};

/// Steps of a window at the beginning and at the end of the long run.
const WINDOW: usize = 500;
/// Steps that are compared with the disk's own time in between them.
const STRETCH: usize = 200;

pub(crate) fn measure(sheet: &mut Sheet<'_>, size: Size) -> Outcome<()> {
    let (short, long, dir) = (100, size.of(10_000), folder()?);
    let probe = Arc::<Probe>::default();
    let place = Place::open(dir.path(), Registry::new().with(Chain(Arc::clone(&probe))), None)?;
    probe.watch(&place.local, dir.path())?;
    let (first, second) = runtime()?.block_on(
        place.while_working(async { Ok((run(&place, &probe, short).await?, run(&place, &probe, long).await?)) }),
    )?;
    report(sheet, "short run", &first, short);
    report(sheet, "long run", &second, long);
    growth(sheet, &second);
    let stretches = second.entries.chunks(STRETCH);
    let ratios = stretches.map(|stretch| times(stretch).median() / syncs(stretch).median()).collect();
    let all = syncs(&second.entries);
    sheet.figure("fdatasync of 4 KiB in between, p50", all.median(), "µs", Aim::None);
    sheet.figure("fdatasync of 4 KiB in between, p99", all.percentile(99), "µs", Aim::None);
    sheet.figure("median step / median fdatasync, median stretch", median(ratios), "", Aim::AtMost(2.0));
    Ok(())
}

/// What a step costs at the end of a long run, against what it costs at the beginning.
fn growth(sheet: &mut Sheet<'_>, Measured { entries, marks, .. }: &Measured) {
    let window = WINDOW.min(entries.len() / 4);
    let (first, last) =
        (entries.get(..window).unwrap_or_default(), entries.get(entries.len() - window..).unwrap_or_default());
    let raw = times(last).median() / times(first).median();
    sheet.figure("median step, end / beginning", raw, "", Aim::None);
    let disk = syncs(last).median() / syncs(first).median();
    sheet.figure("the same, where the disk's own time is taken out", raw / disk, "", Aim::AtMost(1.1));
    let (begin, end) = at_the_ends(marks, window, &|from, to| Some(float(to.processor? - from.processor?)));
    sheet.figure("processor time a step, end / beginning", end / begin, "", Aim::AtMost(1.1));
    let (begin, end) = log_bytes_at_the_ends(marks, window);
    sheet.figure("log bytes a step, end / beginning", end / begin, "", Aim::AtMost(1.1));
}

/// One run that was measured.
struct Measured {
    entries: Vec<Entered>,
    marks: Vec<Mark>,
    ended: Checkpoint,
}

async fn run(place: &Place, probe: &Probe, steps: u64) -> Outcome<Measured> {
    let run = place.start("chain", &Length { run: 0, steps }).await?;
    probe.ends(1).await;
    let ended = place.wait_for(&run).await?;
    let (entries, marks) = probe.take();
    Ok(Measured { entries, marks, ended })
}

fn report(sheet: &mut Sheet<'_>, name: &str, measured: &Measured, steps: u64) {
    let Measured { entries, marks, ended } = measured;
    let output = steps * (steps + 1) / 2;
    let right = matches!(&ended.progress.status, Status::Completed { output: stepwell_core::Payload::Inline(json), .. }
        if json.text() == output.to_string());
    sheet.check(&format!("the {name} has the right result"), right && entries.len() as u64 == steps);
    let mut figure =
        |what: &str, value: f64, unit: &str, aim| sheet.figure(&format!("{name}: {what}"), value, unit, aim);
    let times = times(entries);
    figure("steps made", float(steps), "", Aim::None);
    figure("steps", float(steps - 1) / times.total().as_secs_f64(), "/s", Aim::None);
    figure("step, p50", times.median(), "µs", Aim::None);
    figure("step, p99", times.percentile(99), "µs", Aim::None);
    figure("conditional writes a step", per(ended.progress.usage.writes, steps), "", Aim::AtMost(1.1));
    if let (Some(first), Some(last)) = (marks.first(), marks.last())
        && last.step > first.step
    {
        let between = last.step - first.step;
        let syncs = last.stats.transactions - first.stats.transactions;
        figure("syncs a step", per(syncs, between), "", Aim::AtMost(1.1));
        figure("log bytes a step", per(last.stats.log_bytes - first.stats.log_bytes, between), "B", Aim::None);
        if let (Some(before), Some(after)) = (first.written, last.written) {
            figure("bytes written a step (/proc/self/io)", per(after - before, between), "B", Aim::None);
        }
        if let (Some(before), Some(after)) = (first.processor, last.processor) {
            figure("processor time a step", per(after - before, between) / 1e3, "µs", Aim::None);
        }
    }
}

/// From one step's beginning to the next one's, without what the disk was asked in between.
fn times(entries: &[Entered]) -> Times {
    Times::new(entries.windows(2).filter_map(|pair| Some(pair.get(1)?.at - pair.first()?.on)))
}

/// What the disk took by itself.
fn syncs(entries: &[Entered]) -> Times {
    Times::new(entries.iter().filter_map(|entry| entry.sync))
}

/// Log bytes a step in the first and in the last `window` steps. Marks are [`MARK_STEPS`] apart.
pub(crate) fn log_bytes_at_the_ends(marks: &[Mark], window: usize) -> (f64, f64) {
    at_the_ends(marks, window, &|from, to| Some(float(to.stats.log_bytes - from.stats.log_bytes)))
}

fn at_the_ends(marks: &[Mark], window: usize, used: &dyn Fn(&Mark, &Mark) -> Option<f64>) -> (f64, f64) {
    let reach = (window / MARK_STEPS).max(1);
    let between = |from: Option<&Mark>, to: Option<&Mark>| {
        let (from, to) = from.zip(to)?;
        Some(used(from, to)? / float(to.step - from.step))
    };
    let between = |from, to| between(from, to).unwrap_or(f64::NAN);
    let last = marks.len().saturating_sub(1);
    (between(marks.first(), marks.get(reach)), between(marks.get(last.saturating_sub(reach)), marks.last()))
}
