//! libFuzzer's side of `stepwell_fuzz::edit`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stepwell_fuzz::edit::edit(bytes));
