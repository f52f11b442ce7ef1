//! Workers are killed, hundreds of times, and replaced.

use std::error::Error;
use std::thread::sleep;
use std::time::{Duration, Instant};

use stepwell_chaos::crew::{Crew, PATIENCE, WORKERS, is_held_by, result, wait_for_ends};
use stepwell_chaos::flows::{self, LEASE};
use stepwell_chaos::outside::Outside;
use stepwell_chaos::place::Place;
use stepwell_core::Phase;
use stepwell_report::{Report, reports_dir};

const KILLS: u32 = 200;
const RUNS: u64 = 40;
const STEPS: u64 = 100;

#[tokio::test(flavor = "multi_thread")]
async fn kill_nine_200_times_loses_no_run_and_repeats_no_completed_step() -> Result<(), Box<dyn Error>> {
    let (seed, began, dir) = (stepwell_chaos::seed(), Instant::now(), tempfile::tempdir()?);
    let mut rng = fastrand::Rng::with_seed(seed);
    let outside = Outside::listen(rng.u64(..))?;
    let place = Place::open(dir.path(), flows::registry(outside.address(), "test"))?;
    let runs = place.start_askers(RUNS, STEPS).await?;
    let mut crew = Crew::hire(env!("CARGO_BIN_EXE_chaos-process"), dir.path(), outside.address())?;
    let mut interrupted = 0;
    for kills_left in (1..=KILLS).rev() {
        // So often that there is work for all kills, however fast this machine is.
        let steps_left = (RUNS * STEPS).saturating_sub(outside.book().steps_asked());
        outside.hear(rng.u64(1..=(steps_left / u64::from(kills_left)).max(1)), PATIENCE)?;
        sleep(Duration::from_millis(rng.u64(..30)));
        let victim = crew.kill(rng.usize(..WORKERS))?;
        // What stands in the store now is committed for good: none of it may be asked for again.
        let found = place.look(&runs).await?;
        let mut book = outside.book();
        book.killed(&victim);
        for run in &found {
            book.ended(&run.run, run.progress.visit.0);
        }
        interrupted += found.iter().filter(|run| is_held_by(run, &victim)).count() as u64;
        drop(book);
        crew.hire_one()?;
    }
    let left = RUNS * STEPS - outside.book().steps_asked();
    let ended = wait_for_ends(&place, &runs).await?;
    let asks = outside.book().asks;
    sleep(LEASE * 3);

    let there = place.runs().await?.len() as u64;
    let mut report = Report::new("chaos-workers");
    let book = outside.book();
    let lost = ended.iter().filter(|run| run.progress.status.phase() != Phase::Completed).count();
    for run in &ended {
        let (name, steps) = (&run.run, run.progress.visit.0);
        report.check(&format!("run {name} has the right result"), result(run) == Some(book.expected(name)));
        report.check(&format!("run {name} has ended {STEPS} steps, not {steps}"), steps == STEPS);
    }
    for violation in &book.violations {
        report.fail(violation);
    }
    report.check("there are as many runs as were started", there == RUNS);
    report.check("no message was given up", place.local.dead_letters(1)?.is_empty());
    report.check("each step acted once", book.acts() as u64 == RUNS * STEPS);
    report.check("nothing is asked when all has ended", book.asks == asks);
    // Each step that a kill interrupts may be asked for once more, and none else. A lease may also run out under a worker
    // that the machine does not let run; on any machine that is rare.
    report.check("only interrupted steps are repeated", book.asks <= RUNS * STEPS + interrupted + book.takeovers);
    report.check("leases hold while their workers live", book.takeovers * 20 <= RUNS * STEPS);
    report.figure("seed", seed);
    report.figure("kills", crew.killed()).at_least(KILLS.into());
    report.figure("runs", RUNS);
    report.figure("steps", RUNS * STEPS);
    report.figure("asks", book.asks);
    report.figure("steps left after the last kill", left);
    report.figure("steps interrupted", interrupted);
    report.figure("steps asked for again", book.repeats);
    report.figure("of those, by a takeover from a live worker", book.takeovers).at_most(0.0);
    report.figure("completed steps asked for again", book.violations.len()).at_most(0.0);
    report.figure("runs lost", lost).at_most(0.0);
    report.figure("time", began.elapsed().as_secs_f64()).unit("s");
    drop(book);
    report.print_to(&mut std::io::stdout().lock())?;
    report.write_to(&reports_dir()?)?;
    assert!(report.ok(), "seed {seed}; the workers said:\n{}", crew.said());
    Ok(())
}
