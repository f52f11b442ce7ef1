//! What the documents name exists.
// The helpers below are part of the tests: a surprise in them should stop the test.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::process::Command;

use stepwell_tidy::markdown::{self, Code};
use stepwell_tidy::{Repository, assert_none, rust};

const DOCUMENTS: [&str; 3] = ["README.md", "shared/ARCHITECTURE.md", "tests/README.md"];

#[test]
fn the_documents_are_there() {
    let repository = Repository::open().unwrap();
    let missing = DOCUMENTS.iter().filter(|document| !repository.holds(document));
    assert_none("missing documents:", &missing.map(|&document| document.to_owned()).collect::<Vec<_>>());
}

#[test]
fn paths_in_the_documents_exist() {
    let repository = Repository::open().unwrap();
    let dead = offences(&repository, |code| {
        let dead = |path: &&str| !(repository.holds(path) || rust::is_source(path) && repository.holds_ending(path));
        code.path().filter(dead).map(str::to_owned).into_iter().collect()
    });
    assert_none("paths that do not exist:", &dead);
}

#[test]
fn make_targets_in_the_documents_exist() {
    let repository = Repository::open().unwrap();
    let targets = targets(&repository);
    let dead = offences(&repository, |code| {
        code.make_targets().filter(|&target| !targets.contains(target)).map(|target| format!("make {target}")).collect()
    });
    assert_none("targets that the Makefile does not have:", &dead);
}

#[test]
fn make_help_lists_every_target() {
    let repository = Repository::open().unwrap();
    // As a person sees it, whatever flags the make above this test was given.
    let help =
        Command::new("make").arg("help").current_dir(repository.root()).env_remove("MAKEFLAGS").output().unwrap();
    assert!(help.status.success(), "make help: {}", String::from_utf8_lossy(&help.stderr));
    let help = String::from_utf8(help.stdout).unwrap();
    let listed: BTreeSet<&str> = help.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let unlisted = targets(&repository).into_iter().filter(|target| !listed.contains(target.as_str()));
    assert_none("targets that `make help` does not list:", &unlisted.collect::<Vec<_>>());
    assert!(!help.contains('\u{1b}'), "colours belong on a terminal only");
}

#[test]
fn every_target_is_phony() {
    let repository = Repository::open().unwrap();
    let makefile = repository.read("Makefile").unwrap();
    let phony = makefile.lines().find_map(|line| line.strip_prefix(".PHONY:")).unwrap();
    let phony: BTreeSet<String> = phony.split_whitespace().map(str::to_owned).collect();
    assert_eq!(phony, targets(&repository));
}

/// What `find` finds wrong with any code in the documents, with the document's name.
fn offences(repository: &Repository, find: impl Fn(Code<'_>) -> Vec<String>) -> Vec<String> {
    let present = DOCUMENTS.iter().filter(|document| repository.holds(document));
    let found = present.flat_map(|document| {
        let text = repository.read(document).unwrap();
        let found: Vec<String> = markdown::code(&text).into_iter().flat_map(&find).collect();
        found.into_iter().map(move |what| format!("{document}: {what}"))
    });
    found.collect()
}

/// The Makefile's targets: words before a colon at the beginning of a line.
fn targets(repository: &Repository) -> BTreeSet<String> {
    let makefile = repository.read("Makefile").unwrap();
    let names = makefile.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name);
    let is_target = |name: &&str| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    names.filter(is_target).map(str::to_owned).collect()
}
