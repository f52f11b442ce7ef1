//! Rounds of libFuzzer, some at once.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{panic, thread};

use stepwell_fuzz::Target;

use crate::Outcome;
use crate::build::Built;
use crate::heard::Heard;

/// Inputs that take longer, or more memory, are found too. A machine may be shared by many, and a patch may make 8 MiB of a few bytes.
const LIMITS: [&str; 4] = ["-timeout=20", "-rss_limit_mb=2048", "-malloc_limit_mb=1024", "-print_final_stats=1"];

/// Files that are added at once to what is kept for a target.
const ADDED_MAX: usize = 30;

/// What came of trying a target.
pub(crate) struct Round {
    pub(crate) target: Target,
    pub(crate) heard: Heard,
    /// What does not hold, with which input, and how to try it again.
    pub(crate) broken: Option<String>,
}

/// Tries each target for so long, so many of them at once.
pub(crate) fn rounds(built: &Built, targets: &[Target], each: Duration, at_once: usize) -> Outcome<Vec<Round>> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> Outcome<()> {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let round = round(built, target, each)?;
            let word = if round.broken.is_none() { "holds" } else { "is BROKEN" };
            writeln!(io::stdout(), "{} {word} after {} executions", target.name, round.heard.executions)?;
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(round);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|panic| panic::resume_unwind(panic)))
    })?;
    let mut rounds = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    rounds.sort_by_key(|round| round.target.name);
    Ok(rounds)
}

fn round(built: &Built, target: &Target, each: Duration) -> Outcome<Round> {
    let (corpus, found) = (built.left.join("corpus").join(target.name), built.left.join("found").join(target.name));
    let kept = ["corpus", "found"].map(|kind| built.kept(kind, target));
    for folder in [&corpus, &found] {
        fs::create_dir_all(folder)?;
    }
    let mut fuzz = built.program(target);
    fuzz.args(LIMITS).arg(format!("-max_total_time={}", each.as_secs().max(1)));
    fuzz.arg(format!("-max_len={}", target.bytes_max)).arg(format!("-artifact_prefix={}/", found.display()));
    fuzz.arg(format!("-dict={}", built.source.join("words.dict").display()));
    // What is new goes to the first folder.
    fuzz.arg(&corpus).args(kept.iter().filter(|folder| folder.is_dir()));
    let (ended_well, log) = said(built, target, "fuzz", fuzz)?;
    let heard = Heard::of(&log);
    let broken = (!ended_well).then(|| told(built, target, &heard));
    Ok(Round { target: *target, heard, broken })
}

fn told(built: &Built, target: &Target, heard: &Heard) -> String {
    let (name, wrong) = (target.name, heard.wrong.as_deref().unwrap_or("libFuzzer has stopped"));
    let log = built.left.join("logs").join(format!("{name}-fuzz.log"));
    let Some(input) = &heard.input else { return format!("{name}: {wrong}; see {}", log.display()) };
    format!(
        "{name}: {wrong}\n  input:  {input}\n  log:    {}\n  replay: cargo run -p stepwell-fuzz -- replay {name} {input}\n  \
         once it is mended, keep the input under a name that says what it was, in tests/fuzz/found/{name}/",
        log.display()
    )
}

/// Adds to what is kept for a target some of those inputs that reach more of the code. Answers how many files there were, and are.
pub(crate) fn keep(built: &Built, target: &Target) -> Outcome<(usize, usize)> {
    let (kept, corpus) = (built.kept("corpus", target), built.left.join("corpus").join(target.name));
    fs::create_dir_all(&kept)?;
    fs::create_dir_all(&corpus)?;
    let before = sizes(&kept)?;
    let mut merge = built.program(target);
    // How often an edge is taken, and what is compared, is not what is kept for: it would take ten times as many files.
    merge
        .args(["-set_cover_merge=1", "-use_counters=0", "-use_cmp=0"])
        .arg(format!("-max_len={}", target.bytes_max))
        .args([&kept, &corpus]);
    let (ended_well, _) = said(built, target, "keep", merge)?;
    if !ended_well {
        return Err(format!("{} cannot be merged: see {}", target.name, built.left.join("logs").display()).into());
    }
    let mut added: Vec<(u64, PathBuf)> = sizes(&kept)?.into_iter().filter(|file| !before.contains(file)).collect();
    added.sort();
    let found = added.len();
    // A test replays them each time: some of each size, since the small ones are mostly refused.
    let chosen = |at: usize| at * ADDED_MAX / found != (at + 1) * ADDED_MAX / found;
    for (_, file) in added.iter().enumerate().filter(|(at, _)| !chosen(*at)).map(|(_, file)| file) {
        fs::remove_file(file)?;
    }
    Ok((before.len(), before.len() + found.min(ADDED_MAX)))
}

fn sizes(folder: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    fs::read_dir(folder)?.map(|entry| entry.and_then(|entry| Ok((entry.metadata()?.len(), entry.path())))).collect()
}

/// Runs a target's program. Answers whether it has ended well, and what it has said.
fn said(built: &Built, target: &Target, what: &str, mut program: Command) -> Outcome<(bool, String)> {
    let (logs, aside) = (built.left.join("logs"), built.left.join("tmp").join(target.name));
    fs::create_dir_all(&logs)?;
    let log = logs.join(format!("{}-{what}.log", target.name));
    renewed(&aside)?;
    // A target may have a backend on the disk; what a crash leaves of it is gone with the folder.
    program.env("TMPDIR", &aside).stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log)?);
    let status = program.status()?;
    fs::remove_dir_all(&aside)?;
    Ok((status.success(), String::from_utf8_lossy(&fs::read(&log)?).into_owned()))
}

fn renewed(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => fs::create_dir_all(folder),
    }
}
