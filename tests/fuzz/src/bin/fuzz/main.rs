//! # fuzz: drives libFuzzer
//!
//! ```text
//! fuzz [--seconds N | --minutes N] [TARGET…]   tries each target for so long, or all of them together
//! fuzz keep [TARGET…]                          adds to tests/fuzz/corpus what reaches more of the code
//! fuzz replay TARGET FILE…                     tries these inputs, without libFuzzer
//! ```
//!
//! The targets are built with coverage in a folder of their own, `target/fuzz`. What a run finds stays there: inputs in `corpus`, those
//! that break something in `found`, what libFuzzer has said in `logs`. Stable Rust and a C++ compiler are all that it takes.

mod build;
mod heard;
mod round;

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, fs};

use stepwell_fuzz::{TARGETS, Target};
use stepwell_report::{Report, Table};

use crate::build::Built;
use crate::round::{Round, keep, rounds};

/// What this program comes to. Any error ends it.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long each target is tried when nobody says.
const SECONDS: u64 = 8;

/// Targets at once: the machine is shared.
const AT_ONCE: usize = 2;

fn main() -> ExitCode {
    match run(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "fuzz: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Outcome<bool> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["replay", target, ref files @ ..] if !files.is_empty() => replay(find(target)?, files),
        ["replay", ..] => Err("replay: give a target and the files to try".into()),
        ["keep", ref targets @ ..] => keep_all(&chosen(targets)?),
        ["--seconds", seconds, ref targets @ ..] => {
            fuzz(&chosen(targets)?, |_| seconds.parse().map(Duration::from_secs).map_err(Into::into))
        }
        ["--minutes", minutes, ref targets @ ..] => fuzz(&chosen(targets)?, |targets| {
            let in_all: f64 = minutes.parse()?;
            let rounds = u32::try_from(targets.div_ceil(AT_ONCE))?.max(1);
            Ok(Duration::try_from_secs_f64(in_all * 60.0)? / rounds)
        }),
        ref targets => fuzz(&chosen(targets)?, |_| Ok(Duration::from_secs(SECONDS))),
    }
}

fn chosen(names: &[&str]) -> Outcome<Vec<Target>> {
    if names.is_empty() { Ok(TARGETS.to_vec()) } else { names.iter().map(|name| find(name)).collect() }
}

fn find(name: &str) -> Outcome<Target> {
    let known = || TARGETS.map(|target| target.name).join(", ");
    let found = TARGETS.iter().find(|target| target.name == name).copied();
    found.ok_or_else(|| format!("there is no target {name:?}: give one of {}", known()).into())
}

/// Fuzzes, tells it as a table, and writes the report.
fn fuzz(targets: &[Target], each: impl FnOnce(usize) -> Outcome<Duration>) -> Outcome<bool> {
    let (each, started) = (each(targets.len())?, Instant::now());
    let built = Built::new(targets)?;
    let building = started.elapsed();
    let rounds = rounds(&built, targets, each, AT_ONCE)?;
    let mut out = io::stdout().lock();
    writeln!(out, "\n{}", table(&rounds))?;
    let mut report = Report::new("fuzz");
    report.figure("targets", rounds.len());
    report.figure("executions", rounds.iter().map(|round| round.heard.executions).sum::<u64>());
    report.figure("time a target", each.as_secs()).unit("s");
    report.figure("building", building.as_secs()).unit("s");
    report.figure("fuzzing", started.elapsed().saturating_sub(building).as_secs()).unit("s");
    for Round { target, heard, .. } in &rounds {
        report.figure(&format!("{} executions", target.name), heard.executions);
        report.figure(&format!("{} edges", target.name), heard.edges);
    }
    for round in &rounds {
        match &round.broken {
            None => report.pass(1),
            Some(why) => report.fail(why.as_str()),
        }
    }
    drop(out);
    Ok(report.finish()?)
}

fn table(rounds: &[Round]) -> Table {
    let mut table = Table::new(&["target", "executions", "per second", "edges", "features", "corpus", "result"]);
    for Round { target, heard, broken } in rounds {
        let numbers = [heard.executions, heard.per_second, heard.edges, heard.features, heard.corpus];
        let [executions, per_second, edges, features, corpus] = numbers.map(|number| number.to_string());
        let result = if broken.is_none() { "holds" } else { "BROKEN" };
        table.row(&[target.name, &executions, &per_second, &edges, &features, &corpus, result]);
    }
    table
}

fn keep_all(targets: &[Target]) -> Outcome<bool> {
    let built = Built::new(targets)?;
    for target in targets {
        let (before, after) = keep(&built, target)?;
        writeln!(io::stdout(), "{}: {before} files were kept, {after} are", target.name)?;
    }
    Ok(true)
}

fn replay(target: Target, files: &[&str]) -> Outcome<bool> {
    for file in files {
        let bytes = fs::read(file).map_err(|error| format!("{file}: {error}"))?;
        (target.run)(&bytes);
        writeln!(io::stdout(), "{}: holds for {file}", target.name)?;
    }
    Ok(true)
}
