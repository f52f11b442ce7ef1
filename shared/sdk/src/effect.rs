//! Effects: calls to the outside world, made under a key, recorded, with an honest outcome.

use core::fmt;
use core::future::{Future, Ready, ready};
use core::marker::PhantomData;
use core::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use stepwell_core::time::millis;
use stepwell_core::{Class, Outcome};

use crate::host::HostError;
use crate::known::{IN_FLIGHT, Known, Made, within};
use crate::terms::Terms;
use crate::watch::Goes;
use crate::{CallError, Cx, EffectError};

/// After a call has given up waiting, its request may be on its way for this long, unless [`Effect::settle_delay`] says
/// otherwise.
const SETTLE_DELAY_DEFAULT: Duration = Duration::from_secs(10);

/// An effect in the making. Its class is part of its type, and so is whether it has a key: there is no call before the class
/// was said, and no class that acts for good without a key.
#[must_use = "an effect is only made by `call`"]
pub struct Effect<'c, C, K = Unkeyed> {
    cx: &'c Cx,
    pub(crate) terms: Box<Terms>,
    class: C,
    keyed: PhantomData<K>,
}

/// The effect has no key: it belongs to this visit of the step.
#[derive(Clone, Copy, Debug)]
pub struct Unkeyed;

/// The effect has a key: it belongs to the run.
#[derive(Clone, Copy, Debug)]
pub struct Keyed;

/// The class was not said yet.
#[derive(Clone, Copy, Debug)]
pub struct Unclassified;

/// An effect whose class was said.
#[diagnostic::on_unimplemented(
    message = "this effect has no class yet",
    label = "say first what happens if the outside is asked twice",
    note = "`.read()`: asking again changes nothing; `.idempotent()`: the outside dedupes by the key; `.idempotent_for(window)`: it does so for this long; with a `.key(..)` also `.reconcile(ask)`: it can be asked whether the key has happened; `.once()`: none of these"
)]
pub trait Classified<'c, T>: Send {
    /// The class.
    fn class(&self) -> Class;

    /// How long after its deadline a request may still be on its way.
    fn settle_delay(&self) -> Duration {
        Duration::ZERO
    }

    /// What asking is, in the making. Named, since a caller's future has to be known to be `Send`.
    type Asking: Future<Output = Result<Asked<T>, Self::Error>> + Send;

    /// Why asking failed. It counts as [`Asked::CannotTell`].
    type Error: Into<CallError>;

    /// Asks the outside whether the key has happened, where that is possible.
    fn ask(self, call: Call<'c>) -> Self::Asking;
}

impl<'c, T: Send> Classified<'c, T> for Class {
    fn class(&self) -> Class {
        *self
    }

    type Asking = Ready<Result<Asked<T>, CallError>>;
    type Error = CallError;

    fn ask(self, _: Call<'c>) -> Self::Asking {
        ready(Ok(Asked::CannotTell("there is nobody to ask".into())))
    }
}

/// What the outside says of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked<T> {
    /// It has happened; this is what it answered.
    Happened(T),
    /// It has not happened. Say so only if the outside would know.
    Absent,
    /// The outside does not say. It is asked again, and in the end a person is.
    CannotTell(String),
}

/// The class of effects that can be asked about, see [`Effect::reconcile`].
#[derive(Clone, Copy, Debug)]
pub struct Reconcile<A> {
    ask: A,
    settle_delay: Duration,
}

impl<'c, T, E, A, Fut> Classified<'c, T> for Reconcile<A>
where
    A: FnOnce(Call<'c>) -> Fut + Send,
    E: Into<CallError>,
    Fut: Future<Output = Result<Asked<T>, E>> + Send,
{
    fn class(&self) -> Class {
        Class::Reconcilable
    }

    fn settle_delay(&self) -> Duration {
        self.settle_delay
    }

    type Asking = Fut;
    type Error = E;

    fn ask(self, call: Call<'c>) -> Fut {
        (self.ask)(call)
    }
}

/// What a call is told.
#[derive(Clone, Copy)]
pub struct Call<'c> {
    cx: &'c Cx,
    key: &'c str,
    attempt: u32,
    deadline: Duration,
}

impl<'c> Call<'c> {
    /// The idempotency key: the same in every attempt, after every crash. Hand it to the outside.
    pub const fn key(&self) -> &'c str {
        self.key
    }

    /// Which call under this key this is, from 1, as far as is recorded.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// How long the call may take. It is dropped after that.
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Says what the call has cost, on a counter that the effect named with [`Effect::costs`]: what was reserved is settled with it.
    /// Said twice, it adds up. A call that was not done has cost nothing, whatever it has said.
    pub fn spent(&self, counter: &str, amount: u64) {
        let mut record = self.cx.record();
        let told = record.told.entry(self.key.to_owned()).or_default();
        stepwell_core::budget::add(told, counter, amount);
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({}, attempt {})", self.key, self.attempt)
    }
}

impl<'c> Effect<'c, Unclassified> {
    pub(crate) fn new(cx: &'c Cx, name: &'static str) -> Self {
        Self { cx, terms: Box::new(Terms::of(name)), class: Unclassified, keyed: PhantomData }
    }
}

impl<'c, C, K> Effect<'c, C, K> {
    pub(crate) fn now_keyed(self) -> Effect<'c, C, Keyed> {
        let Self { cx, terms, class, keyed: PhantomData } = self;
        Effect { cx, terms, class, keyed: PhantomData }
    }
}

impl<'c, K> Effect<'c, Unclassified, K> {
    /// Asking again changes nothing outside.
    pub fn read(self) -> Effect<'c, Class, K> {
        self.with_class(Class::Read)
    }

    /// The outside dedupes by the key, for ever.
    pub fn idempotent(self) -> Effect<'c, Class, K> {
        self.with_class(Class::Idempotent(None))
    }

    /// The outside dedupes by the key for this long. A call that may have happened longer ago is not repeated: the run is
    /// parked with the question. One that is repeated gives up waiting before the window is over, so that it cannot land later.
    pub fn idempotent_for(self, window: Duration) -> Effect<'c, Class, K> {
        self.with_class(Class::Idempotent(Some(millis(window))))
    }

    fn with_class<D>(self, class: D) -> Effect<'c, D, K> {
        let Self { cx, terms, class: Unclassified, keyed } = self;
        Effect { cx, terms, class, keyed }
    }
}

/// Classes that act on the world for good. They need a key, and their intent is written before the call: one write more.
impl<'c> Effect<'c, Unclassified, Keyed> {
    /// The outside dedupes nothing, but can be asked whether a key has happened: by `ask`, which is called when an earlier
    /// call may have happened, and never before that call can no longer land ([`Effect::settle_delay`]).
    ///
    /// ```
    /// # use stepwell::prelude::*;
    /// # async fn pay(key: &str) -> Result<String, std::io::Error> { Ok(key.to_string()) }
    /// # async fn find(key: &str) -> Result<Option<String>, std::io::Error> { Ok(None) }
    /// # async fn step(cx: &Cx) -> Result<(), StepError> {
    /// let paid = cx.effect("pay").key("order-7")
    ///     .reconcile(async |call| match find(call.key()).await {
    ///         Ok(Some(payment)) => Ok(Asked::Happened(payment)),
    ///         Ok(None) => Ok(Asked::Absent),
    ///         Err(error) => Err(error),
    ///     })
    ///     .call(|call| pay(call.key())).await?;
    /// # Ok(()) }
    /// ```
    pub fn reconcile<A, Fut>(self, ask: A) -> Effect<'c, Reconcile<A>, Keyed>
    where
        A: FnOnce(Call<'c>) -> Fut,
    {
        self.with_class(Reconcile { ask, settle_delay: SETTLE_DELAY_DEFAULT })
    }

    /// The outside promises nothing. It is called once; when nobody knows whether that call happened, a person says so.
    ///
    /// Without a key there is no such class:
    ///
    /// ```compile_fail,E0599
    /// # use stepwell::prelude::*;
    /// # async fn send(text: &str) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn step(cx: &Cx) -> Result<(), StepError> {
    /// cx.effect("letter").once().call(|_| send("dear customer")).await?;
    /// # Ok(()) }
    /// ```
    pub fn once(self) -> Effect<'c, Class, Keyed> {
        self.with_class(Class::Once)
    }
}

impl<A> Effect<'_, Reconcile<A>, Keyed> {
    /// For how long after its deadline a request may still be on its way: in a proxy, in the outside's own queue. The outside
    /// is asked only after that, since what is absent now may not be then. Default: 10 seconds.
    pub fn settle_delay(mut self, delay: Duration) -> Self {
        self.class.settle_delay = delay;
        self
    }
}

impl<'c, C, K> Effect<'c, C, K> {
    /// Makes the call, unless its result is recorded already.
    ///
    /// The closure is called at most once; its future borrows freely from the workflow and the state. What its error says
    /// about the outside is a [`CallError`]; any other error counts as "may have happened".
    ///
    /// # Errors
    /// See [`EffectError`]. Return it with `?`, or handle it.
    pub async fn call<T, E, F, Fut, Asking, AskError>(self, make: F) -> Result<T, EffectError>
    where
        // Here and not on the `impl`: only so does the compiler say what is missing.
        C: Classified<'c, T, Asking = Asking, Error = AskError>,
        Asking: Future<Output = Result<Asked<T>, AskError>> + Send,
        AskError: Into<CallError>,
        T: Serialize + DeserializeOwned + Send,
        E: Into<CallError>,
        F: FnOnce(Call<'c>) -> Fut + Send,
        Fut: Future<Output = Result<T, E>> + Send,
        K: Send,
    {
        let Self { cx, terms, class: asks, keyed: _ } = self;
        let deadline = terms.deadline;
        let effect = Known::of(cx, *terms, asks.class(), asks.settle_delay())?;
        let (name, class, key) = (effect.name, effect.class, effect.key.as_str());

        // Before the first await: what is looked up must not be overtaken by a call beside this one.
        let _in_flight = effect.take_off()?;
        let before = effect.recorded().await?;
        if let Some(record) = &before
            && let Some(result) = effect.answer(record).await
        {
            return result;
        }
        let attempts = before.as_ref().map_or(0, |record| record.attempts);
        let mut open = effect.left_open(before.as_ref());
        if let Some(left) = open.as_ref().filter(|_| class.needs_intent()) {
            let call = Call { cx, key, attempt: attempts, deadline };
            if let Some(result) = effect.look(asks, left, call).await? {
                let costs = before.as_ref().map(|record| record.costs.clone()).unwrap_or_default();
                return effect.succeeded(attempts, left.until, costs, result);
            }
            open = None;
        }
        if let Some(result) = effect.claim().await? {
            return Ok(result);
        }
        let deadline = effect.may_dispatch(before.as_ref(), open.as_ref(), deadline)?;
        let (attempt, begun) = (attempts + 1, cx.host.now());
        let until = begun.plus(deadline);
        let since = open.as_ref().map_or(begun, |open| open.since);
        // What a read may have cost before is gone; what acts once costs once.
        let sunk = before.as_ref().filter(|_| class == Class::Read).map(|record| record.costs.clone());
        let this = Made { attempt, at: begun, until, open, sunk: sunk.unwrap_or_default() };
        effect.clear_to_call(&this, since, before.as_ref()).await?;
        // The lease lasts until then, maybe no longer: what a slow store took of the time is the call's loss.
        let deadline = until.since(cx.host.now());
        if deadline.is_zero() {
            effect.restore(before.as_ref());
            return Err(HostError::Passing(format!("effect {name}: the lease was extended too late to call")).into());
        }

        // Written down as unknown before it starts: if the step is dropped meanwhile, that is the truth.
        let in_flight = Outcome::Unknown { since, evidence: IN_FLIGHT.into() };
        effect.note(attempt, Some(until), effect.reserved(&this), in_flight)?;
        cx.record().used.effects_made += 1;
        let call = Call { cx, key, attempt, deadline };
        let watched = effect.goes_out(Goes::Call);
        let answer = within(cx, deadline, make(call)).await;
        effect.over(Goes::Call, watched, answer.is_some());
        match answer {
            Some(Ok(result)) => effect.succeeded(attempt, Some(until), effect.settled(&this), result),
            Some(Err(error)) => Err(effect.failed(this, error.into())),
            None => Err(effect.failed(this, CallError::unknown(format!("no answer within {deadline:?}")))),
        }
    }
}
