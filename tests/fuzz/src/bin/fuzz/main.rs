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

/// No target is tried for longer: libFuzzer counts its seconds in an `int`.
const TIME_MAX: Duration = Duration::from_secs(i32::MAX.unsigned_abs() as u64);

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
        ["--seconds", seconds, ref targets @ ..] => fuzz("fuzz", &chosen(targets)?, time("--seconds", seconds, 1.0)?),
        ["--minutes", minutes, ref targets @ ..] => {
            let (targets, in_all) = (chosen(targets)?, time("--minutes", minutes, 60.0)?);
            let rounds = u32::try_from(targets.len().div_ceil(AT_ONCE))?.max(1);
            fuzz("fuzz-long", &targets, in_all / rounds)
        }
        [option @ ("--seconds" | "--minutes")] => Err(format!("{option} wants a number above 0").into()),
        [option, ..] if option.starts_with('-') => {
            Err(format!("unknown word {option}; known: --seconds N, --minutes N, keep, replay, and targets").into())
        }
        ref targets => fuzz("fuzz", &chosen(targets)?, Duration::from_secs(SECONDS)),
    }
}

fn time(option: &str, given: &str, unit: f64) -> Outcome<Duration> {
    let number: Option<f64> = given.parse().ok().filter(|number| *number > 0.0);
    let time = number.and_then(|number| Duration::try_from_secs_f64(number * unit).ok());
    time.filter(|time| *time <= TIME_MAX)
        .ok_or_else(|| format!("{option} wants a number above 0 that libFuzzer can count to, not {given:?}").into())
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
fn fuzz(suite: &'static str, targets: &[Target], each: Duration) -> Outcome<bool> {
    let started = Instant::now();
    let built = Built::new(targets)?;
    let building = started.elapsed();
    let rounds = rounds(&built, targets, each, AT_ONCE)?;
    let mut out = io::stdout().lock();
    writeln!(out, "\n{}", table(&rounds))?;
    let mut report = Report::new(suite);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_word_is_refused_by_name() {
        for option in ["--seconds", "--minutes"] {
            for value in ["x", "0", "-1", "nan", "inf", "1e19"] {
                let error = time(option, value, 1.0).unwrap_err().to_string();
                assert!(error.contains(option) && error.contains(value), "{option} {value}: {error}");
            }
            assert!(run(&[option.to_owned()]).unwrap_err().to_string().starts_with(option));
        }
        let error = run(&["--nonsense".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("unknown word --nonsense"), "{error}");
    }

    #[test]
    fn a_time_may_be_a_fraction() {
        assert_eq!(time("--minutes", "0.5", 60.0).unwrap(), Duration::from_secs(30));
    }
}
