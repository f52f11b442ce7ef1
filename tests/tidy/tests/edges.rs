//! Who may depend on whom. The architecture is this table; a new edge is a decision, made here.
// The helpers below are part of the tests: a surprise in them should stop the test.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use stepwell_tidy::{Repository, assert_none, rust};

/// Each crate in `shared/`, by its folder, and the crates there which it may build on.
const EDGES: [(&str, &[&str]); 14] = [
    ("core", &[]),
    ("ports", &["core"]),
    ("sdk", &["core"]),
    ("engine", &["core", "ports", "sdk"]),
    ("local", &["core", "ports"]),
    ("testkit", &["core", "ports", "engine", "sdk"]),
    ("testing", &["core", "ports", "engine", "local", "sdk", "testkit"]),
    ("effects", &["sdk"]),
    ("samples", &["sdk"]),
    ("cli", &["engine", "http", "console", "aws", "local", "sdk", "samples", "core", "ports", "testing"]),
    ("aws", &["core", "ports"]),
    ("http", &["core", "engine", "ports", "sdk"]),
    ("console", &["http", "core", "engine", "ports"]),
    ("lambda", &["core", "ports", "engine", "aws", "sdk", "http", "console"]),
];

/// What the tests of any crate may use besides: the conformance suite, a backend to run on, what a workflow is written with, and
/// the figures' reports.
const FOR_TESTS: [&str; 4] = ["shared/testkit", "shared/local", "shared/sdk", "tests/report"];

/// Crates from outside that only some crates may name, by the beginning of their names.
const KEPT_TO: [(&str, &[&str]); 4] = [
    ("aws-sdk-", &["shared/aws", "shared/effects"]),
    ("aws-config", &["shared/aws"]),
    ("lambda_", &["shared/lambda"]),
    ("aws_lambda_events", &["shared/lambda"]),
];

/// All that the protocol is built from: `no_std`, without I/O, threads, clocks or async.
const PURE: [&str; 6] = ["base64ct", "hmac", "serde", "serde_json", "sha2", "thiserror"];

struct Package {
    /// From the root, such as `shared/core`.
    folder: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    for_tests: bool,
    default_features: bool,
    /// The folder of a crate in this workspace.
    folder: Option<String>,
}

#[test]
fn crates_depend_only_along_the_listed_edges() {
    let packages = packages();
    let offences: Vec<String> = packages.iter().flat_map(unlisted_edges).collect();
    assert_none("edges that tests/tidy/tests/edges.rs does not list:", &offences);
}

#[test]
fn an_unlisted_edge_is_found() {
    let edge = |from: &str, to: &str, for_tests| {
        let to = Dependency { name: String::new(), for_tests, default_features: true, folder: Some(to.to_owned()) };
        unlisted_edges(&Package { folder: from.to_owned(), dependencies: vec![to] })
    };
    assert_eq!(edge("shared/core", "shared/ports", false), ["shared/core -> shared/ports"]);
    assert_eq!(edge("shared/engine", "shared/testkit", false), ["shared/engine -> shared/testkit"]);
    assert_eq!(edge("shared/testkit", "shared/local", false), ["shared/testkit -> shared/local"]);
    assert_eq!(edge("shared/cli", "tests/bench", true), ["shared/cli -> tests/bench (for tests)"]);
    assert_eq!(edge("functions/sweeper", "shared/samples", false), ["functions/sweeper -> shared/samples"]);
    assert_eq!(edge("shared/new", "shared/core", false), ["shared/new -> shared/core"]);
    assert_eq!(edge("shared/effects", "shared/effects", false), ["shared/effects -> shared/effects"]);
    assert!(edge("shared/effects", "shared/effects", true).is_empty());
    assert!(edge("shared/engine", "shared/testkit", true).is_empty());
    assert!(edge("functions/runner", "shared/samples", false).is_empty());
    assert!(edge("tests/bench", "shared/local", false).is_empty());
}

#[test]
fn every_shared_crate_is_in_the_table() {
    let packages = packages();
    let shared = packages.iter().filter_map(|package| package.folder.strip_prefix("shared/"));
    let missing: Vec<String> =
        shared.filter(|name| EDGES.iter().all(|(known, _)| known != name)).map(str::to_owned).collect();
    assert_none("crates without a line in EDGES:", &missing);
}

#[test]
fn cloud_libraries_stay_in_their_crates() {
    let mut offences = Vec::new();
    for package in packages().iter().filter(|package| !package.folder.starts_with("tests/")) {
        for Dependency { name, .. } in &package.dependencies {
            let kept = KEPT_TO.iter().filter(|(prefix, _)| name.starts_with(prefix));
            let strayed = kept.filter(|(_, folders)| !folders.contains(&package.folder.as_str()));
            offences.extend(strayed.map(|(_, folders)| format!("{} -> {name}: only {folders:?} may", package.folder)));
        }
    }
    assert_none("libraries named outside their crates:", &offences);
}

#[test]
fn the_protocol_is_pure() {
    let packages = packages();
    let core = packages.iter().find(|package| package.folder == "shared/core").unwrap();
    let built_in = core.dependencies.iter().filter(|dependency| !dependency.for_tests);
    let impure: Vec<String> = built_in
        .filter(|dependency| dependency.default_features || !PURE.contains(&dependency.name.as_str()))
        .map(|dependency| dependency.name.clone())
        .collect();
    assert_none("shared/core may use only PURE crates, without their default features; these are not:", &impure);

    let source = Repository::open().unwrap().read("shared/core/src/lib.rs").unwrap();
    assert!(source.lines().any(|line| line == "#![no_std]"), "shared/core/src/lib.rs does not say #![no_std]");
    let std = rust::before_tests(&source).any(|line| line.contains("extern crate std"));
    assert!(!std, "shared/core/src/lib.rs links std outside its tests");
}

fn unlisted_edges(package: &Package) -> Vec<String> {
    let from = package.folder.as_str();
    let edges = package.dependencies.iter().filter_map(|edge| Some((edge.folder.as_deref()?, edge.for_tests)));
    edges
        // A crate that names itself for its tests does so to switch features on.
        .filter(|&(to, for_tests)| !(is_listed(from, to) || for_tests && (FOR_TESTS.contains(&to) || to == from)))
        .map(|(to, for_tests)| format!("{from} -> {to}{}", if for_tests { " (for tests)" } else { "" }))
        .collect()
}

fn is_listed(from: &str, to: &str) -> bool {
    if from.starts_with("tests/") {
        return true;
    }
    let Some(to) = to.strip_prefix("shared/") else { return false };
    match from.split_once('/') {
        Some(("shared", name)) => EDGES.iter().any(|(known, edges)| *known == name && edges.contains(&to)),
        // The two functions that link a user's workflows: one runs them, the other only asks what they accept.
        Some(("functions", "runner" | "api")) => matches!(to, "lambda" | "samples"),
        Some(("functions", _)) => to == "lambda",
        _ => false,
    }
}

/// The workspace's packages, as cargo sees them.
fn packages() -> Vec<Package> {
    let repository = Repository::open().unwrap();
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(repository.root())
        .output()
        .unwrap();
    assert!(metadata.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    metadata["packages"].as_array().unwrap().iter().map(|package| read_package(repository.root(), package)).collect()
}

fn read_package(root: &Path, package: &Value) -> Package {
    let from_root = |path: &Path| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    let dependencies = package["dependencies"].as_array().unwrap().iter().map(|dependency| Dependency {
        name: dependency["name"].as_str().unwrap().to_owned(),
        for_tests: dependency["kind"] == "dev",
        default_features: dependency["uses_default_features"].as_bool().unwrap(),
        folder: dependency["path"].as_str().map(|path| from_root(Path::new(path))),
    });
    Package { folder: from_root(manifest.parent().unwrap()), dependencies: dependencies.collect() }
}
