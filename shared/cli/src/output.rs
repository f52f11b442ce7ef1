//! The only place that prints: data to stdout, as JSON or for people, and words to stderr.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use stepwell_engine::Remedy;
use stepwell_http::view::AnswerView;

use crate::errors::{CliError, Exit};
use crate::view::harmless;

const ERROR: Style = AnsiColor::Red.on_default().bold();

/// Where a command says what it found. Colours are left out where nobody sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

#[derive(Serialize)]
struct Failed<'a> {
    error: FailedError<'a>,
}

#[derive(Serialize)]
struct FailedError<'a> {
    code: &'a str,
    message: &'a str,
    remedy: &'a str,
    /// The answer that stands, where an approval was decided before.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<AnswerView>,
}

impl Output {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    pub(crate) const fn is_json(self) -> bool {
        self.json
    }

    /// Writes what was asked for to stdout: its JSON, or its text.
    pub(crate) fn data<T: Serialize + Display + ?Sized>(self, data: &T) -> Result<(), CliError> {
        let written = if self.json { write_json(data) } else { write_text(data) };
        written.map_err(CliError::Output)
    }

    /// Says why a command has failed: in words, and on stdout where JSON is expected there.
    pub(crate) fn error(self, error: &CliError) {
        if error.exit() == Exit::Done {
            return;
        }
        let (code, message) = (error.code(), error.text());
        say(format_args!("{ERROR}error[{code}]{ERROR:#}: {}", harmless(&message)));
        if self.json {
            let remedy = error.remedy().as_str();
            // It is said in words already.
            let first = error.first_answer();
            let _ = write_json(&Failed { error: FailedError { code, message: &message, remedy, first } });
        }
    }
}

/// Says something to a person, on stderr. If nobody can read it, nobody misses it.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// Asks a person something, on stderr, and leaves the cursor behind it.
pub(crate) fn ask(question: impl Display) {
    let mut stderr = anstream::stderr();
    let _ = write!(stderr, "{question} ").and_then(|()| stderr.flush());
}

/// Says what is wrong with the arguments, or gives the help that was asked for.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if !error.use_stderr() {
        return Exit::Done.into();
    }
    // The arguments could not be read, so whether JSON is wanted is read from them by hand.
    if std::env::args_os().any(|argument| argument == "--json") {
        let message = error.to_string();
        let remedy = Remedy::FixTheInput.as_str();
        let _ =
            write_json(&Failed { error: FailedError { code: "usage", message: message.trim(), remedy, first: None } });
    }
    Exit::Usage.into()
}

fn write_json<T: Serialize + ?Sized>(data: &T) -> io::Result<()> {
    let mut text = serde_json::to_vec(data)?;
    text.push(b'\n');
    let mut stdout = io::stdout().lock();
    stdout.write_all(&text)?;
    stdout.flush()
}

fn write_text<T: Display + ?Sized>(data: &T) -> io::Result<()> {
    let mut stdout = anstream::stdout().lock();
    writeln!(stdout, "{data}")?;
    stdout.flush()
}
