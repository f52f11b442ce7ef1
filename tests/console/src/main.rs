//! Starts what is to be driven, has Node drive Chromium over it, and reports what that says.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a suite: its panic is the report, its tables are for people"
)]

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use serde::Deserialize;
use stepwell_console_suite::{GUARD, Keyed, Served, digest, free_port, program};
use stepwell_report::{Report, reports_dir};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// How long all of it may take.
const MOST: Duration = Duration::from_mins(6);

/// Who may come in where keys are asked for: the name, what they may do, and the key.
const KEYS: [(&str, &str, &str); 2] =
    [("olga", "operator+approver+finance", "the key of olga"), ("vito", "viewer", "the key of vito")];

/// One line of what Node says.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Test {
        test: String,
        ok: bool,
        why: Option<String>,
    },
    Figure {
        figure: String,
        value: f64,
        unit: String,
        at_most: Option<f64>,
    },
    /// All is told.
    End {
        tests: u32,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let begun = Instant::now();
    let mut report = Report::new("test-console");
    let port = free_port();
    let dev = Served::start(&program("stepwell"), &["dev", "--port", &port.to_string()], &[], port, "/v1/health");
    let keyed = Keyed::serve(&keys()).await;

    let mut node = node(&dev.url, &keyed.url);
    match tokio::time::timeout(MOST, listen(&mut node, &mut report)).await {
        Ok(true) => {}
        Ok(false) => report.fail("Node has not told all: see above"),
        Err(_) => report.fail(format!("it has not ended in {MOST:?}")),
    }
    drop(node.stdin.take());
    node.wait().await.expect("its end");
    report.figure("time", begun.elapsed().as_secs_f64()).unit("s");
    let ok = report.finish().expect("the report is written");
    if !ok {
        println!("what the server said last: {}", dev.last_words());
    }
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Takes down what Node says until it has ended; whether it has told all that it had to.
async fn listen(node: &mut Child, report: &mut Report) -> bool {
    let mut lines = BufReader::new(node.stdout.take().expect("a pipe")).lines();
    let mut is_all = false;
    while let Some(line) = lines.next_line().await.expect("words") {
        match serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")) {
            Said::Test { test, ok: true, why: _ } => report.check(&test, true),
            Said::Test { test, ok: false, why } => report.fail(format!("{test}: {}", why.unwrap_or_default())),
            Said::Figure { figure, value, unit, at_most } => {
                let figure = report.figure(&figure, value).unit(&unit);
                if let Some(bound) = at_most {
                    figure.at_most(bound);
                }
            }
            Said::End { tests } => is_all = tests > 0,
        }
    }
    is_all
}

/// Node, under a guard: it and what it starts end with this process.
fn node(dev: &str, keyed: &str) -> Child {
    let pictures = reports_dir().expect("a target folder").with_file_name("console-pictures");
    let _ = fs::remove_dir_all(&pictures);
    fs::create_dir_all(&pictures).expect("a folder for pictures");
    println!("pictures of its pages go to {}", pictures.display());
    let main = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("browser/main.mjs");
    let words = env::args().skip(1);
    let mut node = Command::new("sh");
    node.args(["-c", GUARD, "guard", "node"])
        .arg(main)
        .args(words)
        .env("CONSOLE_DEV", dev)
        .env("CONSOLE_KEYED", keyed)
        .env("CONSOLE_PICTURES", &pictures);
    for (name, _, key) in KEYS {
        node.env(format!("CONSOLE_KEY_{}", name.to_uppercase()), key);
    }
    assert!(
        env::var_os("STEPWELL_BROWSER_TOOLS").is_some_and(|tools| Path::new(&tools).is_dir()),
        "run `make test-console`"
    );
    node.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    node.process_group(0).spawn().expect("Node, which `make test-console` asks for")
}

fn keys() -> String {
    KEYS.map(|(name, roles, key)| format!("{name}:{roles}={}", digest(key))).join(",")
}
