//! `stepwell-model [--long] [--minutes N] [--states N]`: searches every world, then the worlds in which a rule is left out.
//!
//! `--long` searches larger worlds. `--minutes` and `--states` bound each search: one that reaches its bound is not complete and
//! proves nothing, and is said so.

use core::time::Duration;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use stepwell_model::{LeftOut, Searched, Settings, Wrong, search};
use stepwell_report::{Report, Table};

const USAGE: &str = "usage: stepwell-model [--long] [--minutes N] [--states N]";

/// What was asked for.
#[derive(Default)]
struct Asked {
    long: bool,
    time_max: Option<Duration>,
    states_max: Option<u64>,
}

impl Asked {
    /// What was asked, or the word that was not understood.
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self::default();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--long" => asked.long = true,
                "--minutes" => asked.time_max = Some(Duration::from_mins(u64::from(number(&arg, args.next())?))),
                "--states" => asked.states_max = Some(u64::from(number(&arg, args.next())?)),
                _ => return Err(format!("unknown word {arg}")),
            }
        }
        Ok(asked)
    }

    fn is_bounded(&self) -> bool {
        self.time_max.is_some() || self.states_max.is_some()
    }

    fn worlds(&self) -> impl Iterator<Item = Settings> {
        let more = if self.long { &Settings::LONG[..] } else { &[] };
        Settings::ALL.iter().chain(more).map(|world| Settings {
            time_max: self.time_max,
            states_max: self.states_max.unwrap_or(world.states_max),
            ..*world
        })
    }
}

fn number(option: &str, given: Option<String>) -> Result<u32, String> {
    let given = given.unwrap_or_default();
    let number = given.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{option} wants a number above 0, not {given:?}"))
}

/// What all searches came to.
#[derive(Default)]
struct Totals {
    states: u64,
    transitions: u64,
    complete: u32,
    took: Duration,
}

fn main() -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let asked = match Asked::parse(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(error) => {
            writeln!(io::stderr(), "stepwell-model: {error}; {USAGE}")?;
            return Ok(ExitCode::from(2));
        }
    };
    let mut report = Report::new("model");
    let totals = search_worlds(&asked, &mut report, &mut out)?;
    let caught = leave_out(&mut report, &mut out)?;
    drop(out);
    report.figure("states", totals.states);
    report.figure("transitions", totals.transitions);
    report.figure("transitions per second", per_second(totals.transitions, totals.took)).unit("/s");
    report.figure("worlds searched to the end", totals.complete);
    report.figure("rules left out and caught", caught);
    report.figure("time", totals.took.as_secs_f64().round()).unit("s");
    Ok(if report.finish()? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn per_second(count: u64, took: Duration) -> u64 {
    u128::from(count)
        .saturating_mul(1_000)
        .checked_div(took.as_millis())
        .and_then(|rate| u64::try_from(rate).ok())
        .unwrap_or(0)
}

fn search_worlds(asked: &Asked, report: &mut Report, out: &mut impl Write) -> io::Result<Totals> {
    let mut table =
        Table::new(&["world", "workers", "states", "transitions", "depth", "complete", "s", "what is looked at"]);
    let mut totals = Totals::default();
    let mut wrongs = Vec::new();
    for world in asked.worlds() {
        let begun = Instant::now();
        let found = search(&world);
        let took = begun.elapsed();
        table.row(&[
            world.name,
            &world.workers.to_string(),
            &found.states.to_string(),
            &found.transitions.to_string(),
            &found.depth.to_string(),
            if found.complete { "yes" } else { "no" },
            &format!("{:.1}", took.as_secs_f64()),
            world.focus,
        ]);
        totals.states += found.states;
        totals.transitions += found.transitions;
        totals.complete += u32::from(found.complete);
        totals.took += took;
        judge(&world, &found, asked, report);
        wrongs.extend(found.wrong.map(|wrong| (world.name, wrong)));
    }
    writeln!(out, "{table}")?;
    for (name, wrong) in wrongs {
        writeln!(out, "{name}: invariant {} is broken", wrong.invariant)?;
        tell(&wrong, out)?;
    }
    Ok(totals)
}

fn judge(world: &Settings, found: &Searched, asked: &Asked, report: &mut Report) {
    let name = world.name;
    match &found.wrong {
        Some(wrong) => report.fail(format!("world {name}: invariant {}: {}", wrong.invariant, wrong.what)),
        None if found.complete => report.pass(1),
        // Whoever set the bound knows that nothing is proved; the table says so.
        None if asked.is_bounded() => {}
        None => report.fail(format!("world {name}: not complete after {} states", found.states)),
    }
}

fn leave_out(report: &mut Report, out: &mut impl Write) -> io::Result<u32> {
    let mut caught = 0;
    writeln!(out, "Rules left out, each with the shortest way to what it is for:")?;
    for rule in LeftOut::ALL {
        let found = search(&rule.world());
        let is_caught = found.wrong.as_ref().is_some_and(|wrong| wrong.invariant == rule.invariant());
        caught += u32::from(is_caught);
        report
            .check(&format!("rule left out: {}: invariant {} is not broken", rule.name(), rule.invariant()), is_caught);
        writeln!(out, "\n{} (invariant {}): {}", rule.name(), rule.invariant(), rule.what())?;
        if let Some(wrong) = found.wrong {
            tell(&wrong, out)?;
        }
    }
    Ok(caught)
}

fn tell(wrong: &Wrong, out: &mut impl Write) -> io::Result<()> {
    for (step, number) in wrong.trace.iter().zip(1..) {
        writeln!(out, "  {number:>2}. {step}")?;
    }
    writeln!(out, "   => {}", wrong.what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &str) -> Result<Asked, String> {
        Asked::parse(given.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_bad_word_is_refused_by_name() {
        for given in ["--nonsense", "--minutes x", "--minutes 0", "--states -1", "--states"] {
            let error = parse(given).err().unwrap();
            assert!(given.split_whitespace().all(|word| error.contains(word)), "{given}: {error}");
        }
        assert!(parse("--long --states 7").is_ok_and(|asked| asked.long && asked.states_max == Some(7)));
    }
}
