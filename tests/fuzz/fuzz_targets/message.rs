//! libFuzzer's side of `stepwell_fuzz::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stepwell_fuzz::message::message(bytes));
