//! `.key(..)` is missing.
use stepwell::prelude::*;

async fn step(cx: &Cx) -> Result<(), StepError> {
    Ok(cx.effect("refund").across_runs().idempotent().call(async |_| Ok::<_, CallError>(())).await?)
}

fn main() {}
