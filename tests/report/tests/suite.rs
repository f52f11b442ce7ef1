//! The program `suite`, on commands that stand in for cargo.
// The helpers below are part of the tests: a surprise in them should stop the test.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

const PASSING: &str = "echo '     Running tests/a.rs (target/debug/deps/a-0f)' >&2
    echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'";

struct Ended {
    code: i32,
    output: String,
    json: serde_json::Value,
}

impl Ended {
    fn last_line(&self) -> &str {
        self.output.lines().last().unwrap_or_default()
    }
}

/// Runs `suite <name> -- sh -c <script>` with a target folder of its own.
fn suite(name: &str, script: &str) -> Ended {
    let target = target(name);
    let (code, output) = program(&target, &[name, "--", "sh", "-c", script]);
    let json = fs::read_to_string(target.join(format!("reports/{name}.json"))).unwrap();
    fs::remove_dir_all(target).unwrap();
    Ended { code, output, json: serde_json::from_str(&json).unwrap() }
}

fn program(target: &PathBuf, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_suite"));
    let ended = command.args(words).env("CARGO_TARGET_DIR", target).output().unwrap();
    (ended.status.code().unwrap(), String::from_utf8(ended.stdout).unwrap())
}

fn target(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("stepwell-suite-{}-{name}", std::process::id()))
}

#[test]
fn a_suite_that_passes_counts_its_tests_in_the_last_line() {
    let ended = suite("passes", &format!("{PASSING}; {PASSING}"));
    assert_eq!(ended.code, 0, "{}", ended.output);
    assert_eq!(ended.last_line(), "6 passed, 0 failed");
    assert_eq!((&ended.json["passed"], &ended.json["failed"]), (&6.into(), &0.into()));
    assert_eq!(ended.json["figures"]["test binaries"], 2);
    assert_eq!(ended.output.matches("a (tests/a.rs)").count(), 2, "{}", ended.output);
}

#[test]
fn output_is_shown_unchanged() {
    let ended = suite("shown", &format!("printf '\\033[1mbold\\033[0m no line break'; echo; {PASSING}"));
    assert!(ended.output.starts_with("\u{1b}[1mbold\u{1b}[0m no line break\n     Running tests/a.rs"));
}

#[test]
fn a_failed_test_is_named_and_the_code_is_the_commands() {
    let script = format!(
        "{PASSING}; echo 'test fence::holds ... FAILED'
        echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured'; exit 101"
    );
    let ended = suite("fails", &script);
    assert_eq!((ended.code, ended.last_line()), (101, "4 passed, 1 failed"));
    assert!(ended.output.contains("\nfailed: a (tests/a.rs): fence::holds\n"), "{}", ended.output);
}

#[test]
fn an_ignored_test_fails_the_suite() {
    let script = "echo 'test slow ... ignored'
        echo 'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out'";
    let ended = suite("ignores", script);
    assert_eq!((ended.code, ended.last_line()), (1, "3 passed, 1 failed"));
    assert!(ended.output.contains("slow is ignored: run it or delete it"), "{}", ended.output);
}

#[test]
fn no_test_is_no_success() {
    let ended = suite("empty", "echo 'test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured'");
    assert_eq!((ended.code, ended.last_line()), (1, "0 passed, 1 failed"));
    assert!(ended.output.contains("failed: no test ran"), "{}", ended.output);
}

#[test]
fn what_does_not_compile_is_said() {
    let script = "echo 'error: could not compile `stepwell-core` (lib) due to 2 previous errors' >&2; exit 101";
    let ended = suite("compiles-not", script);
    assert_eq!((ended.code, ended.last_line()), (101, "0 passed, 1 failed"));
    assert!(ended.output.contains("failed: stepwell-core: it does not compile"), "{}", ended.output);
}

#[test]
fn a_binary_that_died_is_named() {
    let script = format!("{PASSING}; echo '     Running tests/b.rs (target/debug/deps/b-0f)'; exit 101");
    let ended = suite("dies", &script);
    assert_eq!((ended.code, ended.last_line()), (101, "3 passed, 1 failed"));
    assert!(ended.output.contains("failed: b (tests/b.rs): it ended without a result"), "{}", ended.output);
}

#[test]
fn a_command_that_fails_without_a_word_fails_the_suite() {
    let ended = suite("silent", &format!("{PASSING}; exit 7"));
    assert_eq!((ended.code, ended.last_line()), (7, "3 passed, 1 failed"));
    let killed = suite("killed", &format!("{PASSING}; kill -9 $$"));
    assert_eq!((killed.code, killed.last_line()), (1, "3 passed, 1 failed"));
}

#[test]
fn a_process_left_behind_neither_hangs_the_suite_nor_passes() {
    let ended = suite("leaves", &format!("{PASSING}; sleep 4 &"));
    assert_eq!((ended.code, ended.last_line()), (1, "3 passed, 1 failed"));
    assert!(ended.output.contains("a process left behind"), "{}", ended.output);
}

#[test]
fn a_sum_counts_a_missing_report_as_a_failure() {
    let target = target("sum");
    program(&target, &["one", "--", "sh", "-c", PASSING]);
    program(&target, &["two", "--", "sh", "-c", PASSING]);
    let (code, output) = program(&target, &["--sum", "one", "two"]);
    assert_eq!((code, output.lines().last()), (0, Some("6 passed, 0 failed")));
    let (code, output) = program(&target, &["--sum", "one", "three"]);
    assert_eq!((code, output.lines().last()), (1, Some("3 passed, 1 failed")));
    fs::remove_dir_all(target).unwrap();
}

#[test]
fn wrong_words_are_answered_with_the_usage() {
    let (code, output) = program(&target("usage"), &["test", "cargo"]);
    assert_eq!((code, output.as_str()), (2, ""));
}
