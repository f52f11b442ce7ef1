//! `recovery`: a worker is killed in the middle of a step. How long until another one goes on, and what it does again.

use std::env;
use std::fs::{self, OpenOptions};
use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stepwell::Registry;
use stepwell_chaos::process::{Process, end_with_starter};
use stepwell_core::{Checkpoint, RunId};

use crate::flows::{SLOW_STEP, Slow};
use crate::numbers::float;
use crate::place::{Place, runtime};
use crate::sheet::{Aim, Sheet};
use crate::{Outcome, Size, folder};

const LEASE: Duration = Duration::from_secs(2);
const ROUNDS: u64 = 5;
const LOOK: Duration = Duration::from_millis(1);
/// The file in which steps note that they have begun.
const BEGUN: &str = "begun";

pub(crate) fn measure(sheet: &mut Sheet<'_>, size: Size) -> Outcome<()> {
    let dir = folder()?;
    let place = open(dir.path())?;
    let recovered = runtime()?.block_on(recover(&place, dir.path(), size.of(ROUNDS).max(2)))?;

    let longest = |of: &dyn Fn(&Recovered) -> f64| recovered.iter().map(of).fold(0.0, f64::max);
    let begun = fs::read_to_string(dir.path().join(BEGUN))?;
    let steps: Vec<u64> = begun.lines().map(str::parse).collect::<Result<_, _>>()?;
    sheet.check(
        "steps were made in order",
        steps.windows(2).all(|pair| matches!(pair, [a, b] if b == a || *b == a + 1)),
    );
    sheet.figure("worker processes killed", recovered.len(), "", Aim::None);
    sheet.figure("lease", LEASE.as_secs_f64(), "s", Aim::None);
    sheet.figure("one step", SLOW_STEP.as_secs_f64(), "s", Aim::None);
    sheet.figure("from the kill to the next commit, longest", longest(&|one| one.pause), "s", Aim::None);
    sheet.figure("of that, after the lease had run out, longest", longest(&|one| one.late), "s", Aim::AtMost(1.0));
    let again = longest(&|one| float(one.steps_again));
    sheet.figure("steps executed again after one kill, most", again, "", Aim::AtMost(1.0));
    Ok(())
}

/// One recovery.
struct Recovered {
    /// From the kill to the next commit, in seconds.
    pause: f64,
    /// From the end of the dead worker's lease to the next commit, in seconds.
    late: f64,
    steps_again: u64,
}

fn open(dir: &Path) -> Outcome<Place> {
    let begun = OpenOptions::new().create(true).append(true).open(dir.join(BEGUN))?;
    Place::open(dir, Registry::new().with(Slow(Arc::new(begun))), Some(LEASE))
}

/// The worker process: works until it is killed.
pub(crate) fn child(dir: &str, name: &str) -> Outcome<bool> {
    end_with_starter();
    let place = open(Path::new(dir))?;
    let worker = place.worker(name)?;
    runtime()?.block_on(worker.run(pending()));
    Ok(true)
}

/// Kills whoever holds the run, again and again. There is always one more worker that idles.
async fn recover(place: &Place, dir: &Path, rounds: u64) -> Outcome<Vec<Recovered>> {
    let program = env::current_exe()?;
    let program = program.to_str().ok_or("the program's path is not UTF-8")?;
    let folder = dir.to_str().ok_or("the folder's name is not UTF-8")?;
    let employ = |number: u64| {
        Process::start(program, &["--child", "recovery", folder, &format!("w-{number}")], &dir.join("said"))
    };
    let run = place.start("slow", &0_u64).await?;
    let mut holder = employ(0)?;
    let mut recovered = Vec::new();
    for round in 1..=rounds {
        let heir = employ(round)?;
        // The heir is up, and the holder is well on its way, somewhere in a step.
        let here = place.client.get(&run).await?.progress.revision.0;
        wait_until(place, &run, |found| found.progress.revision.0 >= here + 10).await?;
        tokio::time::sleep(Duration::from_secs(1) + SLOW_STEP.mul_f64(fastrand::f64())).await;

        holder.kill()?.ok_or("the worker ended by itself")?;
        let killed = Instant::now();
        let left = place.client.get(&run).await?;
        let until = left.hold.lease.as_ref().ok_or("the run was not held when its worker was killed")?.until;
        let begun = entries(dir)?;
        let next = wait_until(place, &run, |found| found.progress.revision > left.progress.revision).await?;
        let late = place.ports.clock.now().since(until).as_secs_f64();
        let pause = killed.elapsed().as_secs_f64();
        let owner = next.hold.lease.map(|lease| lease.owner.to_string());
        if owner.as_deref() != Some(&format!("w-{round}")) {
            return Err(format!("{owner:?} has gone on, not w-{round}").into());
        }
        let known = |step: &&u64| begun.contains(*step);
        let steps_again = entries(dir)?.iter().skip(begun.len()).filter(known).count() as u64;
        recovered.push(Recovered { pause, late, steps_again });
        holder = heir;
    }
    Ok(recovered)
}

/// The steps that have begun so far.
fn entries(dir: &Path) -> Outcome<Vec<u64>> {
    Ok(fs::read_to_string(dir.join(BEGUN))?.lines().map(str::parse).collect::<Result<_, _>>()?)
}

async fn wait_until(place: &Place, run: &RunId, there: impl Fn(&Checkpoint) -> bool) -> Outcome<Checkpoint> {
    let since = Instant::now();
    loop {
        let found = place.client.get(run).await?;
        if there(&found) {
            return Ok(found);
        }
        if since.elapsed() > LEASE * 10 {
            return Err(format!("run {run} stands still: nobody has taken it over").into());
        }
        tokio::time::sleep(LOOK).await;
    }
}
