//! Runs a test command, shows its output as it comes, and reports its counts.
//!
//! ```text
//! suite <suite> -- <command> [<argument> …]
//! suite --sum <suite> …
//! ```
//!
//! The last line is `N passed, M failed`; `target/reports/<suite>.json` says the same. The exit code is zero only if
//! `M` is. Besides failed tests these count as failures: an ignored test, a test binary that ended without a result, a
//! command that ran no test or left a process holding its output, and a command that failed in any other way. `--sum`
//! adds up reports written before; one that is missing counts as a failure.

mod tally;

use std::env;
use std::fs;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use stepwell_report::{Report, Table, file_name, reports_dir};
use tally::{Binary, Counts, Tally};

/// How long output may still come after the command has ended. Only a process it left behind can hold it open longer.
const OUTPUT_AFTER_END: Duration = Duration::from_secs(2);
const USAGE: &str = "usage: suite <suite> -- <command> [<argument> …]\n       suite --sum <suite> …";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ran = match words.as_slice() {
        ["--sum", suites @ ..] if !suites.is_empty() => sum(suites),
        [suite, "--", program, arguments @ ..] => run(suite, program, arguments),
        _ => Err(io::Error::other(USAGE)),
    };
    ran.unwrap_or_else(|error| {
        // A closed stderr leaves nobody to tell.
        let _ = writeln!(io::stderr(), "{error}");
        ExitCode::from(2)
    })
}

fn run(suite: &str, program: &str, arguments: &[&str]) -> io::Result<ExitCode> {
    let started = Instant::now();
    let Ran { status, tally, output_ended } = stream(program, arguments)?;

    let mut report = Report::new(suite);
    judge(&mut report, &tally, status);
    if !output_ended {
        report.fail("a process left behind still holds the command's output");
    }
    report.figure("test binaries", tally.binaries.len());
    report.figure("time", started.elapsed().as_secs_f64()).unit("s");

    write!(io::stdout(), "\n{}", per_binary(&tally.binaries))?;
    let ok = report.finish()?;
    Ok(if ok { ExitCode::SUCCESS } else { exit_code(status) })
}

fn sum(suites: &[&str]) -> io::Result<ExitCode> {
    let dir = reports_dir()?;
    let (mut passed, mut failed) = (0, 0);
    let mut table = Table::new(&["suite", "passed", "failed"]);
    for suite in suites {
        let counts = read_counts(&dir.join(file_name(suite)));
        let counts = counts.unwrap_or(Counts { failed: 1, ..Counts::default() });
        table.row(&[suite, &counts.passed.to_string(), &counts.failed.to_string()]);
        passed += counts.passed;
        failed += counts.failed;
    }
    writeln!(io::stdout(), "{table}\n{passed} passed, {failed} failed")?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Adds every reason why the suite is not well to the report.
fn judge(report: &mut Report, tally: &Tally, status: ExitStatus) {
    let total = tally.total();
    report.pass(total.passed);
    // The counts decide; libtest's output gives the names.
    let mut names = tally.troubles.iter();
    for _ in 0..total.failed + total.ignored {
        report.fail(names.next().map_or("a test that failed or was ignored", String::as_str));
    }
    for binary in tally.binaries.iter().filter(|binary| binary.counts.is_none()) {
        report.fail(format!("{}: it ended without a result", binary.name));
    }
    for package in &tally.uncompiled {
        report.fail(format!("{package}: it does not compile"));
    }
    if report.ok() && !status.success() {
        report.fail(format!("the command failed ({status}), though no test did: see its output above"));
    } else if report.ok() && total.passed == 0 {
        report.fail("no test ran");
    }
}

struct Ran {
    status: ExitStatus,
    tally: Tally,
    output_ended: bool,
}

/// Runs the command with one pipe for both its outputs, as a terminal would be: only so is it certain which binary a
/// result belongs to.
fn stream(program: &str, arguments: &[&str]) -> io::Result<Ran> {
    let (output, input) = io::pipe()?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(input.try_clone()?).stderr(input);
    if io::stdout().is_terminal() && env::var_os("CARGO_TERM_COLOR").is_none() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = command.spawn().map_err(|error| io::Error::other(format!("cannot run {program}: {error}")))?;
    // It holds the writing ends, and as long as they are open the output does not end.
    drop(command);

    let tally = Arc::new(Mutex::new(Tally::default()));
    let (send_end, end) = mpsc::channel();
    let reader = Arc::clone(&tally);
    thread::spawn(move || send_end.send(copy(output, &reader)));

    let status = child.wait()?;
    let output_ended = match end.recv_timeout(OUTPUT_AFTER_END) {
        Ok(copied) => copied.map(|()| true)?,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => false,
    };
    let tally = std::mem::take(&mut *tally.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Ran { status, tally, output_ended })
}

fn copy(mut output: impl Read, tally: &Mutex<Tally>) -> io::Result<()> {
    let mut stdout = io::stdout();
    let mut buffer = [0; 8 * 1024];
    loop {
        let length = match output.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let piece = buffer.get(..length).unwrap_or_default();
        stdout.write_all(piece)?;
        stdout.flush()?;
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.feed(piece);
        if length == 0 {
            tally.end_line();
            return Ok(());
        }
    }
}

/// Binaries without tests are left out.
fn per_binary(binaries: &[Binary]) -> Table {
    let mut table = Table::new(&["test binary", "passed", "failed"]);
    for Binary { name, counts } in binaries {
        match counts {
            Some(counts) if *counts == Counts::default() => {}
            Some(counts) => table.row(&[name, &counts.passed.to_string(), &counts.failed.to_string()]),
            None => table.row(&[name, "-", "no result"]),
        }
    }
    table
}

fn read_counts(path: &Path) -> Option<Counts> {
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    let count = |name| json.get(name)?.as_u64();
    Some(Counts { passed: count("passed")?, failed: count("failed")?, ignored: 0 })
}

/// The command's own code, or one where it ended by a signal or well.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok()).filter(|&code| code != 0);
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}
