//! Runs cargo-mutants, and reads what it found: a mutant that no test notices fails the suite, unless `tests/proof/argued.txt` says why
//! nothing can notice it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Instant;
use std::{env, fs, io};

use serde::Deserialize;
use stepwell_report::{Report, Table};

/// A test that hangs has noticed something, too; this is long enough for any that does not.
const SECONDS_MAX: &str = "120";

/// What is looked at where nothing else is named: the centre and the shell around it.
const PACKAGES: [&str; 4] = ["-p", "stepwell-core", "-p", "stepwell-engine"];

/// Why a mutant is left alive.
const ARGUED: &str = "tests/proof/argued.txt";

#[derive(Deserialize)]
struct Outcomes {
    outcomes: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    scenario: Scenario,
    summary: Summary,
}

#[derive(Deserialize)]
enum Scenario {
    Baseline,
    Mutant(Mutant),
}

#[derive(Deserialize)]
struct Mutant {
    name: String,
    file: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
enum Summary {
    Success,
    CaughtMutant,
    MissedMutant,
    Unviable,
    Failure,
    Timeout,
}

#[derive(Default)]
struct Tally {
    tested: u64,
    caught: u64,
    argued: u64,
    missed: u64,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("mutants: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn say(what: &str) {
    // Where nobody hears it, the exit code still says so.
    let _ = writeln!(io::stderr().lock(), "{what}");
}

fn run() -> io::Result<bool> {
    let mut arguments = env::args_os().skip(1);
    let program = arguments.next().ok_or_else(|| io::Error::other("say which cargo-mutants: make mutants does"))?;
    let (began, out) = (Instant::now(), target());
    let old = out.join("mutants.out");
    if old.exists() {
        fs::remove_dir_all(&old)?;
    }
    // Its exit code says no more than its list does, where there is one.
    let status = Command::new(program)
        .args(["mutants", "--no-shuffle", "--colors", "never", "--timeout", SECONDS_MAX, "-o"])
        .arg(&out)
        .args(packages(&arguments.by_ref().collect::<Vec<_>>()))
        // Looking up where each of many failing tests has failed takes longer than the tests.
        .env("RUST_BACKTRACE", "0")
        .status()?;
    let list = old.join("outcomes.json");
    let text = fs::read_to_string(&list).map_err(|error| io::Error::other(no_list(&list, &error, status)))?;
    let found: Outcomes = serde_json::from_str(&text).map_err(io::Error::other)?;
    let (report, files) = judge(&found, &argued(&fs::read_to_string(ARGUED)?)?, began);
    print(&files)?;
    report.finish()
}

/// Why there is no list: where it finds nothing to test, cargo-mutants ends well and leaves none.
fn no_list(list: &Path, error: &io::Error, status: ExitStatus) -> String {
    if status.success() && error.kind() == io::ErrorKind::NotFound {
        return "no mutant matches what was asked for: cargo-mutants found none".into();
    }
    format!("cargo-mutants tested nothing ({status}): {}: {error}", list.display())
}

/// What cargo-mutants is asked, with the packages where no files of others are named.
fn packages(given: &[OsString]) -> Vec<OsString> {
    let names_some = given.iter().any(|argument| matches!(argument.to_str(), Some("-p" | "--package")));
    let usual = if names_some { &[][..] } else { &PACKAGES };
    usual.iter().map(OsString::from).chain(given.iter().cloned()).collect()
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty()).map_or_else(|| "target".into(), PathBuf::from)
}

/// The mutant without its place in the file, which moves with every edit.
fn what(mutant: &Mutant) -> String {
    let changed = mutant.name.splitn(4, ':').last().unwrap_or(&mutant.name).trim();
    format!("{}: {changed}", mutant.file)
}

/// Reads the list: a mutant in a line of its own, then, indented, why nothing can notice it.
fn argued(text: &str) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut lines = text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).peekable();
    while let Some(line) = lines.next() {
        let has_reason = lines.next_if(|next| next.starts_with(' ')).is_some();
        while lines.next_if(|next| next.starts_with(' ')).is_some() {}
        if line.starts_with(' ') || !has_reason {
            return Err(io::Error::other(format!("{ARGUED}: \"{line}\" stands there without a reason below it")));
        }
        found.insert(line.trim_end().to_owned());
    }
    Ok(found)
}

fn judge<'a>(found: &'a Outcomes, argued: &BTreeSet<String>, began: Instant) -> (Report, BTreeMap<&'a str, Tally>) {
    let mut report = Report::new("mutants");
    let mut files: BTreeMap<&'a str, Tally> = BTreeMap::new();
    let (mut unviable, mut timeouts) = (0_u64, 0_u64);
    for outcome in &found.outcomes {
        let mutant = match (&outcome.scenario, outcome.summary) {
            (Scenario::Baseline, Summary::Success) => continue,
            (Scenario::Baseline, _) => {
                report.fail("the tests fail without any mutant: mend them first");
                continue;
            }
            (Scenario::Mutant(_), Summary::Unviable) => {
                unviable += 1;
                continue;
            }
            (Scenario::Mutant(mutant), _) => mutant,
        };
        let tally = files.entry(&mutant.file).or_default();
        let is_argued = argued.contains(&what(mutant));
        tally.tested += 1;
        match outcome.summary {
            Summary::MissedMutant if is_argued => tally.argued += 1,
            Summary::MissedMutant | Summary::Failure | Summary::Success => {
                tally.missed += 1;
                report.fail(format!("no test notices: {}", mutant.name));
                continue;
            }
            Summary::CaughtMutant | Summary::Timeout | Summary::Unviable => {
                timeouts += u64::from(outcome.summary == Summary::Timeout);
                tally.caught += 1;
                if is_argued {
                    report.fail(format!("{ARGUED} says that nothing notices this, and a test does: {}", what(mutant)));
                    continue;
                }
            }
        }
        report.pass(1);
    }
    let sum = |part: fn(&Tally) -> u64| files.values().map(part).sum::<u64>();
    let (tested, caught, argued) = (sum(|file| file.tested), sum(|file| file.caught), sum(|file| file.argued));
    report.check("there was a mutant to test", tested > 0);
    report.figure("mutants tested", tested);
    report.figure("noticed by a test", caught);
    report.figure("of those, by a test that hung", timeouts);
    report.figure("argued: nothing can notice them", argued);
    report.figure("not noticed", sum(|file| file.missed)).at_most(0.0);
    report.figure("did not compile", unviable);
    #[allow(clippy::cast_precision_loss, reason = "some thousands at most")]
    report.figure("score", 100.0 * caught as f64 / tested.max(1) as f64).unit("%");
    report.figure("time", began.elapsed().as_secs_f64()).unit("s");
    (report, files)
}

fn print(files: &BTreeMap<&str, Tally>) -> io::Result<()> {
    let mut table = Table::new(&["file", "tested", "noticed", "argued", "not noticed"]);
    for (file, tally) in files {
        let number = |number: u64| if number == 0 { "-".to_owned() } else { number.to_string() };
        let file = Path::new(file).display().to_string();
        let cells = [tally.tested, tally.caught, tally.argued, tally.missed].map(number);
        table.row(&[&file, &cells[0], &cells[1], &cells[2], &cells[3]]);
    }
    writeln!(io::stdout().lock(), "\n{table}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, summary: Summary) -> Outcome {
        let (name, file) = (name.to_owned(), "a.rs".to_owned());
        Outcome { scenario: Scenario::Mutant(Mutant { name, file }), summary }
    }

    fn judged(outcomes: Vec<Outcome>, list: &str) -> String {
        judge(&Outcomes { outcomes }, &argued(list).unwrap(), Instant::now()).0.summary()
    }

    #[test]
    fn a_missed_mutant_fails_unless_it_is_argued() {
        let missed = || vec![outcome("a.rs:7:3: replace + with -", Summary::MissedMutant)];
        assert_eq!(judged(missed(), ""), "1 passed, 1 failed");
        assert_eq!(judged(missed(), "a.rs: replace + with -\n  both are 0\n"), "2 passed, 0 failed");
        assert_eq!(judged(missed(), "a.rs: replace + with *\n  both are 0\n"), "1 passed, 1 failed");
    }

    #[test]
    fn an_argument_that_is_wrong_fails() {
        let caught = || vec![outcome("a.rs:7:3: replace + with -", Summary::CaughtMutant)];
        assert_eq!(judged(caught(), ""), "2 passed, 0 failed");
        assert_eq!(judged(caught(), "a.rs: replace + with -\n  both are 0\n"), "1 passed, 1 failed");
    }

    #[test]
    fn nothing_tested_fails_and_so_does_a_broken_start() {
        assert_eq!(judged(vec![], ""), "0 passed, 1 failed");
        let baseline = Outcome { scenario: Scenario::Baseline, summary: Summary::Failure };
        assert_eq!(judged(vec![baseline, outcome("a.rs:1:1: b", Summary::CaughtMutant)], ""), "2 passed, 1 failed");
    }

    #[test]
    fn nothing_found_is_told_from_a_failure() {
        let told = |kind: io::ErrorKind| no_list(Path::new("outcomes.json"), &kind.into(), ExitStatus::default());
        assert!(told(io::ErrorKind::NotFound).starts_with("no mutant matches"));
        assert!(told(io::ErrorKind::PermissionDenied).contains("outcomes.json"));
    }

    #[test]
    fn an_argument_has_a_reason() {
        assert!(argued("# some words\n\na.rs: replace + with -\n").is_err());
        assert!(argued("  why\n").is_err());
        assert_eq!(argued("a.rs: b\n  why\n  and why\na.rs: c\n  why\n").unwrap().len(), 2);
    }

    #[test]
    fn packages_are_the_usual_ones_unless_others_are_named() {
        let given = ["-f", "x.rs"].map(OsString::from);
        assert_eq!(packages(&given).len(), PACKAGES.len() + 2);
        let given = ["-p", "stepwell-http"].map(OsString::from);
        assert_eq!(packages(&given), given);
    }
}
