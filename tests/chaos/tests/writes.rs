//! A process is killed in the middle of writing as fast as it can.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use stepwell_chaos::flows::{self, Text};
use stepwell_chaos::outside::Outside;
use stepwell_chaos::place::Place;
use stepwell_chaos::process::Process;
use stepwell_core::{LogId, Payload, Phase, Place as At, RunId, Status};
use stepwell_ports::CheckpointStore;
use stepwell_report::{Report, reports_dir};

const PROGRAM: &str = env!("CARGO_BIN_EXE_chaos-process");
const KILLS: usize = 40;
/// Answers that a process gets before it is killed, at most.
const ANSWERS_MAX: usize = 150;
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn kill_nine_in_the_middle_of_writes_keeps_all_that_was_answered() -> Result<(), Box<dyn Error>> {
    let (seed, began, dir) = (stepwell_chaos::seed(), Instant::now(), tempfile::tempdir()?);
    let mut rng = fastrand::Rng::with_seed(seed);
    let outside = Outside::listen(rng.u64(..))?;
    let mut report = Report::new("chaos-writes");
    let mut answered: Vec<(RunId, usize)> = Vec::new();
    let mut intact = 0_u64;
    for round in 0..KILLS {
        answered.extend(write_until_killed(dir.path(), &outside, round, &mut rng)?);
        intact += u64::from(integrity(dir.path())? == "ok");
        let place = Place::open(dir.path(), flows::registry(outside.address(), "test"))?;
        for (run, length) in &answered {
            if let Err(problem) = check(&place, run, *length).await {
                report.fail(format!("round {round}, run {run}: {problem}"));
            }
        }
    }
    let place = Place::open(dir.path(), flows::registry(outside.address(), "test"))?;
    let runs = place.runs().await?;
    report.check("the database was intact after each kill", intact == KILLS as u64);
    report.check("every run that was answered is there", runs.len() >= answered.len());
    report.pass(answered.len() as u64);
    report.figure("seed", seed);
    report.figure("kills", KILLS);
    report.figure("runs answered", answered.len()).at_least(1.0);
    report.figure("runs found", runs.len());
    report.figure("time", began.elapsed().as_secs_f64()).unit("s");
    report.print_to(&mut std::io::stdout().lock())?;
    report.write_to(&reports_dir()?)?;
    let said = std::fs::read_to_string(dir.path().join("said"))?;
    assert!(report.ok(), "seed {seed}; the processes said:\n{said}");
    Ok(())
}

/// Runs whose start was answered before the process that started them was killed, each with its text's length.
fn write_until_killed(
    dir: &Path,
    outside: &Outside,
    round: usize,
    rng: &mut fastrand::Rng,
) -> Result<Vec<(RunId, usize)>, Box<dyn Error>> {
    let (folder, address) = (dir.to_str().ok_or("no UTF-8")?, outside.address().to_string());
    let arguments = ["write", folder, &address, &format!("writer-{round}")];
    let (mut process, stdout) = Process::start_talking(PROGRAM, &arguments, &dir.join("said"))?;
    let (hear, heard) = mpsc::channel();
    let listener = thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        loop {
            let mut line = String::new();
            // A line without its end was cut by the kill.
            match stdout.read_line(&mut line) {
                Ok(_) if line.ends_with('\n') => _ = hear.send(line),
                Ok(_) | Err(_) => break,
            }
        }
    });
    let mut answers = Vec::new();
    for _ in 0..rng.usize(1..=ANSWERS_MAX) {
        answers.push(heard.recv_timeout(PATIENCE)?);
    }
    thread::sleep(Duration::from_micros(rng.u64(..5_000)));
    process.kill()?.ok_or("the writer ended by itself")?;
    listener.join().map_err(|_| "the listener panicked")?;
    answers.extend(heard);
    answers
        .iter()
        .map(|line| {
            let (run, length) = line.trim().split_once(' ').ok_or("no such line")?;
            Ok((RunId::new(run)?, length.parse()?))
        })
        .collect()
}

fn integrity(dir: &Path) -> Result<String, Box<dyn Error>> {
    let db = Connection::open(dir.join("stepwell.db"))?;
    Ok(db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?)
}

/// The run is there, and so is everything that it refers to.
async fn check(place: &Place, run: &RunId, length: usize) -> Result<(), Box<dyn Error>> {
    let found = place.client.get(run).await?;
    let progress = &found.progress;
    match &progress.place {
        At::Fresh { input, .. } => {
            let text: Text = place.client.value(input).await?.parse()?;
            (text.text.len() == length).then_some(()).ok_or("its input is another one")?;
        }
        At::At { state, .. } => drop(place.client.value(state).await?),
    }
    let lines = place.local.log(run, LogId(1), 0, 10).await?;
    // Each step wrote one line; one that was not committed may have left one more.
    ((lines.len() as u64) >= progress.visit.0).then_some(()).ok_or("lines of its log are missing")?;
    for line in &lines {
        let line: String = line.parse()?;
        (line.len() == length).then_some(()).ok_or("a line of its log is another one")?;
    }
    match &progress.status {
        Status::Completed { output: Payload::Inline(output), .. } => {
            (output.text() == "3").then_some(()).ok_or("its result is another one")?;
        }
        status if status.phase() == Phase::Parked => return Err(format!("it is parked: {status:?}").into()),
        _ => {}
    }
    Ok(())
}
