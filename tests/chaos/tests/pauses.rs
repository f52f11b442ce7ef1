//! Workers are stopped for longer than their leases last, and go on as if nothing had been: others have taken over.

use std::error::Error;
use std::thread::sleep;
use std::time::Instant;

use stepwell_chaos::crew::{Crew, PATIENCE, WORKERS, is_held_by, result, wait_for_ends};
use stepwell_chaos::flows::{self, LEASE};
use stepwell_chaos::outside::Outside;
use stepwell_chaos::place::Place;
use stepwell_core::Phase;
use stepwell_report::{Report, reports_dir};

const PAUSES: u64 = 20;
/// Fewer than one worker can hold: there is always room to take over the other one's.
const RUNS: u64 = 4;
const STEPS: u64 = 500;
/// With fewer steps left in all, a pause would come after the end.
const STEPS_LEFT_MIN: u64 = 200;

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_stopped_beyond_its_lease_changes_nothing_when_it_goes_on() -> Result<(), Box<dyn Error>> {
    let (seed, began, dir) = (stepwell_chaos::seed(), Instant::now(), tempfile::tempdir()?);
    let mut rng = fastrand::Rng::with_seed(seed);
    let outside = Outside::listen(rng.u64(..))?;
    let place = Place::open(dir.path(), flows::registry(outside.address(), "test"))?;
    let runs = place.start_askers(RUNS, STEPS).await?;
    let crew = Crew::hire(env!("CARGO_BIN_EXE_chaos-process"), dir.path(), outside.address())?;
    let (mut taken_over, mut visits) = (0, vec![0; runs.len()]);
    let mut report = Report::new("chaos-pauses");
    let mut pauses = 0_u64;
    while pauses < PAUSES && RUNS * STEPS - outside.book().steps_asked() > STEPS_LEFT_MIN {
        pauses += 1;
        outside.hear(rng.u64(1..=20), PATIENCE)?;
        let (name, worker) = crew.worker(rng.usize(..WORKERS)).ok_or("there is no such worker")?;
        outside.book().paused(name);
        worker.pause()?;
        let held = place.look(&runs).await?;
        sleep(LEASE * 2 + LEASE.mul_f64(rng.f64()));
        let passed_on = place.look(&runs).await?;
        worker.resume()?;
        // It held these, and somebody else has acquired them since: whatever it still writes must be refused.
        let pairs = held.iter().zip(&passed_on).filter(|(held, _)| is_held_by(held, name));
        taken_over += pairs.filter(|(held, now)| now.hold.fence > held.hold.fence).count();
        for (visit, run) in visits.iter_mut().zip(&passed_on) {
            report.check(&format!("run {} never goes back", run.run), run.progress.visit.0 >= *visit);
            *visit = run.progress.visit.0;
        }
    }
    let ended = wait_for_ends(&place, &runs).await?;

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
    report.check("no message was given up", place.local.dead_letters(1)?.is_empty());
    report.check("each step acted once", book.acts() as u64 == RUNS * STEPS);
    report.check("runs were taken over", taken_over > 0);
    report.figure("seed", seed);
    report.figure("pauses", pauses).at_least(10.0);
    report.figure("runs", RUNS);
    report.figure("steps", RUNS * STEPS);
    report.figure("asks", book.asks);
    report.figure("runs taken over from a stopped worker", taken_over);
    report.figure("steps asked for again", book.repeats);
    report.figure("completed steps asked for again, under their old key", book.late);
    report.figure("runs lost", lost).at_most(0.0);
    report.figure("time", began.elapsed().as_secs_f64()).unit("s");
    drop(book);
    report.print_to(&mut std::io::stdout().lock())?;
    report.write_to(&reports_dir()?)?;
    assert!(report.ok(), "seed {seed}; the workers said:\n{}", crew.said());
    Ok(())
}
