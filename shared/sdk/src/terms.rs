//! Under which terms an effect is made: its key, its parameters, an approval, what it costs, how it is taken back.

use core::fmt;
use core::time::Duration;

use serde::Serialize;
use stepwell_core::budget::Amounts;
use stepwell_core::{Digest, Json, RetryPolicy};

use crate::effect::{Effect, Keyed};
use crate::{FingerprintError, fingerprint};

/// How long a call may take unless [`Effect::deadline`] says otherwise.
const DEADLINE_DEFAULT: Duration = Duration::from_secs(20);

/// All that can be said of an effect but its class.
pub(crate) struct Terms {
    pub(crate) name: &'static str,
    pub(crate) key: Option<String>,
    pub(crate) across_runs: bool,
    pub(crate) parameters: Option<Result<Digest, FingerprintError>>,
    pub(crate) deadline: Duration,
    pub(crate) retry: Option<Box<RetryPolicy>>,
    pub(crate) approved_by: Option<&'static str>,
    /// Two approvals were named, and only one can be used up.
    pub(crate) approved_twice: bool,
    pub(crate) costs: Amounts,
    pub(crate) undo: Option<Result<Json, String>>,
    pub(crate) no_return: bool,
}

impl Terms {
    pub(crate) fn of(name: &'static str) -> Self {
        Self {
            name,
            key: None,
            across_runs: false,
            parameters: None,
            deadline: DEADLINE_DEFAULT,
            retry: None,
            approved_by: None,
            approved_twice: false,
            costs: Amounts::new(),
            undo: None,
            no_return: false,
        }
    }
}

impl<'c, C, K> Effect<'c, C, K> {
    /// Makes it an effect of the run, by this key: coming back to it, in this step or another, returns the recorded result.
    /// Without a key it belongs to this visit of the step.
    pub fn key(mut self, key: impl fmt::Display) -> Effect<'c, C, Keyed> {
        self.terms.key = Some(key.to_string());
        self.now_keyed()
    }

    /// Ties the effect to its parameters: the same key with others is an error, not a second call.
    pub fn with<T: Serialize + ?Sized>(mut self, parameters: &T) -> Self {
        self.terms.parameters = Some(fingerprint(parameters));
        self
    }

    /// How long one call may take; after that its outcome is unknown. Default: 20 seconds.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.terms.deadline = deadline;
        self
    }

    /// How the step is retried when this effect is why it failed. Default: the step's own policy.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.terms.retry = Some(Box::new(policy));
        self
    }

    /// Makes it under the approval of this action that was asked for last, with these parameters: those that were approved.
    ///
    /// Before the call, authority, parameters, version and expiry are looked at again, and the approval is used up in the same write
    /// as the intent: it is good for one effect. Repeating that effect's own call under its key needs no new one.
    ///
    /// ```
    /// # use stepwell::prelude::*;
    /// # #[derive(Serialize)] struct Refund { order: u32, cents: u64 }
    /// # async fn pay_back(key: &str, refund: &Refund) -> Result<String, std::io::Error> { Ok(key.to_string()) }
    /// # async fn step(cx: &Cx, refund: Refund) -> Result<(), StepError> {
    /// let receipt = cx.effect("refund").key(refund.order).idempotent()
    ///     .approved_by("refund", &refund)
    ///     .call(|call| pay_back(call.key(), &refund)).await?;
    /// # Ok(()) }
    /// ```
    pub fn approved_by<T: Serialize + ?Sized>(mut self, action: &'static str, parameters: &T) -> Self {
        self.terms.approved_twice = self.terms.approved_by.is_some();
        self.terms.approved_by = Some(action);
        self.with(parameters)
    }

    /// What one call may cost at most, on this counter: cents, tokens. Reserved with the intent, before the call, against the
    /// workflow's [`budget`](crate::Workflow::budget); settled with what the call says ([`Call::spent`](crate::Call::spent)), or with all of it.
    ///
    /// Calling again under the same key replaces the amount, since the outside acts once; a read that may have happened keeps it.
    pub fn costs(mut self, counter: &str, at_most: u64) -> Self {
        stepwell_core::budget::add(&mut self.terms.costs, counter, at_most);
        self
    }
}

/// What only an effect with a key can promise.
impl<C> Effect<'_, C, Keyed> {
    /// Makes the key unique across all runs of this workflow: whichever run asks first makes the effect. Others get its result once it
    /// has happened; until then they are told so ([`EffectError::Taken`](crate::EffectError::Taken)) and tried again.
    pub fn across_runs(mut self) -> Self {
        self.terms.across_runs = true;
        self
    }

    /// The step that takes it back if the run fails or is cancelled later. It ends with [`undone`](crate::undone), may make effects of its
    /// own, and finds the result to take back with [`Cx::result_to_undo`](crate::Cx::result_to_undo).
    ///
    /// Kept with the intent, before the call. Effects are taken back in reverse order, those that may have happened included. The step is
    /// stored as it is written here, for as long as the run lives: later versions of the workflow have to read it without a migration.
    ///
    /// ```
    /// # use stepwell::prelude::*;
    /// # #[derive(Serialize, Deserialize)] enum At { Ship, Unreserve { order: u32 } }
    /// # async fn reserve(key: &str) -> Result<u32, std::io::Error> { Ok(1) }
    /// # async fn step(cx: &Cx) -> Result<(), StepError> {
    /// let reserved = cx.effect("reserve").key("order-7").idempotent()
    ///     .undo(&At::Unreserve { order: 7 })
    ///     .call(|call| reserve(call.key())).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// Without a key there is nothing that could be taken back once:
    ///
    /// ```compile_fail,E0599
    /// # use stepwell::prelude::*;
    /// # #[derive(Serialize, Deserialize)] enum At { Ship, Unreserve { order: u32 } }
    /// # async fn reserve(key: &str) -> Result<u32, std::io::Error> { Ok(1) }
    /// # async fn step(cx: &Cx) -> Result<(), StepError> {
    /// cx.effect("reserve").idempotent().undo(&At::Unreserve { order: 7 }).call(|call| reserve(call.key())).await?;
    /// # Ok(()) }
    /// ```
    pub fn undo<S: Serialize>(mut self, step: &S) -> Self {
        self.terms.undo = Some(Json::of(step).map_err(|error| error.to_string()));
        self
    }

    /// Once this has happened, nothing that came before it is taken back.
    pub fn point_of_no_return(mut self) -> Self {
        self.terms.no_return = true;
        self
    }
}
