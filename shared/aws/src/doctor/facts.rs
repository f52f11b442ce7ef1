//! What was seen of a stack: plain values. What they mean is for `judge`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::AwsSettings;

/// Something that was looked for.
pub(super) type Seen<T> = Result<T, Gap>;

/// Why something was not seen. The words are those of the SDK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// AWS says that there is no such thing.
    NotThere(String),
    /// These credentials may not look.
    NotPermitted(String),
    /// The call is not known here, or was refused for a reason that this code does not know.
    NotSupported(String),
    /// The credentials themselves are refused.
    BadCredentials(String),
    /// Nothing that could be read came back.
    NoAnswer(String),
}

/// What has to be there before anything can be asked.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    /// Variables that are not set.
    pub(super) missing: Vec<&'static str>,
    pub(super) region: Option<String>,
    /// Why none were found.
    pub(super) credentials: Result<(), String>,
}

/// All that was seen.
#[derive(Clone, Debug)]
pub(super) struct Stack {
    pub(super) settings: AwsSettings,
    /// This machine's clock less that of AWS.
    pub(super) clock: Seen<Skew>,
    pub(super) table: Seen<Table>,
    /// The attribute by which items expire.
    pub(super) expiry: Seen<Option<String>>,
    /// Whether the table can be brought back to any point in time.
    pub(super) backups: Seen<bool>,
    pub(super) queue: Seen<Queue>,
    pub(super) dead_letters: Seen<Queue>,
    pub(super) bucket: Seen<()>,
    /// Whether all four kinds of public access are blocked.
    pub(super) closed: Seen<bool>,
    /// How objects are encrypted.
    pub(super) encryption: Seen<String>,
    pub(super) mappings: Seen<Vec<Mapping>>,
    pub(super) functions: Vec<Function>,
    /// Whether a function may send to a queue that wakes it, for those that do.
    pub(super) loops: Vec<(Part, Seen<bool>)>,
    pub(super) attempts: Vec<Attempt>,
    /// How many runs were read, or why one could not be.
    pub(super) stored: Stored,
}

/// How far two clocks are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skew {
    Ahead(Duration),
    Behind(Duration),
}

/// Something that a worker does, tried.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    /// The name of its finding.
    pub(super) check: &'static str,
    /// The permission that it needs.
    pub(super) what: &'static str,
    pub(super) seen: Seen<()>,
    /// Whether a worker or a function cannot do without.
    pub(super) needed: bool,
}

/// How reading the newest runs went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Read(usize),
    Unreadable(String),
    NotRead(String),
}

/// A table. `status` and `types` are as AWS spells them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) status: String,
    pub(super) keys: Keys,
    /// The types of all attributes that are keys.
    pub(super) types: BTreeMap<String, String>,
    pub(super) indexes: BTreeMap<String, Index>,
    pub(super) on_demand: bool,
}

/// The names of a partition key and a sort key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) partition: String,
    pub(super) sort: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) status: String,
    pub(super) keys: Keys,
    pub(super) projection: Projection,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Projection {
    Keys,
    Include(Vec<String>),
    All,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    pub(super) arn: String,
    pub(super) visibility: Duration,
    pub(super) retention: Duration,
    pub(super) redrive: Option<Redrive>,
    /// Messages in it, whether they can be seen or not. A rough number.
    pub(super) messages: u64,
}

/// Where a queue puts messages that were received too often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redrive {
    pub(super) target: String,
    pub(super) receives_max: u64,
}

/// What carries messages from the queue to a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    /// Name of the function.
    pub(super) function: String,
    pub(super) state: String,
    pub(super) partial_failures: bool,
    pub(super) concurrency_max: Option<i32>,
}

/// A function of the stack.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) part: Part,
    pub(super) seen: Seen<Settings>,
}

/// What a function does in a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Runner,
    Api,
    Sweeper,
    DeadLetter,
}

impl Keys {
    pub(super) fn of(partition: &str, sort: &str) -> Self {
        Self { partition: partition.to_owned(), sort: sort.to_owned() }
    }
}

impl Part {
    pub(super) const ALL: [Self; 4] = [Self::Runner, Self::Api, Self::Sweeper, Self::DeadLetter];

    /// The end of its function's name: what comes before it is the stack's.
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::Runner => "-runner",
            Self::Api => "-api",
            Self::Sweeper => "-sweeper",
            Self::DeadLetter => "-dead-letter",
        }
    }
}

/// How a function is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) runtime: String,
    pub(super) architecture: String,
    pub(super) state: String,
    pub(super) last_update: String,
    pub(super) modified: String,
    pub(super) timeout: Duration,
    /// Those of its variables that name the stack's parts.
    pub(super) variables: BTreeMap<String, String>,
}
