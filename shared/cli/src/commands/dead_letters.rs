//! `stepwell dead-letters`: messages that no worker could use.

use std::fmt;

use serde::Serialize;
use stepwell_http::view::At;
use stepwell_local::DeadLetter;

use crate::args::{self, Cli};
use crate::backend::Backend;
use crate::errors::{CliError, Exit};
use crate::output::{Output, say};
use crate::view::{count, harmless};

#[derive(Serialize)]
#[serde(transparent)]
struct LettersView(Vec<LetterView>);

#[derive(Serialize)]
struct LetterView {
    at: At,
    message: String,
    reason: String,
    receives: u32,
}

pub(super) async fn run(cli: &Cli, args: &args::DeadLetters, out: Output) -> Result<Exit, CliError> {
    let letters = Backend::open_existing(cli).await?.dead_letters(args.limit)?;
    let view = |DeadLetter { body, reason, receives, at }| LetterView { at: At(at), message: body, reason, receives };
    let letters = LettersView(letters.into_iter().map(view).collect());
    if letters.0.is_empty() && !out.is_json() {
        say("no message was given up");
        return Ok(Exit::Done);
    }
    out.data(&letters)?;
    Ok(Exit::Done)
}

impl fmt::Display for LettersView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, LetterView { at, message, reason, receives }) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "\n" };
            let (message, reason) = (harmless(message), harmless(reason));
            write!(f, "{separator}{at}  {message}  received {}: {reason}", count(u64::from(*receives), "time"))?;
        }
        Ok(())
    }
}
