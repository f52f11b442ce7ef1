//! Serves the API.

fn main() {}
