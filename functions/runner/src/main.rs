//! Works on runs, a batch of messages at once.

use std::env;
use std::process::ExitCode;

use stepwell_samples::brief::Outside;

fn main() -> ExitCode {
    let outside = Outside {
        vendors_url: address("STEPWELL_VENDORS_URL", "http://127.0.0.1:4711"),
        mail_url: address("STEPWELL_MAIL_URL", "http://127.0.0.1:4712"),
    };
    // This line is where your own workflows go: the registry of your crate, here and in the other of `runner` and `api`.
    let registry = stepwell_samples::registry(&outside);
    stepwell_lambda::runner(registry)
}

/// Where the sample workflow calls. Without an address it calls in vain, and the other workflows are none the worse.
fn address(variable: &str, usual: &str) -> String {
    env::var(variable).ok().filter(|url| !url.is_empty()).unwrap_or_else(|| usual.into())
}
