//! What was answered stays: after closing, after a kill in the middle, and between two processes at once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod support;

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use stepwell_core::write::{Write, WriteRequest};
use stepwell_core::{CancelRequest, Checkpoint, EffectKey, Json, LogId, Message, Phase, Revision, Scope, Ticket};
use stepwell_local::{Local, Options};
use stepwell_ports::system::SystemClock;
use stepwell_ports::{
    BlobStore as _, CheckpointStore as _, Claim, Claimed, Envelope, ListQuery, RunQueue as _, Written,
};
use support::{NOW, acquire, applied, commit, held, open, request, run, signal, start, step};

const VISIBILITY: Duration = Duration::from_mins(1);

fn envelope(name: &str, ticket: u64) -> Envelope {
    Envelope { message: Message { run: run(name), ticket: Ticket(ticket) }, delay: Duration::ZERO }
}

#[tokio::test]
async fn everything_is_there_after_closing_and_opening_again() {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path());
    let run = run("r");
    let mut expected = held(&local, "r").await;
    for _ in 0..5 {
        expected = applied(&local, &run, commit(step(&expected))).await;
    }
    applied(&local, &run, signal("s1")).await;
    let cancel = CancelRequest { by: "ann".into(), why: Some("enough".into()), at: NOW };
    expected = applied(&local, &run, Write::Cancel(cancel)).await;
    let blob = local.put(&run, b"report").await.unwrap();
    local.send(&[envelope("r", 7)]).await.unwrap();
    local.send(&[envelope("unknown", 1)]).await.unwrap();
    let buried = local.receive(10, VISIBILITY, Duration::ZERO).await.unwrap();
    assert_eq!(buried.len(), 2);
    let buried = buried.iter().find(|delivery| delivery.message.run.as_str() == "unknown").unwrap();
    local.bury(buried, "there is no such run").await.unwrap();
    let key = EffectKey::derive(&run, &expected.workflow, "refund", Scope::Business("order-7"));
    let claim = Claim { key, by: run.clone().into(), instead_of: None };
    assert_eq!(local.claim(&claim).await, Ok(Claimed::Mine));
    drop(local);

    let local = open(dir.path());
    assert_eq!(local.load(&run).await.unwrap(), Some(expected.clone()));
    let others = Claim { by: support::run("other").into(), ..claim };
    assert_eq!(local.claim(&others).await, Ok(Claimed::Of(run.clone().into())));
    let entries: Vec<Json> = (1..=5).map(|number| Json::of(&number).unwrap()).collect();
    assert_eq!(local.log(&run, LogId(0), 0, 100).await.unwrap(), entries);
    assert_eq!(local.get(&blob).await.unwrap(), b"report");
    let listed = local.list(&ListQuery { limit: 10, ..ListQuery::default() }).await.unwrap();
    assert_eq!(
        listed.items.iter().map(|found| (found.run.as_str(), found.phase)).collect::<Vec<_>>(),
        [("r", Phase::Running)]
    );
    assert_eq!(local.due(NOW.next_mark(), 10, None).await.unwrap().items.len(), 1);
    assert_eq!(local.receive(10, VISIBILITY, Duration::ZERO).await.unwrap(), [], "it is still hidden");
    let dead = local.dead_letters(10).unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].reason, "there is no such run");
    assert_eq!(Message::parse(&dead[0].body).unwrap(), envelope("unknown", 1).message);
    let taken = applied(&local, &run, commit(step(&expected))).await;
    assert_eq!(taken.progress.revision, Revision(6));
}

/// Set for the process that is killed: the folder that it writes to, and the names of its runs.
const STORM: &str = "STEPWELL_TEST_STORM";
/// Acknowledged writes after which the process is killed, round by round.
const ROUNDS: [u64; 4] = [1, 60, 300, 700];
const WRITERS: usize = 8;

#[test]
fn a_kill_in_the_middle_of_a_storm_of_writes_loses_nothing_that_was_answered() {
    if let Ok(storm) = env::var(STORM) {
        let (round, dir) = storm.split_once('=').unwrap();
        return tokio::runtime::Runtime::new().unwrap().block_on(write_on_and_on(Path::new(dir), round));
    }
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeMap::new();
    for (round, count) in ROUNDS.into_iter().enumerate() {
        killed_after(count, dir.path(), round, &mut acknowledged);
        tokio::runtime::Runtime::new().unwrap().block_on(all_is_there(dir.path(), &acknowledged));
    }
    assert!(acknowledged.values().sum::<u64>() >= ROUNDS.iter().sum());
}

/// What the process that is killed does: each writer commits, says so, and sends as many messages.
async fn write_on_and_on(dir: &Path, round: &str) {
    let local = open(dir);
    let writers = (0..WRITERS).map(|writer| {
        let (local, name) = (local.clone(), format!("r{round}-{writer}"));
        tokio::spawn(async move {
            let mut run = held(&local, &name).await;
            loop {
                run = applied(&local, &run.run, commit(step(&run))).await;
                local.send(&[envelope(&name, run.progress.revision.0)]).await.unwrap();
                // One write to the pipe: the kill leaves no half of a line.
                let line = format!("ack {name} {}\n", run.progress.revision);
                std::io::stderr().write_all(line.as_bytes()).unwrap();
            }
        })
    });
    futures_util::future::select_all(writers).await.0.unwrap();
}

/// Starts that process, kills it after so many acknowledged writes, and keeps the last of each run.
fn killed_after(count: u64, dir: &Path, round: usize, acknowledged: &mut BTreeMap<String, u64>) {
    let name = "a_kill_in_the_middle_of_a_storm_of_writes_loses_nothing_that_was_answered";
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(STORM, format!("{round}={}", dir.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut note = |line: String| {
        let words: Vec<&str> = line.split(' ').collect();
        let ["ack", run, revision] = words[..] else { panic!("the child says {line:?}") };
        acknowledged.insert(run.to_owned(), revision.parse().unwrap());
    };
    for _ in 0..count {
        note(lines.next().unwrap().unwrap());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it had said before it died.
    lines.map(Result::unwrap).for_each(note);
}

async fn all_is_there(dir: &Path, acknowledged: &BTreeMap<String, u64>) {
    let local = open(dir);
    let mut waiting = BTreeMap::new();
    loop {
        let got = local.receive(1_000, Duration::ZERO, Duration::ZERO).await.unwrap();
        let before = waiting.len();
        waiting.extend(got.into_iter().map(|one| ((one.message.run.to_string(), one.message.ticket.0), one.receipt)));
        if waiting.len() == before {
            break;
        }
    }
    for (name, revision) in acknowledged {
        let run = run(name);
        let stored = local.load(&run).await.unwrap().unwrap();
        let found = stored.progress.revision.0;
        assert!(found >= *revision, "{name}: {revision} was acknowledged, {found} is there");
        let log = local.log(&run, LogId(0), 0, usize::MAX).await.unwrap();
        assert_eq!(log, (1..=found).map(|number| Json::of(&number).unwrap()).collect::<Vec<_>>(), "the log of {name}");
        for ticket in 1..=*revision {
            assert!(waiting.contains_key(&(name.clone(), ticket)), "{name}: message {ticket} was acknowledged");
        }
    }
}

/// Two handles on one folder, as two processes have them: locks of the file system are all they share.
#[test]
fn of_two_that_commit_one_wins_each_revision() {
    const REVISIONS: u64 = 60;
    let dir = tempfile::tempdir().unwrap();
    let first = tokio::runtime::Runtime::new().unwrap().block_on(async { held(&open(dir.path()), "r").await });
    let rivals: Vec<_> = (0..2)
        .map(|_| {
            let (dir, first) = (dir.path().to_path_buf(), first.clone());
            thread::spawn(move || tokio::runtime::Runtime::new().unwrap().block_on(race(&open(&dir), first, REVISIONS)))
        })
        .collect();
    let mut won = rivals.into_iter().flat_map(|rival| rival.join().unwrap()).collect::<Vec<_>>();
    won.sort_unstable();
    assert_eq!(won, (1..=REVISIONS).collect::<Vec<_>>(), "each revision was won once");
}

/// Commits on what is there until the last revision; answers with those that were its own.
async fn race(local: &Local, mut at: Checkpoint, revisions: u64) -> Vec<u64> {
    let mut won = Vec::new();
    while at.progress.revision.0 < revisions {
        match support::write(local, &at.run, commit(step(&at))).await.unwrap() {
            Written::Applied(next) => {
                won.push(next.progress.revision.0);
                at = *next;
            }
            Written::Refused(by) => at = *by.unwrap(),
        }
    }
    won
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_process_lets_another_one_in() {
    const WRITES: u64 = 50;
    const AHEAD: u64 = 6;
    let dir = tempfile::tempdir().unwrap();
    let (busy, other) = (open(dir.path()), open(dir.path()));
    let mut at = held(&other, "other").await;
    let mut workers = Vec::new();
    for number in 0..8 {
        let (busy, mut at) = (busy.clone(), held(&busy, &format!("r{number}")).await);
        workers.push(tokio::spawn(async move {
            loop {
                at = applied(&busy, &at.run, commit(step(&at))).await;
            }
        }));
    }
    let mut ahead = Vec::new();
    for _ in 0..WRITES {
        let before = busy.stats().transactions;
        at = applied(&other, &at.run, commit(step(&at))).await;
        ahead.push(busy.stats().transactions - before);
    }
    workers.iter().for_each(tokio::task::JoinHandle::abort);
    // The machine itself may hold up a write or two.
    ahead.sort_unstable();
    assert!(ahead[ahead.len() - 3] <= AHEAD, "transactions of the other process before each write: {ahead:?}");
}

#[tokio::test]
async fn writes_that_wait_together_share_a_transaction() {
    const RUNS: usize = 100;
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path());
    let mut all = Vec::new();
    for number in 0..RUNS {
        all.push(held(&local, &format!("r{number}")).await);
    }
    let before = local.stats();
    let tasks: Vec<_> = all
        .into_iter()
        .map(|held| {
            let local = local.clone();
            tokio::spawn(async move { applied(&local, &held.run, commit(step(&held))).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().progress.revision, Revision(1));
    }
    let after = local.stats();
    assert_eq!(after.requests - before.requests, RUNS as u64);
    let transactions = after.transactions - before.transactions;
    assert!((1..RUNS as u64 / 4).contains(&transactions), "{RUNS} writes took {transactions} transactions");
}

#[tokio::test]
async fn a_step_writes_one_page_and_what_changes_nothing_writes_none() {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path());
    let mut run = held(&local, "r").await;
    // Neighbours fill the pages of the indexes, so that an entry that is written shows.
    for number in 0..200 {
        held(&local, &format!("r{number}")).await;
    }
    let plain = |run: &Checkpoint| {
        let mut step = step(run);
        step.appends.clear();
        commit(step)
    };
    // The first step changes the phase: it goes to another place of the list.
    run = applied(&local, &run.run, plain(&run)).await;
    let before = local.stats();
    for _ in 0..10 {
        run = applied(&local, &run.run, plain(&run)).await;
    }
    let after = local.stats();
    assert_eq!(after.transactions - before.transactions, 10);
    assert_eq!(after.log_bytes - before.log_bytes, 10 * (4096 + 24), "one page a step: no index is touched");

    let refused =
        support::write(&local, &run.run, commit(step(&Checkpoint { progress: held_progress(&run), ..run.clone() })));
    assert!(matches!(refused.await.unwrap(), Written::Refused(Some(_))));
    assert!(matches!(support::write(&local, &run.run, acquire(&run)).await.unwrap(), Written::Refused(Some(_))));
    assert_eq!(local.receive(10, VISIBILITY, Duration::ZERO).await.unwrap(), []);
    assert_eq!(local.stats().transactions, after.transactions);
}

/// The progress of a holder that has missed the last commit.
fn held_progress(run: &Checkpoint) -> stepwell_core::Progress {
    let mut progress = run.progress.clone();
    progress.revision.0 -= 1;
    progress
}

#[tokio::test]
async fn a_request_that_was_applied_is_answered_again_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path());
    let run = held(&local, "r").await;
    let request: WriteRequest = request(&run.run, commit(step(&run)));
    let first = local.write(&request).await.unwrap();
    drop(local);
    let local = open(dir.path());
    assert_eq!(local.write(&request).await.unwrap(), first);
    assert_eq!(local.stats().transactions, 0);
}

#[tokio::test]
async fn a_message_of_another_process_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (sender, receiver) = (open(dir.path()), open(dir.path()));
    let waiting = tokio::spawn(async move { receiver.receive(10, VISIBILITY, Duration::from_mins(1)).await.unwrap() });
    tokio::task::yield_now().await;
    sender.send(&[envelope("r", 1)]).await.unwrap();
    let got = waiting.await.unwrap();
    assert_eq!(got.into_iter().map(|one| one.message).collect::<Vec<_>>(), [envelope("r", 1).message]);
}

#[tokio::test]
async fn a_database_that_another_process_holds_is_busy_after_a_while() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { busy_wait: Duration::from_millis(30), ..Options::default() };
    let local = Local::open(dir.path(), Arc::new(SystemClock), options).unwrap();
    let other = support::database(dir.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let answer = support::write(&local, &run("r"), start(10)).await;
    assert!(matches!(answer, Err(stepwell_ports::StoreError::Throttled(_))), "{answer:?}");
    assert_eq!(local.load(&run("r")).await.unwrap(), None, "reading goes on");
    other.execute_batch("ROLLBACK").unwrap();
    applied(&local, &run("r"), start(10)).await;
}
