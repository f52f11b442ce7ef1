//! # stepwell-samples: example workflows, and the small outside world they talk to
//!
//! **What lives here:** the demo "competitive brief" ([`brief`]), a first workflow that needs no outside ([`hello`]), one
//! of any number of steps ([`countdown`]), the [`registry`] of all, and the vendors and the mail API that the brief calls ([`outside`]). They meet over real HTTP on
//! loopback only: [`brief`] knows the wire and no type of [`outside`].
//!
//! **What must not live here:** anything that a workflow author needs (that belongs to the SDK), and anything that runs
//! workflows: queues, stores, leases.

pub mod brief;
pub mod countdown;
pub mod hello;
pub mod outside;

use stepwell::Registry;

use crate::brief::{Outside, SetupError, competitive_brief};
use crate::countdown::Countdown;
use crate::hello::Greeter;

/// Every workflow of this crate. Nothing outside is called yet, so nothing has to be up.
///
/// ```
/// use stepwell_samples::brief::Outside;
///
/// let outside = Outside { vendors_url: "http://127.0.0.1:4711".into(), mail_url: "http://127.0.0.1:4712".into() };
/// let registry = stepwell_samples::registry(&outside)?;
/// let names: Vec<String> = registry.names().map(ToString::to_string).collect();
/// assert_eq!(names, ["competitive-brief", "countdown", "hello"]);
/// # Ok::<(), stepwell_samples::brief::SetupError>(())
/// ```
///
/// # Errors
/// [`SetupError`] when an address is no HTTP URL.
pub fn registry(outside: &Outside) -> Result<Registry, SetupError> {
    Ok(Registry::new().with(competitive_brief(outside)?).with(Countdown).with(Greeter))
}

#[cfg(test)]
mod drive;
