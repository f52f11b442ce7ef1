//! # stepwell-samples: example workflows, and the small outside world they talk to
//!
//! **What lives here:** the demo "competitive brief" ([`brief`]), a refund with approval, budget and compensation ([`refund`]), a parcel
//! that people have to repair ([`parcel`]), a first workflow that needs no outside ([`hello`]), one of any number of steps
//! ([`countdown`]), the [`registry`] of all, inputs that lead to each state of a run ([`ready`]), and the vendors, the mail API and the
//! shop with its carrier that they call ([`outside`]). They meet over real HTTP on loopback only: workflows know the wire and no type of
//! [`outside`].
//!
//! **What must not live here:** anything that a workflow author needs (that belongs to the SDK), and anything that runs
//! workflows: queues, stores, leases.

pub mod brief;
pub mod client;
pub mod countdown;
pub mod hello;
pub mod outside;
pub mod parcel;
pub mod ready;
pub mod refund;

use stepwell::Registry;

use crate::brief::competitive_brief;
use crate::client::SetupError;
use crate::countdown::Countdown;
use crate::hello::Greeter;
use crate::parcel::Parcels;
use crate::refund::Refunds;

/// Where the outside is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    /// Base URL of the vendors' pages, such as `http://127.0.0.1:4711`.
    pub vendors_url: String,
    /// Base URL of the mail API, such as `http://127.0.0.1:4712`.
    pub mail_url: String,
    /// Base URL of the shop and its carrier, such as `http://127.0.0.1:4713`.
    pub shop_url: String,
}

impl Outside {
    /// From an environment: `STEPWELL_VENDORS_URL`, `STEPWELL_MAIL_URL`, `STEPWELL_SHOP_URL`. What is not given or empty is as by default.
    ///
    /// ```
    /// use stepwell_samples::Outside;
    /// let outside = Outside::from_lookup(|name| (name == "STEPWELL_MAIL_URL").then(|| "http://mail.test".into()));
    /// assert_eq!(outside, Outside { mail_url: "http://mail.test".into(), ..Outside::default() });
    /// ```
    #[must_use]
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let usual = Self::default();
        let address = |name: &str, usual: String| lookup(name).filter(|url| !url.is_empty()).unwrap_or(usual);
        Self {
            vendors_url: address("STEPWELL_VENDORS_URL", usual.vendors_url),
            mail_url: address("STEPWELL_MAIL_URL", usual.mail_url),
            shop_url: address("STEPWELL_SHOP_URL", usual.shop_url),
        }
    }
}

impl Default for Outside {
    /// Where `stepwell outside` listens unless told otherwise.
    fn default() -> Self {
        Self {
            vendors_url: "http://127.0.0.1:4711".into(),
            mail_url: "http://127.0.0.1:4712".into(),
            shop_url: "http://127.0.0.1:4713".into(),
        }
    }
}

/// Every workflow of this crate. Nothing outside is called yet, so nothing has to be up.
///
/// ```
/// let registry = stepwell_samples::registry(&stepwell_samples::Outside::default())?;
/// let names: Vec<String> = registry.names().map(ToString::to_string).collect();
/// assert_eq!(names, ["competitive-brief", "countdown", "hello", "parcel", "refund"]);
/// # Ok::<(), stepwell_samples::client::SetupError>(())
/// ```
///
/// # Errors
/// [`SetupError`] when an address is no HTTP URL.
pub fn registry(outside: &Outside) -> Result<Registry, SetupError> {
    let registry = Registry::new().with(competitive_brief(outside)?).with(Countdown).with(Greeter);
    Ok(registry.with(Parcels::new(outside)?).with(Refunds::new(outside)?))
}

#[cfg(test)]
mod drive;
