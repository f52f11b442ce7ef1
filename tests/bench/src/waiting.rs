//! `waiting`: a hundred thousand runs that wait. What they cost a process that is there for them.

use std::env;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use stepwell::Registry;
use stepwell_core::decide::{self, Moment, StepEnd, StepOutcome};
use stepwell_core::write::{Acquire, Start, Write, WriteRequest};
use stepwell_core::{
    Checkpoint, Json, Lease, Payload, Phase, RunId, SignalName, Status, Usage, WorkerId, WorkflowName,
};
use stepwell_engine::SignalRequest;
use stepwell_ports::{ListQuery, Written};
use tokio::task::JoinSet;

use crate::flows::{GO, Waiter, Waiting};
use crate::numbers::{Times, float, per};
use crate::place::{LOOK, Place, runtime};
use crate::sheet::{Aim, Sheet};
use crate::{Outcome, Size, disk, folder};

const RUNS: u64 = 100_000;
/// Runs that are made at once.
const AT_ONCE: u64 = 1_000;
/// Runs that are signalled, one after the other.
const SIGNALS: u64 = 20;
/// How long the process idles.
const IDLE: Duration = Duration::from_secs(3);

pub(crate) fn measure(sheet: &mut Sheet<'_>, size: Size) -> Outcome<()> {
    let (runs, dir) = (size.of(RUNS), folder()?);
    let place = Arc::new(Place::open(dir.path(), registry(), None)?);
    let began = Instant::now();
    runtime()?.block_on(create(&place, runs))?;
    let took = began.elapsed();
    drop(place);

    let mut fresh = Command::new(env::current_exe()?);
    let output = fresh.args(["--child", "waiting"]).arg(dir.path()).arg(runs.to_string()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let seen: Seen = serde_json::from_str(&said).map_err(|error| {
        format!(
            "the process that looks at the waiting runs: {error}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        )
    })?;
    sheet.check("every run waits", seen.waiting == runs);
    sheet.check("every signal ends its run", seen.completed == SIGNALS);
    sheet.figure("waiting runs", seen.waiting, "", Aim::None);
    sheet.figure("time to make them (three writes each)", took.as_secs_f64(), "s", Aim::None);
    sheet.figure("runs made", float(runs) / took.as_secs_f64(), "/s", Aim::None);
    sheet.figure("bytes on the disk, a run", per(disk::size(dir.path())?, runs), "B", Aim::None);
    if let Some(peak) = seen.peak_kib {
        sheet.figure("peak memory of a fresh process", float(peak) / 1_024.0, "MiB", Aim::AtMost(100.0));
    }
    sheet.figure("time to open the folder", float(seen.open_us) / 1e3, "ms", Aim::None);
    sheet.figure("time to list the first page", float(seen.page_us) / 1e3, "ms", Aim::None);
    sheet.figure("time to list all of them", float(seen.list_us) / 1e3, "ms", Aim::None);
    let times = Times::new(seen.signal_us.iter().copied().map(Duration::from_micros));
    sheet.figure("from signal to completion, median", times.median() / 1e3, "ms", Aim::None);
    sheet.figure("from signal to completion, longest", times.max() / 1e3, "ms", Aim::None);
    Ok(())
}

fn registry() -> Registry {
    Registry::new().with(Waiter)
}

/// Makes runs that wait, as the engine would: start, acquire, and the commit of a step that waits. Only the messages are
/// left out, since each would be used up by the time the run waits.
pub(crate) async fn create(place: &Arc<Place>, runs: u64) -> Outcome<()> {
    let mut making = JoinSet::new();
    for first in 0..AT_ONCE.min(runs) {
        let place = Arc::clone(place);
        making.spawn(async move {
            for number in (first..runs).step_by(usize::try_from(AT_ONCE)?) {
                make(&place, number).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(made) = making.join_next().await {
        made??;
    }
    Ok(())
}

async fn make(place: &Place, number: u64) -> Outcome<()> {
    let (run, clock) = (RunId::new(format!("waiter-{number:06}"))?, &place.ports.clock);
    let input = Json::of(&Waiting { number, text: format!("what run {number} knows: {}", "x".repeat(100)) })?;
    let input_digest = stepwell::fingerprint(&input.parse::<serde_json::Value>()?)?;
    let payload = Payload::Inline(input.clone());
    let workflow = WorkflowName::new("waiter")?;
    let start = Start { workflow, version: 1, input: payload, input_digest, step_limit: 1_000 };
    let started = write(place, &run, Write::Start(Box::new(start))).await?;
    let now = clock.now();
    let lease = Lease { owner: WorkerId::new("bench")?, since: now, until: now.plus(place.rules.lease) };
    let held = write(place, &run, Write::Acquire(Acquire { ticket: started.progress.ticket, lease })).await?;
    // The step itself: what the workflow makes of its input.
    let begun = Json::of(&crate::flows::WaitAt::Go)?;
    let outcome = StepOutcome::Wait {
        place: stepwell_core::Place::At { cursor: begun, state: Payload::Inline(input) },
        on: vec![SignalName::new(GO.name())?],
        until: Some(now.plus(stepwell::days(30))),
        ask: None,
    };
    let end = StepEnd {
        step: "Wait".into(),
        version: 1,
        outcome,
        effects: Vec::new(),
        consumed: Vec::new(),
        appends: Vec::new(),
        logs: 0,
        used: Usage::default(),
        took: Duration::ZERO,
        note: None,
        back: None,
    };
    let moment = Moment { now: clock.now(), random: 0 };
    let commit = decide::commit(&held, end, place.rules, moment, true)?.commit;
    write(place, &run, Write::Commit(Box::new(commit))).await?;
    Ok(())
}

async fn write(place: &Place, run: &RunId, write: Write) -> Outcome<Checkpoint> {
    let (id, now) = (place.ports.ids.write_id(), place.ports.clock.now());
    match place.ports.store.write(&WriteRequest { run: run.clone(), id, now, write }).await? {
        Written::Applied(checkpoint) => Ok(*checkpoint),
        Written::Refused(_) => Err(format!("a write on run {run} was refused").into()),
    }
}

/// What a fresh process has seen.
#[derive(Serialize, Deserialize)]
struct Seen {
    waiting: u64,
    completed: u64,
    open_us: u64,
    page_us: u64,
    list_us: u64,
    signal_us: Vec<u64>,
    peak_kib: Option<u64>,
}

/// The fresh process: opens the folder, idles with a worker, lists, looks at a run, signals some, sees them complete.
pub(crate) fn child(dir: &str, runs: &str) -> Outcome<bool> {
    let runs: u64 = runs.parse()?;
    let began = Instant::now();
    let place = Place::open(Path::new(dir), registry(), None)?;
    let open_us = since(began)?;
    let mut seen = runtime()?.block_on(place.while_working(async {
        tokio::time::sleep(IDLE).await;
        let began = Instant::now();
        let query = ListQuery { phase: Some(Phase::Waiting), limit: 50, ..ListQuery::default() };
        place.client.list(&query).await?;
        let page_us = since(began)?;
        let began = Instant::now();
        let waiting = place.count(Phase::Waiting).await?;
        let list_us = since(began)?;
        let (mut signal_us, mut completed) = (Vec::new(), 0);
        for number in 0..SIGNALS {
            let run = RunId::new(format!("waiter-{:06}", number * (runs / SIGNALS)))?;
            let (name, payload) = (SignalName::new(GO.name())?, Json::of(&1)?);
            let began = Instant::now();
            place.client.signal(SignalRequest { run: run.clone(), name, payload, id: None }).await?;
            let ended = place.wait_for(&run).await?;
            signal_us.push(since(began)?);
            completed += u64::from(matches!(ended.progress.status, Status::Completed { .. }));
            tokio::time::sleep(LOOK * 10).await;
        }
        Ok(Seen { waiting, completed, open_us, page_us, list_us, signal_us, peak_kib: None })
    }))?;
    seen.peak_kib = disk::peak_memory();
    serde_json::to_writer(std::io::stdout(), &seen)?;
    Ok(true)
}

fn since(began: Instant) -> Outcome<u64> {
    Ok(u64::try_from(began.elapsed().as_micros())?)
}
