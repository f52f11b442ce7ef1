//! What is broken is said to be, by name; nothing is guessed, and nothing else suffers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod support;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use stepwell_core::limits::CHECKPOINT_BYTES_MAX;
use stepwell_core::write::{LogAppend, Write};
use stepwell_core::{
    CancelRequest, Checkpoint, Class, EffectKey, EffectRecord, Json, LogId, Outcome, Payload, Place, Revision, Scope,
    WorkflowName,
};
use stepwell_local::{Local, OpenError, Options};
use stepwell_ports::system::SystemClock;
use stepwell_ports::{CheckpointStore as _, Claim, Claimed, StoreError, Written};
use support::{NOW, acquire, applied, commit, database, held, open, run, signal, start, step, write};
use tempfile::TempDir;

/// A folder with one run that has stepped, been signalled and cancelled, and everything that can lie beside it.
async fn folder() -> (TempDir, Checkpoint, EffectKey) {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path());
    let run = held(&local, "r").await;
    let key = EffectKey::derive(&run.run, &WorkflowName::new("brief").unwrap(), "mail", Scope::Run("order-7"));
    let record = EffectRecord {
        key: key.clone(),
        name: "mail".into(),
        class: Class::Read,
        parameters: None,
        attempts: 1,
        outcome: Outcome::Succeeded(Payload::Inline(Json::of("sent").unwrap())),
        until: None,
        of_run: true,
        approval: None,
        costs: stepwell_core::Amounts::new(),
        undo: None,
        no_return: false,
        signed_off: None,
    };
    let mut first = step(&run);
    first.spill = vec![record];
    first.segment = Some(run.progress.tail.clone());
    let run = applied(&local, &run.run, commit(first)).await;
    applied(&local, &run.run, signal("s1")).await;
    let cancel = CancelRequest { by: "ann".into(), why: None, at: NOW };
    let run = applied(&local, &run.run, Write::Cancel(cancel)).await;
    applied(&local, &support::run("other"), start(10)).await;
    (dir, run, key)
}

/// Changes stored bytes, as a failing disk or a curious person would.
fn change(dir: &Path, sql: &str) {
    assert_eq!(database(dir).execute(sql, []).unwrap(), 1, "{sql}");
}

fn is_damaged<T: core::fmt::Debug>(answer: Result<T, StoreError>, what: &str) {
    match answer {
        Err(StoreError::Damaged(why)) => {
            assert!(why.contains("run r:") && why.contains("backup"), "{what}: names the run and what to do: {why}");
        }
        other => panic!("{what} was changed, yet the answer is {other:?}"),
    }
}

#[tokio::test]
async fn a_changed_column_is_damage_whatever_reads_it() {
    let changes = [
        "workflow = 'brieg'",
        "started_at = started_at + 1",
        "input_digest = zeroblob(32)",
        "fence = fence + 1",
        "write_id = write_id + 1",
        "lease_until = lease_until + 1",
        "lease_until = NULL",
        "hold = replace(hold, 'worker-1', 'worker-2')",
        "due_at = due_at - 1",
        "due_at = NULL",
        "mailbox_seq = 0",
        "mailbox = replace(mailbox, 'hello', 'hallo')",
        "mailbox = NULL",
        "cancel = replace(cancel, 'ann', 'bob')",
        "cancel = NULL",
        "ticket = ticket + 1",
        "revision = revision + 1",
        "visit = visit + 1",
        "phase = 'waiting'",
        "wakes_at = 1",
        "wait_seen = 1",
        "progress = replace(progress, 'xxx', 'xxy')",
        "progress = substr(progress, 1, 40)",
        "progress_crc = progress_crc + 1",
    ];
    for change in changes {
        let (dir, held, _) = folder().await;
        self::change(dir.path(), &format!("UPDATE runs SET {change} WHERE run = 'r'"));
        let local = open(dir.path());
        is_damaged(local.load(&held.run).await, change);
        is_damaged(write(&local, &held.run, acquire(&held)).await, change);
        is_damaged(write(&local, &held.run, signal("s2")).await, change);
        assert!(local.load(&run("other")).await.unwrap().is_some(), "the others are as they were");
    }
}

/// A commit does not read the parts that it leaves alone, but it must not carry damage on unseen.
#[tokio::test]
async fn a_commit_on_a_damaged_row_is_not_made() {
    for change in ["workflow = 'brieg'", "mailbox = replace(mailbox, 'hello', 'hallo')", "fence = fence + 1"] {
        let (dir, held, _) = folder().await;
        self::change(dir.path(), &format!("UPDATE runs SET {change} WHERE run = 'r'"));
        let local = open(dir.path());
        is_damaged(write(&local, &held.run, commit(step(&held))).await, change);
        let revision: i64 =
            database(dir.path()).query_row("SELECT revision FROM runs WHERE run = 'r'", [], |row| row.get(0)).unwrap();
        assert_eq!(revision, 1, "{change}: nothing was written");
    }
}

#[tokio::test]
async fn what_lies_beside_is_checked_too() {
    let (dir, held, key) = folder().await;
    for table in ["log_entries", "segments", "effects"] {
        change(dir.path(), &format!("UPDATE {table} SET value = replace(value, substr(value, 2, 1), ' ') || ' '"));
    }
    let local = open(dir.path());
    is_damaged(local.log(&held.run, LogId(0), 0, 10).await, "a log entry");
    is_damaged(local.history(&held.run, Revision(0), 10).await, "a segment");
    is_damaged(local.effect(&held.run, &key).await, "an effect");
}

/// Else two runs would act under one key.
#[tokio::test]
async fn a_claim_that_was_changed_is_granted_to_nobody() {
    for change in ["run = 'other'", "run = ''", "crc = crc + 1"] {
        let (dir, held, key) = folder().await;
        let claim =
            |name: &str| Claim { key: key.clone(), by: run(name).into(), instead_of: Some(held.run.clone().into()) };
        let local = open(dir.path());
        assert_eq!(local.claim(&claim("r")).await, Ok(Claimed::Mine));
        self::change(dir.path(), &format!("UPDATE claims SET {change}"));
        for name in ["r", "other", "third"] {
            match local.claim(&claim(name)).await {
                Err(StoreError::Damaged(why)) => {
                    assert!(why.contains(key.as_str()), "{change}: it names the key: {why}");
                }
                other => panic!("{change}, yet the answer to {name} is {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_database_from_before_there_were_claims_takes_them() {
    let (dir, held, key) = folder().await;
    database(dir.path()).execute_batch("DROP TABLE claims").unwrap();
    let local = open(dir.path());
    let claim = Claim { key, by: held.run.clone().into(), instead_of: None };
    assert_eq!(local.claim(&claim).await, Ok(Claimed::Mine));
    assert_eq!(local.load(&held.run).await, Ok(Some(held)));
    drop(local);
    let others = Claim { by: run("other").into(), ..claim };
    assert_eq!(open(dir.path()).claim(&others).await, Ok(Claimed::Of(run("r").into())));
}

#[tokio::test]
async fn one_damaged_run_does_not_hold_up_the_writes_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path());
    let mut all = Vec::new();
    for number in 0..20 {
        all.push(held(&local, &format!("r{number}")).await);
    }
    change(dir.path(), "UPDATE runs SET workflow = 'brieg' WHERE run = 'r7'");
    let tasks: Vec<_> = all
        .into_iter()
        .map(|held| {
            let local = local.clone();
            tokio::spawn(async move { (held.run.clone(), write(&local, &held.run, commit(step(&held))).await) })
        })
        .collect();
    for task in tasks {
        let (run, answer) = task.await.unwrap();
        match (run.as_str(), answer) {
            ("r7", Err(StoreError::Damaged(_))) => {}
            ("r7", other) => panic!("r7 is damaged, yet the answer is {other:?}"),
            (_, answer) => assert!(matches!(answer, Ok(Written::Applied(_))), "{run}: {answer:?}"),
        }
    }
}

#[tokio::test]
async fn a_row_of_a_newer_format_is_refused_by_name() {
    let (dir, held, _) = folder().await;
    change(dir.path(), "UPDATE runs SET format = 2 WHERE run = 'r'");
    let local = open(dir.path());
    let newer = "run r: the checkpoint has format 2, this code reads up to 1: deploy the newer code";
    assert_eq!(local.load(&held.run).await, Err(StoreError::Damaged(newer.into())));
    for write in [commit(step(&held)), signal("s2"), acquire(&held)] {
        assert_eq!(support::write(&local, &held.run, write).await, Err(StoreError::Damaged(newer.into())));
    }
}

#[tokio::test]
async fn columns_of_newer_code_survive_every_write_of_this_one() {
    let (dir, mut at, _) = folder().await;
    let newer = database(dir.path());
    newer.execute_batch("ALTER TABLE runs ADD COLUMN tags TEXT; UPDATE runs SET tags = '[1,{\"deep\":true}]'").unwrap();
    let local = open(dir.path());
    at = applied(&local, &at.run, commit(step(&at))).await;
    at = applied(&local, &at.run, signal("s2")).await;
    let mut free = step(&at);
    free.lease = None;
    free.consumed = at.mailbox.letters.iter().map(|letter| letter.id.clone()).collect();
    at = applied(&local, &at.run, commit(free)).await;
    applied(&local, &at.run, acquire(&at)).await;
    applied(&local, &run("fresh"), start(10)).await;
    let tags =
        |run| newer.query_row("SELECT tags FROM runs WHERE run = ?1", [run], |row| row.get::<_, Option<String>>(0));
    assert_eq!(tags("r").unwrap().as_deref(), Some("[1,{\"deep\":true}]"));
    assert_eq!(tags("fresh").unwrap(), None);
}

fn opened(dir: &Path) -> Result<Local, OpenError> {
    Local::open(dir, Arc::new(SystemClock), Options::default())
}

fn refused(dir: &Path) -> OpenError {
    match opened(dir) {
        Ok(_) => panic!("{} was opened", dir.display()),
        Err(error) => error,
    }
}

#[tokio::test]
async fn a_file_that_was_cut_off_is_damaged_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path());
    for number in 0..50 {
        applied(&local, &run(&format!("r{number}")), start(2_000)).await;
    }
    drop(local);
    let file = dir.path().join("stepwell.db");
    let whole = fs::read(&file).unwrap();
    assert!(whole.len() > 20 * 4096);
    for length in [0, 1, 50, 99, 100, 2_000, 4_096, 3 * 4_096, whole.len() / 2, whole.len() - 4_096, whole.len() - 1] {
        fs::write(&file, &whole[..length]).unwrap();
        match opened(dir.path()).map(drop) {
            Err(OpenError::Damaged { .. }) => {}
            // Not even its first bytes are there.
            Err(OpenError::Foreign { .. }) if (1..16).contains(&length) => {}
            other => panic!("cut to {length} of {} bytes: {other:?}", whole.len()),
        }
        assert_eq!(fs::read(&file).unwrap(), whole[..length], "nothing was changed");
    }
    fs::write(&file, &whole).unwrap();
    let local = open(dir.path());
    assert!(local.load(&run("r49")).await.unwrap().is_some(), "the backup is good");
}

#[tokio::test]
async fn pages_that_were_overwritten_are_damage_not_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path());
    for number in 0..50 {
        held(&local, &format!("r{number}")).await;
    }
    drop(local);
    let file = dir.path().join("stepwell.db");
    let mut bytes = fs::read(&file).unwrap();
    let tables = 12 * 4096;
    bytes[tables..].fill(0xA5);
    fs::write(&file, &bytes).unwrap();
    let local = open(dir.path());
    let answer = local.load(&run("r30")).await;
    assert!(matches!(&answer, Err(StoreError::Damaged(why)) if why.contains("restore a backup")), "{answer:?}");
    let answer = write(&local, &run("r30"), signal("s")).await;
    assert!(matches!(answer, Err(StoreError::Damaged(_))), "{answer:?}");
}

#[test]
fn a_file_of_another_program_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("stepwell.db");
    let text = "to do: buy milk\n".repeat(100);
    fs::write(&file, &text).unwrap();
    assert!(matches!(refused(dir.path()), OpenError::Foreign { .. }));
    assert_eq!(fs::read_to_string(&file).unwrap(), text);

    fs::remove_file(&file).unwrap();
    database(dir.path()).execute_batch("CREATE TABLE bookmarks (url TEXT)").unwrap();
    let error = refused(dir.path());
    assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
    assert!(
        error.to_string().contains("another program has made it; nothing was changed; give another folder"),
        "{error}"
    );
}

#[test]
fn a_database_of_newer_code_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    database(dir.path()).execute_batch("PRAGMA user_version = 2").unwrap();
    let error = refused(dir.path());
    assert!(matches!(error, OpenError::Newer { found: 2, known: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("deploy the newer code"), "{error}");
}

#[test]
fn a_log_without_its_database_is_not_taken_for_an_empty_folder() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("stepwell.db-wal"), b"log").unwrap();
    assert!(matches!(refused(dir.path()), OpenError::Damaged { .. }));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was made");
}

#[tokio::test]
async fn blobs_without_their_database_are_not_taken_for_an_empty_folder() {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path());
    local.blobs().put(&run("r"), b"a draft").await.unwrap();
    drop(local);
    fs::remove_file(dir.path().join("stepwell.db")).unwrap();
    for create in [true, false] {
        match Local::open(dir.path(), Arc::new(SystemClock), Options { create, ..Options::default() }) {
            Err(error @ OpenError::Damaged { .. }) => {
                let text = error.to_string();
                assert!(text.contains("it is gone, but its blobs are still there"), "{text}");
                assert!(text.contains("move the folder away") && text.contains("restore it from a backup"), "{text}");
            }
            other => panic!("create {create}: {other:?}"),
        }
    }
    assert!(!dir.path().join("stepwell.db").exists(), "nothing was made");
    fs::remove_dir_all(dir.path().join("blobs")).unwrap();
    drop(open(dir.path()));
}

#[test]
fn nothing_is_made_for_whoever_only_looks() {
    let dir = tempfile::tempdir().unwrap();
    let look = |path: &Path| Local::open(path, Arc::new(SystemClock), Options { create: false, ..Options::default() });
    for path in [dir.path().to_path_buf(), dir.path().join("a/b")] {
        assert!(matches!(look(&path), Err(OpenError::Missing { .. })), "{}", path.display());
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing was made");
    fs::write(dir.path().join("file"), b"").unwrap();
    assert!(matches!(look(&dir.path().join("file")), Err(OpenError::Folder { .. })));
    drop(open(dir.path()));
    look(dir.path()).unwrap();
}

#[test]
fn a_folder_that_cannot_be_used_is_said_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = refused(&path);
        assert!(matches!(error, OpenError::Folder { .. }), "{error:?}");
    }
}

#[test]
fn a_folder_is_made_whole_by_whoever_comes_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b");
    let openers: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || opened(&path).map(drop))
        })
        .collect();
    for opener in openers {
        opener.join().unwrap().unwrap();
    }
    let mut left: Vec<_> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["blobs", "stepwell.db", "stepwell.lock"]);
}

#[tokio::test]
async fn a_full_disk_refuses_what_does_not_fit_and_keeps_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { size_limit: Some(400 * 1024), ..Options::default() };
    let local = Local::open(dir.path(), Arc::new(SystemClock), options).unwrap();
    let small = held(&local, "small").await;
    let mut stored = 0;
    let full = loop {
        match write(&local, &run(&format!("r{stored}")), start(50_000)).await {
            Ok(Written::Applied(_)) => stored += 1,
            other => break other,
        }
        assert!(stored < 100, "it is never full");
    };
    assert!(matches!(&full, Err(StoreError::Unavailable(why)) if why.contains("the disk is full")), "{full:?}");
    assert!(stored > 3);

    // One that fits, in the same group as many that do not.
    let over: Vec<_> = (0..10)
        .map(|number| {
            let local = local.clone();
            tokio::spawn(async move { write(&local, &run(&format!("over{number}")), start(50_000)).await })
        })
        .collect();
    let (fits, local_too) = (local.clone(), small.run.clone());
    let fits = tokio::spawn(async move { write(&fits, &local_too, signal("s1")).await });
    for over in over {
        assert!(matches!(over.await.unwrap(), Err(StoreError::Unavailable(_))));
    }
    assert!(matches!(fits.await.unwrap(), Ok(Written::Applied(_))));
    for number in 0..stored {
        assert!(local.load(&run(&format!("r{number}"))).await.unwrap().is_some(), "what was answered is there");
    }
    assert_eq!(local.load(&run("over0")).await.unwrap(), None);
    drop(local);
    // With more room it goes on.
    applied(&open(dir.path()), &run("over0"), start(50_000)).await;
}

#[tokio::test]
async fn an_entry_over_the_limit_is_invalid_and_the_commit_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path());
    let run = held(&local, "r").await;
    let huge = Json::of(&"x".repeat(stepwell_core::limits::VALUE_BYTES_MAX)).unwrap();
    let mut over = step(&run);
    over.appends = vec![LogAppend { log: LogId(0), first: 0, entries: vec![huge] }];
    let answer = write(&local, &run.run, commit(over)).await;
    assert!(matches!(answer, Err(StoreError::Invalid(_))));
    assert_eq!(local.load(&run.run).await.unwrap(), Some(run));
}

/// A commit of a step does not read the mailbox, and is measured with it all the same.
#[tokio::test]
async fn a_commit_that_does_not_fit_beside_the_mailbox_is_invalid() {
    let dir = tempfile::tempdir().unwrap();
    let local = open(dir.path());
    let mut run = held(&local, "r").await;
    for number in 0..3 {
        let Write::Signal(mut letter) = signal(&format!("s{number}")) else { panic!("a signal") };
        letter.payload = Payload::Inline(Json::of(&"y".repeat(20_000)).unwrap());
        run = applied(&local, &run.run, Write::Signal(letter)).await;
    }
    let of_size = |bytes: usize| {
        let mut step = step(&run);
        let state = Payload::Inline(Json::of(&"x".repeat(bytes)).unwrap());
        step.progress.place = Place::At { cursor: Json::of("Next").unwrap(), state };
        commit(step)
    };
    let answer = write(&local, &run.run, of_size(CHECKPOINT_BYTES_MAX - 60_000)).await;
    assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    assert_eq!(local.load(&run.run).await.unwrap().as_ref(), Some(&run));
    applied(&local, &run.run, of_size(CHECKPOINT_BYTES_MAX - 63_000)).await;
}
