//! Works on runs, a batch of messages at once.

use std::env;
use std::process::ExitCode;

use stepwell_samples::Outside;

fn main() -> ExitCode {
    // Where the samples call. Without an address they call in vain, and the other workflows are none the worse.
    let outside = Outside::from_lookup(|name| env::var(name).ok());
    // This line is where your own workflows go: the registry of your crate, here and in the other of `runner` and `api`.
    let registry = stepwell_samples::registry(&outside);
    stepwell_lambda::runner(registry)
}
