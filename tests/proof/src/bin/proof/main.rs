//! Breaks the engine on purpose, once for each promise and oftener, and says which suite notices: the table of `shared/PROOF.md`.
//!
//! `stepwell-proof` fails if one is noticed by nobody, or if the document has another table; `--write` puts the table there.

mod document;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;
use std::{env, io};

use document::{Document, Row};
use stepwell_model::{LeftOut, search};
use stepwell_report::{Report, Table};
use stepwell_simulation::{Settings, play};
use stepwell_testkit::broken::Broken;

/// Worlds that an engine may take to be noticed in. The sound one goes through the same ones.
const SEEDS: u64 = 400;

/// How the simulator marks what its auditor has said.
const AUDITOR: &str = "the auditor says";

/// An engine that is broken on purpose, and who has noticed.
struct Break {
    invariant: u8,
    name: &'static str,
    what: &'static str,
    /// In how many actions the model comes to it. `None`: it does not know this engine.
    model: Option<Noticed>,
    /// In which world the simulator has seen it.
    simulation: Option<Noticed>,
    /// In which world its auditor has.
    auditor: Option<Noticed>,
}

/// A suite has looked at a broken engine.
#[derive(Clone, Copy)]
enum Noticed {
    /// It noticed, in this world, or after so many actions.
    At(u64),
    /// It did not.
    Not,
}

impl Noticed {
    fn told(noticed: Option<Self>, unit: &str) -> String {
        match noticed {
            Some(Self::At(number)) => format!("{unit} {number}"),
            Some(Self::Not) => "no".to_owned(),
            None => String::new(),
        }
    }

    /// For the document, which must not change with every edit of the code.
    const fn word(noticed: Option<Self>) -> &'static str {
        match noticed {
            Some(Self::At(_)) => "**notices**",
            Some(Self::Not) => "no",
            None => "",
        }
    }
}

impl Break {
    fn is_noticed(&self) -> bool {
        [self.model, self.simulation, self.auditor].into_iter().any(|noticed| matches!(noticed, Some(Noticed::At(_))))
    }

    fn row(&self) -> Row {
        let words = [self.model, self.simulation, self.auditor].map(Noticed::word);
        Row { invariant: self.invariant, what: self.what, words }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let write = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--write"] => true,
        _ => {
            say("stepwell-proof: it takes no words but --write");
            return ExitCode::from(2);
        }
    };
    match run(write) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("stepwell-proof: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn say(what: &str) {
    // Where nobody hears it, the exit code still says so.
    let _ = writeln!(io::stderr().lock(), "{what}");
}

fn run(write: bool) -> io::Result<bool> {
    let began = Instant::now();
    let mut breaks = thread::scope(|scope| {
        let simulated = Broken::ALL.map(|broken| scope.spawn(move || simulated(broken)));
        let modelled = LeftOut::ALL.map(in_the_model).into_iter().map(Ok);
        modelled.chain(simulated.map(ScopedJoinHandle::join)).collect::<Result<Vec<_>, _>>()
    })
    .map_err(|_| io::Error::other("a suite has panicked, see above"))?;
    breaks.sort_by_key(|broken| broken.invariant);
    print(&breaks)?;

    let mut report = Report::new("proof");
    for broken in &breaks {
        let what = format!("invariant {}, {}: {}", broken.invariant, broken.name, broken.what);
        report.check(&format!("nobody notices {what}"), broken.is_noticed());
    }
    for invariant in 1..=11 {
        let is_broken = breaks.iter().any(|broken| broken.invariant == invariant);
        report.check(&format!("no engine breaks invariant {invariant}"), is_broken);
    }
    let rows: Vec<Row> = breaks.iter().map(Break::row).collect();
    let document = Document::open(Path::new("shared/PROOF.md"))?;
    if write {
        document.write(&rows)?;
    } else {
        let same = document.has(&rows)?;
        report.check("shared/PROOF.md has another table: make proof ARGS=--write, and read what has changed", same);
    }
    report.figure("broken engines", breaks.len() as u64);
    let noticed_by = |who: fn(&Break) -> Option<Noticed>| {
        breaks.iter().filter(|broken| matches!(who(broken), Some(Noticed::At(_)))).count() as u64
    };
    report.figure("noticed by the model", noticed_by(|broken| broken.model));
    report.figure("noticed by the simulator", noticed_by(|broken| broken.simulation));
    report.figure("noticed by the auditor in the simulator", noticed_by(|broken| broken.auditor));
    report.figure("noticed by nobody", breaks.iter().filter(|broken| !broken.is_noticed()).count() as u64).at_most(0.0);
    report.figure("time", began.elapsed().as_secs_f64()).unit("s");
    report.finish()
}

fn in_the_model(left_out: LeftOut) -> Break {
    let wrong = search(&left_out.world()).wrong;
    let noticed = wrong.filter(|wrong| wrong.invariant == left_out.invariant()).map(|wrong| wrong.trace.len() as u64);
    Break {
        invariant: left_out.invariant(),
        name: left_out.name(),
        what: left_out.what(),
        model: Some(noticed.map_or(Noticed::Not, Noticed::At)),
        simulation: None,
        auditor: None,
    }
}

/// By whoever sees the very promise broken; that other things go wrong with it counts for nothing.
fn simulated(broken: Broken) -> Break {
    let settings = Settings { broken: Some(broken), ..Settings::default() };
    let (mut simulation, mut auditor) = (Noticed::Not, Noticed::Not);
    for seed in 0..SEEDS {
        for wrong in play(seed, &settings).wrong {
            let found = if wrong.what.contains(AUDITOR) { &mut auditor } else { &mut simulation };
            if matches!(found, Noticed::Not) && wrong.invariant == Some(broken.invariant()) {
                *found = Noticed::At(seed);
            }
        }
        if matches!((simulation, auditor), (Noticed::At(_), Noticed::At(_))) {
            break;
        }
    }
    Break {
        invariant: broken.invariant(),
        name: broken.name(),
        what: broken.what(),
        model: None,
        simulation: Some(simulation),
        auditor: Some(auditor),
    }
}

fn print(breaks: &[Break]) -> io::Result<()> {
    let mut table = Table::new(&["invariant", "broken on purpose", "model", "simulator", "its auditor"]);
    for broken in breaks {
        let number = broken.invariant.to_string();
        let [model, simulation, auditor] =
            [(broken.model, "actions:"), (broken.simulation, "seed"), (broken.auditor, "seed")]
                .map(|(noticed, unit)| Noticed::told(noticed, unit));
        table.row(&[&number, broken.name, &model, &simulation, &auditor]);
    }
    writeln!(io::stdout().lock(), "\n{table}")
}
