//! # stepwell: what a workflow author imports
//!
//! **What lives here:** the [`Workflow`] trait, the ways a step can end ([`goto`], [`wait`], [`complete`]), effects
//! ([`Cx::effect`]), signals, large values ([`Blob`], [`Log`]), [`Secret`]s, errors, and the
//! [`Registry`].
//!
//! **What must not live here:** queues, stores, leases, AWS. An author never meets them; the engine reaches a workflow
//! through [`host`].
//!
//! A workflow is a typed state, a typed cursor and a function from one step to the next. Between two steps the run is a
//! checkpoint; a step may run again after a crash, a finished one never does. There is no replay and there are no rules
//! about determinism.
//!
//! ```
//! use stepwell::prelude::*;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Count { left: u32, sum: u64 }
//!
//! #[derive(Serialize, Deserialize)]
//! enum At { Add, Report }
//!
//! struct Adder;
//!
//! impl Workflow for Adder {
//!     const NAME: &'static str = "adder";
//!     type Input = u32;
//!     type State = Count;
//!     type Step = At;
//!     type Output = u64;
//!
//!     fn begin(&self, left: u32) -> (At, Count) {
//!         (At::Add, Count { left, sum: 0 })
//!     }
//!
//!     async fn step(&self, at: At, count: &mut Count, _cx: &Cx) -> StepResult<Self> {
//!         Ok(match at {
//!             At::Add if count.left == 0 => goto(At::Report),
//!             At::Add => {
//!                 count.sum += u64::from(count.left);
//!                 count.left -= 1;
//!                 goto(At::Add)
//!             }
//!             At::Report => complete(count.sum),
//!         })
//!     }
//! }
//!
//! let registry = Registry::new().with(Adder);
//! assert!(registry.problems().is_empty());
//! ```

mod approval;
mod arena;
mod blob;
mod claim;
mod cx;
mod effect;
mod error;
mod fingerprint;
pub mod host;
mod known;
mod link;
mod log;
mod next;
mod registry;
mod secret;
mod signal;
mod spend;
mod terms;
mod watch;
mod workflow;

pub use approval::{Approval, ApprovalOf, ApprovalRequest, Decision, person, role};
pub use blob::Blob;
pub use cx::Cx;
pub use effect::{Asked, Call, Classified, Effect, Keyed, Reconcile, Unclassified, Unkeyed};
pub use error::{CallError, EffectError, StepError, error_chain};
pub use fingerprint::{FingerprintError, fingerprint};
pub use log::Log;
pub use next::{Next, StepResult, WaitBuilder, WaitSignals, complete, goto, undone, wait};
pub use registry::{EdgeError, Registry, RegistryProblem};
pub use secret::{Secret, SecretError, redact};
pub use signal::{Signal, Signals};
pub use stepwell_core::approval::Authority;
pub use stepwell_core::budget::{Budget, OverBudget, Reached};
pub use stepwell_core::link::{LinkKeys, LinkKeysError};
pub use stepwell_core::{RetryPolicy, RunId, Timestamp};
pub use workflow::{Incompatible, StepPolicy, Stored, Workflow};

/// Days, as a duration.
pub const fn days(days: u64) -> core::time::Duration {
    core::time::Duration::from_hours(days * 24)
}

/// Hours, as a duration.
pub const fn hours(hours: u64) -> core::time::Duration {
    core::time::Duration::from_hours(hours)
}

/// Minutes, as a duration.
pub const fn minutes(minutes: u64) -> core::time::Duration {
    core::time::Duration::from_mins(minutes)
}

/// Seconds, as a duration.
pub const fn seconds(seconds: u64) -> core::time::Duration {
    core::time::Duration::from_secs(seconds)
}

/// Everything a workflow usually needs.
pub mod prelude {
    pub use core::time::Duration;

    pub use serde::{Deserialize, Serialize};
    pub use stepwell_core::{RetryPolicy, Timestamp};

    pub use crate::{
        Approval, Asked, Blob, Budget, CallError, Cx, Decision, EffectError, Log, Registry, Secret, Signal, Signals,
        StepError, StepPolicy, StepResult, Workflow, complete, days, goto, hours, minutes, person, role, seconds,
        undone, wait,
    };
}

/// The README's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
