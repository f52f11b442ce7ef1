//! libFuzzer's side of `stepwell_fuzz::checkpoint`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stepwell_fuzz::checkpoint::checkpoint(bytes));
