//! The queue message: a hint to look at a run. It carries no work; the checkpoint is the truth.

use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};

use crate::ids::{RunId, Ticket};

/// The version of the message's form.
pub const MESSAGE_VERSION: u8 = 1;

/// `{"v":1,"run":"…","ticket":n}`.
///
/// ```
/// use stepwell_core::{Message, RunId, Ticket};
/// let message = Message { run: RunId::new("r1")?, ticket: Ticket(3) };
/// assert_eq!(message.to_text(), r#"{"v":1,"run":"r1","ticket":3}"#);
/// assert_eq!(Message::parse(&message.to_text())?, message);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// Which run to look at.
    pub run: RunId,
    /// Which ticket it carries; only the current one may acquire.
    pub ticket: Ticket,
}

/// A body that is no message of ours. It goes to the dead-letter queue with this reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not the JSON that was expected.
    #[error("the message body is not {{\"v\":1,\"run\":…,\"ticket\":…}}: {0}")]
    Form(String),
    /// A version that this code does not know.
    #[error(
        "the message has version {0}; this code reads version {MESSAGE_VERSION}: deploy the newer code, then redrive"
    )]
    Version(u8),
}

#[derive(Serialize, Deserialize)]
struct Body {
    v: u8,
    run: RunId,
    ticket: Ticket,
}

impl Message {
    /// The body as it is sent.
    pub fn to_text(&self) -> String {
        let Self { run, ticket } = self;
        alloc::format!(r#"{{"v":{MESSAGE_VERSION},"run":"{run}","ticket":{ticket}}}"#)
    }

    /// Reads a body.
    pub fn parse(body: &str) -> Result<Self, MessageError> {
        #[derive(Deserialize)]
        struct Version {
            v: u8,
        }
        let form = |error: serde_json::Error| MessageError::Form(error.to_string());
        let Version { v } = serde_json::from_str(body).map_err(form)?;
        if v != MESSAGE_VERSION {
            return Err(MessageError::Version(v));
        }
        let Body { run, ticket, .. } = serde_json::from_str(body).map_err(form)?;
        Ok(Self { run, ticket })
    }
}
