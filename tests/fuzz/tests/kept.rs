//! Every input that was kept is tried again, and every one that has once found something, by its name.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use stepwell_fuzz::{TARGETS, Target};

/// Bytes of all that is kept. It is read at each test, and by each clone.
const KEPT_BYTES_MAX: u64 = 500_000;

fn folder(kind: &str, target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(target)
}

/// The files of a folder, in the order of their names; none where there is no folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Tries all that is kept for a target, and answers how much that is.
fn replay(target: &Target) -> usize {
    let (corpus, found) = (files(&folder("corpus", target.name)), files(&folder("found", target.name)));
    assert!(!corpus.is_empty(), "nothing is kept for {}: run `cargo run -p stepwell-fuzz -- keep`", target.name);
    for file in corpus.iter().chain(&found) {
        let bytes = fs::read(file).unwrap();
        let tried = catch_unwind(|| (target.run)(&bytes));
        assert!(tried.is_ok(), "{} does not hold for {}", target.name, file.display());
    }
    corpus.len() + found.len()
}

macro_rules! replayed {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let target = TARGETS.iter().find(|target| target.name == stringify!($name)).unwrap();
            assert!(replay(target) > 0);
        })*

        #[test]
        fn every_target_is_replayed() {
            assert!(TARGETS.iter().map(|target| target.name).eq([$(stringify!($name)),*]));
        }
    };
}

replayed! { api checkpoint edit link message names pages segment times }

#[test]
fn folders_are_those_of_targets_and_small() {
    let mut bytes = 0;
    for kind in ["corpus", "found"] {
        for folder in files(&folder(kind, "")) {
            let name = folder.file_name().unwrap().to_str().unwrap();
            assert!(TARGETS.iter().any(|target| target.name == name), "there is no target {name}");
            bytes += files(&folder).iter().map(|file| fs::metadata(file).unwrap().len()).sum::<u64>();
        }
    }
    assert!(bytes <= KEPT_BYTES_MAX, "{bytes} bytes are kept: leave out what reaches nothing of its own");
}
