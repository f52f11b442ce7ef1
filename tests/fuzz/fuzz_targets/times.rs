//! libFuzzer's side of `stepwell_fuzz::times`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stepwell_fuzz::times::times(bytes));
