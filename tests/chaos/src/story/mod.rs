//! The long story: workers, a sweeper and the API as processes of their own; clients that start runs, send signals, cancel and answer
//! over HTTP; an outside with effects of every class; and hundreds of faults, drawn from one seed. It ends when every run has.

pub mod cast;
pub mod clients;
pub mod errand;
pub mod faults;
pub mod home;
pub mod http;
pub mod ledger;
pub mod person;
pub mod proxy;
pub mod serve;
pub mod verdict;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{env, io};

use stepwell_core::history::EntryKind;
use stepwell_core::limits::PAGE_MAX;
use stepwell_core::{Checkpoint, RunId};
use stepwell_engine::{AuditPage, AuditQuery, Client, Found, Ports};
use stepwell_report::Report;
use tokio::task::JoinSet;

use self::cast::{Cast, Setting};
use self::clients::{Facts, Plan};
use self::faults::{Director, Lines};
use self::home::Home;
use self::http::Http;
use self::ledger::{Kind, Ledger};
use self::person::Said;
use self::proxy::{Fate, Proxy};
use self::serve::Failed;
use self::verdict::Ended;

/// When nothing moves for so long though nothing goes wrong any more, the watchdog's hour has come; after twice as long, the end.
const STILL: Duration = Duration::from_secs(10);

/// The watchdog's marks lie so far apart. Nobody waits for that here: time is moved ahead for one sweep.
const MARK: Duration = Duration::from_mins(15);

/// A story to tell.
pub struct Story {
    /// Names its report.
    pub name: &'static str,
    /// The program whose processes are killed.
    pub program: &'static str,
    /// Where the runs are.
    pub home: Home,
    /// Lines between the processes and the backend, where that is not on this machine's disk.
    pub backend: Vec<Proxy>,
    /// What processes find in their environment, besides ours.
    pub environment: Vec<(String, String)>,
    /// Where what they say on stderr goes.
    pub log: PathBuf,
    /// Decides everything that is not left to the machine.
    pub seed: u64,
    /// Runs.
    pub runs: u64,
    /// Faults.
    pub faults: u64,
    /// Between two faults, on the average.
    pub pause: Duration,
}

/// A number from the environment, or this one.
///
/// # Errors
/// Where it is no number.
pub fn number(variable: &str, otherwise: u64) -> io::Result<u64> {
    let Ok(given) = env::var(variable) else { return Ok(otherwise) };
    given.parse().map_err(|_| io::Error::other(format!("{variable} is {given}, and no number")))
}

/// The end of what processes have said.
pub fn last_words(log: &Path) -> String {
    const BYTES: usize = 4_000;
    let said = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&said[said.len().saturating_sub(BYTES)..]).into_owned()
}

/// Tells it, and says what was found.
///
/// # Errors
/// Where it could not be told: a process that ended by itself, a client that nobody answers.
pub async fn tell(story: Story) -> Result<Report, Failed> {
    let began = Instant::now();
    let Story { name, program, home, backend, environment, log, seed, runs, faults, pause } = story;
    let faults = faults.max(1);
    let mut rng = fastrand::Rng::with_seed(seed);
    let ledger = Arc::new(Ledger::listen(rng.u64(..)).await?);
    let outside = Proxy::listen(ledger.address(), rng.u64(..)).await?;
    let front = Proxy::listen(outside.address(), rng.u64(..)).await?;
    let setting = Setting { program, home, outside: outside.address(), environment, log };
    let mut cast = Cast::start(setting, &front).await?;
    let lines = Lines { outside: &outside, front: &front, backend: &backend };
    let mut director = Director::new(lines, rng.u64(..));
    let (http, said) = (Http::new(front.address()), Arc::new(Mutex::new(Said::default())));
    let mut people = JoinSet::new();
    let (at_work, heard, who) = (Arc::clone(&ledger), Arc::clone(&said), rng.u64(..));
    people.spawn(async move { person::work(http, &at_work, who, &heard).await });

    let mut clients = JoinSet::new();
    let plans = rng.u64(..);
    for fault in 0..faults {
        for number in runs * fault / faults..runs * (fault + 1) / faults {
            clients.spawn(clients::play(Plan::of(number, plans), http));
        }
        tokio::time::sleep(director.pause(pause)).await;
        director.mend(&mut cast)?;
        director.strike(&mut cast).await?;
    }
    let struck = began.elapsed();
    let ports = cast.home().open()?;
    let client = Client::new(ports.clone(), Arc::new(errand::registry(outside.address(), "nobody")));
    let mut report = Report::new(name);
    // Once while there are runs that have not ended: something has to wake each of them.
    let live = audit(&mut report, &client).await?;
    report.figure("runs that had not ended when the auditor first came", live);
    director.calm(&mut cast)?;
    let mut facts = Vec::new();
    while let Some(played) = clients.join_next().await {
        facts.push(played??);
    }
    let (ended, forgotten) = all_ended(&client, &ports, &facts).await?;
    people.shutdown().await;
    let letters = cast.home().dead_letters().await?;
    cast.end()?;

    {
        let (book, said) = (ledger.book(), person::lock(&said));
        verdict::check(&mut report, &facts, &ended, &book, &said);
    }
    check_forgotten(&mut report, &forgotten, director.strikes_of_the_api());
    for letter in &letters {
        report.fail(format!("a message was given up: {letter}"));
    }
    audit(&mut report, &client).await?;
    report.figure("seed", seed);
    report.figure("runs", facts.len());
    report.check(&format!("{} runs were played, not {runs}", facts.len()), runs > 0 && facts.len() as u64 == runs);
    tell_figures(&mut report, &director, &ledger, &said, &ended);
    let no_room =
        cast.said().lines().filter(|line| line.contains("disk I/O error") || line.contains("is full")).count();
    report.figure("words of processes without room", no_room);
    report.figure("runs that only the watchdog remembered", forgotten.len());
    report.figure("time until the last fault", struck.as_secs_f64()).unit("s");
    report.figure("runs per second", facts.len() as u64 / began.elapsed().as_secs().max(1)).unit("/s");
    report.figure("time", began.elapsed().as_secs_f64()).unit("s");
    Ok(report)
}

/// Nobody knows of a run any more only where whoever knew died between its write and its message, and nobody asks it again: of all
/// that is asked here, that is a person's word on an effect.
fn check_forgotten(report: &mut Report, forgotten: &[Checkpoint], strikes: u64) {
    for run in forgotten {
        let last = run.progress.tail.entries.last().map(|entry| entry.kind);
        let what =
            format!("run {} was forgotten after it had {last:?}: {:?}, {:?}", run.run, run.progress.status, run.hold);
        report.check(&what, last == Some(EntryKind::Resolved));
    }
    let number = forgotten.len() as u64;
    report.check(&format!("{number} runs were forgotten, and the API was struck {strikes} times"), number <= strikes);
}

/// Waits until all have ended, or nothing moves any more. Answers those that the watchdog had to remember, too.
async fn all_ended(
    client: &Client,
    ports: &Ports,
    facts: &[Facts],
) -> Result<(BTreeMap<RunId, Ended>, Vec<Checkpoint>), Failed> {
    let ahead = Ports { clock: Arc::new(home::Ahead(MARK)), ..ports.clone() };
    let watchdog = serve::engine(ahead, errand::registry(([127, 0, 0, 1], 9).into(), "w"), "watchdog")?;
    let (mut ended, mut revisions, mut since) = (BTreeMap::new(), 0, Instant::now());
    let mut forgotten = Vec::new();
    let mut open: Vec<RunId> = facts.iter().map(|facts| facts.run.clone()).collect();
    let mut is_last = false;
    loop {
        let (mut left, mut now, mut stand) = (Vec::new(), 0, Vec::new());
        for run in open {
            let found = client.get(&run).await?;
            now += found.progress.revision.0;
            if found.progress.status.phase().is_ended() || is_last {
                // One that cannot be read is missed in the end, and the auditor says why.
                if let Ok(read) = Ended::read(client, found).await {
                    ended.insert(run, read);
                }
            } else {
                left.push(run);
                stand.push(found);
            }
        }
        open = left;
        if open.is_empty() {
            return Ok((ended, forgotten));
        }
        if now != revisions {
            (revisions, since) = (now, Instant::now());
        } else if since.elapsed() > STILL * 2 {
            is_last = true;
        } else if since.elapsed() > STILL && forgotten.is_empty() {
            forgotten = stand;
            watchdog.sweep(MARK).await?;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// What the product's own auditor finds: nothing. Answers how many runs have not ended.
async fn audit(report: &mut Report, client: &Client) -> Result<u64, Failed> {
    let mut query = AuditQuery { workflow: None, grace: MARK * 2, limit: PAGE_MAX, after: None };
    let mut audited = AuditPage::default();
    loop {
        let page = client.audit(&query).await?;
        query.after.clone_from(&page.next);
        audited = audited.plus(page);
        if query.after.is_none() {
            break;
        }
    }
    for Found { run, finding } in &audited.findings {
        report.fail(format!("run {run}: the auditor finds: {finding}"));
    }
    report.figure("runs audited", audited.runs);
    report.figure("blobs audited", audited.blobs);
    Ok(audited.live)
}

fn tell_figures(
    report: &mut Report,
    director: &Director<'_>,
    ledger: &Ledger,
    said: &Mutex<Said>,
    ended: &BTreeMap<RunId, Ended>,
) {
    let (book, said) = (ledger.book(), person::lock(said));
    let faults = director.counts.values().sum::<u64>();
    report.figure("faults", faults);
    report.check("something went wrong", faults > 0);
    for (fault, count) in &director.counts {
        report.figure(&fault.name(), *count);
    }
    if !director.can_fill_disks() {
        report.figure("disks filled", "none: this machine has no prlimit");
    }
    for fate in Fate::ALL {
        let count: u64 = director.lines().proxies().map(|proxy| proxy.count(fate)).sum();
        report.figure(&format!("on the lines: {}", fate.name()), count);
    }
    for kind in Kind::ALL {
        let (mut keys, mut acts, mut calls) = (0_u64, 0, 0);
        for (_, line) in book.lines().filter(|(_, line)| line.kind == kind) {
            (keys, acts, calls) = (keys + 1, acts + line.acts, calls + line.calls);
        }
        report.check(&format!("the outside was asked for effects: {}", kind.name()), calls > 0);
        report.figure(&format!("effects, {}", kind.name()), keys);
        report.figure(&format!("of those, acts ({})", kind.name()), acts);
        report.figure(&format!("of those, calls that came again ({})", kind.name()), calls.saturating_sub(keys));
    }
    report.figure("questions whether it had happened", book.asks);
    report.figure("calls that came after their deadline", book.late);
    for (word, count) in &said.unknowns {
        report.figure(&format!("unknowns that a person settled: {word}"), *count);
    }
    report.check("a person had something to settle", said.unknowns.values().sum::<u64>() > 0);
    report.check("approvals were given and rejected", said.approvals.0 > 0 && said.approvals.1 > 0);
    report.figure("approvals given", said.approvals.0);
    report.figure("approvals rejected", said.approvals.1);
    let cancelled = ended.values().filter(|ended| ended.run.cancel.is_some()).count();
    report.check("runs were cancelled", cancelled > 0);
    report.figure("runs cancelled", cancelled);
    let commits: u64 = ended.values().map(|ended| ended.run.progress.revision.0).sum();
    report.figure("commits", commits);
}
