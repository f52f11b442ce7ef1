//! libFuzzer's side of `stepwell_fuzz::names`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stepwell_fuzz::names::names(bytes));
