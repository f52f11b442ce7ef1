//! libFuzzer's side of `stepwell_fuzz::api`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stepwell_fuzz::api::api(bytes));
