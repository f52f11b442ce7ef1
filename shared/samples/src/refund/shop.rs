//! Speaks to the shop: orders, marks on them, refunds.

use serde::{Deserialize, Serialize};
use stepwell::CallError;

use super::Refund;
use crate::client::{Base, Failure, Outcome, SetupError, Timeouts, text};

/// An order as the shop knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// What was paid for it.
    pub cents: u64,
    /// The customer's address.
    pub customer: String,
}

/// The shop's word that the money is on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paid {
    /// The refund's identity: the same one for each repetition under its key.
    pub refund: String,
}

/// The shop.
#[derive(Clone, Debug)]
pub(crate) struct Shop {
    base: Base,
}

impl Shop {
    pub(crate) fn new(base: &str, timeouts: Timeouts) -> Result<Self, SetupError> {
        Base::new(base, timeouts).map(|base| Self { base })
    }

    pub(crate) async fn order(&self, order: &str) -> Result<Order, CallError> {
        read(&text(self.base.client.get(self.base.url(&["v1", "orders", order]))).await?)
    }

    /// Setting a mark that is set changes nothing.
    pub(super) async fn hold(&self, order: &str, holder: &str) -> Result<(), CallError> {
        text(self.base.client.put(self.base.url(&["v1", "orders", order, "holds", holder]))).await?;
        Ok(())
    }

    /// Taking away a mark that is not there changes nothing.
    pub(super) async fn release(&self, order: &str, holder: &str) -> Result<(), CallError> {
        text(self.base.client.delete(self.base.url(&["v1", "orders", order, "holds", holder]))).await?;
        Ok(())
    }

    /// The shop pays once under a key, however often this is called.
    pub(super) async fn pay_back(&self, key: &str, refund: &Refund) -> Result<Paid, CallError> {
        let request = self.base.client.post(self.base.url(&["v1", "refunds"])).header("Idempotency-Key", key);
        let body = serde_json::json!({"order": refund.order, "cents": refund.cents});
        read(&text(request.json(&body)).await?)
    }
}

/// Success without an answer that can be read: it has most likely happened, but nobody can say so.
fn read<T: serde::de::DeserializeOwned>(answer: &str) -> Result<T, CallError> {
    let unreadable = |error| Failure { outcome: Outcome::Unknown, why: format!("the answer cannot be read: {error}") };
    Ok(serde_json::from_str(answer).map_err(unreadable)?)
}
