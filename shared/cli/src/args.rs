//! The arguments of the program.

mod approval;
mod crash_test;
mod dev;
mod repair;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use stepwell_core::limits::{MESSAGE_DELAY_MAX, PAGE_MAX};
use stepwell_core::{EffectKey, Phase, RunId, SignalId, SignalName, Timestamp, WorkflowName};
use stepwell_samples::Outside;

pub(crate) use self::approval::{Answer, Approvals, Approve, LetStand, Reject};
pub(crate) use self::crash_test::CrashTest;
pub(crate) use self::dev::Dev;
pub(crate) use self::repair::{Because, Discard, Edit, Link, MoveTo, Pause, Retry, StateOf, Stated};
use crate::program;
use crate::workflows::Workflows;

const EXIT_CODES: &str = "Exit codes:
  0  done
  1  the run (start --wait) or the demo ended badly, a crash test found a surprise, or the command was stopped
  2  the arguments are wrong
  3  the request is refused: change it
  4  not now: try again later
  5  a person has to look: the run is parked, stored data is damaged, or doctor found a failure
  6  the audit has found a run that breaks an invariant

Data goes to stdout, words to stderr. With --json an error is on stdout too:
  {\"error\": {\"code\": …, \"message\": …, \"remedy\": \"fix-the-input\" | \"retry\" | \"call-a-person\"}}";

/// Durable runs, on this machine or on AWS: start them, watch them, speak to them, work them
#[derive(Debug, Parser)]
#[command(name = "stepwell", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Folder that holds the runs [default: .stepwell; demo: a temporary one]
    #[arg(long, global = true, value_name = "DIR", env = "STEPWELL_DATA", hide_env_values = true, display_order = 900)]
    pub(crate) data: Option<PathBuf>,
    /// Work on the stack on AWS that the environment names, not on a folder
    #[arg(long, global = true, display_order = 899)]
    pub(crate) aws: bool,
    /// Write one JSON object or array to stdout
    #[arg(long, global = true, display_order = 901)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Reads the arguments of this process.
    pub(crate) fn parse_for(workflows: &Workflows) -> Result<Self, clap::Error> {
        let mut command = Self::command_for(workflows);
        let matches = command.try_get_matches_from_mut(std::env::args_os())?;
        let cli = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        // A folder that the environment names is a default; one that somebody has typed is meant.
        if cli.aws && matches.value_source("data") == Some(ValueSource::CommandLine) {
            let words = "--aws and --data name two places: leave one of them out";
            return Err(command.error(ErrorKind::ArgumentConflict, words));
        }
        Ok(cli)
    }

    /// What only the samples need is not shown by a program that has workflows of its own.
    fn command_for(workflows: &Workflows) -> clap::Command {
        let command = Self::command().name(program::name());
        if workflows.are_samples() {
            return command.mut_subcommand("dev", |dev| dev.after_long_help(dev::inputs()));
        }
        let without_urls = |command: clap::Command| {
            ["vendors_url", "mail_url", "shop_url"]
                .into_iter()
                .fold(command, |command, url| command.mut_arg(url, |url| url.hide(true)))
        };
        command
            .after_help(EXIT_CODES.replace(" or the demo", "").replace(", a crash test found a surprise", ""))
            .mut_arg("data", |data| data.help("Folder that holds the runs [default: .stepwell]"))
            .mut_subcommand("demo", |demo| demo.hide(true))
            .mut_subcommand("outside", |outside| outside.hide(true))
            .mut_subcommand("crash-test", |test| test.hide(true))
            .mut_subcommand("dev", |dev| {
                dev.mut_arg("no_demo", |demo| demo.hide(true)).mut_arg("roles", |role| {
                    role.help("A role that they have; give it again for each role [default: admin]")
                })
            })
            .mut_subcommand("worker", without_urls)
            .mut_subcommand("start", without_urls)
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show a run from start to end, with a worker process of its own
    Demo(Demo),
    /// Serve the API and the console on this machine, with a worker, until told to stop
    ///
    /// One process on the folder of runs: API and console on 127.0.0.1, a worker with its sweep, what the samples call, and some runs to
    /// try them on. Everybody who reaches this machine's loopback is taken for --as, without a key: it is made for one person's machine
    Dev(Dev),
    /// Work on runs until told to stop (Ctrl-C or SIGTERM; a second one stops at once)
    Worker(Worker),
    /// Start a run
    Start(Start),
    /// List runs, newest first
    List(List),
    /// Show one run
    Show(Show),
    /// Send a signal to a run
    Signal(Signal),
    /// Ask for the end of a run
    Cancel(Cancel),
    /// Ask a run to stand still
    ///
    /// At once when nobody works on it, else when its step has ended. It is parked then, until `resume`; meanwhile it can be repaired
    Pause(Pause),
    /// Let a parked run go on, one that was paused too
    ///
    /// It goes on where it stands. One that has spent its budget may spend as much again; one that has reached its limit of steps
    /// may make as many again; a compensation that was refused is asked for again; what is idempotent and may have happened is
    /// called again under its key. Anything else that may have happened needs `resolve`, and what cannot be taken back `let-stand`
    Resume(Resume),
    /// Let a failed run go on where it has failed
    ///
    /// For when what it failed of is mended outside. Nothing that it has done may have been taken back
    Retry(Retry),
    /// Change what a parked or failed run knows, with a JSON patch; it is parked then
    Edit(Edit),
    /// Move a parked or failed run to another step; it is parked then, and `resume` runs that step
    ///
    /// Effects that may have happened have to be settled first. What it knows stays as it is: `edit` changes that
    Move(MoveTo),
    /// Give a parked run up: it ends as failed, and what it has done stands
    ///
    /// Nothing is taken back: `cancel` does that. Effects that may have happened have to be settled first
    Discard(Discard),
    /// Show what a run knew after a revision, and what that changed
    State(StateOf),
    /// List what somebody has to decide: approvals that are open
    Approvals(Approvals),
    /// Allow what a run asks for, once and with exactly these parameters
    Approve(Approve),
    /// Refuse what a run asks for
    Reject(Reject),
    /// Make a link by which a person without an account answers an approval
    ///
    /// Signed with a key of `STEPWELL_LINK_KEYS`, which the API that serves the link has too. Opening it changes nothing: the
    /// person confirms. For approvals alone whose workflow allows it
    Link(Link),
    /// Let an effect stand that could not be taken back, and the run go on to its end
    LetStand(LetStand),
    /// List effects that may have happened: somebody has to find out
    Unknowns(Unknowns),
    /// Say how an effect ended that may have happened
    Resolve(Resolve),
    /// Show the messages that were given up last
    DeadLetters(DeadLetters),
    /// Look whether runs can be worked on here, and say what to mend
    Doctor,
    /// Hold every run against the invariants that it is promised, and say what is wrong
    ///
    /// Reads each run with its history, its logs and every blob that it refers to, and changes nothing; workers may go on meanwhile.
    /// Ends with 6 when something is wrong: let it run each night. Nothing that a run knows is shown
    Audit(Audit),
    /// List the workflows that this program knows
    Workflows,
    /// Find out how often a workflow calls its outside when things go wrong, and print the table
    ///
    /// Its run is played in memory without faults, then again in a world of its own for each call that its worker makes: the worker
    /// dies there, before and after it, the reply is lost, the call is throttled, the worker stalls; and each message comes twice. No
    /// folder of runs is touched, and each world has an outside of its own
    CrashTest(CrashTest),
    /// Serve the vendors' pages, the mail API and the shop with its carrier that the samples call, until told to stop
    Outside(OutsidePorts),
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Kill the worker right after the mail was accepted: the run must recover by itself
    #[arg(long)]
    pub(crate) crash: bool,
    /// How many vendors to read about
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=6))]
    pub(crate) vendors: u8,
    /// Keep the data folder, to look at it afterwards
    #[arg(long)]
    pub(crate) keep: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Worker {
    /// Runs worked on at once
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = at_least_one)]
    pub(crate) concurrency: usize,
    /// How long, at least, another worker keeps away from a run whose worker died; an effect in flight extends it to its
    /// own deadline
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = lease)]
    pub(crate) lease: Duration,
    /// How long to go on with one run before others get their turn
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    pub(crate) turn: Duration,
    /// Stop when stdin is closed, so that a worker does not outlive who started it
    #[arg(long, hide = true)]
    pub(crate) stop_with_stdin: bool,
    #[command(flatten)]
    pub(crate) outside: OutsideUrls,
}

#[derive(Debug, Args)]
pub(crate) struct Start {
    /// Of which workflow
    pub(crate) workflow: WorkflowName,
    /// The input: JSON, @FILE, or - for stdin [default: null]
    #[arg(long, value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// A second start with the same key and input is the same run
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Wait for the end of the run, and show its result
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) outside: OutsideUrls,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<WorkflowName>,
    /// Only runs that stand so
    #[arg(long, value_name = "STATUS", value_parser = stored_phase())]
    pub(crate) status: Option<Phase>,
    /// Only runs that were started at this time or later: such as 2026-11-30 or 2026-11-30T14:05:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) from: Option<Timestamp>,
    /// Only runs that were started before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) before: Option<Timestamp>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = page)]
    pub(crate) limit: usize,
    /// Go on after a page: the `next` that it gave
    #[arg(long, value_name = "NEXT")]
    pub(crate) after: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Which run: its id, as start and list give it
    pub(crate) run: RunId,
    /// Show what happened, step by step
    #[arg(long)]
    pub(crate) history: bool,
    /// Show its state and output in full, with the contents of their blobs and logs
    #[arg(long)]
    pub(crate) state: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Signal {
    /// To which run
    pub(crate) run: RunId,
    /// Which signal
    pub(crate) name: SignalName,
    /// What it says: JSON, @FILE, or - for stdin
    #[arg(value_name = "JSON", default_value = "null")]
    pub(crate) payload: String,
    /// A second signal with the same id is the same signal
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<SignalId>,
}

#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Which run is to end
    pub(crate) run: RunId,
    #[command(flatten)]
    pub(crate) act: Act,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Which run is to go on
    pub(crate) run: RunId,
    #[command(flatten)]
    pub(crate) act: Act,
}

/// Who does something to a run, and why.
#[derive(Debug, Args)]
pub(crate) struct Act {
    /// Who asks for it
    #[arg(long, value_name = "WHO", env = "USER", hide_env_values = true, value_parser = who)]
    pub(crate) by: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Unknowns {
    /// Only of this run [default: of all that have not ended, parked ones first]
    pub(crate) run: Option<RunId>,
    /// Look at no more runs than this
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = at_least_one, conflicts_with = "run")]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    pub(crate) workflow: Option<WorkflowName>,
    /// How long a run may have something to do and no worker, once a sweep should have found it. A sweep reminds a worker of a run
    /// once in 15 minutes at least, so less than 20 gives alarms for nothing
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = duration)]
    pub(crate) grace: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Resolve {
    /// Of which run
    pub(crate) run: RunId,
    /// Which effect: its key, as unknowns and show give it
    #[arg(value_parser = key)]
    pub(crate) key: EffectKey,
    #[command(flatten)]
    pub(crate) ended: Ended,
    /// What says so: the provider's own record, a phone call
    #[arg(long, value_name = "TEXT", value_parser = words)]
    pub(crate) why: String,
    /// Who says so
    #[arg(long, value_name = "WHO", env = "USER", hide_env_values = true, value_parser = who)]
    pub(crate) by: String,
}

/// How an effect ended: one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Ended {
    /// It happened, and answered this: JSON, @FILE, or - for stdin. The step gets it as its result, so it has to be what the effect
    /// itself would have answered: one of another shape ends the run
    #[arg(long, value_name = "JSON")]
    pub(crate) succeeded: Option<String>,
    /// It did not happen and will not. The step gets this as the outside's refusal
    #[arg(long, value_name = "TEXT", value_parser = words)]
    pub(crate) failed: Option<String>,
    /// It did not happen: the step calls again
    #[arg(long)]
    pub(crate) try_again: bool,
    /// Nobody will ever know: it stays uncertain for good, counts as spent, is not called again, and the run may end with it. If
    /// its key is unique across runs, it stays taken: no other run makes this effect either
    #[arg(long)]
    pub(crate) sign_off: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DeadLetters {
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = page)]
    pub(crate) limit: usize,
}

/// Where `stepwell outside` listens when nobody says otherwise.
const VENDORS_URL: &str = "http://127.0.0.1:4711";
const MAIL_URL: &str = "http://127.0.0.1:4712";
const SHOP_URL: &str = "http://127.0.0.1:4713";

/// Where the outside world of the samples is.
#[derive(Debug, Args)]
#[allow(clippy::struct_field_names, reason = "the options have these names")]
pub(crate) struct OutsideUrls {
    /// Where the vendors' pages are
    #[arg(long, value_name = "URL", env = "STEPWELL_VENDORS_URL", default_value = VENDORS_URL)]
    vendors_url: String,
    /// Where the mail API is
    #[arg(long, value_name = "URL", env = "STEPWELL_MAIL_URL", default_value = MAIL_URL)]
    mail_url: String,
    /// Where the shop is
    #[arg(long, value_name = "URL", env = "STEPWELL_SHOP_URL", default_value = SHOP_URL)]
    shop_url: String,
}

impl OutsideUrls {
    pub(crate) fn outside(&self) -> Outside {
        Outside {
            vendors_url: self.vendors_url.clone(),
            mail_url: self.mail_url.clone(),
            shop_url: self.shop_url.clone(),
        }
    }
}

#[derive(Debug, Args)]
#[allow(clippy::struct_field_names, reason = "the options have these names")]
pub(crate) struct OutsidePorts {
    /// Port of the vendors' pages on 127.0.0.1
    #[arg(long, value_name = "PORT", default_value_t = 4711)]
    pub(crate) vendors_port: u16,
    /// Port of the mail API on 127.0.0.1
    #[arg(long, value_name = "PORT", default_value_t = 4712)]
    pub(crate) mail_port: u16,
    /// Port of the shop on 127.0.0.1
    #[arg(long, value_name = "PORT", default_value_t = 4713)]
    pub(crate) shop_port: u16,
}

/// The phases that a list can be asked for: `cancelling` shows only in a single run.
fn stored_phase() -> impl TypedValueParser<Value = Phase> {
    let phases = Phase::ALL.into_iter().filter(|phase| *phase != Phase::Cancelling);
    PossibleValuesParser::new(phases.map(Phase::as_str)).try_map(|name| Phase::parse(&name).ok_or("no status of a run"))
}

fn key(text: &str) -> Result<EffectKey, &'static str> {
    EffectKey::parse(text).ok_or("no key of an effect: those are 32 hexadecimal digits, in lower case")
}

fn words(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("it says nothing") } else { Ok(text.to_owned()) }
}

/// Somebody's name, or a role. One with blanks around it would pass for another.
fn who(text: &str) -> Result<String, &'static str> {
    if text.trim() != text && !text.trim().is_empty() {
        return Err("it has blanks around it: leave them out");
    }
    words(text)
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 is needed".into()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}

fn page(text: &str) -> Result<usize, String> {
    match at_least_one(text)? {
        number if number > PAGE_MAX => Err(format!("at most {PAGE_MAX} are possible; go on with --after")),
        number => Ok(number),
    }
}

/// A point in time: RFC 3339, or a date, which stands for its first moment in UTC.
fn time(text: &str) -> Result<Timestamp, &'static str> {
    let time: Option<jiff::Timestamp> = text.parse().ok().or_else(|| format!("{text}T00:00:00Z").parse().ok());
    let time = time.ok_or("give a time such as 2026-11-30T14:05:00Z, or a date such as 2026-11-30")?;
    u64::try_from(time.as_millisecond()).map(Timestamp).map_err(|_| "no run was started before 1970")
}

/// A time such as `500ms`, `30s` or `1m 30s`.
fn duration(text: &str) -> Result<Duration, String> {
    let signed: jiff::SignedDuration = text.parse().map_err(|_| "give a time such as 500ms, 30s or 2m".to_owned())?;
    Duration::try_from(signed).map_err(|_| "a time cannot be negative".into())
}

fn lease(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_millis(500);
    match duration(text)? {
        lease if lease < SHORTEST => {
            Err(format!("a lease shorter than {SHORTEST:?} would run out during a slow write"))
        }
        lease if lease > MESSAGE_DELAY_MAX => {
            Err(format!("a lease is at most {} minutes long", MESSAGE_DELAY_MAX.as_secs() / 60))
        }
        lease => Ok(lease),
    }
}

#[cfg(test)]
mod tests {
    use stepwell::Registry;

    use super::*;

    #[test]
    fn the_arguments_are_sound() {
        Cli::command_for(&Workflows::Samples).debug_assert();
        Cli::command_for(&Workflows::Own(Registry::new())).debug_assert();
    }

    #[test]
    fn a_program_with_workflows_of_its_own_shows_nothing_of_the_samples() {
        let help = |workflows: &Workflows| {
            let mut command = Cli::command_for(workflows);
            let mut text = command.render_long_help().to_string();
            for name in ["worker", "start"] {
                text.push_str(&command.find_subcommand_mut(name).unwrap().render_long_help().to_string());
            }
            text
        };
        let (samples, own) = (help(&Workflows::Samples), help(&Workflows::Own(Registry::new())));
        let words = [
            "Show a run from start to end",
            "Serve the vendors' pages",
            "Find out how often",
            "--vendors-url",
            "--mail-url",
        ];
        for word in words {
            assert!(samples.contains(word) && !own.contains(word), "{word}: {own}");
        }
        assert!(!own.contains("demo"), "{own}");
        assert!(own.contains("Work on runs") && own.contains(&format!("Usage: {}", program::name())), "{own}");
    }

    #[test]
    fn times_are_read_and_bounded() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert!(duration("30").is_err());
        assert!(duration("-1s").is_err());
        assert!(lease("499ms").is_err() && lease("16m").is_err());
        assert_eq!(lease("15m"), Ok(MESSAGE_DELAY_MAX));
        assert_eq!(time("1970-01-02"), Ok(Timestamp(86_400_000)));
        assert_eq!(time("1970-01-01T01:00:00.5+01:00"), Ok(Timestamp(500)));
        assert!(time("yesterday").is_err() && time("1969-12-31").is_err() && time("2026-13-01").is_err());
        assert!(page("0").is_err() && page("1001").is_err());
    }
}
