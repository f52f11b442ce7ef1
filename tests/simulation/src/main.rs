//! Plays worlds: `stepwell-simulation [--seed N] [--seeds N] [--from N] [--minutes N] [--broken NAME] [--trace]`.
//!
//! Without words it plays 10,000 seeds. One seed alone (`--seed`) is told as a story with `--trace`. `--minutes`, which may be a fraction,
//! goes on until the time is over. `--broken` plays on an engine that is broken on purpose. Exit code 0: nothing was found; 1: something was,
//! also where the engine is broken on purpose; 2: a word that is not understood.

use std::env;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use stepwell_simulation::{Settings, Suite, play};
use stepwell_testkit::broken::Broken;

const SEEDS: u64 = 10_000;

#[derive(Debug, Default)]
struct Words {
    seed: Option<u64>,
    seeds: u64,
    from: u64,
    until: Option<Instant>,
    broken: Option<Broken>,
    trace: bool,
}

fn words(mut given: impl Iterator<Item = String>) -> Result<Words, String> {
    let (mut words, mut seeds) = (Words::default(), None);
    while let Some(word) = given.next() {
        let mut number = || -> Result<u64, String> {
            let number = given.next().ok_or_else(|| format!("{word} wants a number"))?;
            number.parse().map_err(|_| format!("{word} wants a number, not {number}"))
        };
        match word.as_str() {
            "--seed" => words.seed = Some(number()?),
            "--seeds" => seeds = Some(number()?),
            "--from" => words.from = number()?,
            "--minutes" => words.until = Some(until(&given.next().unwrap_or_default())?),
            "--trace" => words.trace = true,
            "--broken" => {
                let name = given.next().unwrap_or_default();
                let known = || Broken::ALL.map(Broken::name).join(", ");
                words.broken = Some(
                    Broken::by_name(&name)
                        .ok_or_else(|| format!("no broken engine {name:?}; there are: {}", known()))?,
                );
            }
            _ => return Err(format!("unknown word {word}; known: --seed --seeds --from --minutes --broken --trace")),
        }
    }
    if seeds == Some(0) {
        return Err("--seeds wants a number above 0".into());
    }
    // By the clock alone, as many are played as there are.
    let room = u64::MAX - words.from;
    words.seeds = seeds.unwrap_or(if words.until.is_some() { room } else { SEEDS });
    if words.seeds == 0 || words.seeds > room {
        return Err(format!("--from {} leaves no room for so many seeds", words.from));
    }
    Ok(words)
}

fn until(minutes: &str) -> Result<Instant, String> {
    let given: Option<f64> = minutes.parse().ok().filter(|minutes| *minutes > 0.0);
    let lasts = given.and_then(|minutes| Duration::try_from_secs_f64(minutes * 60.0).ok());
    let until = lasts.and_then(|lasts| Instant::now().checked_add(lasts));
    until.ok_or_else(|| format!("--minutes wants a number above 0 that a clock can count to, not {minutes:?}"))
}

/// One world, as a story.
fn tell(seed: u64, settings: Settings) -> io::Result<bool> {
    let played = play(seed, &settings);
    let mut out = io::stdout().lock();
    for event in &played.events {
        writeln!(out, "{event}")?;
    }
    writeln!(out, "{:>8}  messages of one run at once, at most", played.most_messages)?;
    for (what, count) in &played.counts {
        writeln!(out, "{count:>8}  {what}")?;
    }
    for wrong in &played.wrong {
        writeln!(out, "SEED={seed}: {wrong}")?;
    }
    writeln!(out, "{} passed, {} failed", u8::from(played.wrong.is_empty()), u8::from(!played.wrong.is_empty()))?;
    Ok(played.wrong.is_empty())
}

fn run(words: &Words) -> io::Result<bool> {
    let settings = Settings { broken: words.broken, traced: words.trace };
    if let (Some(seed), true) = (words.seed, words.trace) {
        return tell(seed, settings);
    }
    let until = words.until;
    let (from, seeds) = words.seed.map_or((words.from, words.seeds), |seed| (seed, 1));
    let settings = Settings { traced: false, ..settings };
    let name = if until.is_some() { "sim-long" } else { "sim" };
    let again = words.broken.map(|broken| format!(r#" ARGS="--broken {}""#, broken.name())).unwrap_or_default();
    Suite { from, seeds, until, settings }.play().report(name, &again).finish()
}

fn main() -> ExitCode {
    let words = match words(env::args().skip(1)) {
        Ok(words) => words,
        Err(error) => {
            let _ = writeln!(io::stderr(), "stepwell-simulation: {error}");
            return ExitCode::from(2);
        }
    };
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Where this cannot be written, nobody reads it.
            let _ = writeln!(io::stderr(), "stepwell-simulation: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &str) -> Result<Words, String> {
        words(given.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn words_that_would_play_nothing_or_for_ever_are_refused_by_name() {
        for given in ["--seeds 0", "--seeds x", "--seed", "--from -1", "--broken x", "--nonsense"] {
            let error = read(given).unwrap_err();
            assert!(
                given.split_whitespace().all(|word| error.contains(word.trim_start_matches('-'))),
                "{given}: {error}"
            );
        }
        for minutes in ["0", "-1", "nan", "inf", "4e17", "18446744073709551615", "x"] {
            let error = read(&format!("--minutes {minutes}")).unwrap_err();
            assert!(error.contains("--minutes") && error.contains(minutes), "{minutes}: {error}");
        }
    }

    #[test]
    fn minutes_may_be_a_fraction() {
        let until = read("--minutes 0.5").unwrap().until.unwrap();
        assert!(until <= Instant::now() + Duration::from_secs(30));
    }

    #[test]
    fn seeds_beyond_the_last_are_refused() {
        for given in [
            "--from 18446744073709551615 --seeds 2",
            "--from 18446744073709551615",
            "--from 18446744073709551615 --minutes 1",
        ] {
            assert!(read(given).unwrap_err().contains("18446744073709551615"), "{given}");
        }
        assert!(read("--from 18446744073709551614 --seeds 1").is_ok());
        assert!(read("--from 18446744073709551614 --minutes 1").is_ok());
    }
}
