//! libFuzzer's entry: see `fuzz::statements`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::statements::run(bytes));
