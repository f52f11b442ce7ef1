//! Those who start runs and send signals are killed, and a worker now and then.

use std::collections::BTreeMap;
use std::error::Error;
use std::thread::sleep;
use std::time::{Duration, Instant};

use stepwell_chaos::crew::{Crew, PATIENCE, WORKERS, result, wait_for_ends};
use stepwell_chaos::flows::{self, parts_of};
use stepwell_chaos::outside::{Outside, Word};
use stepwell_chaos::place::Place;
use stepwell_core::{Checkpoint, RunId, WorkflowName};
use stepwell_report::{Report, reports_dir};

/// Times that a client is killed; a worker with every fourth.
const KILLS: u32 = 200;
/// Runs, by their callers' keys.
const KEYS: u64 = 500;
/// Answers that a client gets before it is killed, at most: all clients together get about as many as there are to get.
const ANSWERS_MAX: u64 = 10;

#[tokio::test(flavor = "multi_thread")]
async fn kill_nine_of_clients_starts_each_run_once_and_consumes_each_signal_once() -> Result<(), Box<dyn Error>> {
    let (seed, began, dir) = (stepwell_chaos::seed(), Instant::now(), tempfile::tempdir()?);
    let mut rng = fastrand::Rng::with_seed(seed);
    let outside = Outside::listen(rng.u64(..))?;
    let place = Place::open(dir.path(), flows::registry(outside.address(), "test"))?;
    let mut crew = Crew::hire(env!("CARGO_BIN_EXE_chaos-process"), dir.path(), outside.address())?;
    let tell = |crew: &Crew, seed: u64| crew.start(&["tell", &seed.to_string(), &KEYS.to_string()]);
    let mut finished = 0_u32;
    for kill in 1..=KILLS {
        let mut client = tell(&crew, rng.u64(..))?;
        outside.hear(rng.u64(1..=ANSWERS_MAX), PATIENCE)?;
        sleep(Duration::from_micros(rng.u64(..10_000)));
        finished += u32::from(client.kill()?.is_none());
        if kill % 4 == 0 {
            crew.kill(rng.usize(..WORKERS))?;
            crew.hire_one()?;
        }
    }
    let told = outside.book().told.len();
    // The last one is left alone.
    let status = tell(&crew, rng.u64(..))?.wait(PATIENCE * 4)?;
    assert!(status.success(), "the last client failed ({status}):\n{}", crew.said());

    let workflow = WorkflowName::new("gatherer")?;
    let runs: Vec<RunId> = (0..KEYS).map(|number| RunId::for_key(&workflow, &format!("key-{number}"))).collect();
    let ended = wait_for_ends(&place, &runs).await?;
    let there = place.runs().await?.len() as u64;
    let book = outside.book();
    let mut report = Report::new("chaos-clients");
    report.check("there are as many runs as keys", there == KEYS);
    check_starts(&mut report, &book.told, &runs);
    check_signals(&mut report, &book.told);
    let lost = runs.iter().zip(0..).filter(|(run, number)| !has_all(&mut report, &ended, run, *number)).count();
    report.check("no message was given up", place.local.dead_letters(1)?.is_empty());
    report.check("nearly every client was killed", finished * 20 <= KILLS);
    report.figure("seed", seed);
    report.figure("kills of clients", KILLS - finished);
    report.figure("kills of workers", crew.killed());
    report.figure("runs", there);
    report.figure("signals", (0..KEYS).map(parts_of).sum::<u64>());
    report.figure("answers that killed clients told of", told);
    report.figure("answers in all", book.told.len());
    report.figure("runs lost", lost).at_most(0.0);
    report.figure("time", began.elapsed().as_secs_f64()).unit("s");
    drop(book);
    report.print_to(&mut std::io::stdout().lock())?;
    report.write_to(&reports_dir()?)?;
    assert!(report.ok(), "seed {seed}; the processes said:\n{}", crew.said());
    Ok(())
}

/// A key's answers all name its run, and at most one of them says that it is new. (None does when its client was killed
/// before it could tell.)
fn check_starts(report: &mut Report, told: &[Word], runs: &[RunId]) {
    let mut news: BTreeMap<&RunId, u32> = BTreeMap::new();
    for word in told {
        let Word::Started { key, run, new } = word else { continue };
        report.check(&format!("{key} is run {run}"), runs.contains(run));
        *news.entry(run).or_default() += u32::from(*new);
    }
    for (run, news) in news {
        report.check(&format!("run {run} was started {news} times"), news <= 1);
    }
}

/// Each signal was delivered by at most one request.
fn check_signals(report: &mut Report, told: &[Word]) {
    let mut news: BTreeMap<(&RunId, u64), u32> = BTreeMap::new();
    for word in told {
        let Word::Sent { run, part, new } = word else { continue };
        *news.entry((run, *part)).or_default() += u32::from(*new);
    }
    for ((run, part), news) in news {
        report.check(&format!("signal {part} of run {run} was delivered {news} times"), news <= 1);
    }
}

/// Checks that the run has completed, with every signal consumed once, and says whether it has completed.
fn has_all(report: &mut Report, ended: &[Checkpoint], run: &RunId, number: u64) -> bool {
    let every: Vec<u64> = (0..parts_of(number)).collect();
    let found = ended.iter().find(|ended| ended.run == *run);
    let parts: Option<Vec<u64>> = found.and_then(result);
    let mut sorted = parts.clone().unwrap_or_default();
    sorted.sort_unstable();
    let right = parts.is_some() && sorted == every;
    report.check(&format!("run {run} has consumed {every:?}, each once: {parts:?}"), right);
    let left = found.map(|run| (run.mailbox.letters.len(), run.mailbox.seq.0));
    report.check(&format!("run {run} has no signal left: {left:?}"), left == Some((0, parts_of(number))));
    parts.is_some()
}
