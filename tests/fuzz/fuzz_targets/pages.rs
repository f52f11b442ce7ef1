//! libFuzzer's side of `stepwell_fuzz::pages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stepwell_fuzz::pages::pages(bytes));
