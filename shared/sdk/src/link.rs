//! Addresses that the outside calls back at: a signed link that sends one signal, once.

use core::time::Duration;

use stepwell_core::link::{Link, LinkKeys, Nonce, Target};
use stepwell_core::{Digest, SignalName};

use crate::{Cx, Signal, StepError};

impl Cx {
    /// An address at which whoever has it can send this signal to this run, once, within that time: what to give to a service that calls
    /// back, or to put into a mail. `base` is where the API is served; `keys` are the ones that it verifies with.
    ///
    /// It is good while the run is at this step or at the one after it, so make it in the step that ends with
    /// [`wait`](crate::wait())`(..).for_signal(..)`. An attempt that is repeated makes a link for the very same signal, so a service that
    /// was given both is still heard once. The address is a capability: hand it on, and do not keep it in the state.
    ///
    /// ```
    /// use stepwell::prelude::*;
    /// use stepwell::LinkKeys;
    /// const DELIVERED: Signal<bool> = Signal::new("delivered");
    /// # enum At { Delivered }
    /// async fn order(parcel: u32, keys: &LinkKeys, cx: &Cx) -> Result<stepwell::Next<At, ()>, StepError> {
    ///     let back = cx.callback_url(keys, "https://runs.example.com", DELIVERED, days(7))?;
    ///     cx.effect("send").key(parcel).idempotent().call(|call| send(call.key(), parcel, &back)).await?;
    ///     Ok(wait(At::Delivered).for_signal(DELIVERED).within(days(7)))
    /// }
    /// # async fn send(_: &str, _: u32, _: &str) -> Result<(), std::io::Error> { Ok(()) }
    /// ```
    ///
    /// # Errors
    /// A signal whose name cannot be one: no retry helps.
    pub fn callback_url<T>(
        &self,
        keys: &LinkKeys,
        base: &str,
        signal: Signal<T>,
        within: Duration,
    ) -> Result<String, StepError> {
        let name = SignalName::new(signal.name()).map_err(|error| StepError::terminal(error.to_string()))?;
        let visit = self.visiting.visit;
        let parts = [b"callback".as_slice(), self.run().as_str().as_bytes(), name.as_str().as_bytes()];
        let digest = Digest::of_parts(parts.into_iter().chain([visit.0.to_be_bytes().as_slice()]));
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&digest.0[..16]);
        let link = Link {
            run: self.run().clone(),
            target: Target::Signal { name, visit },
            expires: self.now().plus(within),
            nonce: Nonce::of(nonce),
        };
        let token = keys.sign(&link).map_err(|error| StepError::terminal(error.to_string()))?;
        Ok(format!("{}/links/{token}", base.trim_end_matches('/')))
    }
}
