//! A parcel: look the order up, book a van once, since the carrier books another one each time it is asked, and tell the customer.
//!
//! | step | effect | class, and why |
//! | --- | --- | --- |
//! | `LookUp` | `order` | read |
//! | `Book` | `pickup` | once: the carrier knows no keys; where nobody knows whether it has booked, a person says so |
//! | `Tell` | `mail` | idempotent for as long as the mail API knows a key |
//!
//! It is the sample to repair by hand: a weight that is typed wrong parks it, and so does an answer that gets lost; a closed road lets
//! it fail. [`crate::ready`] has inputs for each.

use serde_json::json;
use stepwell::prelude::*;

use crate::Outside;
use crate::brief::mail::{Email, MailError, MailId, Mailer};
use crate::client::{Base, Failure, Outcome, SetupError, Timeouts, text};
use crate::refund::Shop;

/// How long one call to the outside may take.
const CALL: Duration = seconds(2);

/// For how long the mail API knows a key.
const MAIL_KEYS_KEPT: Duration = hours(24);

/// What a van costs for each kilogram that has begun.
pub const CENTS_PER_KILOGRAM: u64 = 90;

/// What one run may spend. A weight with a zero too many is over it, and the run is parked before it books anything.
pub const BUDGET_CENTS: u64 = 2_000;

/// What to send: the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Of which order.
    pub order: String,
    /// Where to.
    pub town: String,
    /// How heavy it is.
    pub grams: u64,
}

/// What the run knows. A person who repairs it may edit all of it, so each step computes from it anew.
#[derive(Debug, Serialize, Deserialize)]
pub struct Parcel {
    order: String,
    town: String,
    grams: u64,
    customer: Option<String>,
    pickup: Option<Pickup>,
}

/// The carrier's word that a van comes. A person who settles the effect by hand gives the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pickup {
    /// The pickup's identity at the carrier.
    pub pickup: String,
}

/// Where the run stands.
#[derive(Debug, Serialize, Deserialize)]
pub enum At {
    /// Finds out whose it is.
    LookUp,
    /// Books a van.
    Book,
    /// Tells the customer.
    Tell,
}

/// The parcel is on its way: the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// The order.
    pub order: String,
    /// The pickup's identity at the carrier.
    pub pickup: String,
    /// The mail's identity at the mail API.
    pub mail: MailId,
}

/// The workflow `parcel`.
pub struct Parcels {
    shop: Shop,
    carrier: Base,
    mailer: Mailer,
}

impl Parcels {
    /// The workflow, with the outside at these addresses. The carrier is at the shop's.
    ///
    /// # Errors
    /// [`SetupError`] when an address is no HTTP URL.
    pub fn new(outside: &Outside) -> Result<Self, SetupError> {
        let timeouts = Timeouts { connect: seconds(1), answer: CALL };
        let (shop, carrier) = (Shop::new(&outside.shop_url, timeouts)?, Base::new(&outside.shop_url, timeouts)?);
        Ok(Self { shop, carrier, mailer: Mailer::new(&outside.mail_url, timeouts)? })
    }
}

impl Workflow for Parcels {
    const NAME: &'static str = "parcel";
    // People edit it: what they have changed is to be seen.
    const KEEPS_STATES: bool = true;
    type Input = Request;
    type State = Parcel;
    type Step = At;
    type Output = Sent;

    fn budget() -> Budget {
        Budget::none().of_run("cents", BUDGET_CENTS)
    }

    fn policy(&self, _at: &At) -> StepPolicy {
        // Few: a road that is closed is for a person to wait for, who lets the failed run go on once it is open.
        let retry =
            RetryPolicy::default().max_attempts(3).first_delay(Duration::from_millis(200)).max_delay(seconds(2));
        StepPolicy::default().retry(retry).timeout(seconds(10))
    }

    fn begin(&self, Request { order, town, grams }: Request) -> (At, Parcel) {
        (At::LookUp, Parcel { order, town, grams, customer: None, pickup: None })
    }

    async fn step(&self, at: At, parcel: &mut Parcel, cx: &Cx) -> StepResult<Self> {
        match at {
            At::LookUp => {
                let order = cx.effect("order").read().deadline(CALL);
                parcel.customer = Some(order.call(|_| self.shop.order(&parcel.order)).await?.customer);
                Ok(goto(At::Book))
            }
            At::Book => {
                let book = cx.effect("pickup").key(&parcel.order).once().deadline(CALL);
                let book = book.costs("cents", parcel.grams.div_ceil(1_000) * CENTS_PER_KILOGRAM);
                parcel.pickup = Some(book.call(|_| self.book(parcel)).await?);
                Ok(goto(At::Tell))
            }
            At::Tell => self.tell(parcel, cx).await,
        }
    }
}

impl Parcels {
    async fn book(&self, parcel: &Parcel) -> Result<Pickup, CallError> {
        let body = json!({"order": parcel.order, "town": parcel.town, "grams": parcel.grams});
        let request = self.carrier.client.post(self.carrier.url(&["v1", "pickups"]));
        let answer = text(request.json(&body)).await?;
        // Success that cannot be read: a van was booked most likely, but nobody can say which.
        let why = |error| Failure { outcome: Outcome::Unknown, why: format!("the answer cannot be read: {error}") };
        Ok(serde_json::from_str(&answer).map_err(why)?)
    }

    async fn tell(&self, Parcel { order, town, customer, pickup, .. }: &Parcel, cx: &Cx) -> StepResult<Self> {
        let (Some(customer), Some(Pickup { pickup })) = (customer, pickup) else {
            return Err(StepError::terminal("no van was booked"));
        };
        let subject = format!("Your order {order} is on its way");
        let mail = Email { to: customer.clone(), subject, body: format!("A van takes it to {town}.") };
        let email = cx.effect("mail").key(order).idempotent_for(MAIL_KEYS_KEPT).with(&mail).deadline(CALL);
        let receipt = email.call(|call| self.send(call.key(), &mail)).await?;
        Ok(complete(Sent { order: order.clone(), pickup: pickup.clone(), mail: receipt }))
    }

    async fn send(&self, key: &str, mail: &Email) -> Result<MailId, CallError> {
        let sent = self.mailer.send(key, mail).await;
        sent.map(|receipt| receipt.id).map_err(|error| match error {
            MailError::NotSent { .. } => CallError::retry(error),
            MailError::Refused { .. } => CallError::refused(error),
            MailError::Unknown { .. } => CallError::unknown(error),
        })
    }
}

#[cfg(test)]
mod tests;
