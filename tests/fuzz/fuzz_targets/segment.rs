//! libFuzzer's side of `stepwell_fuzz::segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| stepwell_fuzz::segment::segment(bytes));
