//! A workflow gives its secret away in every way it can, on the embedded backend. Then every file and every event of the log
//! is searched for it.
// A surprise in a test should stop it, whether in its helpers or in the test itself.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod leaks;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leaks::{check, leak_all};
use stepwell_engine::Ports;
use stepwell_local::{Local, Options};
use stepwell_ports::system::SystemClock;
use stepwell_testkit::{Capture, SeededIds};

/// All that lies in a folder: paths and bytes.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(files(&entry));
        } else {
            found.push((entry.clone(), fs::read(&entry).unwrap()));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_a_secret_covers_is_written() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("secrets-{}", std::process::id()));
    let log = Capture::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let panics = Capture::default();
    let printed = panics.clone();
    std::panic::set_hook(Box::new(move |panic| printed.write(panic)));

    let local = Local::open(&dir, Arc::new(SystemClock), Options::default()).unwrap();
    let ports = Ports {
        store: Arc::new(local.clone()),
        queue: Arc::new(local.clone()),
        blobs: Arc::new(local.clone()),
        clock: Arc::new(SystemClock),
        ids: Arc::new(SeededIds::new(1)),
    };
    let told = leak_all(ports).await;
    let mut written = files(&dir);
    assert!(written.iter().any(|(path, _)| path.ends_with("stepwell.db-wal")), "not looked into while it is open");
    drop(local);
    written.extend(files(&dir));
    fs::remove_dir_all(&dir).unwrap();
    drop(std::panic::take_hook());

    assert!(log.text().contains("turn ended"), "the log was not captured");
    // It says why by kind and code, which are no values.
    let whys: BTreeSet<String> = log.text().lines().filter(|line| line.starts_with("why=")).map(Into::into).collect();
    for why in ["error", "panic", "refused", "terminal", "unknown-outcome"] {
        assert!(whys.contains(&format!("why={why:?}")), "{why}: {whys:?}");
    }
    assert!(whys.iter().any(|why| why.starts_with("why=\"terminal [")), "{whys:?}");
    let mut written: Vec<(String, Vec<u8>)> =
        written.into_iter().map(|(path, bytes)| (path.display().to_string(), bytes)).collect();
    written.push(("log".into(), log.text().into_bytes()));
    written.push(("panics".into(), panics.text().into_bytes()));
    check(&told, &written);
}
