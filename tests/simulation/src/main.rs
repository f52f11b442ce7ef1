//! Plays worlds: `stepwell-simulation [--seed N] [--seeds N] [--from N] [--minutes N] [--broken NAME] [--trace]`.
//!
//! Without words it plays 10,000 seeds. One seed alone (`--seed`) is told as a story with `--trace`. `--minutes` goes on until the time is
//! over. `--broken` plays on an engine that is broken on purpose: then something has to be found.

use std::env;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use stepwell_simulation::{Settings, Suite, play};
use stepwell_testkit::broken::Broken;

const SEEDS: u64 = 10_000;

#[derive(Default)]
struct Words {
    seed: Option<u64>,
    seeds: Option<u64>,
    from: u64,
    minutes: Option<u64>,
    broken: Option<Broken>,
    trace: bool,
}

fn words() -> Result<Words, String> {
    let (mut words, mut given) = (Words::default(), env::args().skip(1));
    while let Some(word) = given.next() {
        let mut number = || -> Result<u64, String> {
            let number = given.next().ok_or_else(|| format!("{word} wants a number"))?;
            number.parse().map_err(|_| format!("{word} wants a number, not {number}"))
        };
        match word.as_str() {
            "--seed" => words.seed = Some(number()?),
            "--seeds" => words.seeds = Some(number()?),
            "--from" => words.from = number()?,
            "--minutes" => words.minutes = Some(number()?),
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
    Ok(words)
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
    let until = words.minutes.map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    let (from, seeds) = match words.seed {
        Some(seed) => (seed, 1),
        None => (words.from, words.seeds.unwrap_or(if until.is_some() { u64::MAX } else { SEEDS })),
    };
    let settings = Settings { traced: false, ..settings };
    Suite { from, seeds, until, settings }.play().report().finish()
}

fn main() -> ExitCode {
    let done = words().map_err(io::Error::other).and_then(|words| run(&words));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Where this cannot be written, nobody reads it.
            let _ = writeln!(io::stderr(), "stepwell-simulation: {error}");
            ExitCode::FAILURE
        }
    }
}
