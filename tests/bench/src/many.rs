//! `many`: hundreds of runs at once. How far their writes share a sync.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stepwell::Registry;
use stepwell_core::Phase;
use stepwell_local::Stats;

use crate::flows::{Chain, Entered, Length, Probe};
use crate::numbers::{Times, float, median, per};
use crate::place::{LOOK, Place, runtime};
use crate::sheet::{Aim, Sheet};
use crate::{Outcome, Size, disk, folder};

const RUNS: u64 = 200;
const STEPS: u64 = 20;
const ROUNDS: u64 = 5;

pub(crate) fn measure(sheet: &mut Sheet<'_>, size: Size) -> Outcome<()> {
    let dir = folder()?;
    let probe = Arc::<Probe>::default();
    let place = Place::open(dir.path(), Registry::new().with(Chain(Arc::clone(&probe))), None)?;
    let runtime = runtime()?;
    let (mut rounds, mut starts) = (Vec::new(), Vec::new());
    for round in 1..=size.of(ROUNDS) {
        let began = Instant::now();
        runtime.block_on(async {
            for run in 0..RUNS {
                place.start("chain", &Length { run, steps: STEPS }).await?;
            }
            Outcome::Ok(())
        })?;
        starts.push(float(RUNS) / began.elapsed().as_secs_f64());
        rounds.push(runtime.block_on(work(&place, &probe, round * RUNS))?);
    }
    let steps = RUNS * STEPS;
    sheet.check("every run has made every step", rounds.iter().all(|round| round.entries.len() as u64 == steps));
    let middle = |of: &dyn Fn(&Round) -> f64| median(rounds.iter().map(of).collect());
    let speed = middle(&|round| float(steps) / round.took.as_secs_f64());
    let best = rounds.iter().map(|round| float(steps) / round.took.as_secs_f64()).fold(0.0, f64::max);
    sheet.figure("durable steps, median round", speed, "/s", Aim::AtLeast(12_000.0));
    sheet.figure("durable steps, best round", best, "/s", Aim::None);
    sheet.figure("syncs a step", middle(&|round| per(round.used.transactions, steps)), "", Aim::None);
    sheet.figure("requests a sync", middle(&|round| per(round.used.requests, round.used.transactions)), "", Aim::None);
    let busy: Option<Vec<f64>> = rounds.iter().map(|round| Some(per(round.processor_nanos?, steps) / 1e3)).collect();
    if let Some(busy) = busy {
        sheet.figure("processor time a step", median(busy), "µs", Aim::None);
    }
    sheet.figure("log bytes a step", middle(&|round| per(round.used.log_bytes, steps)), "B", Aim::None);
    sheet.figure("step, p50", middle(&|round| times(&round.entries).median() / 1e3), "ms", Aim::None);
    sheet.figure("step, p99", middle(&|round| times(&round.entries).percentile(99) / 1e3), "ms", Aim::None);
    sheet.figure("starts, one after the other", median(starts), "/s", Aim::None);
    Ok(())
}

/// All runs of a round, from the worker's start to the last commit.
struct Round {
    took: Duration,
    used: Stats,
    processor_nanos: Option<u64>,
    entries: Vec<Entered>,
}

async fn work(place: &Place, probe: &Probe, completed: u64) -> Outcome<Round> {
    let (before, began, processor) = (place.local.stats(), Instant::now(), disk::processor_nanos());
    let (took, used, processor_nanos) = place
        .while_working(async {
            probe.ends(RUNS).await;
            while place.count(Phase::Completed).await? < completed {
                tokio::time::sleep(LOOK).await;
            }
            let (took, now) = (began.elapsed(), place.local.stats());
            let used = Stats {
                requests: now.requests - before.requests,
                transactions: now.transactions - before.transactions,
                log_bytes: now.log_bytes - before.log_bytes,
            };
            Ok((took, used, disk::processor_nanos().zip(processor).map(|(now, before)| now - before)))
        })
        .await?;
    Ok(Round { took, used, processor_nanos, entries: probe.take().0 })
}

/// Run by run, from one step's beginning to the next one's.
fn times(entries: &[Entered]) -> Times {
    let mut last: BTreeMap<u64, Instant> = BTreeMap::new();
    let times = entries.iter().filter_map(|entry| Some(entry.at - last.insert(entry.run, entry.on)?));
    Times::new(times.collect::<Vec<_>>())
}
