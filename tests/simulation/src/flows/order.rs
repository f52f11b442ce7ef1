//! One run that uses everything: an effect of each class, a large value, a wait for a signal, a loop that comes back to a keyed
//! effect, a log, and what takes effects back.

use std::fmt;
use std::marker::PhantomData;

use serde::de::Error as _;
use serde::{Deserializer, Serializer};
use stepwell::prelude::*;

use crate::dice::secs;
use crate::outside::Caller;
use crate::tape::Promise;

use super::{QUICK, often, request};

pub(crate) const ANSWER: Signal<String> = Signal::new("answer");

/// Which code runs.
pub(crate) trait Code: Send + Sync + 'static {
    const VERSION: u32;
    /// Whether it knows this step.
    fn knows(at: At) -> bool;
}

/// Version 1.
pub(crate) struct First;
/// Version 1 of long ago.
pub(crate) struct Older;
/// Version 2.
pub(crate) struct Second;

impl Code for First {
    const VERSION: u32 = 1;
    fn knows(_: At) -> bool {
        true
    }
}

impl Code for Older {
    const VERSION: u32 = 1;
    fn knows(at: At) -> bool {
        at != At::Post
    }
}

impl Code for Second {
    const VERSION: u32 = 2;
    fn knows(_: At) -> bool {
        true
    }
}

/// The workflow, in one version of its code.
pub(crate) struct Order<V> {
    caller: Caller,
    code: PhantomData<fn() -> V>,
}

impl<V> Order<V> {
    pub(crate) fn new(caller: Caller) -> Self {
        Self { caller, code: PhantomData }
    }
}

/// The steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum At {
    Look,
    Seat,
    Pay,
    Post,
    Lap,
    Close,
    Unseat,
    Refund,
}

/// A step, if the code knows it.
pub(crate) struct Cursor<V>(At, PhantomData<fn() -> V>);

impl<V> From<At> for Cursor<V> {
    fn from(at: At) -> Self {
        Self(at, PhantomData)
    }
}

impl<V> Serialize for Cursor<V> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de, V: Code> Deserialize<'de> for Cursor<V> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let at = At::deserialize(from)?;
        if V::knows(at) { Ok(at.into()) } else { Err(D::Error::custom(format!("unknown variant `{at:?}`"))) }
    }
}

/// What is ordered.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Asks {
    pub(crate) laps: u32,
    pub(crate) patience_s: u64,
    pub(crate) nap_s: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Known {
    asks: Asks,
    /// How often each step's change of the state counted.
    steps: Vec<String>,
    log: Log<String>,
    page: Option<Blob<String>>,
    receipts: Vec<String>,
    answer: Option<String>,
}

/// What it ends with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OrderOutput {
    pub(crate) steps: Vec<String>,
    pub(crate) log: Vec<String>,
    pub(crate) page_length: usize,
    /// Of the seat (as often as it was asked for), the payment, the letter.
    pub(crate) receipts: Vec<String>,
    pub(crate) answer: Option<String>,
}

pub(crate) const PAGE_LENGTH: usize = 900;

impl<V: Code> Order<V> {
    async fn seat(&self, cx: &Cx) -> Result<String, EffectError> {
        let effect = cx.effect("seat").key("window").deadline(QUICK).idempotent().with("12A");
        let effect = effect.undo(&Cursor::<V>::from(At::Unseat));
        effect.call(async |call| self.caller.call(request(cx, "seat", call, Promise::Idempotent, "12A")).await).await
    }

    async fn asked(&self, key: &str) -> Result<Asked<String>, CallError> {
        Ok(self.caller.ask(key).await?.map_or(Asked::Absent, Asked::Happened))
    }

    /// It takes longer than a lease.
    async fn pay(&self, cx: &Cx) -> Result<String, EffectError> {
        let effect = cx.effect("payment").key("order").deadline(secs(40)).with(&90);
        let effect = effect.undo(&Cursor::<V>::from(At::Refund));
        let effect = effect.reconcile(async |call| self.asked(call.key()).await);
        effect
            .call(async |call| self.caller.call(request(cx, "payment", call, Promise::Reconcilable, "90")).await)
            .await
    }

    async fn post(&self, cx: &Cx) -> Result<String, EffectError> {
        let effect = cx.effect("letter").key("order").deadline(QUICK).with("dear customer").once();
        effect
            .call(async |call| self.caller.call(request(cx, "letter", call, Promise::Once, "dear customer")).await)
            .await
    }

    async fn undo(&self, cx: &Cx, name: &'static str) -> Result<String, EffectError> {
        let effect = cx.effect(name).key("order").deadline(QUICK).idempotent();
        effect.call(async |call| self.caller.call(request(cx, name, call, Promise::Idempotent, "")).await).await
    }

    async fn look(&self, known: &mut Known, cx: &Cx) -> Result<(), StepError> {
        let effect = cx.effect("price").deadline(QUICK).read();
        let price: String = effect
            .call(async |call| {
                let of_visit = super::Request { keyed: false, ..request(cx, "price", call, Promise::Read, "") };
                self.caller.call(of_visit).await
            })
            .await?;
        known.page = Some(cx.blob(&format!("{price:.>PAGE_LENGTH$}")).await?);
        Ok(())
    }
}

impl<V: Code> Workflow for Order<V> {
    const NAME: &'static str = "order";
    const VERSION: u32 = V::VERSION;
    type Input = Asks;
    type State = Known;
    type Step = Cursor<V>;
    type Output = OrderOutput;

    fn begin(&self, asks: Asks) -> (Cursor<V>, Known) {
        let (steps, receipts) = (Vec::new(), Vec::new());
        (At::Look.into(), Known { asks, steps, log: Log::new(), page: None, receipts, answer: None })
    }

    fn policy(&self, _: &Cursor<V>) -> StepPolicy {
        often()
    }

    fn signals() -> Signals {
        Signals::none().and(ANSWER)
    }

    fn migrate(_: u32, stored: stepwell::Stored) -> Result<stepwell::Stored, stepwell::Incompatible> {
        Ok(stored)
    }

    async fn step(&self, at: Cursor<V>, known: &mut Known, cx: &Cx) -> StepResult<Self> {
        let next = match at.0 {
            At::Look => {
                self.look(known, cx).await?;
                goto(At::Seat.into())
            }
            At::Seat => {
                known.receipts.push(self.seat(cx).await?);
                goto(At::Pay.into())
            }
            At::Pay => {
                known.receipts.push(self.pay(cx).await?);
                wait(At::Post.into()).for_signal(ANSWER).within(secs(known.asks.patience_s))
            }
            At::Post => {
                known.answer = cx.take(ANSWER).await?;
                known.receipts.push(self.post(cx).await?);
                goto(At::Lap.into())
            }
            At::Lap => {
                known.receipts.push(self.seat(cx).await?);
                known.asks.laps -= 1;
                if known.asks.laps == 0 {
                    wait(At::Close.into()).lasting(secs(known.asks.nap_s))
                } else {
                    goto(At::Lap.into())
                }
            }
            At::Close => {
                let page_length = match &known.page {
                    Some(page) => cx.load(page).await?.len(),
                    None => 0,
                };
                let log = cx.read(&known.log).await?;
                let (steps, receipts, answer) = (known.steps.clone(), known.receipts.clone(), known.answer.clone());
                return Ok(complete(OrderOutput { steps, log, page_length, receipts, answer }));
            }
            At::Unseat => {
                self.undo(cx, "unseat").await?;
                undone()
            }
            At::Refund => {
                self.undo(cx, "refund").await?;
                undone()
            }
        };
        known.steps.push(format!("{:?}", at.0));
        known.log.push(format!("{:?} is over", at.0));
        Ok(next)
    }
}

impl<V> fmt::Debug for Cursor<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
