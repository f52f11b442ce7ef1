//! # stepwell-core: the run protocol as pure functions
//!
//! **What lives here:** the vocabulary (run, step, checkpoint, ticket, lease, fence, effect, signal, timer), the
//! decisions ([`decide`]), the one place where a write's condition is defined ([`write`](mod@write)), the limits,
//! the invariants and the stored form of a checkpoint.
//!
//! **What must not live here:** I/O, clocks, threads, async, random numbers, AWS. The crate is `no_std`, so most of
//! that does not even compile. Time, randomness and ids come in with the call.
//!
//! ## The shape of it
//!
//! ```text
//!   message ──► Write::Acquire ──► checkpoint ──► decide::turn ──► run a step ──► decide::commit ──► Write::Commit
//!                    │ refused                                                          │ refused
//!                    └──► decide::refused: delete, send again, bury                     └──► decide again, or stop (fenced)
//! ```
//!
//! A [`write::WriteRequest`] is one conditional write on one item. [`write::apply`] says what it means; every backend
//! must behave exactly so, and one conformance suite holds each of them to it.
#![no_std]

extern crate alloc;

pub mod approval;
pub mod audit;
pub mod budget;
pub mod checkpoint;
pub mod decide;
pub mod effect;
pub mod history;
pub mod ids;
pub mod invariants;
pub mod json;
pub mod limits;
pub mod link;
pub mod mailbox;
pub mod message;
pub mod policy;
pub mod reference;
pub mod status;
pub mod stored;
pub mod time;
pub mod undo;
pub mod write;

pub use approval::{Answer, Approval, ApprovalId, AskApproval, Authority, Reviewer, Standing};
pub use budget::{Amounts, Budget, OverBudget};
pub use checkpoint::{CancelRequest, Checkpoint, Hold, Lease, Place, Progress, Trouble, Usage, Visit};
pub use effect::{Class, EffectKey, EffectRecord, Outcome, Scope};
pub use ids::{
    Fence, LogId, MailboxSeq, NameError, Revision, RunId, SignalId, SignalName, Ticket, WorkerId, WorkflowName, WriteId,
};
pub use json::{BlobRef, Digest, Json, Payload};
pub use mailbox::{Letter, Mailbox};
pub use message::Message;
pub use policy::RetryPolicy;
pub use reference::Reference;
pub use status::{Certificate, Failure, FailureKind, ParkReason, Phase, Status, Wait};
pub use time::Timestamp;
pub use undo::{Cause, CertifiedEffect, Undo, Undoing};
