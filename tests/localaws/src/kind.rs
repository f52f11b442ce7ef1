//! Who plays AWS.

use std::{env, fmt};

/// The variable that chooses: `ministack` where it is not set.
pub(crate) const VARIABLE: &str = "LOCAL_AWS";

/// Who plays AWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `MiniStack`, and dynoxide as DynamoDB.
    MiniStack,
    /// `LocalStack` with this project's plugin (`infra/local`), and dynoxide as DynamoDB.
    LocalStack,
    /// `LocalStack`'s own image as it comes, with its own DynamoDB. Needs a Docker engine.
    LocalStackDocker,
    /// Whoever listens where `AWS_ENDPOINT_URL` says, with the credentials of this process. Nothing is started.
    Endpoint,
}

impl Kind {
    const ALL: [Self; 4] = [Self::MiniStack, Self::LocalStack, Self::LocalStackDocker, Self::Endpoint];

    /// The choice of `LOCAL_AWS`.
    ///
    /// # Panics
    /// Where it names none of them.
    pub fn from_env() -> Self {
        let word = env::var(VARIABLE).unwrap_or_default();
        let known = Self::ALL.into_iter().find(|kind| kind.word() == word);
        match known {
            Some(kind) => kind,
            None if word.is_empty() => Self::MiniStack,
            None => panic!("{VARIABLE} is {}, not {word}", Self::ALL.map(Self::word).join(" or ")),
        }
    }

    /// All that a suite is to run on: both emulators, unless `LOCAL_AWS` chooses one that `make aws-tools` has not.
    ///
    /// # Panics
    /// As [`Kind::from_env`] does.
    pub fn under_test() -> Vec<Self> {
        match Self::from_env() {
            Self::MiniStack | Self::LocalStack => vec![Self::MiniStack, Self::LocalStack],
            other @ (Self::LocalStackDocker | Self::Endpoint) => vec![other],
        }
    }

    /// The word for it in `LOCAL_AWS`.
    pub fn word(self) -> &'static str {
        match self {
            Self::MiniStack => "ministack",
            Self::LocalStack => "localstack",
            Self::LocalStackDocker => "localstack-docker",
            Self::Endpoint => "endpoint",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
