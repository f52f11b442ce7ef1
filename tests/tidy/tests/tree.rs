//! What the repository holds, and how its sources are kept.
// The helpers below are part of the tests: a surprise in them should stop the test.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use stepwell_tidy::{Repository, assert_none, rust};

const MOST_CODE_LINES: usize = 500;

#[test]
fn the_top_level_is_small() {
    const ENTRIES: [&str; 8] =
        ["Cargo.toml", "Cargo.lock", "functions", "shared", "infra", "tests", "Makefile", "README.md"];
    let repository = Repository::open().unwrap();
    let entries: BTreeSet<&str> = repository.files().filter_map(|file| file.split('/').next()).collect();
    // The settings of tools are dotfiles.
    let is_known = |entry: &&str| ENTRIES.contains(entry) || entry.starts_with("LICENSE") || entry.starts_with('.');
    let others: Vec<String> = entries.into_iter().filter(|entry| !is_known(entry)).map(str::to_owned).collect();
    assert_none("what does not belong at the top level:", &others);
}

#[test]
fn files_can_be_read_in_one_go() {
    let long = sources().into_iter().filter_map(|(file, source)| {
        let lines = rust::code_lines(&source);
        (lines > MOST_CODE_LINES).then(|| format!("{file}: {lines}"))
    });
    assert_none(
        &format!("files with more than {MOST_CODE_LINES} lines of code before their tests:"),
        &long.collect::<Vec<_>>(),
    );
}

#[test]
fn nothing_is_left_for_later() {
    // Cut in two, so that this file does not hold them itself.
    let unfinished =
        [("#[ign", "ore"), ("todo", "!("), ("unimplemented", "!(")].map(|(head, tail)| head.to_owned() + tail);
    let mut found = Vec::new();
    for (file, source) in sources() {
        let lines = source.lines().zip(1..);
        let lines = lines.filter(|(line, _)| unfinished.iter().any(|word| line.contains(word.as_str())));
        found.extend(lines.map(|(line, number)| format!("{file}:{number}: {}", line.trim())));
    }
    assert_none("unfinished code, or tests that do not run:", &found);
}

#[test]
fn each_shared_crate_says_what_it_is_for() {
    let repository = Repository::open().unwrap();
    let silent = repository.files().filter(|file| is_shared_lib(file)).filter(|file| {
        let doc = rust::opening_doc(&repository.read(file).unwrap());
        !(doc.contains("what lives here") && doc.contains("what must not"))
    });
    let silent: Vec<String> = silent.map(str::to_owned).collect();
    assert_none("`//!` must open with a paragraph `What lives here` and one `What must not`:", &silent);
}

#[test]
fn each_crate_inherits_the_lints() {
    let repository = Repository::open().unwrap();
    let manifests = repository.files().filter(|file| file.ends_with("/Cargo.toml") && is_member(file));
    let without = manifests.filter(|file| {
        let manifest = repository.read(file).unwrap();
        let lints = manifest.lines().skip_while(|line| line.trim() != "[lints]").skip(1);
        !lints.take_while(|line| !line.starts_with('[')).any(|line| line.trim() == "workspace = true")
    });
    assert_none("no `[lints]` with `workspace = true`:", &without.map(str::to_owned).collect::<Vec<_>>());
}

/// Every Rust file with its text.
fn sources() -> Vec<(String, String)> {
    let repository = Repository::open().unwrap();
    let files = repository.files().filter(|file| rust::is_source(file));
    files.map(|file| (file.to_owned(), repository.read(file).unwrap())).collect()
}

fn is_shared_lib(file: &str) -> bool {
    matches!(file.split('/').collect::<Vec<_>>()[..], ["shared", _, "src", "lib.rs"])
}

/// `shared/core/Cargo.toml`, but no manifest that is part of a template or a fixture further down.
fn is_member(file: &str) -> bool {
    file.split('/').count() == 3
}
