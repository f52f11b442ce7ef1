//! The long story on the embedded backend.

use std::error::Error;
use std::time::Duration;

use stepwell_chaos::story::home::Home;
use stepwell_chaos::story::{Story, last_words, number, tell};
use stepwell_report::reports_dir;

#[tokio::test(flavor = "multi_thread")]
async fn everything_breaks_for_a_while_and_every_run_ends_well() -> Result<(), Box<dyn Error + Send + Sync>> {
    let (seed, dir) = (stepwell_chaos::seed(), tempfile::tempdir()?);
    let log = dir.path().join("said");
    let story = Story {
        name: "chaos-story",
        program: env!("CARGO_BIN_EXE_chaos-process"),
        home: Home::Folder(dir.path().join("runs")),
        backend: Vec::new(),
        environment: Vec::new(),
        log: log.clone(),
        seed,
        runs: number("STEPWELL_CHAOS_RUNS", 1_000)?,
        faults: number("STEPWELL_CHAOS_FAULTS", 320)?,
        pause: Duration::from_millis(180),
    };
    let report = tell(story).await.map_err(|error| format!("seed {seed}: {error}\n{}", last_words(&log)))?;
    report.print_to(&mut std::io::stdout().lock())?;
    report.write_to(&reports_dir()?)?;
    assert!(report.ok(), "seed {seed}; the processes said last:\n{}", last_words(&log));
    Ok(())
}
