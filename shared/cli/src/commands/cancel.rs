//! `stepwell cancel`: asks for the end of a run.

use std::fmt;

use serde::Serialize;
use stepwell::Registry;
use stepwell_core::{Checkpoint, Phase};
use stepwell_http::view::{CancelAnswerView, CancelView};

use crate::args::{self, Cli};
use crate::backend::{Backend, now};
use crate::errors::{CliError, Exit};
use crate::output::Output;
use crate::program::command;
use crate::view::{count, harmless, next_commands};

#[derive(Serialize)]
struct ShownAnswer {
    #[serde(flatten)]
    answer: CancelAnswerView,
    /// Effects that are taken back first, for people.
    #[serde(skip)]
    to_undo: usize,
    /// Whether it is parked while it takes something back, for people.
    #[serde(skip)]
    is_stuck: bool,
    /// What a person can do, for people.
    #[serde(skip)]
    next: Vec<String>,
}

pub(super) async fn run(cli: &Cli, args: &args::Cancel, out: Output) -> Result<Exit, CliError> {
    let args::Cancel { run, act } = args;
    let backend = Backend::open_existing(cli).await?;
    let client = backend.client(Registry::new());
    let answer = client.cancel(run, &act.by, act.why.clone()).await?;
    // It is written: whether the run can be looked at now changes nothing.
    let after = client.get(run).await.ok();
    out.data(&ShownAnswer {
        answer: CancelAnswerView::of(run.clone(), &answer, after.as_ref(), now()),
        to_undo: after.as_ref().map_or(0, |after| after.progress.undo.len()),
        is_stuck: after.as_ref().is_some_and(is_stuck),
        next: after.as_ref().map(|after| next(after, backend.flag())).unwrap_or_default(),
    })?;
    Ok(Exit::Done)
}

fn is_stuck(after: &Checkpoint) -> bool {
    after.progress.undoing.is_some() && after.progress.status.phase() == Phase::Parked
}

/// What a person can do about a run that is to end. One that no worker holds up by itself says more than where it looks.
fn next(after: &Checkpoint, flag: &str) -> Vec<String> {
    let next = next_commands(after, now(), flag);
    if next.is_empty() {
        vec![format!("{} lists them", command(format_args!("unknowns{flag} {}", after.run)))]
    } else {
        next
    }
}

impl fmt::Display for ShownAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answer: CancelAnswerView { run, new, request, status, unknowns }, to_undo, is_stuck, next } = self;
        let CancelView { by, why, at } = request;
        if *new {
            write!(f, "run {run} is to end")?;
        } else {
            let why = harmless(why.as_deref().unwrap_or("no reason given"));
            let by = harmless(by);
            write!(f, "the end of run {run} had been asked for before, by {by} at {at}: {why}; that request stands")?;
        }
        if !unknowns.is_empty() {
            let (effects, status) = (count(unknowns.len() as u64, "effect"), status.unwrap_or(Phase::Cancelling));
            write!(f, ", but {effects} may have happened: it stays {status} until it is known how each ended")?;
            return next.iter().try_for_each(|next| write!(f, "\n  {next}"));
        }
        if *is_stuck {
            write!(f, ", but it is parked while it takes back what it has done, and waits for a person")?;
            return next.iter().try_for_each(|next| write!(f, "\n  {next}"));
        }
        match status {
            Some(Phase::Cancelled) => write!(f, ", and has: it is cancelled"),
            Some(_) | None if *to_undo > 0 => {
                write!(f, "; a worker takes back what it has done first: {}", count(*to_undo as u64, "effect"))
            }
            Some(_) | None if *new => write!(f, "; a worker ends it before its next effect"),
            Some(_) | None => Ok(()),
        }
    }
}
