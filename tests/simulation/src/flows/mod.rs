//! The workflows of the world. Each ends with what it has made, so that a checker can say whether that is right.

mod order;
mod small;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use stepwell::{Call, Cx, Registry, RetryPolicy, Secret, StepPolicy};
use stepwell_testkit::broken::{SECRET, SECRET_NAME};

pub(crate) use order::{ANSWER, Asks, First, Older, Order, OrderOutput, PAGE_LENGTH, Second};
pub(crate) use small::{Grant, GrantOutput, Inbox, InboxOutput, Letters, NOTE, Nap, NapOutput, Naps};

use crate::dice::{Deploy, secs};
use crate::outside::{Caller, Request};
use crate::tape::Promise;

/// The token that every call carries. It may never be read anywhere but outside.
static TOKEN: LazyLock<Option<Secret>> = LazyLock::new(|| Secret::new(SECRET_NAME, SECRET.to_owned()).ok());

/// Makes the secret one, before anything could write it.
pub(crate) fn cover() -> bool {
    TOKEN.is_some()
}

/// The workflows of a deployment, as one process has them.
pub(crate) fn registry(deploy: Deploy, caller: &Caller) -> Arc<Registry> {
    let small = Registry::new().with(Nap(caller.clone())).with(Inbox(caller.clone())).with(Grant(caller.clone()));
    Arc::new(match deploy {
        Deploy::First => small.with(Order::<First>::new(caller.clone())),
        Deploy::Older => small.with(Order::<Older>::new(caller.clone())),
        Deploy::Second => small.with(Order::<Second>::new(caller.clone())),
    })
}

/// Steps are tried often: in this world an attempt fails for reasons that have nothing to do with it.
fn often() -> StepPolicy {
    StepPolicy::default().retry(RetryPolicy::default().every(secs(2)).max_attempts(1_000)).timeout(secs(100))
}

/// A call of an effect, as the outside sees it.
fn request(cx: &Cx, name: &'static str, call: Call<'_>, promise: Promise, parameters: &str) -> Request {
    Request {
        run: cx.run().clone(),
        name,
        key: call.key().to_owned(),
        keyed: true,
        promise,
        window: false,
        parameters: parameters.to_owned(),
        deadline: call.deadline(),
    }
}

const QUICK: Duration = secs(8);
