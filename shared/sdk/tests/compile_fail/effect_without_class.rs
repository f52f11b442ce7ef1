//! `.read()`, or another class, is missing.
use stepwell::prelude::*;

async fn step(cx: &Cx) -> Result<String, StepError> {
    Ok(cx.effect("fetch").call(|_| fetch("https://example.com")).await?)
}

async fn fetch(url: &str) -> Result<String, CallError> {
    Ok(url.to_string())
}

fn main() {}
