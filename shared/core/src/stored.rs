//! The stored form of a checkpoint: one JSON object with short names.
//!
//! Attributes that this code does not know are kept as they are, so that older code does not wipe what newer code wrote
//! (a rolling deploy). A newer *format* is refused by name. The names:
//!
//! | short | is | short | is |
//! | --- | --- | --- | --- |
//! | `f` | format | `h` | hold: who may write |
//! | `r` | run | `p` | progress |
//! | `w` | workflow | `m` | mailbox |
//! | `t` | started at | `x` | cancellation asked for |
//! | `i` | digest of the input | `d` | due at (watchdog mark) |

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::checkpoint::{CancelRequest, Checkpoint, Hold, Progress};
use crate::ids::{RunId, WorkflowName};
use crate::json::Digest;
use crate::mailbox::Mailbox;
use crate::time::Timestamp;

/// The format that this code writes. It reads this one and older ones.
pub const FORMAT: u16 = 1;

/// Attributes of a stored checkpoint that this code does not know.
pub type Unknown = BTreeMap<String, serde_json::Value>;

/// Why stored bytes are no checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoredError {
    /// A newer format than this code knows.
    #[error("the checkpoint has format {found}, this code reads up to {FORMAT}: deploy the newer code")]
    Newer {
        /// Its format.
        found: u16,
    },
    /// Not a checkpoint, or a damaged one.
    #[error("the checkpoint cannot be read: {0}")]
    Damaged(String),
}

#[derive(Serialize)]
struct Writing<'a> {
    f: u16,
    r: &'a RunId,
    w: &'a WorkflowName,
    t: Timestamp,
    i: Digest,
    h: &'a Hold,
    p: &'a Progress,
    m: &'a Mailbox,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<&'a CancelRequest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    d: Option<Timestamp>,
    #[serde(flatten)]
    unknown: &'a Unknown,
}

#[derive(Deserialize)]
struct Reading {
    r: RunId,
    w: WorkflowName,
    t: Timestamp,
    i: Digest,
    h: Hold,
    p: Progress,
    m: Mailbox,
    #[serde(default)]
    x: Option<CancelRequest>,
    #[serde(default)]
    d: Option<Timestamp>,
    #[serde(flatten)]
    unknown: Unknown,
}

/// Writes a checkpoint, with the attributes that [`decode`] did not know.
pub fn encode(checkpoint: &Checkpoint, unknown: &Unknown) -> Result<Vec<u8>, StoredError> {
    let writing = Writing {
        f: FORMAT,
        r: &checkpoint.run,
        w: &checkpoint.workflow,
        t: checkpoint.started_at,
        i: checkpoint.input_digest,
        h: &checkpoint.hold,
        p: &checkpoint.progress,
        m: &checkpoint.mailbox,
        x: checkpoint.cancel.as_ref(),
        d: checkpoint.due_at,
        unknown,
    };
    serde_json::to_vec(&writing).map_err(|error| StoredError::Damaged(error.to_string()))
}

/// Reads a checkpoint and the attributes that this code does not know.
pub fn decode(bytes: &[u8]) -> Result<(Checkpoint, Unknown), StoredError> {
    #[derive(Deserialize)]
    struct Format {
        f: u16,
    }
    let damaged = |error: serde_json::Error| StoredError::Damaged(error.to_string());
    let Format { f: found } = serde_json::from_slice(bytes).map_err(damaged)?;
    if found > FORMAT {
        return Err(StoredError::Newer { found });
    }
    let Reading {
        r: run,
        w: workflow,
        t: started_at,
        i: input_digest,
        h: hold,
        p: progress,
        m: mailbox,
        x,
        d,
        mut unknown,
    } = serde_json::from_slice(bytes).map_err(damaged)?;
    unknown.remove("f");
    let checkpoint =
        Checkpoint { run, workflow, started_at, input_digest, hold, progress, mailbox, cancel: x, due_at: d };
    Ok((checkpoint, unknown))
}
