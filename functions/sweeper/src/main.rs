//! Wakes what is due, on a schedule.

fn main() {}
