//! Somebody has to read the draft: the person at the terminal, or the demo itself where there is none.

use std::io::{self, IsTerminal};

use serde::Deserialize;
use stepwell_core::{BlobRef, Checkpoint, Json, Payload, Place, RunId, SignalName, Wait};
use stepwell_engine::{Client, ClientError, SignalRequest};
use stepwell_samples::brief::{APPROVAL, Decision};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use crate::errors::CliError;
use crate::output::{self, say};
use crate::view::{BOLD, DIM};

/// The draft that waits for its approval.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    text: String,
    words: usize,
    pub(super) writer: String,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Approved,
    Rejected,
}

impl Draft {
    /// Reads it out of the run's state.
    pub(super) async fn load(client: &Client, stands: &Checkpoint) -> Result<Self, CliError> {
        #[derive(Deserialize)]
        struct State {
            draft: Option<Stored>,
        }
        #[derive(Deserialize)]
        struct Stored {
            text: BlobRef,
            words: usize,
            writer: String,
        }
        let unexpected = |problem: String| CliError::Demo(format!("run {} has no draft: {problem}", stands.run));
        let Place::At { state, .. } = &stands.progress.place else {
            return Err(unexpected("it has not begun".into()));
        };
        let state: State = client.value(state).await?.parse().map_err(|error| unexpected(error.to_string()))?;
        let Stored { text, words, writer } = state.draft.ok_or_else(|| unexpected("it waits without one".into()))?;
        let text = client.value(&Payload::Blob(text)).await?.parse().map_err(|error| unexpected(error.to_string()))?;
        Ok(Self { text, words, writer })
    }
}

/// Whether a run waits for an approval.
pub(super) fn is_awaited(wait: &Wait) -> bool {
    wait.on.iter().any(|signal| signal.as_str() == APPROVAL.name())
}

/// Shows the draft, gets an answer, and sends it to the run as a signal.
pub(super) async fn decide(client: &Client, run: &RunId, draft: &Draft) -> Result<Answer, CliError> {
    let Draft { text, words, writer } = draft;
    say(format_args!("\n{BOLD}the draft{BOLD:#}, {words} words, written by: {writer}"));
    for line in text.lines() {
        say(format_args!("{DIM}|{DIM:#} {line}"));
    }
    say("\nthe run waits for an approval, and nothing runs meanwhile");
    let decision = if io::stdin().is_terminal() && io::stderr().is_terminal() {
        ask().await?
    } else {
        say("nobody is at a terminal, so the demo approves it");
        Decision { approved: true, by: "demo".into(), reason: Some("nobody was at a terminal".into()) }
    };
    let payload = Json::of(&decision).map_err(|error| ClientError::Value(error.to_string()))?;
    let name = SignalName::new(APPROVAL.name()).map_err(ClientError::from)?;
    client.signal(SignalRequest { run: run.clone(), name, payload, id: None }).await?;
    say(format_args!("sent signal {}: approved = {}\n", APPROVAL.name(), decision.approved));
    Ok(if decision.approved { Answer::Approved } else { Answer::Rejected })
}

async fn ask() -> Result<Decision, CliError> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let by = std::env::var("USER").unwrap_or_else(|_| "the person at the terminal".into());
    loop {
        output::ask("send this brief? [y/n]");
        match next(&mut lines).await?.to_lowercase().as_str() {
            "y" | "yes" => return Ok(Decision { approved: true, by, reason: None }),
            "n" | "no" => {
                output::ask("why not?");
                let reason = Some(next(&mut lines).await?).filter(|reason| !reason.is_empty());
                return Ok(Decision { approved: false, by, reason });
            }
            _ => say("please answer y or n"),
        }
    }
}

/// The next line. Without one nobody has decided, and nothing is sent.
async fn next(lines: &mut Lines<BufReader<Stdin>>) -> Result<String, CliError> {
    let line = lines.next_line().await;
    let line = line.map_err(|source| CliError::System { doing: "read the answer".into(), source })?;
    line.map(|line| line.trim().to_owned()).ok_or(CliError::Interrupted)
}
