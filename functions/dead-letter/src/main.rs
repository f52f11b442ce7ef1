//! Looks at what the queue has given up.

fn main() {}
