//! Names and counters. Each is a type of its own, so that a fence is never passed where a ticket is meant.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::NAME_CHARS_MAX;

/// A name or id from outside that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing was given.
    #[error("{what} is empty: give 1 to {NAME_CHARS_MAX} characters")]
    Empty {
        /// What was named.
        what: &'static str,
    },
    /// It is longer than [`NAME_CHARS_MAX`].
    #[error("{what} has {chars} characters: at most {NAME_CHARS_MAX} are allowed")]
    TooLong {
        /// What was named.
        what: &'static str,
        /// How long it is.
        chars: usize,
    },
    /// It starts with a mark.
    #[error("{what} {name:?} starts with {found:?}: a letter, a digit or '_' has to come first")]
    Start {
        /// What was named.
        what: &'static str,
        /// The name as given.
        name: String,
        /// Its first character.
        found: char,
    },
    /// It holds a character that is not allowed.
    #[error("{what} {name:?} holds {found:?}: letters, digits, '-', '_', '.' and ':' are allowed")]
    Character {
        /// What was named.
        what: &'static str,
        /// The name as given.
        name: String,
        /// The first character that is not allowed.
        found: char,
    },
}

fn check_name(what: &'static str, name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty { what });
    }
    let chars = name.chars().count();
    if chars > NAME_CHARS_MAX {
        return Err(NameError::TooLong { what, chars });
    }
    // A name may become a folder or a key: one that starts with a dot would be a hidden file, or the folder above.
    if let Some(found @ ('.' | '-' | ':')) = name.chars().next() {
        return Err(NameError::Start { what, name: name.to_string(), found });
    }
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    match name.chars().find(|c| !allowed(c)) {
        Some(found) => Err(NameError::Character { what, name: name.to_string(), found }),
        None => Ok(()),
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            #[doc = concat!("Checks and takes a ", $what, ": 1 to 64 letters, digits, `-`, `_`, `.` or `:`.")]
            pub fn new(name: impl AsRef<str>) -> Result<Self, NameError> {
                check_name($what, name.as_ref())?;
                Ok(Self(Arc::from(name.as_ref())))
            }

            /// As text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl core::str::FromStr for $name {
            type Err = NameError;
            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(from)?).map_err(D::Error::custom)
            }
        }
    )*};
}

names! {
    /// Names one run. Chosen by the starter, or derived from the caller's idempotency key.
    RunId = "run id";
    /// Names a workflow in a registry.
    WorkflowName = "workflow name";
    /// Names a kind of signal that a workflow accepts.
    SignalName = "signal name";
    /// Names one signal: a second delivery of the same id is the same signal.
    SignalId = "signal id";
    /// Names one worker process. For people and logs; safety rests on the [`Fence`].
    WorkerId = "worker id";
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The one after this.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}

counters! {
    /// Which queue message counts: only one with the checkpoint's ticket may acquire the run.
    Ticket;
    /// Raised at each acquire; every write of a holder is conditional on it.
    Fence;
    /// Raised by each commit; orders them totally.
    Revision;
    /// Raised by each signal that was accepted.
    MailboxSeq;
    /// Identifies one write request, so that a retry which meets its own first try counts as success.
    WriteId;
}

/// Which append-only log of a run. Numbered in the order in which the run first stored them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LogId(pub u32);

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl RunId {
    /// The id of the run that is started under this idempotency key. The same key gives the same id, so a second start
    /// finds the first one without an index.
    ///
    /// ```
    /// use stepwell_core::{RunId, WorkflowName};
    /// let workflow = WorkflowName::new("brief")?;
    /// assert_eq!(RunId::for_key(&workflow, "q3"), RunId::for_key(&workflow, "q3"));
    /// assert_ne!(RunId::for_key(&workflow, "q3"), RunId::for_key(&workflow, "q4"));
    /// # Ok::<(), stepwell_core::NameError>(())
    /// ```
    pub fn for_key(workflow: &WorkflowName, key: &str) -> Self {
        let digest = crate::Digest::of_parts([&b"start"[..], workflow.as_str().as_bytes(), key.as_bytes()]);
        Self(Arc::from(alloc::format!("k-{}", digest.short(32))))
    }
}
