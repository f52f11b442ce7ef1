//! A refund: look the order up, have it approved above a limit, pay back once per order whoever asks, tell the customer, and let the
//! order go again if that cannot be done.
//!
//! | step | effect | class, and why |
//! | --- | --- | --- |
//! | `LookUp` | `order` | read |
//! | `Hold` | `hold` | idempotent: the shop sets a mark; taken back by `Release` |
//! | `Pay` | `refund` | idempotent by its key, which is the order's across all runs; the point of no return |
//! | `Notify` | `mail` | idempotent for as long as the mail API knows a key |
//! | `Release` | `release` | idempotent: the shop takes the mark away |

mod shop;

use stepwell::prelude::*;

pub(crate) use self::shop::Shop;
pub use self::shop::{Order, Paid};
use crate::Outside;
use crate::brief::mail::{Email, MailError, MailId, Mailer};
use crate::client::{SetupError, Timeouts};

/// How long one call to the outside may take.
const CALL: Duration = seconds(2);

/// For how long the mail API knows a key.
const MAIL_KEYS_KEPT: Duration = hours(24);

/// A refund of more than this is approved by a person first.
pub const LIMIT_CENTS: u64 = 10_000;

/// What one run may pay back at most, whatever anybody approves.
pub const BUDGET_CENTS: u64 = 100_000;

/// The action that is approved.
pub const ACTION: &str = "refund";

/// Who may approve it.
pub const APPROVERS: &str = "finance";

/// The person who may, too, with a link in a mail: no account is needed for it.
pub const BY_LINK: &str = "cfo@example.com";

/// Who may, too, once nobody has answered for four hours.
pub const ESCALATED_TO: &str = "head-of-finance";

/// What to refund, and why: the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The order.
    pub order: String,
    /// Why. Kept with the run; what is paid back does not depend on it, so another run for the order may give another reason.
    pub reason: String,
}

/// What is paid back: what a reviewer approves, and nothing else can be paid under that approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    /// The order.
    pub order: String,
    /// How much.
    pub cents: u64,
    /// To whom.
    pub customer: String,
}

/// What the run knows.
#[derive(Debug, Serialize, Deserialize)]
pub struct Case {
    request: Request,
    refund: Option<Refund>,
    paid: Option<Paid>,
}

/// Where the run stands.
#[derive(Debug, Serialize, Deserialize)]
pub enum At {
    /// Looks the order up, and asks for an approval if it has to.
    LookUp,
    /// Takes the decision.
    Decide,
    /// Stops the order from being shipped meanwhile.
    Hold,
    /// Pays back.
    Pay,
    /// Tells the customer.
    Notify,
    /// Takes back what `Hold` has done.
    Release {
        /// Of which order.
        order: String,
    },
}

/// The customer has the money: the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refunded {
    /// The order.
    pub order: String,
    /// How much.
    pub cents: u64,
    /// The refund's identity at the shop: the same for each run that asks for this order.
    pub refund: String,
    /// The mail's identity at the mail API.
    pub mail: MailId,
}

/// The workflow `refund`.
pub struct Refunds {
    shop: Shop,
    mailer: Mailer,
}

impl Refunds {
    /// The workflow, with the outside at these addresses.
    ///
    /// # Errors
    /// [`SetupError`] when an address is no HTTP URL.
    pub fn new(outside: &Outside) -> Result<Self, SetupError> {
        let timeouts = Timeouts { connect: seconds(1), answer: CALL };
        Ok(Self { shop: Shop::new(&outside.shop_url, timeouts)?, mailer: Mailer::new(&outside.mail_url, timeouts)? })
    }
}

impl Workflow for Refunds {
    const NAME: &'static str = "refund";
    // What it knew before money moved is worth a few bytes.
    const KEEPS_STATES: bool = true;
    type Input = Request;
    type State = Case;
    type Step = At;
    type Output = Refunded;

    fn budget() -> Budget {
        Budget::none().of_run("cents", BUDGET_CENTS)
    }

    fn policy(&self, _at: &At) -> StepPolicy {
        let retry =
            RetryPolicy::default().max_attempts(20).first_delay(Duration::from_millis(200)).max_delay(seconds(30));
        StepPolicy::default().retry(retry).timeout(seconds(10))
    }

    fn begin(&self, request: Request) -> (At, Case) {
        (At::LookUp, Case { request, refund: None, paid: None })
    }

    async fn step(&self, at: At, case: &mut Case, cx: &Cx) -> StepResult<Self> {
        match at {
            At::LookUp => self.look_up(case, cx).await,
            At::Decide => match cx.approval(ACTION)? {
                Decision::Approved { .. } => Ok(goto(At::Hold)),
                Decision::Rejected { by, reason } => {
                    Err(StepError::terminal(format!("{by} rejected the refund: {reason}")).with_code("rejected"))
                }
                Decision::Expired | Decision::Open => {
                    Err(StepError::terminal("nobody approved the refund in three days").with_code("expired"))
                }
            },
            At::Hold => {
                let order = &case.request.order;
                let hold = cx.effect("hold").key(order).idempotent().deadline(CALL);
                let hold = hold.undo(&At::Release { order: order.clone() });
                // A hold of this run's own: another run for the same order holds it, too, and lets go of its own alone.
                hold.call(|_| self.shop.hold(order, cx.run().as_str())).await?;
                Ok(goto(At::Pay))
            }
            At::Pay => self.pay(case, cx).await,
            At::Notify => self.notify(case, cx).await,
            At::Release { order } => {
                let release = cx.effect("release").key(&order).idempotent().deadline(CALL);
                release.call(|_| self.shop.release(&order, cx.run().as_str())).await?;
                Ok(undone())
            }
        }
    }
}

impl Refunds {
    async fn look_up(&self, case: &mut Case, cx: &Cx) -> StepResult<Self> {
        let order = &case.request.order;
        let found = cx.effect("order").read().deadline(CALL).call(|_| self.shop.order(order)).await?;
        let (cents, customer) = (found.cents, found.customer);
        let refund = Refund { order: order.clone(), cents, customer };
        let next = if cents > LIMIT_CENTS {
            let asked = Approval::of(ACTION, &refund).by(role(APPROVERS)).or(person(BY_LINK)).by_link();
            wait(At::Decide).for_approval(asked.escalate_after(hours(4), role(ESCALATED_TO)).within(days(3)))
        } else {
            goto(At::Hold)
        };
        case.refund = Some(refund);
        Ok(next)
    }

    async fn pay(&self, case: &mut Case, cx: &Cx) -> StepResult<Self> {
        let Some(refund) = &case.refund else { return Err(StepError::terminal("there is nothing to pay back")) };
        let pay = cx.effect("refund").key(&refund.order).across_runs().idempotent().deadline(CALL);
        let pay = pay.costs("cents", refund.cents).point_of_no_return();
        let pay = if refund.cents > LIMIT_CENTS { pay.approved_by(ACTION, refund) } else { pay };
        case.paid = Some(pay.call(|call| self.shop.pay_back(call.key(), refund)).await?);
        Ok(goto(At::Notify))
    }

    async fn notify(&self, case: &mut Case, cx: &Cx) -> StepResult<Self> {
        let (Some(refund), Some(paid)) = (&case.refund, &case.paid) else {
            return Err(StepError::terminal("nothing was paid back"));
        };
        let (order, cents) = (&refund.order, refund.cents);
        let body = format!("We have paid back {}.{:02} for order {order}.", cents / 100, cents % 100);
        let mail = Email { to: refund.customer.clone(), subject: format!("Your refund for order {order}"), body };
        let email = cx.effect("mail").key(order).idempotent_for(MAIL_KEYS_KEPT).with(&mail).deadline(CALL);
        let receipt = email.call(|call| self.send(call.key(), &mail)).await?;
        Ok(complete(Refunded { order: order.clone(), cents, refund: paid.refund.clone(), mail: receipt }))
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
