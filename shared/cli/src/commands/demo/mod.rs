//! `stepwell demo`: a run from start to end, in front of everybody. The worker is a process of its own, so that it can
//! really be killed.

mod approval;
mod folder;
mod progress;
mod summary;
mod worker;

use std::time::{Duration, Instant};

use stepwell_core::{Checkpoint, Json, RunId, Status, WorkflowName};
use stepwell_engine::{Client, ClientError, StartRequest};
use stepwell_samples::brief::Request;
use stepwell_samples::outside::mail::MailBehaviour;
use stepwell_samples::outside::{MailCounts, World, WorldOptions, vendors};

use self::approval::Draft;
use self::folder::Folder;
use self::progress::Progress;
use self::summary::{Facts, Summary};
use self::worker::WorkerProcess;
use crate::args::{self, Cli};
use crate::backend::{Backend, now};
use crate::errors::{CliError, Exit};
use crate::output::{Output, say};
use crate::stop::StopSignals;

/// Between two looks at the run.
const LOOK: Duration = Duration::from_millis(25);

/// The longest that a run takes, a person's thinking left out. Everything it waits for is much shorter.
const PATIENCE: Duration = Duration::from_mins(1);

const WORKFLOW: &str = "competitive-brief";
const GOAL: &str = "choose a tool that reads our invoices";
const READER: &str = "board@example.com";

pub(super) async fn run(cli: &Cli, args: &args::Demo, out: Output) -> Result<Exit, CliError> {
    let mut stop = StopSignals::listen_with_terminal()?;
    let mut folder = Folder::prepare(cli.data.as_deref(), args.keep)?;
    let played = tokio::select! {
        played = play(&folder, args) => played,
        () = stop.next() => Err(CliError::Interrupted),
    };
    // Sets apart what comes now, whatever line the demo has stopped in.
    say("");
    match played {
        Ok(summary) if summary.is_well() => {
            out.data(&summary)?;
            Ok(Exit::Done)
        }
        Ok(summary) => {
            out.data(&summary.keeping(folder.keep()))?;
            Ok(Exit::EndedBadly)
        }
        Err(CliError::Interrupted) => Err(CliError::Interrupted),
        Err(error) => {
            say(format_args!("the data folder is kept: {}", folder.keep().display()));
            Err(error)
        }
    }
}

/// The whole demo, up to its verdict.
async fn play(folder: &Folder, args: &args::Demo) -> Result<Summary, CliError> {
    let world = World::start(WorldOptions::default()).await?;
    if args.crash {
        world.set_mail(MailBehaviour::AcceptThenHold { times: 1 });
    }
    let outside = world.addresses();
    let client = Backend::in_folder(folder.path())?.client(stepwell_samples::registry(&outside)?);
    let worker = WorkerProcess::start(folder.path(), &outside)?;
    say(format_args!("the outside: vendors' pages at {}, mail API at {}", outside.vendors_url, outside.mail_url));
    say(format_args!("the worker: process {}, its log is {}", worker.id(), worker.log().display()));
    let run = start(&client, args.vendors.into()).await?;
    say(format_args!("the run: {WORKFLOW} {run}\n"));

    let crash = if args.crash { Crash::Pending } else { Crash::Unwanted };
    let stage = Stage { client: &client, world: &world, run: &run, worker, progress: Progress::new(), crash };
    let (stands, mut facts) = stage.watch().await?;
    facts.mail = world.counts().mail;
    facts.kept = folder.kept();
    world.stop().await;
    Ok(Summary::of(&stands, facts))
}

async fn start(client: &Client, vendors: usize) -> Result<RunId, CliError> {
    let vendors = vendors::names().into_iter().take(vendors).map(str::to_owned).collect();
    let input = Request { goal: GOAL.into(), vendors, to: READER.into() };
    let input = Json::of(&input).map_err(|error| ClientError::Value(error.to_string()))?;
    let workflow = WorkflowName::new(WORKFLOW).map_err(ClientError::from)?;
    Ok(client.start(StartRequest { workflow, input, key: None }).await?.run)
}

/// Whether the worker is killed on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crash {
    Unwanted,
    Pending,
    Done,
}

/// Everything that moves while the run does.
struct Stage<'a> {
    client: &'a Client,
    world: &'a World,
    run: &'a RunId,
    worker: WorkerProcess,
    progress: Progress,
    crash: Crash,
}

impl Stage<'_> {
    /// Watches the run until it has come to rest, crashes its worker if asked to, and answers for it.
    async fn watch(mut self) -> Result<(Checkpoint, Facts), CliError> {
        let started = Instant::now();
        let (mut thought, mut answered) = (Duration::ZERO, None);
        let stands = loop {
            let stands = self.client.get(self.run).await?;
            self.progress.tell(self.client, &stands).await?;
            match &stands.progress.status {
                Status::Completed { .. } | Status::Failed { .. } | Status::Cancelled { .. } | Status::Parked { .. } => {
                    break stands;
                }
                Status::Waiting(wait) if answered.is_none() && approval::is_awaited(wait) => {
                    let asked = Instant::now();
                    let draft = Draft::load(self.client, &stands).await?;
                    answered = Some((approval::decide(self.client, self.run, &draft).await?, draft.writer));
                    thought = asked.elapsed();
                }
                Status::Created | Status::Running | Status::Waiting(_) | Status::Retrying { .. } => {}
            }
            self.worker.check()?;
            if started.elapsed() > PATIENCE + thought {
                return Err(self.stuck(&stands));
            }
            tokio::select! {
                () = self.world.mail_accepted(), if self.crash == Crash::Pending => self.crash().await?,
                () = tokio::time::sleep(LOOK) => {}
            }
        };
        let took = started.elapsed();
        self.worker.stop().await?;
        Ok((stands, Facts { crash: self.crash, answered, took, mail: MailCounts::default(), kept: None }))
    }

    /// The mail was accepted and nobody has written that down: the moment to kill the worker.
    async fn crash(&mut self) -> Result<(), CliError> {
        let killed = self.worker.id();
        self.worker.kill_and_replace().await?;
        self.world.set_mail(MailBehaviour::Normal);
        self.crash = Crash::Done;
        let stands = self.client.get(self.run).await?;
        self.progress.tell(self.client, &stands).await?;
        let lease = stands.hold.lease.map_or(Duration::ZERO, |lease| lease.until.since(now()));
        say(format_args!(
            "\nthe mail API has accepted the mail and holds its answer back: nothing of it is recorded yet\n\
             killed the worker with SIGKILL: process {killed}\n\
             started another one: process {}; it waits until the dead one's lease has run out, in {:.1} s\n",
            self.worker.id(),
            lease.as_secs_f64()
        ));
        Ok(())
    }

    fn stuck(&self, stands: &Checkpoint) -> CliError {
        let (phase, step) = (stands.phase(now()), stands.progress.place.step());
        CliError::Demo(format!(
            "run {} did not end within {PATIENCE:?}: it is {phase} at step {step}; the worker's log is {}",
            self.run,
            self.worker.log().display()
        ))
    }
}
