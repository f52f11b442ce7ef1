//! How fast the durable backend is on this disk: `cargo run --profile bench -p stepwell-local --example measure [folder]`.
//!
//! A commit of a step is compared with what it cannot go below: one sync of a file of the same disk.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "figures for whoever runs it")]

use std::error::Error;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use stepwell_core::write::{Acquire, Commit, Start, Write, WriteRequest};
use stepwell_core::{Checkpoint, Digest, Json, Lease, Message, Payload, Place, RunId, Status, WorkerId, WorkflowName};
use stepwell_local::{Local, Options};
use stepwell_ports::system::{SystemClock, SystemIds};
use stepwell_ports::{CheckpointStore, Clock, Envelope, Ids, RunQueue, Written};

type Failure = Box<dyn Error + Send + Sync>;

const LEASE: Duration = Duration::from_mins(10);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let root = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let dir = tempfile::tempdir_in(root)?;
    let local = Local::open(dir.path(), Arc::new(SystemClock), Options::default())?;
    for state in [600, 3_000] {
        let mut held = held(&local, &format!("chain-{state}"), state).await?;
        steps(&local, &mut held, 1_500).await?;
        let sync = one_sync(dir.path())?;
        println!("one sync of the disk, 4 KB overwritten: {sync:.0?}");
        let (before, mut took) = (local.stats(), steps(&local, &mut held, 3_000).await?);
        let after = local.stats();
        took.sort_unstable();
        let [p50, p99, worst] = [50, 99, 100].map(|p| took[(took.len() * p / 100).min(took.len() - 1)]);
        let mean = took.iter().sum::<Duration>() / 3_000;
        let bytes = (after.log_bytes - before.log_bytes) / (after.transactions - before.transactions);
        println!(
            "one client, checkpoint of {} bytes: mean {mean:.0?}, half {p50:.0?}, 99 of 100 {p99:.0?}, worst {worst:.0?}, \
             {bytes} bytes a commit, {:.2} syncs (mean), {:.2} (half)",
            held.weight(),
            mean.as_secs_f64() / sync.as_secs_f64(),
            p50.as_secs_f64() / sync.as_secs_f64(),
        );
    }
    for clients in [8, 32, 200] {
        many(&local, clients, 40_000 / clients).await?;
    }
    rivals(dir.path(), &local).await?;
    reads(&local).await?;
    queue(&local).await
}

/// The median time of overwriting 4 KB and syncing them.
fn one_sync(dir: &Path) -> Result<Duration, Failure> {
    let mut file = File::create(dir.join("sync"))?;
    file.write_all(&vec![7; 4096 * 500])?;
    file.sync_all()?;
    let mut took = Vec::new();
    for page in (0..500).chain(0..500) {
        let begun = Instant::now();
        file.seek(SeekFrom::Start(page * 4096))?;
        file.write_all(&[8; 4096])?;
        file.sync_data()?;
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    Ok(took[took.len() / 2])
}

async fn applied(local: &Local, run: &RunId, write: Write) -> Result<Checkpoint, Failure> {
    let request = WriteRequest { run: run.clone(), id: SystemIds.write_id(), now: SystemClock.now(), write };
    match local.write(&request).await? {
        Written::Applied(checkpoint) => Ok(*checkpoint),
        Written::Refused(by) => Err(format!("refused by {by:?}").into()),
    }
}

/// A run with a lease, and a state of this many bytes.
async fn held(local: &Local, name: &str, state: usize) -> Result<Checkpoint, Failure> {
    let run = RunId::new(name)?;
    let input = Payload::Inline(Json::of(&"x".repeat(state))?);
    let start = Start {
        workflow: WorkflowName::new("measured")?,
        version: 1,
        input_digest: Digest::of(b"input"),
        input,
        step_limit: u64::MAX,
    };
    let started = applied(local, &run, Write::Start(Box::new(start))).await?;
    let now = SystemClock.now();
    let lease = Lease { owner: WorkerId::new("worker-1")?, since: now, until: now.plus(LEASE) };
    applied(local, &run, Write::Acquire(Acquire { ticket: started.progress.ticket, lease })).await
}

/// Commits as many steps one after the other.
async fn steps(local: &Local, held: &mut Checkpoint, count: usize) -> Result<Vec<Duration>, Failure> {
    let mut took = Vec::with_capacity(count);
    for _ in 0..count {
        let commit = next_step(held)?;
        let begun = Instant::now();
        *held = applied(local, &held.run, commit).await?;
        took.push(begun.elapsed());
    }
    Ok(took)
}

fn next_step(held: &Checkpoint) -> Result<Write, Failure> {
    let mut progress = held.progress.clone();
    progress.revision = progress.revision.next();
    progress.visit.0 += 1;
    progress.status = Status::Running;
    let (Place::Fresh { input: state, .. } | Place::At { state, .. }) = progress.place;
    progress.place = Place::At { cursor: Json::of(&format!("Step{}", progress.visit.0 % 10))?, state };
    let now = SystemClock.now();
    let lease = held.hold.lease.clone().map(|lease| Lease { until: now.plus(LEASE), ..lease });
    Ok(Write::Commit(Box::new(Commit {
        fence: held.hold.fence,
        after: held.progress.revision,
        cancel_seen: false,
        mailbox_seen: None,
        progress,
        lease,
        due_at: Some(now.next_mark()),
        consumed: Vec::new(),
        appends: Vec::new(),
        segment: None,
        spill: Vec::new(),
    })))
}

async fn many(local: &Local, clients: usize, each: usize) -> Result<(), Failure> {
    let mut all = Vec::new();
    for client in 0..clients {
        all.push(held(local, &format!("many-{clients}-{client}"), 600).await?);
    }
    let (before, begun) = (local.stats(), Instant::now());
    let tasks: Vec<_> = all
        .into_iter()
        .map(|mut held| {
            let local = local.clone();
            tokio::spawn(async move { steps(&local, &mut held, each).await })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    let (after, took) = (local.stats(), begun.elapsed());
    println!(
        "{clients} clients: {:.0} commits/s, {:.1} in one sync",
        (clients * each) as f64 / took.as_secs_f64(),
        (after.requests - before.requests) as f64 / (after.transactions - before.transactions) as f64
    );
    Ok(())
}

/// Two handles on one folder, as two processes have them.
async fn rivals(dir: &Path, local: &Local) -> Result<(), Failure> {
    const CLIENTS: usize = 16;
    const EACH: usize = 1_000;
    let other = Local::open(dir, Arc::new(SystemClock), Options::default())?;
    let mut tasks = Vec::new();
    let begun = Instant::now();
    for client in 0..CLIENTS {
        let local = if client % 2 == 0 { local.clone() } else { other.clone() };
        tasks.push(tokio::spawn(async move {
            let mut held = held(&local, &format!("rival-{client}"), 600).await?;
            steps(&local, &mut held, EACH).await?.into_iter().max().ok_or_else(|| Failure::from("no steps"))
        }));
    }
    let mut worst = Duration::ZERO;
    for task in tasks {
        worst = worst.max(task.await??);
    }
    let each_second = (CLIENTS * EACH) as f64 / begun.elapsed().as_secs_f64();
    println!("two processes of {} clients: {each_second:.0} commits/s, worst {worst:.0?}", CLIENTS / 2);
    Ok(())
}

async fn reads(local: &Local) -> Result<(), Failure> {
    let run = RunId::new("chain-600")?;
    let begun = Instant::now();
    for _ in 0..10_000 {
        local.load(&run).await?.ok_or("it was there")?;
    }
    println!("a load: {:.1?}", begun.elapsed() / 10_000);
    let begun = Instant::now();
    for _ in 0..1_000 {
        local.due(SystemClock.now(), 100, None).await?;
    }
    println!("a look at the due index with nothing due: {:.1?}", begun.elapsed() / 1_000);
    Ok(())
}

async fn queue(local: &Local) -> Result<(), Failure> {
    let message = Message { run: RunId::new("chain-600")?, ticket: stepwell_core::Ticket(1) };
    let envelope = Envelope { message, delay: Duration::ZERO };
    let begun = Instant::now();
    for _ in 0..1_000 {
        local.send(std::slice::from_ref(&envelope)).await?;
        let got = local.receive(10, LEASE, Duration::ZERO).await?;
        local.delete(&got.into_iter().map(|delivery| delivery.receipt).collect::<Vec<_>>()).await?;
    }
    println!("send, receive, delete: {:.0?}", begun.elapsed() / 1_000);
    let begun = Instant::now();
    for _ in 0..10_000 {
        local.receive(10, LEASE, Duration::ZERO).await?;
    }
    println!("a look at an empty queue: {:.1?}", begun.elapsed() / 10_000);
    Ok(())
}
