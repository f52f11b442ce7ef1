//! libFuzzer's side of `stepwell_fuzz::link`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stepwell_fuzz::link::link(bytes));
