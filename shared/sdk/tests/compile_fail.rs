//! What the compiler says to an author who forgot something. Expected are our own words and the place: the rest is the
//! compiler's, and changes with it.
// A test may stop at the first surprise, its helpers too.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};

#[test]
fn what_was_forgotten_is_named() {
    let complete = compile("complete");
    assert!(complete.status.success(), "{}", complete.words);

    let without_class = compile("effect_without_class");
    without_class.says("effect_without_class.rs:5:27");
    without_class.says("this effect has no class yet");
    without_class.says("say first what happens if the outside is asked twice");
    for choice in ["`.read()`: ", "`.idempotent()`: ", "`.idempotent_for(window)`: "] {
        without_class.says(choice);
    }

    let without_deadline = compile("wait_without_deadline");
    without_deadline.says("wait_without_deadline.rs:27:26");
    without_deadline.says("expected `Next<At, ()>`, found `WaitSignals<At>`");

    let without_by = compile("approval_without_by");
    without_by.says("approval_without_by.rs:5:45");
    without_by.says("no method named `within` found for struct `ApprovalOf`");

    for (program, at, method) in [
        ("once_without_key", "5:28", "once"),
        ("undo_without_key", "5:39", "undo"),
        ("across_runs_without_key", "5:28", "across_runs"),
    ] {
        let without_key = compile(program);
        without_key.says(&format!("{program}.rs:{at}"));
        without_key.says(&format!("no method named `{method}` found for struct `Effect<"));
        // What has the method.
        without_key.says("Keyed>");
    }

    let secret = compile("secret_in_state");
    secret.says("secret_in_state.rs:");
    secret.says("a secret cannot be stored");
    secret.says("keep the `Secret` in the workflow itself");
}

/// What came of a program.
struct Compiled {
    status: ExitStatus,
    words: String,
}

impl Compiled {
    fn says(&self, expected: &str) {
        assert!(!self.status.success(), "it compiles");
        assert!(self.words.contains(expected), "{expected:?} is not in:\n{}", self.words);
    }
}

/// Checks a program of the folder beside this file, as the only one of a project that depends on the SDK.
fn compile(program: &str) -> Compiled {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR"));
    let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile_fail");
    let source = sdk.join("tests/compile_fail").join(program).with_extension("rs");
    let manifest = format!(
        "[package]
name = 'compile-fail'
edition = '2024'

[workspace]

[dependencies]
serde = '1'
stepwell.path = '{}'

[[bin]]
name = 'program'
path = '{}'
",
        sdk.display(),
        source.display()
    );
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("Cargo.toml"), manifest).unwrap();
    // The same dependencies as here, so that nothing has to be looked up.
    fs::copy(sdk.join("../../Cargo.lock"), project.join("Cargo.lock")).unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["check", "--quiet", "--offline", "--color=never", "--target-dir"])
        .arg(project.join("target"))
        .current_dir(&project)
        .output()
        .unwrap();
    Compiled { status: output.status, words: String::from_utf8(output.stderr).unwrap() }
}
