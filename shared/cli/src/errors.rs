//! What can go wrong, what a person or a script can do about it, and the exit code that says so.

use std::io;
use std::process::ExitCode;

use stepwell_core::WorkflowName;
use stepwell_core::limits::VALUE_BYTES_MAX;
use stepwell_core::link::LinkKeysError;
use stepwell_engine::{ClientError, EngineError, Remedy};
use stepwell_http::view::AnswerView;
use stepwell_local::OpenError;
use stepwell_ports::QueueError;
use stepwell_samples::client::SetupError;
use stepwell_samples::outside::WorldError;
use stepwell_testing::CrashTestError;

use crate::program;

/// How the program ends. Documented in `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    EndedBadly = 1,
    Usage = 2,
    FixTheInput = 3,
    Retry = 4,
    CallAPerson = 5,
    /// An audit has found a run that breaks an invariant.
    Broken = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<Remedy> for Exit {
    fn from(remedy: Remedy) -> Self {
        match remedy {
            Remedy::FixTheInput => Self::FixTheInput,
            Remedy::Retry => Self::Retry,
            Remedy::CallAPerson => Self::CallAPerson,
        }
    }
}

/// Why a command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error(transparent)]
    World(#[from] WorldError),
    #[error("STEPWELL_LINK_KEYS: {0}")]
    LinkKeys(#[from] LinkKeysError),
    #[error("{0}; no --input was given")]
    NoInput(ClientError),
    #[error("{error}; {hint}")]
    Refused { error: ClientError, hint: String },
    #[error("{what} is not JSON: {problem}; quote it for the shell, as in '{{\"name\": \"Ada\"}}'")]
    NotJson { what: String, problem: String },
    #[error("{what} cannot be read: {source}; check the path")]
    Unreadable { what: String, source: io::Error },
    #[error("{what} is over the limit of {VALUE_BYTES_MAX} bytes: pass a reference to it instead")]
    TooLarge { what: String },
    #[error("cannot {doing}: {source}")]
    System { doing: String, source: io::Error },
    #[error("the output could not be written: {0}")]
    Output(io::Error),
    #[error("stopped at once; runs in progress go on when their leases run out")]
    StoppedAtOnce,
    #[error("stopped before the end")]
    Interrupted,
    #[error("the demo went wrong: {0}")]
    Demo(String),
    #[error("this program has workflows of its own; `{0}` belongs to the program `stepwell`")]
    NotHere(&'static str),
    #[error("`{0}` plays on this machine alone; leave --aws out")]
    OnlyHere(&'static str),
    #[error(transparent)]
    CrashTest(#[from] CrashTestError),
    #[error(
        "crash-test calls all that a workflow calls, hundreds of times, so it tests the samples alone; test your own workflow with \
         `stepwell_testing::crash_everywhere`, on an outside that you make for each world"
    )]
    CrashesOwn,
    #[error("no link can be made: {0}")]
    NoLinks(String),
    #[error("dead letters cannot be shown: {0}")]
    NoLetters(String),
    #[error("no run of workflow {0} was found: is that its name? Without --workflow, every run is looked at")]
    NothingAudited(WorkflowName),
    #[error("{why}")]
    Stack { code: &'static str, why: String },
}

impl From<QueueError> for CliError {
    fn from(error: QueueError) -> Self {
        Self::Client(error.into())
    }
}

impl CliError {
    /// A short code for scripts and docs.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Client(error) | Self::NoInput(error) | Self::Refused { error, .. } => error.code(),
            Self::Engine(EngineError::Registry(_)) => "bad-registry",
            Self::Open(OpenError::Missing { .. }) => "no-folder",
            Self::Open(OpenError::Folder { .. }) => "bad-folder",
            Self::Open(OpenError::Foreign { .. }) => "foreign-file",
            Self::Open(OpenError::Newer { .. }) => "newer-data",
            Self::Open(OpenError::Damaged { .. }) => "damaged",
            Self::Open(OpenError::Unavailable { .. }) => "unavailable",
            Self::Setup(SetupError::Base { .. }) => "bad-url",
            Self::Setup(SetupError::Client(_)) | Self::System { .. } => "system",
            Self::World(WorldError::PortInUse { .. }) => "port-in-use",
            Self::World(WorldError::Bind { .. }) => "bad-port",
            Self::LinkKeys(_) => "bad-link-keys",
            Self::NotJson { .. } => "not-json",
            Self::Unreadable { .. } => "unreadable",
            Self::TooLarge { .. } => "too-large",
            Self::Output(_) => "output",
            Self::StoppedAtOnce | Self::Interrupted => "stopped",
            Self::Demo(_) => "demo",
            Self::CrashTest(_) => "crash-test",
            Self::NotHere(_) | Self::CrashesOwn => "not-here",
            Self::OnlyHere(_) => "only-here",
            Self::NoLinks(_) => "no-links",
            Self::NoLetters(_) => "no-letters",
            Self::NothingAudited(_) => "no-runs",
            Self::Stack { code, .. } => code,
        }
    }

    /// What can be done about it.
    pub(crate) fn remedy(&self) -> Remedy {
        match self {
            Self::Client(error) | Self::NoInput(error) | Self::Refused { error, .. } => error.remedy(),
            Self::Open(OpenError::Missing { .. } | OpenError::Folder { .. } | OpenError::Foreign { .. })
            | Self::Setup(SetupError::Base { .. })
            | Self::World(_)
            | Self::LinkKeys(_)
            | Self::NotJson { .. }
            | Self::Unreadable { .. }
            | Self::TooLarge { .. }
            | Self::CrashTest(_)
            | Self::CrashesOwn
            | Self::NotHere(_)
            | Self::OnlyHere(_)
            | Self::NoLinks(_)
            | Self::NoLetters(_)
            | Self::NothingAudited(_)
            | Self::Stack { .. } => Remedy::FixTheInput,
            Self::Open(OpenError::Unavailable { .. }) | Self::StoppedAtOnce | Self::Interrupted => Remedy::Retry,
            Self::Engine(_)
            | Self::Open(OpenError::Newer { .. } | OpenError::Damaged { .. })
            | Self::Setup(SetupError::Client(_))
            | Self::System { .. }
            | Self::Output(_)
            | Self::Demo(_) => Remedy::CallAPerson,
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            // Whoever reads the output has read enough.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Self::StoppedAtOnce | Self::Interrupted | Self::Demo(_) => Exit::EndedBadly,
            _ => self.remedy().into(),
        }
    }

    /// The message, with what is behind it where the message does not say so itself.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Client(ClientError::NoSuchRun(run)) => {
                format!("there is no run {run}; `{} list` shows those there are", program::name())
            }
            _ => match self.first_answer() {
                Some(AnswerView { at, why, .. }) => {
                    let why = why.as_deref().unwrap_or("no reason given");
                    format!("{}; that was at {at}: {why}", stepwell::error_chain(self))
                }
                None => stepwell::error_chain(self),
            },
        }
    }

    /// The answer that stands, where an approval was decided before.
    pub(crate) fn first_answer(&self) -> Option<AnswerView> {
        match self {
            Self::Client(error) => AnswerView::that_stands(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_is_behind_it_once() {
        let source = io::Error::other("no permission");
        let error = CliError::World(WorldError::Bind { service: "mail API", port: 80, source });
        assert!(error.text().ends_with(": no permission"), "{}", error.text());
        let source = io::Error::other("no such file");
        let error = CliError::Unreadable { what: "the file x".into(), source };
        assert_eq!(error.text(), "the file x cannot be read: no such file; check the path");
    }

    #[test]
    fn a_reader_that_has_left_is_no_error() {
        let broken = || CliError::Output(io::ErrorKind::BrokenPipe.into());
        assert_eq!(broken().exit(), Exit::Done);
        assert_eq!(CliError::Output(io::ErrorKind::StorageFull.into()).exit(), Exit::CallAPerson);
    }
}
