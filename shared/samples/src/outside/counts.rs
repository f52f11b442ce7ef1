//! What has reached the outside world, as read in process and over HTTP.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Everything counted since the world started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorldCounts {
    /// Per vendor, by name; every known vendor is listed.
    pub vendors: BTreeMap<String, VendorCounts>,
    /// The mail API.
    pub mail: MailCounts,
    /// The shop.
    pub shop: ShopCounts,
    /// The carrier.
    pub carrier: CarrierCounts,
}

/// What the carrier saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarrierCounts {
    /// Requests for a van, whatever became of them.
    pub requested: u64,
    /// Vans that were booked, whether the answer got through or not.
    pub booked: u64,
}

/// What the shop saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShopCounts {
    /// Requests to pay back, whatever became of them.
    pub requested: u64,
    /// Refunds paid, once per idempotency key.
    pub paid: u64,
    /// Requests that repeated a paid refund and paid nothing.
    pub duplicates: u64,
    /// Requests refused for good, because the shop was told to.
    pub refused: u64,
    /// Requests to hold an order.
    pub holds: u64,
    /// Requests to let one go.
    pub releases: u64,
    /// Holds that stand right now.
    pub held: u64,
}

/// What one vendor saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VendorCounts {
    /// Requests that came in, whatever became of them.
    pub requested: u64,
    /// Pages handed out.
    pub served: u64,
}

/// What the mail API saw. A request that was dropped by its client while the API was slow counts as `requested` only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MailCounts {
    /// Requests to send a mail that came in, whatever became of them.
    pub requested: u64,
    /// Mails accepted, once per idempotency key.
    pub delivered: u64,
    /// Requests that repeated an accepted mail and delivered nothing.
    pub duplicates: u64,
    /// Requests refused for good: no or a bad key, an unreadable mail, a key used for another mail.
    pub refused: u64,
    /// Requests failed before acceptance, because the API was told to or is stopping.
    pub failed: u64,
    /// Requests, among delivered and duplicates, that were left without an answer on purpose.
    pub unanswered: u64,
}
