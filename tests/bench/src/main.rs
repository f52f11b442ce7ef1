//! # stepwell-bench: durable steps, growth, memory, recovery
//!
//! ```text
//! stepwell-bench [--quick] [chain | many | log | waiting | reading | recovery] …
//! ```
//!
//! **What lives here:** one program that measures the embedded backend under the real engine, on the disk that holds the
//! target folder, with every write synced. Each benchmark prints its figures as a table; all of them are written to
//! `target/reports/bench.json`. `--quick` makes them small: for trying them out, not for figures to compare.
//!
//! **What must not live here:** pass or fail by speed. Aims are printed beside the figures; a check that fails says that a
//! result was wrong, never that it was slow.

mod chain;
mod disk;
mod flows;
mod log;
mod many;
mod numbers;
mod place;
mod reading;
mod recovery;
mod sheet;
mod waiting;

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use stepwell_report::{Report, reports_dir};
use tempfile::TempDir;

use crate::sheet::Sheet;

/// What a benchmark comes to. Any error ends the program.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How large a benchmark is to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    Full,
    Quick,
}

impl Size {
    /// This, or about a tenth of it.
    pub(crate) const fn of(self, full: u64) -> u64 {
        match self {
            Self::Full => full,
            Self::Quick => full.div_ceil(10),
        }
    }
}

type Benchmark = fn(&mut Sheet<'_>, Size) -> Outcome<()>;

const BENCHMARKS: [(&str, Benchmark); 6] = [
    ("chain", chain::measure),
    ("many", many::measure),
    ("log", log::measure),
    ("waiting", waiting::measure),
    ("reading", reading::measure),
    ("recovery", recovery::measure),
];

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ran = match words.as_slice() {
        ["--child", "waiting", dir, run] => waiting::child(dir, run),
        ["--child", "recovery", dir, name] => recovery::child(dir, name),
        words => run(words),
    };
    match ran {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // A closed stderr leaves nobody to tell.
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::from(2)
        }
    }
}

fn run(words: &[&str]) -> Outcome<bool> {
    let (options, names): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with('-'));
    let known = |name: &&&str| BENCHMARKS.iter().any(|(known, _)| known == *name);
    if let Some(word) = options.iter().find(|word| **word != "--quick").or(names.iter().find(|name| !known(name))) {
        let all = BENCHMARKS.map(|(name, _)| name).join(" | ");
        return Err(format!("{word}: not known; usage: stepwell-bench [--quick] [{all}] …").into());
    }
    let size = if options.is_empty() { Size::Full } else { Size::Quick };
    let mut all = Report::new("bench");
    for (name, benchmark) in BENCHMARKS {
        if names.is_empty() || names.contains(&name) {
            writeln!(io::stdout(), "\n== {name}")?;
            let mut sheet = Sheet::new(name, &mut all);
            benchmark(&mut sheet, size)?;
            sheet.print(&mut io::stdout().lock())?;
        }
    }
    all.write_to(&reports_dir()?)?;
    writeln!(io::stdout(), "\n{}", all.summary())?;
    Ok(all.ok())
}

/// A folder on the disk that holds the target folder: a benchmark in memory would measure nothing.
pub(crate) fn folder() -> Outcome<TempDir> {
    let target = reports_dir()?.parent().map(PathBuf::from).ok_or("no target folder")?;
    std::fs::create_dir_all(&target)?;
    Ok(tempfile::Builder::new().prefix("bench-").tempdir_in(target)?)
}
