//! Works on runs, a batch of messages at once.

fn main() {}
